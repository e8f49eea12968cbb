"""Tables of the evidence: what was measured is copied, what was not is said, and no place of a machine is in them."""

from dataclasses import replace

from tests.evaluation.fake_probes import figure
from updp.bench.evidence import Row, evidence, rows_of
from updp.core.measurement import Measurement
from updp.core.questions import Exemption
from updp.evaluation.cohort.settings import Setting

ABOUT = {
    "films": 40, "patients": {"train": 9, "val": 3, "test": 4}, "size": 256, "seed": 0, "quick": True, "pack": None,
}  # fmt: skip


def film(value, low, high):
    out = []
    for protocol in ("own film", "another film"):
        out.append(replace(figure("film linkage", value, low, high), protocol=protocol))
        added = figure("film linkage beyond twins", value - 0.5, low - 0.5, high - 0.5, 0.0)
        out.append(replace(added, protocol=protocol))
    return [replace(m, question="film") for m in out]


def rows():
    cost = {"2": {"films": 4, "share": 0.1}}
    record = [replace(figure("alone with their record", 0.2, 0.1, 0.3, 0.0, min_cell=cost), question="record")]
    asked = Measurement.missing("strongest membership", "too few patients", question="membership")
    exempt = replace(asked, detail={"not_measured": "none", "exemption": Exemption.LEARNED_NOTHING.value})
    donor = Setting("donor", (("gallery", "/home/of/someone"),))
    return [
        Row(Setting("keep"), (*film(1.0, 0.99, 1.0), *record, exempt), 0.0, 0, 40),
        Row(donor, (*film(0.5, 0.48, 0.52), *record, exempt), 0.1, 2, 40),
        Row(Setting("updp", (("search", "report"),), 0.5), (*film(0.5, 0.3, 0.7), asked), 0.3, 1, 40),
    ]


def test_every_method_has_its_figures_and_the_answer_of_the_gate():
    text = "\n".join(evidence(rows(), ABOUT))
    assert "40 films of 16 patients who trained no pack used here" in text
    assert "| keep | 1.00 [0.99, 1.00] | 0.50 [0.49, 0.50] | 1.00 [0.99, 1.00] | 0.50 [0.49, 0.50] | failed |" in text
    assert "| donor | 0.50 [0.48, 0.52] | 0.00 [-0.02, 0.02] |" in text
    assert "| updp (search=report) 0.5 |" in text
    assert "failed: too few patients |" in text
    assert "| 2 | 4 (10%) |" in text
    assert "| updp (search=report) 0.5 | not measured: too few patients |" in text
    assert "Of other methods the question does not arise" in text
    assert "/home" not in text


def test_rows_come_back_from_their_file_without_places_of_the_machine():
    facts = {"about": ABOUT, "rows": [row.to_json() for row in rows()]}
    assert "/home" not in str(facts)
    assert evidence(rows_of(facts), ABOUT) == evidence(rows(), ABOUT)


def test_nothing_measured_gives_no_tables():
    assert evidence([], ABOUT) == []
