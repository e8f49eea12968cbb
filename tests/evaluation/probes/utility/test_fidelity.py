"""Released films and reports beside the real ones: unchanged, noise, shuffled, and what cannot be measured."""

from __future__ import annotations

import numpy as np
import pytest

from tests.evaluation.probes.utility import small
from updp.core.cache import MemoryCache
from updp.evaluation.probes import PROBES, probes
from updp.evaluation.probes.base import Budget
from updp.evaluation.probes.utility.encoding import encode
from updp.evaluation.probes.utility.fidelity import Images, ImageText

pytestmark = pytest.mark.numeric

QUICK = Budget.quick().but(draws=100, threads=1)
SCORE = "image–text score, small vlm"


def run(experiment, exhibit, pack, cache=None, seed=0):
    found = experiment.run(exhibit, pack, QUICK, np.random.default_rng(seed), cache)
    assert len({m.name for m in found}) == len(found)
    assert all(m.question == "utility" for m in found)
    return {m.name: m for m in found}


def test_unchanged_films_are_equal_and_as_far_as_nothing(pack, cache):
    found = run(Images(), small.exhibit(), pack, cache)
    assert found["SSIM"].value == pytest.approx(1)
    assert found["FD-classifier"].value == pytest.approx(0, abs=1e-6)
    assert found["precision, classifier, k=5"].value == 1
    assert found["coverage, classifier, k=5"].value == 1
    assert not found["MS-SSIM"].measured  # films of 64 pixels have no five scales
    assert found["LPIPS-alex"].reason == "its weights were not given"


def test_noise_is_no_chest_film(pack, cache):
    shown = small.exhibit()
    found = run(Images(), shown.but(released=small.noise(shown)), pack, cache)
    assert found["SSIM"].value < 0.2
    assert found["FD-classifier"].low > found["FD-classifier"].detail["halves_of_real"]
    assert found["precision, classifier, k=5"].value < 0.1


def test_lpips_without_its_file_is_missing_and_the_rest_is_there(pack, cache, tmp_path):
    found = run(Images(lpips=tmp_path / "absent.pth"), small.exhibit(), pack, cache)
    assert not found["LPIPS-alex"].measured
    assert found["PSNR"].measured


def test_one_patient_is_too_few(pack):
    shown = small.exhibit()
    found = run(Images(), shown.take(np.flatnonzero(shown.patients == shown.patients[0])), pack)
    assert not any(m.measured for m in found.values())


def test_a_second_look_finds_the_films_kept(pack):
    cache, shown = MemoryCache(), small.exhibit(patients=6)
    first = encode(shown.real, pack, cache)
    kept = len(cache._held)
    again = encode(shown.real.copy(), pack, cache)
    assert len(cache._held) == kept == 1
    assert np.array_equal(first.features, again.features)
    encode(shown.real[1:], pack, cache)
    assert len(cache._held) == 2
    with pytest.raises(ValueError, match="no films"):
        encode(shown.real[:0], pack, None)


def test_films_and_reports_of_an_unchanged_release_agree_as_the_real_ones_do(pack, cache):
    found = run(ImageText(), small.exhibit(), pack, cache)
    assert found[f"{SCORE}: real"].value == found[f"{SCORE}: released"].value
    assert found[f"change of {SCORE}: released minus real"].value == 0


def test_without_reports_there_is_no_image_text_score(pack):
    shown = small.exhibit()
    found = run(ImageText(), shown.but(released_texts=["  "] * len(shown)), pack)
    assert not any(m.measured for m in found.values())


def test_experiments_come_in_one_order_and_by_name():
    asked = [name for name, probe in PROBES.members() if not probe.domains and name != "other judges"]
    assert [p.name for p in probes()] == asked  # a certificate asks other judges too
    assert [p.name for p in probes(["images", "diagnosis"])] == ["diagnosis", "images"]
    with pytest.raises(ValueError, match="no probe 'imags'; did you mean 'images'"):
        probes(["imags"])
