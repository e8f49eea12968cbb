"""How far luck goes: bounds that a right figure leaves less than one time in a million, whatever the seed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import beta, binom, norm

from updp.core.measurement import Measurement

#: How often a right figure may fall outside.
LUCK = 1e-6
#: The same in standard errors of a normal figure, both sides: 4.9.
ERRORS = float(norm.isf(LUCK / 2))


def hits_within(hits: int, trials: int, least: float, most: float) -> bool:
    """Whether so many hits in independent trials may come from a rate between ``least`` and ``most``."""
    return bool(binom.ppf(LUCK, trials, least) <= hits <= binom.isf(LUCK, trials, most))


def at_chance(m: Measurement) -> bool:
    """Whether a figure may come from its chance level.

    Its standard error is a quarter of its 95 % interval. A rate of few patients is not normal: there the binomial of
    one trial per patient counts as well, which films of one patient and values between 0 and 1 can only narrow.
    """
    assert m.chance is not None
    if "AUC" in m.name or m.chance >= 0.5:
        return near(m, m.chance)
    margin = ERRORS * (m.high - m.low) / 4
    low, high = m.chance - margin, m.chance + margin
    low = min(low, float(binom.ppf(LUCK, m.n, m.chance)) / m.n)
    high = max(high, float(binom.isf(LUCK, m.n, m.chance)) / m.n)
    return low <= m.value <= high


def near(m: Measurement, truth: float) -> bool:
    """Whether a figure may come from ``truth``: nearer than 4.9 standard errors (a quarter of its interval)."""
    return m.measured and abs(m.value - truth) <= ERRORS * (m.high - m.low) / 4


def empirical_epsilon(first: Sequence[int], second: Sequence[int], confidence: float = 0.999) -> float:
    """An epsilon that the draws themselves prove, from how often each candidate was drawn under two inputs.

    For each candidate and its complement the log ratio of a lower and an upper bound on its two probabilities
    (Clopper & Pearson, all bounds together at ``confidence``). A mechanism that keeps its epsilon stays below it.
    """
    total = [sum(first), sum(second)]
    wrong = (1 - confidence) / (4 * 2 * len(first))
    best = 0.0
    for counted in zip(first, second, strict=True):
        for seen in (counted, (total[0] - counted[0], total[1] - counted[1])):
            low = [0.0 if k == 0 else float(beta.ppf(wrong, k, n - k + 1)) for k, n in zip(seen, total, strict=True)]
            high = [
                1.0 if k == n else float(beta.ppf(1 - wrong, k + 1, n - k)) for k, n in zip(seen, total, strict=True)
            ]
            for one, other in ((0, 1), (1, 0)):
                if low[one] > 0:
                    best = max(best, math.log(low[one] / high[other]))
    return best
