"""Models on another device than their callers: nothing is made on the wrong one, and nothing else has to know."""

import pytest
import torch

from tests.methods.tiny import tiny_pack
from updp.methods import UnknownMethod, make_method
from updp.models import PackError, load_pack, placement
from updp.models.generator import Condition
from updp.models.placement import Placed

FILMS = torch.linspace(0, 1, 2 * 256 * 256).reshape(2, 1, 256, 256)
WORDS = ["effusion", "no nodule"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_pack(tmp_path_factory.mktemp("packs") / "tiny")


def calls(pack, films):
    """Every function of every role, by name; of a model itself or of one behind the border."""
    latents = pack.autoencoder.encode(films)
    condition = pack.generator.condition(WORDS)
    ids, mask = pack.vlm.tokenize(WORDS)
    rows = pack.vlm.token_table[ids.to(pack.vlm.token_table.device)]
    return {
        "encode": latents,
        "decode": pack.autoencoder.decode(latents),
        "embed_images": pack.vlm.embed_images(films),
        "embed_texts": pack.vlm.embed_texts(WORDS),
        "embed_tokens": pack.vlm.embed_tokens(rows, mask.to(rows.device)),
        "embed": pack.identity.embed(films),
        "probabilities": pack.classifier.probabilities(films),
        "states": condition.states,
        "noise": pack.generator.noise(latents, torch.tensor([0.3, 0.7]), condition),
        "generate": pack.generator.generate(WORDS, [1, 2], steps=2),
        "image to image": pack.generator.generate(WORDS, [1, 2], steps=2, init_images=films, strength=0.5),
    }


class Bare:
    """The models of a pack without the border around them."""

    def __init__(self, pack):
        for role in pack.info["roles"]:
            setattr(self, role, getattr(pack, role).model)


def test_no_tensor_is_made_on_another_device_than_the_models(folder):
    # An operation on a tensor of the meta device and one of the CPU is an error, and no number is computed.
    made = calls(Bare(load_pack(folder, device="meta")), FILMS.to("meta"))
    assert {name: one.device.type for name, one in made.items()} == dict.fromkeys(made, "meta")


@pytest.mark.numeric
def test_callers_give_and_get_float32_on_the_cpu_whatever_the_models_compute_in(folder):
    placed, plain = load_pack(folder, dtype="float64"), load_pack(folder)
    assert isinstance(placed.identity, Placed)
    assert placed.identity.model.project.weight.dtype == torch.float64
    made, expected = calls(placed, FILMS), calls(plain, FILMS)
    for name, one in made.items():
        assert (one.dtype, one.device.type) == (torch.float32, "cpu"), name
        assert torch.allclose(one, expected[name], atol=1e-3), name


@pytest.mark.numeric
def test_gradients_pass_the_border(folder):
    vlm = load_pack(folder, dtype="float64").vlm
    ids, mask = vlm.tokenize(WORDS)
    rows = vlm.token_table[ids].clone().requires_grad_()
    vlm.embed_tokens(rows, mask)[:, 0].sum().backward()
    assert rows.grad is not None
    assert rows.grad.dtype == torch.float32
    assert rows.grad.abs().sum() > 0


@pytest.mark.numeric
def test_a_compiled_generator_draws_the_same_films_and_each_shape_is_compiled_once(folder, monkeypatch):
    """By the tracer of torch.compile alone: what a compiler of the machine makes of a trace is its own."""
    traces = []
    monkeypatch.setattr(placement, "BACKEND", lambda traced, _inputs: traces.append(1) or traced)
    plain, compiled = load_pack(folder), load_pack(folder, compiled=True)
    counts = []
    for films in (1, 2, 1, 2):
        made = [pack.generator.generate(WORDS[:films], [1, 2][:films], steps=2) for pack in (plain, compiled)]
        assert torch.allclose(*made, atol=1e-4)
        counts.append(len(traces))
    assert 0 < counts[0] < counts[1] == counts[2] == counts[3]


def test_a_condition_stays_one_behind_the_border(folder):
    assert isinstance(load_pack(folder, dtype="float64").generator.condition(WORDS), Condition)


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ({"device": "warp"}, "choose cpu, cuda"),
        ({"dtype": "int8"}, "float32, float16, bfloat16"),
        ({"device": "cuda"}, "'cuda' is not available"),
        ({"device": "mps"}, "'mps' is not available"),
    ],
)
def test_a_device_that_is_not_there_is_said_before_anything_is_loaded(folder, monkeypatch, where, why):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(PackError, match=why):
        load_pack(folder, **where)


def test_a_method_on_a_device_that_is_not_there_ends_before_the_first_film(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UnknownMethod, match="'cuda' is not available"):
        make_method("image-to-image", {"device": "cuda"})
    with pytest.raises(UnknownMethod, match="compute on the CPU"):
        make_method("prichexy", {"device": "cuda"})
    with pytest.raises(UnknownMethod, match="compute on the CPU"):
        make_method("prichexy", {"compiled": True})
