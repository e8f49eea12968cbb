"""The virtual hospital: deterministic, full of identity, and told in full by its ledger."""

import filecmp
import json
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pydicom
import pytest
from PIL import Image

from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.domains.chest.labels import FINDINGS
from updp.sources import Refusal, open_source
from updp.virtual import drawing
from updp.virtual.canaries import sweep
from updp.virtual.examination import burn_in
from updp.virtual.films import films
from updp.virtual.hospital import make_hospital
from updp.virtual.ledger import Ledger

PATIENTS = 4


@pytest.fixture(scope="module", autouse=True)
def _no_installed_pack():
    """Whether a model pack with films is installed must not change what these tests see."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("updp.virtual.films._packed", lambda: None)
        yield


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    out = tmp_path_factory.mktemp("hospital")
    return out, make_hospital(out, seed=5, patients=PATIENTS)


def headers(out):
    for path in sorted(out.rglob("*.dcm")):
        if path.stat().st_size:
            yield path, pydicom.dcmread(path, stop_before_pixels=True)


def test_same_seed_gives_the_same_bytes_in_another_process(hospital, tmp_path):
    out, ledger = hospital
    code = (
        "import sys; from pathlib import Path; from updp.virtual import films, hospital; films._packed = lambda: None;"
        f"hospital.make_hospital(Path(sys.argv[1]), seed=5, patients={PATIENTS}).save(Path(sys.argv[2]))"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "again", tmp_path / "ledger.json"],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    names = [p.relative_to(out) for p in out.rglob("*") if p.is_file()]
    assert names
    assert filecmp.cmpfiles(out, tmp_path / "again", names, shallow=False)[0] == names
    assert Ledger.load(tmp_path / "ledger.json") == ledger


def test_another_seed_gives_other_people(hospital, tmp_path):
    _, ledger = hospital
    pack = pack_of([{"patient": n, "study": 0, "view": "PA", "findings": []} for n in range(4)], tmp_path / "virtual")
    other = make_hospital(tmp_path / "out", seed=6, patients=4, pack=pack)
    for kind in ("record number", "accession number", "UID"):
        assert {c.value for c in ledger.canaries if c.kind == kind}.isdisjoint(
            c.value for c in other.canaries if c.kind == kind
        )


def test_identity_stands_in_headers_pixels_and_reports(hospital):
    out, ledger = hospital
    found = {hit.canary for hit in sweep(out, ledger.strings())}
    for patient in range(PATIENTS):
        own = {c.kind: c.value for c in ledger.canaries if c.patient == patient}
        for kind in ("record number", "other id", "insurance number", "address", "phone number"):
            assert own[kind] in found
    burned = [note.burned_in for note in ledger.films if note.burned_in]
    assert len(burned) > len(ledger.films) // 3
    reports = " ".join(p.read_text("utf-8", "replace") for p in out.rglob("report.txt"))
    people = {c.value for c in ledger.canaries if c.kind == "name" and "," not in c.value and "^" not in c.value}
    assert sum(name in reports for name in people) >= PATIENTS


def test_burned_in_words_change_the_pixels_where_they_stand():
    film = np.full((600, 500), 0.2, np.float32)
    marked, words = burn_in(film, ["NAME, INVENTED", "MRN 12345678"], np.random.default_rng(0))
    assert words == ["NAME, INVENTED", "MRN 12345678"]
    assert 0.001 < np.mean(marked != film) < 0.1
    assert marked.max() > 0.9


def test_variety_of_files(hospital):
    out, _ = hospital
    seen = Counter()
    for _, header in headers(out):
        seen[header.SOPClassUID.name] += 1
        seen[header.file_meta.TransferSyntaxUID.name] += 1
        if "PhotometricInterpretation" in header:
            seen[header.PhotometricInterpretation] += 1
            seen[f"{header.BitsStored} bits"] += 1
        seen["private"] += any(e.tag.is_private for e in header)
        seen["nested"] += "OtherPatientIDsSequence" in header
    for kind in (
        "Computed Radiography Image Storage",
        "Digital X-Ray Image Storage - For Presentation",
        "Secondary Capture Image Storage",
        "Basic Text SR Storage",
        "Implicit VR Little Endian",
        "Explicit VR Little Endian",
        "MONOCHROME1",
        "MONOCHROME2",
        "8 bits",
        "12 bits",
        "private",
        "nested",
    ):
        assert seen[kind], kind
    assert any("JPEG" in name for name in seen)


def test_source_reads_it_and_meets_the_faults_the_ledger_tells(hospital):
    out, ledger = hospital
    source = open_source(out)
    assert source.layout == "dicom"
    bad, whole, reports = Counter(), 0, 0
    for item in source:
        if isinstance(item, Refusal):
            bad[item.reason] += 1
            continue
        try:
            study = source.load(item)
        except Refused as refused:
            bad[refused.reason] += 1
            continue
        whole += 1
        reports += bool(study.report)
        assert study.pixels.min() >= 0
        assert study.pixels.max() <= 1
        assert study.pixels.std() > 0.1
    # Doubles show only when the whole source is surveyed.
    later = {Reason.ID_DUPLICATE, Reason.PATIENT_CONFLICT, Reason.FILM_SHARED}
    expected = Counter(note.fault for note in ledger.films if note.fault and note.fault not in later)
    assert bad == expected
    assert whole + sum(bad.values()) + source.skipped == len(ledger.films)
    assert reports > whole * 0.7


def test_reports_have_sections_negations_measurements_and_dates(hospital):
    out, _ = hospital
    texts, sections = [], Counter()
    source = open_source(out)
    for item in source:
        if isinstance(item, Study) and item.report_path:
            try:
                report = source.load_report(item).report
            except Refused:
                continue
            sections.update(report.sections.keys())
            texts.append(report.text())
    everything = "\n".join(texts)
    assert sections["findings"] == sections["impression"] == len(texts)
    for pattern in (
        r"\bno \w+",
        r"\d+ mm",
        r"Dr\. [A-Z]",
        r"\d{3}-\d{3}-\d{4}",
        r"\d{4}-\d\d-\d\d",
        r"Compared to|comparison with",
    ):
        assert re.search(pattern, everything, re.IGNORECASE), pattern


def test_ledger_finds_name_known_findings_only(hospital):
    _, ledger = hospital
    assert {name for note in ledger.films for name in note.findings} <= set(FINDINGS)
    assert ledger.origins() == {"drawn"}


def test_no_two_films_share_an_identifier_but_the_faults(tmp_path):
    # Patient 1, visit 90 (a fault) must not be taken for patient 19, visit 0.
    pack = pack_of([{"patient": n, "study": 0, "view": "PA", "findings": []} for n in range(20)], tmp_path / "virtual")
    ledger = make_hospital(tmp_path / "out", seed=1, patients=20, pack=pack)
    films = [note.film_id for note in ledger.films if note.fault is not Reason.ID_DUPLICATE]
    assert len(films) == len(set(films)) > 20


def test_too_few_patients_are_refused(tmp_path):
    with pytest.raises(ValueError, match="at least four"):
        make_hospital(tmp_path, seed=0, patients=3)


def pack_of(rows, folder):
    """A folder of virtual films as a model pack brings it, every film the same small picture."""
    folder.mkdir()
    Image.fromarray(np.add.outer(np.arange(64), np.arange(64)).astype(np.uint8)).save(folder / "a.png")
    (folder / "films.json").write_text(json.dumps({"films": [{"file": "a.png"} | row for row in rows]}))
    return folder


def test_films_of_a_pack_are_used_first(tmp_path):
    rows = [
        {"patient": 0, "study": 0, "view": "PA", "findings": ["Effusion"], "sex": "M"},
        {"patient": 0, "study": 1, "view": "AP", "findings": []},
    ]
    first, second = films(0, 2, pack=pack_of(rows, tmp_path / "virtual"))
    assert first.sex == "M"
    assert [exam[0].origin for exam in first.examinations] == ["generated", "generated"]
    assert first.examinations[0][0].findings == (drawing.Finding("Effusion"),)
    pixels = first.examinations[0][0].pixels()
    assert pixels.shape == (512, 512)
    assert np.isclose(pixels.mean(), 63 / 255, atol=0.01)
    assert second.examinations[0][0].origin == "drawn"


def test_hospital_of_pack_films_reports_what_the_pack_says(tmp_path):
    row = {"study": 0, "view": "PA", "findings": ["Pleural_Thickening", "Effusion"]}
    pack = pack_of([row | {"patient": n} for n in range(4)], tmp_path / "virtual")
    ledger = make_hospital(tmp_path / "out", seed=1, patients=4, pack=pack)
    assert "generated" in ledger.origins()
    texts = " ".join(p.read_text("utf-8", "replace") for p in (tmp_path / "out").rglob("report.txt"))
    assert "leural thickening" in texts
    assert "{" not in texts


@pytest.mark.parametrize("view", ["PA", "AP", "LATERAL"])
def test_drawing_is_deterministic_and_in_range(view):
    anatomy = drawing.Anatomy.sample(np.random.default_rng(1), "F")
    one, two = (drawing.draw(anatomy, (), view, (300, 260), np.random.default_rng(2)) for _ in range(2))
    assert one.shape == (300, 260)
    assert one.dtype == np.float32
    assert np.array_equal(one, two)
    assert 0 <= one.min() < 0.1 < 0.6 < one.max() <= 1


@pytest.mark.parametrize("name", FINDINGS)
def test_every_finding_shows_on_the_film(name):
    anatomy = drawing.Anatomy.sample(np.random.default_rng(1), "M")
    finding = drawing.Finding(name, "right", "mid", 40)
    plain, ill = (drawing.draw(anatomy, f, "PA", (300, 260), np.random.default_rng(2)) for f in ((), (finding,)))
    assert np.abs(plain - ill).max() > 0.08


def test_anatomy_persists_over_films_and_differs_between_people():
    def films_of(seed):
        anatomy = drawing.Anatomy.sample(np.random.default_rng(seed), "M")
        return [drawing.draw(anatomy, (), "PA", (300, 260), np.random.default_rng(n)) for n in (1, 2)]

    def likeness(a, b):
        return np.corrcoef(a.ravel(), b.ravel())[0, 1]

    people = [films_of(seed) for seed in range(6)]
    same = np.mean([likeness(*films) for films in people])
    other = np.mean([likeness(people[a][0], people[b][1]) for a in range(6) for b in range(6) if a != b])
    assert same > other
