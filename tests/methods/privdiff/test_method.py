"""PrivDiff-Net: guidance as arithmetic, the linear toy that decides between its two readings, and the method."""

import numpy as np
import pytest
import torch

from tests.methods.tiny_weights import films, streams, studies
from updp.core.reasons import Reason
from updp.methods import UnknownMethod, make_method
from updp.methods.privdiff.method import AGES, Denoiser, PrivDiffNet, age_group, attributes
from updp.methods.privdiff.spg import BRANCHES, coefficients, guided
from updp.models import PackError

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(("w_d", "w_s"), [(2.0, (1.0,)), (3.0, (-0.5, 0.5)), (7.5, (1.0, 1.0, 1.0)), (0.0, (0.0,))])
def test_guidance_weights_sum_to_one(w_d, w_s):
    assert sum(coefficients(w_d, w_s)) == pytest.approx(1)


def parts(count, seed=0):
    return list(torch.randn(count, 3, 4, 8, 8, generator=torch.Generator().manual_seed(seed)))


def test_branches_that_agree_are_left_as_they_are():
    one = parts(1)[0]
    assert torch.allclose(guided([one] * 4, 3.0, (0.5, 0.5)), one, atol=1e-5)


def test_guidance_without_weights_is_the_unconditional_and_with_one_the_diagnosis():
    none, diagnosis, sensitive = parts(3)
    assert torch.allclose(guided([none, diagnosis, sensitive], 1.0, (0.0,), rescale=False), diagnosis, atol=1e-6)
    assert torch.allclose(guided([none, diagnosis, sensitive], 0.0, (0.0,), rescale=False), none, atol=1e-6)


def test_rescaled_guidance_is_never_larger_than_the_diagnosis_branch():
    branches = parts(4)
    held, free = (guided(branches, 7.5, (1.0, 1.0), rescale=r).flatten(1).norm(dim=1) for r in (True, False))
    limit = branches[1].flatten(1).norm(dim=1)
    assert (held <= limit * 1.0001).all()
    assert (free > limit).all()


def test_every_branch_needs_its_weight():
    with pytest.raises(ValueError, match="3 branches but 4 weights"):
        guided(parts(3), 2.0, (0.5, 0.5))


def test_on_the_linear_toy_the_printed_loss_keeps_the_attribute_and_guidance_at_sampling_drops_it():
    # A film is diagnosis + attribute + detail; each branch is linear in the noisy film and in what it is told.
    rng = np.random.default_rng(0)
    n, signal, sigma, w_d, w_s = 40_000, 0.6, 0.8, 2.0, 1.0
    d, s, detail, noise = rng.standard_normal((4, n))
    film = d + s + detail
    z = signal * film + sigma * noise

    def corr(a, b):
        return float(np.corrcoef(a, b)[0, 1])

    def solve(columns, target):
        return np.linalg.lstsq(np.stack(columns, 1), target, rcond=None)[0]

    c_none, c_diag, c_s = coefficients(w_d, (w_s,))
    joint = solve([c_none * z, c_diag * z, c_diag * d, c_s * z, c_s * s], noise)
    printed = guided(
        [torch.tensor(joint[0] * z), torch.tensor(joint[1] * z + joint[2] * d),
         torch.tensor(joint[3] * z + joint[4] * s)],
        w_d, (w_s,), rescale=False,
    ).numpy()  # fmt: skip
    own = [solve([z], noise), solve([z, d], noise), solve([z, s], noise)]
    separate = guided(
        [torch.tensor(own[0][0] * z), torch.tensor(own[1][0] * z + own[1][1] * d),
         torch.tensor(own[2][0] * z + own[2][1] * s)],
        w_d, (w_s,), rescale=False,
    ).numpy()  # fmt: skip
    before = corr(z, s)
    assert corr((z - sigma * printed) / signal, s) > before + 0.05  # it restores what it was to remove
    assert abs(corr((z - sigma * separate) / signal, s)) < before - 0.2
    # The sensitive branch of the printed loss learned the other sign, so that the minus in front of it adds.
    assert joint[4] * own[2][1] < 0


# -- the method ------------------------------------------------------------------------------------------------------


def method(on, **more):
    return PrivDiffNet(**{**on, "steps": 3, **more})


ABLATION = {
    "vanilla": {"sas": "off", "spg": False},
    "sas": {"sas": "feature", "spg": False},
    "sas as printed": {"sas": "literal", "spg": False},
    "spg": {"sas": "off", "spg": True},
    "both": {"sas": "feature", "spg": True},
}


def test_every_row_of_the_ablation_makes_films_of_its_own(on):
    made = {}
    for name, switches in ABLATION.items():
        out = method(on, **switches).deidentify(studies(2, labels=("Effusion", "Nodule")), 0.7, streams(2))
        made[name] = np.stack([one.pixels for one in out])
        assert made[name].shape == (2, 256, 256)
        assert 0 <= made[name].min() <= made[name].max() <= 1
        assert out[0].decided == {**switches, "steps": 3}
    names = list(made)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            assert np.abs(made[a] - made[b]).max() > 1e-4, (a, b)


def test_strength_runs_from_the_autoencoder_alone_to_noise(on):
    made = method(on, sas="off", spg=False)
    kept = [
        np.mean([np.abs(one.pixels - base.pixels).mean() for one, base in zip(out, first, strict=True)])
        for first in [made.deidentify(studies(2), 0.0, streams(2))]
        for out in (made.deidentify(studies(2), s, streams(2)) for s in (0.0, 0.1, 0.5, 1.0))
    ]
    assert kept[0] == 0
    assert kept == sorted(kept)
    with torch.no_grad():
        coder = made.pack.autoencoder
        again = coder.decode(coder.encode(films(studies(1))))[0, 0].numpy()
    assert np.abs(made.deidentify(studies(1), 0.0, streams(1))[0].pixels - again).max() < 1e-6


@pytest.mark.parametrize("switches", ABLATION.values(), ids=list(ABLATION))
def test_at_full_strength_two_patients_with_one_diagnosis_get_the_same_film_of_one_stream(on, switches):
    made = method(on, **switches, **({"sensitive": "faded"} if switches["spg"] else {}))
    assert made.reads_pixels(1.0) is False
    one = made.deidentify(studies(1), 1.0, streams(1))[0].pixels
    other = made.deidentify(studies(1, first=7, age=80, sex="M"), 1.0, streams(1))[0].pixels
    assert (one == other).all()
    assert (one != made.deidentify(studies(1), 1.0, streams(1, seed=9))[0].pixels).any()
    assert (one != made.deidentify(studies(1, labels=("Nodule",)), 1.0, streams(1))[0].pixels).any()


def test_as_printed_guidance_is_away_from_the_patient_at_full_strength_too(on):
    made = method(on)
    assert made.reads_pixels(1.0) is True
    one, other = (made.deidentify(studies(1, first=n), 1.0, streams(1))[0].pixels for n in (0, 7))
    assert (one != other).any()
    plain = method(on, w_sensitive=0.0)
    assert plain.reads_pixels(1.0) is False
    assert (plain.deidentify(studies(1), 1.0, streams(1))[0].pixels != one).any()


def test_below_full_strength_the_patient_still_shows(on):
    made = method(on)
    one, other = (made.deidentify(studies(1, first=n), 0.9, streams(1))[0].pixels for n in (0, 7))
    assert (one != other).any()


def test_a_study_gets_the_same_film_in_any_batch(on):
    together = method(on).deidentify(studies(3), 0.5, streams(3))
    alone = method(on).deidentify(studies(3)[1:2], 0.5, streams(3)[1:2])
    assert np.abs(together[1].pixels - alone[0].pixels).max() < 1e-4


def test_four_branches_take_one_pass_of_the_network_a_step(on):
    made = method(on)
    seen = []
    made.network.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    made.deidentify(studies(2), 0.9, streams(2))
    assert seen == [8, 8, 8]
    assert len(BRANCHES) == 4


@pytest.mark.parametrize(("age", "group"), [(0, 0), (39, 0), (40, 1), (74, 2), (75, 3), (90, 3), (None, 4), (-1, 4)])
def test_ages_fall_into_groups_and_unknown_ones_into_their_own(age, group):
    assert age_group(age) == group
    assert len(AGES) + 2 == 5


def test_patients_without_age_or_sex_or_labels_are_not_guessed(on):
    batch = [*studies(1, age=None, sex=None), *studies(1, first=1, labels=None), *studies(1, first=2, labels=())]
    who = attributes(batch, torch.zeros(3, 16), ("Effusion", "Nodule"))
    assert who.age.tolist() == [4, 1, 1]
    assert who.sex.tolist() == [2, 0, 0]
    assert who.known.tolist() == [True, False, True]
    assert all(one.pixels is not None for one in method(on).deidentify(batch, 0.5, streams(3)))


def test_a_diagnosis_outside_the_label_set_is_not_read_as_none_found(on):
    batch = [*studies(1, labels=("Kuru",)), *studies(1, first=1, labels=("Kuru", "Nodule"))]
    who = attributes(batch, torch.zeros(2, 16), ("Effusion", "Nodule"))
    assert who.known.tolist() == [False, True]
    assert who.findings.tolist() == [[False, False], [False, True]]
    assert all(one.pixels is not None for one in method(on).deidentify(batch, 0.5, streams(2)))


def test_a_branch_hears_its_own_tokens_and_no_others():
    torch.manual_seed(0)
    network = Denoiser({"channels": 4, "widths": [32, 32], "blocks": 1, "context": 32}, 16, ("A", "B"), bank=2)
    who = attributes(studies(1, labels=("B",)), torch.zeros(1, 16), ("A", "B"))
    heard = {
        name: network.condition(who, torch.tensor([[part in told for part in ("identity", "age", "sex", "diagnosis")]]))
        .mask[0].nonzero()[:, 0].tolist()
        for name, told in BRANCHES.items()
    }  # fmt: skip
    assert heard == {"none": [0], "identity": [1, 2], "demographics": [3, 4, 5, 6], "diagnosis": [9, 10]}


@pytest.mark.parametrize("options", [{"sas": "some"}, {"steps": 0}, {"ridge": 0.0}, {"rank": 0}])
def test_settings_without_meaning_are_refused(on, options):
    with pytest.raises(UnknownMethod, match="privdiff"):
        make_method("privdiff", {**on, **options})


@pytest.mark.parametrize("strength", [-0.1, 1.5])
def test_strength_outside_its_range_is_an_error(on, strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        method(on).deidentify(studies(1), strength, streams(1))


def test_a_lateral_film_is_kept_back(on):
    assert method(on).deidentify(studies(1, view="LATERAL"), 0.5, streams(1))[0].refused == Reason.FILM_NOT_FRONTAL


def test_a_stream_is_needed_for_every_study(on):
    with pytest.raises(ValueError, match="2 studies but 1 streams"):
        method(on).deidentify(studies(2), 0.5, streams(1))


def test_weights_of_another_pack_are_refused_before_any_film(on, tmp_path):
    from tests.methods.tiny import tiny_pack

    other = tiny_pack(tmp_path / "other")
    info = (other / "pack.toml").read_text()
    digest = next(line for line in info.splitlines() if line.startswith('"identity.safetensors"')).split('"')[3]
    (other / "pack.toml").write_text(info.replace(digest, "0" * 64))
    with pytest.raises(PackError, match=r"another identity .* train them again"):
        PrivDiffNet(pack=str(other), weights=on["weights"])


def test_a_pack_without_weights_of_the_method_names_the_command(on):
    with pytest.raises(PackError, match="updp train method privdiff"):
        PrivDiffNet(pack=on["pack"], weights=on["pack"])
