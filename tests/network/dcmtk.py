"""DCMTK's programs and invented DICOM objects, for tests of the network."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

DX = "1.2.840.10008.5.1.4.1.1.1.1"


def tool(name: str) -> str:
    """A program of Debian's DCMTK; the Makefile installs it, and outside CI its tests are skipped without it."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("UPDP_CI"):
            pytest.fail(f"{name} of DCMTK is not installed; `make test` installs it")
        pytest.skip(f"needs {name}: apt-get install dcmtk")
    return found


def call(name: str, *arguments: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a program of DCMTK to its end."""
    words = [tool(name), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)


def film(n: int, *, side: int = 32, study: int | None = None, kind: str = DX, **attributes: str) -> bytes:
    """A file of PS3.10 with an invented film; ``n`` decides its ids and pixels."""
    import pydicom
    from pydicom.dataset import Dataset, FileMetaDataset

    made = Dataset()
    made.SOPClassUID, made.SOPInstanceUID = kind, f"1.2.826.0.1.3680043.9.1.{n}"
    made.StudyInstanceUID = f"1.2.826.0.1.3680043.9.2.{n // 2 if study is None else study}"
    made.SeriesInstanceUID = made.StudyInstanceUID + ".1"
    made.PatientName, made.PatientID = "Quibblesworth^Zanthora", f"MRN7741982-{n // 2}"
    made.PatientBirthDate = made.PatientSex = made.StudyTime = made.ReferringPhysicianName = made.SeriesNumber = ""
    made.StudyDate, made.Modality, made.AccessionNumber, made.StudyID = "20240105", "DX", f"ACC{n // 2}", str(n // 2)
    made.InstanceNumber = str(n)
    made.Rows = made.Columns = side
    made.BitsAllocated, made.BitsStored, made.HighBit, made.PixelRepresentation = 16, 12, 11, 0
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    for name, value in attributes.items():
        setattr(made, name, value)
    made.PixelData = np.random.default_rng(n).integers(0, 4096, (side, side), dtype=np.uint16).tobytes()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
    made.file_meta.MediaStorageSOPClassUID = kind
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID
    out = io.BytesIO()
    pydicom.dcmwrite(out, made, enforce_file_format=True)
    return out.getvalue()


def uid(n: int) -> str:
    return f"1.2.826.0.1.3680043.9.1.{n}"


def films(folder: Path, numbers: range | list[int], **settings: object) -> list[Path]:
    """Files with films, to be sent."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for n in numbers:
        paths.append(folder / f"{n}.dcm")
        paths[-1].write_bytes(film(n, **settings))  # type: ignore[arg-type]
    return paths


def landed(export: Path) -> dict[str, str]:
    """Object -> study of everything below an export, half-written files among it."""
    return {path.stem: path.parent.name for path in export.rglob("*") if path.is_file() and path.name != "lock"}


def pixels(path: Path) -> bytes:
    import pydicom

    return bytes(pydicom.dcmread(path).PixelData)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def cutting(port: int, after: int, *, answers: bool = False) -> Iterator[int]:
    """A port that passes on to another, and cuts each connection after so many bytes of the caller, or of answers."""
    listener = socket.create_server(("127.0.0.1", 0))

    def passed(one: socket.socket, other: socket.socket, limit: int | None) -> None:
        count = 0
        try:
            while data := one.recv(4096):
                count += len(data)
                if limit is not None and count > limit:
                    break
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # closing alone says nothing while another thread waits for bytes
            end.close()

    def serve() -> None:
        while True:
            try:
                caller, _ = listener.accept()
            except OSError:
                return
            called = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=passed, args=(caller, called, None if answers else after), daemon=True).start()
            threading.Thread(target=passed, args=(called, caller, after if answers else None), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        listener.close()


@contextmanager
def pacs(folder: Path, peers: dict[str, int] | None = None) -> Iterator[int]:
    """DCMTK's archive, with an AE title PACS, that knows where these AE titles listen."""
    program, port = tool("dcmqrscp"), free_port()
    store = folder / "archive"
    store.mkdir(parents=True)
    hosts = "\n".join(f"peer{n} = ({title}, 127.0.0.1, {at})" for n, (title, at) in enumerate((peers or {}).items()))
    (folder / "dcmqrscp.cfg").write_text(
        f"NetworkTCPPort = {port}\nMaxPDUSize = 131072\nMaxAssociations = 16\n"
        f"HostTable BEGIN\n{hosts}\nHostTable END\nVendorTable BEGIN\nVendorTable END\n"
        f"AETable BEGIN\nPACS {store} RW (200, 1024mb) ANY\nAETable END\n"
    )
    with (folder / "dcmqrscp.log").open("w") as log:
        running = subprocess.Popen(
            [program, "-c", str(folder / "dcmqrscp.cfg")], stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        else:
            raise AssertionError((folder / "dcmqrscp.log").read_text())
        yield port
    finally:
        os.killpg(running.pid, 15)
        running.wait(10)


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate of 127.0.0.1 that signs itself, and its key."""
    import datetime as dt
    import ipaddress

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert, secret = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return cert, secret
