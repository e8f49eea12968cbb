import datetime as dt
import json

import pytest

from tests.conftest import CANARIES, PLAIN, Hospital
from tests.release.sealed import DAY, HOSPITAL, PUBLIC, STRANGER
from updp.core.policy import Policy
from updp.core.questions import Outcome
from updp.pipeline.run import deidentify
from updp.release import manifest, revocation
from updp.release.revocation import BadRevocations, NothingToRecall, recall
from updp.release.verify import verify


@pytest.fixture(scope="module")
def outs(tmp_path_factory):
    """Two releases of one hospital, of which the second has half the patients."""
    root = tmp_path_factory.mktemp("recall")
    for name, films in (("a", 8), ("b", 4)):
        source = Hospital(root / f"export-{name}", films=films).write()
        deidentify(source, root / name, key=HOSPITAL, policy=Policy.parse(PLAIN), workers=1)
    return [root / "a", root / "b"]


def rows_of(out):
    return list(manifest.read(out / "unmeasured"))


def test_recall_finds_the_patients_films_in_every_release(outs, tmp_path):
    made, found = recall("Zanthora-1", outs, tmp_path / "list.json", HOSPITAL, DAY)
    assert [len(one.films) for one in found] == [2, 2]
    for out, one in zip(outs, found, strict=True):
        assert {row["release_id"] for row in rows_of(out) if row["patient"] in one.patients} == set(one.films)
    assert (made.serial, made.date) == (1, DAY)
    assert not any(word in (tmp_path / "list.json").read_text() for word in CANARIES)


def test_verify_fails_a_release_that_holds_a_recalled_film_and_no_other(outs, tmp_path):
    recall("Zanthora-3", outs, tmp_path / "list.json", HOSPITAL, DAY)
    one, two = (verify(out / "unmeasured", trusted=PUBLIC, revocations=tmp_path / "list.json") for out in outs)
    assert one.check("revocations").outcome is Outcome.FAILED
    assert not one.intact
    assert two.check("revocations").outcome is Outcome.HELD
    assert two.intact


def test_a_list_grows_and_forgets_nothing(outs, tmp_path):
    first, _ = recall("Zanthora-0", outs, tmp_path / "list.json", HOSPITAL, DAY)
    second, _ = recall("Zanthora-1", outs, tmp_path / "list.json", HOSPITAL, DAY + dt.timedelta(days=3))
    assert second.serial == 2
    assert first.films < second.films
    assert revocation.read(tmp_path / "list.json", PUBLIC) == second


def test_a_patient_who_is_in_no_release_leaves_no_list(outs, tmp_path):
    with pytest.raises(NothingToRecall):
        recall("Zanthora-77", outs, tmp_path / "list.json", HOSPITAL, DAY)
    assert not (tmp_path / "list.json").exists()


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"\xff", b'{"revocations": {"format": "updp-revocations-1"}}'])
def test_what_is_no_list_fails_and_never_crashes(outs, tmp_path, raw):
    (tmp_path / "list.json").write_bytes(raw)
    result = verify(outs[0] / "unmeasured", trusted=PUBLIC, revocations=tmp_path / "list.json")
    assert result.check("revocations").outcome is Outcome.FAILED


def test_a_list_that_is_missing_or_by_another_hospital_fails_if_it_was_asked_for(outs, tmp_path):
    for place in (tmp_path / "none.json", tmp_path / "list.json"):
        result = verify(outs[0] / "unmeasured", trusted=PUBLIC, revocations=place)
        assert result.check("revocations").outcome is Outcome.FAILED
        revocation.write_signed(tmp_path / "list.json", "revocations", revocation.Revocations().to_json(), STRANGER)


def test_a_list_by_another_hospital_beside_the_release_is_passed_over(outs):
    path = outs[0] / "revocations.json"
    films = [row["release_id"] for row in rows_of(outs[0])]
    stated = revocation.Revocations(1, DAY, frozenset(films)).to_json()
    revocation.write_signed(path, "revocations", stated, STRANGER)
    try:
        assert verify(outs[0] / "unmeasured", trusted=PUBLIC).check("revocations") is None
    finally:
        path.unlink()


def test_a_list_that_was_altered_is_not_added_to(outs, tmp_path):
    recall("Zanthora-0", outs, tmp_path / "list.json", HOSPITAL, DAY)
    whole = json.loads((tmp_path / "list.json").read_bytes())
    whole["revocations"]["films"] = []
    (tmp_path / "list.json").write_text(json.dumps(whole))
    with pytest.raises(BadRevocations, match="altered"):
        recall("Zanthora-1", outs, tmp_path / "list.json", HOSPITAL, DAY)
