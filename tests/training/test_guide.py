import numpy as np
import pytest
import torch

from updp.models.generator import UNet
from updp.training.guide import with_guide

GUIDE = {"widths": [32, 32], "embedding": 32}


@pytest.fixture
def unet():
    torch.manual_seed(0)
    return UNet(channels=4, widths=(32, 32), context=16, embedding=32)


def test_a_generator_carries_its_guide_in_one_set_of_weights(unet):
    torch.manual_seed(1)
    guide = UNet(channels=4, context=0, **GUIDE)
    torch.nn.init.normal_(guide.last.weight)
    joined = with_guide(unet, guide, GUIDE)
    again = UNet(**joined.config)
    again.load_state_dict(joined.state_dict())
    x, t = torch.randn(2, 4, 8, 8), torch.tensor([0.2, 0.8])
    assert torch.equal(again.guide(x, t), guide(x, t))
    assert with_guide(unet, None, GUIDE) is unet


def test_a_guide_hears_no_text(unet):
    guide = UNet(channels=4, context=0, **GUIDE)
    assert guide.sentence is None
    assert not any("cross_attn" in name or "text" in name for name, _ in guide.named_parameters())
    assert any("self_attn" in name for name, _ in guide.named_parameters())


def test_methods_take_the_generator_without_guide_and_text(unet):
    joined = with_guide(unet, UNet(channels=4, context=0, **GUIDE), GUIDE)
    bare = UNet(**joined.without_text())
    assert bare.guide is None
    kept = {k: v for k, v in joined.state_dict().items() if not k.startswith("guide.")}
    bare.load_state_dict(kept)
    assert np.isclose(float(bare.first.weight.sum()), float(unet.first.weight.sum()))
