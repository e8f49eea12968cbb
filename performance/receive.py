"""How fast `updp receive` takes objects from several senders, beside what the disk writes in one go.

    python performance/receive.py --objects 500 --megabytes 8 --senders 4

Needs DCMTK (storescu, storescp). The receiver runs in a process of its own, as the command does. The disk is measured
before and after in the same folder: one file of the same size, written in pieces of 8 MB and synced at its end. The
same senders then send to DCMTK's own receiver, a process per association, which does not sync: once as it is, once with
--ignore, where it stores nothing and what is left is the senders and the network.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.network.dcmtk import film, free_port, landed, tool, uid


def disk(folder: Path, size: int) -> float:
    """Bytes per second of one file, synced at its end."""
    piece = os.urandom(8_000_000)
    start = time.perf_counter()
    with (folder / "sequential").open("wb") as out:
        for _ in range(max(1, size // len(piece))):
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    taken = time.perf_counter() - start
    (folder / "sequential").unlink()
    return size / taken


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--objects", type=int, default=500)
    ask.add_argument("--megabytes", type=float, default=8)
    ask.add_argument("--senders", type=int, default=4)
    ask.add_argument("--folder", type=Path, help="a folder on the disk to measure; default: the temporary one")
    given = ask.parse_args()
    side = int((given.megabytes * 1e6 / 2) ** 0.5)
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        root = Path(name)
        # Senders of the same few pixels under other ids: what is sent is read from memory, not from the disk.
        base = film(0, side=side)
        groups: list[list[Path]] = [[] for _ in range(given.senders)]
        for n in range(given.objects):
            path = root / "sent" / f"{n}.dcm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(renamed(base, n))
            groups[n % given.senders].append(path)
        size = sum(path.stat().st_size for path in (root / "sent").iterdir())
        os.sync()  # else the disk writes these while it is measured
        before = disk(root, size)
        command = [sys.executable, "-m", "updp", "receive", "--to", str(root / "export"), "--ae-title", "UPDP",
                   "--host", "127.0.0.1", "--port", "0"]  # fmt: skip
        receiver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert receiver.stdout is not None
        found = re.search(r"port (\d+)", receiver.stdout.readline())
        assert found is not None
        idle = processor(receiver.pid)
        taken, codes = sent(groups, found[1])
        spent = processor(receiver.pid) - idle
        receiver.send_signal(signal.SIGTERM)
        receiver.wait(60)
        after = disk(root, size)
        lost = {uid(n) for n in range(given.objects)} - landed(root / "export").keys()
        doubled = len(landed(root / "export")) - given.objects + len(lost)
        print(f"senders ended with {codes}; lost {len(lost)}, doubled {doubled}")
        print(
            f"received {size / 1e6:.0f} MB in {taken:.1f} s: {size / taken / 1e6:.0f} MB/s, "
            f"{given.objects / taken:.1f} objects/s; {spent / size * 1e9:.1f} ms of the processor a MB"
        )
        print(f"disk, one file: {before / 1e6:.0f} MB/s before, {after / 1e6:.0f} MB/s after")
        print(f"ratio {size / taken / ((before + after) / 2):.2f}; load {os.getloadavg()[0]:.1f}")
        for more in ([], ["--ignore"]):
            port = free_port()
            command = [tool("storescp"), "--fork", "-pdu", "131072", *more, "-od", str(root), str(port)]
            peer = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(1)
            taken, codes = sent(groups, str(port))
            peer.terminate()
            peer.wait()
            print(f"{' '.join(['storescp', *more])}: {size / taken / 1e6:.0f} MB/s, senders ended with {codes}")


def sent(groups: list[list[Path]], port: str) -> tuple[float, list[int]]:
    """Seconds until every sender has ended, and how they ended."""
    start = time.perf_counter()
    senders = [
        subprocess.Popen([tool("storescu"), "-aec", "UPDP", "-R", "127.0.0.1", port, *map(str, group)])
        for group in groups
    ]
    codes = [sender.wait() for sender in senders]
    return time.perf_counter() - start, codes


def processor(pid: int) -> float:
    """Seconds of the processor that a process took so far, where the system tells."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def renamed(base: bytes, n: int) -> bytes:
    """The film under other ids."""
    import io

    import pydicom

    made = pydicom.dcmread(io.BytesIO(base))
    made.SOPInstanceUID = made.file_meta.MediaStorageSOPInstanceUID = uid(n)
    made.StudyInstanceUID = f"1.2.826.0.1.3680043.9.2.{n // 2}"
    out = io.BytesIO()
    pydicom.dcmwrite(out, made)
    return out.getvalue()


if __name__ == "__main__":
    main()
