"""The searches of other papers, MMA-Diffusion's and that of STEPS, on the same lists."""

import numpy as np
import pytest
import torch

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.alignment import start
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.mma import greedy_coordinate
from updp.methods.updp.steps import tensor_train
from updp.methods.updp.tokens import Search, Targets

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)


def target(seed=0, count=1):
    return torch.nn.functional.normalize(torch.randn(count, 16, generator=torch.Generator().manual_seed(seed)), dim=-1)


def rngs(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


def begun(texts, length=8, free=3):
    ids, mask, fixed, _ = start(VLM, VOCABULARY, texts, length, rngs(len(texts)), free=free)
    streams = [torch.Generator().manual_seed(n) for n in range(len(texts))]
    return Search(ids, mask, mask if free is None else mask & ~fixed, streams)


TEXTS = ["small left effusion in the lung", "normal heart", "no mass"]
TRIALS = {greedy_coordinate: 64, tensor_train: 200}


@pytest.mark.parametrize("search", [greedy_coordinate, tensor_train])
@pytest.mark.parametrize("free", [None, 3])
def test_published_searches_improve_every_film_and_use_allowed_words_only(search, free):
    films = target(3, 3)
    given = begun(TEXTS, free=free)
    targets = Targets(VLM, VOCABULARY, films)
    before = targets.scores(given.ids, given.mask, torch.arange(3))
    found = search(targets, given, 4, TRIALS[search])
    assert (found.scores >= before - 1e-6).all()
    assert found.scores.mean() > before.mean() + 0.02
    assert found.trace == sorted(found.trace)
    assert not VOCABULARY.blocked[found.ids[given.moving]].any()
    assert (found.ids[~given.moving] == given.ids[~given.moving]).all()
    again = search(targets, begun(TEXTS, free=free), 4, TRIALS[search])
    assert (again.ids == found.ids).all()


@pytest.mark.parametrize("search", [greedy_coordinate, tensor_train])
def test_a_film_gets_the_same_prompt_alone_and_in_a_batch(search):
    films = target(5, 3)
    together = search(Targets(VLM, VOCABULARY, films), begun(TEXTS), 3, TRIALS[search])
    for n in range(3):
        one = begun(TEXTS)
        rows = slice(n, n + 1)
        alone = Search(one.ids[rows], one.mask[rows], one.moving[rows], one.generators[rows])
        found = search(Targets(VLM, VOCABULARY, films[rows]), alone, 3, TRIALS[search])
        assert (found.ids[0] == together.ids[n]).all()


@pytest.mark.parametrize("search", [greedy_coordinate, tensor_train])
def test_every_prompt_comes_back_at_the_same_length_when_it_is_read_again(search):
    found = search(Targets(VLM, VOCABULARY, target(4, 3)), begun(TEXTS), 3, TRIALS[search])
    for ids, mask in zip(found.ids, found.mask, strict=True):
        assert VOCABULARY.encode(VOCABULARY.spell(ids[mask].tolist())[0]) == ids[mask].tolist()


def test_a_token_that_reads_back_as_others_is_no_candidate():
    class Loose(Vocabulary):
        def __init__(self, vlm):
            super().__init__(vlm, pieces=True)

    loose = Loose(VLM)
    broken = [i for i in loose.allowed.tolist() if loose.encode(loose.pieces[i].text) != [i]]
    assert broken  # pieces of words
    assert not loose.stable[broken].any()
    given = begun(TEXTS)
    pool = Targets(VLM, loose, target(4, 3)).candidates(given.ids, given.mask, given.moving, 10_000)
    assert not set(broken) & set(pool.flatten().tolist())


def test_equal_prompts_are_scored_once_and_alike():
    targets = Targets(VLM, VOCABULARY, target(6, 3))
    given = begun(TEXTS)
    owners = torch.tensor([0, 1, 2, 1, 0])
    scores = targets.scores(given.ids[owners], given.mask[owners], owners)
    assert scores[0] == scores[4]
    assert scores[1] == scores[3]
    texts = [VOCABULARY.spell(ids[mask].tolist())[0] for ids, mask in zip(given.ids, given.mask, strict=True)]
    expected = (VLM.embed_texts(texts) * targets.films).sum(1)
    assert torch.allclose(scores[:3], expected, atol=1e-5)
