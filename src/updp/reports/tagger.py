"""The sequence layer: a linear-chain CRF over words, run only where something might be an identifier.

Most sentences of most reports hold nothing but known words; they are read once and left alone. Around every word that
may be (part of) an identifier a window is cut out and tagged. Weights are in ``data/tagger.crfsuite`` and come from
``train_tagger``. Features are looked up per word and remembered, so that a window costs no string handling.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from updp.reports.lexicon import (
    LayerMissing,
    blacklist,
    names,
    places,
    read_data,
    trigrams,
    vocabulary,
    whitelist,
    word_class,
)

#: A window reaches this many words to both sides of a suspicious one.
REACH = 2
_REMEMBERED = 200_000


_TITLES = word_class("titles")
_CREDENTIALS = word_class("credentials")
_KIN = word_class("kin")
_CUES = word_class("cues")
_INSTITUTION = word_class("institution_words")
_STREET = word_class("street_words")
_MONTH = word_class("months")
_DAY = word_class("weekdays")


#: Word parts of medicine and pharmacy: an unknown word that has one is rather a term than a name.
_ENDINGS = tuple(sorted(word_class("medical_endings")))
_BEGINNINGS = tuple(sorted(word_class("medical_beginnings")))


def is_medical(lower: str) -> bool:
    """Whether a word is made of a part of medicine or pharmacy."""
    return lower.endswith(_ENDINGS) or lower.startswith(_BEGINNINGS)


#: Features in a word's own place, seen from the word behind, before, two behind, two before, and in its own
#: place where nothing is written with capitals.
Known = tuple[list[bytes], list[bytes], list[bytes], list[bytes], list[bytes], list[bytes]]


class Words:
    """What is known of a word by itself: features for the tagger, and whether it deserves a look."""

    def __init__(self, kept: frozenset[str] | None = None) -> None:
        """``kept`` are the features the trained weights know; all others cost time and say nothing."""
        self._kept = None if kept is None else {f: f.encode() for f in kept}
        self.names, self.vocabulary, self.places = names(), vocabulary(), places()
        self.place_words = frozenset(w for p in self.places for w in p.replace("-", " ").split() if len(w) > 3)
        self.white = frozenset(w for terms in whitelist().values() for t in terms for w in t.split())
        self.eponyms = frozenset(t for t in whitelist()["eponyms"] if " " not in t)
        self.black = frozenset(t for terms in blacklist().values() for t in terms if " " not in t)
        self.trigrams = trigrams()
        # Common words, and what is left of each when one letter falls out: both sides of one slip.
        self._common = frozenset(w for w, v in self.vocabulary.items() if v > "1" and len(w) > 3)
        self._shorter = frozenset(w[:i] + w[i + 1 :] for w in self._common if len(w) > 4 for i in range(len(w)))
        self._kinds: dict[str, tuple[str, ...]] = {}
        for kind, group in (
            ("title", _TITLES),
            ("cred", _CREDENTIALS),
            ("kin", _KIN),
            ("cue", _CUES),
            ("inst", _INSTITUTION),
            ("street", _STREET),
            ("month", _MONTH),
            ("day", _DAY),
            ("place", self.place_words),
            ("white", self.white),
            ("epo", self.eponyms),
            ("black", self.black),
        ):
            for word in group:
                self._kinds[word] = (*self._kinds.get(word, ()), kind)
        self._known: dict[str, Known] = {}
        self._levels: dict[str, int] = {}
        self._seen: dict[
            tuple[str, str, tuple[str, ...]], tuple[list[bytes], list[bytes], list[bytes], list[bytes]]
        ] = {}
        self._slips: dict[str, bool] = {}

    def levels(self, words: list[str]) -> list[int]:
        """How suspicious each of ``words`` is by itself: 0, 1 (a capital that may open a sentence) or 2."""
        known = self._levels.get
        return [self._level(word) if (level := known(word)) is None else level for word in words]

    def _level(self, word: str) -> int:
        if len(self._levels) > _REMEMBERED:
            self._levels.clear()
        listed = self._listed(word)
        level = self._levels[word] = self._suspicion(word, *listed)
        if level == 2:  # it will be looked at closely
            self._remember(word, *listed)
        return level

    def _listed(self, word: str) -> tuple[str, str, tuple[str, ...]]:
        """What the lists say of a word: its code as a name, its rank in the vocabulary, and its kinds."""
        lower = word.lower().removesuffix("'s")
        vocabulary = self.vocabulary.get(lower, "0")
        if vocabulary == "0" and lower.partition("'")[2] in _CONTRACTED:
            vocabulary = "2"
        return self.names.get(lower, "00U"), vocabulary, self._kinds.get(lower, ())

    def look_at(self, words: list[str]) -> list[Known]:
        """:meth:`look` for each of ``words``."""
        known = self._known.get
        return [known(word) or self.look(word) for word in words]

    def look(self, word: str) -> Known:
        """Features of ``word`` in its own place and as seen from one and two words on."""
        return self._known.get(word) or self._remember(word, *self._listed(word))

    def _remember(self, word: str, name: str, vocabulary: str, kinds: tuple[str, ...]) -> Known:
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        known = self._known[word] = self._describe(word, name, vocabulary, kinds)
        return known

    def _describe(self, word: str, name: str, vocabulary: str, kinds: tuple[str, ...]) -> Known:
        lower = word.lower().removesuffix("'s")
        shape = _shape(word)
        lexical = f"g{name[0]}s{name[1]}v{vocabulary}"
        known = vocabulary != "0" or bool(kinds)
        token = lower if known or len(lower) < 3 else "?"
        if word.isdigit():
            token = word if len(word) < 2 else f"d{len(word)}"
        # Each feature says all that a coarser one would, which is left out.
        own = ["w=" + token, "ls=" + lexical + shape, *["ks=" + kind + shape for kind in kinds]]
        small = ["0" + lexical]
        coarse = f"l=g{'01'[name[0] > '1']}s{'01'[name[1] > '1']}v{vocabulary}{shape}"
        if not known and lower.isalpha():
            own += ["e3=" + lower[-3:], "e2=" + lower[-2:], "b3=" + lower[:3], "n=" + str(min(len(lower), 12))]
            marks = ("t" if self.is_slip(lower) else "") + ("m" if is_medical(lower) else "")
            sound = f"{self.sound(lower)}{marks}"
            own.append("us=" + sound + shape)
            small.append("0u=" + sound)
            coarse += marks
        signature = (token, coarse, kinds)
        seen = self._seen.get(signature)
        if seen is None:
            if len(self._seen) > _REMEMBERED:
                self._seen.clear()
            made = ["w=" + token, coarse, *["k=" + kind for kind in kinds]]
            seen = self._seen[signature] = (
                self._keep("-1", made),
                self._keep("+1", made),
                self._keep("-2", made),
                self._keep("+2", made),
            )
        return (
            self._keep("", own),
            *seen,
            self._keep("", small) if shape == "x" else [],
        )

    def _keep(self, side: str, made: list[str]) -> list[bytes]:
        if self._kept is None:
            return [(side + f).encode() for f in made]
        return [f for f in map(self._kept.get, map(side.__add__, made)) if f is not None]

    def sound(self, lower: str) -> int:
        """How much a word sounds like a name, from -4 (not) to 4."""
        framed = f"^{lower}$"
        odds = self.trigrams.get
        total = sum([odds(framed[i : i + 3], 0) for i in range(len(lower))])
        return max(-4, min(4, round(total / (4 * len(lower)))))

    def is_slip(self, lower: str) -> bool:
        """Whether an unknown word is a common word with one letter wrong, missing, doubled or swapped."""
        slip = self._slips.get(lower)
        if slip is None:
            if len(self._slips) > _REMEMBERED:
                self._slips.clear()
            slip = self._slips[lower] = self._is_slip(lower)
        return slip

    def _is_slip(self, lower: str) -> bool:
        if not 3 < len(lower) < 20 or not lower.isascii():
            return False
        if len(lower) == 4:
            return any(lower[:i] + lower[i + 1] + lower[i] + lower[i + 2 :] in self._common for i in range(3))
        if lower in self._shorter:  # a letter is missing
            return True
        less = {lower[:i] + lower[i + 1 :] for i in range(len(lower))}
        # One letter too many; one wrong, or two swapped.
        return not (less.isdisjoint(self._common) and less.isdisjoint(self._shorter))

    def _suspicion(self, word: str, name: str, vocabulary: str, kinds: tuple[str, ...]) -> int:
        if not word[0].isalpha():
            return 2 if word.isdigit() and len(word) > 3 else 0
        if len(word) == 1 and word.isupper():
            return 1
        if "title" in kinds or "cred" in kinds or "kin" in kinds:
            return 2
        given, surname = int(name[0]), int(name[1])
        if vocabulary == "0" and "white" not in kinds:
            return 2
        if vocabulary == "1" and (given >= 2 or surname == 3) and "white" not in kinds:
            return 2
        if word.islower():
            return 0
        if vocabulary == "1" and (given or surname):
            return 2
        if vocabulary == "2" and given > 1 and "white" not in kinds and not word.isupper():
            return 2  # "Harmony slept well"
        return 1 if given or surname or "place" in kinds else 0

    def suspicious(self, words: list[str], levels: list[int], hints: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Windows of ``words`` worth tagging, as (first, last + 1); ``hints`` are further words to look at."""
        marks = [i for i, level in enumerate(levels) if level and (level == 2 or (i and words[i - 1] not in _STOPS))]
        if hints:
            marks = sorted({*marks, *hints})
        windows: list[tuple[int, int]] = []
        n = len(words)
        first, last = 0, -REACH - 1
        for i in marks:
            if i - REACH > last:
                if last > 0:
                    windows.append((first, last))
                first = max(0, i - REACH)
            last = min(n, i + REACH + 1)
        if last > 0:
            windows.append((first, last))
        return windows


_CONTRACTED = frozenset(("ll", "ve", "re", "d", "m", "t"))
_STOPS = frozenset([".", "\n", ":", "!", "?", ";", "-", "*", "(", ")"])


def _shape(word: str) -> str:
    if word.isdigit():
        return "9" * min(len(word), 5)
    if not word[0].isalpha():
        return word if word[0] == "<" else word[0] if word[0] in "./-:,#()^@_\n" else "!"
    if word.islower():
        return "x" if len(word) > 1 else "x1"
    if word.isupper():
        return "X" if len(word) > 3 else "X" + str(len(word))
    return "Xx" if word[0].isupper() and word[1:].replace("'", "").islower() else "xX"


_BEYOND: Known = ([b"<>"], [b"<>"], [b"<>"], [b"<>"], [b"<>"], [])


def features(about: Words, words: list[str], first: int, last: int, small: bool = False) -> list[list[bytes]]:
    """The features of each word of a window, seen with its neighbours inside and outside the window. ``small`` says
    that the text has no capitals, so that a small letter says nothing.
    """
    near = about.look_at(words[max(0, first - 2) : last + 2])
    if first < 2 or len(words) < last + 2:
        near = [_BEYOND] * (2 - first) + near + [_BEYOND] * (last + 2 - len(words))
    rows = [
        own[0] + before[1] + after[2] + two_before[3] + two_after[4]
        for two_before, before, own, after, two_after in zip(near, near[1:], near[2:], near[3:], near[4:], strict=False)
    ]
    if small:
        rows = [row + own[5] for row, own in zip(rows, near[2:], strict=False)]
    return rows


class Tagger:
    """The trained weights, ready to tag windows."""

    def __init__(self, path: Path | None = None) -> None:
        try:
            import pycrfsuite
        except ImportError as error:
            raise LayerMissing("the sequence tagger needs python-crfsuite: pip install python-crfsuite") from error
        self._crf = pycrfsuite.Tagger()
        try:
            if path is not None:
                self._crf.open(str(path))
            else:
                # crfsuite reads the bytes where they lie, so they must live as long as the tagger.
                self._weights = (resources.files("updp.reports") / "data" / "tagger.crfsuite").read_bytes()
                self._crf.open_inmemory(self._weights)
        except (OSError, ValueError) as error:
            raise LayerMissing("the tagger's weights cannot be read; reinstall updp") from error

    def tag(self, rows: list[list[bytes]]) -> list[str]:
        """A label for each word: ``O``, or ``B-`` / ``I-`` and a kind."""
        labels: list[str] = self._crf.tag(rows)
        return labels

    def certainty(self, label: str, at: int) -> float:
        """How sure the tagger is of ``label`` at one word of the rows tagged last."""
        value: float = self._crf.marginal(label, at)
        return value


def write_weights(
    rows: Sequence[tuple[list[list[bytes]], list[str]]], out: Path, *, rounds: int, c1: float, c2: float
) -> None:
    """Fit the CRF (L-BFGS, elastic net) and write its weights."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for xs, ys in rows:
        trainer.append(xs, ys)
    trainer.set_params({"c1": c1, "c2": c2, "max_iterations": rounds, "feature.possible_transitions": True})
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "weights"
        trainer.train(str(made))
        out.write_bytes(made.read_bytes())
        tagger = pycrfsuite.Tagger()
        tagger.open(str(made))
        tagger.dump(str(made.with_suffix(".txt")))
        states = made.with_suffix(".txt").read_text("utf-8").partition("STATE_FEATURES = {")[2]
    kept = "\t".join(sorted(set(re.findall(r"\(0\) (.+?) --> ", states, re.DOTALL))))
    out.with_suffix(".features.gz").write_bytes(gzip.compress(kept.encode(), 9, mtime=0))


def kept_features() -> frozenset[str]:
    """The features the shipped weights know."""
    return frozenset(read_data("tagger.features.gz").decode().split("\t"))
