"""DCM-DeID: masks, code and decoder."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.tiny_weights import films, streams, studies
from updp.methods import UnknownMethod, make_method
from updp.methods.dcm.method import DCMDeID, block, cell_saliency, compensate, similarity

pytestmark = pytest.mark.numeric


@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_masks_are_nested_in_rho(a, b, seed):
    low, high = sorted((a, b))
    saliency = torch.randn(2, 1, 16, 16, generator=torch.Generator().manual_seed(seed))
    assert (block(saliency, low) <= block(saliency, high)).all()


@pytest.mark.parametrize(("rho", "cells"), [(0.0, 0), (0.5, 128), (0.9, 230), (1.0, 256)])
def test_rho_is_the_share_of_blocked_cells(rho, cells):
    assert block(torch.randn(3, 1, 16, 16), rho).sum((1, 2, 3)).tolist() == [cells] * 3


def test_equal_cells_are_still_blocked_in_one_order():
    flat = torch.zeros(1, 1, 16, 16)
    assert (block(flat, 0.3) <= block(flat, 0.31)).all()


@pytest.mark.parametrize("rho", [-0.01, 1.01, float("nan")])
def test_rho_outside_its_range_is_an_error(rho):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        block(torch.zeros(1, 1, 16, 16), rho)


def test_nothing_blocked_is_the_film_itself(on):
    made = DCMDeID(**on).deidentify(studies(2), 0.0, streams(2))
    assert all((one.pixels == study.pixels).all() for one, study in zip(made, studies(2), strict=True))


def drawn(method, given, blocked, words=("",), seed=5):
    noise = method.generator.seeded_noise([seed] * len(given))
    told = method.generator.condition(list(words) * len(given))
    return compensate(method.generator, given, blocked, told, noise, steps=2)


def test_with_all_cells_blocked_no_pixel_reaches_the_decoder(on):
    method = DCMDeID(**on)
    given = films(studies(2)).requires_grad_()
    made = drawn(method, given, torch.ones(2, 1, 16, 16))
    (gradient,) = torch.autograd.grad(made.sum(), given, allow_unused=True)
    assert gradient is None or gradient.abs().max() == 0


def test_with_all_cells_blocked_films_of_one_code_and_one_stream_are_one_film(on):
    method = DCMDeID(**on)
    one, other = (films(studies(1, first)) for first in (0, 3))
    blocked, code, noise = torch.ones(1, 1, 16, 16), torch.zeros(1, 2), method.generator.seeded_noise([5])
    with torch.no_grad():
        assert torch.equal(method.fill(one, blocked, code, noise), method.fill(other, blocked, code, noise))


def test_a_blocked_cell_is_never_read(on):
    method = DCMDeID(**on)
    given = films(studies(1))
    blocked = torch.zeros(1, 1, 16, 16)
    blocked[..., 3:9, 4:12] = 1
    changed = given.clone()
    changed[..., 48:144, 64:192] = torch.rand(96, 128)
    with torch.no_grad():
        made, other = (drawn(method, x, blocked) for x in (given, changed))
    assert torch.equal(made, other)
    assert torch.equal(made[..., :48, :], given[..., :48, :])
    assert (made - given)[..., 48:144, 64:192].abs().max() > 0.01


def test_what_fills_a_cell_depends_on_the_stream_and_on_the_open_cells(on):
    method = DCMDeID(**on)
    given = films(studies(1))
    blocked = torch.zeros(1, 1, 16, 16)
    blocked[..., 4:12, 4:12] = 1
    inside = (..., slice(64, 192), slice(64, 192))
    with torch.no_grad():
        first = drawn(method, given, blocked)
        assert not torch.allclose(first[inside], drawn(method, given, blocked, seed=6)[inside])
        assert torch.equal(first, drawn(method, given, blocked))


def test_partly_blocked_films_keep_their_open_cells(on):
    method = DCMDeID(**on)
    made = method.deidentify(studies(1), 0.5, streams(1))[0]
    cells = np.abs(made.pixels - studies(1)[0].pixels).reshape(16, 16, 16, 16).max((1, 3))
    assert (cells == 0).sum() == 128
    assert made.decided == {}  # the mask is as personal as the film


def test_saliency_points_at_the_cell_that_tells(on):
    # An identity that looks at one cell only: its mean contrast along one pattern.
    pattern = torch.zeros(1, 1, 256, 256)
    pattern[..., 80:96, 112:128] = torch.rand(16, 16, generator=torch.Generator().manual_seed(0)) - 0.5

    def identity(x):
        told = (x * pattern).sum((1, 2, 3))
        return torch.nn.functional.normalize(torch.stack([told, torch.ones_like(told)], 1), dim=1)

    given = 0.5 + pattern.expand(2, -1, -1, -1)
    found = cell_saliency(given, identity, similarity)
    assert found.flatten(1).argmax(1).tolist() != []
    assert all(abs(int(i) // 16 - 5) <= 1 and abs(int(i) % 16 - 7) <= 1 for i in found.flatten(1).argmax(1))


def test_the_length_of_a_films_code_can_be_read(on):
    bits = DCMDeID(**on).bits(films(studies(2)))
    assert bits.shape == (2,)
    assert (bits > 0).all()


def test_a_study_gets_the_same_film_in_any_batch(on):
    together = DCMDeID(**on).deidentify(studies(3), 0.7, streams(3))
    alone = DCMDeID(**on).deidentify(studies(3)[1:2], 0.7, streams(3)[1:2])
    assert np.abs(together[1].pixels - alone[0].pixels).max() < 1e-4


@pytest.mark.parametrize("options", [{"spare": -1.0}, {"steps": 0}])
def test_settings_without_meaning_are_refused(on, options):
    with pytest.raises(UnknownMethod, match="dcm"):
        make_method("dcm", {**on, **options})
