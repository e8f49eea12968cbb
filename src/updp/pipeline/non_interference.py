"""Non-interference: the proof that an image which leaves does not depend on the pixels that came.

A setting of a method may promise that it reads no pixels (`updp.methods.base.reads_pixels`). The pipeline tests the
promise on a keyed sample of every shard: the image is made again from the same record with the pixels of another
patient's image in place of its own. If both are equal, the released image reveals of its patient what the record
reveals, and nothing else. One image that differs breaks the promise for the whole release.

The pixels still decide whether an image can be read at all and whether its burned-in text is in doubt: the proof is of
what leaves, not of what is kept back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from updp.core.keys import Key
    from updp.core.record import Study
    from updp.pipeline.stations import Stopped

#: One record in so many is made again; at least one of every shard.
ONE_IN = 32

Make = Callable[[list["Study"]], list["Study | Stopped"]]


def sample(studies: Sequence[Study], key: Key) -> list[int]:
    """The records of a shard that are made again. Without the key nobody knows which."""
    order = sorted(range(len(studies)), key=lambda i: key.digest("non-interference", studies[i].film_id))
    return sorted(order[: -(-len(studies) // ONE_IN)])


def check(studies: Sequence[Study], made: Sequence[Study | Stopped], make: Make, key: Key) -> tuple[int, int]:
    """How many records were made again from other pixels, and how many came out different."""
    chosen = sample(studies, key)
    differed = 0
    for i in chosen:
        swapped = make([studies[i].but(pixels=_foreign(studies, i))])
        # A batch of another size may round otherwise, whatever the pixels: then both are made alone and compared.
        if not _equal(made[i], swapped[0]) and not _equal(make([studies[i]])[0], swapped[0]):
            differed += 1
    return len(chosen), differed


def _foreign(studies: Sequence[Study], i: int) -> NDArray[np.float32]:
    """The image of another patient of the shard, else this one's inverted and upside down."""
    own = studies[i]
    assert own.pixels is not None
    for step in range(1, len(studies)):
        other = studies[(i + step) % len(studies)]
        if other.patient_id != own.patient_id and other.pixels is not None:
            return other.pixels
    return np.ascontiguousarray(1 - own.pixels[::-1])


def _equal(first: Study | Stopped, second: Study | Stopped) -> bool:
    """Whether two results say the same: the same image and decisions, or the same refusal."""
    one, two = getattr(first, "pixels", None), getattr(second, "pixels", None)
    if one is None or two is None:
        return one is two and first == second
    same = one.shape == two.shape and bool(np.array_equal(one, two))
    return same and first.notes.get("decided") == second.notes.get("decided")  # type: ignore[union-attr]
