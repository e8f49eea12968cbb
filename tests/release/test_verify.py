import json
import shutil

import pytest

from tests.conftest import Hospital
from updp.core.keys import Key
from updp.core.questions import Outcome
from updp.pipeline.run import deidentify
from updp.release.signature import check_signature, public_key, sign
from updp.release.verify import NotARelease, verify


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    from tests.conftest import PLAIN
    from updp.core.policy import Policy

    root = tmp_path_factory.mktemp("verify")
    source = Hospital(root / "export").write()
    deidentify(source, root / "out", key=Key(bytes(range(32))), policy=Policy.parse(PLAIN), workers=1)
    return root / "out" / "unmeasured"


@pytest.fixture
def release(made, tmp_path):
    return shutil.copytree(made, tmp_path / "release")


def faults(release, **more):
    return {check.name for check in verify(release, **more).checks if check.outcome is Outcome.FAILED}


def test_an_untouched_release_is_intact_and_says_what_was_never_measured(release):
    result = verify(release)
    assert result.intact
    gate = next(check for check in result.checks if check.name == "gate")
    assert gate.outcome is Outcome.NOT_ASKED
    assert "film" in gate.detail


def test_a_changed_film_is_found(release):
    film = next((release / "images").rglob("*.png"))
    film.write_bytes(film.read_bytes() + b"\0")
    assert faults(release) == {"checksums"}


def test_a_removed_film_is_found(release):
    next((release / "images").rglob("*.png")).unlink()
    assert faults(release) == {"checksums", "schema"}


def test_an_added_file_is_found(release):
    (release / "images" / "extra.png").write_bytes(b"x")
    assert faults(release) == {"checksums"}


def test_a_file_replaced_by_a_link_is_found(release, tmp_path):
    film = next((release / "images").rglob("*.png"))
    shutil.move(film, tmp_path / "away.png")
    film.symlink_to(tmp_path / "away.png")
    assert faults(release) == {"checksums"}


def test_a_changed_checksum_list_breaks_the_signature(release):
    listing = release / "checksums.sha256"
    listing.write_text(listing.read_text().replace("  README.md", "  READ.md"))
    assert "signature" in faults(release)


def test_a_release_signed_anew_by_another_key_is_not_trusted(release, key):
    sign(release, Key(bytes(32)))
    assert faults(release) == set()
    assert faults(release, trusted=public_key(key)) == {"signature"}


def test_the_trusted_key_is_recognised(release, key):
    assert check_signature(release, public_key(key)) == public_key(key)
    assert verify(release, trusted=public_key(key)).intact


@pytest.mark.parametrize("damage", [b"", b"updp-signature-1\nx\ny\n", b"\xff" * 40, b"updp-signature-1\n\n\n"])
def test_a_damaged_signature_is_a_failed_check_not_a_crash(release, damage):
    (release / "signature").write_bytes(damage)
    assert "signature" in faults(release)


def test_phi_in_a_report_is_found_by_the_second_detector_and_not_repeated(release):
    path = next((release / "reports").iterdir())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["sections"]["findings"] = "Discussed with Dr. Margaret Thornbury on 03/14/2019, phone 555-867-5309."
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = verify(release)
    residual = next(check for check in result.checks if check.name == "residual PHI")
    assert residual.outcome is Outcome.FAILED
    assert "Thornbury" not in residual.detail
    assert path.name in residual.detail


def test_a_report_of_a_film_that_is_not_there_is_found(release):
    path = next((release / "reports").iterdir())
    path.write_text(path.read_text().replace('"release_id": "f', '"release_id": "x', 1))
    assert "schema" in faults(release)


def test_evidence_that_is_missing_fails_the_gate(release):
    (release / "evidence" / "evaluation.json").unlink()
    assert {"gate", "checksums"} <= faults(release)


def test_a_folder_that_is_no_release_is_said_so(tmp_path):
    with pytest.raises(NotARelease, match=r"manifest\.parquet"):
        verify(tmp_path)
