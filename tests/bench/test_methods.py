"""The bench of methods: same patients for all, published figures beside ours, resumable, never a bare number."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Hospital, sweep
from tests.evaluation.fake_probes import Budget, Fixed, PixelLinkage, figure
from tests.evaluation.probes.attacks import hospital
from tests.evaluation.probes.utility import small
from updp.bench import frontier
from updp.bench import methods as module
from updp.bench.evidence import FIDELITY, FILM, SKILL, Column, evidence, rows_of
from updp.bench.identity import ADAPTED, REAL
from updp.bench.methods import BadBench, Row, bench_methods, cell, markdown, published
from updp.core.measurement import Measurement
from updp.core.questions import QUESTIONS
from updp.domains.chest import PACK
from updp.evaluation.cohort.settings import Setting
from updp.evaluation.evaluate import run_probes
from updp.evaluation.probes import probes as find_probes
from updp.evaluation.probes.base import Budget as Attacks
from updp.evaluation.probes.utility.image_metrics import power_by_band
from updp.evaluation.probes.utility.text_metrics import R2Gen, text_measures
from updp.methods import METHODS, UnknownMethod


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(module, "budget_of", lambda quick: Budget())
    monkeypatch.setattr(module, "learned_in", lambda folder: None)


@pytest.fixture
def source(tmp_path):
    return Hospital(tmp_path / "export", films=80).write()


class Linkage(PixelLinkage):
    """``PixelLinkage`` with the frozen attacker's figures under their names."""

    def run(self, *args, **kwargs):
        area, strongest, delta = super().run(*args, **kwargs)
        frozen = [
            replace(figure(metric, 0.6, 0.5, 0.7), attacker="A0 frozen", protocol="another film")
            for metric in ("verification max(AUC, 1−AUC)", "verification AUC")
        ]
        named = replace(strongest, metric="strongest linkage")
        return [area, replace(strongest, protocol="own film"), delta, named, *frozen]


def probes():
    texts = [
        replace(figure(metric, 0.3, 0.2, 0.4, None, "higher", regime=regime), protocol="R2Gen-normalised")
        for metric in ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L COCO")
        for regime in ("local only, 25% of local", "transfer de-identified")
    ]
    return [
        Linkage(),
        Fixed(
            "identification",
            [replace(figure("identification accuracy", 0.97, 0.9, 1.0, 0.05), protocol="as printed")],
        ),
        Fixed("attributes", [Measurement.missing("age accuracy", "no ages", attacker="frozen")]),
        Fixed("utility", [figure("diagnostic skill kept", 0.95, 0.9, 1.0, 0.0, "higher"), *texts]),
    ]


def run(source, out, **options):
    return bench_methods(source, out, **({"films": 60, "probes": probes, "say": lambda text: None} | options))


def test_every_method_is_measured_on_the_same_patients_and_written(source, tmp_path):
    told = []
    rows = run(source, tmp_path / "b", methods=["keep", "blur"], strengths=[0.2, 0.8], say=told.append)
    assert [row.setting.label for row in rows] == ["keep", "blur 0.2", "blur 0.8"]
    assert len({row.films for row in rows}) == 1
    text = (tmp_path / "b" / "methods.md").read_text()
    assert "97.21" in text
    assert "97.0 [90.0, 100.0], chance 5.0" in text
    assert "What differs from the papers" in text
    facts = json.loads((tmp_path / "b" / "methods.json").read_text())
    assert [row["strength"] for row in facts["rows"]] == [None, 0.2, 0.8]
    assert len(json.loads((tmp_path / "b" / "frontier.json").read_text())["points"]) == 3
    drawn = (tmp_path / "b" / "frontier.svg").read_text()
    assert "frozen attacker" in drawn
    assert drawn.count("blur 0.8") == 2
    assert len(told) == 4
    assert sweep(tmp_path / "b", skip=(".cache",)) == []


def test_a_bench_that_was_cut_off_goes_on_where_it_was(source, tmp_path, monkeypatch):
    run(source, tmp_path / "b", methods=["keep"])
    asked = []

    def counting():
        asked.append(1)
        return probes()

    run(source, tmp_path / "b", methods=["keep", "blur"], strengths=[0.5], probes=counting)
    assert len(asked) == 1
    monkeypatch.setattr(module, "budget_of", lambda quick: Budget(pairs=7))
    run(source, tmp_path / "b", methods=["keep"], probes=counting)
    assert len(asked) == 2


def test_nobody_who_trained_a_pack_of_the_bench_has_a_part_in_it(source, tmp_path, monkeypatch):
    packs = [pack.name for pack in module.packs_of_settings([Setting("keep"), Setting("prichexy", (), 0.3)], None)]
    assert len(packs) == 3  # that of the judges, the method's own, and its weights
    assert PACK in {Path(name).name for name in packs} | set(packs)
    assert not module.packs_of_settings([Setting("keep")], None, "face")  # films of chests trained nothing there
    gone = []

    def unseen(packs):
        return lambda study, layout: None if gone.append(study.patient_id) or len(set(gone)) % 2 else "train"

    monkeypatch.setattr(module, "unseen", unseen)
    rows = run(source, tmp_path / "b", methods=["keep"])
    assert 0 < rows[0].films < 60


def test_the_attacker_of_a_bench_knows_the_method_and_a_control_has_none():
    use = module.use_of(Setting("blur", (), 0.4))
    assert (use.name, use.strength, use.roles) == ("blur", 0.4, frozenset())
    assert module.use_of(Setting("noise")) is None


def test_the_evidence_stands_beside_controls_whose_answer_is_known(source, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "budget_of", lambda quick: Attacks.quick())
    rows = run(source, tmp_path / "b", methods=["keep"], tables=["evidence"])
    assert [row.name for row in rows] == ["noise", "shuffled", "planted", "keep"]
    found = {row.name: row.find("film linkage").value for row in rows}
    assert max(found["noise"], found["planted"]) < found["keep"] == 1
    text = (tmp_path / "b" / "methods.md").read_text()
    assert "### The film beyond its record" in text
    assert "### Privacy" not in text
    assert "What differs from the papers" not in text
    facts = json.loads((tmp_path / "b" / "methods.json").read_text())
    assert evidence(rows_of(facts), facts["about"]) == evidence(rows, facts["about"])
    assert "<svg" in (tmp_path / "b" / "frontier.svg").read_text()


def test_processes_that_share_a_bench_leave_what_a_last_one_puts_together(source, tmp_path):
    asked = []

    def counting():
        asked.append(1)
        return probes()

    options = {"methods": ["keep", "blur"], "strengths": [0.2, 0.8], "probes": counting}
    parts = [run(source, tmp_path / "b", part=(k, 2), **options) for k in (1, 2)]
    assert [[row.name for row in part] for part in parts] == [["keep", "blur 0.8"], ["blur 0.2"]]
    assert not (tmp_path / "b" / "methods.md").exists()
    whole = run(source, tmp_path / "b", **options)
    assert [row.name for row in whole] == ["keep", "blur 0.2", "blur 0.8"]
    assert len(asked) == 3
    assert (tmp_path / "b" / "methods.md").is_file()


def test_report_tables_are_written_when_asked_for(source, tmp_path):
    run(source, tmp_path / "b", methods=["keep"], tables=["reports"])
    text = (tmp_path / "b" / "methods.md").read_text()
    assert "Table 1" in text
    assert "| keep | local only, 25% of local | 30.0 [20.0, 40.0] |" in text
    assert "47.01" in text
    assert "### Privacy" not in text


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"methods": ["magic"]}, UnknownMethod, "no method"),
        ({"methods": ["keep"], "tables": ["nine"]}, BadBench, "no table 'nine'; there are: "),
    ],
)
def test_wrong_names_end_before_any_film_is_read(source, tmp_path, options, error, match):
    with pytest.raises(error, match=match):
        run(source, tmp_path / "b", **options)
    assert not (tmp_path / "b").exists()


def test_where_weights_come_from_does_not_make_another_method():
    row = Row(Setting("privdiff", (("weights", "mine"),), 0.9), (), 1.0, 0, 10)
    other = Row(Setting("updp", (("search", "report"),)), (), 1.0, 0, 10)
    assert module._of([row, other], {"method": "privdiff"}) == [row]
    assert module._of([row, other], {"method": "updp"}) == []
    assert module._of([row, other], {"method": "updp", "options": {"search": "report"}}) == [other]
    longer = Row(Setting("updp", (("search", "mma"), ("steps", 16), ("trials", 128)), 0.25), (), 1.0, 0, 10)
    assert module._of([row, longer], {"method": "updp", "options": {"search": "mma"}}) == [longer]


@pytest.mark.parametrize("entry", [e for table in ("identity", "privdiff", "searches") for e in published()[table]])
def test_every_published_figure_is_of_a_method_with_options_it_takes(entry):
    assert entry["method"] in METHODS
    METHODS[entry["method"]].Options.read(entry.get("options", {}))


def test_a_figure_is_never_bare_and_a_missing_one_says_so():
    assert cell(figure("x", 0.5, 0.4, 0.6, 0.25), True) == "50.0 [40.0, 60.0], chance 25.0"
    assert cell(figure("x", 0.5, 0.4, 0.6, None), False) == "0.50 [0.40, 0.60]"
    assert cell(Measurement.missing("x", "why"), True) == "not measured"
    assert cell(None, True) == ""


def test_published_figures_name_their_place():
    given = published()
    for table in ("identity", "privdiff", "attributes", "reports", "searches"):
        for entry in given[table]:
            assert entry["source"] in given["sources"]
            assert entry["place"]
    assert {entry["published"] for entry in given["identity"]} == {"97.21", "13.69", "4.57"}
    about = {"films": 1, "patients": {"train": 1, "val": 1, "test": 1}, "size": 256, "quick": True, "seed": 0,
             "pack": {"name": "p", "sha256": "0" * 64}}  # fmt: skip
    assert "quick budget" in markdown([], about, ["identity"])


def test_a_sharing_without_a_figure_is_shown_as_none_before_and_after_it_is_kept():
    gain = Measurement(
        "gain in BLEU-4", 0.1, 0.0, 0.2, 20, 0.0, "higher", None, 0, {"each_sharing": [0.123, float("nan"), None]}
    )
    row = Row(Setting("updp", (), 0.5), (gain,), 1.0, 0, 10)
    kept = Row(row.setting, (Measurement.from_json(json.loads(json.dumps(gain.to_json()))),), 1.0, 0, 10)
    for one in (row, kept):
        assert "| 12.3, –, – |" in "\n".join(module._reports([one], published()))


def test_every_column_is_filled_by_a_probe_the_bench_runs(tmp_path):
    """Names alone: six patients are too few for a figure, and what could not be measured says its name."""
    few = small.exhibit(patients=6, films=1)
    asked = find_probes([name for table in module.TABLES.values() for name in table])
    measured = list(run_probes(few, small.pack(tmp_path), Attacks.quick(), 0, probes=asked))
    frozen = [probe for probe in asked if probe.name in ("verification", "film")]
    lean = hospital.SMALL.but(rebuilt=0)
    measured += run_probes(hospital.exhibit(patients=28), hospital.simple_pack(tmp_path), lean, 0, probes=frozen)
    assert not any(m.detail.get("failed") for m in measured)
    wide = np.random.default_rng(0).random((10, 128, 128))  # the films above are too small for the upper bands
    measured += power_by_band(wide, wide, [f"p{n}" for n in range(10)], seed=0)
    regime = "transfer de-identified"
    texts = text_measures(
        ["the heart"], ["the heart"], ["p"], seed=0, normaliser=R2Gen(["the heart"]), java=False, regime=regime
    )
    row = Row(Setting("keep"), (*measured, *texts), 1.0, 0, 6)
    columns = [*module.PRIVACY, *module.UTILITY, *FILM, *SKILL, *FIDELITY, *frontier.COLUMNS, ADAPTED, REAL]
    bounds = [bound for question in QUESTIONS.values() for bound in question.bounds]
    metrics = [metric for bound in bounds for metric in bound.metrics if bound.limit != "max_residual_phi"]
    columns += [Column(metric, metric) for metric in metrics]
    assert [c.heading for c in columns if row.find(c.metric, **c.fields) is None] == []
    for what in ("age", "sex"):
        assert all(row.find(f"{what} accuracy", attacker=how) for how in ("frozen", "retrained"))
    assert row.find("verification max(AUC, 1−AUC)", **module.FROZEN.fields)  # of the picture
    assert all(row.find(metric, protocol=module.R2GEN, regime=regime) for metric in module.TEXT)
