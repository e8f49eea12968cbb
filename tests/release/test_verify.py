import shutil
from dataclasses import replace

import pytest

from tests.release.sealed import DAY, HOSPITAL, PUBLIC, STRANGER, made, passed
from tests.release.test_gate import BAD, GOOD
from updp.core.questions import Outcome
from updp.release import signature
from updp.release.signature import BadMemory, check_signature, check_sums, fingerprint, public_key, sign
from updp.release.verify import NotARelease, verify


@pytest.fixture(scope="module")
def unmeasured(tmp_path_factory):
    return made(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def release(unmeasured, tmp_path):
    return shutil.copytree(unmeasured, tmp_path / "unmeasured")


def test_an_untouched_release_is_intact_and_says_what_was_never_measured(release):
    result = verify(release, trusted=PUBLIC)
    assert result.intact
    assert result.status == "not-measured"
    assert result.check("gate").outcome is Outcome.NOT_ASKED
    assert "film" in result.check("gate").detail


@pytest.mark.parametrize(
    "trusted", [PUBLIC, f" {PUBLIC}\n", fingerprint(PUBLIC), fingerprint(PUBLIC).replace(" ", "-")]
)
def test_the_signer_is_known_by_his_key_or_its_fingerprint(release, trusted):
    assert verify(release, trusted=trusted).check("signer").outcome is Outcome.HELD


@pytest.mark.parametrize("trusted", ["", "x", public_key(STRANGER), fingerprint(public_key(STRANGER)), PUBLIC[:-4]])
def test_any_other_key_is_refused(release, trusted):
    result = verify(release, trusted=trusted)
    assert result.check("signer").outcome is Outcome.FAILED
    assert not result.intact


def test_an_unknown_signer_is_an_open_question_with_the_way_to_answer_it(release):
    result = verify(release)
    assert result.check("signer").outcome is Outcome.UNANSWERED
    assert not result.intact
    assert fingerprint(PUBLIC) in result.check("signer").detail
    assert "updp key fingerprint" in result.check("signer").detail
    accepted = verify(release, accept_unknown_signer=True)
    assert accepted.intact
    assert not accepted.check("signer").outcome.good


def test_a_release_signed_anew_by_anybody_is_never_intact_by_itself(release):
    sign(release, STRANGER, check_signature(release))
    assert not verify(release).intact
    assert verify(release, accept_unknown_signer=True, trusted=PUBLIC).check("signer").outcome is Outcome.FAILED


def test_the_verdict_is_computed_from_the_figures(release):
    assert verify(passed(release), trusted=PUBLIC).status == "passed"
    blocked = passed(release.parent / "release", GOOD | {"utility": [BAD["utility"]]})
    result = verify(blocked, trusted=PUBLIC)
    assert (result.status, result.check("gate").outcome) == ("blocked", Outcome.FAILED)


def test_a_release_sealed_anew_keeps_its_name_and_gets_the_next_serial_and_the_days_date(release):
    before = check_signature(release, PUBLIC)
    after = verify(passed(release), trusted=PUBLIC).seal
    assert after == replace(before, serial=2, date=DAY)
    assert before.serial == 1


@pytest.mark.parametrize("damage", [b"", b"updp-signature-2\nx\ny\n", b"\xff" * 40, b"updp-signature-1\n\n\n"])
def test_a_damaged_signature_is_a_failed_check_not_a_crash(release, damage):
    (release / "signature").write_bytes(damage)
    result = verify(release, trusted=PUBLIC)
    assert result.check("signature").outcome is Outcome.FAILED
    assert result.status == "unknown"


def test_phi_in_a_report_is_found_by_the_second_detector_and_not_repeated(release):
    path = next((release / "reports").iterdir())
    path.write_text(path.read_text().replace("No pneumothorax.", "Seen by Dr. Margaret Thornbury on 03/14/2019."))
    residual = verify(release, trusted=PUBLIC).check("residual PHI")
    assert residual.outcome is Outcome.FAILED
    assert "Thornbury" not in residual.detail
    assert path.name in residual.detail


def test_the_name_of_a_file_cannot_write_on_the_screen(release):
    (release / "\x1b[2J[green]safe").write_text("x")
    detail = verify(release, trusted=PUBLIC).check("checksums").detail
    assert detail.isprintable()


def test_a_folder_that_is_no_release_is_said_so(tmp_path):
    with pytest.raises(NotARelease, match=r"manifest\.parquet"):
        verify(tmp_path)


def test_the_hospital_that_signed_can_sign_again(release):
    sign(release, HOSPITAL, check_signature(release))
    assert verify(release, trusted=PUBLIC).intact


def test_a_check_that_remembers_reads_changed_files_only(release, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(signature, "file_sum", lambda path, own=signature.file_sum: read.append(path.name) or own(path))
    known = tmp_path / "known.json"
    assert verify(release, trusted=PUBLIC, remember=known).intact
    films = [path.name for path in release.rglob("*.png")]
    assert set(films) <= set(read)
    read.clear()
    assert verify(release, trusted=PUBLIC, remember=known).intact
    assert set(read) == {"checksums.sha256"}  # what is signed is always read
    altered = next(release.rglob("*.png"))
    altered.write_bytes(altered.read_bytes() + b"x")
    result = verify(release, trusted=PUBLIC, remember=known)
    assert not result.intact
    assert altered.name in result.check("checksums").detail
    assert altered.name in read


def test_what_is_remembered_never_lies_in_the_release_and_is_not_guessed_from_a_damaged_file(release, tmp_path):
    with pytest.raises(BadMemory, match="outside the release"):
        verify(release, trusted=PUBLIC, remember=release / "known.json")
    (tmp_path / "known.json").write_text('{"a": 1}')
    with pytest.raises(BadMemory, match="remove it"):
        verify(release, trusted=PUBLIC, remember=tmp_path / "known.json")


def test_faults_are_the_same_with_any_number_of_threads(release):
    (release / "stray.txt").write_text("x")
    next(release.rglob("*.png")).unlink()
    assert list(check_sums(release, workers=1)) == list(check_sums(release, workers=5))
    assert len(list(check_sums(release))) == 2
