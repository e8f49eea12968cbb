"""Model packs: a folder that fills the five roles.

`pack.toml` says which role is filled by what; weights are safetensors, half precision or eight bits on disk
(`updp.models.weights`), float32 in memory.
Every file of a pack has its SHA-256 in `pack.toml` and is checked before anything is loaded. `model` of a role says
which class of this package fills it. A role may instead name an adapter (`kind = "open_clip"`, …) and a local path to a
model from elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from updp.models.placement import Placement
    from updp.models.roles import AutoencoderRole, ClassifierRole, GeneratorRole, IdentityRole, VlmRole
import tomli_w

from updp.core.global_state import seeded
from updp.core.registry import Registry, unknown
from updp.models.errors import PackError

FORMAT = 1
#: The kind of an entry whose weights are in the pack; other kinds name an adapter.
OWN = "updp"
#: Roles whose large matrices take eight bits on disk, and beginnings of the names of those that do not: small networks,
#: and low-rank factors, whose errors would multiply.
EIGHT_BITS, FINE = ("generator",), ("finisher.", "prior.")
#: The roles, each with the protocol a model in it keeps; other packages add theirs in the group ``updp.roles``.
ROLES: Registry[type] = Registry(
    "role",
    "updp.roles",
    {
        "autoencoder": "updp.models.roles:AutoencoderRole",
        "vlm": "updp.models.roles:VlmRole",
        "generator": "updp.models.roles:GeneratorRole",
        "identity": "updp.models.roles:IdentityRole",
        "classifier": "updp.models.roles:ClassifierRole",
        "segmenter": "updp.models.roles:SegmenterRole",
        "medical": "updp.models.roles:MedicalRole",
        "space": "updp.models.roles:SpaceRole",
    },
    PackError,
)
#: The classes whose weights a pack may hold, as role/model; an entry that names no model means the first of its role.
MODELS: Registry[type[nn.Module]] = Registry(
    "model",
    "updp.models",
    {
        "autoencoder/patches": "updp.models.autoencoder:Autoencoder",
        "autoencoder/lapped": "updp.models.lapped:LappedAutoencoder",
        "vlm/two-towers": "updp.models.vlm:VisionLanguage",
        "generator/unet": "updp.models.generator:UNet",
        "identity/efficientnet": "updp.models.identity:Identity",
        "classifier/efficientnet": "updp.models.classifier:Classifier",
        "autoencoder/colour-blocks": "updp.models.faces:ColourBlocks",
        "identity/face": "updp.models.faces:FaceIdentity",
        "classifier/eyes": "updp.models.faces:EyeClassifier",
        "segmenter/eyes": "updp.models.faces:EyeSegmenter",
        "medical/denoiser": "updp.models.faces:EyeDenoiser",
        "space/linear": "updp.models.face_space:FaceSpace",
    },
    PackError,
)


# Fresh layers draw from torch's global generator before they are given their weights, hence ``seeded``.


def _filled(role: str) -> cached_property[Any]:
    """The model in a role, built when it is first asked for."""
    return cached_property(seeded()(lambda pack: pack._served(pack._role(role))))


class Pack:
    """An opened pack. Roles are built when first asked for."""

    def __init__(self, path: Path, info: dict[str, Any], placement: Placement | None = None) -> None:
        self.path, self.info, self.placement = path, info, placement
        self.name: str = info["name"]
        self._held: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"Pack({self.name!r}, roles={sorted(self.info['roles'])})"

    @property
    def digest(self) -> str:
        """SHA-256 of what decides on the films: models, thresholds and their files, and who trained them. Figures, the
        card and the films of the virtual hospital may change without it."""
        decides = {name: self.info.get(name) for name in ("size", "roles", "methods", "thresholds", "splits")}
        files = {name: value for name, value in self.info.get("sha256", {}).items() if not name.startswith("virtual/")}
        return hashlib.sha256(json.dumps([decides, files], sort_keys=True).encode()).hexdigest()

    def role_digest(self, role: str) -> str:
        """SHA-256 of the weights in a role, for what depends on no other model of the pack."""
        entry = self._entry(role)
        digest: str = self.info.get("sha256", {}).get(entry.get("file"), "")
        return digest

    @property
    def figures(self) -> dict[str, Any]:
        """What `updp bench pack` measured, as written in the card."""
        figures: dict[str, Any] = self.info.get("figures", {})
        return figures

    def _entry(self, role: str) -> dict[str, Any]:
        try:
            entry: dict[str, Any] = self.info["roles"][role]
        except KeyError:
            raise PackError(f"pack {self.name} has no {role}; it has {', '.join(self.info['roles'])}") from None
        return entry

    def _own(self, role: str) -> Any:
        """The module of this role with its weights, frozen and in evaluation mode."""
        import torch

        from updp.models.weights import load_weights

        entry = self._entry(role)
        models = [name.partition("/")[2] for name in MODELS if name.startswith(f"{role}/")]
        name = entry.get("model", models[0] if models else "")
        if name not in models:
            raise PackError(f"{role} of pack {self.name}: {unknown('model', name, models)}")
        state = load_weights(self.path / entry["file"])
        try:
            module: Any = MODELS[f"{role}/{name}"](**entry["config"])
            module.load_state_dict(state)
        except (RuntimeError, TypeError, ValueError) as error:
            raise PackError(f"{role} of pack {self.name} does not fit this version of updp: {error}") from error
        module.requires_grad_(False).eval()
        module.to(memory_format=torch.channels_last)
        return module if self.placement is None else self.placement.place(module)

    def _outside(self, role: str) -> Any:
        from updp.models import adapters

        entry = self._entry(role)
        path = (self.path / entry["path"]).resolve()
        config = dict(entry.get("config", {}))
        if self.placement is not None:
            config |= {"device": str(self.placement.device), "dtype": str(self.placement.dtype).removeprefix("torch.")}
        return adapters.load(entry["kind"], role, path, config)

    def _role(self, role: str) -> Any:
        return self._own(role) if self._entry(role)["kind"] == OWN else self._outside(role)

    def _served(self, model: Any) -> Any:
        return model if self.placement is None else self.placement.served(model)

    def role(self, name: str) -> Any:
        """The model in a role of this name; one that another package added has no attribute of its own here."""
        if name not in ROLES:
            raise PackError(unknown("role", name, ROLES))
        if name not in self._held:
            own = isinstance(getattr(type(self), name, None), cached_property)
            self._held[name] = getattr(self, name) if own else self._served(seeded()(self._role)(name))
        return self._held[name]

    autoencoder: cached_property[AutoencoderRole] = _filled("autoencoder")
    identity: cached_property[IdentityRole] = _filled("identity")
    classifier: cached_property[ClassifierRole] = _filled("classifier")

    @cached_property
    @seeded()
    def vlm(self) -> VlmRole:
        vlm: VlmRole = self._role("vlm")
        if "tokenizer" in self._entry("vlm"):
            from tokenizers import Tokenizer

            vlm.tokenizer = Tokenizer.from_file(str(self.path / self._entry("vlm")["tokenizer"]))
        return self._served(vlm)  # type: ignore[no-any-return]

    @cached_property
    @seeded()
    def generator(self) -> GeneratorRole:
        entry = self._entry("generator")
        if entry["kind"] != OWN:
            return self._served(self._outside("generator"))  # type: ignore[no-any-return]
        from updp.models.generator import Generator
        from updp.models.samplers import Sampling

        try:
            sampling = Sampling(**entry.get("sampling", {}))
        except (TypeError, ValueError) as error:
            raise PackError(f"generator of pack {self.name}: wrong [sampling]: {error}") from error
        # Within the generator nothing crosses the border between devices.
        unet, autoencoder, vlm = self._own("generator"), _at_its_place(self.autoencoder), _at_its_place(self.vlm)
        return self._served(Generator(unet, autoencoder, vlm, self.info["size"], sampling))  # type: ignore[no-any-return]


def _at_its_place(model: Any) -> Any:
    """The model itself, where it computes at another place than its callers."""
    from updp.models.placement import Placed

    return model.model if isinstance(model, Placed) else model


def embedded_packs() -> Path:
    """The folder of packs that ship with the package."""
    return Path(str(resources.files("updp"))) / "packs"


def _installed() -> list[Path]:
    """The folders of installed packs: the package's own, and that of the distribution ``updp-packs``."""
    further = importlib.util.find_spec("updp_packs")
    return [embedded_packs(), *map(Path, (further.submodule_search_locations or ()) if further else ())]


def list_packs(folder: Path | str | None = None) -> list[Pack]:
    """The installed packs (or those inside `folder`), unverified: for listing."""
    roots = _installed() if folder is None else [Path(folder)]
    found: dict[str, Path] = {}
    for toml in (toml for root in roots for toml in sorted(root.glob("*/pack.toml"))):
        found.setdefault(toml.parent.name, toml)
    return [Pack(toml.parent, _describe(toml)) for _, toml in sorted(found.items())]


def load_pack(
    name_or_path: str | Path,
    verify: bool = True,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    compiled: bool = False,
) -> Pack:
    """Open a pack by the name of an installed one or by its folder; every file is checked against its hash.

    Its models compute on ``device`` (cpu, cuda, cuda:1, mps) in ``dtype``; callers give and get tensors on the CPU in
    float32 whatever these are. ``compiled``: through ``torch.compile``, where a model is one network of updp's own.
    """
    placement = None
    if (device, dtype, compiled) != ("cpu", "float32", False):
        from updp.models.placement import Placement

        placement = Placement(device, dtype, compiled)
    path = Path(name_or_path)
    if not (path / "pack.toml").is_file():
        installed = [root / path for root in _installed()] if len(path.parts) == 1 else []
        held = [folder for folder in installed if (folder / "pack.toml").is_file()]
        if not held:
            known = unknown("installed pack", str(name_or_path), (pack.name for pack in list_packs()))
            raise PackError(f"{known}; and it is not a folder with pack.toml; further packs: distribution updp-packs")
        path = held[0]
    info = _describe(path / "pack.toml")
    if verify:
        for name, expected in info.get("sha256", {}).items():
            file = path / name
            if not file.is_file():
                raise PackError(f"pack {info['name']} lacks {name}: reinstall it")
            if file_digest(file) != expected:
                raise PackError(f"pack {info['name']}: {name} is not the file the pack was made with (wrong SHA-256)")
    return Pack(path, info, placement)


def _describe(toml: Path) -> dict[str, Any]:
    try:
        info = tomllib.loads(toml.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackError(f"{toml} is not readable as TOML: {error}") from error
    if info.get("format") != FORMAT:
        raise PackError(f"{toml.parent.name} is a pack of format {info.get('format')}; this updp reads {FORMAT}")
    if not isinstance(info.get("name"), str) or not isinstance(info.get("roles"), dict):
        raise PackError(f"{toml} names no pack: 'name' and 'roles' are needed")
    for role in info["roles"]:
        if role not in ROLES:
            raise PackError(f"{toml}: {unknown('role', role, ROLES)}")
    return info


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def role_entry(role: str, module: nn.Module, directory: Path) -> dict[str, Any]:
    """Write a role's weights (and tokenizer) into a pack's folder; gives its entry in `pack.toml`."""
    from updp.models.weights import save_weights

    own = {cls: name.partition("/")[2] for name, cls in MODELS.members() if name.startswith(f"{role}/")}
    model = own.get(type(module))
    if model is None:
        raise PackError(f"{type(module).__name__} is not a model of the role {role}")
    file = f"{role}.safetensors"
    save_weights(module, directory / file, eight_bits=role in EIGHT_BITS, apart=FINE)
    entry: dict[str, Any] = {"kind": "updp", "model": model, "file": file, "config": module.config}
    if role == "vlm":
        tokenizer: Any = module.tokenizer
        tokenizer.save(str(directory / "tokenizer.json"))
        entry["tokenizer"] = "tokenizer.json"
    return entry


def write_pack_toml(directory: Path, info: Mapping[str, Any]) -> None:
    """Write `pack.toml` with the hashes of everything in the folder beside it and the card."""
    files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name not in ("pack.toml", "README.md"))
    hashes = {p.relative_to(directory).as_posix(): file_digest(p) for p in files}
    table = {"format": FORMAT, **{k: v for k, v in info.items() if k != "format"}, "sha256": hashes}
    (directory / "pack.toml").write_text(tomli_w.dumps(table), encoding="utf-8")


def restate_pack(directory: Path, card: Callable[[Mapping[str, Any]], str], **changes: Any) -> None:
    """Write what is now known of a pack (figures, limits, …) into its `pack.toml` and, by ``card``, its card."""
    info = tomllib.loads((directory / "pack.toml").read_text(encoding="utf-8"))
    info = {name: value for name, value in info.items() if name != "sha256"} | changes
    write_pack_toml(directory, info)
    (directory / "README.md").write_text(card(info), encoding="utf-8")
