"""Reading DICOM films: transfer syntaxes, windows, what is refused."""

from __future__ import annotations

import io

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.uid import (
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLSLossless,
    RLELossless,
)

from tests.imaging.films import LIMITS, correlation, read, reason
from tests.sources.exports import CANARY, canary_free, dicom, draw, write_dicom  # noqa: F401
from updp.core.reasons import Reason
from updp.imaging.dicom import codestream_size
from updp.imaging.read import read_with_window


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
