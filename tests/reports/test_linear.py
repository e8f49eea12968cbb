"""Long and hostile input costs in proportion to its length: no pattern runs away."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from updp.reports import Detector, shared_detector
from updp.reports.merge import cut
from updp.reports.view import plain

#: Generous: a linear reading of these takes a few seconds even on a busy machine, a quadratic one many minutes.
_PATIENCE = 60


@contextmanager
def _watchdog(seconds: int) -> Iterator[None]:
    def bark(*_: object) -> None:
        raise TimeoutError("more than linear")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


_HOSTILE: dict[str, Callable[[int], str]] = {
    "one word": lambda n: "a" * n,
    "capitals": lambda n: "A" * n,
    "digits": lambda n: "1" * n,
    "dashed digits": lambda n: "12-" * (n // 3),
    "dotted digits": lambda n: "1." * (n // 2),
    "colons": lambda n: "1:" * (n // 2),
    "spaces": lambda n: "Dr." + " " * n + "Smith",
    "capitalised words": lambda n: "Abcdef " * (n // 7),
    "numbered capitals": lambda n: "12 Abc Def " * (n // 11),
    "open brackets": lambda n: "[**" * (n // 3),
    "open tags": lambda n: "<a " * (n // 3),
    "ampersands": lambda n: "&#" * (n // 2),
    "at signs": lambda n: "a@" * (n // 2),
    "mail": lambda n: "a.b" * (n // 3) + "@",
    "underscores": lambda n: "_x" * (n // 2),
    "commas": lambda n: "Smith, " * (n // 7),
    "hospitals": lambda n: "St. " * (n // 4) + "Hospital",
    "hyphens": lambda n: "Smith-" * (n // 6),
    "slashes": lambda n: "http://" + "a/" * (n // 2),
    "months": lambda n: "May " * (n // 4),
    "rtf": lambda n: "{\\rtf1 " + "\\b" * (n // 2),
    "combining marks": lambda n: "e\u0301" * (n // 2),
    "arabic": lambda n: "\u0645 " * (n // 2),
    "mrn": lambda n: "MRN: # no. " * (n // 11),
}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return shared_detector()


@pytest.mark.parametrize("name", _HOSTILE)
def test_a_line_of_100_000_characters_is_read_in_linear_time(detector: Detector, name: str) -> None:
    with _watchdog(_PATIENCE):
        detector.spans(_HOSTILE[name](100_000))


def test_a_megabyte_report_is_read_to_its_end(detector: Detector) -> None:
    text = "The heart is normal in size. No pleural effusion.\n" * 20_000 + "Seen by Dr. Okafor on 3/4/2019."
    assert len(text) > 1_000_000
    with _watchdog(_PATIENCE):
        found = [text[s.start : s.end] for s in detector.spans(text)]
    assert found == ["Dr. Okafor", "3/4/2019"]


def test_a_view_is_as_long_as_its_text_at_most_tenfold() -> None:
    assert len(plain("\ufdfa" * 1000).text) <= 20 * 1000


def test_spans_at_the_seams_of_a_long_text_are_those_of_its_parts(detector: Detector) -> None:
    part = "Seen by Dr. Okafor on 3/4/2019 in Zanesville. MRN 1234567. No pleural effusion.\n"
    text = part * 1_000
    with _watchdog(_PATIENCE):
        found = [text[s.start : s.end] for s in detector.spans(text)]
    assert found == [part[s.start : s.end] for s in detector.spans(part)] * 1_000


def test_many_different_names_cost_no_more_than_their_number(detector: Detector) -> None:
    letters = "bcdfghjklmnprstv"
    names = [f"{a.upper()}o{b}u{c}a{d}" for a in letters for b in letters for c in letters for d in letters[:8]]
    text = " ".join(f"Seen by Dr. {name} today." for name in names)
    with _watchdog(_PATIENCE):
        assert len(detector.spans(text)) == len(names)


def _work(detector: Detector, text: str) -> int:
    """How many functions are called to read a text."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        detector.spans(text)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("sign", [" ", "\n"])
def test_dense_text_takes_work_in_proportion_to_its_length(detector: Detector, sign: str) -> None:
    """Nearly every word is a name, a date or a number, and hardly two names are the same."""
    rng = random.Random(5)

    def word() -> str:
        name = "".join(rng.choice("bdfgklmnprst") + rng.choice("aeiou") for _ in range(3)).capitalize()
        date = f"{rng.randint(1, 12)}/{rng.randint(1, 28)}/2019"
        return rng.choice([name, f"Dr. {name}", date, str(rng.randint(10**6, 10**7))])

    words = [word() for _ in range(8_000)]
    detector.spans(sign.join(words))  # words are looked up once; only reading is counted
    half, whole = (_work(detector, sign.join(words[:n])) for n in (4_000, 8_000))
    assert whole < 2.2 * half


def test_passages_cover_a_long_text_once_and_share_little() -> None:
    for text in ("Smith 3/4/2019 " * 40_000, "x" * 600_000, "Smith\n" * 100_000):
        passages = cut(text)
        assert passages[0][0] == 0
        assert passages[-1][1] == len(text)
        assert all(a < b and b - a <= 24_000 for a, b in passages)
        assert all(after[0] <= before[1] for before, after in pairwise(passages))
        assert sum(b - a for a, b in passages) < 1.05 * len(text)
