from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLSLossless,
    RLELossless,
)

from tests.sources.exports import CANARY, canary_free, dicom, draw, write_dicom, write_film  # noqa: F401
from updp.core.reasons import Reason, Refused
from updp.imaging.dicom import codestream_size
from updp.imaging.encode import encode_png
from updp.imaging.read import read_film, read_with_window
from updp.imaging.square import square, without_bars

LIMITS = {"max_pixels": 1_000_000, "min_side": 64}


def read(path: Path) -> np.ndarray:
    pixels = read_film(path, **LIMITS)
    assert pixels.dtype == np.float32
    assert pixels.ndim == 2
    assert 0 <= pixels.min() < pixels.max() <= 1
    return pixels


def reason(path: Path, **limits: int) -> Reason:
    with pytest.raises(Refused) as refused:
        read_film(path, **{**LIMITS, **limits})
    assert CANARY not in str(refused.value)
    return refused.value.reason


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.corrcoef(a.ravel(), b.ravel())[0, 1])


# -- pictures --------------------------------------------------------------------------------------------------------


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


# -- DICOM -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian])
def test_uncompressed_transfer_syntaxes_give_the_same_film(tmp_path, syntax):
    expected = read(write_dicom(tmp_path / "a.dcm"))
    dataset = dicom()
    dataset.file_meta.TransferSyntaxUID = syntax
    if syntax == ExplicitVRBigEndian:
        dataset.PixelData = np.frombuffer(dataset.PixelData, "<u2").astype(">u2").tobytes()
        dataset["PixelData"].VR = "OW"
    pydicom.dcmwrite(tmp_path / "b.dcm", dataset, enforce_file_format=True)
    np.testing.assert_array_equal(read(tmp_path / "b.dcm"), expected)


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless, JPEGLSLossless])
def test_compressed_transfer_syntaxes_give_the_same_film(tmp_path, syntax):
    expected = read(write_dicom(tmp_path / "a.dcm"))
    dataset = dicom()
    dataset.compress(syntax)
    dataset.save_as(tmp_path / "b.dcm")
    np.testing.assert_array_equal(read(tmp_path / "b.dcm"), expected)


def test_jpeg_baseline_secondary_capture_is_read(tmp_path):
    out = io.BytesIO()
    Image.fromarray(draw()).save(out, "JPEG", quality=95)
    dataset = dicom(BitsAllocated=8, BitsStored=8, HighBit=7, PixelData=pydicom.encaps.encapsulate([out.getvalue()]))
    dataset.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.50"
    dataset["PixelData"].VR = "OB"
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert correlation(read(tmp_path / "a.dcm"), draw()) > 0.999


def test_monochrome1_is_inverted(tmp_path):
    inverted = (4095 - draw().astype(np.uint16) * 16).tobytes()
    one = write_dicom(tmp_path / "one.dcm", PhotometricInterpretation="MONOCHROME1", PixelData=inverted)
    two = write_dicom(tmp_path / "two.dcm")
    np.testing.assert_allclose(read(one), read(two), atol=2e-3)


def test_signed_pixels_are_the_same_film(tmp_path):
    signed = (draw().astype(np.int16) * 16 - 2000).tobytes()
    path = write_dicom(tmp_path / "a.dcm", PixelRepresentation=1, BitsStored=16, HighBit=15, PixelData=signed)
    np.testing.assert_allclose(read(path), read(write_dicom(tmp_path / "b.dcm")), atol=1e-6)


def test_the_window_of_the_file_is_used(tmp_path):
    path = write_dicom(tmp_path / "a.dcm", WindowCenter=2048, WindowWidth=1001)
    pixels, window = read_with_window(path, **LIMITS)
    stored = draw().astype(np.float64) * 16
    assert window == "file"
    np.testing.assert_allclose(pixels, np.clip((stored - 2047.5) / 1000 + 0.5, 0, 1), atol=1e-5)


@pytest.mark.parametrize("function", ["LINEAR_EXACT", "SIGMOID"])
def test_window_functions_follow_pydicom(tmp_path, function):
    path = write_dicom(tmp_path / "a.dcm", WindowCenter=2000, WindowWidth=900, VOILUTFunction=function)
    dataset = pydicom.dcmread(path)
    expected = pydicom.pixels.apply_windowing(dataset.pixel_array, dataset) / 4095
    np.testing.assert_allclose(read(path), expected, atol=1e-4)


def test_rescale_comes_before_the_window(tmp_path):
    plain = write_dicom(tmp_path / "a.dcm", WindowCenter=2048, WindowWidth=2000)
    scaled = write_dicom(
        tmp_path / "b.dcm", WindowCenter=3096, WindowWidth=4000 - 1, RescaleSlope=2, RescaleIntercept=-1000
    )
    np.testing.assert_allclose(read(plain), read(scaled), atol=2e-3)


@pytest.mark.parametrize("kind", ["u1", "<u2"])
def test_a_voi_table_is_used(tmp_path, kind):
    table = pydicom.Dataset()
    table.LUTDescriptor = [4096, 0, 8]
    table.LUTData = (255 - np.arange(4096) // 16).astype(np.uint8).astype(kind).tobytes()
    table["LUTData"].VR = "OW"
    path = write_dicom(tmp_path / "a.dcm", VOILUTSequence=[table])
    np.testing.assert_allclose(read(path), 1 - draw() / 255, atol=1e-2)


@pytest.mark.parametrize("width", [0, -5, float("1e-9")])
def test_a_senseless_window_gives_way_to_percentiles(tmp_path, width):
    pixels, window = read_with_window(write_dicom(tmp_path / "a.dcm", WindowCenter=10, WindowWidth=width), **LIMITS)
    assert window == "percentile"
    assert pixels.max() == 1


def test_a_window_beside_the_data_gives_way_to_percentiles(tmp_path):
    pixels, window = read_with_window(write_dicom(tmp_path / "a.dcm", WindowCenter=-9000, WindowWidth=10), **LIMITS)
    assert window == "percentile"
    assert correlation(pixels, draw()) > 0.999


@pytest.mark.parametrize("kind", ["MONOCHROME1", "MONOCHROME2"])
def test_padding_is_black_and_does_not_count(tmp_path, kind):
    stored = draw().astype(np.uint16) + 100
    stored[:, :10] = 4000
    path = write_dicom(
        tmp_path / "a.dcm", PhotometricInterpretation=kind, PixelPaddingValue=4000, PixelData=stored.tobytes()
    )
    pixels = read(path)
    assert pixels[:, :10].max() == 0
    assert pixels[:, 10:].max() == 1


def test_a_grey_rgb_capture_is_read_and_a_colour_one_refused(tmp_path):
    grey = np.repeat(draw()[..., None], 3, axis=2)
    rgb = {"SamplesPerPixel": 3, "PlanarConfiguration": 0, "PhotometricInterpretation": "RGB"}
    eight = {"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7}
    path = write_dicom(tmp_path / "a.dcm", **rgb, **eight, PixelData=grey.tobytes())
    np.testing.assert_allclose(read(path) * 255, draw(), atol=1e-3)
    grey[..., 0] = 255 - grey[..., 0]
    path = write_dicom(tmp_path / "b.dcm", **rgb, **eight, PixelData=grey.tobytes())
    assert reason(path) is Reason.IMAGE_NOT_GREY


@pytest.mark.usefixtures("canary_free")
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"PixelData": None}, Reason.DICOM_NO_PIXELS),
        ({"NumberOfFrames": 2}, Reason.IMAGE_MULTIFRAME),
        ({"Rows": 60000, "Columns": 60000}, Reason.IMAGE_TOO_LARGE),
        ({"Rows": 8, "Columns": 8}, Reason.IMAGE_TOO_SMALL),
        ({"Rows": 500}, Reason.DICOM_UNREADABLE),
        ({"Rows": None}, Reason.DICOM_UNREADABLE),
        ({"PhotometricInterpretation": CANARY}, Reason.DICOM_UNREADABLE),
        ({"PixelData": b"\7\0" * 80 * 96}, Reason.IMAGE_BLANK),
    ],
)
def test_dicom_films_that_cannot_be_used_are_refused(tmp_path, changes, expected):
    assert reason(write_dicom(tmp_path / "a.dcm", **changes)) is expected


@pytest.mark.usefixtures("canary_free")
def test_a_truncated_dicom_file_is_refused_wherever_it_is_cut(tmp_path):
    data = write_dicom(tmp_path / "a.dcm").read_bytes()
    for cut in (133, 200, 400, len(data) // 2, len(data) - 10):
        (tmp_path / "cut.dcm").write_bytes(data[:cut])
        assert reason(tmp_path / "cut.dcm") in (Reason.DICOM_UNREADABLE, Reason.DICOM_NO_PIXELS)


def test_a_dicomdir_is_refused(tmp_path):
    path = write_dicom(tmp_path / "DICOMDIR", SOPClassUID="1.2.840.10008.1.3.10")
    assert reason(path) is Reason.DICOM_DIRECTORY


def test_a_codestream_larger_than_the_header_says_is_refused(tmp_path):
    big = io.BytesIO()
    Image.fromarray(np.tile(draw(), (20, 20))).save(big, "JPEG2000", irreversible=False, no_jp2=True)
    dataset = dicom(BitsAllocated=8, BitsStored=8, HighBit=7, PixelData=pydicom.encaps.encapsulate([big.getvalue()]))
    dataset.file_meta.TransferSyntaxUID = JPEG2000Lossless
    dataset["PixelData"].VR = "OB"
    dataset["PixelData"].is_undefined_length = True
    dataset.save_as(tmp_path / "a.dcm", enforce_file_format=True)
    assert reason(tmp_path / "a.dcm") is Reason.DICOM_UNREADABLE


def test_the_size_of_a_codestream_is_read_from_its_header():
    for kind in ("JPEG", "JPEG2000"):
        out = io.BytesIO()
        Image.fromarray(draw()).save(out, kind)
        assert codestream_size(out.getvalue()) == (80, 96)
    assert codestream_size(b"anything") is None


def test_a_deflated_bomb_is_refused_without_being_inflated(tmp_path):
    dataset = dicom(Rows=64, Columns=64, PixelData=b"\0" * 120_000_000)
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    dataset.save_as(tmp_path / "bomb.dcm", enforce_file_format=True)
    assert (tmp_path / "bomb.dcm").stat().st_size < 1_000_000
    assert reason(tmp_path / "bomb.dcm", max_pixels=10_000) is Reason.IMAGE_TOO_LARGE


# -- square and PNG --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("fit", ["pad", "crop", "stretch"])
@pytest.mark.parametrize("shape", [(80, 96), (96, 80), (64, 64), (700, 900), (32, 32), (64, 2)])
def test_square_has_the_size_and_range_asked_for(dtype, fit, shape):
    pixels = draw(*shape)
    pixels = pixels if dtype == np.uint8 else pixels.astype(np.float32) / 255
    out = square(pixels, 64, fit)
    assert out.shape == (64, 64)
    assert out.dtype == np.float32
    assert out.min() >= 0
    assert out.max() <= 1


def test_uint8_and_float_films_become_the_same_square():
    pixels = draw(300, 200)
    np.testing.assert_allclose(square(pixels, 64), square(pixels.astype(np.float32) / 255, 64), atol=1.5 / 255)


def test_pad_keeps_the_whole_film_in_the_middle_and_crop_its_middle():
    wide = np.full((100, 200), 1.0, dtype=np.float32)
    wide[:, :50] = wide[:, 150:] = 0.5
    padded = square(wide, 40, "pad")
    assert padded[:10].max() == padded[30:].max() == 0
    assert padded[11:29].min() > 0.45
    np.testing.assert_allclose(square(wide, 40, "crop")[:, 1:-1], 1.0, atol=0.05)


@pytest.mark.parametrize("shape", [(100, 160), (160, 100), (128, 128), (99, 160)])
def test_bars_come_off_and_what_is_left_is_the_film(shape):
    pixels = draw(*shape).astype(np.float32) / 255
    bare = without_bars(square(pixels, 64, "pad"), shape)
    assert bare.min() > 0
    assert min(bare.shape) / max(bare.shape) == pytest.approx(min(shape) / max(shape), abs=0.02)
    np.testing.assert_allclose(square(bare, 64, "crop"), square(pixels, 64, "crop"), atol=0.2)


def test_a_film_drawn_over_its_bars_stays_whole():
    drawn = np.full((64, 64), 0.5, np.float32)
    assert without_bars(drawn, (100, 160)).shape == (64, 64)


def test_square_is_antialiased():
    stripes = np.zeros((512, 512), dtype=np.float32)
    stripes[:, ::2] = 1
    assert np.ptp(square(stripes, 64)[8:-8, 8:-8]) < 0.05


def test_an_unknown_fit_is_an_error():
    with pytest.raises(ValueError, match="pad, crop, stretch"):
        square(draw(), 64, "zoom")  # type: ignore[arg-type]


def test_png_carries_pixels_and_nothing_else():
    data = encode_png(draw().astype(np.float32) / 255)
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(data))), draw())
    kinds, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kinds.append(data[at + 4 : at + 8])
        at += 12 + length
    assert set(kinds) == {b"IHDR", b"IDAT", b"IEND"}
    assert data == encode_png(draw().astype(np.float32) / 255)


def test_png_clips_what_a_method_drew_outside_the_range():
    pixels = np.array([[-0.5, 0.5], [1.5, 1.0]], dtype=np.float32)
    assert np.asarray(Image.open(io.BytesIO(encode_png(pixels)))).tolist() == [[0, 128], [255, 255]]


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"\0" * 128 + b"DICM"]))
def test_no_bytes_make_the_reader_fail_otherwise_than_by_refusing(tmp_path_factory, data, head):
    path = tmp_path_factory.mktemp("fuzz") / "film"
    path.write_bytes(head + data)
    with pytest.raises(Refused):
        read_film(path, **LIMITS)
