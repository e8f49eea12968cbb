"""Release, source and key are compared only when they belong together."""

import json
import os
import shutil

import numpy as np
import pytest
from PIL import Image

import updp
from tests.conftest import CANARIES, PLAIN, Hospital, draw
from tests.sources.exports import write_dicom
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.domains.chest import CHEST
from updp.domains.chest.labels import FINDINGS
from updp.evaluation.cohort.load import NotComparable, _described, _with_own_options, label_matrix, load_case
from updp.imaging.grey import grey8
from updp.imaging.square import square


def case(made, key, **changes):
    hospital, outcome = made
    options = {"release": outcome.folder, "source": hospital.root, "key": key, "cache": outcome.folder.parent / "c"}
    return load_case(**(options | changes))


def test_every_released_film_stands_beside_the_one_it_came_from(made, key):
    opened = case(made, key)
    exhibit = opened.exhibit
    assert len(exhibit) == 40
    assert len(set(exhibit.patients.tolist())) == 20
    np.testing.assert_array_equal(exhibit.real, exhibit.released)  # the method is "keep"
    drawn = {grey8(square(draw(n), 64, "pad")).tobytes() for n in range(40)}
    assert {f.tobytes() for f in exhibit.real} == drawn
    assert exhibit.ages.min() >= 30
    assert set(exhibit.sexes.tolist()) == {"F", "M"}
    assert all("Quibblesworth" in text for text in exhibit.real_texts)
    assert not any("Quibblesworth" in text for text in exhibit.released_texts)
    assert exhibit.labels[:, FINDINGS.index("Effusion")].all()


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_films_that_are_not_square_are_compared_as_networks_learned_them(fit, tmp_path, key):
    hospital = Hospital(tmp_path / "export", films=8)
    for n, row in enumerate(hospital.rows):
        Image.fromarray(draw(n, 160)[20:120] + 20).save(hospital.root / row["image"])
    hospital.write()
    policy = Policy.parse(f"{PLAIN}fit = '{fit}'\n")
    made = hospital, updp.deidentify(hospital.root, tmp_path / "out", policy=policy, key=key, workers=1)
    exhibit = case(made, key).exhibit
    assert (exhibit.real[:, 0].max(1) > 0).all()  # no bar
    assert np.abs(exhibit.real.astype(int) - exhibit.released).mean() < 8  # "keep", twice resampled at most


@pytest.mark.posix
def test_films_are_decoded_once_and_read_from_disk(made, key, monkeypatch):
    first = case(made, key)
    assert isinstance(first.exhibit.real, np.memmap)
    cached = list((made[1].folder.parent / "c").glob("*.u8"))
    assert {path.stat().st_mode & 0o777 for path in cached} == {0o600}

    def unreadable(*args, **kwargs):
        raise AssertionError("decoded again")

    monkeypatch.setattr("updp.sources.base.read_with_window", unreadable)
    second = case(made, key)
    np.testing.assert_array_equal(first.exhibit.real, second.exhibit.real)


def test_a_release_of_another_source_is_refused(made, key, tmp_path):
    other = Hospital(tmp_path / "other", films=6)
    for row in other.rows:
        row["film_id"] += "x"
    with pytest.raises(NotComparable, match="not the source the release was made from"):
        case(made, key, source=other.write())


def test_another_source_is_seen_without_the_record_of_the_run(made, key, tmp_path):
    (made[1].folder.parent / "run.json").unlink()
    other = Hospital(tmp_path / "other", films=6)
    with pytest.raises(NotComparable, match="34 of 40 released films are not in this source"):
        case(made, key, source=other.write())
    moved = Hospital(tmp_path / "moved", films=40)
    moved.rows[3]["patient_id"] = "someone else"
    moved.rows[3]["study_id"] = "another"
    with pytest.raises(NotComparable, match="another patient"):
        case(made, key, source=moved.write())


@pytest.mark.parametrize("name", ["README.md", "manifest.parquet", "evidence/evaluation.json"])
def test_a_release_edited_after_signing_is_refused(made, key, name):
    path = made[1].folder / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(NotComparable, match="edited after signing"):
        case(made, key)


def test_a_swapped_checksum_list_is_refused(made, key):
    with (made[1].folder / "checksums.sha256").open("a") as out:
        out.write("\n")
    with pytest.raises(NotComparable, match="was altered"):
        case(made, key)


def test_a_wrong_key_or_a_missing_vault_is_refused(made, key):
    with pytest.raises(NotComparable, match="another key"):
        case(made, Key(bytes(32)))
    shutil.move(made[1].folder.parent / "vault", made[1].folder.parent / "kept")
    with pytest.raises(NotComparable, match="no vault"):
        case(made, key)
    assert len(case(made, key, vault=made[1].folder.parent / "kept").exhibit) == 40


def test_the_vault_of_another_run_is_refused(made, key, tmp_path, policy):
    other = Hospital(tmp_path / "other", films=4)
    for row in other.rows:
        row["film_id"] += "x"
    outcome = updp.deidentify(other.write(), tmp_path / "o", policy=policy, key=key, workers=1)
    with pytest.raises(NotComparable, match="40 of 40 released films are not in the vault"):
        case(made, key, vault=outcome.folder.parent / "vault")


def test_a_folder_that_is_no_release_is_refused(made, key, tmp_path):
    with pytest.raises(NotComparable, match="not a release"):
        case(made, key, release=tmp_path)


def test_a_film_that_cannot_be_read_any_more_is_refused_without_naming_it(made, key):
    hospital, _ = made
    film = hospital.root / hospital.rows[5]["image"]
    before = film.stat()
    film.write_bytes(bytes(before.st_size))
    with pytest.raises(NotComparable, match="it has changed since"):
        case(made, key)
    os.utime(film, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(NotComparable) as caught:
        case(made, key)
    assert "can no longer be read" in str(caught.value)
    assert not any(word in str(caught.value) for word in CANARIES)
    assert not isinstance(caught.value, Refused)


def test_labels_are_the_sources_else_the_reports_and_missing_ones_are_nan():
    studies = [
        Study("a", "a", "a", labels=("Pleural Effusion", "Support Devices")),
        Study("b", "b", "b", labels=()),
        Study("c", "c", "c", labels=None),
        Study("d", "d", "d", labels=None),
    ]
    texts = ["", "There is a large mass.", "", "Small left pleural effusion. No pneumothorax. Pleural thickening."]
    matrix = label_matrix(studies, texts, CHEST)
    assert matrix[0].sum() == matrix[0, FINDINGS.index("Effusion")] == 1
    assert matrix[1].sum() == 0
    assert np.isnan(matrix[2]).all()
    assert {FINDINGS[j] for j in np.flatnonzero(matrix[3])} == {"Effusion", "Pleural_Thickening"}


def test_age_and_sex_are_read_from_headers_where_only_they_have_them(tmp_path):
    path = write_dicom(tmp_path / "x.dcm", PatientAge="061Y", PatientSex="F")
    found = _described(Study("a", "a", "a", path=path))
    assert (found.age, found.sex) == (61, "F")
    (tmp_path / "x.png").write_bytes(b"\x89PNG")
    assert _described(Study("a", "a", "a", path=tmp_path / "x.png")).age is None


def holding_back(monkeypatch, places):
    """The method keeps these films of every batch of four back."""
    from updp.methods.base import Deidentified
    from updp.methods.keep import Keep

    def deidentify(self, batch, strength, rng):
        return [
            Deidentified(None, refused=Reason.FINDINGS_DISAGREE) if n in places else Deidentified(study.pixels)
            for n, study in enumerate(batch)
        ]

    monkeypatch.setattr(Keep, "deidentify", deidentify)


@pytest.fixture
def two(tmp_path, key, policy, monkeypatch):
    """Two releases of one source whose method kept other films back; one film nobody can read is in neither."""
    hospital = Hospital(tmp_path / "export", films=24)
    hospital.write()
    (hospital.root / hospital.rows[9]["image"]).write_bytes(b"")
    out = []
    for places in ({0}, {1, 3}):
        holding_back(monkeypatch, places)
        out.append(
            (hospital, updp.deidentify(hospital.root, tmp_path / f"o{len(out)}", policy=policy, key=key, workers=1))
        )
    return out


def test_films_the_method_kept_back_are_among_the_originals_of_every_release(two, key):
    first, second = (case(made, key).exhibit for made in two)
    assert (first.kept_back.sum(), second.kept_back.sum()) == (6, 12 - 1)  # one of the places held the unreadable film
    assert not (first.kept_back & second.kept_back).any()
    for exhibit, (_, outcome) in zip((first, second), two, strict=True):
        assert len(exhibit) == 23
        assert len(exhibit.paired) == outcome.released
        assert not exhibit.released[exhibit.kept_back].any()
        assert not any(text for text, gone in zip(exhibit.released_texts, exhibit.kept_back, strict=True) if gone)
        assert all(exhibit.with_reports("real"))
    for column in ("real", "patients", "splits", "labels", "real_texts"):
        np.testing.assert_array_equal(getattr(first, column), getattr(second, column))


def test_without_the_list_of_what_was_kept_back_the_released_films_are_all_there_is(two, key, tmp_path):
    made = two[0]
    path = made[1].folder.parent / "quarantine.jsonl"
    assert case(made, key).exhibit.kept_back.any()
    for n, listed in enumerate((None, b"", b"garbage\n", b'{"ref": 3}\n', b"[1, 2]\n")):
        path.unlink(missing_ok=True)
        if listed is not None:
            path.write_bytes(listed)
        exhibit = case(made, key, cache=tmp_path / f"cache{n}").exhibit
        assert len(exhibit) == made[1].released, listed
        assert not exhibit.kept_back.any(), listed


def test_a_patient_of_whom_one_film_was_kept_back_in_another_split_is_refused(tmp_path, key, policy, monkeypatch):
    hospital = Hospital(tmp_path / "export", films=8)
    for n, row in enumerate(hospital.rows):
        row["split"] = "test" if n == 1 else "train"
    hospital.write()
    holding_back(monkeypatch, {1})
    made = hospital, updp.deidentify(hospital.root, tmp_path / "out", policy=policy, key=key, workers=1)
    with pytest.raises(NotComparable, match="two splits"):
        case(made, key)


def test_the_hospital_finds_its_own_packs_by_the_vault_and_nobody_elses(tmp_path):
    own = Policy.model_validate({"method": {"name": "updp", "options": {"pack": str(tmp_path / "packs" / "ours")}}})
    (tmp_path / "method-options.json").write_text(json.dumps(own.method.options))
    assert _with_own_options(own.public(), tmp_path) == own
    other = Policy.model_validate({"method": {"name": "updp", "options": {"pack": "theirs"}}})
    assert _with_own_options(other, tmp_path) == other
    assert _with_own_options(own.public(), tmp_path / "missing") == own.public()
