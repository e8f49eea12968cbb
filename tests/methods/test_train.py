"""`updp train method`: every recipe on a miniature hospital, resumed, and refused where it cannot learn."""

import tomllib
from importlib import import_module

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.methods.tiny import tiny_pack
from tests.training.miniature import SIZE, studies
from updp.core.record import Study
from updp.domains.chest.labels import FINDINGS
from updp.methods import LEARNED, make_method, method_info
from updp.methods.adversaries import Game, Pairs
from updp.methods.prichexy.training import MU
from updp.methods.privdiff.training import SHARES, draw_shown
from updp.methods.stage import linkage
from updp.methods.train import UnknownRecipe, train_method
from updp.models import PackError, load_pack
from updp.models.pack import write_pack_toml
from updp.training.corpus import prepare_corpus
from updp.training.loop import TrainingError, read_checkpoint

#: Learned methods of films; that of faces has tests of its own.
OF_FILMS = [name for name in LEARNED if "chest" in method_info(name).domains]

SMALL = {
    "privdiff": {"bank": 2},
    "prichexy": {"width": 8, "pools": 2, "frozen": 16},
    "privacy-net": {"width": 8, "pools": 2, "frozen": 16},
    "dcm": {"channels": 3, "hidden": 8, "tokens": 2, "films": 16},
}
SETTINGS = {"steps": 2, "batch": 4, "warmup": 1}


def quiet(_):
    pass


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    folder = tiny_pack(tmp_path_factory.mktemp("packs") / "tiny", labels=FINDINGS)
    info = tomllib.loads((folder / "pack.toml").read_text())
    del info["sha256"]
    weights = load_file(folder / "generator.safetensors")
    weights["last.weight"] = torch.randn(weights["last.weight"].shape).half()  # untrained, it would say nothing at all
    save_file(weights, folder / "generator.safetensors")
    write_pack_toml(folder, info | {"size": SIZE})
    return folder


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return prepare_corpus(studies(), tmp_path_factory.mktemp("corpus"), SIZE)


def train(name, pack, corpus, out, **more):
    options = {"settings": SETTINGS, "model": SMALL[name], "corpus": corpus, "pack": pack, "say": quiet}
    return train_method(name, [], out, **(options | more))


@pytest.fixture(scope="module")
def trained(pack, corpus, tmp_path_factory):
    """All four into one pack of weights, one after another."""
    out = tmp_path_factory.mktemp("out") / "mini-methods"
    for name in OF_FILMS:
        train(name, pack, corpus, out)
    return out


def test_one_pack_gathers_every_method_and_each_makes_films(trained, pack):
    info = load_pack(trained).info
    assert set(info["methods"]) == set(OF_FILMS)
    assert all(entry["splits"]["train"]["patients"] == 18 for entry in info["methods"].values())
    assert "| privdiff | 2 | " in (trained / "README.md").read_text()
    study = Study("f", "s", "p", pixels=next(iter(studies()))[1].pixels, view="PA", labels=())
    for name in OF_FILMS:
        made = make_method(name, {"pack": str(pack), "weights": str(trained)})
        assert made.deidentify([study], None, [np.random.default_rng(0)])[0].pixels.shape == (SIZE, SIZE)


def test_weights_name_the_models_they_learned_with(trained, pack):
    bound = load_pack(trained).info["methods"]["privdiff"]["trained_with"]
    files = load_pack(pack).info["sha256"]
    assert bound == {role: files[f"{role}.safetensors"] for role in ("autoencoder", "identity", "generator")}


def test_what_a_method_left_of_the_generator_is_not_written_again(trained, pack):
    from safetensors.torch import load_file

    held = set(load_file(trained / "privdiff.safetensors"))
    network = make_method("privdiff", {"pack": str(pack), "weights": str(trained)}).network
    unet = load_pack(pack).generator.unet.state_dict()
    left_out = set(network.state_dict()) - held
    assert any(".cross_attn." in name for name in held)
    assert "unet.first.weight" in left_out
    assert all(network.state_dict()[name].equal(unet[name.removeprefix("unet.")]) for name in left_out)


def test_a_damaged_weights_file_is_refused(trained, pack, tmp_path):
    import shutil

    copy = tmp_path / "mini-methods"
    shutil.copytree(trained, copy)
    (copy / "dcm.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(PackError, match="SHA-256"):
        make_method("dcm", {"pack": str(pack), "weights": str(copy)}).network  # noqa: B018


@pytest.mark.parametrize("name", OF_FILMS)
def test_a_training_that_was_stopped_goes_on_and_ends_where_an_unbroken_one_does(name, trained, pack, corpus, tmp_path):
    for _ in range(SETTINGS["steps"]):
        broken = train(name, pack, corpus, tmp_path / "b", stop_after=0.0)
    assert read_checkpoint(tmp_path / "b.run" / "stages" / f"{name}.checkpoint")["step"] == SETTINGS["steps"]
    one, other = ((folder / f"{name}.safetensors").read_bytes() for folder in (trained, broken))
    assert one == other


@pytest.mark.parametrize("name", ["prichexy", "privacy-net"])
def test_single_films_give_no_pair_to_learn_from(name, pack, tmp_path):
    lonely = prepare_corpus(studies(films=1), tmp_path / "corpus", SIZE)
    with pytest.raises(TrainingError, match="no train patient has two films"):
        train(name, pack, lonely, tmp_path / "out")


@pytest.mark.parametrize("name", ["privdiff", "dcm"])
def test_films_without_labels_have_no_diagnosis_to_learn(name, pack, tmp_path):
    unlabelled = prepare_corpus(studies(labelled=False), tmp_path / "corpus", SIZE)
    with pytest.raises(TrainingError, match="labelled"):
        train(name, pack, unlabelled, tmp_path / "out")


def test_sources_that_tell_neither_age_nor_sex_say_so_and_train(pack, corpus, tmp_path):
    said = []
    train("privdiff", pack, corpus, tmp_path / "out", say=said.append)
    assert any("neither age nor sex" in line for line in said)


def test_the_printed_loss_is_a_switch_of_the_recipe(pack, corpus, tmp_path):
    train("privdiff", pack, corpus, tmp_path / "out", model={"bank": 2, "spg": "literal"})
    with pytest.raises(TrainingError, match="guidance, literal"):
        train("privdiff", pack, corpus, tmp_path / "other", model={"spg": "both"})
    with pytest.raises(TrainingError, match="attention, all"):
        train("privdiff", pack, corpus, tmp_path / "other", model={"learn": "nothing"})


def test_by_default_the_body_of_the_generator_stays_as_it_is(pack, corpus, tmp_path):
    out = train("privdiff", pack, corpus, tmp_path / "out")
    moved = {name.removeprefix("unet.") for name in load_file(out / "privdiff.safetensors") if name.startswith("unet.")}
    assert moved
    assert all(".cross_attn." in name or name.startswith("sentence.") for name in moved)


def test_the_command_line_says_which_methods_learn(tmp_path):
    from typer.testing import CliRunner

    from updp.cli.app import app

    result = CliRunner().invoke(app, ["train", "method", "blur", "--data", str(tmp_path), "--out", str(tmp_path / "o")])
    assert isinstance(result.exception, UnknownRecipe)


def test_a_method_that_does_not_learn_is_named(pack, corpus, tmp_path):
    with pytest.raises(UnknownRecipe, match=r"blur.*privdiff"):
        train_method("blur", [], tmp_path / "out", corpus=corpus, pack=pack)


def test_settings_the_schedule_does_not_have_are_refused(pack, corpus, tmp_path):
    with pytest.raises(UnknownRecipe, match="epochs"):
        train("prichexy", pack, corpus, tmp_path / "out", settings={"epochs": 3})


def test_pairs_are_half_of_one_patient_and_half_of_two(corpus):
    first, second, same = Pairs(corpus).draw(64, np.random.default_rng(0))
    assert (corpus.patients[first] == corpus.patients[second]).tolist() == same.bool().tolist()
    assert same.sum() == 32
    assert (first != second).all()
    assert set(corpus.splits[first]) == {"train"}


def test_only_the_player_whose_turn_it_is_learns(pack):
    game = Game(torch.nn.Linear(2, 2), load_pack(pack), frozen=16)
    frozen = {name for name, p in game.named_parameters() if not p.requires_grad}
    assert any("backbone" in name for name in frozen)
    for opponents in (True, False, True):
        game.turn(opponents)
        learning = {name.split(".")[0] for name, p in game.named_parameters() if p.requires_grad}
        assert learning == ({"opponent", "ally"} if opponents else {"method"})
        assert not frozen & {name for name, p in game.named_parameters() if p.requires_grad}


def test_opponent_and_ally_learn_whole_unless_they_are_frozen(pack):
    game = Game(torch.nn.Linear(2, 2), load_pack(pack))
    game.turn(True)
    assert all(p.requires_grad for part in (game.opponent, game.ally) for p in part.parameters())


@pytest.mark.parametrize(("name", "pairs"), [("prichexy", 20_000), ("privacy-net", 20_000), ("privdiff", 200_000)])
def test_recipes_are_as_long_as_it_takes_to_judge_a_method(name, pairs):
    config = import_module(LEARNED[name].split(":")[0]).CONFIG
    turns = 2 / 3 if name != "privdiff" else 1.0  # the opponents have every third step
    assert config.steps * config.batch * turns >= pairs


def test_prichexy_learns_a_field_at_the_films_own_size_for_every_published_mu(trained, pack):
    entry = load_pack(trained).info["methods"]["prichexy"]
    assert entry["config"]["side"] == SIZE
    film = torch.rand(1, 1, SIZE, SIZE)
    field = make_method("prichexy", {"pack": str(pack), "weights": str(trained)}).network(film)
    assert field.shape == (1, 2, SIZE, SIZE)
    shifted = field[..., ::4, ::4] - field[..., 1::4, 1::4]
    assert shifted.abs().max() > 0  # neighbours in one place of the U-Net move apart
    assert MU[0] <= 0.001
    assert MU[1] >= 0.03


def test_the_code_of_dcm_is_nested_and_its_rate_is_a_knob(trained, pack):
    on = {"pack": str(pack), "weights": str(trained)}
    film = torch.from_numpy(next(iter(studies()))[1].pixels)[None, None].float()
    whole = make_method("dcm", on)
    codes = [make_method("dcm", on | {"rate": rate}).code(film) for rate in (1, 2, 3)]
    assert torch.equal(codes[-1], whole.code(film))
    for rate, code in enumerate(codes, 1):
        assert torch.equal(code[:, :rate], codes[-1][:, :rate])
        assert (code[:, rate:] == 0).all()
        assert torch.equal(code, code.round())
    lengths = [float(make_method("dcm", on | {"rate": rate}).bits(film)) for rate in (1, 2, 3)]
    assert 0 < lengths[0] < lengths[1] < lengths[2]
    with pytest.raises(PackError, match="3 channels"):
        make_method("dcm", on | {"rate": 4}).code(film)


def test_privacy_net_segments_what_it_encodes(trained, pack):
    method = make_method("privacy-net", {"pack": str(pack), "weights": str(trained)})
    seen = method.lungs(torch.rand(2, 1, SIZE, SIZE))
    assert seen.shape == (2, 1, 64, 64)
    assert 0 <= float(seen.min()) <= float(seen.max()) <= 1


def test_weights_are_bound_to_the_networks_that_their_films_hang_on(trained, pack):
    bound = load_pack(trained).info["methods"]
    assert set(bound["dcm"]["trained_with"]) == {"autoencoder", "identity", "vlm", "generator"}
    # A classifier is where their ally begins, and no film of theirs hangs on it: another one makes no other weights.
    assert set(bound["prichexy"]["trained_with"]) == {"identity"}
    assert set(bound["privacy-net"]["trained_with"]) == {"identity"}


def test_every_branch_is_told_in_its_share():
    heard = draw_shown(4000, np.random.default_rng(0))
    alone = (heard == torch.tensor([False, False, False, True])).all(1).float().mean()
    assert alone == pytest.approx(SHARES["diagnosis"] + 0.2 / 16, abs=0.03)


def test_linkage_is_one_for_films_that_stay_themselves_and_half_for_constants():
    patients = np.repeat(np.arange(20), 3).astype(str)
    codes = np.eye(20, dtype=np.float32)[np.repeat(np.arange(20), 3)]
    assert linkage(codes, codes, patients) == 1
    assert linkage(np.ones_like(codes), codes, patients) == pytest.approx(0.5)
