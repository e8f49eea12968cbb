"""Model packs: a folder that fills the five roles.

`pack.toml` says which role is filled by what; weights are safetensors, half precision on disk, float32 in memory.
Every file of ours carries its SHA-256 in `pack.toml` and is checked before anything is loaded. A role may instead
name an adapter (`kind = "open_clip"`, …) and a local path to a model from elsewhere.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from updp.models.roles import AutoencoderRole, ClassifierRole, GeneratorRole, IdentityRole, VlmRole
from updp.core.global_state import seeded
from updp.models.errors import PackError

FORMAT = 1
ROLES = ("autoencoder", "vlm", "generator", "identity", "classifier")
_OUTSIDE = {"open_clip", "diffusers", "torchxrayvision"}


class Pack:
    """An opened pack. Roles are built when first asked for."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path, self.info = path, info
        self.name: str = info["name"]

    def __repr__(self) -> str:
        return f"Pack({self.name!r}, roles={sorted(self.info['roles'])})"

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

    def _weights(self, role: str, module: nn.Module) -> nn.Module:
        import torch
        from safetensors.torch import load_file

        state = load_file(self.path / self._entry(role)["file"])
        try:
            module.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
        except RuntimeError as error:
            raise PackError(f"{role} of pack {self.name} does not fit this version of updp: {error}") from error
        module.requires_grad_(False).eval()
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return module

    def _outside(self, role: str) -> Any:
        from updp.models import adapters

        entry = self._entry(role)
        path = (self.path / entry["path"]).resolve()
        return adapters.load(entry["kind"], role, path, entry.get("config", {}))

    # Fresh layers draw from torch's global generator before they are given their weights, hence ``seeded``.

    @cached_property
    @seeded()
    def autoencoder(self) -> AutoencoderRole:
        if self._entry("autoencoder")["kind"] in _OUTSIDE:
            return self._outside("autoencoder")  # type: ignore[no-any-return]
        from updp.models.autoencoder import Autoencoder

        return self._weights("autoencoder", Autoencoder(**self._entry("autoencoder")["config"]))  # type: ignore[return-value]

    @cached_property
    @seeded()
    def vlm(self) -> VlmRole:
        if self._entry("vlm")["kind"] in _OUTSIDE:
            return self._outside("vlm")  # type: ignore[no-any-return]
        from tokenizers import Tokenizer

        from updp.models.vlm import VisionLanguage

        vlm = VisionLanguage(**self._entry("vlm")["config"])
        self._weights("vlm", vlm)
        vlm.tokenizer = Tokenizer.from_file(str(self.path / self._entry("vlm")["tokenizer"]))
        return vlm

    @cached_property
    @seeded()
    def generator(self) -> GeneratorRole:
        if self._entry("generator")["kind"] in _OUTSIDE:
            return self._outside("generator")  # type: ignore[no-any-return]
        from updp.models.generator import Generator, UNet

        unet = self._weights("generator", UNet(**self._entry("generator")["config"]))
        return Generator(unet, self.autoencoder, self.vlm, self.info["size"])  # type: ignore[arg-type]

    @cached_property
    @seeded()
    def identity(self) -> IdentityRole:
        from updp.models.identity import Identity

        return self._weights("identity", Identity(**self._entry("identity")["config"]))  # type: ignore[return-value]

    @cached_property
    @seeded()
    def classifier(self) -> ClassifierRole:
        if self._entry("classifier")["kind"] in _OUTSIDE:
            return self._outside("classifier")  # type: ignore[no-any-return]
        from updp.models.classifier import Classifier

        return self._weights("classifier", Classifier(**self._entry("classifier")["config"]))  # type: ignore[return-value]


def embedded_packs() -> Path:
    """The folder of packs that ship with the package."""
    return Path(str(resources.files("updp"))) / "packs"


def list_packs(folder: Path | str | None = None) -> list[Pack]:
    """The packs inside the package (or inside `folder`), unverified: for listing."""
    root = embedded_packs() if folder is None else Path(folder)
    return [Pack(toml.parent, _describe(toml)) for toml in sorted(root.glob("*/pack.toml"))]


def load_pack(name_or_path: str | Path, verify: bool = True) -> Pack:
    """Open a pack by the name of an embedded one or by its folder; every file is checked against its hash."""
    path = Path(name_or_path)
    if not (path / "pack.toml").is_file():
        embedded = embedded_packs() / str(name_or_path)
        if len(path.parts) != 1 or not (embedded / "pack.toml").is_file():
            known = ", ".join(pack.name for pack in list_packs()) or "none"
            raise PackError(
                f"no pack {str(name_or_path)!r}: not a folder with pack.toml, nor an embedded pack ({known})"
            )
        path = embedded
    info = _describe(path / "pack.toml")
    if verify:
        for name, expected in info.get("sha256", {}).items():
            file = path / name
            if not file.is_file():
                raise PackError(f"pack {info['name']} lacks {name}: reinstall it")
            if file_digest(file) != expected:
                raise PackError(f"pack {info['name']}: {name} is not the file the pack was made with (wrong SHA-256)")
    return Pack(path, info)


def _describe(toml: Path) -> dict[str, Any]:
    try:
        info = tomllib.loads(toml.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PackError(f"{toml} is not readable as TOML: {error}") from error
    if info.get("format") != FORMAT:
        raise PackError(f"{toml.parent.name} is a pack of format {info.get('format')}; this updp reads {FORMAT}")
    if not isinstance(info.get("name"), str) or not isinstance(info.get("roles"), dict):
        raise PackError(f"{toml} names no pack: 'name' and 'roles' are needed")
    unknown = set(info["roles"]) - set(ROLES)
    if unknown:
        raise PackError(f"{toml} fills roles nobody plays: {', '.join(sorted(unknown))}")
    return info


def file_digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def save_weights(module: nn.Module, path: Path) -> None:
    """Weights in half precision; one that does not fit half precision is an error, not an infinity."""
    import torch
    from safetensors.torch import save_file

    state = {}
    for name, value in module.state_dict().items():
        value = value.detach().cpu().contiguous()
        if value.is_floating_point():
            value = value.half()
            if not torch.isfinite(value).all():
                raise PackError(f"{name} has values that half precision cannot hold")
        state[name] = value
    save_file(state, path)


def write_pack_toml(directory: Path, info: Mapping[str, Any]) -> None:
    """Write `pack.toml` with the hashes of everything in the folder beside it and the card."""
    files = sorted(p for p in directory.rglob("*") if p.is_file() and p.name not in ("pack.toml", "README.md"))
    hashes = {p.relative_to(directory).as_posix(): file_digest(p) for p in files}
    text = to_toml({"format": FORMAT, **{k: v for k, v in info.items() if k != "format"}, "sha256": hashes})
    (directory / "pack.toml").write_text(text, encoding="utf-8")


def to_toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """TOML of plain values, lists and nested tables (the standard library only reads it)."""
    import json

    def key(name: str) -> str:
        return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)

    def plain(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return json.dumps(value, ensure_ascii=False)
        if isinstance(value, list | tuple):
            return "[" + ", ".join(plain(v) for v in value) + "]"
        return "nan" if value != value else repr(value)

    lines = [f"{key(k)} = {plain(v)}" for k, v in table.items() if not isinstance(v, Mapping)]
    for k, v in table.items():
        if isinstance(v, Mapping):
            name = f"{prefix}{key(k)}"
            lines += ["", f"[{name}]", to_toml(v, f"{name}.").rstrip("\n")]
    return "\n".join(lines) + "\n"
