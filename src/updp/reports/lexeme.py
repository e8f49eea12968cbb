"""What is known of a word by itself: looked up once, remembered, and read by every rule and by the tagger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from updp.reports.lexicon import blacklist, names, places, trigrams, vocabulary, whitelist, word_class

_REMEMBERED = 200_000

_NAME_TITLES = word_class("name_titles")
_NAME_CREDENTIALS = word_class("name_credentials")
_NEVER = word_class("never_names")
_KIN = word_class("kin")
_SCALES = word_class("scales")

#: Word parts of medicine and pharmacy: an unknown word that has one is rather a term than a name.
_ENDINGS = tuple(sorted(word_class("medical_endings")))
_BEGINNINGS = tuple(sorted(word_class("medical_beginnings")))
#: Those that are long enough to end a term and hardly a name.
TERM_ENDINGS = tuple(e for e in _ENDINGS if len(e) > 3)
_CONTRACTED = frozenset(("ll", "ve", "re", "d", "m", "t"))
#: What may lead to a name without being a title, a credential or a relative.
_SIGNS = frozenset((",", ":"))
_PATIENT = frozenset(("pt", "patient"))
_HEADS = word_class("eponym_heads")
_WHERE = frozenset(("at", "from", "to", "near"))
_STATES = word_class("state_codes")
#: Two small letters that stand for something; any others stand for somebody.
_LETTERS_KNOWN = word_class("no_initials") | word_class("no_typist") | word_class("two_small")
_SPECIAL = _WHERE | _NAME_TITLES | _NAME_CREDENTIALS | _NEVER | _KIN | _PATIENT | _HEADS


def is_medical(lower: str) -> bool:
    """Whether a word is made of a part of medicine or pharmacy."""
    return lower.endswith(_ENDINGS) or lower.startswith(_BEGINNINGS)


#: The level of a word that deserves a look only in a text without capitals.
SLIP = -1


#: Features in a word's own place, seen from the word behind, before, two behind, two before, and in its own
#: place where nothing is written with capitals; the word as its neighbours know it, and what sort it is to them.
Known = tuple[
    tuple[bytes, ...],
    tuple[bytes, ...],
    tuple[bytes, ...],
    tuple[bytes, ...],
    tuple[bytes, ...],
    tuple[bytes, ...],
    str,
    str,
]


class Lexeme:
    """A word as it is written, and what the lists say of it."""

    __slots__ = (
        "alpha",
        "call",
        "credential",
        "eponym",
        "features",
        "given",
        "heading",
        "initials",
        "kinds",
        "level",
        "never",
        "rank",
        "scale",
        "size",
        "small",
        "stem",
        "strength",
        "surname",
        "text",
        "title",
        "upper",
        "wanted",
        "white",
    )

    text: str
    stem: str  # in small letters, without a genitive
    size: int
    alpha: bool  # it begins with a letter
    small: bool
    upper: bool
    given: str  # how common as a given name, "0" to "3"
    surname: str
    strength: str  # the larger of the two
    rank: str  # "0" in no word list, "1" known, "2" common, "3" used in radiology reports
    kinds: tuple[str, ...]
    white: bool  # a whitelist term of one word
    eponym: bool
    scale: bool  # a scale is called by it, and people or towns are too
    never: bool
    title: bool
    credential: bool
    heading: bool
    initials: bool  # it may stand for a person named elsewhere
    level: int  # how suspicious by itself: 0, SLIP, 1 (a capital that may open a sentence) or 2
    wanted: int  # what rules look for where it stands
    # How it may lead to a name: "title", "kin", "initial", "patient", "credential", "given" (a word that is
    # also a name), ",", ":" or ""; or elsewhere:
    # "head" (behind an eponym), "where" (before a place), "letters" (perhaps a hospital's), "state" (its code),
    # "typed" (two small letters that are no word: initials).
    call: str
    features: Known | None

    def nameable(self, capital: bool = True) -> bool:
        """Whether the word can be (part of) a name where a name is expected."""
        if not self.alpha or self.credential or self.title or self.never:
            return False
        if self.eponym:
            return True
        if self.small:
            return (self.rank < "2" and self.strength >= "2") or (
                self.rank == "0" and len(self.stem) > 2 and not self.white
            )
        if self.rank < "2":
            return not self.white or self.strength >= "2"
        return self.strength >= "2" and (not self.white or self.strength == "3" or not capital)

    def unknown(self) -> bool:
        """Whether the word is rather a name than anything else: no list of words has it, or it is a common name."""
        if self.credential or self.title or self.white or self.never:
            return False
        if self.upper and self.size <= 3 and self.strength < "2":
            return False
        return (self.rank == "0" and (len(self.stem) > 2 or self.strength >= "2")) or (
            self.strength == "3" and self.rank < "2"
        )

    def relative(self) -> bool:
        """Whether the word, standing behind "daughter" or "wife", is her name."""
        if self.white or self.never:
            return False
        if self.small or (self.upper and self.size < 6):
            return self.rank < "2" and self.strength >= "2"
        return self.rank < "2" or self.strength == "3"


class _Remembered(dict[str, Lexeme]):
    """Word to what is known of it, looked up when it is first met."""

    def __init__(self, look_up: Callable[[str], Lexeme]) -> None:
        self._look_up = look_up

    def __missing__(self, word: str) -> Lexeme:
        if len(self) > _REMEMBERED:
            self.clear()
        return self._look_up(word)


class Lexemes:
    """All lists at once. ``allow`` are terms of the policy's own that must stay; ``wanted`` says what rules look for
    where a word in small letters stands.
    """

    def __init__(self, allow: Iterable[str] = (), wanted: Callable[[str], int] = lambda word: 0) -> None:
        self._wanted = wanted
        self.names, self.vocabulary, self.places = names(), vocabulary(), places()
        self.place_words = frozenset(w for p in self.places for w in p.replace("-", " ").split() if len(w) > 3)
        groups = whitelist()
        self.white_words = frozenset(w for terms in groups.values() for t in terms for w in t.split())
        self.white = frozenset(
            t for g, terms in groups.items() if g != "eponyms" for t in terms if " " not in t
        ) | frozenset(t.lower() for t in allow)
        eponyms = frozenset(t for t in groups["eponyms"] if " " not in t)
        self.eponyms = frozenset(t for t in eponyms if "-" not in t)
        # "Thomas" is protected in "Thomas splint" only; by itself it is somebody.
        alone = {w for g, terms in groups.items() for t in terms for w in t.split() if g != "eponyms" or " " not in t}
        self._people = frozenset(
            w
            for t in groups["eponyms"]
            if " " in t
            for w in t.split()
            if w not in alone and "3" in self.names.get(w, "00U")
        )
        self.white_words -= self._people
        black = blacklist()
        self.black = frozenset(t for terms in black.values() for t in terms if " " not in t)
        self.headings = frozenset(
            t for g, terms in black.items() if g not in ("dates", "demographics") for t in terms if " " not in t
        )
        self.trigrams = trigrams()
        # Common words, and what is left of each when one letter falls out: both sides of one slip.
        # (Dictionaries of strings are no business of the garbage collector, large sets are.)
        self._common = dict.fromkeys([w for w, v in self.vocabulary.items() if v > "1" and len(w) > 3])
        shorter = [w[:i] + w[i + 1 :] for w in self._common if len(w) > 4 for i in range(len(w))]
        self._near = dict.fromkeys([*self._common, *shorter])
        self._kinds: dict[str, tuple[str, ...]] = {}
        for kind, group in (
            ("title", word_class("titles")),
            ("cred", word_class("credentials")),
            ("kin", _KIN),
            ("cue", word_class("cues")),
            ("inst", word_class("institution_words")),
            ("street", word_class("street_words")),
            ("month", word_class("months")),
            ("day", word_class("weekdays")),
            ("place", self.place_words),
            ("white", self.white_words),
            ("epo", eponyms),
            ("black", self.black),
        ):
            for word in group:
                self._kinds[word] = (*self._kinds.get(word, ()), kind)
        self._known = _Remembered(self._look_up)
        self.sound = lru_cache(_REMEMBERED)(self._sound)
        self.is_slip = lru_cache(_REMEMBERED)(self._is_slip)

    def of(self, words: list[str]) -> list[Lexeme]:
        """What is known of each of ``words``."""
        return list(map(self._known.__getitem__, words))

    def _look_up(self, word: str) -> Lexeme:
        if not word[0].isalpha():
            return self._sign(word)
        lexeme = self._known[word] = Lexeme()
        lexeme.text = word
        lower = word.lower()
        lexeme.stem = stem = lower.removesuffix("'s")
        lexeme.wanted = self._wanted(lower)
        lexeme.size = size = len(word)
        lexeme.alpha = True
        lexeme.features = None
        lexeme.small = small = word.islower()
        lexeme.upper = upper = not small and word.isupper()
        code = self.names.get(stem, "00U")
        lexeme.given = given = code[0]
        lexeme.surname = surname = code[1]
        lexeme.strength = given if given > surname else surname
        rank = self.vocabulary.get(stem, "0")
        if stem in self._people and not (small and rank > "1"):
            rank = "1"  # "Sharp" is somebody, "the angles are sharp" not
        if rank == "0" and "'" in stem and stem.partition("'")[2] in _CONTRACTED:
            rank = "2"
        if rank == "0" and lexeme.strength < "2" and size > 3 and self._misread(stem):
            rank = "2"
        lexeme.rank = rank
        lexeme.kinds = kinds = self._kinds.get(stem, ())
        lexeme.white = white = stem in self.white  # of no kind: the policy's own
        if kinds:
            lexeme.eponym = stem in self.eponyms
            lexeme.heading = stem in self.headings
        else:
            lexeme.eponym = lexeme.heading = False
        lexeme.scale = stem in _SCALES and not (small or upper)
        lexeme.initials = upper and 1 < size < 4 and rank < "2" and not white
        call = ""
        if lower in _SPECIAL or stem in _SPECIAL:
            lexeme.never = stem in _NEVER
            lexeme.title = title = lower in _NAME_TITLES
            lexeme.credential = credential = lower in _NAME_CREDENTIALS
            if title and word != "MS" and word != "DO":
                call = "title"
            elif lower in _KIN:
                call = "kin"
            elif lower in _PATIENT:
                call = "patient"
            elif credential:
                call = "credential"
            elif small and stem in _HEADS:
                call = "head"
            elif small and stem in _WHERE:
                call = "where"
        else:
            lexeme.never = lexeme.title = lexeme.credential = False
        if size == 1:
            call = "initial" if upper else "credential" if word == "m" else ""
            lexeme.level = 1 if upper else 0 if rank > "0" or "white" in kinds else 2
        else:
            lexeme.level = self._level(lexeme, kinds)
            if not call and lexeme.strength > "0" and rank > "0" and not (small or upper or (white and given < "2")):
                call = "given"
            if small and size == 2 and not (call or white or kinds) and stem not in _LETTERS_KNOWN and stem.isascii():
                call = "typed"
        if upper and 1 < size < 7 and (not call or call == "credential"):
            if size == 2 and word in _STATES:
                call = call or "state"
            elif size > 2 and rank < "2" and not white and not call:
                call = "letters"
        lexeme.call = call
        return lexeme

    def _misread(self, stem: str) -> bool:
        """Whether a word is a common one with letters that a text reader takes for each other: "Patlent Narne"."""
        words = self.vocabulary.get
        return any(words(read, "0") > "1" for read in (stem.replace("l", "i"), stem.replace("rn", "m")))

    def _sign(self, word: str) -> Lexeme:
        """What is known of a number or a sign."""
        if word.isdigit() and word.isascii() and 1 < len(word) < 40 and word.strip("0"):
            # There are too many long numbers to remember each, and nothing is known of one but its length.
            lexeme = self._known["0" * len(word)]
            if len(word) < 5:
                self._known[word] = lexeme
            return lexeme
        lexeme = self._known[word] = Lexeme()
        lexeme.text = word
        lexeme.stem = word.lower().removesuffix("'s")
        lexeme.wanted = self._wanted(word)
        lexeme.size = len(word)
        lexeme.features = None
        lexeme.small, lexeme.upper = word.islower(), word.isupper()
        lexeme.given = lexeme.surname = lexeme.strength = lexeme.rank = "0"
        lexeme.kinds = ()
        lexeme.alpha = lexeme.white = lexeme.eponym = lexeme.never = lexeme.title = lexeme.credential = False
        lexeme.heading = lexeme.initials = lexeme.scale = False
        lexeme.level = 2 if len(word) > 3 and word.isdigit() else 0
        lexeme.call = word if word in _SIGNS else ""
        return lexeme

    def _level(self, lexeme: Lexeme, kinds: tuple[str, ...]) -> int:
        rank = lexeme.rank
        if kinds and ("title" in kinds or "cred" in kinds or "kin" in kinds):
            return 2
        plain = "white" not in kinds
        strength = lexeme.strength
        if rank == "0" and plain:
            # Small letters and a common word with a slip: no name where names have capitals.
            slip = lexeme.small and strength < "2" and self.is_slip(lexeme.stem) and self.sound(lexeme.stem) < 2
            return SLIP if slip else 2
        if rank == "1" and plain and (lexeme.given >= "2" or lexeme.surname == "3"):
            return 2
        if lexeme.small:
            return 0
        if rank == "1" and strength > "0":
            return 2
        if rank == "2" and lexeme.given > "1" and plain and not lexeme.upper:
            return 2  # "Harmony slept well"
        if rank < "3" and plain and not (lexeme.upper or lexeme.never):
            return 1  # a capital inside a sentence is meant: "seen at Foxglove", "told Honor"
        if lexeme.never or (rank > "1" and strength < "2") or (rank == "3" and lexeme.upper and strength < "3"):
            return 0  # words of every report: names only beside others
        return 1 if strength > "0" or "place" in kinds else 0

    def _sound(self, lower: str) -> int:
        """How much a word sounds like a name, from -4 (not) to 4."""
        framed = f"^{lower}$"
        odds = self.trigrams.get
        total = sum([odds(framed[i : i + 3], 0) for i in range(len(lower))])
        return max(-4, min(4, round(total / (4 * len(lower)))))

    def _is_slip(self, lower: str) -> bool:
        """Whether an unknown word is a common word with one letter wrong, missing, doubled or swapped."""
        if not 3 < len(lower) < 20 or not lower.isascii():
            return False
        if len(lower) == 4:
            return any(lower[:i] + lower[i + 1] + lower[i] + lower[i + 2 :] in self._common for i in range(3))
        # A letter is missing; one is too many; one is wrong, or two are swapped.
        less = [lower[:i] + lower[i + 1 :] for i in range(len(lower))]
        return not self._near.keys().isdisjoint([lower, *less])
