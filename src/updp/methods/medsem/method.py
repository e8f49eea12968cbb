"""MedSem-DeID (Tian et al., Medical Manifestation-Aware De-Identification, AAAI 2025).

A photograph is framed, its identity encrypted under a password, and the frame is what leaves: hair, clothes and the
room stay behind. ``recovery`` says how the original comes back: "carried" puts it encrypted into the lowest bits of the
released file, "learned" leaves it to the ID-Decryptor as in the paper, "none" does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from updp.core.global_state import limited
from updp.core.reasons import Reason
from updp.domains.face import METHOD_WEIGHTS, PACK
from updp.methods import method_info
from updp.methods.base import BadPassword, Deidentified, MethodInfo
from updp.methods.learned import Trained
from updp.methods.strength import resolve_strength

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from updp.core.record import Study
    from updp.methods.medsem.network import MedSemNet

_BATCH = 16


class MedSem(Trained):
    info: ClassVar[MethodInfo] = method_info("medsem")
    password_bits: ClassVar[int] = 256

    class Options(Trained.Options):
        pack: str = Field(PACK, description="Model pack of faces: a name or a folder.")
        weights: str = Field(METHOD_WEIGHTS, description="Pack of method weights: a name or a folder.")
        recovery: Literal["carried", "learned", "none"] = Field(
            "carried",
            description="How the original comes back: in the lowest bits, by the ID-Decryptor, or not at all.",
        )
        keep_originals: bool = Field(
            True, description="The run keeps the exact source file too, encrypted, in its vault: for audits."
        )

    options: Options

    @property
    def keeps_originals(self) -> bool:
        return self.options.keep_originals

    def build(self, config: dict[str, Any]) -> MedSemNet:
        from updp.methods.medsem.network import MedSemNet

        return MedSemNet(**config)

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        from updp.methods.medsem.passwords import LENGTH

        return self.encrypt(batch, strength, rng, [stream.bytes(LENGTH) for stream in rng])

    def encrypt(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator], passwords: list[bytes]
    ) -> list[Deidentified]:
        import numpy as np

        from updp.domains.face.frame import framed
        from updp.domains.face.landmarks import points_of
        from updp.methods.medsem.carried import carry

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

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        """Framed photographs N×S×S×3 as the networks make them of others."""
        import torch

        if strength == 0:
            return photos
        films, faces, tokens = self._inputs(photos, passwords)
        amount = torch.full((len(films),), strength)
        medical: Any = self.pack.role("medical")
        with torch.no_grad(), limited(1):
            made = self.network.encrypt(self.pack, films, faces, tokens, amount, medical.features(films))
        return _eight(made)

    def recover(self, films: list[NDArray[np.uint8]], passwords: list[bytes]) -> list[NDArray[np.uint8]]:
        import numpy as np
        import torch

        from updp.methods.medsem.carried import carried

        if self.options.recovery == "none":
            raise BadPassword("this release was made without recovery: its originals are in the vault alone")
        if self.options.recovery == "carried":
            return [carried(film, word) for film, word in zip(films, passwords, strict=True)]
        out: list[NDArray[np.uint8]] = []
        for start in range(0, len(films), _BATCH):
            words = passwords[start : start + _BATCH]
            given, faces, tokens = self._inputs(np.stack(films[start : start + _BATCH]), words)
            with torch.no_grad(), limited(1):
                out += list(_eight(self.network.decrypt(self.pack, given, faces, tokens)))
        return out

    def _inputs(self, photos: NDArray[np.uint8], passwords: list[bytes]) -> tuple[Tensor, Tensor, Tensor]:
        import numpy as np
        import torch

        from updp.methods.medsem.passwords import faces_of, token_of

        def tensor(films: NDArray[np.uint8]) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(films)).permute(0, 3, 1, 2).float().div_(255)

        tokens = torch.from_numpy(np.stack([token_of(word) for word in passwords]))
        return tensor(photos), tensor(faces_of(passwords, photos.shape[1])), tokens


def _eight(films: Tensor) -> NDArray[np.uint8]:
    """Films as they are stored."""
    out: NDArray[np.uint8] = (films * 255).round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().numpy()
    return out
