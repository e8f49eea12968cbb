"""The exponential mechanism (McSherry & Talwar 2007) in whole numbers: the code has the guarantee of the paper.

A utility in [0, 1] is rounded to one of a fixed number of levels, and every level has a whole number as its weight. A
candidate is drawn with probability weight / sum of weights, by comparing whole random numbers: no probability is zero,
none is rounded, and floating point decides at most which level a utility falls into. For any two inputs the log ratio
of the probabilities of a candidate lies within plus or minus 2 ln(greatest weight / least weight), which is epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Steps between the least and the greatest utility.
STEPS = 255
#: Weight of the least utility. The others are rounded down, by less than one part in this many.
_LEAST = 2**48


@dataclass(frozen=True)
class ExponentialMechanism:
    """``weights`` by level, rising; they depend on epsilon alone, never on what the mechanism is used on."""

    weights: tuple[int, ...]

    @property
    def epsilon(self) -> float:
        """The guarantee of one draw."""
        with localcontext() as context:
            context.prec = 60
            ratio = Decimal(self.weights[-1]) / Decimal(self.weights[0])
            return float(2 * ratio.ln())

    def levels(self, utilities: NDArray[np.float64]) -> NDArray[np.int64]:
        """The level of each utility; what lies outside [0, 1] is clipped, what is no number counts as 0."""
        import numpy as np

        known = np.nan_to_num(np.asarray(utilities, np.float64), nan=0.0, posinf=1.0, neginf=0.0)
        return np.rint(np.clip(known, 0.0, 1.0) * (len(self.weights) - 1)).astype(np.int64)

    def probabilities(self, levels: Sequence[int]) -> list[Fraction]:
        """The exact probability of each candidate."""
        held = [self.weights[level] for level in levels]
        total = sum(held)
        return [Fraction(weight, total) for weight in held]

    def draw(self, levels: Sequence[int], rng: np.random.Generator) -> int:
        """The place of one candidate."""
        held = [self.weights[level] for level in levels]
        left = _below(sum(held), rng)
        for place, weight in enumerate(held):
            left -= weight
            if left < 0:
                return place
        raise AssertionError("a number below the sum of the weights falls on one of them")


@lru_cache(maxsize=64)
def exponential(epsilon: float) -> ExponentialMechanism:
    """The mechanism whose draw is epsilon-differentially private: weights from 1 to e^(epsilon / 2), geometric."""
    if not epsilon > 0:
        raise ValueError("epsilon must be greater than 0")
    with localcontext() as context:
        context.prec = 40 + int(epsilon / 4)  # e^(epsilon / 2) has less than epsilon / 4 digits before the point
        context.rounding = ROUND_FLOOR
        rise = Decimal(epsilon) / 2
        weights = [int(_LEAST * (rise * level / STEPS).exp()) - (level > 0) for level in range(STEPS + 1)]
    return ExponentialMechanism(tuple(max(weight, _LEAST) for weight in weights))


def _below(bound: int, rng: np.random.Generator) -> int:
    """A whole number in [0, bound), each as likely as the other: numbers of as many bits, until one is below."""
    bits = (bound - 1).bit_length()
    while True:
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") >> (-bits % 8)
        if drawn < bound:
            return drawn
