"""The gazetteer layer: phrases looked for as they stand, all at once (Aho-Corasick, one pass over the text).

Whitelist phrases come out of the same pass, so that "Swan-Ganz" and "left lower lobe" are known to be protected before
anybody asks what "Swan" or "Ganz" might be.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from updp.reports.lexicon import LayerMissing, names, places, read_data, vocabulary, whitelist
from updp.reports.patterns import Found

_PROTECT = "protect"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a phrase means when it is met."""

    category: str
    score: float
    capital: bool  # the text must begin with a capital where the phrase begins
    length: int
    why: str


class Gazetteer:
    """All phrases. ``block`` and ``allow`` are the user's own, from the policy; ``cues`` are phrases, inside words too,
    that are only told about.
    """

    def __init__(
        self,
        block: Iterable[str] = (),
        allow: Iterable[str] = (),
        cues: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        try:
            import ahocorasick
        except ImportError as error:
            raise LayerMissing("the gazetteer needs pyahocorasick: pip install pyahocorasick") from error
        try:
            table = tomllib.loads(read_data("gazetteer.toml").decode())
            self.generic_heads = frozenset(table["generic_heads"])
            entries: dict[str, Entry] = {}

            def add(phrase: str, category: str, score: float, why: str, capital: bool = True) -> None:
                phrase = " ".join(phrase.lower().split())
                if phrase:
                    entries[phrase] = Entry(category, score, capital, len(phrase), why)

            known, words = names(), vocabulary()
            for place in places():
                single = " " not in place and "-" not in place
                code = known.get(place, "00U")
                if single and (place in words or code[0] > "0" or code[1] > "0" or len(place) < 4):
                    continue  # the tagger decides from its neighbours
                parts = place.replace("-", " ").split()
                if not single and all(words.get(w, "0") > "1" for w in parts):
                    continue  # "Long Branch", "Green River": too near to plain words
                add(place, "location", 0.85, "city or county")
            for key, category, score in (
                ("countries", "location", 0.85),
                ("states", "location", 0.9),
                ("institutions", "institution", 0.92),
                ("feasts", "date", 0.9),
            ):
                for phrase in table[key]:
                    add(phrase, category, score, f"list of {key}", capital=key != "feasts")
            for group, terms in whitelist().items():
                # Phrases of plain terms are protected word by word; eponyms only as they stand.
                for term in terms:
                    if (group == "eponyms" and (" " in term or "-" in term)) or "-" in term or "/" in term:
                        add(term, _PROTECT, 1.0, group, capital=False)
            for term in block:
                add(term, "id", 1.0, "policy block list", capital=False)
            for term in allow:
                add(term, _PROTECT, 1.0, "policy allow list", capital=False)
            self._automaton = ahocorasick.Automaton()
            for phrase, entry in entries.items():
                self._automaton.add_word(phrase, (entry, cues.get(phrase, ())))
            for phrase, called in cues.items():
                if phrase not in entries:
                    self._automaton.add_word(phrase, (None, called))
            self._automaton.make_automaton()
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise LayerMissing("the gazetteer table is damaged; reinstall updp") from error

    def find(self, text: str, lower: str) -> tuple[list[Found], list[tuple[int, int]], dict[int, list[int]]]:
        """Phrases that identify, the spans of protected ones, and each cue with the places where it ends. ``lower`` is
        ``text`` in small letters.
        """
        found: list[Found] = []
        protected: list[tuple[int, int]] = []
        called: dict[int, list[int]] = {}
        n = len(lower)
        caps: bool | None = None
        for last, (entry, cues) in self._automaton.iter(lower):
            for cue in cues:
                called.setdefault(cue, []).append(last)
            if entry is None:
                continue
            end = last + 1
            start = end - entry.length
            if (start and lower[start - 1].isalnum()) or (end < n and lower[end].isalnum()):
                continue
            if entry.category == _PROTECT:
                protected.append((start, end))
                continue
            if entry.capital and not text[start].isupper():
                if caps is None:
                    caps = text != lower
                if caps or entry.category == "institution":
                    continue
            found.append(Found(start, end, entry.category, entry.score, entry.why))
        return found, protected, called
