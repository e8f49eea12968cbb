"""invented-face: what MedSem-DeID begins with, without any network that learned from patients.

A photograph is framed, and the frame is what leaves: hair, clothes and the room stay behind. An ellipse around each eye
is the patient's own; the rest is one of the invented faces of the package, which the record's password chooses, brought
to the colour of the skin around the eyes (``models.face_blend``). No pixel beyond a ring around the eyes enters the
face that is seen. The original is carried in the lowest bits, encrypted (``carried``), for whoever has the password.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from updp.core.global_state import limited
from updp.core.reasons import Reason
from updp.methods import method_info
from updp.methods.base import BadPassword, Deidentified, MethodInfo
from updp.methods.options import Configured, MethodOptions
from updp.methods.strength import resolve_strength

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from updp.core.record import Study

_BATCH = 16


class Framed:
    """What methods share that release a framed face under a password. A subclass writes ``encrypted``."""

    info: ClassVar[MethodInfo]
    password_bits: ClassVar[int] = 256
    options: Any  # with ``recovery`` and ``keep_originals``
    size: Any  # pixels of the frame

    @property
    def keeps_originals(self) -> bool:
        return bool(self.options.keep_originals)

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        from updp.methods.invented_face.passwords import LENGTH

        return self.encrypt(batch, strength, rng, [stream.bytes(LENGTH) for stream in rng])

    def encrypt(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator], passwords: list[bytes]
    ) -> list[Deidentified]:
        import numpy as np

        from updp.domains.face.frame import framed
        from updp.domains.face.landmarks import points_of
        from updp.methods.invented_face.carried import carry

        amount = resolve_strength(self.info, strength)
        out = [Deidentified(None, refused=Reason.FACE_NONE)] * len(batch)
        taken: list[tuple[int, NDArray[np.uint8]]] = []
        for n, study in enumerate(batch):
            points = points_of(study)
            if study.pixels is not None and points is not None:
                photo = np.rint(np.clip(study.pixels, 0, 1) * 255).astype(np.uint8)
                taken.append((n, framed(photo, points, self.size)[0]))
        for start in range(0, len(taken), _BATCH):
            part = taken[start : start + _BATCH]
            words = [passwords[n] for n, _ in part]
            films = self.encrypted(np.stack([photo for _, photo in part]), words, amount)
            for (n, original), word, film in zip(part, words, films, strict=True):
                if self.options.recovery == "carried":
                    film = carry(film, original, word)
                out[n] = Deidentified(film.astype(np.float32) / np.float32(255), {"recovery": self.options.recovery})
        return out

    @abstractmethod
    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        """Framed photographs N×S×S×3 as they leave, but for what they carry."""

    def recover(self, films: list[NDArray[np.uint8]], passwords: list[bytes]) -> list[NDArray[np.uint8]]:
        from updp.methods.invented_face.carried import carried

        if self.options.recovery != "carried":
            raise BadPassword("this release was made without recovery: its originals are in the vault alone")
        return [carried(film, word) for film, word in zip(films, passwords, strict=True)]


class InventedFace(Framed, Configured):
    info: ClassVar[MethodInfo] = method_info("invented-face")

    class Options(MethodOptions):
        side: int = Field(160, ge=32, le=1024, description="Pixels of the released square.")
        recovery: Literal["carried", "none"] = Field(
            "carried", description="Whether the original is carried, encrypted, in the lowest bits."
        )
        keep_originals: bool = Field(
            True, description="The run keeps the exact source file too, encrypted, in its vault: for audits."
        )

    options: Options

    @property
    def size(self) -> int:
        return self.options.side

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        import torch

        from updp.methods.invented_face.passwords import faces_of
        from updp.models.face_blend import blend

        with torch.no_grad(), limited(1):
            own, others = as_tensor(photos), as_tensor(faces_of(passwords, photos.shape[1]))
            return as_eight(blend(own, others, torch.full((len(own),), strength)))


def as_tensor(films: NDArray[np.uint8]) -> Tensor:
    """Photographs N×S×S×3 as N×3×S×S in [0, 1]."""
    import numpy as np
    import torch

    return torch.from_numpy(np.ascontiguousarray(films)).permute(0, 3, 1, 2).float().div_(255)


def as_eight(films: Tensor) -> NDArray[np.uint8]:
    """Films as they are stored."""
    out: NDArray[np.uint8] = (films * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
    return out
