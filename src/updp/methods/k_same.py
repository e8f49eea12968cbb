"""k-same in identity space (Newton et al. 2005): a film becomes the average of k people who look alike.

A gallery of films is cut once into groups of at least k people who are near to each other in identity space; a released
film is the average of one group. There are as many different released films as groups, so a film tells no more of its
patient than which group was chosen: at most log2(groups) bits, whatever attacker looks at it. The gallery is a folder
of films, by default the pack's invented people: then no real person's film is in the average. k-anonymity in the sense
of the paper would need the released people as the gallery; a run works shard by shard and does not gather them.

``choose="findings"`` picks the group by what the film shows instead of whom (k-same-select, Gross et al. 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from updp.core.record import Study
from updp.methods.base import MethodInfo
from updp.methods.learned import OnPack

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


@dataclass(frozen=True)
class Gallery:
    """One film a person: the films, and where they lie in identity space and by their findings."""

    films: Tensor  # N×1×S×S
    identities: Tensor
    findings: Tensor


class KSame(OnPack):
    info: ClassVar[MethodInfo] = MethodInfo(
        name="k-same",
        summary="the average of k people near in identity space",
        knob="k, from 2 to max_k, geometric",
        default_strength=0.5,
        guarantee="a film tells at most log2(groups) bits of its patient",
        paper="Newton, Sweeney & Malin 2005; Gross et al. 2005",
        domains=("chest",),
        needs=frozenset({"identity", "classifier"}),
    )

    def __init__(
        self,
        pack: str = "cxr256",
        max_k: int = 12,
        choose: Literal["identity", "findings"] = "identity",
        gallery: str | None = None,
    ) -> None:
        super().__init__(pack)
        if max_k < 2:
            raise ValueError("max_k must be at least 2: one person is no company")
        if choose not in ("identity", "findings"):
            raise ValueError("choose is one of identity, findings")
        self.max_k, self.choose, self.folder = max_k, choose, gallery
        self._groups: dict[int, list[Tensor]] = {}

    @cached_property
    def gallery(self) -> Gallery:
        """Films of a folder: the caller's, else the invented people of the pack, one film each."""
        from updp.models.errors import PackError

        folder = self.pack.path / "virtual" if self.folder is None else Path(self.folder)
        seen: dict[str, Path] = {}
        for path in sorted(p for p in folder.glob("*") if p.suffix in (".jpg", ".jpeg", ".png")):
            seen.setdefault(path.stem.split("-")[0], path)  # <person>-<film>
        if not seen:
            raise PackError("k-same needs people to average: give gallery=FOLDER")
        return self._described(_read(list(seen.values()), self.size))

    def _described(self, films: Tensor) -> Gallery:
        import torch

        with torch.no_grad():
            return Gallery(films, self.pack.identity.embed(films), self.pack.classifier.probabilities(films))

    def k(self, strength: float) -> int:
        return round(2 * math.pow(self.max_k / 2, strength))

    def groups(self, k: int) -> list[Tensor]:
        """Gallery rows of each group; cut once for a k."""
        if k not in self._groups:
            self._groups[k] = cut(self.gallery.identities, k)
        return self._groups[k]

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        import torch

        gallery, groups = self.gallery, self.groups(self.k(strength))
        if self.choose == "identity":
            own, places = self.pack.identity.embed(films), gallery.identities
        else:
            own, places = self.pack.classifier.probabilities(films), gallery.findings
        centres = torch.stack([places[rows].mean(0) for rows in groups])
        nearest = torch.cdist(own, centres).argmin(1)
        if self.choose == "identity":
            # A person of the gallery belongs to the group that was cut around them, wherever its centre came to lie.
            member = torch.empty(len(places), dtype=torch.long)
            for number, rows in enumerate(groups):
                member[rows] = number
            nearest = member[torch.cdist(own, places).argmin(1)]
        return torch.stack([gallery.films[groups[int(number)]].mean(0) for number in nearest])

    def decided(self, strength: float) -> dict[str, Any]:
        return {"k": self.k(strength), "groups": len(self.groups(self.k(strength)))}


def cut(points: Tensor, k: int) -> list[Tensor]:
    """Rows in groups of at least k: the loneliest row and its k - 1 nearest, until fewer than 2k are left.

    Starting with the loneliest leaves no far-away remainder whose average would be of unlike people.
    """
    import torch

    if len(points) < k:
        raise ValueError(f"{len(points)} people in the gallery, but k = {k}")
    distance = torch.cdist(points, points)
    left = torch.arange(len(points))
    out = []
    while len(left) >= 2 * k:
        among = distance[left][:, left]
        seed = int(among.mean(1).argmax())
        chosen = among[seed].topk(k, largest=False).indices
        out.append(left[chosen])
        stays = torch.ones(len(left), dtype=torch.bool)
        stays[chosen] = False
        left = left[stays]
    return [*out, left]


def _read(paths: list[Path], size: int) -> Tensor:
    import numpy as np
    import torch
    from PIL import Image

    from updp.imaging.square import square

    squares = [square(np.asarray(Image.open(path).convert("L")), size, "crop") for path in paths]
    return torch.from_numpy(np.stack(squares))[:, None]
