"""Studies from DCMTK's archive: what the query asks for, once, also after a cut."""

from __future__ import annotations

import shutil

import pytest

from tests.network.dcmtk import call, cutting, films, free_port, landed, pacs, uid
from updp.network.association import NetworkError, Peer
from updp.network.fetch import fetch, read_query

WANTED = '[[study]]\nPatientID = ["MRN7741982-0", "MRN7741982-2"]\n'


@pytest.fixture
def query(tmp_path):
    (tmp_path / "query.toml").write_text(WANTED)
    return read_query(tmp_path / "query.toml")


@pytest.fixture
def archive(tmp_path):
    """An archive with films 0 to 7 of four patients, that knows where UPDP listens."""
    here = free_port()
    with pacs(tmp_path / "pacs", {"UPDP": here}) as port:
        sent = call("storescu", "-aec", "PACS", "127.0.0.1", port, *films(tmp_path / "sent", range(8), side=64))
        assert sent.returncode == 0, sent.stderr
        yield Peer("127.0.0.1", port, "PACS", "UPDP", timeout=10), here


def test_a_query_fetches_its_studies_and_again_nothing(tmp_path, archive, query):
    export = tmp_path / "export"
    seen = []
    first = fetch(archive[0], query, export, progress=lambda done, of: seen.append((done, of)))
    assert landed(export).keys() == {uid(n) for n in (0, 1, 4, 5)}
    assert (first.studies, first.objects, first.present, first.missing) == (2, 4, 0, 0)
    assert seen == [(0, 2), (1, 2), (2, 2)]
    again = fetch(archive[0], query, export)
    assert (again.objects, again.present) == (0, 4)


def test_only_what_is_missing_is_fetched_again(tmp_path, archive, query):
    export = tmp_path / "export"
    fetch(archive[0], query, export)
    next(export.rglob(f"{uid(1)}.dcm")).unlink()
    shutil.rmtree(next(export.rglob(f"{uid(4)}.dcm")).parent)
    again = fetch(archive[0], query, export)
    assert (again.objects, again.present) == (3, 1)
    assert landed(export).keys() == {uid(n) for n in (0, 1, 4, 5)}


def test_by_move_the_archive_sends_to_us(tmp_path, archive, query):
    peer, here = archive
    found = fetch(peer, query, tmp_path / "export", how="move", port=here)
    assert (found.objects, found.missing) == (4, 0)
    assert landed(tmp_path / "export").keys() == {uid(n) for n in (0, 1, 4, 5)}


def test_a_title_that_the_archive_cannot_reach_is_a_sentence(tmp_path, archive, query):
    peer = Peer("127.0.0.1", archive[0].port, "PACS", "NOBODY", timeout=10)
    with pytest.raises(NetworkError, match="does not know where 'NOBODY' listens"):
        fetch(peer, query, tmp_path / "export", how="move", port=0)


def test_a_series_may_be_asked_for_by_its_attributes(tmp_path, archive):
    (tmp_path / "ct.toml").write_text(WANTED + '[series]\nModality = "CT"\n')
    found = fetch(archive[0], read_query(tmp_path / "ct.toml"), tmp_path / "export")
    assert (found.studies, found.objects) == (2, 0)


def test_a_connection_that_is_cut_is_a_sentence_and_the_next_call_goes_on(tmp_path, archive, query):
    peer, _ = archive
    cut_off = pytest.raises(NetworkError, match="stopped answering; what arrived is kept")
    with cutting(peer.port, after=12_000, answers=True) as port, cut_off:  # in the second film of a study
        fetch(Peer("127.0.0.1", port, "PACS", "UPDP", timeout=10), query, tmp_path / "export")
    assert len(landed(tmp_path / "export")) == 1
    again = fetch(peer, query, tmp_path / "export")
    assert (again.present, again.objects, again.missing) == (1, 3, 0)


def test_objects_that_find_no_room_are_counted_as_missing(tmp_path, archive, query):
    found = fetch(archive[0], query, tmp_path / "export", keep_free=2**62)
    assert (found.objects, found.missing) == (0, 4)
    assert fetch(archive[0], query, tmp_path / "export").objects == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "whole archive"),
        ("[[study]]\n", "whole archive"),
        ("[[study]]\nPatientId = '1'\n", "did you mean 'PatientID'"),
        ("[[study]]\nPatientID = ''\n", "not empty"),
        ("[[study]]\nPatientID = []\n", "not empty"),
        ("[[study]]\nPatientID = 7\n", "texts"),
        ("study = 7\n", "not a table"),
        ("[[study]]\nPatientID = '1'\n[image]\n", "unknown table 'image'"),
        ("[[study\n", "not TOML"),
    ],
)
def test_a_query_that_is_wrong_says_where(tmp_path, text, message):
    (tmp_path / "query.toml").write_text(text)
    with pytest.raises(NetworkError, match=message):
        read_query(tmp_path / "query.toml")


def test_a_query_that_is_not_there_is_a_sentence(tmp_path):
    with pytest.raises(NetworkError, match="cannot be read"):
        read_query(tmp_path / "missing.toml")


def test_lists_ask_for_every_combination(tmp_path):
    (tmp_path / "q.toml").write_text('[[study]]\nStudyDate = "2024-"\nModalitiesInStudy = ["CR", "DX"]\n')
    asked = read_query(tmp_path / "q.toml")
    assert [dict(one) for one in asked.studies] == [
        {"StudyDate": "2024-", "ModalitiesInStudy": "CR"},
        {"StudyDate": "2024-", "ModalitiesInStudy": "DX"},
    ]
    assert asked.series == ({},)
