"""Where a film is denser than normal ones: three zones of each lung, against normal films of the same source.

Labels mined from reports say "effusion", not which side. Where one side's zone is clearly brighter than the other's,
or both are brighter than in normal films, the film shows it; prompts then say side, zone and size. A rough measure:
it gives no side for most films, and a patient's right is on the film's left. How large a finding is tells better from
how sure a network is of it: with its scores, a third each of the films with a finding are small, moderate and large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from updp.domains.chest.labels import FINDINGS

if TYPE_CHECKING:
    from updp.training.corpus import Corpus

ZONES = ("upper", "mid", "lower")
SIZES = ("small", "moderate", "large")
#: Rows and columns of the zones in a film of 256 pixels; the first column is the patient's right.
_ROWS = ((45, 95), (95, 145), (145, 200))
_COLUMNS = ((40, 108), (148, 216))
_CENTRE = (28, 228)
#: Zones in which a finding can make one side brighter.
_SHOWS = {
    "Effusion": (2,),
    "Atelectasis": (1, 2),
    **dict.fromkeys(("Infiltration", "Consolidation", "Pneumonia", "Mass", "Lung Opacity"), (0, 1, 2)),
    **dict.fromkeys(("Typical Appearance", "Indeterminate Appearance", "Atypical Appearance"), (0, 1, 2)),
}
#: In deviations of normal films: thresholds of naming a side, and of moderate and large.
_ONE_SIDE, _BOTH = (1.3, 1.9, 2.8), (0.7, 1.1, 1.8)
_FEWEST = 10  # least number of normal films that a source needs to be its own reference


@dataclass(frozen=True)
class Place:
    side: str | None  # right, left or bilateral; None where the film does not show it
    zone: str | None  # None where the finding has only one zone to be in
    size: str


def brightness(films: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Mean brightness N×3×2 of each zone (upper, mid, lower × right, left), by the film's own median and range."""
    scale = films.shape[1] / 256
    out = np.zeros((len(films), 3, 2), np.float32)

    def span(ends: tuple[int, int]) -> slice:
        return slice(round(ends[0] * scale), round(ends[1] * scale))

    for start in range(0, len(films), 512):
        part = films[start : start + 512].astype(np.float32)
        centre = part[:, span(_CENTRE), span(_CENTRE)].reshape(len(part), -1)[:, ::7]
        low, middle, high = np.percentile(centre, [10, 50, 90], axis=1)
        for i, rows in enumerate(_ROWS):
            for j, columns in enumerate(_COLUMNS):
                zone = part[:, span(rows), span(columns)].mean((1, 2))
                out[start : start + 512, i, j] = (zone - middle) / (high - low + 8)
    return out


class Zones:
    """The zones of every film of a corpus, in deviations of its source's normal films."""

    def __init__(self, corpus: Corpus, scores: NDArray[np.float32] | None = None) -> None:
        """`scores` N×findings say how sure a network is of each finding in each film."""
        bright = brightness(corpus.films)
        self.sizes = None if scores is None else _thirds(corpus, scores)
        self.bright = np.zeros_like(bright)
        self.difference = np.zeros(bright.shape[:2], np.float32)  # right minus left
        sources = corpus.sources()
        normal = np.array([corpus.observed(row) in ((), ("Negative for Pneumonia",)) for row in range(len(sources))])
        normal &= corpus.splits == "train"
        for source in np.unique(sources):
            here = sources == source
            measure = here & normal if (here & normal).sum() >= _FEWEST else here
            sides = bright[:, :, 0] - bright[:, :, 1]
            self.difference[here] = (sides[here] - np.median(sides[measure], 0)) / (sides[measure].std(0) + 1e-3)
            self.bright[here] = (bright[here] - np.median(bright[measure], 0)) / (bright[measure].std(0) + 1e-3)

    def place(self, row: int, finding: str) -> Place | None:
        """Where the film shows this finding, if it does clearly."""
        zones = _SHOWS.get(finding)
        if zones is None:
            return None
        name = (lambda zone: ZONES[zone]) if len(zones) > 1 else (lambda zone: None)
        one = max(zones, key=lambda zone: abs(self.difference[row, zone]))
        apart = float(self.difference[row, one])
        size = self._told_size(row, finding)
        if abs(apart) > _ONE_SIDE[0]:
            return Place("right" if apart > 0 else "left", name(one), size or _size(abs(apart), _ONE_SIDE))
        two = max(zones, key=lambda zone: self.bright[row, zone].min())
        both = float(self.bright[row, two].min())
        if both > _BOTH[0]:
            return Place("bilateral", name(two), size or _size(both, _BOTH))
        return None if size is None else Place(None, None, size)

    def _told_size(self, row: int, finding: str) -> str | None:
        if self.sizes is None or finding not in FINDINGS:
            return None
        third = int(self.sizes[row, FINDINGS.index(finding)])
        return None if third < 0 else SIZES[third]


def _thirds(corpus: Corpus, scores: NDArray[np.float32]) -> NDArray[np.int8]:
    """For each film with a finding, in which third of the training films of its source with it its score lies; -1 for
    films without it."""
    out = np.full(scores.shape, -1, np.int8)
    sources = corpus.sources()
    for source in np.unique(sources):
        for j in range(scores.shape[1]):
            found = (sources == source) & (corpus.labels[:, j] == 1)
            learned = scores[found & (corpus.splits == "train"), j]
            if len(learned) >= _FEWEST:
                out[found, j] = np.searchsorted(np.quantile(learned, [1 / 3, 2 / 3]), scores[found, j])
    return out


def _size(value: float, edges: tuple[float, float, float]) -> str:
    return SIZES[int(value >= edges[1]) + int(value >= edges[2])]
