"""What draws of the exponential mechanism spend together, and how a budget is shared over the words of a prompt.

One draw is epsilon-DP and, with it, of bounded range epsilon: the log ratios of its probabilities under two inputs lie
in an interval of that length. Its Rényi divergence of order a is then at most min(a epsilon² / 8, epsilon) (Cesar &
Rogers 2021, arXiv 2004.07223, Lemma 3). Orders add up over draws, also where a draw depends on those before it, and
convert to (epsilon, delta) by Canonne, Kamath & Steinke 2020 (arXiv 2004.00010, Proposition 12). Plain addition is the
other bound, at delta 0; the smaller of both counts.
"""

from __future__ import annotations

import math

#: Orders of the Rényi divergence that are tried.
ORDERS = tuple(1 + 10 ** (i / 20) for i in range(-40, 81))


def renyi(epsilon: float, order: float) -> float:
    """Rényi divergence of one draw, at most."""
    return min(order * epsilon**2 / 8, epsilon)


def spent(epsilon: float, words: int, delta: float) -> tuple[float, float]:
    """Epsilon and delta of ``words`` draws of ``epsilon`` each; ``delta`` may be spent, and is where that helps."""
    plain = words * epsilon
    if delta <= 0:
        return plain, 0.0
    converted = min(
        words * renyi(epsilon, a) + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1) for a in ORDERS
    )
    return (converted, delta) if converted < plain else (plain, 0.0)


def share(budget: float, words: int, delta: float) -> float:
    """The largest epsilon of each of ``words`` draws that together stay within ``budget``."""
    low, high = budget / words, budget  # plain addition, and all of it for one draw
    for _ in range(60):  # bisection: what is spent rises with the draw's epsilon
        middle = (low + high) / 2
        low, high = (middle, high) if spent(middle, words, delta)[0] <= budget else (low, middle)
    return low
