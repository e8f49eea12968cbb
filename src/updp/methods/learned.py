"""What methods with networks share: the pack, films as one batch, and weights bound to the pack they learned with.

A subclass writes one function, films to films; batching, refusals and the method's weights are here.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from updp.core.global_state import limited, seeded
from updp.core.reasons import Reason
from updp.core.record import Study
from updp.domains.chest import FIRST_METHOD_WEIGHTS, FIRST_PACK, METHOD_WEIGHTS, PACK
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import BadOption, Configured, MethodOptions
from updp.methods.strength import resolve_strength

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from updp.models.pack import Pack

#: Roles of a pack that a method's weights depend on; another file in one of them makes the weights meaningless.
BOUND = ("autoencoder", "identity", "classifier", "vlm", "generator", "medical", "space")
#: The pack of method weights that ships with the embedded model pack.
WEIGHTS = METHOD_WEIGHTS


class OnPack(Configured):
    """A method that runs on a model pack. ``make`` is the method; ``decided`` is what a release may say of it."""

    info: ClassVar[MethodInfo]
    placeable: ClassVar[bool] = True  # whether its networks are those of the pack alone, which may be on any device

    class Options(MethodOptions):
        pack: str = Field(PACK, description="Model pack: a name or a folder.")
        device: str = Field("cpu", description="Where the models of the pack compute: cpu, cuda, cuda:1, mps.")
        dtype: Literal["float32", "float16", "bfloat16"] = Field(
            "float32", description="What they compute in.", json_schema_extra={"newer": True}
        )
        batch: int = Field(
            32,
            ge=1,
            description="Films at a time; more are seldom faster, fewer need less memory.",
            json_schema_extra={"newer": True},
        )
        compiled: bool = Field(
            False, description="Compile them (torch.compile, needs a C++ compiler).", json_schema_extra={"newer": True}
        )

    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        placed = self.options
        if (placed.device, placed.dtype, placed.compiled) != ("cpu", "float32", False):
            from updp.models.placement import Placement

            if not self.placeable:
                raise BadOption(
                    "the networks of this method compute on the CPU in float32: leave out device, dtype and compiled"
                )
            # A device that is not there must end a run before its first film.
            Placement(placed.device, placed.dtype, placed.compiled)

    @cached_property
    def pack(self) -> Pack:
        from updp.models import load_pack

        placed = self.options
        return load_pack(placed.pack, device=placed.device, dtype=placed.dtype, compiled=placed.compiled)

    @property
    def size(self) -> int:
        return int(self.pack.info.get("size", 256))

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        import numpy as np
        import torch

        amount = resolve_strength(self.info, strength)
        if len(batch) != len(rng):
            raise ValueError(f"{len(batch)} studies but {len(rng)} streams: give one stream per study")
        out = [Deidentified(None, refused=unfit(study)) for study in batch]
        taken = [i for i, one in enumerate(out) if one.refused is None]
        size = self.options.batch
        for start in range(0, len(taken), size):
            part = taken[start : start + size]
            studies = [batch[i] for i in part]
            films = stacked(studies, self.size)
            # One thread: results must not depend on how many cores shared a convolution.
            with torch.no_grad(), limited(1):
                made = self.make(studies, films, amount, [rng[i] for i in part])
            for i, film in zip(part, made.clamp(0, 1), strict=True):
                out[i] = Deidentified(film[0].numpy().astype(np.float32), self.decided(amount))
        return out

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        """New films N×1×S×S for films N×1×S×S."""
        raise NotImplementedError

    def decided(self, strength: float) -> dict[str, Any]:
        """What the manifest may say: settings alone, nothing of the patient."""
        return {}


class Trained(OnPack):
    """A method whose own network is read from a pack of method weights."""

    placeable = False

    class Options(OnPack.Options):
        weights: str = Field(WEIGHTS, description="Pack of method weights: a name or a folder.")

    class FirstOptions(Options):
        """For methods whose shipped weights learned with the first pack. Their films need nothing else of it."""

        pack: str = Field(FIRST_PACK, description="Model pack: a name or a folder.")
        weights: str = Field(FIRST_METHOD_WEIGHTS, description="Pack of method weights: a name or a folder.")

    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # Wrong weights must end a run before its first film, not refuse every film of it.
        check_weights(self.info.name, self.options.weights, self.options.pack)

    @cached_property
    def network(self) -> Any:
        return load_weights(self.info.name, self.options.weights, self.pack, self.build)

    def build(self, config: dict[str, Any]) -> nn.Module:
        """The network of these sizes, without weights."""
        raise NotImplementedError


def unfit(study: Study) -> Reason | None:
    """Why networks trained on frontal films cannot take this one."""
    if study.pixels is None:
        return Reason.IMAGE_MISSING
    return Reason.FILM_NOT_FRONTAL if study.view == "LATERAL" else None


def stacked(studies: list[Study], size: int) -> Tensor:
    """The films of studies as N×1×size×size."""
    import numpy as np
    import torch

    from updp.imaging.square import square

    squares = [square(study.pixels, size, "crop") for study in studies if study.pixels is not None]
    return torch.from_numpy(np.stack(squares))[:, None]


def digests(pack: Pack) -> dict[str, str]:
    """SHA-256 of the files of a pack that method weights are bound to."""
    files: dict[str, str] = pack.info.get("sha256", {})
    roles = pack.info["roles"]
    return {role: files.get(str(roles[role].get("file", "")), "") for role in BOUND if role in roles}


def check_weights(name: str, weights: str, pack: str) -> None:
    """Refuse weights that are not there, or that learned with another pack."""
    from updp.models.errors import PackError
    from updp.models.pack import load_pack

    try:
        bundle, opened = load_pack(weights, verify=False), load_pack(pack, verify=False)
    except PackError as error:
        raise PackError(f"{error}; weights of your own: updp train method {name}") from None
    _entry(name, bundle, opened)


def _entry(name: str, bundle: Pack, pack: Pack) -> dict[str, Any]:
    from updp.models.errors import PackError

    entries: dict[str, dict[str, Any]] = bundle.info.get("methods", {})
    if name not in entries:
        held = ", ".join(entries) or "none"
        raise PackError(
            f"{bundle.name} has no weights of {name} (it has: {held}); train them: updp train method {name}"
        )
    entry = entries[name]
    here = digests(pack)
    for role, digest in entry["trained_with"].items():
        if here.get(role) != digest:
            raise PackError(
                f"weights of {name} in {bundle.name} learned with another {role} than that of pack {pack.name}; "
                f"use the pack they were trained with, or train them again: updp train method {name} --pack {pack.name}"
            )
    return entry


def borrowed(pack: Pack) -> dict[str, Tensor]:
    """Weights of the pack's generator, by the names they have in the network of a method that begins with it."""
    unet: Any = getattr(pack.generator, "unet", None)
    if unet is None:
        return {}
    kept = set(type(unet)(**unet.without_text()).state_dict())
    return {f"unet.{name}": value for name, value in unet.state_dict().items() if name in kept}


@seeded()  # fresh layers draw from torch's global generator
def load_weights(name: str, weights: str, pack: Pack, build: Any) -> Any:
    """The network of a method, every file checked, frozen and in evaluation mode."""
    import torch

    from updp.models.errors import PackError
    from updp.models.pack import load_pack
    from updp.models.weights import load_weights as read_weights

    bundle = load_pack(weights)
    entry = _entry(name, bundle, pack)
    module = build(entry["config"])
    state = read_weights(bundle.path / entry["file"])
    if entry.get("borrows"):
        state = borrowed(pack) | state
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        raise PackError(f"weights of {name} in {bundle.name} do not fit this version of updp: {error}") from error
    module.requires_grad_(False).eval()
    return module.to(memory_format=torch.channels_last)
