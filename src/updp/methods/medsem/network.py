"""The networks of MedSem-DeID (Tian et al., AAAI 2025): fusion, ID-Encryptor and ID-Decryptor with a password token.

Tokens are the codes of 8×8 blocks (``models.faces.ColourBlocks``), so decoding adds no loss of its own. In the paper
the encryptor changes the patient's own face (``base`` "own"). Here it begins with the public face of the password
around the patient's eyes (``base`` "public", ``models.face_blend``) and learns what is to be changed of that: a face
that is another person's from the start needs no recogniser to push it away, and a recogniser that took no part in the
training cannot tell either. For the decryptor the original lies under a veil (``veil``) in what leaves; the decryptor
looks at what the password finds there and at what leaves, and says of each block which of the two to believe, and what
is to be changed of it: a wrong password finds noise, and gets the released face back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from updp.methods.invented_face.passwords import TOKEN
from updp.methods.medsem import veil
from updp.models.face_blend import blend, kept_region, seen_region
from updp.models.faces import BLOCK, STRIP
from updp.models.layers import Residual

if TYPE_CHECKING:
    from updp.models.pack import Pack

Base = Literal["public", "own"]
#: A face's code has a spread of about 1, what a wrong password finds one of 2.3. Between them the decryptor believes
#: what was found half, before it has learned better.
_HALF, _STEEP = 1.7, 15.0


class Attention(nn.Module):
    """A transformer block (Vaswani et al. 2017), norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ask, self.give = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        parts = self.ask(self.norm1(x)).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        x = x + self.give(seen.transpose(1, 2).reshape(n, length, width))
        out: Tensor = x + self.narrow(functional.gelu(self.wide(self.norm2(x))))
        return out


class KeyedTransformer(nn.Module):
    """Maps of tokens and a password token to a change of the code; before training it changes nothing."""

    def __init__(self, inputs: int, outputs: int, places: int, width: int, layers: int, heads: int, fused: int) -> None:
        super().__init__()
        self.enter = nn.Conv2d(inputs, width, 1)
        self.fuse = nn.Sequential(*(Residual(width) for _ in range(fused)))
        self.place = nn.Parameter(0.02 * torch.randn(1, places, width))
        self.password, self.strength = nn.Linear(TOKEN, width), nn.Linear(1, width)
        self.blocks = nn.ModuleList(Attention(width, heads) for _ in range(layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, outputs)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def forward(self, maps: Tensor, password: Tensor, strength: Tensor) -> Tensor:
        x = self.fuse(self.enter(maps))
        n, _, height, width = x.shape
        tokens = x.flatten(2).transpose(1, 2) + self.place
        known = torch.stack([self.password(password), self.strength(strength[:, None])], 1)
        tokens = torch.cat([known, tokens], 1)
        for block in self.blocks:
            tokens = block(tokens)
        out: Tensor = self.out(self.norm(tokens[:, 2:]))
        return out.transpose(1, 2).reshape(n, -1, height, width)


class MedSemNet(nn.Module):
    """Encryptor and decryptor; code and medical features come from a pack."""

    spread: Tensor

    def __init__(
        self,
        side: int,
        channels: int,
        medical: Sequence[int],
        base: Base = "public",
        width: int = 128,
        layers: int = 4,
        heads: int = 4,
        fused: int = 3,
        use_medical: bool = True,
        veiled: bool = True,
    ) -> None:
        super().__init__()
        self.config: dict[str, Any] = {
            "side": side, "channels": channels, "medical": list(medical), "base": base, "width": width,
            "layers": layers, "heads": heads, "fused": fused, "use_medical": use_medical, "veiled": veiled,
        }  # fmt: skip
        self.side, self.base, self.use_medical, self.veiled = side, base, use_medical, veiled
        self.channels = channels
        self.register_buffer("spread", torch.ones(channels))  # of the code, over the people of the training
        places = (side // BLOCK) ** 2
        seen = sum(medical) if use_medical else 0
        self.encryptor = KeyedTransformer(2 * channels + seen + BLOCK**2, channels, places, width, layers, heads, fused)
        # One number more with a veil: whether what the password found is to be believed.
        self.decryptor = KeyedTransformer(
            (3 if veiled else 2) * channels, channels + veiled, places, width, layers, heads, 0
        )

    def encrypt(self, pack: Pack, photos: Tensor, faces: Tensor, password: Tensor, strength: Tensor) -> Tensor:
        """Photographs N×3×S×S as they leave, in [0, 1]; ``faces`` are the public faces of the passwords.

        With a public face, pixels of the patient beyond the ring around the eyes enter nothing.
        """
        code: Any = pack.autoencoder
        medical: Any = pack.role("medical")
        begun, seen = photos, torch.ones_like(photos[:, :1])
        if self.base == "public":
            begun, seen = blend(photos, faces, strength), seen_region(strength, self.side)
        region = functional.pixel_unshuffle(kept_region(strength, self.side), BLOCK)
        parts = [code.encode(begun), code.encode(seen * photos), region]
        if self.use_medical:
            parts.append(self.at_tokens(medical.features(begun)))
        change = self.encryptor(torch.cat(parts, 1), password, strength)
        # Weak strengths change little, and none at 0.
        change = change * (2 * strength).clamp(0, 1)[:, None, None, None]
        made: Tensor = begun + code.decode(change) - code.mean[:, None, None]
        return made.clamp(0, 1)

    def veil(self, pack: Pack, made: Tensor, photos: Tensor, secret: Tensor) -> Tensor:
        """Photographs as they leave, with the originals under a veil of secret numbers."""
        code: Any = pack.autoencoder
        inner = made.clamp(veil.MARGIN, 1 - veil.MARGIN)
        hidden: Tensor = code.decode(veil.put(code.encode(inner), code.encode(photos), secret, self.spread))
        return hidden.clamp(0, 1)

    def decrypt(
        self, pack: Pack, released: Tensor, faces: Tensor, password: Tensor, secret: Tensor | None = None
    ) -> Tensor:
        """Originals as far as the networks recover them from released photographs."""
        code: Any = pack.autoencoder
        seen = code.encode(released)
        parts = [seen, code.encode(faces) if self.base == "public" else torch.zeros_like(seen)]
        ones = password.new_ones(len(password))
        if not self.veiled:
            made: Tensor = released + code.decode(self.decryptor(torch.cat(parts, 1), password, ones))
            shown: Tensor = (made - code.mean[:, None, None]).clamp(0, 1)
            return shown
        assert secret is not None
        found = veil.take(seen, secret, self.spread)
        # Codes in spreads: what a wrong password finds is far outside what faces have, and easy to tell.
        scaled = [x / self.spread[:, None, None] for x in (found, *parts)]
        change = self.decryptor(torch.cat(scaled, 1).clamp(-8, 8), password, ones)
        size = scaled[0][:, : len(veil.TIMES)].square().mean((1, 2, 3), keepdim=True).sqrt()
        believed = torch.sigmoid(change[:, -1:] + _STEEP * (_HALF - size))
        back = seen + believed * (found - seen) + change[:, :-1] * self.spread[:, None, None]
        again: Tensor = code.decode(back)
        return again.clamp(0, 1)

    def at_tokens(self, medical: list[Tensor]) -> Tensor:
        """Medical maps of the strip at the places of the tokens, zero outside the strip."""
        cells = self.side // BLOCK
        top, bottom = round(STRIP[0] * cells), round(STRIP[1] * cells)
        pooled = [functional.adaptive_avg_pool2d(m, (bottom - top, cells)) for m in medical]
        return functional.pad(torch.cat(pooled, 1), (0, 0, top, cells - bottom))
