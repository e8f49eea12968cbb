"""The sequence layer: a linear-chain CRF over words, run only where something might be an identifier.

Most sentences of most reports hold nothing but known words; they are read once and left alone. Around every word that
may be (part of) an identifier a window is cut out and tagged. Weights are in ``data/tagger.crfsuite`` and come from
``train_tagger``. Features are looked up per word and remembered, so that a window costs no string handling.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from updp.reports.lexeme import SLIP, Known, Lexeme, Lexemes, is_medical
from updp.reports.lexicon import LayerMissing, read_data

#: A window reaches this many words to both sides of a suspicious one.
REACH = 2
#: What stands for a name that a rule has found.
NAME = "<name>"
_REMEMBERED = 200_000


class _Pairs(dict[tuple[str, str], bytes]):
    """A neighbour and a sort of word to the feature of both, made when they are first met."""

    def __init__(self, sign: str, kept: Mapping[str, bytes] | None) -> None:
        self._sign, self._kept = sign, kept

    def __missing__(self, pair: tuple[str, str]) -> bytes:
        if len(self) > _REMEMBERED:
            self.clear()
        name = self._sign + "|".join(pair)
        self[pair] = made = name.encode() if self._kept is None else self._kept.get(name, b"")
        return made


class Features:
    """The features of words that the tagger gets. ``kept`` are those the trained weights know; all others cost time
    and say nothing.
    """

    def __init__(self, lexemes: Lexemes, kept: frozenset[str] | None = None) -> None:
        self._lexemes = lexemes
        self._kept = None if kept is None else {f: f.encode() for f in kept}
        self._before, self._after = _Pairs("-c=", self._kept), _Pairs("+c=", self._kept)
        self._seen: dict[
            tuple[str, str, tuple[str, ...]],
            tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]],
        ] = {}

    def rows(self, known: list[Lexeme], first: int, last: int, small: bool = False) -> list[list[bytes]]:
        """The features of each word of a window, seen with its neighbours inside and outside the window. ``small`` says
        that the text has no capitals, so that a small letter says nothing.
        """
        near = [k.features or self._describe(k) for k in known[max(0, first - 2) : last + 2]]
        if first < 2 or len(known) < last + 2:
            near = [_BEYOND] * (2 - first) + near + [_BEYOND] * (last + 2 - len(known))
        behind, ahead = self._before, self._after
        rows = []
        for two_before, before, own, after, two_after in zip(
            near, near[1:], near[2:], near[3:], near[4:], strict=False
        ):
            row = [*own[0], *before[1], *after[2], *two_before[3], *two_after[4]]
            if pair := behind[before[6], own[7]]:
                row.append(pair)
            if pair := ahead[after[6], own[7]]:
                row.append(pair)
            rows.append(row)
        if small:
            rows = [[*row, *own[5]] for row, own in zip(rows, near[2:], strict=False)]
        return rows

    def _describe(self, k: Lexeme) -> Known:
        word, lower, kinds = k.text, k.stem, k.kinds
        shape = _shape(k)
        given, surname, rank = k.given, k.surname, k.rank
        known = rank != "0" or bool(kinds)
        token = lower if known or len(lower) < 3 else "?"
        if not k.alpha and word.isdigit():
            token = word if len(word) < 2 else f"d{len(word)}"
        lexical = f"g{given}s{surname}v{rank}"
        # Each feature says all that a coarser one would, which is left out.
        own = ["w=" + token, "ls=" + lexical + shape]
        small = ["0" + lexical]
        coarse = f"l=g{'01'[given > '1']}s{'01'[surname > '1']}v{rank}{shape}"
        if kinds:
            own += ["ks=" + kind + shape for kind in kinds]
        elif not known and lower.isalpha():
            marks = ("t" if self._lexemes.is_slip(lower) else "") + ("m" if is_medical(lower) else "")
            sound = f"{self._lexemes.sound(lower)}{marks}"
            own += (
                "e3=" + lower[-3:],
                "e2=" + lower[-2:],
                "b3=" + lower[:3],
                f"n={min(len(lower), 12)}",
                "us=" + sound + shape,
            )
            small.append("0u=" + sound)
            coarse += marks
        signature = (token, coarse, kinds)
        seen = self._seen.get(signature)
        if seen is None:
            if len(self._seen) > _REMEMBERED:
                self._seen.clear()
            made = ["w=" + token, coarse, *["k=" + kind for kind in kinds]]
            seen = self._seen[signature] = (
                self._keep(["-1" + f for f in made]),
                self._keep(["+1" + f for f in made]),
                self._keep(["-2" + f for f in made]),
                self._keep(["+2" + f for f in made]),
            )
        k.features = (
            self._keep(own),
            *seen,
            self._keep(small) if shape == "x" else (),
            token,
            _sort(k, shape, known),
        )
        return k.features

    def _keep(self, made: list[str]) -> tuple[bytes, ...]:
        if self._kept is None:
            return tuple([f.encode() for f in made])
        kept = self._kept
        return tuple([known for f in made if (known := kept.get(f))])


#: Calls that lead to something else than a name.
_ELSEWHERE = ("head", "where", "letters", "state", "given")


def windows(known: list[Lexeme], small: bool = False, hints: Sequence[int] = ()) -> list[tuple[int, int]]:
    """Stretches of words worth tagging, as (first, last + 1); ``small`` says that the text has no capitals, ``hints``
    are further words to look at. A title, a
    credential or a relative beside a name that is found already needs no second look.
    """
    marks = [
        i
        for i, k in enumerate(known)
        if k.level
        and (
            _calls(known, i, k)
            if k.call and k.call not in _ELSEWHERE
            else k.level == 2 or (small if k.level == SLIP else i > 0 and known[i - 1].text not in _STOPS)
        )
    ]
    if hints:
        marks = sorted({*marks, *hints})
    out: list[tuple[int, int]] = []
    n = len(known)
    first, last = 0, -REACH - 1
    for i in marks:
        if i - REACH > last:
            if last > 0:
                out.append((first, last))
            first = max(0, i - REACH)
        last = min(n, i + REACH + 1)
    if last > 0:
        out.append((first, last))
    return out


def _calls(known: list[Lexeme], i: int, k: Lexeme) -> bool:
    """Whether a word that may lead to a name should be looked at."""
    if k.call == "initial":
        return (
            i + 2 < len(known)
            and known[i + 1].text == "."
            and known[i + 2].alpha
            and not known[i + 2].small
            and known[i + 2].size > 1
        )
    if k.level < 2 or NAME in [near.text for near in known[max(0, i - 2) : i + 3]]:
        return False
    # "PA and lateral", "do not": only a comma makes a credential of these.
    return k.call != "credential" or not (k.white or k.small) or (i > 0 and known[i - 1].text == ",")


_STOPS = frozenset([".", "\n", ":", "!", "?", ";", "-", "*", "(", ")"])


def _shape(k: Lexeme) -> str:
    word = k.text
    if not k.alpha:
        if word.isdigit():
            return "9" * min(len(word), 5)
        return word if word[0] == "<" else word[0] if word[0] in "./-:,#()^@_\n" else "!"
    if k.small:
        return "x" if k.size > 1 else "x1"
    if k.upper:
        return "X" if k.size > 3 else "X" + str(k.size)
    return "Xx" if word[0].isupper() and word[1:].replace("'", "").islower() else "xX"


def _sort(k: Lexeme, shape: str, known: bool) -> str:
    """What sort of word a word is to its neighbours: its shape, whether lists know it, and as what."""
    if not k.alpha:
        return shape[:1]
    if k.white or k.eponym:
        return shape + "m"
    return shape + ("n" if k.strength > "1" else "w" if known else "u") + ("p" if "place" in k.kinds else "")


_BEYOND: Known = ((b"<>",), (b"<>",), (b"<>",), (b"<>",), (b"<>",), (), "<>", "<>")


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
