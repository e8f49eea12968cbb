"""k-same in identity space (Newton et al. 2005): a film becomes the average of k people who look alike.

A gallery of films is cut once into groups of at least k people who are near to each other in identity space; a released
film is the average of one group. There are as many different released films as groups, so a film tells no more of its
patient than which group was chosen: at most log2(groups) bits, for any attacker. The gallery is a folder of films, by
default the pack's invented people: then no real person's film is in the average. k-anonymity in the sense of the paper
would need the released people as the gallery; a run works shard by shard and does not gather them.

``choose="findings"`` picks the group by what the film shows instead of whom (k-same-select, Gross et al. 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import OnPack

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


@dataclass(frozen=True)
class Gallery:
    """One film per person: the films, and where they lie in identity space and by their findings."""

    films: Tensor  # N×1×S×S
    identities: Tensor
    findings: Tensor


class KSame(OnPack):
    info: ClassVar[MethodInfo] = method_info("k-same")

    class Options(OnPack.Options):
        max_k: int = Field(12, ge=2, description="People per group at strength 1; a group of one would be the patient.")
        choose: Literal["identity", "findings"] = Field(
            "identity", description="What the group of a film is chosen by."
        )
        gallery: str | None = Field(
            None, description="Folder of films to average; default: the pack's invented people."
        )

    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._groups: dict[int, list[Tensor]] = {}

    @cached_property
    def gallery(self) -> Gallery:
        """Films of a folder: the caller's, else the invented people of the pack, one film each."""
        from updp.models.errors import PackError

        folder = self.pack.path / "virtual" if self.options.gallery is None else Path(self.options.gallery)
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
        return round(2 * math.pow(self.options.max_k / 2, strength))

    def groups(self, k: int) -> list[Tensor]:
        """Gallery rows of each group; computed once per k."""
        if k not in self._groups:
            self._groups[k] = cut(self.gallery.identities, k)
        return self._groups[k]

    def make(self, studies: list[Study], films: Tensor, strength: float, rngs: list[np.random.Generator]) -> Tensor:
        import torch

        gallery, groups = self.gallery, self.groups(self.k(strength))
        if self.options.choose == "identity":
            own, places = self.pack.identity.embed(films), gallery.identities
        else:
            own, places = self.pack.classifier.probabilities(films), gallery.findings
        centres = torch.stack([places[rows].mean(0) for rows in groups])
        nearest = torch.cdist(own, centres).argmin(1)
        if self.options.choose == "identity":
            # A person of the gallery belongs to the group that was cut around them, wherever its centre is.
            member = torch.empty(len(places), dtype=torch.long)
            for number, rows in enumerate(groups):
                member[rows] = number
            nearest = member[torch.cdist(own, places).argmin(1)]
        return torch.stack([gallery.films[groups[int(number)]].mean(0) for number in nearest])

    def decided(self, strength: float) -> dict[str, Any]:
        return {"k": self.k(strength), "groups": len(self.groups(self.k(strength)))}


def cut(points: Tensor, k: int) -> list[Tensor]:
    """Rows in groups of at least k: the most distant row and its k - 1 nearest, until fewer than 2k are left.

    Starting with that row leaves no far-away remainder whose average would be of unlike people.
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
