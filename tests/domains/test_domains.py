"""A domain is one file: a toy domain of colour images goes through the whole product."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

import updp
from tests.conftest import PLAIN, reasons
from tests.domains import toy
from updp.core.policy import BadPolicy, Policy
from updp.core.registry import UnknownName
from updp.domains import DOMAINS
from updp.evaluation.probes import PROBES
from updp.methods import UnknownMethod
from updp.release import manifest

COLOUR = PLAIN + "[source]\ndomain = 'swatch'\n"


@pytest.fixture
def swatches(tmp_path):
    """An export of colour images with two labels, and the domain that knows them."""
    DOMAINS.add("swatch", toy.SWATCH)
    PROBES.add("mean colour", toy.MeanColour)
    yield toy.export(tmp_path / "export")
    DOMAINS.remove("swatch")
    PROBES.remove("mean colour")


def colour_policy(**method: object) -> Policy:
    settings = Policy.parse(COLOUR)
    release = settings.release.model_copy(update={"attributes": ("labels",)})
    return settings.model_copy(update={"release": release, "method": settings.method.model_copy(update=method)})


@pytest.mark.parametrize("method", ["keep", "blur", "pixelate", "dp-pix"])
def test_pixel_methods_serve_colour_images_of_any_domain(swatches, tmp_path, key, method):
    outcome = updp.deidentify(swatches, tmp_path / "out", key=key, policy=colour_policy(name=method), workers=1)
    assert outcome.released == toy.COUNT
    assert reasons(tmp_path / "out") == {}
    rows = list(manifest.read(outcome.folder))
    assert {tuple(row["labels"]) for row in rows} == {("warm",), ("cold",)}
    assert not any(row["has_report"] for row in rows)
    films = [np.asarray(Image.open(outcome.folder / row["file_name"])) for row in rows]
    assert {film.shape for film in films} == {(64, 64, 3)}
    for film, row in zip(films, rows, strict=True):
        if method in ("keep", "blur"):
            assert (film[..., 0].mean() > film[..., 2].mean()) == (row["labels"] == ["warm"])
    assert updp.verify(outcome.folder, accept_unknown_signer=True).intact


@pytest.mark.parametrize(("method", "outcome"), [("keep", "failed"), ("dp-pix", "held")])
def test_the_domains_own_attacker_and_question_decide_about_its_release(swatches, tmp_path, key, method, outcome):
    policy = colour_policy(name=method, options={"epsilon": 0.001} if method == "dp-pix" else {})
    # Means of noise link at 0.5 ± 0.08 with so many patients, those of the images themselves at nearly 1.
    limits = policy.gate.model_copy(update={"max_film_linkage": 0.9, "max_film_delta": 0.4})
    policy = policy.model_copy(update={"gate": limits})
    made = updp.deidentify(swatches, tmp_path / "out", key=key, policy=policy, workers=1)
    found = updp.evaluate(made.folder, swatches, key=key)
    assert [m.metric for m in found.measurements] == ["film linkage", "film linkage beyond twins"]
    asked = [check for check in found.verdict.checks if check.question]
    assert [(check.question, check.outcome.value) for check in asked] == [("film", outcome)]
    assert found.folder.name == ("blocked" if outcome == "failed" else "release")
    assert found.facts["evaluation"]["pack"] is None
    assert "data:image/jpeg" in found.report.read_text()
    checked = updp.verify(found.folder, accept_unknown_signer=True)
    assert checked.status == ("blocked" if outcome == "failed" else "passed")
    assert [check.name for check in checked.checks if check.outcome.value == "failed"] == (
        ["gate"] if outcome == "failed" else []
    )


def test_a_release_says_of_which_domain_it_is(swatches, tmp_path, key):
    outcome = updp.deidentify(swatches, tmp_path / "out", key=key, policy=colour_policy(), workers=1)
    assert Policy.load(outcome.folder / "policy.toml").source.domain == "swatch"
    assert "A de-identified set of colour swatches, made with updp" in (outcome.folder / "README.md").read_text()
    assert "De-identified colour swatches, " in (outcome.folder / "croissant.json").read_text()
    source = updp.open_source(outcome.folder)
    assert source.domain is toy.SWATCH
    assert source.load(next(iter(source))).pixels.shape == (64, 64, 3)


def test_what_a_domain_does_not_have_is_refused_before_anything_is_read(swatches, tmp_path, key):
    with pytest.raises(BadPolicy, match="no attribute 'view'; there are: labels"):
        updp.deidentify(swatches, tmp_path / "out", key=key, policy=Policy.parse(COLOUR))
    with pytest.raises(UnknownMethod, match="'updp' does not serve the domain 'swatch'; those that do: keep, blur"):
        updp.deidentify(swatches, tmp_path / "out", key=key, policy=colour_policy(name="updp"))


def test_an_unknown_domain_is_refused_with_the_nearest(swatches, tmp_path, key):
    with pytest.raises(UnknownName, match=r"no domain 'swatsh'; did you mean 'swatch'\? there are: chest"):
        updp.open_source(swatches, domain="swatsh")


def test_a_record_the_domain_refuses_is_quarantined_with_its_reason(swatches, tmp_path, key):
    Image.fromarray(np.zeros((80, 80), np.uint8) + np.arange(80, dtype=np.uint8)).save(swatches / "0.png")
    toy.draw(1, wide=True).save(swatches / "1.png")
    updp.deidentify(swatches, tmp_path / "out", key=key, policy=colour_policy(), workers=1)
    assert reasons(tmp_path / "out") == {"image-not-colour": 1, "not-of-this-domain": 1}


def test_reports_of_a_domain_without_reports_stay_behind(swatches, tmp_path, key):
    lines = (swatches / "manifest.csv").read_text().splitlines()
    text = [f"{lines[0]},findings", *(f"{line},Seen by Dr. Zanthora." for line in lines[1:])]
    (swatches / "manifest.csv").write_text("\n".join(text) + "\n")
    outcome = updp.deidentify(swatches, tmp_path / "out", key=key, policy=colour_policy(), workers=1)
    assert outcome.released == toy.COUNT
    assert not (outcome.folder / "reports").exists()


def test_regions_and_landmarks_move_with_the_image(swatches, key):
    from updp.pipeline.stations import Line, Square

    source = updp.open_source(swatches, domain="swatch")
    study = source.load(next(iter(source)))
    wide = study.but(
        pixels=np.zeros((100, 200, 3), np.float32), regions={"patch": (0.25, 0.0, 0.75, 1.0)}, landmarks={"dot": (0, 0)}
    )
    for fit, patch, dot in (
        ("crop", (0.0, 0.0, 1.0, 1.0), (-0.5, 0.0)),
        ("pad", (0.25, 0.25, 0.75, 0.75), (0.0, 0.25)),
        ("stretch", (0.25, 0.0, 0.75, 1.0), (0, 0)),
    ):
        settings = Policy.parse(f"[image]\nsize = 64\nfit = '{fit}'\n")
        moved = Square(Line(source, settings, key, lambda: None))(wide)
        assert moved.pixels.shape == (64, 64, 3)
        assert moved.regions["patch"] == pytest.approx(patch)
        assert moved.landmarks["dot"] == pytest.approx(dot)


def test_tuning_samples_the_domain_and_asks_its_own_probes(swatches, tmp_path):
    found = updp.tune(swatches, out=tmp_path / "t", method="blur", strengths=[0.5], domain="swatch")
    facts = json.loads((tmp_path / "t" / "frontier.json").read_text())
    assert facts["pack"] is None
    assert facts["films"] > 0
    # The domain's attacker ran on its colour images; it has no measure of usefulness, so no strength is advised.
    assert found.strength is None
    assert facts["not_measured"] == ["blur 0.5: not measured, no figure"]
    with pytest.raises(UnknownMethod, match="'updp' does not serve the domain 'swatch'"):
        updp.tune(swatches, out=tmp_path / "t", method="updp", domain="swatch")


def test_a_bench_and_a_certificate_are_of_the_domain_of_their_source(swatches, tmp_path, key):
    from updp.bench.methods import bench_methods
    from updp.core.policy import MethodPolicy
    from updp.evaluation.certify import certify

    rows = bench_methods(swatches, tmp_path / "b", methods=["keep"], domain="swatch", quick=True, say=lambda _: None)
    assert [m.metric for m in rows[0].measurements] == ["film linkage", "film linkage beyond twins"]
    made = certify(
        [swatches],
        MethodPolicy(name="blur", strength=0.5),
        tmp_path / "c.json",
        key=key,
        domain="swatch",
        quick=True,
        say=lambda _: None,
    )
    assert made.subject.domain == "swatch"
    assert {m.question for m in made.measurements} == {"film"}
    assert made.cohort["findings"].keys() == {"warm", "cold"}


def test_labels_are_said_in_the_domains_words(swatches):
    source = updp.open_source(swatches, domain="swatch")
    study = next(iter(source))
    assert source.domain.words(study, np.random.default_rng(0)) in ("It is red.", "It is blue.")
    assert json.dumps(source.domain.name) == '"swatch"'


def test_no_module_outside_the_domains_names_the_pack_of_one():
    """The front page of the package shows it in an example, and a recipe names the pack it makes."""
    from tests.test_imports import MODULES

    named = {name for name, path in MODULES.items() if toy_free(name) and "cxr256" in path.read_text("utf-8")}
    assert named <= {"updp", "updp.training.config"}


def toy_free(module: str) -> bool:
    return not module.startswith("updp.domains")
