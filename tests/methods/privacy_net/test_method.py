"""Privacy-Net: an encoded picture in the film's own shape."""

import numpy as np
import pytest
import torch

from tests.methods.tiny_weights import films, streams, studies
from updp.methods.privacy_net.method import Encoder, PrivacyNet

pytestmark = pytest.mark.numeric


def test_an_untrained_encoder_gives_the_film_itself():
    given = films(studies(2)).clamp(0.02, 0.98)
    with torch.no_grad():
        made = Encoder(width=8, pools=2)(given, torch.tensor([0.2, 0.9]))
    assert torch.allclose(made, given, atol=1e-5)


def test_pictures_have_the_films_shape_and_range_and_depend_on_strength(on):
    method = PrivacyNet(**on)
    weak, strong = (method.deidentify(studies(2), s, streams(2)) for s in (0.1, 0.9))
    for one in (*weak, *strong):
        assert one.pixels.shape == (256, 256)
        assert 0 <= one.pixels.min() <= one.pixels.max() <= 1
    assert np.abs(weak[0].pixels - strong[0].pixels).max() > 1e-3


def test_the_picture_can_be_judged_by_the_classifier_trained_along(on):
    method = PrivacyNet(**on)
    made = torch.from_numpy(np.stack([one.pixels for one in method.deidentify(studies(2), None, streams(2))]))[:, None]
    with torch.no_grad():
        along, frozen = method.findings(made), method.pack.classifier.probabilities(made)
    assert along.shape == frozen.shape == (2, 2)
    assert not torch.allclose(along, frozen)
