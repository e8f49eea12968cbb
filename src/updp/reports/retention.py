"""What a report said before cleaning and what it still says after: the other half of de-identification.

Users of de-identified notes complain of findings censored as names ("LEFT ATRIUM: Mild ___"). So every cleaning counts
findings, sides, negations and measurements before and after, and names each whitelist term that went missing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from updp.reports.lexicon import whitelist

KINDS = ("findings", "lateralities", "negations", "measurements")
WORD = re.compile(r"[a-z]+(?:-[a-z0-9]+)*")
MEASUREMENT = re.compile(
    r"(?<![\w.])\d{1,4}(?:\.\d{1,3})?(?:\s?x\s?\d{1,4}(?:\.\d{1,3})?){0,2}\s?-?(?:mm|cm|ml|mg|%|french|degrees)(?![a-z])"
)


@dataclass(frozen=True, slots=True)
class Retention:
    """Counts before and after one cleaning, or many."""

    before: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    after: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    lost: Mapping[str, int] = field(default_factory=dict)  # whitelist term -> how often it went missing

    @property
    def complete(self) -> bool:
        """Whether nothing went missing."""
        return not self.lost and all(self.after[k] >= self.before[k] for k in KINDS)


@lru_cache(maxsize=1)
def _terms() -> tuple[dict[str, str], frozenset[str]]:
    groups = whitelist()
    kinds = {"pathology": "findings", "laterality": "lateralities", "negation": "negations"}
    kind_of = {t: kinds[g] for g in ("pathology", "laterality", "negation") for t in groups[g] if " " not in t}
    # Eponyms are left out: where one was replaced, a person of that name was meant.
    every = frozenset(t for g, terms in groups.items() if g != "eponyms" for t in terms if " " not in t and len(t) > 2)
    return kind_of, every


def count(text: str) -> tuple[Counter[str], Counter[str]]:
    """Occurrences by kind, and of every single whitelist word."""
    kind_of, every = _terms()
    lower = text.lower()
    words = Counter(WORD.findall(lower))
    by_kind: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    for word, n in words.items():
        if word in kind_of:
            by_kind[kind_of[word]] += n
    by_kind["measurements"] = sum(1 for _ in MEASUREMENT.finditer(lower))
    return by_kind, Counter({w: n for w, n in words.items() if w in every})


def compare(before: str, after: str) -> Retention:
    """What of ``before`` is still in ``after``."""
    kinds_before, terms_before = count(before)
    if before == after:
        return Retention(dict(kinds_before), dict(kinds_before))
    kinds_after, terms_after = count(after)
    return Retention(dict(kinds_before), dict(kinds_after), dict(terms_before - terms_after))


def total(parts: Iterable[Retention]) -> Retention:
    """The retention of a corpus."""
    before: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    after: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    lost: Counter[str] = Counter()
    for part in parts:
        before.update(part.before)
        after.update(part.after)
        lost.update(part.lost)
    return Retention(dict(before), dict(after), dict(lost))
