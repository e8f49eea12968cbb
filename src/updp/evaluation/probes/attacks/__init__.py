"""Attackers: what an adversary who adapts can learn from a release. One file an attack, one Protocol (``base.Attack``).

They run inside the hospital, on an ``Exhibit``: the adversary learns on the patients of the train split and is scored
on the others (the protocol of Packhäuser et al. 2022, arXiv 2103.08562, with adversaries that know the method).
"""

from __future__ import annotations

from collections.abc import Sequence

from updp.core.cache import Cache, FolderCache
from updp.evaluation.probes.attacks.base import Attack, Budget

__all__ = ["NAMES", "Attack", "Budget", "Cache", "FolderCache", "attacks"]

#: Every attack, in the order in which they run: the first fill the cache for those after them.
NAMES = ("verification", "retrieval", "identification", "attributes", "reconstruction", "membership", "text")


def attacks(names: Sequence[str] | None = None) -> list[Attack]:
    """The attacks of these names (all of them by default), in a fixed order; they share what they compute."""
    if names is not None and (unknown := sorted(set(names) - set(NAMES))):
        raise ValueError(f"no attack {', '.join(unknown)}; there are {', '.join(NAMES)}")
    from updp.core.cache import MemoryCache
    from updp.evaluation.probes.attacks.attributes import Attributes
    from updp.evaluation.probes.attacks.identification import Identification
    from updp.evaluation.probes.attacks.membership import Membership
    from updp.evaluation.probes.attacks.reconstruction import Reconstruction
    from updp.evaluation.probes.attacks.retrieval import Retrieval
    from updp.evaluation.probes.attacks.text import Text
    from updp.evaluation.probes.attacks.verification import Verification

    shelf = MemoryCache()
    every: list[Attack] = [
        Verification(shelf),
        Retrieval(shelf),
        Identification(shelf),
        Attributes(shelf),
        Reconstruction(shelf),
        Membership(shelf=shelf),
        Text(),
    ]
    return [attack for attack in every if names is None or attack.name in names]
