"""Weights come back as they were written: in half precision, or each row of a large matrix in eight bits."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from updp.models.errors import PackError
from updp.models.weights import load_weights, rounded, save_weights

pytestmark = pytest.mark.numeric


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.ModuleDict(
        {
            "large": nn.Conv2d(64, 64, 3),
            "uneven": nn.Linear(256, 64),
            "small": nn.Linear(8, 8),
            "fine": nn.Linear(256, 64),
        }
    )


def test_eight_bits_err_by_half_a_step_of_each_row(network, tmp_path):
    with torch.no_grad():
        network["uneven"].weight[0] *= 1000
        network["uneven"].weight[1] = 0
    save_weights(network, tmp_path / "x.safetensors", eight_bits=True, apart=("fine.",))
    held = load_weights(tmp_path / "x.safetensors")
    assert set(held) == set(network.state_dict())
    for name in ("large.weight", "uneven.weight"):
        was = network.state_dict()[name].flatten(1)
        step = was.abs().amax(1, keepdim=True) / 127
        assert ((held[name].flatten(1) - was).abs() <= 0.6 * step).all(), name
    for name in ("small.weight", "fine.weight", "large.bias"):
        assert torch.equal(held[name], network.state_dict()[name].half().float()), name


def test_eight_bits_take_half_of_half_precision(network, tmp_path):
    save_weights(network["large"], tmp_path / "half.safetensors")
    save_weights(network["large"], tmp_path / "eight.safetensors", eight_bits=True)
    assert (tmp_path / "eight.safetensors").stat().st_size < 0.55 * (tmp_path / "half.safetensors").stat().st_size


def test_a_rounded_network_is_what_is_read_back(network, tmp_path):
    before = {name: value.clone() for name, value in network.state_dict().items()}
    save_weights(network, tmp_path / "x.safetensors", eight_bits=True)
    held = load_weights(tmp_path / "x.safetensors")
    again = rounded(network)
    assert all(torch.equal(value, held[name]) for name, value in again.state_dict().items())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    save_weights(again, tmp_path / "y.safetensors", eight_bits=True)
    twice = load_weights(tmp_path / "y.safetensors")
    assert all(torch.allclose(twice[name], held[name], rtol=2e-3, atol=0) for name in held)


def test_a_scale_that_half_precision_cannot_hold_is_refused(tmp_path):
    large = nn.Linear(256, 64)
    nn.init.constant_(large.weight, 1e9)
    with pytest.raises(PackError, match="weight has values that half precision cannot hold"):
        save_weights(large, tmp_path / "x.safetensors", eight_bits=True)


@pytest.mark.parametrize("lost", ["weight", "weight|scale"])
def test_numbers_without_their_scale_are_no_weights(lost, tmp_path):
    from safetensors.torch import load_file, save_file

    path = tmp_path / "x.safetensors"
    save_weights(nn.Linear(256, 64), path, eight_bits=True)
    save_file({name: value for name, value in load_file(path).items() if name != lost}, path)
    with pytest.raises(PackError, match="weights of weight are not whole"):
        load_weights(path)
