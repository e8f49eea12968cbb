"""The last check of a prompt: what the report filter finds in its words is replaced or taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from updp.methods.updp.blacklist import STOP, Vocabulary


class Guard:
    """The last check of a prompt, as text: what token lists cannot see (re-assembled words, phrases, numbers)."""

    def __init__(self, vocabulary: Vocabulary, find: Callable[[str], Sequence[Any]], tries: int = 5) -> None:
        self.vocabulary = vocabulary
        self.find = find  # spans of PHI in a text
        self.tries = tries

    def faults(self, ids: Sequence[int]) -> set[int]:
        """Places of tokens that must not stand: in a span of the detector, or part of a word that is not allowed."""
        text, spans = self.vocabulary.spell(ids)
        bad = set()
        for found in self.find(text):
            bad |= {place for place, (start, end) in enumerate(spans) if start < found.end and end > found.start}
        start = 0
        for word in text.split(" "):
            end = start + len(word)
            if word and word != STOP and not self.vocabulary.words.allowed(word):
                bad |= {place for place, (left, right) in enumerate(spans) if left < end and right > start}
            start = end + 1
        return bad

    def clean(self, ids: Sequence[int], again: Callable[[int, set[int]], int] | None = None) -> tuple[list[int], int]:
        """The prompt without faults, and how many tokens were dropped.

        ``again(place, taken)`` gives another token for a place, avoiding those tried; after ``tries`` rounds, or
        without it, what is still a fault is dropped. Dropping can bring two words together, so it is checked again.
        """
        ids = list(ids)
        places = list(range(len(ids)))
        taken: dict[int, set[int]] = {}
        for _ in range(self.tries if again else 0):
            bad = self.faults(ids)
            if not bad:
                return ids, 0
            for place in bad:
                tried = taken.setdefault(places[place], set())
                tried.add(ids[place])
                assert again is not None
                ids[place] = again(places[place], tried)
        dropped = 0
        while bad := self.faults(ids):
            dropped += len(bad)
            ids = [index for place, index in enumerate(ids) if place not in bad]
        return ids, dropped
