"""k-same (Newton, Sweeney & Malin 2005): a film becomes the average of k people who look alike.

A gallery of people is cut once into groups of at least k who are near to each other in identity space; a released film
is the average of one group. There are as many different released films as groups, so a film reveals no more of its
patient than which group was chosen: at most log2(groups) bits, for any attacker.

The gallery decides what that means. ``fit`` takes the hospital's own export: groups are of its patients, every film of
a patient goes to the patient's group, and the release is k-anonymous in the sense of the paper: each film it holds is
that of at least k patients. Without ``fit`` the gallery is a folder of pictures, by default the pack's invented people:
then no real person's film is in an average.

``space`` says what is averaged: pixels as in the paper, or latents of the pack's autoencoder, which are decoded.
``choose="findings"`` picks the group by what the film shows instead of whom (k-same-select, Gross et al. 2005).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import MethodInfo
from updp.methods.learned import OnPack
from updp.methods.options import contradiction

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor


@dataclass(frozen=True)
class Gallery:
    """One film per person to average, where people lie in identity space and by their findings, and every film that
    is known of them."""

    films: Tensor  # people × 1×S×S, 8 bit
    identities: Tensor  # of people
    findings: Tensor  # of people
    looks: Tensor  # identities of all films
    owners: Tensor  # which person each is of

    def picture(self, rows: Tensor) -> Tensor:
        """Films of these people in [0, 1]."""
        return self.films[rows].float() / 255


class KSame(OnPack):
    info: ClassVar[MethodInfo] = method_info("k-same")

    class Options(OnPack.Options):
        max_k: int = Field(12, ge=2, description="People per group at strength 1; a group of one would be the patient.")
        choose: Literal["identity", "findings"] = Field("identity", description="What chooses the group of a film.")
        gallery: str | None = Field(
            None, description="Folder of films to average; default: the pack's invented people."
        )
        fit: str | None = Field(
            None, description="The hospital's export: its own patients are grouped, so that k-anonymity holds."
        )
        space: Literal["pixels", "latents"] = Field("pixels", description="What is averaged.")

        @model_validator(mode="after")
        def _check(self) -> Self:
            if self.fit is not None and self.gallery is not None:
                raise ValueError(
                    contradiction("fit", "gallery", "groups are of the hospital's patients or of a folder")
                )
            if self.fit is not None and self.choose == "findings":
                why = "a patient whose films show different findings would be in several groups, without k-anonymity"
                raise ValueError(contradiction("fit", "choose = 'findings'", why))
            return self

    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._groups: dict[int, list[Tensor]] = {}
        self._averages: dict[int, Tensor] = {}

    @cached_property
    def gallery(self) -> Gallery:
        """The hospital's patients, else people of a folder, else the invented people of the pack."""
        import torch

        from updp.models.errors import PackError

        if self.options.fit is not None:
            return self._fitted(self.options.fit)
        folder = self.pack.path / "virtual" if self.options.gallery is None else Path(self.options.gallery)
        seen: dict[str, Path] = {}
        for path in sorted(p for p in folder.glob("*") if p.suffix in (".jpg", ".jpeg", ".png")):
            seen.setdefault(path.stem.split("-")[0], path)  # <person>-<film>
        if not seen:
            raise PackError("k-same needs people to average: give gallery=FOLDER")
        films = _read(list(seen.values()), self.size)
        identities, findings = self._described(films)
        return Gallery(films, identities, findings, identities, torch.arange(len(films)))

    def _fitted(self, export: str) -> Gallery:
        """The patients of an export: a person lies at the mean of their films, and brings the first one to average."""
        import numpy as np
        import torch

        from updp.core.reasons import Refused
        from updp.core.record import Study
        from updp.imaging.grey import grey8
        from updp.imaging.square import square
        from updp.methods.options import BadOption
        from updp.sources import open_source

        source = open_source(export, frontal_only=True)
        people: dict[str, int] = {}
        first: list[Any] = []
        looks, findings, owners = [], [], []
        for study in source:
            if not isinstance(study, Study):
                continue
            try:
                pixels = source.load(study).pixels
            except Refused:
                continue  # it reaches no release either
            if pixels is None:
                continue
            film = torch.from_numpy(grey8(square(np.asarray(pixels), self.size, "crop")))[None]
            seen, shown = self._described(film[None])
            looks.append(seen)
            owners.append(people.setdefault(study.patient_id, len(people)))
            if len(people) > len(first):
                first.append(film)
                findings.append(shown)
        if len(people) < 2:
            raise BadOption("option 'fit': the export has fewer than two patients with a frontal film")
        owner = torch.tensor(owners)
        every = torch.cat(looks)
        sums = torch.zeros(len(people), every.shape[1]).index_add(0, owner, every)
        identities = torch.nn.functional.normalize(sums, dim=1)
        return Gallery(torch.stack(first), identities, torch.cat(findings), every, owner)

    def _described(self, films: Tensor) -> tuple[Tensor, Tensor]:
        import torch

        with torch.no_grad():
            seen = films.float() / 255
            return self.pack.identity.embed(seen), self.pack.classifier.probabilities(seen)

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
            # A person of the gallery belongs to the group that was cut around them, wherever its centre is; a film
            # belongs to the person whose film it is, or is most like.
            member = torch.empty(len(gallery.identities), dtype=torch.long)
            for number, rows in enumerate(groups):
                member[rows] = number
            own = self.pack.identity.embed(films)
            chosen = member[gallery.owners[torch.cdist(own, gallery.looks).argmin(1)]]
        else:
            centres = torch.stack([gallery.findings[rows].mean(0) for rows in groups])
            chosen = torch.cdist(self.pack.classifier.probabilities(films), centres).argmin(1)
        return self.averages(self.k(strength))[chosen]

    def averages(self, k: int) -> Tensor:
        """The film of each group: all that can ever be released at this k; computed once."""
        import torch

        if k not in self._averages:
            made = []
            with torch.no_grad():
                for rows in self.groups(k):
                    held = self.gallery.picture(rows)
                    if self.options.space == "latents":
                        coded = self.pack.autoencoder.encode(held).mean(0, keepdim=True)
                        made.append(self.pack.autoencoder.decode(coded)[0].clamp(0, 1))
                    else:
                        made.append(held.mean(0))
            self._averages[k] = torch.stack(made)
        return self._averages[k]

    def decided(self, strength: float) -> dict[str, Any]:
        said = {"k": self.k(strength), "groups": len(self.groups(self.k(strength))), "space": self.options.space}
        return said | ({"anonymous_among": "the hospital's patients"} if self.options.fit is not None else {})


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

    from updp.imaging.grey import grey8
    from updp.imaging.square import square

    squares = [grey8(square(np.asarray(Image.open(path).convert("L")), size, "crop")) for path in paths]
    return torch.from_numpy(np.stack(squares))[:, None]
