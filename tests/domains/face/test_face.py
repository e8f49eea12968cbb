"""Photographs of faces go through a run: what is in their files besides pixels stays behind."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import IFDRational

import updp
from tests.conftest import PLAIN, reasons, sweep
from tests.domains.face.photographs import drawing, export, face
from updp.core.policy import Policy
from updp.domains import DOMAINS
from updp.domains.face.landmarks import COUNT, points_of
from updp.release import manifest

POLICY = PLAIN + "[source]\ndomain = 'face'\n"
CANARIES = ("Quibblesworth", "Zanthora", "Nikon-5550123")


def jpeg(image: Image.Image, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, "JPEG", quality=95, **options)
    return out.getvalue()


def with_metadata(image: Image.Image) -> bytes:
    """A JPEG with a name in EXIF, a place in GPS, a thumbnail, XMP, an ICC profile and a comment."""
    exif = Image.Exif()
    exif[0x013B] = "Zanthora Quibblesworth"  # artist
    exif[0x010E] = "Quibblesworth left eye"
    exif[0x0110] = "Nikon-5550123"
    gps = exif.get_ifd(0x8825)
    gps[1], gps[2] = "N", (IFDRational(31), IFDRational(12), IFDRational(5))
    xmp = b"<x:xmpmeta xmlns:x='adobe:ns:meta/'><dc:creator>Quibblesworth</dc:creator></x:xmpmeta>"
    icc = b"\0" * 36 + b"acsp" + b"\0" * 88 + b"Zanthora Quibblesworth"
    return jpeg(image, exif=exif, xmp=xmp, icc_profile=icc, comment=b"Quibblesworth")


def png(width: int, height: int, depth: int, rows: bytes) -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, depth, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def huge() -> bytes:
    """A PNG whose header promises 40 000 x 40 000 pixels."""
    return png(40_000, 40_000, 8, b"\0")


def png16(pixels: np.ndarray) -> bytes:
    """A colour PNG of 16 bits per channel."""
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    return png(pixels.shape[1], pixels.shape[0], 16, rows)


def test_metadata_of_photographs_stays_behind(tmp_path, key):
    root = tmp_path / "export"
    root.mkdir()
    for n in range(3):
        (root / f"Quibblesworth-{n}.jpg").write_bytes(with_metadata(face(n)))
    source = export(root, {f"Quibblesworth-{n}.jpg": ("Zanthora", "Ptosis|heavy") for n in range(3)})
    made = updp.deidentify(source, tmp_path / "out", key=key, policy=Policy.parse(POLICY), workers=1)
    assert made.released == 3
    assert sweep(made.folder, CANARIES) == []
    rows = list(manifest.read(made.folder))
    assert {tuple(row["labels"]) for row in rows} == {("Ptosis", "heavy")}
    for row in rows:
        with Image.open(made.folder / row["file_name"]) as image:
            assert image.mode == "RGB"
            assert not image.getexif()
            assert not {"exif", "xmp", "icc_profile", "comment"} & image.info.keys()
    assert updp.verify(made.folder, accept_unknown_signer=True).intact


def test_every_kind_of_bad_file_has_its_reason_and_the_others_leave(tmp_path, key):
    root = tmp_path / "export"
    root.mkdir()
    plain = face(5)
    good = jpeg(plain)
    frames = [plain, face(6)]
    files: dict[str, bytes] = {
        "good.jpg": good,
        "progressive.jpg": jpeg(face(9), progressive=True),
        "cmyk.jpg": jpeg(face(10).convert("CMYK")),
        "cut.jpg": good[: len(good) // 2],
        "huge.png": huge(),
        "grey.jpg": jpeg(plain.convert("L")),
    }
    for name, data in files.items():
        (root / name).write_bytes(data)
    frames[0].save(root / "moving.gif", save_all=True, append_images=frames[1:])
    drawing().save(root / "drawing.png")
    deep = np.asarray(face(11)).astype(np.uint16) * 257
    (root / "deep.png").write_bytes(png16(deep))
    names = [*files, "moving.gif", "drawing.png", "deep.png", "gone.jpg"]
    source = export(root, {name: (name, "") for name in names})
    made = updp.deidentify(source, tmp_path / "out", key=key, policy=Policy.parse(POLICY), workers=1)
    assert made.released == 4
    assert reasons(tmp_path / "out") == {
        "image-unreadable": 1,
        "image-too-large": 1,
        "image-not-colour": 1,
        "image-multiframe": 1,
        "face-none": 1,
        "image-missing": 1,
    }


def test_a_photograph_that_was_held_sideways_is_turned_before_it_is_looked_at(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown a quarter turn clockwise
    (tmp_path / "a.jpg").write_bytes(jpeg(face(7).transpose(Image.Transpose.ROTATE_90), exif=exif))
    source = updp.open_source(export(tmp_path, {"a.jpg": ("p", "")}), domain="face")
    study = source.domain.examined(source.load(next(iter(source))))
    assert np.abs(study.pixels - np.asarray(face(7)) / 255).mean() < 0.02
    points = points_of(study)
    assert points.shape == (COUNT, 2)
    assert points[0, 1] > points[35, 1]  # the chin is below the eyes


def test_the_domain_is_listed_and_asks_for_one_face():
    domain = DOMAINS["face"]
    assert domain.channels == 3
    assert domain.labels.canonical(["conj", "severe", "Normal"]) == ("Conjunctivitis", "heavy")


@pytest.mark.parametrize("method", ["blur", "pixelate", "dp-pix"])
def test_pixel_methods_serve_faces(tmp_path, key, method):
    root = tmp_path / "export"
    root.mkdir()
    (root / "a.jpg").write_bytes(jpeg(face(8)))
    source = export(root, {"a.jpg": ("p", "")})
    policy = Policy.parse(POLICY.replace("'keep'", f"'{method}'"))
    made = updp.deidentify(source, tmp_path / "out", key=key, policy=policy, workers=1)
    assert made.released == 1
