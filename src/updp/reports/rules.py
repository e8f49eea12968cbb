"""What rules say of a text before the tagger is asked: patterns, lists, and names that a title, a credential, a
relative or a header field announces.

What a rule is sure of stands as one word in what the tagger reads ("Dr. <name> on <date>"), so that nothing is looked
at twice and the tagger's attention goes to what no rule knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from updp.reports.gazetteer import Gazetteer
from updp.reports.institutions import Institutions
from updp.reports.lexeme import Lexeme, Lexemes
from updp.reports.lexicon import countries, word_class
from updp.reports.patterns import INSTITUTION, Patterns, shapes
from updp.reports.tagger import NAME
from updp.reports.words import Span, Tokens, collapse

_LANDS = countries() | word_class("states")
_IN_A_LAND = frozenset(["in", "near", "at", "from", "to", "of"])
_RINGS = word_class("behind_rings")
_LETTERED = word_class("lettered")
_STAFF_CUES = word_class("staff_cues")
_NAME_FIELDS = word_class("name_fields")
_PARTICLES = word_class("particles")
#: Words behind which a person is named who has done or is told something.
_AGENT_CUES = word_class("agent_cues")
#: Fields for a name: what stands in one is a name whatever the word.
_SURE_FIELDS = word_class("sure_fields")
#: Words behind which a label gives a name: "wristband says Cherry, Autumn".
_SHOWN_AS = word_class("shown_as")
_TWO_LETTERS = word_class("two_letters")
#: What somebody is, before the name; and words for ways and times, before anything.
_ROLES = word_class("roles") | word_class("capital_titles") | word_class("kin")
_WAYS = frozenset(["from", "to", "with", "by", "per", "w", "re", "d/w", "record", "read"])
_SERVICES = word_class("services")
_NO_PERSON = word_class("no_person")
_NO_VALUE = word_class("no_value")
#: Fields behind which several people are named.
_LIST_FIELDS = word_class("list_fields")
#: What stands behind a name of two words and makes it the name of something else.
_NO_SURNAME_BEFORE = word_class("eponym_heads") | word_class("institution_words") | word_class("street_words")
_NO_SURNAMES = _NO_SURNAME_BEFORE | _SERVICES | _NO_PERSON | _ROLES
#: Words that lead to something else than a name.
_NO_NAME = ("head", "where", "letters", "state")
_LAY = frozenset(["mr", "mrs", "ms", "miss", "patient", "pt", "wife", "husband", "son", "daughter", "mother", "father"])
#: Credentials that are words, or stand for something else, unless a comma or names stand before them.
_DOUBTFUL_CREDENTIALS = frozenset(("pa", "rt", "do", "np"))
_DOTTED_CREDENTIALS = frozenset(
    [
        "md",
        "do",
        "rn",
        "np",
        "pa",
        "phd",
        "mbbs",
        "mbchb",
        "dds",
        "dmd",
        "dpm",
        "frcr",
        "frcp",
        "frcs",
        "facr",
        "facc",
        "facs",
        "pac",
        "pharmd",
    ]
)
#: Letters with dots that are no initials.
_NO_INITIALS = word_class("no_typist")
#: A name that signs off stands this near to the end.
_SIGN_OFF = 60
#: A variant of a gene, and what it is counted by.
_GENE = re.compile(
    r"(?<![\w.])(?:(?:[cgmnp]\.(?=\S*\d)|N[CGMPR]_\d|ENS[TGP]\d)[^\s,;]{2,60}|[A-Z]\d{2,4}(?:del|dup|ins|fs)(?![a-z]))"
)
_CHANGED = re.compile(r"\d(?:del|dup|ins|fs)")
#: Two scores or more, parted by commas.
_GRADE = r"(?:(?:I{2,3}|IV|VI)[a-c]?|[IV][a-c])(?!\w)"
_ONE_SCORE = rf"([A-Z][A-Za-z-]{{2,20}}) (?:\d{{1,3}}(?:/\d{{1,3}})?(?=[,.;\n]|$)|{_GRADE})"
_SCORE = re.compile(rf"(?<![\w-]){_ONE_SCORE}")
_SCORES = re.compile(rf"(?<![\w-]){_ONE_SCORE}(?:, {_ONE_SCORE})+")
_LISTED = re.compile(r"[\dIVabc], [A-Z]")
#: Two signs or tests or more and how they turned out: "Lachman and McMurray negative, Hawkins positive".
_OUTCOME = r"(?:negative|positive|absent|present|normal|equivocal|unsteady|weak|strong|negligible|unremarkable)"
_TESTED = re.compile(
    rf"(?<![\w.-])[A-Z][A-Za-z'-]{{2,20}}(?:(?:,| and| or|/) ?[A-Z][A-Za-z'-]{{2,20}}){{0,3}} {_OUTCOME}(?!\w)"
)
_CAPITAL = re.compile(r"[A-Z][A-Za-z'-]{2,20}")
#: A scale before its grade: "Garden IV", unless a given name stands before it ("John Garden IV").
_GRADED = re.compile(rf"(?:(?<=[,;:(] )|(?<=[.\n])|(?<=[a-z0-9] )|^)(?<!by )(?<!with )([A-Z][a-z]{{2,20}}) {_GRADE}")
_LOGIN_TAIL = re.compile(r"[._-]?\w*\d+\b")
#: Two or more letters beyond Latin, words of them together; a single Greek letter is a unit or an enzyme.
_BEYOND = r"[^\W\d_\u0000-\u024f\u1e00-\u1eff]"
_SCRIPT = re.compile(
    rf"{_BEYOND}(?:{_BEYOND}|[\u0300-\u0dff\u200c\u200d]){{1,60}}(?:[ '-](?:{_BEYOND}|[\u0300-\u0dff]){{1,60}}){{0,12}}"
)


@dataclass(slots=True)
class Reading:
    """A text as far as rules can read it."""

    lower: str
    tokens: Tokens  # with what rules are sure of as single words
    known: list[Lexeme]
    ruled: list[Span]
    named: list[Span]
    shield: frozenset[int]  # where words of protected phrases begin
    small: bool  # nothing is written with capitals


class Rules:
    """Patterns, lists and rules for names, loaded once."""

    def __init__(self, extra_block: Iterable[str] = (), extra_allow: Iterable[str] = ()) -> None:
        allow = tuple(extra_allow)
        self.patterns = Patterns()
        self.gazetteer = Gazetteer(extra_block, allow)
        self.lexemes = Lexemes(allow, self._wanted)
        self.institutions = Institutions(self.patterns.institution, self.gazetteer.generic_heads, self.lexemes)

    def _wanted(self, word: str) -> int:
        """What is looked for where a word stands: 0 nothing, as at most words; 1 patterns; 2 phrases and perhaps
        patterns. Of a number only its length counts.
        """
        if self.gazetteer.numbers if word.isdigit() else self.gazetteer.phrases(word):
            return 2
        return int(self.patterns.tries(word))

    def read(self, text: str) -> Reading:
        """Everything rules find in ``text``, and what is left to read."""
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose small form is longer would move every place behind it
            lower = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        tokens = Tokens(text)
        shaped = shapes(text)
        known = self.lexemes.of(tokens.words)
        sites = [i for i, k in enumerate(known) if k.wanted]
        listed, protected = self.gazetteer.find(text, lower, tokens, [i for i in sites if known[i].wanted > 1])
        cues = self.patterns.called(lower)
        ruled = self.patterns.find(text, tokens, shaped, cues, sites)
        if protected and listed:
            listed = [s for s in listed if s.score == 1.0 or not _inside(s, protected)]  # "Poland syndrome"
        protected += eponyms(tokens, known)
        protected += scaled(tokens, known)
        if shaped[0] is text:
            if _LISTED.search(text):
                protected += self._scores(text)
            if " I" in text or " V" in text:
                protected += [m.span() for m in _GRADED.finditer(text)]
            if "tive" in lower or "sent" in lower or "normal" in lower:
                protected += self._tests(text)
        if " p." in text or "(p." in text or " c." in text or "_" in text or _CHANGED.search(text):
            protected += [m.span() for m in _GENE.finditer(text)]
        shield = _shield(tokens, protected) if protected else frozenset()
        if INSTITUTION in cues:
            ruled += self.institutions.named(shaped[0], text, cues[INSTITUTION])
        ruled += listed
        for first, last, words in collapse(tokens, ruled) if ruled else ():
            known[first:last] = self.lexemes.of(words)
        ranges = self._named(text, tokens, known, shield)
        if text.rfind("--", -_SIGN_OFF) >= 0:
            ranges += self._signed_off(tokens, known)
        named = [found for _, _, found in ranges]
        ruled += self.institutions.bare(tokens, known, shield)
        if ranges:
            self._fold(tokens, known, ranges)
        if not text.isascii():
            # Letters an English detector cannot read are not left in: they may be a name.
            ruled += [
                Span(m.start(), m.end(), "name", 0.6, "letters of another script") for m in _SCRIPT.finditer(text)
            ]
        return Reading(lower, tokens, known, ruled, named, shield, text.islower())

    def _scores(self, text: str) -> list[tuple[int, int]]:
        """Names of scales in a list of scores: "Morse 45, Braden 16, RASS 0". One of them must be known as a scale or
        written in capitals, or the list may be one of people and their ages.
        """
        out: list[tuple[int, int]] = []
        for scores in _SCORES.finditer(text):
            items = list(_SCORE.finditer(text, *scores.span()))
            if any(m[1].isupper() or m.group()[-1] in "IVabc" or self.lexemes.of([m[1]])[0].eponym for m in items):
                out += [m.span() for m in items]
        return out

    def _tests(self, text: str) -> list[tuple[int, int]]:
        """Names of tests in a list of their outcomes; one of them must be known as an eponym."""
        found = [m for m in _TESTED.finditer(text)]
        if len(found) < 2 and not any(" and " in m.group() or ", " in m.group() for m in found):
            return []
        words = self.lexemes.of([w.group() for m in found for w in _CAPITAL.finditer(m.group())])
        return [m.span() for m in found] if any(k.eponym for k in words) else []

    def _fold(self, tokens: Tokens, known: list[Lexeme], ranges: list[tuple[int, int, Span]]) -> None:
        """Make a single word of every name a rule has found."""
        spans: list[tuple[int, int]] = []
        for first, last in sorted([(a, b) for a, b, _ in ranges]):
            if spans and first < spans[-1][1]:
                spans[-1] = spans[-1][0], max(last, spans[-1][1])
            else:
                spans.append((first, last))
        mark = self.lexemes.of([NAME])
        for first, last in reversed(spans):  # from behind, so that places before stay as they are
            tokens.words[first:last] = [NAME]
            tokens.starts[first:last] = [tokens.starts[first]]
            tokens.ends[first:last] = [tokens.ends[last - 1]]
            known[first:last] = mark

    # -- names -------------------------------------------------------------------------------------------------------

    def _named(
        self, text: str, tokens: Tokens, known: list[Lexeme], shield: frozenset[int]
    ) -> list[tuple[int, int, Span]]:
        """Names that something announces, with the words they take. Only a title, a credential or a field makes a name
        of a protected phrase.
        """
        out: list[tuple[int, int, Span]] = []
        words = tokens.words
        n = len(words)
        listed = 0  # where a list of people ends
        for i, k in enumerate(known):
            call = k.call
            if not call or call in _NO_NAME:
                if call == "letters" and k.size == 3 and k.rank == "0" and (plate := _plate(tokens, i)):
                    at = tokens.starts[plate[0]], tokens.ends[plate[1] - 1]
                    out.append((*plate, Span(*at, "vehicle", 0.8, "letters and a number that stand for nothing")))
                continue
            if call == ",":
                if i < listed:
                    continue  # it parts two people of a list
                if 0 < i < n - 1 and tokens.starts[i - 1] not in shield and self._listed(tokens, known, i, shield):
                    end = self._run(tokens, known, i + 1, 2)
                    if end > i + 1:
                        start = i - 1
                        while (
                            start > 1
                            and words[start - 1] == "-"
                            and words[start - 2][0].isupper()
                            and tokens.starts[start] == tokens.ends[start - 1]
                        ):
                            start -= 2
                        out.append((start, end, found(tokens, known, start, end, 0.9, "surname, given name")))
            elif call == ":":
                if i and known[i - 1].stem in _LIST_FIELDS and (people := self._people(tokens, known, i + 1)):
                    out += [(a, b, found(tokens, known, a, b, 0.9, "list of people")) for a, b in people]
                    listed = people[-1][1]
                elif i and known[i - 1].stem in _NAME_FIELDS:
                    self._after_field(text, tokens, known, i, out)
                elif i and known[i - 1].alpha and i + 2 < n and known[i + 1].given >= "2":
                    end = self._whole_value(tokens, known, i + 1, False)
                    if end > i + 1:
                        out.append((i + 1, end, found(tokens, known, i + 1, end, 0.9, "field")))
            elif call == "title":
                j = i + 1
                if j < n and words[j] == ".":
                    j += 1
                if j + 1 < n and words[j] == "\n" and known[j + 1].alpha and not known[j + 1].small:
                    j += 1  # the line ends behind the title
                if (j < n and known[j].title) or (
                    k.stem in ("dr", "mr", "ms") and not self._title_here(tokens, known, i)
                ):
                    continue
                end = max(self._run(tokens, known, j, 4), self._value(tokens, known, j, sentence=True))
                if end <= j < n and (
                    surname_behind_title(known[j])
                    or self._word_behind_title(tokens, known, i, j)
                    or (len(known[j].stem) == 2 and known[j].text[:2].istitle() and self._closed(tokens, known, j))
                ):
                    end = j + 1  # "Prof. English", "Dr. Ng"
                if end <= j and j + 2 < n and known[j].size == 1 and known[j].upper:
                    after = j + 2 if words[j + 1] == "." else j + 1
                    named = surname_behind_title(known[after]) or self._word_behind_title(tokens, known, i, after)
                    if named and tokens.starts[after] - tokens.ends[after - 1] < 2:
                        end = after + 1  # "Prof. H. Via"
                if end == j + 1 and known[j].call == "given" and self._two_words(tokens, known, j, shield):
                    end += 1  # "Dr. Pearl Ward"
                elif end == j + 1 and self._surname_behind(tokens, known, end):
                    end += 1  # "Dr Maraea Ding"
                if end > j:
                    out.append((j, end, found(tokens, known, j, end, 0.97, f"title {k.stem}")))
            elif call == "initial":
                if end := self._letters_apart(tokens, known, i):
                    out.append((i, end, found(tokens, known, i, end, 0.9, "letters apart")))
                    continue
                if words[i + 1 : i + 2] != ["."] or i + 2 >= n:
                    continue
                size = _dotted_credential(words, known, i)
                if size:
                    self._before_credential(tokens, known, i, size, out)
                elif end := self._initials(tokens, known, i):
                    out.append((i, end, found(tokens, known, i, end, 0.85, f"initials after {known[i - 1].stem}")))
                elif i and self._between_names(tokens, known, i):
                    out.append((i - 1, i + 3, found(tokens, known, i - 1, i + 3, 0.85, "initial between names")))
                elif (
                    (known[i - 1].stem if i else "\n") not in _LETTERED
                    and tokens.starts[i + 2] - tokens.ends[i + 1] <= 1
                    and tokens.starts[i + 2] not in shield
                    and tokens.starts[i] not in shield
                    and known[i + 2].unknown()
                ):
                    end = self._run(tokens, known, i + 2, 2)
                    if end > i + 2:
                        start = i
                        while start > 1 and words[start - 1] == "." and known[start - 2].call == "initial":
                            start -= 2  # "J. O. Smith"
                        given = known[start - 1] if start else None
                        if given and given.given >= "2" and not given.small and given.nameable():
                            start -= 1  # "John O. Smith"
                        out.append((start, end, found(tokens, known, start, end, 0.85, "initial and name")))
            elif call == "typed":
                if _stands_apart(text, tokens, i) and not text.islower():
                    at = tokens.starts[i], tokens.ends[i]
                    out.append((i, i + 1, Span(*at, "username", 0.8, "initials: letters that are no word")))
            elif call == "kin":
                if i + 1 >= n:
                    continue
                j = i + 2 if words[i + 1] == "," and i + 2 < n else i + 1
                word = known[j]
                if word.alpha and (not word.small or k.small) and word.relative():
                    end = self._run(tokens, known, j, 2)
                    if end == j + 1 and self._pair(tokens, known, j, shield):
                        end += 1  # "daughter Blossom Waterfall"
                    if end > j:
                        out.append((j, end, found(tokens, known, j, end, 0.9, f"after {k.stem}")))
                elif j == i + 1 and self._pair(tokens, known, j, shield):
                    out.append((j, j + 2, found(tokens, known, j, j + 2, 0.85, f"after {k.stem}")))
            elif call == "given" and self._with_initial(tokens, known, i) and tokens.starts[i] not in shield:
                end = i + 3 if words[i + 2 : i + 3] == ["."] else i + 2
                out.append((i, end, found(tokens, known, i, end, 0.8, "given name and initial")))
            elif call == "given":
                if i and self._announced(tokens, known, i) and self._pair(tokens, known, i, shield):
                    out.append((i, i + 2, found(tokens, known, i, i + 2, 0.85, f"after {known[i - 1].stem}")))
                elif i > 1 and self._announced(tokens, known, i - 1) and self._pair(tokens, known, i - 1, shield):
                    out.append((i - 1, i + 1, found(tokens, known, i - 1, i + 1, 0.8, f"after {known[i - 2].stem}")))
                elif (
                    i
                    and (self._inside(tokens, known, i) or (known[i - 1].text in ";,:(" and k.given >= "2"))
                    and self._two_words(tokens, known, i, shield)
                ):
                    out.append((i, i + 2, found(tokens, known, i, i + 2, 0.8, "given name and surname")))
                elif self._opening(tokens, known, i) and self._two_words(tokens, known, i, shield):
                    out.append((i, i + 2, found(tokens, known, i, i + 2, 0.8, "two names open a sentence")))
                elif k.eponym and i and known[i - 1].stem == "by" and k.surname > "1" and self._ends(known, i + 1):
                    out.append((i, i + 1, found(tokens, known, i, i + 1, 0.86, "behind by")))
            elif call == "patient":
                if i + 1 < n and words[i + 1][0].isupper() and not k.upper:
                    j = i + 1
                    end = self._run(tokens, known, j, 3)
                    if end > j and any(w.unknown() for w in known[j:end]):
                        out.append((j, end, found(tokens, known, j, end, 0.9, "after patient")))
            else:
                behind_comma = i > 0 and words[i - 1] == ","
                if k.small and not behind_comma and k.stem in ("do", "pa", "rt", "np", "md"):
                    continue
                if (
                    k.stem in _DOUBTFUL_CREDENTIALS
                    and not behind_comma
                    and not (i >= 2 and known[i - 1].strength >= "2" and known[i - 2].strength >= "2")
                ):
                    continue
                self._before_credential(tokens, known, i, 1, out)
        return out

    def _with_initial(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether word ``i``, which is also a given name, has an initial behind it and does something: "Foster M went
        along".
        """
        k = known[i]
        if k.given < "2" or k.white or k.eponym or i + 2 >= len(known) or not _is_letter(known[i + 1]):
            return False
        if tokens.starts[i + 1] - tokens.ends[i] != 1 or k.kinds == ("month",) or k.stem in _LETTERED:
            return False
        j = i + 3 if known[i + 2].text == "." else i + 2
        return j < len(known) and known[j].small and known[j].alpha and known[j].size > 1

    def _between_names(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether the initial at ``i`` stands between a given name and a surname that is a word: "Malaki R. Close"."""
        one, two = known[i - 1], known[i + 2]
        if tokens.starts[i] - tokens.ends[i - 1] != 1 or tokens.starts[i + 2] - tokens.ends[i + 1] != 1:
            return False
        if not one.alpha or one.small or one.upper or not (one.unknown() or (one.given >= "2" and one.nameable())):
            return False
        return two.alpha and not (two.small or two.upper or two.white or two.unknown()) and two.surname >= "1"

    def _inside(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether word ``i`` stands inside a sentence, behind a word in small letters or what somebody is."""
        before = known[i - 1]
        return (before.small or before.stem in _NAME_FIELDS) and tokens.starts[i] - tokens.ends[i - 1] == 1

    def _opening(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether word ``i`` opens a sentence that somebody of two names does something in: "Will Frost did not come".
        The second word has a capital only if it is a name.
        """
        if (i and known[i - 1].text not in ".\n") or i + 2 >= len(known):
            return False
        one, two, after = known[i : i + 3]
        if one.given < "2" or two.surname < "2" or one.stem in _AGENT_CUES:
            return False
        if one.white or one.heading or one.eponym or two.rank > "2":
            return False
        return after.small and after.alpha and after.rank > "1" and tokens.starts[i + 2] - tokens.ends[i + 1] == 1

    def _closed(self, tokens: Tokens, known: list[Lexeme], j: int) -> bool:
        """Whether the surname of two letters at ``j`` ends a name: "Dr. Ga in coding", not "the Dr. No further"."""
        after = known[j + 1] if j + 1 < len(known) else None
        if after is None or not after.alpha:
            return True
        return known[j].stem not in _TWO_LETTERS and after.small and tokens.starts[j + 1] - tokens.ends[j] == 1

    def _word_behind_title(self, tokens: Tokens, known: list[Lexeme], i: int, j: int) -> bool:
        """Whether a word that nobody is known to bear is a name because a doctor is called by it: "told Dr Game"."""
        k, before = known[j], known[i - 1] if i else None
        if known[i].text[0].islower() or k.small or k.upper or k.size < 3 or tokens.starts[j] - tokens.ends[j - 1] > 1:
            return False
        if k.white or k.never or k.heading or k.kinds or k.stem in _SERVICES or k.stem in _ROLES:
            return False
        return before is None or before.stem not in ("the", "a", "this", "your", "our")

    def _surname_behind(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether word ``i`` behind a title and a given name is a surname although it is a word."""
        if i >= len(known) or tokens.starts[i] - tokens.ends[i - 1] != 1 or known[i - 1].small:
            return False
        k, after = known[i], known[i + 1] if i + 1 < len(known) else None
        if not surname_behind_title(k) or k.white or k.never or k.heading or k.credential:
            return False
        return after is None or not after.alpha or (after.small and after.stem not in _NO_SURNAME_BEFORE)

    def _two_words(self, tokens: Tokens, known: list[Lexeme], i: int, shield: frozenset[int]) -> bool:
        """Whether word ``i`` and the next, words that are also borne as names, name somebody: "told Grace Day",
        "labelled Honor Savage".
        """
        if i + 1 >= len(known) or tokens.starts[i + 1] - tokens.ends[i] != 1 or tokens.starts[i] in shield:
            return False
        one, two = known[i], known[i + 1]
        if not two.alpha or two.small or two.upper or two.size < 3 or two.eponym or two.white:
            return False
        if two.surname < "2" and (
            two.never or two.title or two.heading or two.kinds or two.stem in _NO_SURNAMES or one.given < "2"
        ):
            return False
        if one.eponym and one.given < "3":
            return False
        if one.given < "2" and (two.surname < "3" or one.never):
            return False
        after = known[i + 2] if i + 2 < len(known) else None
        if after is None or not after.alpha or tokens.starts[i + 2] - tokens.ends[i + 1] != 1:
            return True
        return after.small and after.stem not in _NO_SURNAME_BEFORE

    def _ends(self, known: list[Lexeme], i: int) -> bool:
        """Whether nothing stands at ``i`` that a person's name could be an eponym of: "by Barrett on Monday"."""
        return i >= len(known) or known[i].text in ".,;)\n" or known[i].stem in ("on", "at", "and", "in")

    def _announced(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether the word before ``i`` says who somebody is: "caller", "Captain", "carer", "told"."""
        before = known[i - 1]
        if not before.alpha or tokens.starts[i] - tokens.ends[i - 1] != 1 or before.stem in _WAYS:
            return False
        return before.stem in _NAME_FIELDS or before.stem in _ROLES or before.stem in _AGENT_CUES

    def _pair(self, tokens: Tokens, known: list[Lexeme], i: int, shield: frozenset[int]) -> bool:
        """Whether word ``i`` and the next are somebody's names although both are words, where somebody is announced:
        "caller Blossom Arrow". What stands behind them must not go on as the name of something else.
        """
        if i + 1 >= len(known) or tokens.starts[i + 1] - tokens.ends[i] != 1 or tokens.starts[i] in shield:
            return False
        for k in known[i : i + 2]:
            if not k.alpha or k.small or k.upper or k.size < 3 or k.eponym or k.white or k.never or k.heading:
                return False
            if k.title or k.credential or k.stem in _NO_SURNAME_BEFORE or k.stem in _NO_PERSON or k.stem in _SERVICES:
                return False
        one, two = known[i], known[i + 1]
        if max(one.given, two.surname) < "1":
            return False
        if one.given < "1" and two.surname < "2" and (i == 0 or known[i - 1].stem not in _ROLES):
            return False
        after = known[i + 2] if i + 2 < len(known) else None
        if after is None or not after.alpha or tokens.starts[i + 2] - tokens.ends[i + 1] != 1:
            return True
        return after.small and after.stem not in _NO_SURNAME_BEFORE

    def _people(self, tokens: Tokens, known: list[Lexeme], at: int) -> list[tuple[int, int]]:
        """The people of a list that begins at ``at``, from word to word: "Crew: Ann Lee, Drew Lake and Moss". Every
        part is made of capitalised words, and one of all must be rather a name than anything else.
        """
        out: list[tuple[int, int]] = []
        first, n, sure, j = at, len(known), False, at
        while j <= n and j - at < 60:
            k = known[j] if j < n else None
            gap = k is not None and j > first and tokens.starts[j] - tokens.ends[j - 1] > 2
            part = (
                k is not None
                and not gap
                and (
                    (k.alpha and not k.small and (k.title or not k.heading))
                    or (k.stem in _PARTICLES and first < j)
                    or k.text in "'-"
                    or (k.text == "." and (known[j - 1].size == 1 or known[j - 1].title))
                )
            )
            if part and k is not None and not (k.upper and 2 < k.size < 5 and k.white):
                sure = sure or (k.alpha and (k.unknown() or (k.strength >= "2" and k.rank < "3" and not k.white)))
                j += 1
                continue
            if j > first and known[j - 1].alpha:
                if j - first > 5 or all(
                    w.white or (w.rank == "3" and w.strength < "2") for w in known[first:j] if w.alpha
                ):
                    return []
                out.append((first, j))
            elif j > first:
                return []
            if k is None or gap or not (k.text in ",/&+" or k.stem == "and"):
                # A sentence goes on: the last part was none of the list.
                if k is not None and not gap and k.alpha and out:
                    out.pop()
                break
            j += 1
            first = j
        return out if sure else []

    def _letters_apart(self, tokens: Tokens, known: list[Lexeme], i: int) -> int:
        """Where a name written "J O H N  S M I T H" from ``i`` on ends, else 0. Headings are written so too."""
        if i and known[i - 1].size == 1 and known[i - 1].upper and tokens.starts[i] - tokens.ends[i - 1] < 4:
            return 0  # it began before
        n, j, parts = len(known), i, [known[i].stem]
        while j + 1 < n and known[j + 1].size == 1 and known[j + 1].upper and j - i < 60:
            gap = tokens.starts[j + 1] - tokens.ends[j]
            if not 1 <= gap <= 4:
                break
            j += 1
            if gap > 1:
                parts.append("")
            parts[-1] += known[j].stem
        plain = [p in self.lexemes.white or self.lexemes.vocabulary.get(p, "0") > "1" for p in parts]
        if j - i < 3 or max(map(len, parts)) < 3 or (all(plain) and not any(p in self.lexemes.names for p in parts)):
            return 0
        return j + 1 if not all(plain) or len(parts) > 1 else 0

    def _initials(self, tokens: Tokens, known: list[Lexeme], i: int) -> int:
        """Where the initials that begin at ``i`` end if they stand for a person ("read by J.O."), else 0."""
        if not i or known[i - 1].stem not in _AGENT_CUES:
            return 0
        words, letters, j = tokens.words, "", i
        while (
            j + 1 < len(words)
            and known[j].size == 1
            and known[j].upper
            and words[j + 1] == "."
            and (j == i or tokens.starts[j] == tokens.ends[j - 1])
        ):
            letters += known[j].stem
            j += 2
        if not 2 <= len(letters) <= 3 or letters in _NO_INITIALS or self.lexemes.vocabulary.get(letters, "0") > "2":
            return 0
        if j < len(words) and known[j].alpha and not known[j].small and known[j].nameable():
            return 0  # the name itself follows
        return j

    def _before_credential(
        self, tokens: Tokens, known: list[Lexeme], i: int, size: int, out: list[tuple[int, int, Span]]
    ) -> None:
        """The name before the credential that begins at ``i``."""
        j = i - 1
        if j >= 0 and tokens.words[j] == ",":
            j -= 1
        start = self._run_back(tokens, known, j, 4)
        if start <= j and tokens.starts[i] - tokens.ends[j] < 4:
            what = known[i].stem if size == 1 else "with dots"
            out.append((start, j + 1, found(tokens, known, start, j + 1, 0.96, f"credential {what}")))

    def _after_field(
        self, text: str, tokens: Tokens, known: list[Lexeme], i: int, out: list[tuple[int, int, Span]]
    ) -> None:
        """The name behind "Attending:"; behind "Patient name:" whatever stands there."""
        words, n = tokens.words, len(tokens.words)
        j = i + 1
        while j < n and (known[j].title or words[j] == "."):
            j += 1
        field = known[i - 1].stem
        end = max(self._run(tokens, known, j, 5, comma=j == i + 1), self._value(tokens, known, j))
        if end <= j or _all_words(known[j:end]):
            end = j
        asked = field in _SURE_FIELDS and not (i > 1 and known[i - 2].stem in _NO_PERSON)
        end = max(end, self._whole_value(tokens, known, j, asked))
        if end <= j:
            return
        made = found(tokens, known, j, end, 0.95, f"field {field}")
        tail = _LOGIN_TAIL.match(text, made.end) if end == j + 1 else None
        if tail and tail.end() > made.end:  # "Transcriptionist: jsmith23"
            made = Span(made.start, tail.end(), "username", 0.9, made.why)
            while end < n and tokens.starts[end] < made.end:
                end += 1
        out.append((j, end, made))

    def _whole_value(self, tokens: Tokens, known: list[Lexeme], at: int, asked: bool) -> int:
        """Where the value of a field that begins at ``at`` ends if it has the form of a name, else ``at``.

        Every word has a capital, and a line's end, a sign, a number or a wide gap closes it. A field for a name
        (``asked``) is believed whatever the words are; behind any other the words must be borne as names.
        """
        n, j, parts, comma = len(known), at, 0, False
        while j < n:
            k = known[j]
            if j > at and (k.text == "\n" or tokens.starts[j] - tokens.ends[j - 1] > 1):
                break
            if k.alpha:
                if k.credential and parts:
                    break
                if j + 1 < n and known[j + 1].text == ":" and parts:
                    break  # the next field
                particle = k.stem in _PARTICLES and j + 1 < n and known[j + 1].alpha
                if (k.small and not particle) or k.stem in _NO_VALUE or parts > 3:
                    return at
                if not asked and (k.white and k.strength < "3"):
                    return at
                parts += k.size > 1 or parts > 0
            elif k.text == "," and not comma and parts == 1 and j + 1 < n and known[j + 1].alpha:
                if known[j + 1].credential or known[j + 1].small:
                    break
                comma = True
            elif k.text not in "-'." or (k.text == "." and known[j - 1].size > 1):
                break
            j += 1
        while j > at and not known[j - 1].alpha:
            j -= 1
        if j == at:
            return at
        goes_on = j < n and known[j].alpha and tokens.starts[j] - tokens.ends[j - 1] < 2
        if (goes_on or (parts < 2 and not asked)) and not (j < n and known[j].credential):
            return at
        borne = [k for k in known[at:j] if k.alpha and k.size > 1]
        if asked:
            return j
        return j if borne and all(k.strength >= "1" for k in borne) and any(k.strength >= "2" for k in borne) else at

    def _closes(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """Whether nothing at ``i`` goes on with what two words with capitals begin: a list, a third name, a head."""
        k = known[i] if i < len(known) else None
        if k is None or k.text in ".;:()/\n" or (k.text == "," and not heads_name(tokens, known, i + 1)):
            return True
        if not k.alpha or k.stem in _NO_SURNAME_BEFORE or k.stem in ("and", "or", "the", "a", "an"):
            return False
        return k.small or k.credential

    def _listed(self, tokens: Tokens, known: list[Lexeme], i: int, shield: frozenset[int]) -> bool:
        """Whether the comma at ``i`` stands in "SMITH, JOHN": both can be names and nothing else, one is known
        as one.
        """
        one, two = known[i - 1], known[i + 1]
        if not (one.alpha and two.alpha) or one.size < 2 or two.size < 2:
            return False
        if two.stem in _LANDS and any(k.stem in _IN_A_LAND and k.small for k in known[max(0, i - 4) : i - 1]):
            return False  # "Talk in Sandy Beach, Kenya"
        if tokens.starts[i + 1] - tokens.ends[i] > 1 or tokens.starts[i] != tokens.ends[i - 1]:
            return False
        if (
            two.given >= "2"
            and not any(k.small or k.upper or k.never or k.heading for k in (one, two))
            and (
                one.surname >= "2" or (i > 1 and one.surname > "0" and (known[i - 2].small or known[i - 2].text == ":"))
            )
            and self._closes(tokens, known, i + 2)
            and tokens.starts[i - 1] not in shield
        ):
            return True  # "Captain Waterfall, Holly", "a wound of Silver, Gay": whatever the words
        for k in (one, two):
            if k.white or (k.eponym and k.given < "3") or k.never or k.heading or (k.rank > "1" and k.strength < "2"):
                return False
        if one.small or two.small:
            # In text without capitals only where a line or a field opens, and only before a given name.
            opens = i < 2 or tokens.words[i - 2] in ("\n", ":", "|")
            if not (opens and one.small and two.small and two.given >= "2" and two.rank < "2"):
                return False
        if (
            i > 1
            and tokens.starts[i - 1] - tokens.ends[i - 2] == 1
            and tokens.words[i - 2][0].isalnum()
            and not (
                (known[i - 2].stem in _AGENT_CUES and one.nameable() and two.nameable())
                or (known[i - 2].stem in _SHOWN_AS and (two.given >= "2" or (one.unknown() and two.unknown())))
            )
        ):
            return False  # a list in a sentence, unless somebody did something or is named
        if heads_name(tokens, known, i + 2) or (i > 2 and tokens.words[i - 2] == "." and known[i - 3].title):
            return False
        capital = one.upper and two.upper
        sure = sum(k.strength >= "2" or (capital and k.rank == "0" and k.size > 2) for k in (one, two))
        return (sure > 0 and two.given >= "1") or sure == 2

    def _title_here(self, tokens: Tokens, known: list[Lexeme], i: int) -> bool:
        """ "mr" is also magnetic resonance or mitral regurgitation, "dr" digital radiography, "ms" multiple
        sclerosis.
        """
        following = known[i + 1 : i + 3]
        if following and following[0].text == ".":
            following = following[1:]
        if following and following[0].text == "\n":
            following = known[i + 3 : i + 4] if known[i + 1].text == "." else known[i + 2 : i + 3]
        if not following or not following[0].alpha:
            return False
        if tokens.words[i] in ("MR", "MS", "DR"):
            k = following[0]
            return k.nameable() and (not (k.rank > "0" or k.white) or k.strength == "3")
        return True

    def _run(self, tokens: Tokens, known: list[Lexeme], at: int, most: int, comma: bool = False) -> int:
        """Where the name that begins at ``at`` ends."""
        words, n = tokens.words, len(tokens.words)
        end = at
        taken = 0
        while at < n and taken < most:
            k = known[at]
            gap = tokens.starts[at] - tokens.ends[at - 1] if taken else 0
            if (
                k.text == "\n"
                or gap > 2
                or (gap == 2 and ((k.rank > "0" and k.strength < "2") or _is_label(known, at)))
            ):
                break
            if k.alpha:
                small = taken and not words[at - 1].islower()  # "Smith b. 1950"
                if k.size == 1 and (k.upper or (words[at + 1 : at + 2] == ["."] and not small)):  # an initial
                    at += 2 if at + 1 < n and words[at + 1] == "." else 1
                    taken += 1
                    if taken > 1:
                        end = at
                    continue
                if k.stem in _PARTICLES and at + 1 < n and known[at + 1].alpha and not known[at + 1].small:
                    at += 1
                    continue
                if end < at and words[at - 1] == "-" and taken:  # the second half of "Anne-marie", "Smith-Jones"
                    if k.white and k.strength < "2":
                        break
                elif not k.nameable() or (taken and k.small and (not words[at - 1].islower() or k.strength < "2")):
                    break
                taken += 1
                at += 1
                end = at
            elif (
                (
                    k.text in "-'."
                    and end == at
                    and at + 1 < n
                    and known[at + 1].alpha
                    and tokens.ends[at] == tokens.starts[at + 1]
                    and tokens.starts[at] == tokens.ends[at - 1]
                )
                or (k.text == "^" and end == at)
                or (
                    comma
                    and k.text == ","
                    and taken == 1
                    and at + 1 < n
                    and _given_after_comma(known[at - 1], known[at + 1])
                    and not heads_name(tokens, known, at + 2)
                )
            ):
                at += 1
            else:
                break
        return end

    def _value(self, tokens: Tokens, known: list[Lexeme], at: int, sentence: bool = False) -> int:
        """Where the short value that begins at ``at`` ends if it is a name from end to end, else ``at``.

        What a field or a title announces and a sign closes is taken whole, so that a name which is a word, or is
        written small, stays with its other half ("Signed by: e. bottoms, md"). In a ``sentence`` every word must be
        able to be a name.
        """
        j, n, count, sure, comma = at, len(known), 0, False, False
        while j < n:
            k = known[j]
            if j > at and tokens.starts[j] - tokens.ends[j - 1] > 1 and k.text != "\n":
                break  # the next column
            if k.alpha:
                if k.credential and count:
                    break
                if k.never or k.title or (k.white and k.strength < "2"):
                    return at
                initial = k.size == 1
                if initial and k.small and count and not known[j - 1].small:
                    break  # "Smith v the insurer", "Smith b. 1950"
                if sentence and not (initial or k.strength >= "2" or k.rank == "0" or k.stem in _PARTICLES):
                    return at
                count += 1
                if count > 4:  # a sentence; a long line must not be read to its end from every title
                    return at
                sure = sure or initial or k.unknown() or (k.strength >= "2" and k.rank < "3")
            elif k.text == ",":
                follows = known[j + 1] if j + 1 < n else None
                if sentence or comma or count != 1 or follows is None or not follows.alpha or follows.credential:
                    break
                if follows.small and not known[j - 1].small:
                    break  # "Smith, tel"
                comma = True
            elif k.text not in "-'." or (k.text == "." and known[j - 1].size > 1):  # only an initial has a dot
                break
            j += 1
        if sentence and (j == n or known[j].text not in ",(\n"):
            return at
        return j if sure and (count > 1 or sentence) else at

    def _run_back(self, tokens: Tokens, known: list[Lexeme], at: int, most: int) -> int:
        """Where the name that ends at ``at`` begins (``at + 1`` if there is none)."""
        words = tokens.words
        start = at + 1
        taken = 0
        while at >= 0 and taken < most:
            k = known[at]
            word = k.text
            if word == "\n" or (at + 1 < len(words) and taken and tokens.starts[at + 1] - tokens.ends[at] > 2):
                break
            if word == "." and at and known[at - 1].size == 1 and known[at - 1].upper:
                at -= 1
                continue
            if word in "-'" and taken and at and known[at - 1].alpha:
                at -= 1
                continue
            if k.size == 1 and k.upper and taken:
                start = at
                taken += 1
                at -= 1
                continue
            if not k.nameable(capital=False) or (k.small and taken == 0 and k.strength < "2"):
                break
            if taken and k.stem in _NAME_FIELDS and k.strength < "2":
                break  # "Technologist Miguel Santos RT"
            if taken and k.small != known[start].small:
                break
            taken += 1
            start = at
            at -= 1
        return start

    def _signed_off(self, tokens: Tokens, known: list[Lexeme]) -> list[tuple[int, int, Span]]:
        """The name behind two dashes that ends a report."""
        words, n = tokens.words, len(tokens.words)
        at = next((i for i in range(n - 1, 0, -1) if words[i] == words[i - 1] == "-"), n) + 1
        end = self._value(tokens, known, at)
        if end == at or any(word not in "\n." for word in words[end:]):
            return []
        return [(at, end, found(tokens, known, at, end, 0.85, "signs off"))]


def _is_label(known: list[Lexeme], i: int) -> bool:
    """Whether a word labels the field behind it: "File:", "Hosp no"."""
    return i + 1 < len(known) and (known[i + 1].text in ":#" or known[i + 1].stem in ("no", "id", "number"))


def _is_letter(k: Lexeme) -> bool:
    """Whether a word is a capital letter that no sentence is made of."""
    return k.size == 1 and k.upper and k.text not in "AI"


def _inside(span: Span, protected: list[tuple[int, int]]) -> bool:
    return any(a <= span.start and span.end <= b for a, b in protected)


def eponyms(tokens: Tokens, known: list[Lexeme]) -> list[tuple[int, int]]:
    """Where a capitalised word before "syndrome", "sign", "shunt" or the like names that and not a person."""
    out: list[tuple[int, int]] = []
    for i in [i for i, k in enumerate(known) if k.call == "head"]:
        if known[i].stem == "rings" and i + 1 < len(known) and known[i + 1].stem in _RINGS:
            continue  # "Camron rings for her father"
        if not i or tokens.starts[i] - tokens.ends[i - 1] != 1 or known[i - 1].small:
            continue
        first = i - 1
        while (
            first > 1
            and known[first - 1].text == "-"
            and tokens.starts[first] == tokens.ends[first - 1]
            and known[first - 2].alpha
        ):
            first -= 2
        one = known[first]
        if not one.alpha or one.small or one.size < 3 or one.upper or one.title:
            continue
        before = known[first - 1] if first else None
        if before is not None and before.text == "." and first > 1:
            before = known[first - 2]
        if before is None or not (
            before.title
            or (before.size == 1 and before.upper)
            or (before.given >= "1" and not before.small and before.rank < "3")
        ):
            out.append((tokens.starts[first], tokens.ends[i]))
    return out


def scaled(tokens: Tokens, known: list[Lexeme]) -> list[tuple[int, int]]:
    """Where a scale that is called by a person or a town stands before what it gives: "Hamilton 6", "Leeds TO.20"."""
    out: list[tuple[int, int]] = []
    for i in [i for i, k in enumerate(known[:-1]) if k.scale]:
        value = known[i + 1]
        before = known[i - 1] if i else None
        if before is not None and before.text == "." and i > 1:
            before = known[i - 2]
        named = before is not None and (
            before.title or before.call == "kin" or (before.given >= "1" and not before.small and before.rank < "3")
        )
        if named or tokens.starts[i + 1] - tokens.ends[i] != 1:
            continue
        if value.stem == "not" and i + 2 < len(known):
            value = known[i + 2]
        if (value.text.isdigit() and value.size < 4) or _ROMAN.fullmatch(value.text) or value.stem in _JUDGED:
            out.append((tokens.starts[i], tokens.ends[i]))
    return out


_ROMAN = re.compile(r"[IV]{1,3}[a-c]?")
#: What is said of a scale or a test and not of a person.
_JUDGED = frozenset(
    ["recorded", "scored", "performed", "applicable", "done", "excluded", "unlikely", "negative", "positive", "absent"]
)


def _shield(tokens: Tokens, protected: list[tuple[int, int]]) -> frozenset[int]:
    """Places where a word stands that belongs to a protected phrase."""
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
        elif at == len(spans):
            break
    return frozenset(out)


def _plate(tokens: Tokens, i: int) -> tuple[int, int] | None:
    """The words of a number plate that three letters belong to: "XDI 0089", "RAX-4080", "042 HOM"."""
    words, starts, ends = tokens.words, tokens.starts, tokens.ends
    n, j = len(words), i + 1
    if j + 1 < n and words[j] == "-" and starts[j] == ends[i] and starts[j + 1] == ends[j]:
        j += 1
    elif j < n and starts[j] - ends[i] != 1:
        j = n
    if j < n and len(words[j]) == 4 and words[j].isdigit():
        return (i, j + 1) if j + 1 == n or starts[j + 1] > ends[j] or words[j + 1] in ".,;:)" else None
    if i and len(words[i - 1]) == 3 and words[i - 1].isdigit() and starts[i] - ends[i - 1] == 1:
        apart = i == 1 or starts[i - 1] > ends[i - 2]
        return (i - 1, i + 1) if apart and (i + 1 == n or not words[i + 1][0].isalnum()) else None
    return None


def _stands_apart(text: str, tokens: Tokens, i: int) -> bool:
    """Whether spaces or the signs of a sentence stand around word ``i``, and no number before it."""
    start, end = tokens.starts[i], tokens.ends[i]
    if i and tokens.words[i - 1].isdigit():
        return False
    if i and start == tokens.ends[i - 1] and tokens.words[i - 1] not in "(/:,;\n":
        return False
    return text[end : end + 1] in " ,;)\n\t/" or (text[end] == "." and text[end + 1 : end + 2] in " \n")


def surname_behind_title(k: Lexeme) -> bool:
    """Whether a word that is no name elsewhere is one behind a title: it has a capital, and somebody bears it."""
    return k.alpha and not k.small and not (k.upper and k.size > 1) and k.size > 1 and k.surname >= "1"


def found(tokens: Tokens, known: list[Lexeme], a: int, b: int, score: float, why: str) -> Span:
    """The name that words ``a`` to ``b`` make, of a patient or of staff."""
    end = tokens.ends[b - 1]
    if known[b - 1].text.endswith(("'s", "'S")):
        end -= 2
    return Span(tokens.starts[a], end, "staff" if _is_staff(known, a, b) else "name", score, why)


def _is_staff(known: list[Lexeme], a: int, b: int) -> bool:
    following = known[b : b + 3]
    if following and following[0].text == ",":
        following = following[1:]
    if following and (
        following[0].credential or (following[0].text == "M" and len(following) > 1 and following[1].text == ".")
    ):
        return True
    for k in reversed(known[max(0, a - 5) : a]):
        if k.text == "\n":
            return False
        if k.stem in _STAFF_CUES:
            return True
        if k.stem in _LAY:
            return False
    return False


def heads_name(tokens: Tokens, known: list[Lexeme], i: int) -> bool:
    """Whether another capitalised word follows: "Dr. Smith, Lakeview General Hospital" is no "Smith, Lakeview"."""
    if i >= len(known) or tokens.starts[i] - tokens.ends[i - 1] > 1:
        return False
    k = known[i]
    return k.size > 1 and not k.credential and k.text[0].isupper()


def _dotted_credential(words: list[str], known: list[Lexeme], i: int) -> int:
    """How many words "M.D." takes if one begins at ``i``."""
    letters = ""
    j = i
    while j + 1 < len(words) and known[j].alpha and known[j].size <= 4 and words[j + 1] == "." and j - i < 10:
        letters += known[j].stem
        j += 2
        if letters in _DOTTED_CREDENTIALS:
            return j - i
    if j > i and j < len(words) and known[j].alpha and letters + known[j].stem in _DOTTED_CREDENTIALS:
        return j + 1 - i  # "M.D" at the end of a line
    return 0


def _given_after_comma(surname: Lexeme, k: Lexeme) -> bool:
    """Whether a word can be the given name of "Surname, Given" in a field for a name."""
    if not k.alpha or k.credential or k.never or k.white:
        return False
    return surname.small and k.nameable() if k.small else True


def _all_words(run: list[Lexeme]) -> bool:
    """Whether a run is nothing but common words ("Attending: Present", "Name: Unknown")."""
    for k in run:
        if not k.alpha or k.size < 2 or k.white:
            continue
        if k.rank < "2" or k.strength == "3" or (k.strength == "2" and k.rank == "2"):
            return False
    return True
