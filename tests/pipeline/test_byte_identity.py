"""The same key, seed and settings give the same release, byte for byte, from one version of the code to the next.

The digests below are of a release of the virtual hospital made with `keep`, which does no arithmetic of its own. A
change that alters what leaves on purpose records new digests here, beside a test of what it mends. Films are compared
by their grey values, and files that hold their checksums are left out: how PNG compresses is the library's business.
"""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from PIL import Image

import updp
from updp.virtual.hospital import make_hospital

POLICY = (
    "[burned_in]\nmode = 'off'\n[method]\nname = 'keep'\n[release]\nshard_size = 4\n[image]\nsize = 256\n"
    "[gate]\nmax_quarantined = 1.0\n"
)

#: Part of the output -> digest over the names and contents of its files.
DIGESTS = {
    "quarantine.jsonl": "e3f3dbaeb148e95f",
    "run.json": "fb24ed4a3fdaab4b",
    "unmeasured/README.md": "21644a82eb021fb6",
    "unmeasured/evidence": "413ff581f1b30418",
    "unmeasured/images": "11ce86e89f860f04",
    "unmeasured/manifest.parquet": "e669771c5b20b7b2",
    "unmeasured/policy.toml": "9b951ed1d90b2acb",
    "unmeasured/reports": "0711c319b69f4e10",
}

#: Sums and signatures over the files compared here, and sealed files, whose bytes are random.
LEFT_OUT = {"checksums.sha256", "signature", "croissant.json", "settings.sealed"}


def content(path: Path) -> bytes:
    """What a file says, without the version of the program that wrote it."""
    data = path.read_bytes()
    if path.suffix == ".png":
        pixels = np.asarray(Image.open(io.BytesIO(data)))
        return repr((pixels.shape, pixels.dtype.str)).encode() + pixels.tobytes()
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), sort_keys=True, default=str).encode()
    if path.name == "run.json":  # neither the processor nor the bytes of the source, which it draws, are of the release
        told = json.loads(data)
        data = json.dumps({name: value for name, value in told.items() if name not in ("made_on", "source")}).encode()
    return data.replace(updp.__version__.encode(), b"VERSION")


def digests(out: Path) -> dict[str, str]:
    running: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out)
        if not path.is_file() or path.name in LEFT_OUT or name.parts[0] in ("vault", "records"):
            continue
        part = "/".join(name.parts[:2])
        running.setdefault(part, hashlib.sha256()).update(name.as_posix().encode() + b"\0" + content(path))
    return {part: digest.hexdigest()[:16] for part, digest in running.items()}


def test_a_release_of_the_virtual_hospital_keeps_its_bytes(tmp_path):
    make_hospital(tmp_path / "export", seed=11, patients=4)
    outcome = updp.deidentify(
        tmp_path / "export", tmp_path / "out", key=updp.Key(bytes(range(32))), policy=updp.Policy.parse(POLICY),
        seed=3, workers=1, check_content=True,
    )  # fmt: skip
    assert outcome.released == 15
    assert digests(tmp_path / "out") == DIGESTS
