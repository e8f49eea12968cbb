"""Addresses, titles, certificates, and what a caller reads where there is no association."""

from __future__ import annotations

import socket
import sys
import threading
import tracemalloc
from types import SimpleNamespace

import pytest

from tests.network.dcmtk import certificate, free_port
from updp.network.association import (
    NetworkError,
    Peer,
    Tls,
    address,
    associated,
    checked_title,
    entity,
    read_whole_units,
)

ECHO = ("1.2.840.10008.1.1", ())


@pytest.mark.parametrize(
    ("text", "place"), [("pacs:104", ("pacs", 104)), ("10.0.0.1:11112", ("10.0.0.1", 11112)), ("[::1]:4", ("::1", 4))]
)
def test_an_address_is_host_and_port(text, place):
    assert address(text) == place


@pytest.mark.parametrize("text", ["pacs", "pacs:", ":104", "pacs:dicom", "pacs:70000", ""])
def test_what_is_no_address_says_how_to_write_one(text):
    with pytest.raises(NetworkError, match="HOST:PORT"):
        address(text)


@pytest.mark.parametrize("title", ["", "   ", "A" * 17, "A\\B", "RÖNTGEN", "A\nB"])
def test_what_is_no_title_says_so(title):
    with pytest.raises(NetworkError, match="AE title"):
        checked_title(title)


def test_nobody_there_is_a_sentence():
    with pytest.raises(NetworkError, match="no application answers as PACS at 127"):
        associated(Peer("127.0.0.1", free_port(), "PACS", "UPDP", timeout=2), [ECHO]).__enter__()


def test_a_peer_that_hangs_is_given_up():
    silent = socket.create_server(("127.0.0.1", 0))
    held = []
    threading.Thread(target=lambda: held.append(silent.accept()), daemon=True).start()
    with pytest.raises(NetworkError, match="within 1 s"):
        associated(Peer("127.0.0.1", silent.getsockname()[1], "PACS", "UPDP", timeout=1), [ECHO]).__enter__()
    silent.close()


def test_files_that_are_no_certificates_are_a_sentence(tmp_path):
    (tmp_path / "x.pem").write_text("no certificate")
    cert, key = certificate(tmp_path, "one")
    _, other = certificate(tmp_path, "two")
    for wrong in (Tls(tmp_path / "x.pem", key), Tls(cert, other), Tls(tmp_path / "missing", key)):
        with pytest.raises(NetworkError, match="do not belong together"):
            wrong.server()
    with pytest.raises(NetworkError, match="--tls-cert"):
        Tls(cert).server()


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynetdicom.ae", None)
    with pytest.raises(NetworkError, match=r"updp\[dicom-net\]"):
        entity("UPDP")


class Connection:
    """A connection of pynetdicom, as far as reading goes."""

    def __init__(self, end):
        self.socket = end

    def recv(self, size):
        return self.socket.recv(min(size, 4096))


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    connection = Connection(ours)
    event = SimpleNamespace(assoc=SimpleNamespace(dul=SimpleNamespace(socket=connection)))
    read_whole_units(event)
    yield connection, theirs
    ours.close()
    theirs.close()


def test_a_unit_is_read_whole_however_its_bytes_arrive(pair):
    connection, theirs = pair
    data = bytes(range(256)) * 300

    def send():
        for start in range(0, len(data), 10_000):
            theirs.sendall(data[start : start + 10_000])

    sender = threading.Thread(target=send)
    sender.start()
    assert [bytes(connection.recv(6)), bytes(connection.recv(len(data) - 6))] == [data[:6], data[6:]]
    sender.join()


def test_of_a_unit_that_is_cut_there_is_what_came(pair):
    connection, theirs = pair
    theirs.sendall(b"abc")
    theirs.close()
    assert bytes(connection.recv(100)) == b"abc"


def test_a_unit_that_claims_to_be_huge_takes_no_room_before_it_arrives(pair):
    connection, theirs = pair
    theirs.sendall(b"abc")
    tracemalloc.start()
    try:
        assert bytes(connection.recv(2**32 - 1)) == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
