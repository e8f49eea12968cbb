"""Find what identifies in a report: patterns, gazetteers and a sequence tagger, one opinion made of three.

Fail closed: a layer that cannot be loaded raises :class:`LayerMissing` when the detector is made, so that no report is
ever read with half a detector. Every span says what it is, how sure that is and which layer said so; it indexes the
text that was given, whatever markup or look-alike letters the text holds. Whitelist terms are never part of a span
unless a title, a credential or a header field says that a person is meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from updp.reports.categories import HOLE
from updp.reports.gazetteer import Gazetteer
from updp.reports.lexicon import blacklist, vocabulary, whitelist, word_class
from updp.reports.patterns import INSTITUTION, Found, Patterns, shapes
from updp.reports.tagger import Tagger, Words, features, is_medical, kept_features
from updp.reports.view import plain
from updp.reports.words import Tokens, collapse

#: A word the tagger doubts to be plain by more than this is taken for what it most likely is.
NAME_THRESHOLD = 0.3
_OPENINGS = ("B-NAME", "I-NAME", "B-LOC", "I-LOC", "B-INST", "B-ID")

_TITLES = word_class("name_titles")
_STAFF_TITLES = word_class("staff_titles")
_CREDENTIALS = word_class("name_credentials")
_KIN = word_class("kin")
_LETTERED = word_class("lettered")
_STAFF_CUES = word_class("staff_cues")
_NAME_FIELDS = word_class("name_fields")
_PARTICLES = word_class("particles")
_LABEL_CATEGORY = {
    "NAME": "name",
    "LOC": "location",
    "INST": "institution",
    "UNIT": "unit",
    "ID": "id",
    "DATE": "date",
    "CONTACT": "phone",
    "AGE": "age",
}
_MONTH_OR_DAY = re.compile(
    r"\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun|christmas|easter|thanksgiving|halloween|day|year|eve|"
    r"ramadan|hanukkah|passover",
    re.IGNORECASE,
)


class Span(NamedTuple):
    """Something that identifies, or a hole where something did, in the text as it was given."""

    start: int
    end: int
    category: str
    score: float
    why: str


class Detector:
    """All layers, loaded once. ``extra_block`` and ``extra_allow`` are the policy's own terms."""

    def __init__(self, extra_block: Iterable[str] = (), extra_allow: Iterable[str] = ()) -> None:
        allow = tuple(extra_allow)
        self._patterns = Patterns()
        self._gazetteer = Gazetteer(extra_block, allow, self._patterns.cues)
        self._words = Words(kept_features())
        self._tagger = Tagger()
        groups = whitelist()
        self._eponyms = frozenset(t for t in groups["eponyms"] if " " not in t and "-" not in t)
        black = blacklist()
        self._headings = frozenset(
            t for g, terms in black.items() if g not in ("dates", "demographics") for t in terms if " " not in t
        )
        self._white = frozenset(
            t for g, terms in groups.items() if g != "eponyms" for t in terms if " " not in t
        ) | frozenset(t.lower() for t in allow)

    def spans(self, text: str) -> list[Span]:
        """Every span of ``text``, in order, none overlapping another."""
        view = plain(text)
        return [
            Span(*view.original(start, end), category, round(score, 3), why)
            for start, end, category, score, why in self._find(view.text)
        ]

    # -- layers ------------------------------------------------------------------------------------------------------

    def _find(self, text: str) -> list[Found]:
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose small form is longer would move every place behind it
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        tokens = Tokens(text)
        shaped = shapes(text)
        listed, protected, cues = self._gazetteer.find(text, lower)
        patterns = self._patterns.find(text, tokens, shaped, cues)
        shield = self._shield(tokens, protected)
        if patterns:
            tokens = collapse(tokens, patterns)
        tagged: list[Found] = []
        small = text.islower()
        levels = self._words.levels(tokens.words)
        for first, last in self._words.suspicious(tokens.words, levels):
            tagged += self._tag(text, tokens, levels, first, last, shield, small)
            tagged += self._named(text, tokens, first, last)
        if tagged:
            tagged += self._again(lower, tokens, tagged, shield)
        if not text.isascii():
            # Letters an English detector cannot read are not left in: they may be a name.
            patterns += [
                Found(m.start(), m.end(), "name", 0.6, "letters of another script") for m in _SCRIPT.finditer(text)
            ]
        institutions = self._institutions(shaped[0], cues[INSTITUTION]) if INSTITUTION in cues else []
        return _merge(text, patterns + listed + institutions, tagged)

    def _shield(self, tokens: Tokens, protected: list[tuple[int, int]]) -> frozenset[int]:
        """Places where a word stands that belongs to a protected phrase."""
        if not protected:
            return frozenset()
        return (
            frozenset(s for s in tokens.starts if any(a <= s < b for a, b in protected))
            if len(protected) < 8
            else _inside(tokens, protected)
        )

    def _tag(
        self,
        text: str,
        tokens: Tokens,
        levels: list[int],
        first: int,
        last: int,
        shield: frozenset[int],
        small: bool,
    ) -> list[Found]:
        labels = self._tagger.tag(features(self._words, tokens.words, first, last, small))
        words = tokens.words
        for i, label in enumerate(labels):
            if label == "O" and levels[first + i] == 2 and len(word := words[first + i]) > 3 and word[0].isalpha():
                doubt = 1.0 - self._tagger.certainty("O", i)
                if doubt > NAME_THRESHOLD:
                    best = max(_OPENINGS, key=lambda name: self._tagger.certainty(name, i))
                    inside = i > 0 and labels[i - 1][2:] == best[2:]
                    labels[i] = ("I-" if inside else "B-") + best[2:]
                elif self._stranger(tokens, first + i, doubt):
                    labels[i] = "B-NAME"
        out: list[Found] = []
        i = 0
        while i < len(labels):
            if labels[i] == "O":
                i += 1
                continue
            kind = labels[i][2:]
            j = i + 1
            while j < len(labels) and labels[j] == "I-" + kind and words[first + j] != "\n":
                j += 1
            a, b = first + i, first + j
            score = sum(self._tagger.certainty(labels[k], k) for k in range(i, j)) / (j - i)
            if kind == "NAME":
                a, b = self._stretch(tokens, a, b)
                out += self._name(tokens, a, b, max(score, 0.36), "tagger", shield)
            else:
                found = self._other(text, tokens, a, b, kind, score, shield)
                # What cannot be of that kind may still be a name that stands in it.
                for k in range(i, j) if not found else ():
                    if levels[first + k] == 2 and self._stranger(
                        tokens, first + k, 1.0 - self._tagger.certainty("O", k)
                    ):
                        found += self._name(tokens, first + k, first + k + 1, 0.6, "tagger", shield)
                out += found
            i = j
        return out

    def _stranger(self, tokens: Tokens, i: int, doubt: float) -> bool:
        """A capitalised word that no list knows and that is no slip and no term: denied unless something speaks
        for it.
        """
        word = tokens.words[i]
        lower = word.lower().removesuffix("'s")
        if (
            not word[0].isalpha()
            or word.islower()
            or word.isupper()
            or lower in self._white
            or lower in self._eponyms
            or lower in _NEVER
        ):
            return False
        vocabulary = self._words.vocabulary.get(lower, "0")
        strength = max(self._words.names.get(lower, "00U")[:2])
        previous = tokens.words[i - 1] if i else "\n"
        opens = previous in _SENTENCE_ENDS
        if strength >= "2" and (vocabulary == "0" or (vocabulary == "1" and not opens)):
            return True
        if vocabulary > "0" or len(lower) < 4 or tokens.words[i + 1 : i + 2] == ["-"] or previous == "-":
            return False
        if not opens:
            # Inside a sentence a capital is meant; slips and terms are written small there.
            return doubt > 0.003 and (self._words.sound(lower) >= 0 or not is_medical(lower))
        sound = self._words.sound(lower)
        named = sound > 1 or (sound == 1 and not self._words.is_slip(lower))
        return doubt > 0.02 and named and not is_medical(lower)

    def _other(
        self, text: str, tokens: Tokens, a: int, b: int, kind: str, score: float, shield: frozenset[int]
    ) -> list[Found]:
        a, b = self._edges(tokens, a, b, kind)
        if a >= b:
            return []
        start, end = tokens.starts[a], tokens.ends[b - 1]
        piece = text[start:end]
        words = [w.lower().removesuffix("'s") for w in tokens.words[a:b] if w[0].isalpha()]
        digits = sum(c.isdigit() for c in piece)
        category = _LABEL_CATEGORY[kind]
        medical = all(w in self._white or w in self._eponyms for w in words) if words else False
        if kind in ("LOC", "INST"):
            if medical or any(s in shield for s in tokens.starts[a:b]):
                return []
            known = [self._words.vocabulary.get(w, "0") for w in words]
            if (words and all(k == "3" for k in known)) or score < 0.5:
                return []
            if kind == "INST" and all(w in self._gazetteer.generic_heads or w in _INSTITUTION for w in words):
                return []
            if kind == "LOC" and digits and words:
                category = "address"
            elif kind == "LOC" and digits:
                category = "address" if digits >= 5 else ""
            if kind == "LOC" and len(piece) == 2 and not text[max(0, start - 20) : start].rstrip().endswith(","):
                return []  # two letters are a state behind a comma only
            small = words and all(w.islower() for w in tokens.words[a:b] if w[0].isalpha())
            if kind == "LOC" and small and category == "location" and not set(words) & self._words.place_words:
                return []
        elif kind == "DATE":
            if not _MONTH_OR_DAY.search(piece) or medical:
                return []
            if (digits and digits < 3 and not words) or re.fullmatch(r"\d{1,2}-\d{1,2}", piece):
                return []
            if digits == 0 and (
                len(piece) < 3 or (piece.islower() and piece in ("may", "march", "mar", "sun", "sat", "mon", "wed"))
            ):
                return []
            if re.fullmatch(r"\d{1,2}/\d{1,2}", piece):
                one, two = (int(x) for x in piece.split("/"))
                if not (1 <= one <= 12 and 1 <= two <= 99) or (one <= two <= 10 and score < 0.9):
                    return []
            if re.fullmatch(r"\d{3,}/\d+|\d+/\d{3}", piece):
                return []  # fluids in and out, a blood pressure
            if re.fullmatch(r"\d+", piece) and not re.fullmatch(r"(?:19|20)\d\d|\d{8}", piece):
                return []
            category = (
                "time"
                if re.search(r"\d:\d\d|\d\s?(?:am|pm|hours|hrs)\b", piece, re.IGNORECASE)
                and not re.search(r"[/-]", piece)
                else "date"
            )
        elif kind == "ID":
            if (
                digits < 3
                and not (digits and len(piece) > 4)
                and not (len(words) == 1 and words[0] not in self._words.vocabulary and score > 0.8)
            ):
                return []
            if medical or (re.fullmatch(r"\d{1,4}(?:\.\d+)?", piece) and score < 0.9):
                return []
            if digits == 0:
                category = "username"
        elif kind == "CONTACT":
            if digits < 4 or "/" in piece or (digits < 7 and (words or score < 0.9 or re.search(r"\d-\d", piece))):
                return []
        elif kind == "AGE":
            if not piece.isdigit() or not 90 <= int(piece) <= 130 or score < 0.7:
                return []
        elif kind == "UNIT" and (not digits or medical or score < 0.6):
            return []
        return [Found(start, end, category, score, "tagger")] if category else []

    def _edges(self, tokens: Tokens, a: int, b: int, kind: str) -> tuple[int, int]:
        """A tagged span without signs and plain words at its edges."""
        words = tokens.words
        heads = self._gazetteer.generic_heads if kind == "INST" else frozenset()
        tails = _INSTITUTION if kind == "INST" else frozenset()
        while a < b:
            word = words[a]
            if not (word[0].isalnum() or word in "(+#") or (self._plain_word(word, kind) and word.lower() not in heads):
                a += 1
            else:
                break
        while b > a:
            word = words[b - 1]
            if not (word[-1].isalnum() or word == ")") or (self._plain_word(word, kind) and word.lower() not in tails):
                b -= 1
            else:
                break
        return a, b

    def _plain_word(self, word: str, kind: str) -> bool:
        """Whether a word at the edge of a tagged span says nothing by itself."""
        if not word[0].isalpha():
            return False
        lower = word.lower()
        if kind == "DATE" and _MONTH_OR_DAY.search(word):
            return False
        if kind in ("ID", "CONTACT", "AGE"):
            known = lower in self._words.vocabulary or lower in self._words.black
            return known and not (kind == "ID" and len(word) < 4 and word.isupper())
        if lower in _NEVER or lower in _TITLES:
            return True
        return word.islower() and self._words.vocabulary.get(lower, "0") > "1" and lower not in self._words.place_words

    # -- names -------------------------------------------------------------------------------------------------------

    def _nameable(self, word: str, capital: bool = True) -> bool:
        """Whether ``word`` can be (part of) a name where a name is expected."""
        if not word[0].isalpha():
            return False
        lower = word.lower().removesuffix("'s")
        if lower in _CREDENTIALS or lower in _TITLES or lower in _NEVER:
            return False
        code = self._words.names.get(lower, "00U")
        vocabulary = self._words.vocabulary.get(lower, "0")
        strength = max(int(code[0]), int(code[1]))
        if lower in self._eponyms:
            return True
        if word.islower():
            return (vocabulary < "2" and strength >= 2) or (
                vocabulary == "0" and len(lower) > 2 and lower not in self._white
            )
        if vocabulary < "2":
            return lower not in self._white or strength >= 2
        return strength >= 2 and (lower not in self._white or strength == 3 or not capital)

    def _named(self, text: str, tokens: Tokens, first: int, last: int) -> list[Found]:
        """Names that a title, a credential or a header field announces."""
        out: list[Found] = []
        words = tokens.words
        n = len(words)
        for i in range(first, last):
            lower = words[i].lower()
            if lower not in _ANNOUNCING and len(lower) > 1:
                continue
            if lower in _TITLES and words[i] != "MS" and words[i] != "DO":
                j = i + 1
                if j < n and words[j] == ".":
                    j += 1
                if j < n and words[j].lower() in _TITLES:
                    continue
                if lower in ("dr", "mr", "ms") and not self._title_here(tokens, i):
                    continue
                end = self._run(tokens, j, 4)
                if end > j:
                    out.append(self._found(tokens, j, end, 0.97, f"title {lower}"))
            elif lower in _KIN and i + 1 < n:
                j = i + 2 if words[i + 1] == "," and i + 2 < n else i + 1
                word = words[j]
                if word[0].isalpha() and (not word.islower() or lower == words[i]) and self._relative(word):
                    end = self._run(tokens, j, 2)
                    if end > j:
                        out.append(self._found(tokens, j, end, 0.9, f"after {lower}"))
            elif len(word := words[i]) == 1 and word.isupper() and words[i + 1 : i + 2] == ["."] and i + 2 < n:
                before = words[i - 1].lower() if i else "\n"
                if (
                    before not in _LETTERED
                    and tokens.starts[i + 2] - tokens.ends[i + 1] <= 1
                    and self._unknown_name(words[i + 2])
                ):
                    end = self._run(tokens, i + 2, 2)
                    if end > i + 2:
                        out.append(self._found(tokens, i, end, 0.85, "initial and name"))
            elif words[i] == "," and 0 < i < n - 1 and self._listed(tokens, i):
                end = self._run(tokens, i + 1, 2)
                if end > i + 1:
                    start = i - 1
                    while (
                        start > 1
                        and words[start - 1] == "-"
                        and words[start - 2][0].isupper()
                        and tokens.starts[start] == tokens.ends[start - 1]
                    ):
                        start -= 2
                    out.append(self._found(tokens, start, end, 0.9, "surname, given name"))
            elif (
                lower in ("pt", "patient")
                and i + 1 < n
                and words[i + 1][0].isupper()
                and words[i] != "PATIENT"
                and words[i] != "PT"
            ):
                j = i + 1
                end = self._run(tokens, j, 3)
                if end > j and any(self._unknown_name(w) for w in words[j:end]):
                    out.append(self._found(tokens, j, end, 0.9, "after patient"))
            elif lower in _CREDENTIALS or (lower == "m" and words[i + 1 : i + 4] == [".", "D", "."]):
                if words[i].islower() and lower in ("do", "pa", "rt", "np", "md") and (i == 0 or words[i - 1] != ","):
                    continue
                if (
                    lower in ("pa", "rt", "do", "np")
                    and (i == 0 or words[i - 1] != ",")
                    and not self._words_are_names(tokens, i)
                ):
                    continue
                j = i - 1
                if j >= 0 and words[j] == ",":
                    j -= 1
                start = self._run_back(tokens, j, 4)
                if start <= j and tokens.starts[i] - tokens.ends[j] < 4:
                    out.append(self._found(tokens, start, j + 1, 0.96, f"credential {lower}"))
            elif words[i] == ":" and i and words[i - 1].lower() in _NAME_FIELDS:
                j = i + 1
                while j < n and (words[j].lower().rstrip(".") in _TITLES or words[j] == "."):
                    j += 1
                end = self._run(tokens, j, 5, comma=j == i + 1)
                if end > j and not self._all_words(tokens, j, end):
                    found = self._found(tokens, j, end, 0.95, f"field {words[i - 1].lower()}")
                    tail = _LOGIN_TAIL.match(text, found.end)
                    if tail and tail.end() > found.end and end == j + 1:  # "Transcriptionist: jsmith23"
                        found = Found(found.start, tail.end(), "username", 0.9, found.why)
                    out.append(found)
        return out

    def _relative(self, word: str) -> bool:
        """Whether the word behind "daughter" or "wife" is her name."""
        lower = word.lower()
        strength = max(self._words.names.get(lower, "00U")[:2])
        vocabulary = self._words.vocabulary.get(lower, "0")
        if lower in self._white or lower in _NEVER:
            return False
        if word.islower() or (word.isupper() and len(word) < 6):
            return vocabulary < "2" and strength >= "2"
        return vocabulary < "2" or strength == "3"

    def _listed(self, tokens: Tokens, i: int) -> bool:
        """Whether the comma at ``i`` stands in "SMITH, JOHN": both can be names and nothing else, one is known
        as one.
        """
        one, two = tokens.words[i - 1], tokens.words[i + 1]
        if not (one[0].isalpha() and two[0].isalpha()) or len(one) < 2 or len(two) < 2:
            return False
        if one.islower() or two.islower():
            # In text without capitals only where a line or a field opens, and only before a given name.
            opens = i < 2 or tokens.words[i - 2] in ("\n", ":", "|")
            given = self._words.names.get(two, "00U")[0] >= "2" and self._words.vocabulary.get(two, "0") < "2"
            if not (opens and given and one.islower() and two.islower()):
                return False
        if tokens.starts[i + 1] - tokens.ends[i] > 1 or tokens.starts[i] != tokens.ends[i - 1]:
            return False
        if i > 1 and tokens.starts[i - 1] - tokens.ends[i - 2] == 1 and tokens.words[i - 2][0].isalnum():
            return False  # a list in a sentence
        if self._heads_name(tokens, i + 2) or (
            i > 2 and tokens.words[i - 2] == "." and tokens.words[i - 3].lower() in _TITLES
        ):
            return False
        names, words = self._words.names, self._words.vocabulary
        known = 0
        for word in (one.lower(), two.lower()):
            if word in self._white or word in self._eponyms or word in _NEVER or word in self._headings:
                return False
            strength = max(names.get(word, "00U")[:2])
            if words.get(word, "0") > "1" and strength < "2":
                return False
            known += strength >= "2" or (
                words.get(word, "0") == "0" and one.isupper() and two.isupper() and len(word) > 2
            )
        return (known > 0 and names.get(two.lower(), "00U")[0] >= "1") or known == 2

    def _title_here(self, tokens: Tokens, i: int) -> bool:
        """ "mr" is also magnetic resonance or mitral regurgitation, "dr" digital radiography, "ms" multiple
        sclerosis.
        """
        word = tokens.words[i]
        following = tokens.words[i + 1 : i + 3]
        if following and following[0] == ".":
            following = following[1:]
        if not following or not following[0][0].isalpha():
            return False
        if word in ("MR", "MS", "DR"):
            lower = following[0].lower()
            strength = max(self._words.names.get(lower, "00U")[:2])
            plain = self._words.vocabulary.get(lower, "0") > "0" or lower in self._white
            return self._nameable(following[0]) and (not plain or strength == "3")
        return True

    def _words_are_names(self, tokens: Tokens, i: int) -> bool:
        names = self._words.names
        return i >= 2 and all(max(names.get(w.lower(), "00U")[:2]) >= "2" for w in tokens.words[i - 2 : i])

    def _all_words(self, tokens: Tokens, a: int, b: int) -> bool:
        """Whether a run is nothing but common words ("Attending: Present", "Name: Unknown")."""
        vocabulary, names = self._words.vocabulary, self._words.names
        for word in tokens.words[a:b]:
            lower = word.lower()
            if not lower[0].isalpha() or len(lower) < 2 or lower in self._white:
                continue
            known, strength = vocabulary.get(lower, "0"), max(names.get(lower, "00U")[:2])
            if known < "2" or strength == "3" or (strength == "2" and known == "2"):
                return False
        return True

    def _run(self, tokens: Tokens, at: int, most: int, comma: bool = False) -> int:
        """Where the name that begins at ``at`` ends."""
        words, n = tokens.words, len(tokens)
        end = at
        taken = 0
        while at < n and taken < most:
            word = words[at]
            gap = tokens.starts[at] - tokens.ends[at - 1] if at else 0
            if word == "\n" or (taken and gap > 2):
                break
            if word[0].isalpha():
                if len(word) == 1 and (word.isupper() or words[at + 1 : at + 2] == ["."]):  # an initial
                    at += 2 if at + 1 < n and words[at + 1] == "." else 1
                    taken += 1
                    if taken > 1:
                        end = at
                    continue
                if (
                    word.lower() in _PARTICLES
                    and at + 1 < n
                    and words[at + 1][0].isalpha()
                    and not words[at + 1].islower()
                ):
                    at += 1
                    continue
                capital = not word.islower()
                if not self._nameable(word) or (taken and not capital and not words[at - 1].islower()):
                    break
                if taken and not capital and max(self._words.names.get(word.lower(), "00U")[:2]) < "2":
                    break
                taken += 1
                at += 1
                end = at
            elif (
                (
                    word in "-'."
                    and end == at
                    and at + 1 < n
                    and words[at + 1][0].isalpha()
                    and tokens.ends[at] == tokens.starts[at + 1]
                    and tokens.starts[at] == tokens.ends[at - 1]
                )
                or (word == "^" and end == at)
                or (
                    comma
                    and word == ","
                    and taken == 1
                    and at + 1 < n
                    and self._given_after_comma(words[at - 1], words[at + 1])
                    and not self._heads_name(tokens, at + 2)
                )
            ):
                at += 1
            else:
                break
        return end

    def _given_after_comma(self, surname: str, word: str) -> bool:
        """Whether ``word`` can be the given name of "Surname, Given" in a field for a name."""
        lower = word.lower()
        if not word[0].isalpha() or lower in _CREDENTIALS or lower in _NEVER or lower in self._white:
            return False
        return surname.islower() and self._nameable(word) if word.islower() else True

    def _run_back(self, tokens: Tokens, at: int, most: int) -> int:
        """Where the name that ends at ``at`` begins (``at + 1`` if there is none)."""
        words = tokens.words
        start = at + 1
        taken = 0
        while at >= 0 and taken < most:
            word = words[at]
            if word == "\n" or (at + 1 < len(words) and taken and tokens.starts[at + 1] - tokens.ends[at] > 2):
                break
            if word == "." and at and len(words[at - 1]) == 1 and words[at - 1].isupper():
                at -= 1
                continue
            if word in "-'" and taken and at and words[at - 1][0].isalpha():
                at -= 1
                continue
            if len(word) == 1 and word.isupper() and taken:
                start = at
                taken += 1
                at -= 1
                continue
            if not self._nameable(word, capital=False) or (
                word.islower() and taken == 0 and max(self._words.names.get(word.lower(), "00U")[:2]) < "2"
            ):
                break
            if taken and word.islower() != words[start].islower():
                break
            taken += 1
            start = at
            at -= 1
        return start

    def _found(self, tokens: Tokens, a: int, b: int, score: float, why: str) -> Found:
        category = "staff" if self._is_staff(tokens, a, b) else "name"
        end = tokens.ends[b - 1]
        if tokens.words[b - 1].lower().endswith("'s"):
            end -= 2
        return Found(tokens.starts[a], end, category, score, why)

    def _is_staff(self, tokens: Tokens, a: int, b: int) -> bool:
        words = tokens.words
        following = words[b : b + 3]
        if following and following[0] == ",":
            following = following[1:]
        if following and (following[0].lower() in _CREDENTIALS or (following[0] == "M" and following[1:2] == ["."])):
            return True
        for word in reversed(words[max(0, a - 5) : a]):
            if word == "\n":
                return False
            lower = word.lower()
            if lower in _STAFF_CUES:
                return True
            if lower in (
                "mr",
                "mrs",
                "ms",
                "miss",
                "patient",
                "pt",
                "wife",
                "husband",
                "son",
                "daughter",
                "mother",
                "father",
            ):
                return False
        return False

    def _stretch(self, tokens: Tokens, a: int, b: int) -> tuple[int, int]:
        """A name found by half is taken whole: initials, and neighbours nobody knows."""
        words, n = tokens.words, len(tokens)
        while a > 0:
            before = words[a - 1]
            if before == "." and a > 1 and len(words[a - 2]) == 1 and words[a - 2].isalpha():
                if words[a - 2].islower() and not words[a].islower():
                    break
                a -= 2
                given = words[a - 1] if a and tokens.starts[a] - tokens.ends[a - 1] == 1 else ""
                if (
                    len(given) > 1
                    and given[0].isalpha()
                    and given.islower() == words[a].islower()
                    and self._nameable(given)
                ):
                    a -= 1
            elif (
                before[0].isalpha()
                and not before.islower()
                and (self._unknown_name(before) or (_is_initial(words, a) and self._given(before)))
                and tokens.starts[a] - tokens.ends[a - 1] <= 1
            ):
                a -= 1
            elif (
                before in "-'"
                and a > 1
                and tokens.starts[a] == tokens.ends[a - 1] == tokens.starts[a - 1] + 1
                and words[a - 2][0].isalpha()
                and tokens.ends[a - 2] == tokens.starts[a - 1]
                and self._unknown_name(words[a - 2])
            ):
                a -= 2
            else:
                break
        while b < n:
            after = words[b]
            near = tokens.starts[b] - tokens.ends[b - 1] <= 1
            if near and after[0].isalpha() and not after.islower() and self._unknown_name(after):
                b += 1
            elif (
                after in "-'"
                and b + 1 < n
                and tokens.starts[b] == tokens.ends[b - 1]
                and tokens.starts[b + 1] == tokens.ends[b]
                and words[b + 1][0].isalpha()
                and self._unknown_name(words[b + 1])
            ):
                b += 2
            elif (
                after == ","
                and b + 1 < n
                and tokens.starts[b + 1] - tokens.ends[b] <= 1
                and (words[b + 1][0].isupper() or words[b - 1].islower())
                and self._unknown_name(words[b + 1])
                and not self._heads_name(tokens, b + 2)
            ):
                b += 2  # "Smith, John"
            else:
                break
        return a, b

    def _heads_name(self, tokens: Tokens, i: int) -> bool:
        """Whether another capitalised word follows: "Dr. Smith, Lakeview General Hospital" is no "Smith, Lakeview"."""
        if i >= len(tokens) or tokens.starts[i] - tokens.ends[i - 1] > 1:
            return False
        word = tokens.words[i]
        return len(word) > 1 and word[0].isupper() and word.lower() not in _CREDENTIALS

    def _unknown_name(self, word: str) -> bool:
        lower = word.lower()
        if lower in _CREDENTIALS or lower in _TITLES or lower in self._white or lower in _NEVER:
            return False
        vocabulary = self._words.vocabulary.get(lower, "0")
        strength = max(self._words.names.get(lower, "00U")[:2])
        if len(word) <= 3 and word.isupper() and strength < "2":
            return False
        return (vocabulary == "0" and (len(lower) > 2 or strength >= "2")) or (strength == "3" and vocabulary < "2")

    def _name(self, tokens: Tokens, a: int, b: int, score: float, why: str, shield: frozenset[int]) -> list[Found]:
        """The parts of a tagged name that may be one: protected words cut it."""
        words = tokens.words
        whole = self._trim(tokens, a, b)
        if whole is None:
            return []
        a, b = whole
        strong = self._person_here(tokens, a, b)
        capital = any(w[0].isalpha() and not w.islower() for w in words[a:b])
        out: list[Found] = []
        run: int | None = None
        for i in range(a, b + 1):
            keep = (
                i < b
                and (strong or not self._protected(tokens, i, shield))
                and words[i] != "\n"
                and not (capital and self._filler(words[i]))
            )
            if keep and run is None:
                run = i
            elif not keep and run is not None:
                piece = self._trim(tokens, run, i)
                if piece and self._plausible(tokens, *piece, score, strong):
                    out.append(self._found(tokens, *piece, score, why))
                run = None
        return out

    def _filler(self, word: str) -> bool:
        """A small, known word among capitalised ones parts two names."""
        lower = word.lower()
        return word.islower() and len(word) > 1 and lower in self._words.vocabulary and lower not in _PARTICLES

    def _protected(self, tokens: Tokens, i: int, shield: frozenset[int]) -> bool:
        lower = tokens.words[i].lower().removesuffix("'s")
        return tokens.starts[i] in shield or lower in self._white or lower in self._eponyms

    def _person_here(self, tokens: Tokens, a: int, b: int) -> bool:
        """A title before, a credential behind, a field name, or a given name beside: a person is meant."""
        words = tokens.words
        before = [w.lower() for w in words[max(0, a - 2) : a] if w != "."]
        if before and before[-1] in _TITLES and words[a][0].isupper():
            return True
        following = [w for w in words[b : b + 3] if w not in ",."]
        if following and following[0].lower() in _CREDENTIALS and not following[0].islower():
            return True
        if a > 1 and words[a - 1] == ":" and words[a - 2].lower() in ("name", "patient"):
            return True
        alphas = [w.lower() for w in words[a:b] if w[0].isalpha() and len(w) > 1]
        names = self._words.names
        given = [
            w
            for w in alphas
            if names.get(w, "00U")[0] >= "2"
            and w not in self._white
            and w not in self._eponyms
            and w not in _NEVER
            and (self._words.vocabulary.get(w, "0") < "2" or names[w][0] == "3")
        ]
        return len(alphas) >= 2 and bool(given) and all(not w.islower() for w in words[a:b] if w[0].isalpha())

    def _trim(self, tokens: Tokens, a: int, b: int) -> tuple[int, int] | None:
        words = tokens.words
        capital = any(w[0].isalpha() and not w.islower() for w in words[a:b])

        def edge(word: str) -> bool:
            lower = word.lower()
            if len(word) == 1 and word.isupper():  # an initial
                return False
            if (
                not word[0].isalpha()
                or lower in _TITLES
                or lower in _NEVER
                or (lower in self._headings and not self._is_name(lower))
            ):
                return True
            return (
                capital and word.islower() and self._words.vocabulary.get(lower, "0") > "0" and lower not in _PARTICLES
            )

        while a < b and edge(words[a]):
            a += 1
        while b > a and (edge(words[b - 1]) or words[b - 1].lower() in _CREDENTIALS - {"rt", "np"}):
            b -= 1
        return (a, b) if a < b else None

    def _given(self, word: str) -> bool:
        """Whether a word is listed as a given name, be it a word of the language too, but no term."""
        return self._words.names.get(word.lower(), "00U")[0] >= "2" and self._nameable(word)

    def _is_name(self, lower: str) -> bool:
        return max(self._words.names.get(lower, "00U")[:2]) == "3"

    def _plausible(self, tokens: Tokens, a: int, b: int, score: float, strong: bool) -> bool:
        """Whether something in the run can be a name at all."""
        for word in tokens.words[a:b]:
            if not word[0].isalpha():
                continue
            lower = word.lower().removesuffix("'s")
            if lower in _NEVER or len(lower) > _LONGEST_NAME:
                continue
            vocabulary = self._words.vocabulary.get(lower, "0")
            strength = max(self._words.names.get(lower, "00U")[:2])
            doubtful = vocabulary == "0" and strength < "2" and not strong and score < 0.92
            if doubtful and self._words.is_slip(lower) and self._words.sound(lower) < 2:
                i = a + tokens.words[a:b].index(word)
                if word.islower() or word.isupper() or i == 0 or tokens.words[i - 1] in _SENTENCE_ENDS:
                    continue
            if word.islower():
                if (
                    (vocabulary < "2" and strength >= "2")
                    or (vocabulary == "0" and score > 0.6)
                    or (strength == "3" and score > 0.85)
                ):
                    return True
            elif (vocabulary < "2" or strength >= "2" or strong) and (
                len(word) > 3 or not word.isupper() or vocabulary == "0"
            ):
                sure = 0.8 if vocabulary == "1" and strength < "2" else 0.6 if vocabulary > "1" else 0.0
                if strong or score > sure:
                    return True
        return False

    def _again(self, lower: str, tokens: Tokens, tagged: list[Found], shield: frozenset[int]) -> list[Found]:
        """A name once found is found everywhere else in the same report."""
        certain: dict[str, int] = {}
        taken: set[int] = set()
        for f in tagged:
            if f.category not in ("name", "staff"):
                continue
            for match in _LETTERS.finditer(lower, f.start, f.end):
                taken.add(match.start())
                name = match.group()
                if (
                    f.score >= 0.7
                    and name not in self._white
                    and name not in self._eponyms
                    and self._words.vocabulary.get(name, "0") < "2"
                    and name not in _NEVER
                ):
                    certain[name] = certain.get(name, 0) + 1
        again = {name for name, once in certain.items() if lower.count(name) > once}
        if not again:
            return []
        out = []
        for i, word in enumerate(tokens.words):
            name = word.lower().removesuffix("'s")
            if name in again and tokens.starts[i] not in taken and tokens.starts[i] not in shield:
                if word.islower() and self._words.vocabulary.get(name, "0") > "0":
                    continue
                out.append(self._found(tokens, i, i + 1, 0.8, "named elsewhere in the report"))
        return out

    # -- institutions --------------------------------------------------------------------------------------------------

    def _institutions(self, text: str, places: list[int]) -> list[Found]:
        """Names of institutions on the lines that have a word for one at ``places``; no name goes over a line's end."""
        out = []
        generic = self._gazetteer.generic_heads
        lines: list[tuple[int, int]] = []
        for place in places:
            if not lines or place >= lines[-1][1]:
                end = text.find("\n", place)
                lines.append((text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end))
        for match in chain.from_iterable(self._patterns.institution.finditer(text, *line) for line in lines):
            head = [w.lower().strip(".,'") for w in (match["head"] or match["head2"]).split()]
            while head and (head[0] in generic or head[0] in _NEVER):
                head.pop(0)
            if not head or all(w in generic or w in self._white for w in head):
                continue
            skip = 0
            words = list(re.finditer(r"\S+", (match["head"] or match["head2"])))
            while skip < len(words) and words[skip].group().lower().strip(".,'") in _LEADING:
                skip += 1
            if skip >= len(words):
                continue
            weak = (match["tail"] or match["tail2"]).lower().split()[-1] in _WEAK_TAILS
            unknown = [
                w
                for w in head
                if self._words.vocabulary.get(w, "0") < "2"
                or w in self._words.place_words
                or max(self._words.names.get(w, "00U")[:2]) >= "2"
            ]
            if weak and not unknown:
                continue
            out.append(
                Found(match.start() + words[skip].start(), match.end(), "institution", 0.93, "institution's name")
            )
        return out


#: Two or more letters beyond Latin, words of them together; a single Greek letter is a unit or an enzyme.
_BEYOND = r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]"
_SCRIPT = re.compile(
    rf"{_BEYOND}(?:{_BEYOND}|[\u0300-\u0dff\u200c\u200d]){{1,60}}(?:[ '-](?:{_BEYOND}|[\u0300-\u0dff]){{1,60}}){{0,12}}"
)
_LONGEST_NAME = 40
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_LOGIN_TAIL = re.compile(r"[._-]?\w*\d+\b")
#: Words of more than a letter that may lead to a name.
_ANNOUNCING = _TITLES | _KIN | _CREDENTIALS | {"pt", "patient"}
_SENTENCE_ENDS = frozenset([".", "\n", ":", "!", "?", ";", "*", "-", "(", '"', "#", ")"])
_NEVER = word_class("never_names")
_LEADING = word_class("leading")
_INSTITUTION = word_class("institution_generic")
_WEAK_TAILS = word_class("weak_tails")


def _is_initial(words: list[str], i: int) -> bool:
    return len(words[i]) == 1 and words[i].isupper() and words[i + 1 : i + 2] == ["."]


def _inside(tokens: Tokens, protected: list[tuple[int, int]]) -> frozenset[int]:
    spans = sorted(protected)
    out = set()
    at = 0
    reach = -1
    for start in tokens.starts:
        while at < len(spans) and spans[at][0] <= start:
            reach = max(reach, spans[at][1])
            at += 1
        if start < reach:
            out.add(start)
    return frozenset(out)


#: When two layers disagree about overlapping words, the more specific kind names the span.
_RANK = {
    name: rank
    for rank, name in enumerate(
        [
            "hole",
            "email",
            "url",
            "ip",
            "ssn",
            "fax",
            "phone",
            "mrn",
            "accession",
            "health_plan",
            "account",
            "licence",
            "device",
            "vehicle",
            "username",
            "date",
            "time",
            "age",
            "address",
            "unit",
            "staff",
            "name",
            "institution",
            "location",
            "id",
        ]
    )
}


def _precedence(f: Found) -> tuple[bool, float, int, int]:
    """Holes first, then by score; between rule and tagger of equal score the rule; then the more specific kind."""
    return f.category != HOLE, 0.15 * (f.why == "tagger") - int(f.score * 10) / 10, _RANK[f.category], f.start - f.end


def _merge(text: str, ruled: list[Found], tagged: list[Found]) -> list[Found]:
    """One list without overlaps: holes first, then what a rule is sure of, then the tagger."""
    used = bytearray(len(text))
    taken: list[Found] = []
    for start, end, category, score, why in sorted([*ruled, *tagged], key=_precedence):
        if used.find(1, start, end) < 0:
            pieces = [(start, end)]
            whole = True
        elif category == HOLE:
            continue
        else:
            pieces = []
            whole = False
            at = start
            while at < end:
                stop = used.find(1, at, end)
                stop = end if stop < 0 else stop
                if stop > at:
                    pieces.append((at, stop))
                at = used.find(0, stop, end) if stop < end else end
                at = end if at < 0 else at
        for a, b in pieces:
            while a < b and not text[a].isalnum() and text[a] not in "(+#[_*<":
                a += 1
            while a < b and not text[b - 1].isalnum() and text[b - 1] not in ")]_*>.":
                b -= 1
            if a >= b or (not whole and (b - a < 2 or _says_nothing(text[a:b]))):
                continue
            taken.append(Found(a, b, category, score, why))
            used[a:b] = b"\1" * (b - a)
    taken.sort()
    return taken


def _says_nothing(piece: str) -> bool:
    """Whether what is left of a span after another took its part is plain words."""
    words = vocabulary()
    return all(words.get(w.lower(), "0") > "1" or len(w) < 2 or w.lower() in _NEVER for w in re.findall(r"\w+", piece))


@lru_cache(maxsize=1)
def default_detector() -> Detector:
    """The detector without terms of a policy's own."""
    return Detector()


def scan(text: str) -> list[Span]:
    """Every PHI span of ``text``: category, score and why; holes of an earlier de-identification included."""
    return default_detector().spans(text)
