"""The captioner learns what films say, the same way every time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.utility import small
from updp.evaluation.probes.utility.captioner import (
    BEGIN,
    END,
    CaptionerConfig,
    Vocabulary,
    standardise,
    train_captioner,
)

pytestmark = pytest.mark.numeric

REPORTS = [small.report(np.array([a, b])) for a in (0, 1) for b in (0, 1)]
TINY = CaptionerConfig(steps=70, width=32, layers=1, heads=2, length=24, batch=16, rate=1e-2)


@pytest.fixture(scope="module")
def tokenizer(pack):
    return pack.vlm.tokenizer


def told(seed: int, count: int = 48):
    """Maps whose first two channels say which report is true."""
    rng = np.random.default_rng(seed)
    findings = rng.integers(0, 2, (count, 2))
    maps = rng.normal(0, 0.3, (count, 4, 2, 2))
    maps[:, :2] += 3 * findings[:, :, None, None]
    return maps.astype(np.float16), [small.report(y) for y in findings]


@pytest.fixture(scope="module")
def learned(tokenizer):
    maps, reports = told(0)
    vocabulary = Vocabulary(tokenizer, reports)
    return train_captioner(maps, reports, vocabulary, TINY, 0), vocabulary


@pytest.mark.parametrize("beams", [1, 3])
def test_it_writes_what_films_of_unseen_patients_show(learned, beams):
    captioner, _ = learned
    maps, reports = told(1)
    written = captioner.write(maps, beams=beams)
    alike = np.mean([w == r for w, r in zip(written, reports, strict=True)])
    assert alike > 0.9, list(zip(written[:3], reports[:3], strict=True))


def test_films_that_say_nothing_give_reports_that_fit_no_better_than_chance(tokenizer):
    maps, reports = told(0)
    blank = np.zeros_like(maps)
    vocabulary = Vocabulary(tokenizer, reports)
    captioner = train_captioner(blank, reports, vocabulary, TINY, 0)
    assert len(set(captioner.write(blank[:8]))) == 1


def test_a_captioner_of_the_same_films_and_seed_writes_the_same(learned):
    captioner, vocabulary = learned
    maps, reports = told(0)
    assert train_captioner(maps, reports, vocabulary, TINY, 0).write(maps[:8]) == captioner.write(maps[:8])
    other = train_captioner(maps, reports, vocabulary, CaptionerConfig(1, width=32, heads=2, length=24), 0)
    assert other.write(maps[:8]) != captioner.write(maps[:8])


def test_films_of_another_scanner_are_read_as_well_once_each_set_is_standardised(tokenizer):
    """What two quiet channels say is read beside loud ones, and on films whose channels are scaled and shifted."""
    maps, reports = told(0)
    captioner = train_captioner(standardise(maps * 0.02), reports, Vocabulary(tokenizer, reports), TINY, 0)
    maps, reports = told(1)
    other = maps * np.float16(5) + np.float16(40)

    def right(films):
        return np.mean([w == r for w, r in zip(captioner.write(films), reports, strict=True)])

    assert right(standardise(other)) > 0.9
    assert right(other.astype(np.float32)) < 0.5


def test_a_channel_that_never_varies_says_nothing():
    maps = np.full((6, 2, 3, 3), 7, np.float16)
    maps[:, 1] = np.arange(6)[:, None, None]
    found = standardise(maps)
    assert not found[:, 0].any()
    assert found[:, 1].std() == pytest.approx(1, abs=1e-3)


def test_a_captioner_writes_as_much_as_its_training_reports_say(tokenizer):
    """Films that say nothing: left to itself, the likeliest report is the shorter one, always."""
    maps = np.zeros((48, 4, 2, 2), np.float16)
    short, long = REPORTS[0], " ".join(REPORTS[:2])
    reports = [short] * 32 + [long] * 16
    vocabulary = Vocabulary(tokenizer, reports)
    captioner = train_captioner(maps, reports, vocabulary, TINY, 0)
    fitting = captioner.of_length(maps, [long] * 48, 3)
    assert fitting.ending < 0
    assert len(fitting.write(maps[:1], 3)[0].split()) > len(captioner.write(maps[:1], 3)[0].split())
    assert captioner.of_length(maps, [short] * 48, 3).ending > fitting.ending
    assert captioner.of_length(maps, [long] * 48, 3).ending == fitting.ending


def test_one_beam_and_a_batch_of_one_write_the_same(learned):
    captioner, _ = learned
    maps, _ = told(2, 6)
    assert captioner.write(maps, batch=1) == captioner.write(maps, batch=6)


def test_words_outside_the_training_reports_are_unknown(tokenizer):
    vocabulary = Vocabulary(tokenizer, ["The heart is normal."])
    tokens = vocabulary.encode("The heart is enlarged.", 10)
    assert (tokens[0], tokens[-1]) == (BEGIN, END)
    assert vocabulary.decode(tokens) == "The heart is."
    assert len(vocabulary.encode("The heart is normal. " * 10, 10)) == 11


def test_no_films_is_an_error(tokenizer):
    vocabulary = Vocabulary(tokenizer, REPORTS)
    with pytest.raises(ValueError, match="needs films"):
        train_captioner(np.zeros((0, 4, 2, 2), np.float16), [], vocabulary, TINY, 0)
