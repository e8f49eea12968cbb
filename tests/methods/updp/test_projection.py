"""Projection to the nearest allowed tokens."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.projection import Projection, Projector

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)
TABLE = VLM.token_table.detach()


def projector(**rule):
    return Projector(TABLE, VOCABULARY, Projection(**rule))


@given(st.integers(0, 10_000), st.sampled_from(["top-k", "whitelist-top-k"]), st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_no_blocked_token_is_ever_projected_to(seed, candidates, temperature):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(12, 32, generator=generator)
    made = projector(candidates=candidates, temperature=temperature)
    ids = made.project(rows, torch.rand(12, made.width(), generator=generator))
    assert not VOCABULARY.blocked[ids].any()
    if candidates != "top-k":
        assert VOCABULARY.favoured[ids].all()


def test_rows_of_blocked_tokens_go_to_allowed_ones():
    ids = projector().project(TABLE[VOCABULARY.blocked])
    assert not VOCABULARY.blocked[ids].any()


def test_the_bonus_never_admits_a_token_outside_the_top_k():
    rows = torch.randn(50, 32, generator=torch.Generator().manual_seed(1))
    huge, none = projector(top_k=3, bonus=100.0), projector(top_k=3, bonus=0.0)
    allowed = none.candidates(rows)[1]
    chosen = huge.project(rows)
    assert (chosen[:, None] == allowed).any(1).all()
    assert VOCABULARY.favoured[chosen].sum() >= VOCABULARY.favoured[none.project(rows)].sum()


def test_a_temperature_near_zero_is_greedy():
    rows = torch.randn(40, 32, generator=torch.Generator().manual_seed(2))
    noise = torch.rand(40, 10, generator=torch.Generator().manual_seed(3))
    assert (projector(temperature=1e-6).project(rows, noise) == projector().project(rows)).all()


def test_tokens_that_are_allowed_project_to_themselves():
    ids = VOCABULARY.allowed
    assert (projector(bonus=0.0).project(TABLE[ids]) == ids).all()


def test_with_no_list_at_all_every_word_returns_itself():
    class Free(Vocabulary):
        def __init__(self, vlm):
            super().__init__(vlm)
            self.blocked = torch.zeros_like(self.blocked)

    ids = torch.arange(len(TABLE))
    assert (Projector(TABLE, Free(VLM), Projection(bonus=0.0)).project(TABLE) == ids).all()


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"temperature": -1.0}])
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Projection(**wrong)
