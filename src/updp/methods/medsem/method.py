"""MedSem-DeID (Tian et al., Medical Manifestation-Aware De-Identification, AAAI 2025).

It begins with `invented-face` and learns what is to be changed of that (``network``). ``recovery`` says how the
original comes back: "carried" puts it encrypted into the lowest bits of the released file, "learned" leaves it to the
ID-Decryptor as in the paper (from the released file, not from features), "none" does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from updp.core.global_state import limited
from updp.domains.face import METHOD_WEIGHTS, PACK
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.invented_face.method import Framed, as_eight, as_tensor
from updp.methods.learned import Trained

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from updp.methods.medsem.network import MedSemNet

_BATCH = 16


class MedSem(Framed, Trained):
    info: ClassVar[MethodInfo] = method_info("medsem")

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
    def size(self) -> int:
        return int(self.pack.info["size"])

    def build(self, config: dict[str, Any]) -> MedSemNet:
        from updp.methods.medsem.network import MedSemNet

        return MedSemNet(**config)

    def encrypted(self, photos: NDArray[np.uint8], passwords: list[bytes], strength: float) -> NDArray[np.uint8]:
        import torch

        if strength == 0:
            return photos
        films, faces, tokens = _inputs(photos, passwords)
        net = self.network
        with torch.no_grad(), limited(1):
            made = net.encrypt(self.pack, films, faces, tokens, torch.full((len(films),), strength))
            if self.options.recovery == "learned" and net.veiled:
                made = net.veil(self.pack, made, films, self._secret(passwords))
        return as_eight(made)

    def _secret(self, passwords: list[bytes]) -> Tensor | None:
        from updp.methods.medsem.veil import secret_numbers
        from updp.models.faces import BLOCK

        return secret_numbers(passwords, self.size // BLOCK) if self.network.veiled else None

    def recover(self, films: list[NDArray[np.uint8]], passwords: list[bytes]) -> list[NDArray[np.uint8]]:
        import numpy as np
        import torch

        if self.options.recovery != "learned":
            return super().recover(films, passwords)
        out: list[NDArray[np.uint8]] = []
        for start in range(0, len(films), _BATCH):
            words = passwords[start : start + _BATCH]
            given, faces, tokens = _inputs(np.stack(films[start : start + _BATCH]), words)
            with torch.no_grad(), limited(1):
                back = self.network.decrypt(self.pack, given, faces, tokens, self._secret(words))
                out += list(as_eight(back))
        return out


def _inputs(photos: NDArray[np.uint8], passwords: list[bytes]) -> tuple[Tensor, Tensor, Tensor]:
    import numpy as np
    import torch

    from updp.methods.invented_face.passwords import faces_of, token_of

    tokens = torch.from_numpy(np.stack([token_of(word) for word in passwords]))
    return as_tensor(photos), as_tensor(faces_of(passwords, photos.shape[1])), tokens
