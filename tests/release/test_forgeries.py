"""Kinds of forgery and alteration, and that `verify` finds every one.

Each kind is done to a copy of a release that passed the gate. ``by`` says how far the forger gets afterwards: no
further, to a new checksum list, to a signature by a key of his own, or to one by the hospital's own key, as somebody
inside the hospital would who edits a release by hand.
"""

import base64
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.release.sealed import DAY, HOSPITAL, PUBLIC, STRANGER, facts_of, list_anew, made, passed, reseal
from tests.release.test_certificate import made as certificate_made
from updp.core.policy import MethodPolicy
from updp.core.questions import Outcome
from updp.release import certificate, construction, manifest, revocation
from updp.release.signature import Seal, sign
from updp.release.signed import write_signed
from updp.release.verify import verify

KINDS = {}


def kind(by=None, check=None):
    """A kind of alteration; ``check`` is the check that has to fail, where that matters."""

    def add(alter):
        KINDS[alter.__name__.replace("_", " ").strip()] = (alter, by, check)
        return alter

    return add


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return passed(made(tmp_path_factory.mktemp("forged")))


@pytest.fixture
def release(original, tmp_path):
    return shutil.copytree(original, tmp_path / "release")


def films(release):
    return sorted((release / "images").rglob("*.png"))


def reports(release):
    return sorted((release / "reports").iterdir())


def evidence(release, change):
    facts = facts_of(release)
    change(facts)
    (release / "evidence/evaluation.json").write_text(json.dumps(facts))


def rows(release, change):
    table = list(manifest.read(release))
    table = change(table) or table
    manifest.write(release, table, len(table))


def edit(path, old, new):
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


# -- films -------------------------------------------------------------------------------------------------------------


@kind()
def a_film_with_one_byte_more(release):
    films(release)[0].write_bytes(films(release)[0].read_bytes() + b"\0")


@kind()
def a_film_cut_short(release):
    films(release)[0].write_bytes(films(release)[0].read_bytes()[:-40])


@kind()
def an_empty_film(release):
    films(release)[0].write_bytes(b"")


@kind()
def a_film_with_one_grey_value_changed(release):
    pixels = np.array(Image.open(films(release)[0]))
    pixels[5, 5] ^= 1
    Image.fromarray(pixels).save(films(release)[0])


@kind()
def two_films_exchanged(release):
    one, two, *_ = films(release)
    held = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(held)


@kind()
def a_film_removed(release):
    films(release)[0].unlink()


@kind()
def a_film_renamed(release):
    films(release)[0].rename(films(release)[0].with_suffix(".PNG"))


@kind()
def a_film_replaced_by_a_link_to_its_own_bytes(release):
    film = films(release)[0]
    shutil.move(film, release.parent / "away.png")
    film.symlink_to(release.parent / "away.png")


@kind("hospital", "checksums")
def a_film_that_is_a_link_and_sealed_anew(release):
    a_film_replaced_by_a_link_to_its_own_bytes(release)


# -- things added ------------------------------------------------------------------------------------------------------


@kind()
def a_file_added_among_the_films(release):
    (films(release)[0].parent / "extra.png").write_bytes(b"x")


@kind()
def a_hidden_file_added(release):
    (release / ".notes").write_text("x")


@kind()
def a_file_whose_name_moves_the_cursor(release):
    (release / "\x1b[2K\r✓ signature").write_text("x")


@kind()
def a_folder_of_files_added(release):
    (release / "originals").mkdir()
    (release / "originals/film.png").write_bytes(b"x")


@kind("hospital", "checksums")
def an_empty_folder_added(release):
    (release / "Smith_John").mkdir()


@kind("hospital", "checksums")
def an_empty_folder_deep_inside(release):
    (films(release)[0].parent / "a/b").mkdir(parents=True)


@kind("hospital", "checksums")
def a_link_to_a_folder_added(release):
    (release.parent / "elsewhere").mkdir()
    (release / "more").symlink_to(release.parent / "elsewhere", target_is_directory=True)


@kind("hospital", "checksums")
def a_link_that_leads_nowhere(release):
    (release / "evidence/more").symlink_to(release.parent / "nowhere")


@kind("hospital", "checksums")
def a_named_pipe_added(release):
    os.mkfifo(release / "pipe")


@kind(check="checksums")
def the_folder_of_films_replaced_by_a_link(release):
    shutil.move(release / "images", release.parent / "images")
    (release / "images").symlink_to(release.parent / "images", target_is_directory=True)


# -- reports -----------------------------------------------------------------------------------------------------------


@kind()
def a_negation_taken_out_of_a_report(release):
    edit(reports(release)[0], "No pneumothorax", "Pneumothorax")


@kind("hospital", "schema")
def a_report_line_removed(release):
    lines = reports(release)[0].read_text().splitlines(keepends=True)
    reports(release)[0].write_text("".join(lines[1:]))


@kind("hospital", "schema")
def a_report_added_for_a_film_that_is_not_there(release):
    line = {"release_id": "fx", "patient": "px", "study": "sx", "sections": {"findings": "Clear."}}
    with reports(release)[0].open("a") as out:
        out.write(json.dumps(line) + "\n")


@kind("hospital", "schema")
def a_report_file_that_no_row_knows(release):
    line = {"release_id": "fx", "patient": "px", "study": "sx", "sections": {"findings": "Clear."}}
    (release / "reports/99999.jsonl").write_text(json.dumps(line) + "\n")


@kind("hospital", "schema")
def a_second_report_of_a_film(release):
    text = reports(release)[0].read_text()
    reports(release)[0].write_text(text + text.splitlines(keepends=True)[0])


@kind("hospital", "schema")
def a_report_given_to_another_patient(release):
    lines = [json.loads(line) for line in reports(release)[0].read_text().splitlines()]
    lines[0]["patient"] = "p" + "a" * 15
    reports(release)[0].write_text("".join(json.dumps(line) + "\n" for line in lines))


@kind("hospital", "schema")
def a_report_file_removed(release):
    reports(release)[0].unlink()


@kind("hospital", "residual PHI")
def a_name_and_a_telephone_number_in_a_report(release):
    edit(reports(release)[0], "No pneumothorax.", "Seen by Dr. Margaret Thornbury, phone 555-867-5309.")


@kind("hospital", "schema")
def a_report_line_that_is_no_json(release):
    with reports(release)[0].open("a") as out:
        out.write("{\n")


# -- manifest ----------------------------------------------------------------------------------------------------------


@kind()
def a_label_changed(release):
    rows(release, lambda table: table[0].update(labels=["Mass"]))


@kind("hospital", "gate")
def a_label_changed_after_measuring(release):
    rows(release, lambda table: table[0].update(labels=["Mass"]))


@kind("hospital", "gate")
def a_row_removed_with_its_film_and_report(release):
    gone = next(iter(manifest.read(release)))
    rows(release, lambda table: table[1:])
    (release / gone["file_name"]).unlink()
    path = release / "reports" / f"{gone['shard']}.jsonl"
    kept = [line for line in path.read_text().splitlines(keepends=True) if gone["release_id"] not in line]
    path.write_text("".join(kept)) if kept else path.unlink()


@kind("hospital", "schema")
def a_row_listed_twice(release):
    rows(release, lambda table: [*table, table[0]])


@kind("hospital", "schema")
def a_patient_in_two_splits(release):
    def move(table):
        two = next(
            row for row in table[1:] if any(row["patient"] == other["patient"] for other in table if other != row)
        )
        two["split"] = {"train": "test", "val": "test", "test": "train"}[two["split"]]

    rows(release, move)


@kind("hospital", "schema")
def a_row_that_points_to_the_film_of_another(release):
    rows(release, lambda table: table[0].update(file_name=table[1]["file_name"]))


@kind("hospital", "schema")
def a_row_that_points_outside(release):
    rows(release, lambda table: table[0].update(file_name="../secret.png"))


@kind("hospital", "schema")
def a_manifest_with_a_further_column(release):
    table = pq.read_table(release / "manifest.parquet")
    pq.write_table(table.append_column("name", pa.array(["x"] * table.num_rows)), release / "manifest.parquet")


@kind("hospital", "schema")
def labels_that_do_not_say_where_they_come_from(release):
    rows(release, lambda table: table[0].update(labels=["Mass"], labels_from=None))


@kind("hospital", "schema")
def a_manifest_that_is_no_table(release):
    (release / "manifest.parquet").write_bytes(b"PAR1 and nothing else PAR1")


# -- policy, card, evidence --------------------------------------------------------------------------------------------


@kind()
def a_bound_of_the_policy_loosened(release):
    edit(release / "policy.toml", "max_film_linkage = 0.55", "max_film_linkage = 0.99")


@kind("hospital", "schema")
def the_policy_removed(release):
    (release / "policy.toml").unlink()


@kind("hospital", "gate")
def a_policy_under_which_the_figures_do_not_hold(release):
    edit(release / "policy.toml", "min_skill = 0.7", "min_skill = 0.99")


@kind("hospital", "gate")
def a_policy_of_another_method(release):
    edit(release / "policy.toml", 'name = "keep"', 'name = "blur"')


@kind()
def a_card_that_says_more(release):
    (release / "README.md").write_text("Fully anonymous. Certified.")


@kind()
def an_evidence_page_edited(release):
    (release / "evidence/report.html").write_text("<b>passed</b>")


@kind()
def a_conformance_statement_edited(release):
    edit(release / "evidence/conformance.md", "DICOM", "DICOM 2099")


@kind()
def another_licence_in_the_description(release):
    edit(release / "croissant.json", "unspecified", "CC0-1.0")


@kind("hospital", "gate")
def evidence_removed(release):
    (release / "evidence/evaluation.json").unlink()


@kind("hospital", "gate")
def evidence_of_another_shape(release):
    (release / "evidence/evaluation.json").write_text('{"gate": {"status": "passed", "checks": []}}')


@kind("hospital", "gate")
def a_passed_status_over_a_failed_figure(release):
    def fail(facts):
        skill = next(m for m in facts["measurements"] if m["question"] == "utility")
        skill.update(value=0.2, low=0.1, high=0.3)

    evidence(release, fail)


@kind("hospital", "gate")
def a_figure_taken_out(release):
    evidence(release, lambda f: f.update(measurements=[m for m in f["measurements"] if m["question"] != "film"]))


@kind("hospital", "gate")
def a_failed_check_called_held(release):
    def fail(facts):
        facts["gate"]["checks"][0]["outcome"] = "failed"

    evidence(release, fail)


@kind("hospital", "gate")
def figures_of_another_release(release):
    evidence(release, lambda f: f["evaluation"].update(content_sha256="0" * 64))


@kind("hospital", "gate")
def films_exchanged_after_measuring(release):
    two_films_exchanged(release)


@kind("hospital", "gate")
def fewer_films_counted_than_there_are(release):
    evidence(release, lambda f: f["counts"].update(released=3))


@kind("hospital", "gate")
def other_reports_counted_than_there_are(release):
    evidence(release, lambda f: f["tallies"].update(reports=0))


@kind("hospital", "gate")
def a_negative_number_kept_back(release):
    evidence(release, lambda f: f["counts"].update(quarantined={"image-empty": -3}))


@kind("hospital", "gate")
def too_many_kept_back_for_the_stated_verdict(release):
    evidence(release, lambda f: f["counts"].update(quarantined={"image-empty": 80}))


@kind("hospital", "gate")
def an_exemption_that_the_question_does_not_know(release):
    def exempt(facts):
        film = [m for m in facts["measurements"] if m["question"] == "film"]
        for m in film:
            m.update(value=None, low=None, high=None, detail={"not_measured": "x", "exemption": "no reports"})

    evidence(release, exempt)


@kind("hospital", "gate")
def a_proof_by_construction_of_a_method_that_reads_pixels(release):
    evidence(release, lambda f: f["tallies"].update({construction.CHECKED: 12, construction.DIFFERED: 0}))


@kind("hospital", "gate")
def a_certificate_by_a_key_nobody_trusts(release):
    path = release.parent / "certificate.json"
    subject = certificate.Subject.of(MethodPolicy(name="keep"))
    certificate.write(path, certificate_made(subject), STRANGER)
    signed = json.loads(path.read_bytes())
    evidence(release, lambda f: f.update(certificates=[signed], subject=subject.to_json()))


@kind("hospital", "gate")
def a_certificate_of_another_method(release):
    path = release.parent / "certificate.json"
    certificate.write(path, certificate_made(), HOSPITAL)
    signed = json.loads(path.read_bytes())
    evidence(release, lambda f: f.update(certificates=[signed], subject=certificate_made().subject.to_json()))


@kind("hospital", "gate")
def a_certificate_without_its_subject(release):
    path = release.parent / "certificate.json"
    certificate.write(path, certificate_made(), HOSPITAL)
    evidence(release, lambda f: f.update(certificates=[json.loads(path.read_bytes())]))


# -- checksums and signature -------------------------------------------------------------------------------------------


@kind("list", "signature")
def a_film_altered_and_listed_anew(release):
    a_film_with_one_byte_more(release)


@kind("list", "signature")
def a_file_added_and_listed(release):
    (release / "extra.txt").write_text("x")


@kind()
def the_checksum_list_removed(release):
    (release / "checksums.sha256").unlink()


@kind()
def the_checksum_list_without_one_film_and_the_film_gone(release):
    name = films(release)[0].relative_to(release).as_posix()
    films(release)[0].unlink()
    lines = (release / "checksums.sha256").read_text().splitlines(keepends=True)
    (release / "checksums.sha256").write_text("".join(line for line in lines if name not in line))


def listing(release, change):
    """Change the checksum list and sign it with the hospital's own key."""
    path = release / "checksums.sha256"
    path.write_bytes(change(path.read_bytes()))
    sign(release, HOSPITAL, Seal("r" + "a" * 15, 1, DAY))


@kind(check="checksums")
def a_list_that_names_a_file_twice(release):
    listing(release, lambda text: text + text.splitlines(keepends=True)[0])


@kind(check="checksums")
def a_list_that_names_a_file_outside(release):
    (release.parent / "secret").write_bytes(b"")
    listing(
        release, lambda text: text + b"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  ../secret\n"
    )


@kind(check="checksums")
def a_list_with_a_line_of_another_form(release):
    listing(release, lambda text: text + b"trust me\n")


@kind()
def the_signature_removed(release):
    (release / "signature").unlink()


@kind()
def an_empty_signature(release):
    (release / "signature").write_bytes(b"")


@kind()
def a_signature_of_an_older_format(release):
    lines = [base64.b64encode(b"x" * 32), base64.b64encode(b"x" * 64)]
    (release / "signature").write_bytes(b"updp-signature-1\n" + b"\n".join(lines) + b"\n")


@kind()
def the_hospitals_signature_of_another_release(release):
    other = release.parent / "other"
    shutil.copytree(release, other)
    (other / "README.md").write_text("another")
    reseal(other, HOSPITAL)
    shutil.copy(other / "signature", release / "signature")


@kind()
def another_serial(release):
    edit(release / "signature", "serial 2", "serial 9")


@kind()
def another_date(release):
    edit(release / "signature", DAY.isoformat(), "2031-01-01")


@kind()
def another_name(release):
    edit(release / "signature", "release r", "release q")


@kind()
def the_strangers_key_beside_the_hospitals_signature(release):
    from updp.release.signature import public_key

    edit(release / "signature", PUBLIC, public_key(STRANGER))


@kind("stranger", "signer")
def a_release_signed_anew_by_a_stranger(release):
    pass


@kind("stranger", "signer")
def a_film_altered_and_signed_by_a_stranger(release):
    a_film_with_one_grey_value_changed(release)


@kind("stranger", "signer")
def evidence_invented_and_signed_by_a_stranger(release):
    def perfect(facts):
        for m in facts["measurements"]:
            m["n"] = 100_000

    evidence(release, perfect)


# -- recall ------------------------------------------------------------------------------------------------------------


def listed(release, key=HOSPITAL, **changes):
    stated = revocation.Revocations(1, DAY).to_json() | changes
    write_signed(release.parent / "revocations.json", "revocations", stated, key)


@kind(check="revocations")
def a_release_with_a_recalled_film(release):
    listed(release, films=[films(release)[0].stem])


@kind(check="revocations")
def a_release_with_another_film_of_a_recalled_patient(release):
    listed(release, patients=[next(iter(manifest.read(release)))["patient"]])


@kind(check="revocations")
def an_older_state_of_a_release(release):
    name = (release / "signature").read_text().split()[2]
    listed(release, newest={name: 3})


@kind(check="revocations")
def a_revocation_list_that_was_emptied(release):
    listed(release, films=[films(release)[0].stem])
    edit(release.parent / "revocations.json", films(release)[0].stem, "")


def tampered(release, name):
    alter, by, check = KINDS[name]
    alter(release)
    if by == "list":
        list_anew(release)
    elif by is not None:
        reseal(release, {"stranger": STRANGER, "hospital": HOSPITAL}[by])
    return check


def failed(result):
    return {check.name for check in result.checks if check.outcome is Outcome.FAILED}


def test_the_release_that_is_forged_passes_as_it_is(release):
    result = verify(release, trusted=PUBLIC)
    assert result.intact, result.checks
    assert result.status == "passed"


def test_there_are_enough_kinds():
    assert len(KINDS) >= 40


POSIX = [name for name in KINDS if any(word in name for word in ("link", "pipe", "cursor", "renamed"))]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.posix) if n in POSIX else n for n in KINDS])
def test_it_is_found(release, name):
    check = tampered(release, name)
    result = verify(release, trusted=PUBLIC)
    assert failed(result)
    assert not result.intact
    if check:
        assert check in failed(result), result.checks


@pytest.mark.parametrize("name", [name for name, (_, by, _) in KINDS.items() if by == "stranger"])
def test_nothing_a_stranger_signed_is_accepted_without_a_key_to_compare(release, name):
    tampered(release, name)
    result = verify(release)
    assert not result.intact
    assert "updp key fingerprint" in result.check("signer").detail
    assert Path(result.folder) == release
