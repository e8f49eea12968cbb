"""The films of a release to DCMTK's archive: only what passed, each once, also after a cut."""

from __future__ import annotations

import re

import pytest

from tests.conftest import PLAIN, Hospital
from tests.network.dcmtk import call, cutting, pacs
from tests.release.sealed import HOSPITAL, PUBLIC, STRANGER, passed
from updp.core.policy import Policy
from updp.network.association import NetworkError, Peer
from updp.network.send import send
from updp.pipeline.run import deidentify
from updp.release.signature import public_key


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    root = tmp_path_factory.mktemp("send")
    policy = Policy.parse(PLAIN.replace("size = 64", "size = 64\nformat = 'dicom'"))
    made = deidentify(Hospital(root / "export", 6).write(), root / "out", policy=policy, key=HOSPITAL, workers=1)
    return passed(made.folder)


@pytest.fixture
def peer(tmp_path):
    with pacs(tmp_path / "pacs") as port:
        yield Peer("127.0.0.1", port, "PACS", "UPDP", timeout=10)


@pytest.fixture(autouse=True)
def _no_journal(release):
    yield
    for left in release.parent.glob("sent-*.txt"):
        left.unlink()


def in_archive(peer: Peer) -> list[str]:
    """Object UIDs in the archive, by DCMTK's own query."""
    found = []
    for study in uids(peer, "STUDY", "StudyInstanceUID"):
        for series in uids(peer, "SERIES", "SeriesInstanceUID", StudyInstanceUID=study):
            found += uids(peer, "IMAGE", "SOPInstanceUID", StudyInstanceUID=study, SeriesInstanceUID=series)
    return sorted(found)


def uids(peer: Peer, level: str, wanted: str, **above: str) -> list[str]:
    keys = [f"QueryRetrieveLevel={level}", f"{wanted}=", *(f"{name}={value}" for name, value in above.items())]
    words = [word for key in keys for word in ("-k", key)]
    said = call("findscu", "-S", "-aec", "PACS", *words, peer.host, peer.port)
    number = {"STUDY": "0020,000d", "SERIES": "0020,000e", "IMAGE": "0008,0018"}[level]
    return re.findall(rf"\({number}\) UI \[([0-9.]+)", said.stdout + said.stderr)


def objects(release) -> list[str]:
    import pydicom

    return sorted(str(pydicom.dcmread(path).SOPInstanceUID) for path in release.glob("images/*/*.dcm"))


def test_every_film_arrives_and_again_none_is_sent(release, peer):
    first = send(release, peer, trusted=PUBLIC)
    assert (first.films, first.sent, first.before) == (6, 6, 0)
    assert in_archive(peer) == objects(release)
    again = send(release, peer, trusted=PUBLIC)
    assert (again.sent, again.before) == (0, 6)


def test_after_a_cut_the_same_command_sends_the_rest(release, peer, monkeypatch):
    size = next(release.glob("images/*/*.dcm")).stat().st_size
    with cutting(peer.port, after=int(2.5 * size)) as port, pytest.raises(NetworkError, match="run the same command"):
        send(release, Peer("127.0.0.1", port, "PACS", "UPDP", timeout=5), trusted=PUBLIC)
    journal = next(release.parent.glob("sent-*.txt"))
    assert 0 < len(journal.read_text().splitlines()) < 6
    monkeypatch.setattr("updp.network.send._name", lambda _: journal.stem.removeprefix("sent-"))
    rest = send(release, peer, trusted=PUBLIC)
    assert 0 < rest.sent < 6
    assert in_archive(peer) == objects(release)


def test_what_did_not_pass_or_is_not_signed_by_whom_we_trust_stays(release, tmp_path, peer):
    with pytest.raises(NetworkError, match="nothing is sent"):
        send(release, peer, trusted=public_key(STRANGER))
    policy = Policy.parse(PLAIN.replace("size = 64", "size = 64\nformat = 'dicom'"))
    source = Hospital(tmp_path / "other", 2).write()
    unmeasured = deidentify(source, tmp_path / "o", policy=policy, key=HOSPITAL, workers=1)
    with pytest.raises(NetworkError, match="nothing is sent"):
        send(unmeasured.folder, peer, trusted=PUBLIC)
    assert in_archive(peer) == []


def test_a_release_of_other_pictures_says_how_to_make_one_of_dicom(tmp_path):
    source = Hospital(tmp_path / "e", 2).write()
    made = deidentify(source, tmp_path / "o", policy=Policy.parse(PLAIN), key=HOSPITAL, workers=1)
    with pytest.raises(NetworkError, match="format = 'dicom'"):
        send(passed(made.folder), Peer("127.0.0.1", 1, "PACS", "UPDP"), trusted=PUBLIC)
