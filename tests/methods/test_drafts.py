"""drafts: the record draws several films and chooses one; the patient's film has no part in either."""

import numpy as np
import pytest
import torch

from tests.methods.films import streams, studies
from updp.core.reasons import Reason
from updp.methods import UnknownMethod, make_method
from updp.methods.drafts import Drafts

pytestmark = pytest.mark.numeric
SMALL = {"sampler_steps": 1, "length": 8, "check": False}


@pytest.fixture(scope="module")
def method(small_pack):
    return Drafts(pack=small_pack, drafts=3, **SMALL)


def test_the_film_that_leaves_is_the_same_whatever_the_patients_film_was(method):
    batch = studies(2)
    other = [study.but(pixels=1 - study.pixels) for study in batch]
    assert method.reads_pixels(None) is False
    one, two = (method.deidentify(some, None, streams(2)) for some in (batch, other))
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.pixels, b.pixels)
        assert a.decided == {"rerolls": 0, "drafts": 3}


def test_the_draft_that_shows_its_labels_best_leaves(method):
    study = studies(1)[0]
    made = method.deidentify([study], None, streams(1))[0].pixels
    rng = streams(1)[0]
    written = method.write([study], torch.zeros(1, 1, 256, 256), 1.0, [rng])
    drafts = method._draw(written.texts, [rng], 3)[0]
    scores = method.agreement(study, written.texts[0], drafts)
    assert np.abs(drafts[int(scores.argmax()), 0].numpy() - made).max() < 1e-4


class Seen:
    """A classifier of two findings that sees the mean grey as the first one."""

    labels = ("Effusion", "Nodule")

    def probabilities(self, films):
        grey = films.mean((1, 2, 3))
        return torch.stack([grey, torch.full_like(grey, 0.1)], 1)


class Near:
    """A vlm to which bright films are near every text."""

    def embed_images(self, films):
        grey = films.mean((1, 2, 3))
        return torch.stack([grey, 1 - grey], 1)

    def embed_texts(self, texts):
        return torch.tensor([[1.0, 0.0]])


@pytest.mark.parametrize(
    ("labels", "best"),
    [(("Effusion",), 2), ((), 0), (("Effusion", "Nodule"), 2), (None, 2), (("A label of our own",), 2)],
)
def test_agreement_is_with_the_labels_and_without_them_with_the_prompt(labels, best):
    drafts = torch.stack([torch.full((1, 4, 4), level) for level in (0.1, 0.5, 0.9)])
    method = Drafts.__new__(Drafts)
    method.__dict__["pack"] = type("Pack", (), {"classifier": Seen(), "vlm": Near()})()
    scores = method.agreement(studies(1, labels=labels)[0], "effusion", drafts)
    assert int(scores.argmax()) == best


def test_a_record_without_words_has_no_draft(method):
    made = method.deidentify(studies(1, labels=None, report=None), None, streams(1))[0]
    assert made.refused is Reason.NOTHING_TO_SHOW


def test_drafts_that_all_fail_their_check_are_drawn_again_and_then_kept_back(small_pack):
    method = Drafts(pack=small_pack, drafts=2, sampler_steps=1, length=8, rerolls=1)
    asked = []

    class Strict:
        def faults(self, records, own, made):
            asked.append(own)
            return [Reason.FILM_COPY] * len(made)

    method.__dict__["_checker"] = Strict()
    assert method.deidentify(studies(1), None, streams(1))[0].refused is Reason.FILM_COPY
    assert asked == [None, None]


@pytest.mark.parametrize("options", [{"drafts": 1}, {"search": "mma"}, {"image_to_image": True}])
def test_settings_without_meaning_are_refused(options):
    with pytest.raises(UnknownMethod, match="drafts"):
        make_method("drafts", options)
