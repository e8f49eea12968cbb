"""The searches of other papers, MMA-Diffusion's and that of STEPS, on the same lists."""

import numpy as np
import pytest
import torch

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.alignment import start
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.mma import greedy_coordinate
from updp.methods.updp.steps import tensor_train
from updp.methods.updp.tokens import Target

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)


def target(seed=0, count=1):
    return torch.nn.functional.normalize(torch.randn(count, 16, generator=torch.Generator().manual_seed(seed)), dim=-1)


def rngs(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


@pytest.mark.parametrize("search", [greedy_coordinate, tensor_train])
def test_published_searches_improve_and_use_allowed_words_only(search):
    film = target(3)[0]
    ids, mask, _, _ = start(VLM, VOCABULARY, ["small left effusion in the lung"], 6, rngs(1))
    given = (Target(VLM, VOCABULARY, film), ids[0, : int(mask.sum())], 4)
    trials = 64 if search is greedy_coordinate else 500
    found = search(*given, torch.Generator().manual_seed(0), trials)
    begun = float((VLM.embed_texts(["small left effusion in the lung"])[0] * film).sum())
    assert float(found.scores[0]) > begun
    assert not VOCABULARY.blocked[found.ids].any()
    again = search(*given, torch.Generator().manual_seed(0), trials)
    assert (again.ids == found.ids).all()
