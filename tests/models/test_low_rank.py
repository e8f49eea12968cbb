"""Low-rank paths beside the layers of a network."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from updp.models.low_rank import empty_paths, merged, paths, with_low_rank

pytestmark = pytest.mark.numeric


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.SiLU(), nn.Conv2d(8, 8, 1), nn.Flatten(), nn.Linear(8 * 4 * 4, 5))


def moved(changed: nn.Module) -> None:
    with torch.no_grad():
        for weight in changed.parameters():
            if weight.requires_grad:
                weight.add_(torch.randn_like(weight) * 0.1)


def test_paths_that_have_not_learned_change_nothing() -> None:
    plain, x = network(), torch.randn(2, 3, 8, 8)
    assert torch.equal(with_low_rank(plain, 4)(x), plain(x))


def test_only_the_paths_learn_and_the_network_they_were_made_from_stays() -> None:
    plain = network()
    before = [p.clone() for p in plain.parameters()]
    changed = with_low_rank(plain, 4)
    trained = {name for name, p in changed.named_parameters() if p.requires_grad}
    assert trained == {f"{i}.{end}.weight" for i in (0, 2, 4) for end in ("down", "up")}
    moved(changed)
    assert all(torch.equal(a, b) for a, b in zip(before, plain.parameters(), strict=True))


def test_merged_weights_compute_what_layers_and_paths_compute_together() -> None:
    plain, x = network(), torch.randn(2, 3, 8, 8)
    changed = with_low_rank(plain, 4)
    moved(changed)
    whole = merged(plain, paths(changed))
    assert not torch.allclose(plain(x), changed(x), atol=1e-3)
    assert torch.allclose(whole(x), changed(x), atol=1e-5)


def test_parts_that_are_skipped_get_no_path() -> None:
    assert {name.split(".")[0] for name in paths(with_low_rank(network(), 4, skip=("4",)))} == {"0", "2"}


def test_a_convolution_in_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="groups"):
        with_low_rank(nn.Sequential(nn.Conv2d(4, 4, 3, groups=4)), 2)


def test_empty_paths_have_the_names_and_shapes_of_trained_ones() -> None:
    plain = network()
    trained = paths(with_low_rank(plain, 4))
    assert {k: v.shape for k, v in empty_paths(plain, 4).items()} == {k: v.shape for k, v in trained.items()}
