"""twins: every pixel from record and noise, one private choice, nothing read at full strength."""

import math

import numpy as np
import pytest
import torch

from tests.chance import empirical_epsilon
from tests.methods.films import streams, studies
from updp.core.reasons import Reason
from updp.methods import UnknownMethod, make_method
from updp.methods.twins import Twins

pytestmark = pytest.mark.numeric
SMALL = {"sampler_steps": 1, "length": 8, "check": False}


@pytest.fixture(scope="module")
def method(small_pack):
    return Twins(pack=small_pack, twins=3, **SMALL)


def test_at_full_strength_one_twin_is_drawn_whatever_the_film_was(small_pack):
    method = Twins(pack=small_pack, twins=3, **SMALL)
    batch = studies(2)
    other = [study.but(pixels=1 - study.pixels) for study in batch]
    assert method.reads_pixels(1.0) is False
    one, two = (method.deidentify(some, 1.0, streams(2)) for some in (batch, other))
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.pixels, b.pixels)
        assert a.decided["twins"] == 1
        assert a.decided["epsilon"] == 0


def test_below_full_strength_the_film_that_leaves_is_one_of_the_records_twins(method):
    batch = studies(2)
    other = [study.but(pixels=1 - study.pixels) for study in batch]
    assert method.reads_pixels(0.5) is True
    drawn = {}
    for some in (batch, other):
        for study, made in zip(some, method.deidentify(some, 0.5, streams(2)), strict=True):
            assert made.decided["epsilon"] == 8.0
            assert made.decided["bits"] == math.log2(3)
            drawn.setdefault(study.film_id, []).append(made.pixels)
    for n, study in enumerate(batch):
        rng = streams(2)[n]
        written = method.write([study], torch.zeros(1, 1, 256, 256), 0.5, [rng])
        twins = method._draw(written.texts, [rng], 3)[0][:, 0].numpy()
        for film in drawn[study.film_id]:
            assert min(float(np.abs(film - twin).max()) for twin in twins) < 1e-4


class Fixed:
    """Twins that differ as much as can be for two films: the worst case of the choice."""

    def __init__(self, method, films):
        self.flip = bool(films.mean() > 0.5)

    def of(self, film, twins):
        scores = np.linspace(0, 1, len(twins))
        return scores[::-1] if self.flip else scores


def test_the_choice_keeps_its_epsilon_on_the_two_most_unlike_films(small_pack, monkeypatch):
    monkeypatch.setattr("updp.methods.twins._Utilities", Fixed)
    method = Twins(pack=small_pack, twins=2, max_epsilon=2.0, **SMALL)
    twins = torch.stack([torch.zeros(1, 8, 8), torch.ones(1, 8, 8)])
    monkeypatch.setattr(method, "_draw", lambda texts, rngs, count: [twins] * len(texts))
    counts = []
    for level in (0.1, 0.9):
        films = torch.full((600, 1, 8, 8), level)
        rngs = [np.random.default_rng([int(10 * level), n]) for n in range(600)]
        written = method.write(studies(1), films[:1], 0.0, streams(1))
        written = type(written)(written.texts * 600, [0.0] * 600, [], [0] * 600)
        made = method._make(studies(1) * 600, films, written, 0.0, rngs)
        ones = sum(int(one.pixels.mean() > 0.5) for one in made)
        counts.append([600 - ones, ones])
    # Of two twins with opposite scores the log ratio is half of epsilon; the rest is for twins that all change.
    assert 0.5 < empirical_epsilon(*counts) <= 1.0


def test_a_record_without_words_has_no_twin(method):
    made = method.deidentify(studies(1, labels=None), None, streams(1))[0]
    assert made.refused is Reason.NOTHING_TO_SHOW


def test_twins_that_all_fail_their_check_are_drawn_again_and_then_kept_back(small_pack, monkeypatch):
    method = Twins(pack=small_pack, twins=2, sampler_steps=1, length=8, rerolls=1)
    asked = []

    class Strict:
        def faults(self, records, own, made):
            asked.append(own)
            return [Reason.FILM_COPY] * len(made)

    method.__dict__["_checker"] = Strict()
    made = method.deidentify(studies(1), 0.5, streams(1))[0]
    assert made.refused is Reason.FILM_COPY
    assert asked == [None, None]  # the patient's film has no part in the check


@pytest.mark.parametrize("options", [{"twins": 1}, {"max_epsilon": 0.0}, {"search": "mma"}, {"image_to_image": True}])
def test_settings_without_meaning_are_refused(options):
    with pytest.raises(UnknownMethod, match="twins"):
        make_method("twins", options)
