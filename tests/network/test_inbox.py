"""Objects land whole, once, and never at another place."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from tests.network.dcmtk import film, landed, uid
from updp.core.storage import OutputError
from updp.network import inbox as module
from updp.network.association import NetworkError
from updp.network.inbox import STATUS, Inbox, Landing
from updp.sources.dicom import Dicom
from updp.sources.files import INCOMING


@pytest.fixture
def inbox(tmp_path):
    made = Inbox(tmp_path / "export")
    yield made
    made.close()


def test_an_object_lands_once_and_what_it_holds_is_found_again(tmp_path, inbox):
    assert [inbox.take(film(1), uid(1)) for _ in range(2)] == [Landing.STORED, Landing.PRESENT]
    path = inbox.path(uid(1))
    assert path.read_bytes() == film(1)
    assert path.stat().st_mode & 0o777 == 0o600
    inbox.close()
    again = Inbox(tmp_path / "export")
    assert (len(again), uid(1) in again, again.take(film(1), uid(1))) == (1, True, Landing.PRESENT)
    again.close()


def encapsulated(n):
    """A film that claims to be compressed."""
    import io

    import pydicom
    from pydicom.encaps import encapsulate

    made = pydicom.dcmread(io.BytesIO(film(n)))
    made.PixelData = encapsulate([bytes(100_000)])
    made["PixelData"].VR = "OB"
    made.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.80"
    out = io.BytesIO()
    pydicom.dcmwrite(out, made)
    return out.getvalue()


def test_large_pixels_land_whether_they_are_compressed_or_not(inbox):
    for n, data in enumerate((film(0, side=256), encapsulated(1))):
        assert inbox.take(data, uid(n)) is Landing.STORED
        assert inbox.path(uid(n)).read_bytes() == data


@pytest.mark.parametrize(
    ("data", "announced", "landing"),
    [
        (film(1)[:-1], uid(1), Landing.NOT_WHOLE),
        (film(1)[:399], uid(1), Landing.NOT_WHOLE),
        (film(1, side=256)[:-1], uid(1), Landing.NOT_WHOLE),
        (film(1, side=256)[:-100_000], uid(1), Landing.NOT_WHOLE),
        (encapsulated(1)[:-8], uid(1), Landing.NOT_WHOLE),  # without its delimiter
        (b"no DICOM at all", uid(1), Landing.NOT_WHOLE),
        (b"", uid(1), Landing.NOT_WHOLE),
        (film(1), uid(2), Landing.UNSAFE),
        (film(1, StudyInstanceUID="1.2/../../x"), uid(1), Landing.UNSAFE),
        (film(1, StudyInstanceUID=""), uid(1), Landing.UNSAFE),
        (film(1, StudyInstanceUID="1." * 40 + "1"), uid(1), Landing.UNSAFE),
    ],
)
def test_what_is_not_whole_or_has_no_safe_name_is_refused_and_leaves_nothing(inbox, data, announced, landing):
    assert inbox.take(data, announced) is landing
    assert STATUS[landing] != 0
    assert landed(inbox.export) == {}


def test_another_object_under_the_same_uid_does_not_replace_the_first(inbox):
    inbox.take(film(1), uid(1))
    assert inbox.take(film(1, side=40), uid(1)) is Landing.DIFFERENT
    assert inbox.take(film(1, study=99), uid(1)) is Landing.DIFFERENT
    assert inbox.path(uid(1)).read_bytes() == film(1)
    assert len(landed(inbox.export)) == 1


def test_a_sender_of_another_make_sends_the_same_object(inbox):
    import io

    import pydicom

    other = pydicom.dcmread(io.BytesIO(film(1)))
    other.file_meta.SourceApplicationEntityTitle = "ELSEWHERE"
    out = io.BytesIO()
    pydicom.dcmwrite(out, other)
    inbox.take(film(1), uid(1))
    assert inbox.take(out.getvalue(), uid(1)) is Landing.PRESENT


def test_threads_that_bring_the_same_object_store_it_once(inbox):
    landings = []
    data = film(3, side=256)
    threads = [threading.Thread(target=lambda: landings.append(inbox.take(data, uid(3)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(landings) == [Landing.PRESENT] * 7 + [Landing.STORED]
    assert inbox.path(uid(3)).read_bytes() == data


def test_a_full_disk_refuses_and_the_object_may_come_again(inbox, monkeypatch):
    monkeypatch.setattr(inbox, "keep_free", 2**62)
    assert inbox.take(film(1), uid(1)) is Landing.NO_ROOM
    monkeypatch.setattr(inbox, "keep_free", 0)

    def full(*_args, **_settings):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as broken:
        broken.setattr(module, "write_bytes", full)
        assert inbox.take(film(1), uid(1)) is Landing.NO_ROOM
    assert uid(1) not in inbox
    assert inbox.take(film(1), uid(1)) is Landing.STORED


def test_what_a_killed_program_left_behind_goes_and_is_no_part_of_the_export(tmp_path):
    export = tmp_path / "export"
    (export / INCOMING).mkdir(parents=True)
    (export / INCOMING / f".{uid(7)}.dcm.4711.1f").write_bytes(film(7)[:300])
    from updp.domains import DOMAINS

    assert list(Dicom(export, domain=DOMAINS["chest"])) == []
    assert not Dicom.recognises(export)
    inbox = Inbox(export)
    assert landed(export) == {}
    inbox.close()


def test_two_programs_cannot_write_to_one_export(inbox):
    with pytest.raises(NetworkError, match="another"):
        Inbox(inbox.export)


@pytest.mark.posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_an_export_without_permission_is_a_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable"):
        Inbox(tmp_path / "export")


def test_an_export_that_is_a_file_is_a_sentence(tmp_path):
    (tmp_path / "export").write_text("x")
    with pytest.raises(OutputError):
        Inbox(tmp_path / "export")
