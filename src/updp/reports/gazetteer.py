"""The gazetteer layer: phrases looked for as they stand, each where its longest word does.

Whitelist phrases come out of the same pass, so that "Swan-Ganz" and "left lower lobe" are known to be protected before
anybody asks what "Swan" or "Ganz" might be.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from updp.reports.lexicon import LayerMissing, names, places, read_data, vocabulary, whitelist
from updp.reports.words import Span, Tokens

_PROTECT = "protect"
#: Letters, digits or a sign that open a phrase or stand behind a sign or a space.
_PART = re.compile(r"(?<![^\W_])(?:[^\W\d_]+|\d+|\S)")


class Entry(NamedTuple):
    """What a phrase means when it is met."""

    category: str
    score: float
    capital: bool  # the text must begin with a capital where the phrase begins
    why: str


class Gazetteer:
    """All phrases. ``block`` and ``allow`` are the user's own, from the policy."""

    def __init__(self, block: Iterable[str] = (), allow: Iterable[str] = ()) -> None:
        try:
            table = tomllib.loads(read_data("gazetteer.toml").decode())
            self.generic_heads = frozenset(table["generic_heads"])
            entries: dict[str, Entry] = {}
            city = Entry("location", 0.85, True, "city or county")

            def add(phrase: str, entry: Entry) -> None:
                phrase = " ".join(phrase.lower().split())
                if phrase:
                    entries[phrase] = entry

            known, words = names(), vocabulary()
            for place in places():
                single = " " not in place and "-" not in place
                code = known.get(place, "00U")
                if single and (place in words or code[0] > "0" or code[1] > "0" or len(place) < 4):
                    continue  # the tagger decides from its neighbours
                parts = place.replace("-", " ").split()
                if not single and all(words.get(w, "0") > "1" for w in parts):
                    continue  # "Long Branch", "Green River": too near to plain words
                add(place, city)
            for key, category, score in (
                ("countries", "location", 0.85),
                ("states", "location", 0.9),
                ("institutions", "institution", 0.92),
                ("feasts", "date", 0.9),
                ("feasts_by_capital", "date", 0.85),
            ):
                entry = Entry(category, score, key != "feasts", f"list of {key}")
                for phrase in table[key]:
                    add(phrase, entry)
            for group, terms in whitelist().items():
                # Phrases of plain terms are protected word by word; eponyms only as they stand.
                entry = Entry(_PROTECT, 1.0, False, group)
                for term in terms:
                    if (group == "eponyms" and (" " in term or "-" in term)) or "-" in term or "/" in term:
                        add(term, entry)
            for term in block:
                add(term, Entry("id", 1.0, False, "policy block list"))
            for term in allow:
                add(term, Entry(_PROTECT, 1.0, False, "policy allow list"))
            self._entries = entries
            # A phrase is filed under its longest word: "the" opens many, "netherlands" belongs to few.
            self._filed: dict[str, tuple[tuple[int, str], ...]] = {}
            for phrase in entries:
                part = max(_PART.finditer(phrase), key=lambda part: (part.group().isalpha(), len(part.group())))
                self._filed[part.group()] = (*self._filed.get(part.group(), ()), (part.start(), phrase))
            self.numbers = any(part.isdigit() for part in self._filed)
        except (tomllib.TOMLDecodeError, KeyError) as error:
            raise LayerMissing("the gazetteer table is damaged; reinstall updp") from error

    def phrases(self, word: str) -> Sequence[tuple[int, str]]:
        """The phrases a word in small letters may stand in, each with how far behind its beginning the word begins."""
        if word.isalnum():
            return self._filed.get(word, ())
        return [
            (offset - part.start(), phrase)
            for part in _PART.finditer(word)
            for offset, phrase in self._filed.get(part.group(), ())
        ]

    def find(
        self, text: str, lower: str, tokens: Tokens, sites: Iterable[int]
    ) -> tuple[list[Span], list[tuple[int, int]]]:
        """Phrases that identify, and the spans of protected ones. ``lower`` is ``text`` in small letters, ``sites`` are
        the words to look at, all with :meth:`phrases` among them.
        """
        found: list[Span] = []
        protected: list[tuple[int, int]] = []
        for i in sites:
            for offset, phrase in self.phrases(tokens.words[i].lower()):
                start = tokens.starts[i] - offset
                if start < 0 or not lower.startswith(phrase, start):
                    continue
                end = start + len(phrase)
                if lower[end : end + 1].isalnum() or (start and lower[start - 1].isalnum()):
                    continue
                category, score, capital, why = self._entries[phrase]
                if category == _PROTECT:
                    protected.append((start, end))
                elif not capital or text[start].isupper() or (category != "institution" and text == lower):
                    found.append(Span(start, end, category, score, why))
        return found, protected
