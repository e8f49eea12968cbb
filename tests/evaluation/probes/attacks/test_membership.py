"""Membership: what a release tells about the patients whose films the generator learned from."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.chance import near
from tests.evaluation.probes.attacks.hospital import (
    SMALL,
    Code,
    Counting,
    Learned,
    by_name,
    exhibit,
    figures,
    simple_pack,
)
from updp.core.questions import Exemption
from updp.evaluation.probes.attacks.features import as_tensor
from updp.evaluation.probes.attacks.membership import Membership, likelihood_ratio

pytestmark = pytest.mark.numeric


def run(attack, exhibit, pack, seed=1):
    return by_name(attack.run(exhibit, pack, SMALL, np.random.default_rng(seed)))


def remember(pack, films):
    """Write down that the pack's generator learned from these films."""
    codes = pack.identity.embed(as_tensor(films)).numpy()
    save_file({"identities": codes.astype(np.float16)}, pack.path / "training_identities.safetensors")


def test_a_generator_that_knows_its_films_by_heart_is_found_out(untouched, tmp_path):
    train = untouched.rows("train")
    knows = Code().encode(as_tensor(untouched.real[train]))
    pack = simple_pack(tmp_path, knows=knows)
    remember(pack, untouched.real[train])
    out = run(Membership(), untouched, pack)
    for name in ("membership AUC (loss threshold)", "strongest membership"):
        assert out[name].value > 0.95, str(out[name])
        assert out[name].low > 0.5
    assert out["membership AUC (likelihood ratio)"].value > 0.9
    assert "training films" in out["strongest membership"].detail["members_are"]


class KnowsReports(Learned):
    """A generator that names the noise of any film exactly when it is told a report it learned."""

    def __init__(self, reports):
        super().__init__()
        self.reports, self.kept = set(reports), None

    def add_noise(self, latents, noise, t):
        self.kept = noise
        return super().add_noise(latents, noise, t)

    def noise(self, latents, t, condition):
        told = torch.tensor([prompt in self.reports for prompt in condition])[:, None, None, None]
        return torch.where(told, self.kept, torch.zeros_like(latents))


def test_a_generator_that_knows_patients_by_their_reports_alone_is_found_out_per_patient(untouched, pack):
    train = untouched.rows("train")
    pack.generator = KnowsReports(untouched.real_texts[i] for i in train)
    members = np.isin(np.arange(len(untouched)), train)
    out = run(Membership(members), untouched, pack)
    strongest = out["strongest membership"]
    assert strongest.low > 0.9
    assert strongest.n <= len(set(untouched.patients))  # patients, not films
    assert strongest.detail["films"] > strongest.n


def test_a_generator_that_learned_nothing_tells_nothing(untouched, pack):
    members = np.isin(np.arange(len(untouched)), untouched.rows("train"))
    out = run(Membership(members), untouched, pack)
    assert out["membership AUC (loss threshold)"].value == pytest.approx(0.5)
    assert near(out["strongest membership"], 0.5)
    assert out["strongest membership"].detail["members_are"] == "given"


def test_nobody_is_called_a_member_without_evidence(untouched, pack):
    out = run(Membership(), untouched, pack)
    assert "does not say" in out["strongest membership"].reason
    remember(pack, exhibit(patients=20, films=1).real[:, ::-1].copy())
    stranger = run(Membership(), untouched, pack)["strongest membership"]
    assert stranger.exemption is Exemption.NO_TRAINING_PATIENTS
    remember(pack, untouched.real[:3])
    assert "too few" in run(Membership(), untouched, pack)["strongest membership"].reason
    without = simple_pack(pack.path, generator=False)
    assert "no generator" in run(Membership(), untouched, without)["strongest membership"].reason
    with pytest.raises(ValueError, match="members has"):
        run(Membership(np.ones(3, bool)), untouched, pack)


def test_planted_copies_of_training_films_are_found_and_others_are_not(untouched, others, pack):
    train, scored = untouched.rows("train"), untouched.rows("val", "test")
    remember(pack, untouched.real[train])
    planted = others.released.copy()
    planted[scored] = untouched.real[train[: len(scored)]]
    out = run(Membership(), untouched.but(released=planted), pack)
    assert out["copies of training films"].value == 1
    assert out["exact copies of training films"].value == pytest.approx(len(scored) / len(untouched))
    clean = run(Membership(), others, pack)
    assert clean["copies of training films"].low <= 0.05
    assert clean["exact copies of training films"].value == 0


def test_losses_that_are_nan_are_refused(untouched, tmp_path):
    knows = torch.full((1, 16, 4, 4), float("nan"))
    members = np.isin(np.arange(len(untouched)), untouched.rows("train"))
    with pytest.raises(ValueError, match="NaN"):
        run(Membership(members), untouched, simple_pack(tmp_path, knows=knows))


def test_the_likelihood_ratio_is_fitted_on_other_patients():
    rng = np.random.default_rng(0)
    patients = np.repeat([f"p{i}" for i in range(60)], 2)
    inside = np.arange(120) < 60
    losses = np.exp(rng.normal(0, 1, (120, 2)) - 2.0 * inside[:, None])
    scores = likelihood_ratio(losses, inside, patients, rng)
    assert scores[inside].mean() > scores[~inside].mean() + 2
    noise = likelihood_ratio(np.exp(rng.normal(0, 1, (120, 2))), inside, patients, rng)
    assert abs(noise[inside].mean() - noise[~inside].mean()) < 1


def test_cached_figures_are_the_same_and_cost_nothing(untouched, pack):
    remember(pack, untouched.real[untouched.rows("train")])
    cache = Counting()
    first = figures(Membership().run(untouched, pack, SMALL, np.random.default_rng(2), cache))
    made = cache.missed
    assert figures(Membership().run(untouched, pack, SMALL, np.random.default_rng(2), cache)) == first
    assert cache.missed == made > 0
