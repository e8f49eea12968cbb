"""The network that reads off a film what a text can say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.models.classifier import Classifier
from updp.training.attributes import AttributesStage, Reader
from updp.training.corpus import prepare_corpus
from updp.training.generator import draw_texts
from updp.training.loop import run_stage
from updp.training.prompts import ATTRIBUTES
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric


class Fixed(Classifier):
    """Scores of films are given, whatever they show."""

    def __init__(self, scores):
        super().__init__(ATTRIBUTES[: scores.shape[1]], 32)
        self.scores = scores

    def forward(self, images, begun=False):
        return self.scores


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attributes")
    corpus = prepare_corpus(studies(), folder / "corpus", SIZE)
    tokenizer = train_tokenizer([t for row in corpus.sentences for t in row], 300, False)
    texts = draw_texts(corpus, tokenizer, 16, folder)
    torch.manual_seed(0)
    return AttributesStage(corpus, replace(TINY.attributes, steps=3), texts, 32, None, frozen=0)


def test_the_reader_learns_from_films_whose_texts_are_known(stage, tmp_path):
    assert (stage.texts.said[stage.rows, :, 0] >= 0).any(1).all()
    before = {name: value.clone() for name, value in stage.module.state_dict().items()}
    module = run_stage(stage, stage.config, tmp_path, build=stage.build, say=lambda _: None)
    assert not torch.equal(module.head.weight, before["head.weight"])
    reader = stage.reader(module)
    assert reader.present.shape == reader.absent.shape == (len(ATTRIBUTES),)
    assert (reader.present >= reader.absent).all()
    assert torch.isfinite(reader.present).all()
    assert not any(p.requires_grad for p in reader.parameters())


def test_films_that_score_as_real_ones_do_miss_nothing():
    present, absent = torch.tensor([2.0, 3.0]), torch.tensor([-2.0, -1.0])
    said = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    films = torch.zeros(2, 1, 8, 8)
    assert Reader(Fixed(torch.tensor([[2.0, -1.0], [-2.0, 3.0]])), present, absent).misses(films, said) == 0
    # More than real films score is no gain: a film that exaggerates is not asked for.
    assert Reader(Fixed(torch.tensor([[9.0, -9.0], [-9.0, 9.0]])), present, absent).misses(films, said) == 0


@pytest.mark.parametrize(
    ("scores", "misses"),
    [
        ([[1.0, -1.0], [-2.0, 3.0]], 0.5),  # one of two findings asked for is one short
        ([[2.0, 0.0], [-2.0, 3.0]], 1.0),  # one of two that nobody asked for is one above, and counts twice
    ],
)
def test_what_lacks_and_what_was_added_both_count(scores, misses):
    present, absent = torch.tensor([2.0, 3.0]), torch.tensor([-2.0, -1.0])
    reader = Reader(Fixed(torch.tensor(scores)), present, absent)
    said = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert float(reader.misses(torch.zeros(2, 1, 8, 8), said)) == pytest.approx(misses)


def test_a_text_of_which_nothing_is_known_asks_for_nothing():
    reader = Reader(Fixed(torch.tensor([[-9.0, 9.0]])), torch.tensor([2.0, 3.0]), torch.tensor([-2.0, -1.0]))
    assert reader.misses(torch.zeros(1, 1, 8, 8), torch.full((1, 2), -1.0)) == 0


def test_an_attribute_that_the_network_cannot_see_asks_for_nothing():
    reader = Reader(Fixed(torch.tensor([[0.5]])), torch.tensor([0.2]), torch.tensor([0.6]))
    for said in (0.0, 1.0):
        lacking = reader.misses(torch.zeros(1, 1, 8, 8), torch.tensor([[said]]))
        assert float(lacking) <= 0.1 + 1e-6
    assert np.allclose(reader.present, reader.absent)
