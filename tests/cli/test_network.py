"""`updp receive`, `fetch` and `send` from the command line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from tests.conftest import CANARIES
from tests.network.dcmtk import call, films, free_port, landed, pacs, uid
from updp.cli import app
from updp.core.keys import Key
from updp.network.association import NetworkError

pytestmark = pytest.mark.posix
runner = CliRunner()


def started(export, log, *words: object) -> tuple[subprocess.Popen[str], int]:
    """`updp receive` in a process of its own, and its port."""
    command = [sys.executable, "-m", "updp", "--log", str(log), "receive", "--to", str(export), "--ae-title", "UPDP",
               "--host", "127.0.0.1", "--port", "0", *map(str, words)]  # fmt: skip
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    said = re.search(r"port (\d+)", running.stdout.readline())
    assert said is not None
    return running, int(said[1])


def test_receive_loses_nothing_that_it_confirmed_when_killed_and_ends_well_when_told_to(tmp_path):
    export, log, port = tmp_path / "export", tmp_path / "log", free_port()
    running, at = started(export, log, "--metrics", f"127.0.0.1:{port}")
    assert call("storescu", "-aec", "UPDP", "127.0.0.1", at, *films(tmp_path / "a", [1, 2])).returncode == 0
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
        assert 'updp_received_objects_total{landing="stored"} 2' in page.read().decode()
    os.kill(running.pid, signal.SIGKILL)
    running.wait(20)
    assert landed(export).keys() == {uid(1), uid(2)}

    running, at = started(export, log)
    assert call("storescu", "-aec", "UPDP", "127.0.0.1", at, *films(tmp_path / "b", [2, 3])).returncode == 0
    os.kill(running.pid, signal.SIGTERM)
    said, _ = running.communicate(timeout=30)
    assert running.returncode == 0
    assert "3 objects in the export" in said
    assert landed(export).keys() == {uid(1), uid(2), uid(3)}
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["landing"] for line in lines if line["event"] == "object"] == [
        "stored", "stored", "present-already", "stored",
    ]  # fmt: skip
    assert not any(word in log.read_text() for word in (*CANARIES, uid(1)))


def test_fetch_says_what_came_and_ends_with_an_error_if_something_did_not(tmp_path):
    (tmp_path / "q.toml").write_text('[[study]]\nStudyDate = "20240105"\n')
    with pacs(tmp_path / "pacs") as port:
        call("storescu", "-aec", "PACS", "127.0.0.1", port, *films(tmp_path / "sent", range(3)))
        words = ["fetch", str(tmp_path / "q.toml"), "--to", str(tmp_path / "export"), "--from", f"127.0.0.1:{port}",
                 "--called", "PACS", "--timeout", "10"]  # fmt: skip
        short = runner.invoke(app, [*words, "--keep-free", "1e9"])
        assert (short.exit_code, "3 objects were not received" in short.output) == (2, True)
        good = runner.invoke(app, words)
        assert (good.exit_code, "2 studies: 3 objects fetched" in good.output) == (0, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["receive", "--to", "x", "--ae-title", "UPDP", "--commit-to", "PACS"], "AE=HOST:PORT"),
        (["receive", "--to", "x", "--ae-title", "MUCH TOO LONG A TITLE"], "AE title"),
        (["receive", "--to", "x", "--ae-title", "UPDP", "--tls-cert", "missing"], "--tls-key"),
        (["fetch", "q", "--to", "x", "--from", "pacs", "--called", "P"], "HOST:PORT"),
        (["fetch", "q", "--to", "x", "--from", "p:1", "--called", "P", "--tls-ca", "ca"], "--tls"),
        (["fetch", "missing", "--to", "x", "--from", "p:1", "--called", "P"], "query file"),
    ],
)
def test_wrong_use_is_a_sentence(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, words)
    assert isinstance(result.exception, NetworkError)
    assert message in str(result.exception)


def test_send_trusts_our_own_key_unless_told_another(tmp_path, monkeypatch):
    asked = {}

    def noted(release, peer, *, trusted, progress):
        asked.update(trusted=trusted, peer=peer)
        raise NetworkError("noted")

    monkeypatch.setattr("updp.network.send.send", noted)
    key, _ = Key.load_or_create(tmp_path / "key")
    from updp.release.signature import public_key

    words = ["send", str(tmp_path), "--to", "pacs:104", "--called", "PACS", "--key", str(tmp_path / "key")]
    runner.invoke(app, words)
    assert asked["trusted"] == public_key(key)
    assert (asked["peer"].place, asked["peer"].tls) == ("PACS at pacs:104", None)
    runner.invoke(app, [*words, "--trust", "abcd", "--tls"])
    assert asked["trusted"] == "abcd"
    assert asked["peer"].tls is not None
