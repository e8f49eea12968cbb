"""A Storage SCP, called by DCMTK's programs: nothing lost, nothing doubled."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conftest import CANARIES
from tests.network.dcmtk import DX, call, certificate, cutting, film, films, landed, pacs, pixels, tool, uid
from updp.network.association import NetworkError, Peer, Tls, associated
from updp.network.receive import COMMITMENT, Receiver

SEND = ("-aec", "UPDP", "-R", "127.0.0.1")


@pytest.fixture
def receiver(tmp_path):
    with Receiver(tmp_path / "export", title="UPDP", host="127.0.0.1", timeout=10) as made:
        yield made


def count(receiver: Receiver, **labels: str) -> float:
    return receiver.metrics.value("updp_received_objects_total", **labels)


def test_four_senders_at_once_lose_and_double_nothing(tmp_path, receiver):
    sent = [films(tmp_path / f"sender{s}", range(s * 4, s * 4 + 6)) for s in range(4)]  # two films come twice
    with ThreadPoolExecutor(4) as senders:
        ends = list(senders.map(lambda paths: call("storescu", *SEND, receiver.port, *paths), sent))
    assert [end.returncode for end in ends] == [0] * 4, [end.stderr for end in ends]
    assert landed(receiver.inbox.export).keys() == {uid(n) for n in range(18)}
    assert (count(receiver, landing="stored"), count(receiver, landing="present-already")) == (18, 6)
    for paths in sent:
        for path in paths:
            assert pixels(receiver.inbox.path(uid(int(path.stem)))) == pixels(path)


def test_a_connection_that_is_cut_leaves_whole_objects_and_the_sender_goes_on(tmp_path, receiver):
    paths = films(tmp_path / "sent", range(6), side=64)
    size = paths[0].stat().st_size
    with cutting(receiver.port, after=int(2.5 * size) + 5000) as port:
        assert call("storescu", *SEND, port, *paths).returncode != 0
    assert 0 < len(landed(receiver.inbox.export)) < 6
    for name in landed(receiver.inbox.export):
        assert pixels(receiver.inbox.path(name)) == pixels(tmp_path / "sent" / f"{name.rpartition('.')[2]}.dcm")
    assert call("storescu", *SEND, receiver.port, *paths).returncode == 0
    assert landed(receiver.inbox.export).keys() == {uid(n) for n in range(6)}
    assert count(receiver, landing="stored") == 6


def test_an_echo_is_answered_and_a_title_that_is_not_ours_is_rejected(receiver):
    assert call("echoscu", "-aec", "UPDP", "127.0.0.1", receiver.port).returncode == 0
    assert call("echoscu", "-aec", "OTHER", "127.0.0.1", receiver.port).returncode != 0


def test_a_caller_who_is_not_on_the_list_gets_no_association(tmp_path):
    with Receiver(tmp_path / "export", title="UPDP", host="127.0.0.1", allow=["CT1", "CR2"]) as made:
        path = films(tmp_path / "sent", [1])[0]
        assert call("storescu", "-aet", "ELSEWHERE", *SEND, made.port, path).returncode != 0
        assert landed(made.inbox.export) == {}
        assert made.metrics.value("updp_associations_total", how="rejected") == 1
        assert call("storescu", "-aet", "CR2", *SEND, made.port, path).returncode == 0
        with (
            pytest.raises(NetworkError, match="does not know the AE title 'UNKNOWN'"),
            associated(Peer("127.0.0.1", made.port, "UPDP", "UNKNOWN", timeout=5), [(DX, ())]),
        ):
            pass


def test_beyond_the_limit_of_associations_a_sender_is_told_to_come_again(tmp_path):
    with Receiver(tmp_path / "export", title="UPDP", host="127.0.0.1", associations=1) as made:
        peer = Peer("127.0.0.1", made.port, "UPDP", "ONE", timeout=5)
        with associated(peer, [(DX, ())]):
            assert call("echoscu", "-aec", "UPDP", "127.0.0.1", made.port).returncode != 0
            with pytest.raises(NetworkError, match="no further association now"), associated(peer, [(DX, ())]):
                pass
        assert any(call("echoscu", "-aec", "UPDP", "127.0.0.1", made.port).returncode == 0 for _ in range(20))


def test_a_disk_that_fills_refuses_objects_and_keeps_what_it_confirmed(tmp_path, receiver):
    first, second = films(tmp_path / "sent", [0, 1])
    assert call("storescu", *SEND, receiver.port, first).returncode == 0
    receiver.inbox.keep_free = 2**62
    refused = call("storescu", "-v", *SEND, receiver.port, second)
    assert "OutOfResources" in refused.stderr + refused.stdout
    assert landed(receiver.inbox.export).keys() == {uid(0)}
    assert count(receiver, landing="no-room") == 1
    receiver.inbox.keep_free = 0
    assert call("storescu", *SEND, receiver.port, second).returncode == 0
    assert landed(receiver.inbox.export).keys() == {uid(0), uid(1)}


def test_by_tls_an_object_arrives_and_in_the_clear_none_does(tmp_path):
    ours, theirs = certificate(tmp_path, "updp"), certificate(tmp_path, "sender")
    path = films(tmp_path / "sent", [1])[0]
    tls = Tls(*ours, authority=theirs[0])
    with Receiver(tmp_path / "export", title="UPDP", host="127.0.0.1", tls=tls, timeout=5) as made:
        assert call("storescu", *SEND, made.port, path).returncode != 0
        unknown = ("+tls", *reversed(certificate(tmp_path, "stranger")), "+cf", ours[0])
        assert call("storescu", *unknown, *SEND, made.port, path).returncode != 0
        assert landed(made.inbox.export) == {}
        known = ("+tls", *reversed(theirs), "+cf", ours[0])
        good = call("storescu", *known, *SEND, made.port, path)
        assert good.returncode == 0, good.stderr
        assert landed(made.inbox.export).keys() == {uid(1)}


def test_an_archive_moves_a_study_here(tmp_path, receiver):
    paths = films(tmp_path / "sent", range(4), study=5)
    with pacs(tmp_path, {"UPDP": receiver.port}) as port:
        assert call("storescu", "-aec", "PACS", "127.0.0.1", port, *paths).returncode == 0
        asked = ("-k", "QueryRetrieveLevel=STUDY", "-k", "StudyInstanceUID=1.2.826.0.1.3680043.9.2.5")
        moved = call("movescu", "-S", "-aec", "PACS", "-aem", "UPDP", *asked, "127.0.0.1", port)
        assert moved.returncode == 0, moved.stderr
    assert landed(receiver.inbox.export).keys() == {uid(n) for n in range(4)}


# -- storage commitment: DCMTK has no program that asks for it ---------------------------------------------------------


def asked_for(*numbers: int, kind: str = DX):
    from pydicom import Dataset

    made = Dataset()
    made.TransactionUID = "1.2.3.4.5"
    made.ReferencedSOPSequence = []
    for n in numbers:
        item = Dataset()
        item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = kind, uid(n)
        made.ReferencedSOPSequence.append(item)
    return made


class Listener:
    """What a sender does with a commitment report."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __call__(self, event):
        self.report, self.kind = event.event_information, event.request.EventTypeID
        self.event.set()
        return 0x0000, None

    def uids(self, sequence: str) -> list[str]:
        assert self.event.wait(20)
        return [str(item.ReferencedSOPInstanceUID) for item in self.report.get(sequence, [])]


def test_a_commitment_tells_what_is_on_the_disk_and_what_is_not(tmp_path, receiver):
    from pynetdicom import evt

    for n in (1, 2):
        receiver.inbox.take(film(n), uid(n))
    heard = Listener()
    peer = Peer("127.0.0.1", receiver.port, "UPDP", "MODALITY", timeout=10)
    with associated(peer, [(COMMITMENT, ())], handlers=[(evt.EVT_N_EVENT_REPORT, heard)]) as assoc:
        status, _ = assoc.send_n_action(asked_for(1, 2, 3), 1, COMMITMENT, "1.2.840.10008.1.20.1.1")
        assert status.Status == 0x0000
        assert heard.uids("ReferencedSOPSequence") == [uid(1), uid(2)]
        assert heard.uids("FailedSOPSequence") == [uid(3)]
        assert (heard.kind, heard.report.TransactionUID) == (2, "1.2.3.4.5")
        assert heard.report.FailedSOPSequence[0].FailureReason == 0x0112


def test_a_sender_that_released_gets_its_report_at_the_address_named_for_it(tmp_path):
    from pynetdicom import evt
    from pynetdicom.ae import ApplicationEntity

    heard = Listener()
    modality = ApplicationEntity("MODALITY")
    modality.add_supported_context(COMMITMENT, scu_role=False, scp_role=True)
    server = modality.start_server(("127.0.0.1", 0), block=False, evt_handlers=[(evt.EVT_N_EVENT_REPORT, heard)])
    places = {"MODALITY": ("127.0.0.1", server.server_address[1])}
    with Receiver(tmp_path / "export", title="UPDP", host="127.0.0.1", commit_to=places) as made:
        made.inbox.take(film(1), uid(1))
        peer = Peer("127.0.0.1", made.port, "UPDP", "MODALITY", timeout=10)
        with associated(peer, [(COMMITMENT, ())]) as assoc:
            assoc.send_n_action(asked_for(1), 1, COMMITMENT, "1.2.840.10008.1.20.1.1")
        assert heard.uids("ReferencedSOPSequence") == [uid(1)]
        assert heard.kind == 1
    modality.shutdown()


def test_an_object_of_another_class_is_not_committed_to_and_nonsense_is_refused(receiver):
    receiver.inbox.take(film(1), uid(1))
    assert receiver._report(asked_for(1, kind="1.2.840.10008.5.1.4.1.1.2")).FailedSOPSequence[0].FailureReason == 0x0119
    peer = Peer("127.0.0.1", receiver.port, "UPDP", "MODALITY", timeout=10)
    with associated(peer, [(COMMITMENT, ())]) as assoc:
        nonsense = asked_for(1)
        del nonsense.ReferencedSOPSequence
        status, _ = assoc.send_n_action(nonsense, 1, COMMITMENT, "1.2.840.10008.1.20.1.1")
        assert status.Status == 0x0115


# -- silence, and ports ------------------------------------------------------------------------------------------------


def test_logs_and_metrics_say_what_happened_and_nothing_of_patients(tmp_path, receiver, caplog):
    tool("storescu")
    with caplog.at_level("INFO", logger="updp"):
        call("storescu", *SEND, receiver.port, *films(tmp_path / "sent", [1]))
        receiver.inbox.take(film(2)[:-1], uid(2))
    said = " ".join(f"{record.getMessage()} {getattr(record, 'facts', '')}" for record in caplog.records)
    assert "stored" in said
    assert "not-whole" in said
    for secret in (*CANARIES, uid(1), uid(2), "9.2.0"):
        assert secret not in said + receiver.metrics.text()


def test_a_port_in_use_is_a_sentence_and_gives_the_export_back(tmp_path, receiver):
    with pytest.raises(NetworkError, match=f"port {receiver.port} cannot be used"):
        Receiver(tmp_path / "other", title="UPDP", host="127.0.0.1", port=receiver.port).start()
    Receiver(tmp_path / "other", title="UPDP", host="127.0.0.1").stop()
