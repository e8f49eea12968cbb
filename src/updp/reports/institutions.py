"""Names of institutions: by the word for a kind of one ("Mercy General Hospital"), or bare behind a word that says
where somebody was ("transferred from Lakeside", "films from UCLA", "flew in from TX").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from updp.reports.lexeme import Lexeme, Lexemes
from updp.reports.lexicon import word_class
from updp.reports.words import Span, Tokens

_LEADING = word_class("leading")
_WEAK_TAILS = word_class("weak_tails")
_NEVER = word_class("never_names")
_KINDS = word_class("institution_generic") | {
    "school",
    "royal",
    "church",
    "sisters",
    "children's",
    "city",
    "county",
    "state",
}
#: Words before "of" in the name of one house.
_DEDICATED = _KINDS | {"lady", "brothers", "daughters", "friends", "knights", "order", "house", "sons", "heart"}
_NO_SPACE = re.compile(r"\S+")
_WENT = word_class("whereabouts")
_GONE = word_class("whereabouts_to")
_SERVICES = word_class("services")
_STATES = word_class("state_codes")
#: State codes that are words, views or credentials.
_STATE_WORDS = word_class("state_words")
#: Letters that stand for a hospital or a university, what such letters may stand behind, and what it has or does.
_FORM = re.compile(r"U[A-Z]{2,4}|[A-Z]{1,4}(?:MC|H|HS|RI|HSC|HT|FT|UT|HB)")
_NAMED_AFTER = word_class("named_after") | {"(", ",", ":", ";", "/"}
_HOUSED = word_class("housed")
#: Words before a town, and words that go on behind its state.
_TO_A_TOWN = word_class("to_a_town")
_GOES_ON = word_class("behind_a_state")
#: Behind these a genitive is somebody's own, or a disease's.
_OWNERS = frozenset(["the", "a", "an", "this", "that", "his", "her", "their", "my", "our", "your", "no", "has", "had"])
#: What is done with a house or a person: "discussed with MCW on Monday".
_TALKED = frozenset(["discussed", "liaised", "spoke", "agreed", "shared", "registered", "booked", "listed", "checked"])
_PLACING = ("where", "letters", "state", "credential")
_JOINTS = (",", "and", "or", "&", "/")
_NOT_PLACES = word_class("months") | word_class("weekdays") | word_class("name_fields")
#: So far before the place stands the word that says somebody was there.
_BACK = 5


class Institutions:
    """Both kinds. ``pattern`` finds the first, ``generic`` are heads that name a kind and no place."""

    def __init__(self, pattern: re.Pattern[str], generic: frozenset[str], lexemes: Lexemes) -> None:
        self._pattern = pattern
        self._generic = generic
        self._lexemes = lexemes

    def named(self, text: str, original: str, places: Iterable[int]) -> list[Span]:
        """Names of institutions on the lines that have a word for one at ``places``; no name goes over a line's end.
        ``text`` is the ``original`` with capitals where a line has only one case.
        """
        out = []
        generic = self._generic
        white = self._lexemes.white
        lines: list[tuple[int, int]] = []
        for place in places:
            if not lines or place >= lines[-1][1]:
                end = text.find("\n", place)
                lines.append((text.rfind("\n", 0, place) + 1, len(text) if end < 0 else end))
        for match in chain.from_iterable(self._pattern.finditer(text, *line) for line in lines):
            head = [w.lower().strip(".,'") for w in (match["head"] or match["head2"]).split()]
            while head and (head[0] in generic or head[0] in _NEVER):
                head.pop(0)
            if not head or all(w in generic or w in white for w in head) or any(c.isdigit() for w in head for c in w):
                continue
            skip = 0
            words = list(_NO_SPACE.finditer(match["head"] or match["head2"]))
            while skip < len(words) and words[skip].group().lower().strip(".,'") in _LEADING:
                # "at The Lister Infirmary": a capital inside a sentence is part of the name
                lead = text[max(0, match.start() - 2) : match.start()].strip(" ")
                if words[skip].group() == "The" and (skip or lead.isalpha() or lead in (",", ";", "(")):
                    break
                if words[skip].group() == "Our" and skip + 1 < len(words) and words[skip + 1].group() == "Lady":
                    break  # "Our Lady of Lourdes Hospital"
                skip += 1
            # "Dr. Odongo of Parkland Manor" are two, "University of Iowa Hospital" is one.
            for i in range(len(words) - 2, skip, -1):
                if words[i].group() == "of" and not any(w.group().lower() in _DEDICATED for w in words[skip:i]):
                    skip = i + 1
                    break
            # "St. Olaf's and Mercy Hospital" are two, "Brigham and Women's Hospital" is one.
            for i in range(len(words) - 2, skip, -1):
                if words[i].group() == "and" and _short_form(words[i - 1].group(), words[skip].group()):
                    skip = i + 1
                    break
            shaped = text[match.start() : match.end()] != original[match.start() : match.end()]
            if shaped:  # a sentence in capitals: what stands before a term is no part of the name
                plain = [i for i, w in enumerate(words) if w.group().lower() in white]
                skip = max(skip, plain[-1] + 1) if plain else skip
            if skip >= len(words):
                continue
            weak = (match["tail"] or match["tail2"]).lower().split()[-1] in _WEAK_TAILS
            heads = self._lexemes.of([w for w in head if w])
            towns = self._lexemes.place_words
            if weak and not any(k.rank < "2" or k.stem in towns or k.strength >= "2" for k in heads):
                continue
            # Where capitals were only put in for the sake of reading, a sentence looks like a name.
            if shaped:
                common = "3" if len(heads) < 3 else "2"
                if not any(
                    k.rank == "0" or (k.rank < common and (k.strength == "3" or k.stem in self._lexemes.place_words))
                    for k in heads
                ):
                    continue
            out.append(
                Span(match.start() + words[skip].start(), match.end(), "institution", 0.93, "institution's name")
            )
        return out

    def bare(self, tokens: Tokens, known: list[Lexeme], shield: frozenset[int]) -> list[Span]:
        """Places named without a word for their kind: capitals or a capital behind "at", "from" or "to" where somebody
        is said to have been, gone or been seen.
        """
        out: list[Span] = []
        n = len(known)
        for i in [i for i, k in enumerate(known) if k.call in _PLACING or k.text[-2:] == "'s"]:
            if known[i].call not in _PLACING:
                if self._patron(tokens, known, i) and tokens.starts[i] not in shield:
                    out.append(self._span(tokens, i, i + 1, "institution"))
                continue
            if known[i].call != "where":
                if known[i].call == "letters":
                    found = self._letters(known, i) and tokens.starts[i] not in shield
                else:
                    found = known[i].text in _STATES and self._state(tokens, known, i)
                if found:
                    out.append(self._span(tokens, i, i + 1, "institution" if known[i].size > 2 else "location"))
                continue
            if i + 1 >= n or (known[i + 1].small and known[i + 1].stem != "the"):
                continue
            k, first = known[i], i + 1
            if known[first].stem == "the" and first + 1 < n:
                first += 1
            one = known[first]
            start = tokens.starts[first]
            if not one.alpha or one.small or start - tokens.ends[i] > 6 or start in shield:
                continue
            if one.text[0].islower():
                continue  # "at pCO2 8.2"
            went = any(b.stem in (_GONE if k.stem == "to" else _WENT) for b in known[max(0, i - _BACK) : i])
            # Behind "at" a word with a capital inside a sentence is somewhere, whoever was there; behind "from" it may
            # be a drug or a disease.
            rarer = {"at": "3", "from": "1", "near": "2"}.get(k.stem, "0")
            there = (
                went
                or (k.stem == "from" and not one.upper and self._somebody(known, i - 1))
                or (k.stem == "at" and one.upper and (one.rank == "0" or _closed(known, first + 1)))
                or (
                    one.upper
                    and one.rank == "0"
                    and 2 < one.size < 6
                    and not (one.white or one.credential or one.strength > "0")
                )
                or (not one.upper and (one.rank < rarer or (rarer > "0" and one.strength >= "2")))
            )
            double = (
                one.upper
                and 1 < one.size < 5
                and not (one.credential or one.white or (one.size > 2 and one.rank > "0"))
                and first + 1 < n
                and tokens.starts[first + 1] - tokens.ends[first] == 1
                and self._town(known[first + 1])
            )
            if one.upper and one.size == 2 and one.text in _STATES:
                after = known[first + 1] if first + 1 < n else None
                plain = one.text in _STATE_WORDS
                if (went or k.stem == "from") and not (plain and after is not None and after.text not in ".,;)\n"):
                    out.append(self._span(tokens, first, first + 1, "location"))
                continue
            # "At RVH" is a house although the letters also stand for a finding.
            housed = (
                one.upper
                and (one.white or one.rank > "1")
                and k.stem in ("at", "from")
                and 2 < one.size < 6
                and one.stem not in _SERVICES
                and _FORM.fullmatch(one.text) is not None
                and _closed(known, first + 1)
            )
            if housed:
                out.append(self._span(tokens, first, first + 1, "institution"))
                continue
            if not (there or double):
                continue
            if k.stem == "to" and one.given >= "2" and one.rank < "2":  # somebody, not somewhere
                out.append(self._span(tokens, first, first + 1, "name"))
                continue
            end = first + double  # "UZ Leuven", "CHU Nantes"
            while (
                end < n
                and end - first < 4
                and (
                    self._place(known[end], end > first)
                    or (end == first and (went or self._somebody(known, i - 1)) and self._house(known, end))
                )
            ):
                if end > first and tokens.starts[end] - tokens.ends[end - 1] > 1:
                    break
                end += 1
            if end == first or all(w.stem in _SERVICES or w.stem in self._generic for w in known[first:end]):
                continue
            out.append(self._span(tokens, first, end, "institution"))
            while (
                end + 1 < n
                and known[end].text in _JOINTS
                and known[end + 1].upper
                and self._place(known[end + 1], False)
            ):
                out.append(self._span(tokens, end + 1, end + 2, "institution"))
                end += 2
        return out

    def _span(self, tokens: Tokens, first: int, last: int, category: str) -> Span:
        return Span(tokens.starts[first], tokens.ends[last - 1], category, 0.8, "behind a word for whereabouts")

    def _state(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether the code of a state stands behind a town: "lives in Everettland MS"."""
        after = known[i + 1] if i + 1 < len(known) else None
        doubtful = known[i].text in _STATE_WORDS
        if after is not None and doubtful and not (after.text in ".,;)\n" or after.stem in _GOES_ON):
            return False
        j = i - 1
        if j > 0 and known[j].text == ",":
            j -= 1
        town = j
        while j >= 0 and town - j < 3 and known[j].alpha and not (known[j].small or known[j].upper or known[j].title):
            if tokens.starts[j + 1] - tokens.ends[j] > 1:
                break
            if known[j].stem in _TO_A_TOWN:
                return j < town
            j -= 1
        return j < town and j >= 0 and known[j].stem in _TO_A_TOWN

    def _patron(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether a genitive inside a sentence names a house by its patron: "listed with Guy's since", "Bart's lab"."""
        k = known[i]
        if i == 0 or k.small or k.upper or k.white or k.eponym or k.never or k.size < 5 or k.stem in _NOT_PLACES:
            return False
        before = known[i - 1]
        if not ((before.small and before.stem not in _OWNERS) or before.text in ",;(" or before.text == "<inst>"):
            return False
        if tokens.starts[i] - tokens.ends[i - 1] > 1 or (k.rank == "3" and k.strength < "2"):
            return False
        after = known[i + 1] if i + 1 < len(known) else None
        return after is None or not (after.alpha or after.text[0] in "<-'") or after.stem in _HOUSED_OR_CLOSED

    def _letters(self, known: list[Lexeme], i: int) -> bool:
        """Whether letters that no list knows stand for an institution: they have the form of one ("Q" + "MC", "N" +
        "GH", "U" for university) where one may be named, or what a hospital has or does follows them.
        """
        k = known[i]
        if not self._place(k, False) or k.strength >= "2":
            return False
        before, after = (known[i - 1] if i else None), (known[i + 1] if i + 1 < len(known) else None)
        if any(near is not None and near.upper and near.size > 3 for near in (before, after)):
            return False  # a line in capitals
        formed = _FORM.fullmatch(k.text) is not None
        if after is not None and after.stem in _HOUSED and (formed or k.rank == "0"):
            return True
        if before is not None and before.stem == "by" and k.size < 6 and _closed(known, i + 1):
            return True  # "declined by JPS and": a house or somebody's initials
        if before is not None and before.stem == "with" and i > 1 and known[i - 2].stem in _TALKED:
            return k.rank == "0" and k.size < 6 and _closed(known, i + 1)
        if before is not None and before.stem in ("and", "or") and i > 1 and known[i - 2].text == "<inst>":
            return True
        return formed and before is not None and (before.stem in _NAMED_AFTER or before.text in _NAMED_AFTER)

    def _town(self, k: Lexeme) -> bool:
        if k.eponym and not (k.small or k.upper) and k.stem in self._lexemes.places:
            return True  # "EOC Lugano"
        return not k.upper and (k.rank == "0" or k.stem in self._lexemes.place_words) and self._place(k, False)

    def _somebody(self, known: list[Lexeme], i: int) -> bool:
        """Whether somebody is named before "from": "93, from Windmill", "carer Joan from Coppice"."""
        if i < 0:
            return False
        k = known[i]
        return k.text == "," or (k.alpha and not k.small and (k.unknown() or (k.strength >= "2" and not k.white)))

    def _house(self, known: list[Lexeme], i: int) -> bool:
        """Whether a word of every report is the name of a house where somebody was: "was at Parkland on Friday"."""
        k = known[i]
        plain = k.white or k.eponym or k.never or k.title or k.stem in _SERVICES or k.stem in self._lexemes.white_words
        return not plain and not k.upper and k.size > 4 and k.stem not in _NOT_PLACES and _closed(known, i + 1)

    def _place(self, k: Lexeme, behind: bool) -> bool:
        """Whether a word can be (part of) the bare name of a place."""
        if not k.alpha or k.small or k.white or k.eponym or k.title or k.credential or k.stem in _NOT_PLACES:
            return False
        if k.upper:
            return 2 < k.size < 7 and k.rank < "2" and k.stem not in _SERVICES
        if k.stem in _SERVICES or (k.never and not behind):
            return False
        return k.size > 2 and (k.rank < "3" or k.strength >= "2" or k.stem in self._lexemes.place_words)


def _short_form(last: str, first: str) -> bool:
    return last.isupper() or last.endswith("'s") or first in ("St", "St.", "Saint", "Royal", "Mt.", "Mount")


#: Behind these letters a sentence goes on about something else than a level or a measure.
_CLOSING = frozenset(
    ["and", "on", "with", "by", "who", "under", "for", "last", "in", "tonight", "today", "since", "until"]
)
_HOUSED_OR_CLOSED = _HOUSED | _CLOSING | {"since", "to", "from", "has", "had", "did", "at", "or", "who", "when", "via"}


def _closed(known: list[Lexeme], i: int) -> bool:
    """Whether what stands before word ``i`` is a place by itself: "at OSU." is one, "at TLC 80 %" none."""
    return i >= len(known) or known[i].text in ".,;:)\n" or known[i].stem in _CLOSING
