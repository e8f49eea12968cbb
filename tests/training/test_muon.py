import pytest
import torch
from torch import nn

from updp.models.generator import UNet
from updp.training.muon import Muon, orthogonal, takes

pytestmark = pytest.mark.numeric


def test_an_update_has_singular_values_near_one_whichever_side_is_longer():
    torch.manual_seed(0)
    for shape in ((24, 72), (72, 24), (16, 16)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)))
        assert values.min() > 0.3
        assert values.max() < 1.5


def test_an_update_points_along_the_polar_factor():
    torch.manual_seed(1)
    matrix = torch.randn(12, 40)
    u, _, v = torch.linalg.svd(matrix, full_matrices=False)
    ours = orthogonal(matrix)
    cosine = (ours * (u @ v)).sum() / (ours.norm() * (u @ v).norm())
    assert cosine > 0.97


def test_a_kernel_is_learned_and_its_layout_kept():
    torch.manual_seed(2)
    layer = nn.Conv2d(4, 6, 3, padding=1).to(memory_format=torch.channels_last)
    films, wanted = torch.randn(8, 4, 8, 8), torch.randn(6, 4, 3, 3)
    target = nn.functional.conv2d(films, wanted, padding=1)
    optimizer = Muon([layer.weight], lr=0.05, weight_decay=0.0)
    losses = []
    for _ in range(150):
        loss = (layer(films) - target).square().mean()
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert losses[-1] < 0.2 * losses[0]
    assert layer.weight.is_contiguous(memory_format=torch.channels_last)


def test_ends_text_and_vectors_are_left_to_the_other_optimiser():
    unet = UNet(channels=4, widths=(32, 32), context=16, vocabulary=20, layers=1, heads=2, length=8, attributes=3)
    taken = [name for name, weight in unet.named_parameters() if takes(name, weight)]
    assert "down.0.block.conv1.weight" in taken
    assert "middle.self_attn.query.weight" in taken
    assert not any(name.startswith(("text", "first", "last", "attributes", "time", "sentence")) for name in taken)
    assert all(dict(unet.named_parameters())[name].ndim >= 2 for name in taken)
