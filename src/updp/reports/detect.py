"""Find what identifies in a report: patterns, gazetteers and a sequence tagger, one opinion made of three.

Fail closed: a layer that cannot be loaded raises :class:`LayerMissing` when the detector is made, so that no report is
ever read with half a detector. Every span says what it is, how sure that is and which layer said so; it indexes the
text that was given, whatever markup or look-alike letters the text holds. Whitelist terms are never part of a span
unless a title, a credential or a header field says that a person is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import lru_cache

from updp.reports.capitals import led
from updp.reports.edges import beside, widen
from updp.reports.lexeme import TERM_ENDINGS, Lexeme, is_medical
from updp.reports.lexicon import dicom_keywords, word_class
from updp.reports.merge import cut, joined, merge
from updp.reports.rules import Reading, Rules, found, heads_name
from updp.reports.tagger import Features, Tagger, kept_features, windows
from updp.reports.view import plain
from updp.reports.words import Span

#: A word the tagger doubts to be plain by more than this is taken for what it most likely is.
NAME_THRESHOLD = 0.3
_OPENINGS = ("B-NAME", "I-NAME", "B-LOC", "I-LOC", "B-INST", "B-ID")

_PARTICLES = word_class("particles")
_CREDENTIALS = word_class("span_credentials")
_CODE_SYSTEMS = word_class("code_systems")
_INSTITUTION = word_class("institution_generic")
_NEVER = word_class("never_names")
_SERVICES = word_class("services")
_ROLES = word_class("roles")
_AGENT_CUES = word_class("agent_cues")
_ARTICLES = frozenset(["the", "a", "an", "this", "that", "of", "it", "its"])
#: Small words inside the names of towns.
_IN_TOWNS = frozenset(
    ["of", "on", "upon", "the", "in", "by", "under", "and", "le", "la", "de", "du", "sur", "am", "an", "der", "bad"]
)
_FUNCTION_WORDS = frozenset(["on", "at", "and", "to", "who", "in", "from", "as", "via", "for"])
_SENTENCE_ENDS = frozenset([".", "\n", ":", "!", "?", ";", "*", "-", "(", '"', "#", ")"])
_LONGEST_NAME = 40
#: So many names are counted in a text one by one.
_FEW = 40
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_LETTERS_ANY = re.compile(r"[^\W\d_]+")
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


_PAIRS = re.compile(r"\d\d \d\d \d\d")
_MEASURED = word_class("measured")
#: Words that stand in a date beside its numbers.
_DATE_WORDS = word_class("months") | word_class("weekdays") | word_class("date_words")


class Detector:
    """All layers, loaded once. ``extra_block`` and ``extra_allow`` are the policy's own terms."""

    def __init__(self, extra_block: Iterable[str] = (), extra_allow: Iterable[str] = ()) -> None:
        self._rules = Rules(extra_block, extra_allow)
        self._lexemes = self._rules.lexemes
        self._features = Features(self._lexemes, kept_features())
        self._tagger = Tagger()

    def spans(self, text: str) -> list[Span]:
        """Every span of ``text``, in order, none overlapping another."""
        view = plain(text)
        seen = view.text
        passages = [(a, seen[a:b], *self._read(seen[a:b])) for a, b in cut(seen)]
        people = People()
        for _, _, read, tagged in passages:
            if tagged:
                people.add(read.lower, tagged)
        merged: list[Span] = []
        for start, piece, read, tagged in passages:
            found = tagged + self._again(read, tagged, people) if people.names else tagged
            spans = merge(piece, read.ruled, found)
            if start:
                spans = [Span(a + start, b + start, category, score, why) for a, b, category, score, why in spans]
                merged = joined(seen, merged, spans)
            else:
                merged = spans
        merged = beside(seen, widen(seen, led(seen, merged)))
        # What rules are sure of is a round number.
        merged = [s if s[4] != "tagger" else Span(s[0], s[1], s[2], round(s[3], 3), "tagger") for s in merged]
        if view.starts is None:
            return merged
        return [Span(*view.original(a, b), category, score, why) for a, b, category, score, why in merged]

    def _read(self, text: str) -> tuple[Reading, list[Span]]:
        """A passage as rules read it, and the names and other spans found in it."""
        read = self._rules.read(text)
        tagged: list[Span] = []
        for first, last in windows(read.known, read.small):
            tagged += self._tag(text, read, first, last)
        return read, tagged + read.named

    def _tag(self, text: str, read: Reading, first: int, last: int) -> list[Span]:
        tagger, known = self._tagger, read.known
        labels = tagger.tag(self._features.rows(known, first, last, read.small))
        strangers: set[int] = set()
        for i, label in enumerate(labels):
            if label != "O" or (k := known[first + i]).level < 1 or k.size < 3 or not k.alpha:
                continue
            if k.level == 2 or (not (k.small or k.upper) and first + i and known[first + i - 1].small):
                doubt = 1.0 - tagger.certainty("O", i)
                if doubt > NAME_THRESHOLD and (k.size > 3 or k.level == 1):
                    best = max(_OPENINGS, key=lambda name: tagger.certainty(name, i))
                    inside = i > 0 and labels[i - 1][2:] == best[2:]
                    labels[i] = ("I-" if inside else "B-") + best[2:]
                elif k.level == 2 and self._stranger(known, first + i, doubt):
                    labels[i] = "B-NAME"
                    strangers.add(i)
        out: list[Span] = []
        i = 0
        while i < len(labels):
            if labels[i] == "O":
                i += 1
                continue
            kind = labels[i][2:]
            j = i + 1
            while j < len(labels) and labels[j] == "I-" + kind and known[first + j].text != "\n":
                j += 1
            a, b = first + i, first + j
            # Whether a word is a name or a place matters less than whether it is either.
            named = kind in ("NAME", "INST") and not known[a].small
            sure = [1.0 - tagger.certainty("O", k) if named else tagger.certainty(labels[k], k) for k in range(i, j)]
            score = sum(sure) / (j - i)
            if kind == "NAME":
                a, b = _stretch(read, a, b)
                out += self._name(read, a, b, max(score, 0.65 if i in strangers else 0.36), "tagger")
            else:
                others = self._other(text, read, a, b, kind, score)
                # What cannot be of that kind may still be a name that stands in it.
                for m in range(i, j) if not others else ():
                    if known[first + m].level == 2 and self._stranger(known, first + m, 1.0 - tagger.certainty("O", m)):
                        others += self._name(read, first + m, first + m + 1, 0.6, "tagger")
                out += others
            i = j
        return out

    def _stranger(self, known: list[Lexeme], i: int, doubt: float) -> bool:
        """A capitalised word that no list knows and that is no slip and no term: denied unless something speaks
        for it.
        """
        k = known[i]
        if not k.alpha or k.white or k.eponym or k.never:
            return False
        lower = k.stem
        if k.small or k.upper:
            # Without help from capitals: a name of the lists that no list of words has, or two words nobody knows.
            if k.rank > "0" or k.size < 5 or not self._no_word(k):
                return False
            return (k.strength >= "2" and doubt > 0.002) or any(
                near.small == k.small
                and near.rank == "0"
                and near.size > 3
                and near.alpha
                and not near.white
                and self._lexemes.sound(lower) > 0
                and self._no_word(near)
                for near in (*known[max(0, i - 1) : i], *known[i + 1 : i + 2])
            )
        previous = known[i - 1].text if i else "\n"
        opens = previous in _SENTENCE_ENDS
        if k.strength >= "2" and (k.rank == "0" or (k.rank == "1" and not opens)):
            return True
        if k.given == "3" and (not opens or (k.rank == "1" and doubt > 0.01)):
            # "Mark the lateral film" is none.
            return k.rank == "1" or i + 1 == len(known) or known[i + 1].stem not in _ARTICLES
        if k.given == "2" and k.rank == "2" and doubt > (0.15 if opens else 0.03):
            return True
        if k.rank > "0" or len(lower) < 4 or previous == "-" or (i + 1 < len(known) and known[i + 1].text == "-"):
            return False
        sound = self._lexemes.sound(lower)
        if not opens:
            # Inside a sentence a capital is meant; slips and terms are written small there.
            return doubt > 0.003 and (sound >= 0 or not is_medical(lower))
        named = sound > 1 or (sound == 1 and not self._lexemes.is_slip(lower))
        return doubt > 0.02 and named and not is_medical(lower)

    def _no_word(self, k: Lexeme) -> bool:
        """Whether an unlisted word is no slip of a common one and no term."""
        return (
            k.stem.isalpha()
            and self._lexemes.sound(k.stem) >= 0
            and not self._lexemes.is_slip(k.stem)
            and not is_medical(k.stem)
        )

    def _other(self, text: str, read: Reading, a: int, b: int, kind: str, score: float) -> list[Span]:
        tokens, known = read.tokens, read.known
        if kind in ("ID", "CONTACT"):
            # A plain word inside parts what was taken for one number: "s nodule 7741-982".
            for i in range(b - 1, a, -1):
                k = known[i - 1]
                if k.alpha and (k.white or (k.small and k.rank > "1")):
                    a = i
                    break
            letters = known[a - 1] if kind == "ID" and a else None
            if letters and letters.upper and letters.rank == "0" and 1 < letters.size < 4 and not letters.white:
                a -= tokens.starts[a] - tokens.ends[a - 1] == 1  # letters nobody knows: "TDL 7984"
        elif kind == "LOC" and not known[a].small:
            # So does one inside a place: "in Bambari holds POA".
            parts = (i for i in range(a + 1, b) if known[i].small and known[i].rank > "1")
            b = next((i for i in parts if known[i].stem not in _IN_TOWNS), b)
        a, b = self._edges(known, a, b, kind)
        if a >= b:
            return []
        stems = [k.stem for k in known[max(0, a - 2) : a]]
        if stems and (stems[-1] in _CODE_SYSTEMS or (len(stems[-1]) == 1 and stems[0] in _CODE_SYSTEMS)):
            return []  # "CPT 71046", "LCD L35008"
        start, end = tokens.starts[a], tokens.ends[b - 1]
        piece = text[start:end]
        words = [k for k in known[a:b] if k.alpha]
        digits = sum(c.isdigit() for c in piece)
        category = _LABEL_CATEGORY[kind]
        medical = all(k.white or k.eponym for k in words) if words else False
        if kind in ("LOC", "INST"):
            if medical or any(s in read.shield for s in tokens.starts[a:b]):
                return []
            if (words and all(k.rank == "3" for k in words)) or score < 0.5:
                return []
            if len(words) == 1 and piece.lower() in dicom_keywords():
                return []  # "StudyDate 20190314" in a comment that a viewer wrote
            if kind == "LOC" and len(words) == 1 and (word := words[0]).stem not in self._lexemes.place_words:
                plain = word.rank > "1" and word.strength < "2"
                if plain and (score < 0.7 or (score < 0.9 and not _behind_where(known, a))):
                    return []
                if word.rank == "0" and self._lexemes.is_slip(word.stem) and self._lexemes.sound(word.stem) < 0:
                    return []
            if kind == "INST" and all(k.rank > "1" and k.strength < "2" for k in words):
                behind = known[b].text if b < len(known) else ""
                if behind == ":" or (len(words) == 1 and a and known[a - 1].text == "<hole>"):
                    return []  # "Admit Comments:", a heading
            if kind == "INST" and len(words) == 1 and words[0].upper and score < 0.97 and not _behind_where(known, a):
                return []  # letters that stand for anything
            if all(k.stem in _SERVICES for k in words):
                return []
            if kind == "INST" and all(
                k.stem in self._rules.gazetteer.generic_heads or k.stem in _INSTITUTION or k.stem in _SERVICES
                for k in words
            ):
                return []
            if kind == "LOC" and digits and words:
                category = "address"
            elif kind == "LOC" and digits:
                category = "address" if digits >= 5 else ""
            if (
                kind == "LOC"
                and len(piece) == 2
                and not (
                    a > 1
                    and known[a - 1].text == ","
                    and known[a - 2].alpha
                    and not (known[a - 2].small or known[a - 2].white)
                )
            ):
                return []  # two letters are a state behind a town and a comma only
            small = words and all(k.small for k in words)
            if (
                kind == "LOC"
                and small
                and category == "location"
                and not any(k.stem in self._lexemes.place_words for k in words)
            ):
                return []
        elif kind in ("DATE", "ID") and any(s in read.shield for s in tokens.starts[a:b]):
            return []
        elif kind == "DATE":
            if not _MONTH_OR_DAY.search(piece) or medical:
                return []
            if digits and words and not any(k.stem in _DATE_WORDS for k in words):
                return []  # "VO2max 52"
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
            if _PAIRS.fullmatch(piece) and stems and stems[-1] in _MEASURED:
                return []  # "sats 91 92 93"
            if (
                digits < 3
                and not (digits and len(piece) > 4)
                and not (len(words) == 1 and words[0].rank == "0" and score > 0.8)
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
        elif kind == "UNIT" and (not digits or medical or score < 0.6 or text[end : end + 1].isalpha()):
            return []
        return [Span(start, end, category, score, "tagger")] if category else []

    def _edges(self, known: list[Lexeme], a: int, b: int, kind: str) -> tuple[int, int]:
        """A tagged span without signs and plain words at its edges."""
        heads = self._rules.gazetteer.generic_heads if kind == "INST" else frozenset()
        tails = _INSTITUTION if kind == "INST" else frozenset()
        while a < b:
            k = known[a]
            if not (k.text[0].isalnum() or k.text in "(+#") or (self._plain_word(k, kind) and k.stem not in heads):
                a += 1
            else:
                break
        while b > a:
            k = known[b - 1]
            if not (k.text[-1].isalnum() or k.text == ")") or (self._plain_word(k, kind) and k.stem not in tails):
                b -= 1
            else:
                break
        return a, b

    def _plain_word(self, k: Lexeme, kind: str) -> bool:
        """Whether a word at the edge of a tagged span says nothing by itself."""
        if not k.alpha or (kind == "DATE" and _MONTH_OR_DAY.search(k.text)):
            return False
        if kind in ("ID", "CONTACT", "AGE"):
            known = k.rank > "0" or k.stem in self._lexemes.black
            return known and not (kind == "ID" and k.size < 4 and k.upper)
        if k.never or k.title or (k.small and k.stem == "via"):
            return True
        return k.small and k.rank > "1" and k.stem not in self._lexemes.place_words

    # -- names -------------------------------------------------------------------------------------------------------

    def _name(self, read: Reading, a: int, b: int, score: float, why: str) -> list[Span]:
        """The parts of a tagged name that may be one: protected words cut it."""
        tokens, known, shield = read.tokens, read.known, read.shield
        whole = _trim(known, a, b)
        if whole is None:
            return []
        a, b = whole
        if b == a + 1 and _no_name_alone(known, a):
            return []
        if b > a + 1 and _says_what(known, a):
            a += 1  # "Agent Dinie Kuai", "Bosun Clay Chambers"
        strong = _person_here(known, a, b) or (
            not any(s in shield for s in tokens.starts[a:b]) and _given_beside(known, a, b)
        )
        capital = any(k.alpha and not k.small for k in known[a:b])
        out: list[Span] = []
        run: int | None = None
        for i in range(a, b + 1):
            keep = False
            if i < b:
                k = known[i]
                keep = (
                    (
                        strong
                        or not (k.white or k.eponym or tokens.starts[i] in shield)
                        or (k.small and _joined(known, i) and not k.white and tokens.starts[i] not in shield)
                        or (
                            k.eponym
                            and not k.white
                            and score > 0.85
                            and tokens.starts[i] not in shield
                            and _is_person(known, i)
                        )
                    )
                    and k.text != "\n"
                    and not (capital and _filler(k) and not _joined(known, i))
                )
            if keep and run is None:
                run = i
            elif not keep and run is not None:
                piece = _trim(known, run, i)
                if piece and self._plausible(known, *piece, score, strong):
                    out.append(found(tokens, known, *piece, score, why))
                run = None
        return out

    def _plausible(self, known: list[Lexeme], a: int, b: int, score: float, strong: bool) -> bool:
        """Whether something in the run can be a name at all."""
        for i in range(a, b):
            k = known[i]
            if not k.alpha or k.never or k.size > _LONGEST_NAME:
                continue
            rank, strength = k.rank, k.strength
            doubtful = rank == "0" and strength < "2" and not strong and score < 0.92
            if (
                doubtful
                and (
                    k.stem.endswith(TERM_ENDINGS) or (self._lexemes.is_slip(k.stem) and self._lexemes.sound(k.stem) < 2)
                )
                and (k.small or k.upper or i == 0 or known[i - 1].text in _SENTENCE_ENDS)
            ):
                continue
            if k.small:
                if (
                    (rank < "2" and strength >= "2")
                    or (rank == "0" and k.size > 2 and score > 0.6 and not is_medical(k.stem))
                    or (strength == "3" and score > 0.85)
                ):
                    return True
            elif (rank < "2" or strength >= "2" or strong) and (k.size > 3 or not k.upper or rank == "0"):
                sure = 0.8 if rank == "1" and strength < "2" else 0.6 if rank > "1" else 0.0
                if strong or score > sure:
                    return True
        return False

    def _again(self, read: Reading, tagged: list[Span], people: People) -> list[Span]:
        """A name once found is found everywhere else in the same report."""
        again = people.again(read.lower)
        short = {k.stem for k in read.known if k.initials}
        letters = short & people.initials if short else short
        if not again and not letters:
            return []
        mine = [t for t in tagged if t.category == "name" or t.category == "staff"]
        taken = {match.start() for start, end, *_ in mine for match in _LETTERS.finditer(read.lower, start, end)}
        return [
            found(
                read.tokens,
                read.known,
                i,
                i + 1,
                0.8,
                "initials of a name in the report" if k.stem in letters else "named elsewhere in the report",
            )
            for i, k in enumerate(read.known)
            if (k.stem in again or k.stem in letters)
            and k.rank < "2"
            and not (k.white or k.eponym or k.never or (k.small and k.rank > "0"))
            and (k.size > 2 or k.upper)
            and read.tokens.starts[i] not in taken
            and read.tokens.starts[i] not in read.shield
        ]


class People:
    """The names that stand in a report for certain, and the initials of those named in full."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()
        self.initials: set[str] = set()

    def add(self, lower: str, found: list[Span]) -> None:
        """Take in the names among what was ``found`` in a passage, given in small letters."""
        for start, end, category, score, _ in found:
            if score < 0.7 or category not in ("name", "staff"):
                continue
            self.names.update(_LETTERS.findall(lower, start, end))
            if score >= 0.75:
                parts = _LETTERS_ANY.findall(lower, start, end)
                if 2 <= len(parts) <= 3 and len(parts[0]) > 1 and len(parts[-1]) > 1:
                    letters = "".join([part[0] for part in parts])
                    self.initials |= {letters, letters[1:] + letters[0]}

    def again(self, lower: str) -> Collection[str]:
        """The names that may stand once more in a passage. To count each of many would take longer than to look
        at every word.
        """
        if len(self.names) > _FEW:
            return self.names
        return {name for name, once in self.names.items() if lower.count(name) > once}


def _behind_where(known: list[Lexeme], a: int) -> bool:
    """Whether a word for whereabouts, a sign or the beginning stands before word ``a``."""
    return (
        a == 0
        or known[a - 1].call == "where"
        or known[a - 1].text in ":,("
        or known[a - 1].stem in ("and", "or", "via")
    )


def _stretch(read: Reading, a: int, b: int) -> tuple[int, int]:
    """A name found by half is taken whole: initials, and neighbours nobody knows."""
    starts, ends, known = read.tokens.starts, read.tokens.ends, read.known
    n = len(known)
    while a > 0:
        before = known[a - 1]
        if before.text == "." and a > 1 and known[a - 2].size == 1 and known[a - 2].alpha:
            if known[a - 2].small and not known[a].small:
                break
            a -= 2
            given = known[a - 1] if a and starts[a] - ends[a - 1] == 1 else None
            if given and given.size > 1 and given.alpha and given.small == known[a].small and given.nameable():
                a -= 1
        elif (
            before.alpha
            and not before.small
            and not (before.upper and before.size < 5 and not known[a].upper)  # "AMHP Jane Doe"
            and starts[a] - ends[a - 1] <= 1
            and (
                before.unknown()
                or (before.given >= "2" and before.nameable() and not before.upper)
                or (_is_initial(known, a) and before.given >= "2" and before.nameable())
            )
        ):
            a -= 1
        elif before.small and before.level == 2 and known[a].small and before.size > 3 and starts[a] - ends[a - 1] == 1:
            if before.call or is_medical(before.stem) or not before.unknown():
                break
            a -= 1  # "film of zanthora quibblesworth"
        elif (
            before.text in "-'"
            and a > 1
            and starts[a] == ends[a - 1] == starts[a - 1] + 1
            and known[a - 2].alpha
            and ends[a - 2] == starts[a - 1]
            and known[a - 2].unknown()
        ):
            a -= 2
        else:
            break
    while b < n:
        after = known[b]
        if after.alpha:
            if starts[b] - ends[b - 1] > 1 or after.small:
                break
            if after.unknown() or (b == a + 1 and _surname_of(known, a, b)):
                b += 1
            elif after.size == 1 and starts[b] - ends[b - 1] == 1 and (b + 1 == n or not known[b + 1].alpha):
                b += 1  # "Smith, John R."
                break
            else:
                break
        elif (
            after.text in "-'/"
            and b + 1 < n
            and starts[b] == ends[b - 1]
            and starts[b + 1] == ends[b]
            and known[b + 1].alpha
            and (known[b + 1].unknown() or (known[b + 1].strength >= "2" and not known[b + 1].white))
            and not (after.text == "/" and known[b + 1].small)
        ) or (
            after.text == ","  # "Smith, John"
            and b + 1 < n
            and starts[b + 1] - ends[b] <= 1
            and (known[b + 1].text[0].isupper() or known[b - 1].small)
            and known[b + 1].alpha
            and known[b + 1].unknown()
            and not heads_name(read.tokens, known, b + 2)
        ):
            b += 2
        else:
            break
    return a, b


def _no_name_alone(known: list[Lexeme], a: int) -> bool:
    """Whether a single word is the keyword of an attribute, or a verb with its object: "Mark the lateral film"."""
    if known[a].stem in dicom_keywords():
        return True
    after = known[a + 1].stem if a + 1 < len(known) else ""
    return after in _ARTICLES and known[a].rank > "1" and not (a and known[a - 1].stem in _AGENT_CUES)


def _says_what(known: list[Lexeme], a: int) -> bool:
    """Whether the first of several words with capitals says what somebody is and is borne by nobody."""
    one, two = known[a], known[a + 1]
    if one.small or one.upper or two.small or not two.alpha:
        return False
    if one.stem not in _ROLES and (one.rank < "1" or one.given > "0" or one.surname > "1"):
        return False
    return two.size > 1 and (two.unknown() or two.strength >= "2")


def _surname_of(known: list[Lexeme], a: int, b: int) -> bool:
    """Whether word ``b``, a word that is also borne as a surname, ends the name that word ``a`` begins: "Anes Mate"."""
    one, two = known[a], known[b]
    if one.small or one.upper or one.given < "2" or two.upper or two.surname < "2" or two.size < 3:
        return False
    if two.white or two.eponym or two.never or two.heading or two.title or two.credential or two.call == "kin":
        return False
    return b + 1 == len(known) or known[b + 1].small or known[b + 1].text in ".,;)\n"


def _is_person(known: list[Lexeme], i: int) -> bool:
    """Whether an eponym names the person here ("placed by Barrett on Monday") and no sign, disease or device."""
    if known[i].strength < "2" or known[i].small:
        return False
    if i + 1 < len(known) and known[i + 1].alpha and known[i + 1].stem not in _FUNCTION_WORDS:
        return False
    return i > 0 and (known[i - 1].stem in _AGENT_CUES or (known[i - 1].text == "-" and known[i - 2].unknown()))


def _joined(known: list[Lexeme], i: int) -> bool:
    """Whether a word is the second half of a double name ("Jean-marc")."""
    return i > 1 and known[i - 1].text == "-" and known[i - 2].alpha and known[i].strength >= "2"


def _filler(k: Lexeme) -> bool:
    """A small, known word among capitalised ones parts two names."""
    return k.small and k.size > 1 and k.rank > "0" and k.stem not in _PARTICLES


def _person_here(known: list[Lexeme], a: int, b: int) -> bool:
    """A title before, a credential behind or a field name: a person is meant."""
    before = [k for k in known[max(0, a - 2) : a] if k.text != "."]
    if before and before[-1].title and known[a].text[0].isupper():
        return True
    following = [k for k in known[b : b + 3] if k.text not in ",."]
    if following and following[0].credential and not following[0].small:
        return True
    return a > 1 and known[a - 1].text == ":" and known[a - 2].stem in ("name", "patient")


def _given_beside(known: list[Lexeme], a: int, b: int) -> bool:
    """Whether one of several capitalised words is a given name: a person is meant."""
    alphas = [k for k in known[a:b] if k.alpha]
    if sum(k.size > 1 for k in alphas) < 2 or any(k.small for k in alphas):
        return False
    return any(
        k.given >= "2" and not (k.white or k.eponym or k.never) and (k.rank < "2" or k.given == "3") for k in alphas
    )


def _trim(known: list[Lexeme], a: int, b: int) -> tuple[int, int] | None:
    """A run of words without what cannot be the edge of a name."""
    capital = any(k.alpha and not k.small for k in known[a:b])
    while a < b and (_no_edge(known[a], capital) or (b - a > 1 and known[a].text in _CREDENTIALS)):
        a += 1
    while b > a and (
        (_no_edge(known[b - 1], capital) and not (b - 2 > a and _joined(known, b - 1)))
        or (known[b - 1].credential and known[b - 1].stem not in ("rt", "np"))
    ):
        b -= 1
    return (a, b) if a < b else None


def _no_edge(k: Lexeme, capital: bool) -> bool:
    if k.size == 1 and k.alpha and capital and k.small:
        return True  # "Smith v Jones"
    if k.size == 1 and k.upper:  # an initial
        return False
    if not k.alpha or k.title or k.never or (k.heading and k.strength != "3"):
        return True
    return capital and k.small and k.rank > "0" and k.stem not in _PARTICLES


def _is_initial(known: list[Lexeme], i: int) -> bool:
    return known[i].size == 1 and known[i].upper and i + 1 < len(known) and known[i + 1].text == "."


@lru_cache(maxsize=4)
def shared_detector(block: tuple[str, ...] = (), allow: tuple[str, ...] = ()) -> Detector:
    """The detector of this process for the terms of a policy. Loading one takes longer than all else in a small run,
    and what it has read does not change what it finds."""
    return Detector(block, allow)


def scan(text: str) -> list[Span]:
    """Every PHI span of ``text``: category, score and why; holes of an earlier de-identification included."""
    return shared_detector().spans(text)
