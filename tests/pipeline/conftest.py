"""An object store for runs whose source and output are at an address."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from updp.core.remote import Remote


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    """A bucket of a server of moto."""
    for needed in ("s3fs", "moto.server"):
        if os.environ.get("UPDP_CI"):
            __import__(needed)
        pytest.importorskip(needed)
    folder = tmp_path_factory.mktemp("s3")
    program = (
        "import sys; from moto.server import ThreadedMotoServer; "
        "server = ThreadedMotoServer('127.0.0.1', 0, verbose=False); server.start(); "
        "print(server.get_host_and_port()[1], flush=True); sys.stdin.read()"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"), text=True,
    )  # fmt: skip
    port = server.stdout.readline().strip()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_REGION", "us-east-1")
        import fsspec

        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket"
    server.stdin.close()
    server.wait(30)


def upload(folder: Path, address: str) -> str:
    remote = Remote(address)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            remote.put(path.relative_to(folder).as_posix(), path)
    return address


def download(address: str, folder: Path) -> Path:
    remote = Remote(address)
    for _, files in remote.walk():
        for found in files:
            (folder / found.name).parent.mkdir(parents=True, exist_ok=True)
            remote.fetch(found.name, folder / found.name)
    return folder
