"""Reading films from picture files: every mode and depth, what is refused."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests.imaging.films import LIMITS, correlation, read, reason
from tests.sources.exports import CANARY, canary_free, draw, write_film  # noqa: F401
from updp.core.reasons import Reason, Refused
from updp.imaging.read import read_film


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "gif", "pgm", "jp2"])
def test_lossless_grey_pictures_keep_every_value(tmp_path, suffix):
    options = {"irreversible": False} if suffix == "jp2" else {}
    path = write_film(tmp_path / f"film.{suffix}", **options)
    np.testing.assert_allclose(read(path) * 255, draw(), atol=1e-3)


@pytest.mark.parametrize("suffix", ["jpg", "webp"])
def test_lossy_pictures_come_out_alike(tmp_path, suffix):
    assert correlation(read(write_film(tmp_path / f"film.{suffix}", quality=90)), draw()) > 0.999


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "LA", "P", "CMYK"])
def test_a_grey_film_in_a_colour_mode_is_the_same_film(tmp_path, mode):
    suffix = "tif" if mode == "CMYK" else "png"
    Image.fromarray(draw()).convert(mode).save(tmp_path / f"film.{suffix}")
    np.testing.assert_allclose(read(tmp_path / f"film.{suffix}") * 255, draw(), atol=1.01)


def test_a_grey_jpeg_stored_as_colour_is_grey(tmp_path):
    Image.fromarray(draw()).convert("RGB").save(tmp_path / "film.jpg", quality=60)
    assert correlation(read(tmp_path / "film.jpg"), draw()) > 0.999


def test_a_colour_picture_is_refused(tmp_path):
    colour = np.stack([draw(), draw()[::-1], draw()[:, ::-1]], axis=-1)
    Image.fromarray(colour).save(tmp_path / "photo.png")
    assert reason(tmp_path / "photo.png") is Reason.IMAGE_NOT_GREY


def test_what_is_transparent_does_not_come_to_light(tmp_path):
    grey = draw()
    alpha = np.full_like(grey, 255)
    alpha[:20] = 0
    grey[:20] = 200  # text under a transparent band
    Image.fromarray(np.dstack([grey, grey, grey, alpha])).save(tmp_path / "film.png")
    pixels = read(tmp_path / "film.png")
    assert pixels[:20].max() == 0
    assert pixels[20:].max() > 0.5


def test_a_palette_with_a_transparent_entry_is_laid_over_black(tmp_path):
    image = Image.fromarray(draw()).convert("P")
    image.save(tmp_path / "film.png", transparency=image.getpixel((48, 40)))
    assert read(tmp_path / "film.png")[40, 48] == 0


def test_one_bit_pictures_are_black_and_white(tmp_path):
    Image.fromarray(draw()).point(lambda v: 255 * (v > 99)).convert("1").save(tmp_path / "film.png")
    assert set(np.unique(read(tmp_path / "film.png"))) == {0.0, 1.0}


@pytest.mark.parametrize("suffix", ["png", "tif"])
@pytest.mark.parametrize("top", [4095, 65535])
def test_sixteen_bit_pictures_fill_the_range_whatever_their_depth(tmp_path, suffix, top):
    values = (draw().astype(np.float64) / 255 * top).astype(np.uint16)
    Image.fromarray(values).save(tmp_path / f"film.{suffix}")
    pixels = read(tmp_path / f"film.{suffix}")
    assert pixels.max() == 1
    assert correlation(pixels, draw()) > 0.999


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_deep_tiff_pictures_are_read(tmp_path, dtype):
    Image.fromarray(draw().astype(dtype) * 1000).save(tmp_path / "film.tif")
    assert correlation(read(tmp_path / "film.tif"), draw()) > 0.999


@pytest.mark.parametrize(("dtype", "sign"), [(np.uint8, 1), (np.uint16, -1)])
def test_white_is_zero_tiff_is_turned_round(tmp_path, dtype, sign):
    Image.fromarray(draw().astype(dtype)).save(tmp_path / "film.tif", tiffinfo={262: 0})
    # Pillow stores eight bits inverted under this tag, but sixteen as they are: those show the negative.
    with Image.open(tmp_path / "film.tif") as image:
        assert image.tag_v2[262] == 0
    assert correlation(read(tmp_path / "film.tif"), draw()) == pytest.approx(sign, abs=0.02)


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_text_tags_of_a_picture_reach_no_log(tmp_path, suffix):
    from PIL.PngImagePlugin import PngInfo

    text = PngInfo()
    text.add_text("Patient", CANARY)
    write_film(tmp_path / f"film.{suffix}", **({"pnginfo": text} if suffix == "png" else {"artist": CANARY}))
    assert CANARY.encode() in (tmp_path / f"film.{suffix}").read_bytes()
    read(tmp_path / f"film.{suffix}")


def test_exif_orientation_is_applied(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(draw()).save(tmp_path / "film.jpg", exif=exif, quality=95)
    assert read(tmp_path / "film.jpg").shape == (96, 80)


def test_a_zero_byte_film_is_refused(tmp_path):
    (tmp_path / "film.png").touch()
    assert reason(tmp_path / "film.png") is Reason.IMAGE_EMPTY


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "gif", "jp2", "webp", "bmp"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_truncated_film_is_refused(tmp_path, suffix, share):
    path = write_film(tmp_path / f"film.{suffix}")
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    assert reason(path) is Reason.IMAGE_UNREADABLE


@pytest.mark.parametrize("data", [b"no picture", b"\x89PNG\r\n\x1a\n", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\0" * 500])
def test_what_is_no_picture_is_refused(tmp_path, data):
    (tmp_path / "film.png").write_bytes(data + CANARY.encode())
    assert reason(tmp_path / "film.png") is Reason.IMAGE_UNREADABLE


@pytest.mark.posix
def test_a_missing_film_a_folder_and_a_pipe_are_refused(tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.png")
    assert reason(tmp_path / "gone.png") is Reason.IMAGE_MISSING
    assert reason(tmp_path) is Reason.IMAGE_UNREADABLE
    assert reason(tmp_path / "pipe.png") is Reason.IMAGE_UNREADABLE


def _png_header(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("size", [(100_000, 100_000), (2**31 - 1, 2**31 - 1), (1_000_001, 1)])
def test_a_decompression_bomb_is_refused_by_its_header(tmp_path, size):
    (tmp_path / "bomb.png").write_bytes(_png_header(*size))
    assert reason(tmp_path / "bomb.png") is Reason.IMAGE_TOO_LARGE


def test_a_limit_above_pillows_own_is_honoured(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    read(write_film(tmp_path / "film.png"))
    assert Image.MAX_IMAGE_PIXELS == 100


def test_a_film_below_the_smallest_side_is_refused(tmp_path):
    assert reason(write_film(tmp_path / "film.png"), min_side=81) is Reason.IMAGE_TOO_SMALL


def test_a_blank_film_is_refused(tmp_path):
    Image.new("L", (100, 100), 77).save(tmp_path / "film.png")
    assert reason(tmp_path / "film.png") is Reason.IMAGE_BLANK


def test_a_file_of_several_frames_is_refused(tmp_path):
    frames = [Image.fromarray(draw(seed=s)) for s in range(3)]
    frames[0].save(tmp_path / "film.tif", save_all=True, append_images=frames[1:])
    assert reason(tmp_path / "film.tif") is Reason.IMAGE_MULTIFRAME


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\0" * 128 + b"DICM"]))
def test_no_bytes_make_the_reader_fail_otherwise_than_by_refusing(tmp_path_factory, data, head):
    path = tmp_path_factory.mktemp("fuzz") / "film"
    path.write_bytes(head + data)
    with pytest.raises(Refused):
        read_film(path, **LIMITS)
