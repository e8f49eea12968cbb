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
from updp.reports.words import Tokens

#: A window reaches this many words to both sides of a suspicious one.
REACH = 4
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
MEDICAL = re.compile(
    r"(?:itis|osis|oses|emia|aemia|omas?|omata|ectomy|otomy|ostomy|plasty|scop(?:y|ic)|graph(?:y|ic)|gram|path(?:y|ic)|algia|uria|"
    r"penia|cytes?|blast|ases?|genic|lytic|trophy|trophic|rrhagia|rrhea|megaly|centesis|desis|sclerosis|stenosis|ectasi[as]|pnea|phasia|"
    r"plegia|paresis|mab|nib|pril|sartan|statin|azole|cillin|mycin|micin|oxacin|dipine|olol|prazole|tidine|vir|caine|barbital|zepam|"
    r"zolam|triptan|gliptin|gliflozin|formin|parin|xaban|gatran|setron|dronate|steroid|sone|solone|ously|eal|ular|iform|tion|sion|ment|ness|"
    r"ability|tive|ically|ated|ized|ised)$|^(?:hyper|hypo|peri|retro|supra|infra|intra|inter|broncho|pneumo|cardio|hemi|thoraco|pleuro|osteo|"
    r"arthro|nephro|hepato|gastro|entero|cysto|neuro|encephalo|myelo|vasculo|angio|athero|thrombo|micro|macro|post|pre|non|un|anti|sub|"
    r"trans|poly|pseudo|para|endo|ecto|extra|electro|immuno|cyto|histo|onco|radio|sono|echo)"
)


#: Features in a word's own place, seen from the word behind, before, two behind, two before; and suspicion.
Known = tuple[list[bytes], list[bytes], list[bytes], list[bytes], list[bytes], int]


class Words:
    """What is known of a word by itself: features for the tagger, and whether it deserves a look."""

    def __init__(self, kept: frozenset[str] | None = None) -> None:
        """``kept`` are the features the trained weights know; all others cost time and say nothing."""
        self._kept = kept
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

    def look(self, word: str) -> Known:
        """Features of ``word`` in its own place and as seen from one and two words on, and its suspicion (0, 1, 2)."""
        known = self._known.get(word)
        if known is None:
            if len(self._known) > _REMEMBERED:
                self._known.clear()
            known = self._known[word] = self._describe(word)
        return known

    def _describe(self, word: str) -> Known:
        lower = word.lower().removesuffix("'s")
        name = self.names.get(lower, "00U")
        vocabulary = self.vocabulary.get(lower, "0")
        if vocabulary == "0" and lower.partition("'")[2] in _CONTRACTED:
            vocabulary = "2"
        kinds = self._kinds.get(lower, ())
        shape = _shape(word)
        lexical = f"g{name[0]}s{name[1]}v{vocabulary}"
        known = vocabulary != "0" or bool(kinds)
        token = lower if known or len(lower) < 3 else "?"
        if word.isdigit():
            token = word if len(word) < 2 else f"d{len(word)}"
        own = ["1", "w=" + token, "s=" + shape, "l=" + lexical, "ls=" + lexical + shape]
        for kind in kinds:
            own += ("k=" + kind, "ks=" + kind + shape)
        coarse = f"l=g{'01'[name[0] > '1']}s{'01'[name[1] > '1']}v{vocabulary}{shape}"
        if not known and lower.isalpha():
            own += ["e3=" + lower[-3:], "e2=" + lower[-2:], "b3=" + lower[:3], "n=" + str(min(len(lower), 12))]
            marks = ("t" if self.is_slip(lower) else "") + ("m" if MEDICAL.search(lower) else "")
            sound = f"{self.sound(lower)}{marks}"
            own += ["u=" + sound, "us=" + sound + shape]
            coarse += marks
        far = ["w=" + token, coarse, *["k=" + kind for kind in kinds]]
        near = [*far, "s=" + shape]
        return (
            self._keep("", own),
            self._keep("-1", near),
            self._keep("+1", near),
            self._keep("-2", far),
            self._keep("+2", far),
            self._suspicion(word, name, vocabulary, kinds),
        )

    def _keep(self, side: str, made: list[str]) -> list[bytes]:
        if self._kept is None:
            return [(side + f).encode() for f in made]
        return [f.encode() for f in map(side.__add__, made) if f in self._kept]

    def sound(self, lower: str) -> int:
        """How much a word sounds like a name, from -4 (not) to 4."""
        framed = f"^{lower}$"
        total = sum(self.trigrams.get(framed[i : i + 3], 0) for i in range(len(lower)))
        return max(-4, min(4, round(total / (4 * len(lower)))))

    def is_slip(self, lower: str) -> bool:
        """Whether an unknown word is a common word with one letter wrong, missing, doubled or swapped."""
        if not 3 < len(lower) < 20 or not lower.isascii():
            return False
        common, shorter = self._common, self._shorter
        if len(lower) == 4:
            return any(lower[:i] + lower[i + 1] + lower[i] + lower[i + 2 :] in common for i in range(3))
        if lower in shorter:  # a letter is missing
            return True
        for i in range(len(lower)):
            less = lower[:i] + lower[i + 1 :]
            if less in common or less in shorter:  # one too many; one wrong, or two swapped
                return True
        return False

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
        return 1 if given or surname or "place" in kinds else 0

    def suspicious(self, tokens: Tokens, hints: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Windows of ``tokens`` worth tagging, as (first, last + 1); ``hints`` are further words to look at."""
        marks = []
        look = self._known.get
        start_of_sentence = True
        for i, word in enumerate(tokens.words):
            known = look(word) or self.look(word)
            level = known[5]
            if level == 2 or (level == 1 and not start_of_sentence):
                marks.append(i)
            start_of_sentence = word in _STOPS
        if hints:
            marks = sorted({*marks, *hints})
        windows: list[tuple[int, int]] = []
        n = len(tokens)
        for i in marks:
            first, last = max(0, i - REACH), min(n, i + REACH + 1)
            if windows and first <= windows[-1][1]:
                windows[-1] = (windows[-1][0], last)
            else:
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


def features(words: Words, tokens: Tokens, first: int, last: int) -> list[list[bytes]]:
    """The features of each word of a window, seen with its neighbours inside and outside the window."""
    known = [words.look(w) for w in tokens.words[max(0, first - 2) : last + 2]]
    offset = first - max(0, first - 2)
    out = []
    n = len(known)
    edge = [b"<>"]
    for i in range(offset, offset + last - first):
        out.append(
            known[i][0]
            + (known[i - 1][1] if i > 0 else edge)
            + (known[i + 1][2] if i + 1 < n else edge)
            + (known[i - 2][3] if i > 1 else edge)
            + (known[i + 2][4] if i + 2 < n else edge)
        )
    return out


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
