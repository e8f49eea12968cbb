"""What the methods in the space of faces share: frame, space, and passwords for those that can be turned back."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from updp.core.global_state import limited
from updp.domains.face import SPACE_PACK
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.invented_face.method import Framed, as_eight, as_tensor
from updp.methods.learned import OnPack

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from updp.core.record import Study
    from updp.models.face_space import FaceSpace

_BATCH = 32


class _Options(OnPack.Options):
    pack: str = Field(SPACE_PACK, description="Model pack of faces with a space: a name or a folder.")


class InSpace(OnPack):
    """A method that changes the components of a face. A subclass writes ``changed``."""

    info: ClassVar[MethodInfo]
    placeable = False

    class Options(_Options):
        pass

    options: Any

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # A pack that is missing must end a run before its first photograph.
        from updp.models.errors import PackError
        from updp.models.pack import load_pack

        found = load_pack(self.options.pack, verify=False)
        if "space" not in found.info["roles"]:
            raise PackError(f"pack {found.name} has no space of faces; {SPACE_PACK} has one (pip install updp-packs)")

    @property
    def size(self) -> int:
        return int(self.pack.info["size"])

    @property
    def space(self) -> FaceSpace:
        found: FaceSpace = self.pack.role("space")
        return found

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        return _Frames(self).deidentify(batch, strength, rng)

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        import torch

        if strength == 0:
            return photos
        with torch.no_grad(), limited(1):
            images = as_tensor(photos)
            return as_eight(self.changed(images, self.space.encode(images), passwords, strength).clamp(0, 1))

    @abstractmethod
    def changed(self, images: Tensor, parts: Tensor, words: list[bytes], strength: float) -> Tensor:
        """Photographs as they leave, N×3×S×S; ``words`` are passwords, or chance."""


class _Frames(Framed):
    """Framing for a method without passwords: the stream's bytes are chance and nothing comes back."""

    class options:
        recovery = "none"
        keep_originals = False

    def __init__(self, method: InSpace) -> None:
        self.method, self.size = method, method.size
        self.info = method.info  # type: ignore[misc]

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        return self.method.encrypted(photos, passwords, strength)


class ReversibleInSpace(Framed, InSpace):
    """One that gives the face back for its password. A subclass writes ``changed`` and ``turned_back``."""

    class Options(_Options):
        keep_originals: bool = Field(
            True, description="The run keeps the exact source file too, encrypted, in its vault: for audits."
        )

        @property
        def recovery(self) -> str:
            return "learned"

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        from updp.methods.invented_face.passwords import check_password

        for word in passwords:
            check_password(word)
        return InSpace.encrypted(self, photos, passwords, strength)

    def recover(self, films: list[NDArray[np.uint8]], passwords: list[bytes]) -> list[NDArray[np.uint8]]:
        """Originals as far as they come back from films of strength 1."""
        import numpy as np
        import torch

        out: list[NDArray[np.uint8]] = []
        for start in range(0, len(films), _BATCH):
            images = as_tensor(np.stack(films[start : start + _BATCH]))
            with torch.no_grad(), limited(1):
                parts = self.space.encode(images)
                back = self.turned_back(images, parts, passwords[start : start + _BATCH])
                out += list(as_eight(back.clamp(0, 1)))
        return out

    @abstractmethod
    def turned_back(self, images: Tensor, parts: Tensor, words: list[bytes]) -> Tensor:
        """Originals of released photographs."""


def normal_numbers(words: list[bytes], use: str, count: int) -> Tensor:
    """Normal random numbers N×count from a hash of each password."""
    import numpy as np
    import torch

    from updp.methods.invented_face.passwords import stream_of

    rows = [stream_of(word, use.encode()).standard_normal(count, np.float32) for word in words]
    return torch.from_numpy(np.stack(rows))
