"""What every method with weights of its own keeps to."""

import numpy as np
import pytest
import torch

from tests.methods.tiny_weights import streams, studies
from updp.core.reasons import Reason
from updp.methods import LEARNED, METHODS, UnknownMethod, make_method, method_info
from updp.methods.learned import WEIGHTS, check_weights
from updp.methods.options import BadOption
from updp.models.pack import load_pack

NAMES = [name for name in LEARNED if "chest" in method_info(name).domains]


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_that_ship_fit_the_pack_their_method_uses(name):
    uses = METHODS[name].Options()
    check_weights(name, uses.weights, uses.pack)
    card = (load_pack(uses.weights, verify=False).path / "README.md").read_text(encoding="utf-8")
    assert f"| {name} |" in card


@pytest.mark.parametrize("name", ["image-to-image", "prichexy", "updp"])
def test_films_are_made_as_many_at_a_time_as_the_option_says(monkeypatch, name):
    kind, sizes = METHODS[name], []

    def made(_self, studies, *_):
        sizes.append(len(studies))
        return torch.zeros(len(studies), 1, 256, 256)

    monkeypatch.setattr(kind, "make", made)
    monkeypatch.setattr(kind, "_batch", lambda self, studies, *_: made(self, studies), raising=False)
    monkeypatch.setattr(kind, "size", 256)
    kind(batch=2).deidentify(studies(5), None, streams(5))
    assert sizes == [2, 2, 1]
    with pytest.raises(BadOption, match="'batch'"):
        kind(batch=0)


def test_the_weights_that_ship_are_small():
    bundle = load_pack(WEIGHTS, verify=False)
    assert sum(file.stat().st_size for file in bundle.path.iterdir()) < 90e6


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("strength", [-0.01, 1.01, float("nan")])
def test_a_strength_outside_its_range_is_an_error(on, name, strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        make_method(name, on).deidentify(studies(1), strength, streams(1))


@pytest.mark.parametrize("name", NAMES)
def test_weights_that_are_nowhere_are_an_error_before_any_film(on, name, tmp_path):
    with pytest.raises(UnknownMethod, match="nowhere"):
        make_method(name, {**on, "weights": str(tmp_path / "nowhere")})


@pytest.mark.parametrize("name", NAMES)
def test_films_without_pixels_and_lateral_ones_are_kept_back_and_the_rest_is_made(on, name):
    batch = [studies(1, pixels=None)[0], studies(1, view="LATERAL")[0], studies(1, age=None, sex=None)[0]]
    made = make_method(name, on).deidentify(batch, None, streams(3))
    assert [one.refused for one in made] == [Reason.IMAGE_MISSING, Reason.FILM_NOT_FRONTAL, None]
    assert made[2].pixels.shape == (256, 256)
    assert np.isfinite(made[2].pixels).all()
