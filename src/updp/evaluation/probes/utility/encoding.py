"""What the pack's findings network sees in a film, kept by content: one pass serves all experiments and attacks.

Judges and captioners learn on maps from the middle of the network, which stays as it is. Its first blocks are
ImageNet's; the others learned from real films of the pack's own training patients, so what is measured is the use of
a release to someone who starts from such a network, not from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache
from updp.models.errors import MissingRequirement

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack


@dataclass(frozen=True)
class Encoded:
    """Row ``i`` of every column is one film."""

    middle: NDArray[np.float16]  # N x 112 x h x w, at 1/32 of what the network looks at
    last: NDArray[np.float16]  # N x 320 x h x w, likewise
    features: NDArray[np.float32]  # N x 1280, below the head: the space of FD-classifier
    probabilities: NDArray[np.float32]  # N x findings of the pack's classifier


def encode(films: NDArray[np.uint8], pack: Pack, cache: Cache | None) -> Encoded:
    """What the pack's classifier sees in these films."""
    from updp.evaluation.probes.attacks.features import encode_films
    from updp.models.backbone import FilmEncoder

    if not isinstance(getattr(pack.classifier, "encoder", None), FilmEncoder):
        raise MissingRequirement(f"the classifier of pack {pack.name} is an outside model: its maps cannot be read")
    return Encoded(**encode_films(films, pack, "classifier", cache))


def encode_released(exhibit: Exhibit, pack: Pack, cache: Cache | None) -> Encoded:
    """The released films of an exhibit, a row an original; rows of films that were kept back hold nothing."""
    there = ~exhibit.kept_back
    seen = encode(exhibit.paired.released, pack, cache)
    if there.all():
        return seen

    def spread(values: NDArray[Any]) -> NDArray[Any]:
        out = np.full((len(there), *values.shape[1:]), np.nan, values.dtype)
        out[there] = values
        return out

    return Encoded(*(spread(getattr(seen, f.name)) for f in fields(Encoded)))
