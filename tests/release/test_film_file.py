"""Native films: what a cleaned DICOM file keeps, in every transfer syntax, and what it never has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image
from pydicom.dataset import Dataset
from pydicom.uid import ExplicitVRBigEndian, ImplicitVRLittleEndian, JPEGLSLossless, RLELossless

from tests.conftest import reasons, same_tree, sweep
from tests.sources.exports import CANARY, dicom, write_dicom
from updp.core.policy import Policy
from updp.pipeline.run import deidentify
from updp.release import manifest
from updp.release.dicom import SYNTAXES
from updp.release.signature import public_key
from updp.release.verify import verify
from updp.sources import open_source

DX = "1.2.840.10008.5.1.4.1.1.1.1"
MAMMOGRAPHY = "1.2.840.10008.5.1.4.1.1.1.2"
NATIVE = """
[source]
frontal_only = false
[burned_in]
mode = "off"
[image]
size = "native"
format = "source"
transfer_syntax = "{syntax}"
[method]
name = "{method}"
[release]
shard_size = 4
attributes = ["view", "labels", "date"]
[gate]
max_quarantined = 1.0
"""


def native_policy(method: str = "keep", syntax: str = "explicit-le", more: str = "") -> Policy:
    return Policy.parse(NATIVE.format(method=method, syntax=syntax) + more)


def pixels(bits: int = 12, kind: str = "u2", height: int = 90, width: int = 131, seed: int = 0) -> np.ndarray:
    """A film of odd size that uses every value of its depth, with an even number of bytes or not."""
    lowest = -(2 ** (bits - 1)) if kind[0] == "i" else 0
    rng = np.random.default_rng(seed)
    film = rng.integers(lowest, lowest + 2**bits, (height, width))
    film[0, :2] = lowest, lowest + 2**bits - 1
    return film.astype(kind)


def stored(values: np.ndarray, bits: int, **more: Any) -> dict[str, Any]:
    return {
        "Rows": values.shape[0],
        "Columns": values.shape[1],
        "BitsAllocated": 8 * values.dtype.itemsize,
        "BitsStored": bits,
        "HighBit": bits - 1,
        "PixelRepresentation": int(values.dtype.kind == "i"),
        "PixelData": values.tobytes() + b"\0" * (values.nbytes % 2),
    } | more


def lut(explanation: str = "NORMAL") -> list[Dataset]:
    item = Dataset()
    item.add_new("LUTDescriptor", "US", [4096, 0, 12])
    item.LUTExplanation = explanation
    item.add_new("LUTData", "OW", (np.arange(4096) ** 2 // 4096).astype("<u2").tobytes())
    return [item]


#: What describes film and examination, and says nothing of the patient: it has to leave as it came.
KEPT: dict[str, Any] = {
    "Modality": "DX",
    "PixelSpacing": [0.148, 0.148],
    "ImagerPixelSpacing": [0.15, 0.15],
    "PixelAspectRatio": [1, 1],
    "WindowCenter": [2048, 1900],
    "WindowWidth": [3000, 2500],
    "VOILUTFunction": "SIGMOID",
    "RescaleSlope": 1,
    "RescaleIntercept": 0,
    "RescaleType": "US",
    "PresentationLUTShape": "IDENTITY",
    "PixelIntensityRelationship": "LOG",
    "PixelIntensityRelationshipSign": -1,
    "LossyImageCompression": "00",
    "PatientOrientation": ["L", "F"],
    "ImageLaterality": "U",
    "BodyPartExamined": "CHEST",
    "ViewPosition": "LL",
    "KVP": 120,
    "Exposure": 4,
    "ImageType": ["ORIGINAL", "PRIMARY", ""],
}


def cleaned(tmp_path: Path, key: Any, policy: Policy, **film: Any) -> Dataset:
    """The one film of an export after a run."""
    write_dicom(tmp_path / "export" / "a.dcm", **film)
    outcome = deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=policy, workers=1)
    assert outcome.released == 1, outcome.quarantined
    (path,) = (tmp_path / "out" / "unmeasured" / "images").rglob("*.dcm")
    return pydicom.dcmread(path)


def refused(tmp_path: Path, key: Any, **film: Any) -> dict[str, int]:
    write_dicom(tmp_path / "export" / "a.dcm", **film)
    assert deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=native_policy(), workers=1).released == 0
    return reasons(tmp_path / "out")


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_every_attribute_of_film_and_pixels_comes_through(tmp_path, key, syntax, photometric):
    values = pixels()
    film = stored(values, 12, SOPClassUID=DX, PhotometricInterpretation=photometric, VOILUTSequence=lut(), **KEPT)
    new = cleaned(tmp_path, key, native_policy(syntax=syntax), **film)
    assert new.file_meta.TransferSyntaxUID == SYNTAXES[syntax]
    assert np.array_equal(new.pixel_array, values)
    given = dicom(**film)
    for name in (*KEPT, "Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation",
                 "SOPClassUID", "PhotometricInterpretation", "SamplesPerPixel"):  # fmt: skip
        assert new[name].value == given[name].value, name
    assert new.VOILUTSequence[0].LUTData == given.VOILUTSequence[0].LUTData
    assert list(new.VOILUTSequence[0].LUTDescriptor) == [4096, 0, 12]
    assert new.PatientIdentityRemoved == "YES"
    assert new.ContributingEquipmentSequence[-1].Manufacturer == "updp"
    assert new.PatientID == key.patient("MRN-1")
    assert sweep(tmp_path / "out", (CANARY, "MRN-1", "1.2.3.1"), skip=("vault",)) == []
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize(("bits", "kind"), [(8, "u1"), (10, "u2"), (16, "u2"), (12, "i2"), (16, "i2")])
def test_every_depth_comes_through(tmp_path, key, syntax, bits, kind):
    values = pixels(bits, kind, 65, 67)
    new = cleaned(tmp_path, key, native_policy(syntax=syntax), **stored(values, bits))
    assert np.array_equal(new.pixel_array, values)
    assert (new.BitsStored, new.PixelRepresentation) == (bits, int(kind[0] == "i"))


@pytest.mark.parametrize("given", [ImplicitVRLittleEndian, ExplicitVRBigEndian, RLELossless, JPEGLSLossless])
def test_films_of_any_transfer_syntax_leave_in_the_one_asked_for(tmp_path, key, given):
    values = pixels()
    film = dicom(**stored(values, 12, VOILUTSequence=lut(), PixelPaddingValue=7))
    path = tmp_path / "export" / "a.dcm"
    path.parent.mkdir()
    if given == ExplicitVRBigEndian:
        film.PixelData = values.astype(">u2").tobytes()
        film.VOILUTSequence[0].LUTData = np.frombuffer(film.VOILUTSequence[0].LUTData, "<u2").astype(">u2").tobytes()
    if given in (RLELossless, JPEGLSLossless):
        film.compress(given, generate_instance_uid=False)
    film.file_meta.TransferSyntaxUID = given
    pydicom.dcmwrite(path, film, implicit_vr=given == ImplicitVRLittleEndian,
                     little_endian=given != ExplicitVRBigEndian, force_encoding=True)  # fmt: skip
    assert deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=native_policy(), workers=1).released == 1
    new = pydicom.dcmread(next((tmp_path / "out" / "unmeasured" / "images").rglob("*.dcm")))
    assert new.file_meta.TransferSyntaxUID == SYNTAXES["explicit-le"]
    assert np.array_equal(new.pixel_array, values)
    assert new.PixelPaddingValue == 7
    assert new.VOILUTSequence[0].LUTData == lut()[0].LUTData


def test_a_name_in_the_bits_above_the_pixels_stays_behind(tmp_path, key):
    values = pixels()
    letters = np.zeros(values.shape, np.uint16)
    letters[10:20, 10:60] = 1 << 12
    film = stored(values | letters, 12)
    overlay = {"OverlayRows": 90, "OverlayColumns": 131, "OverlayBitsAllocated": 16, "OverlayBitPosition": 12}
    dataset = dicom(**film)
    for name, value in overlay.items():
        dataset.add_new(0x60000000 | {"OverlayRows": 0x10, "OverlayColumns": 0x11, "OverlayBitsAllocated": 0x100,
                                      "OverlayBitPosition": 0x102}[name], "US", value)  # fmt: skip
    (tmp_path / "export").mkdir()
    pydicom.dcmwrite(tmp_path / "export" / "a.dcm", dataset, enforce_file_format=True)
    deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=native_policy(), workers=1)
    new = pydicom.dcmread(next((tmp_path / "out" / "unmeasured" / "images").rglob("*.dcm")))
    assert np.array_equal(np.frombuffer(new.PixelData, "<u2")[: values.size].reshape(values.shape), values)
    assert not [element.tag for element in new if element.tag.group & 0xFF00 == 0x6000]


@pytest.mark.parametrize(
    ("reason", "film"),
    [
        ("image-multiframe", {"NumberOfFrames": 3, "PixelData": bytes(3 * 80 * 96 * 2)}),
        ("image-depth-unclear", {"HighBit": 15}),
        ("image-depth-unclear", {"BitsStored": 8, "HighBit": 7}),  # values go up to 4080
        ("image-depth-unclear", {"BitsAllocated": 32, "BitsStored": 32, "HighBit": 31, "PixelData": bytes(30720)}),
        ("image-blank", {"PixelData": bytes(80 * 96 * 2)}),
        ("dicom-unreadable", {"PixelData": bytes(80 * 96)}),
        ("dicom-no-pixels", {"PixelData": None}),
        ("image-too-small", {"Rows": 8, "Columns": 8, "PixelData": bytes(range(128))}),
        ("image-not-grey", {"PhotometricInterpretation": "RGB", "SamplesPerPixel": 3, "PlanarConfiguration": 0,
                            "BitsAllocated": 8, "BitsStored": 8, "HighBit": 7,
                            "PixelData": np.random.default_rng(0).integers(0, 255, 80 * 96 * 3, np.uint8).tobytes()}),
        ("not-a-film", {"SOPClassUID": "1.2.840.10008.5.1.4.1.1.2"}),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_as_it_is_is_kept_back_with_a_reason(tmp_path, key, reason, film):
    assert refused(tmp_path, key, **film) == {reason: 1}
    assert sweep(tmp_path / "out", (CANARY,), skip=("vault",)) == []


def test_lateral_films_and_other_projections_are_taken_where_films_stay_native(tmp_path, key):
    folder = tmp_path / "export"
    write_dicom(folder / "a.dcm", ViewPosition="LL", **stored(pixels(seed=1), 12))
    write_dicom(folder / "b.dcm", SOPClassUID=MAMMOGRAPHY, SOPInstanceUID="1.2.3.2", Modality="MG", ViewPosition=None,
                **stored(pixels(seed=2), 12))  # fmt: skip
    assert deidentify(folder, tmp_path / "out", key=key, policy=native_policy(), workers=1).released == 2
    square = native_policy(more="").with_image(size=64)
    assert deidentify(folder, tmp_path / "small", key=key, policy=square, workers=1).released == 1
    assert reasons(tmp_path / "small") == {"not-a-film": 1}


def test_a_grey_film_stored_in_colour_becomes_one_channel(tmp_path, key):
    grey = pixels(8, "u1", 80, 96)
    new = cleaned(tmp_path, key, native_policy(), PhotometricInterpretation="RGB", SamplesPerPixel=3,
                  PlanarConfiguration=0, **stored(np.repeat(grey[..., None], 3, axis=2), 8))  # fmt: skip
    assert (new.SamplesPerPixel, new.PhotometricInterpretation) == (1, "MONOCHROME2")
    assert "PlanarConfiguration" not in new
    assert np.array_equal(new.pixel_array, grey)


@pytest.mark.parametrize("method", ["blur", "pixelate", "dp-pix"])
def test_methods_that_serve_it_alter_films_at_their_own_size_and_depth(tmp_path, key, method):
    values = pixels()
    film = stored(values, 12, SmallestImagePixelValue=0, LargestImagePixelValue=4095, ImageType=["ORIGINAL", "PRIMARY"])
    new = cleaned(tmp_path, key, native_policy(method), **film)
    made = new.pixel_array
    assert (made.shape, made.dtype) == (values.shape, values.dtype)
    assert not np.array_equal(made, values)
    assert len(np.unique(made >> 4)) < len(np.unique(made))  # more than eight of the twelve bits are in use
    assert (new.SmallestImagePixelValue, new.LargestImagePixelValue) == (made.min(), made.max())
    assert new.ImageType[0] == "DERIVED"
    assert "Not for diagnosis" in new.DerivationDescription


def test_dates_age_and_sex_leave_in_the_header_only_where_the_manifest_may_have_them(tmp_path, key):
    film = stored(pixels(), 12)
    kept = cleaned(tmp_path / "a", key, native_policy(), **film)
    assert kept.StudyDate not in ("", "20190304")
    withheld = Policy.parse(NATIVE.format(method="keep", syntax="explicit-le").replace(', "date"', ""))
    policy = withheld.model_copy(
        update={"header": withheld.header.model_copy(update={"retain_patient_characteristics": True})}
    )
    bare = cleaned(tmp_path / "b", key, policy, **film)
    assert (bare.StudyDate, bare.PatientSex) == ("", "")
    assert "PatientAge" not in bare
    assert bare.LongitudinalTemporalInformationModified == "REMOVED"
    assert "(0028,0303) is REMOVED" in (tmp_path / "b/out/unmeasured/evidence/conformance.md").read_text()


def test_pictures_keep_size_and_depth_too(tmp_path, key, hospital):
    deep = pixels(16, "u2", 70, 100)
    Image.fromarray(deep).save(hospital.root / "deep.png")
    hospital.add(99, image="deep.png")
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=native_policy(), workers=1)
    release = tmp_path / "out" / "unmeasured"
    films = {row["release_id"]: release / row["file_name"] for row in manifest.read(release)}
    assert np.array_equal(np.asarray(Image.open(films[key.film("MRN7741982-99")])), deep)
    own = np.asarray(Image.open(hospital.root / hospital.rows[0]["image"]))
    assert np.array_equal(np.asarray(Image.open(films[key.film("MRN7741982-0")])), own)


def test_a_picture_becomes_a_dicom_film_of_its_own_depth(tmp_path, key, hospital):
    policy = native_policy().with_image(format="dicom", transfer_syntax="jpeg-ls")
    deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    row = next(iter(manifest.read(tmp_path / "out/unmeasured")))
    film = pydicom.dcmread(tmp_path / "out/unmeasured" / row["file_name"])
    assert film.file_meta.TransferSyntaxUID == SYNTAXES["jpeg-ls"]
    assert film.pixel_array.shape == (80, 80)


def test_a_deep_film_as_png_uses_all_sixteen_bits_and_shows_white_as_dense(tmp_path, key):
    values = pixels()
    write_dicom(tmp_path / "export" / "a.dcm", **stored(values, 12, PhotometricInterpretation="MONOCHROME1"))
    policy = native_policy().with_image(format="png")
    deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=policy, workers=1)
    made = np.asarray(Image.open(next((tmp_path / "out/unmeasured/images").rglob("*.png"))))
    assert made.dtype == np.uint16
    assert np.array_equal(4095 - np.rint(made / 65535 * 4095).astype(int), values)


def test_workers_and_a_second_run_make_the_same_bytes(tmp_path, key):
    for n in range(6):
        film = stored(pixels(seed=n), 12)
        write_dicom(tmp_path / "export" / f"{n}.dcm", SOPInstanceUID=f"1.2.3.{n + 1}", **film)
    policy = native_policy("dp-pix", "jpeg-2000")
    for out, workers in (("one", 1), ("two", 2)):
        assert deidentify(tmp_path / "export", tmp_path / out, key=key, policy=policy, workers=workers).released == 6
    assert same_tree(tmp_path / "one" / "unmeasured", tmp_path / "two" / "unmeasured")


def test_a_native_release_is_a_source_again(tmp_path, key):
    cleaned(tmp_path, key, native_policy(syntax="jpeg-ls"), **stored(pixels(), 12))
    again = open_source(tmp_path / "out" / "unmeasured")
    (study,) = again
    assert again.load(study).pixels.shape == (90, 131)


def test_burned_in_text_is_painted_in_the_file_by_the_real_reader(tmp_path, key):
    pytest.importorskip("rapidocr")
    from PIL import ImageDraw, ImageFont

    y, x = np.mgrid[-1:1:400j, -1:1:520j]
    shade = np.exp(-2 * (x**2 + y**2)) * 1500 + 400 + np.random.default_rng(0).normal(0, 8, x.shape)
    letters = Image.new("L", (520, 400))
    ImageDraw.Draw(letters).text((90, 30), f"{CANARY.upper()} 04/03/2019", 255, ImageFont.load_default(26))
    values = np.where(np.asarray(letters) > 128, 3900, shade).astype(np.uint16)
    policy = native_policy()
    policy = policy.model_copy(update={"burned_in": policy.burned_in.model_copy(update={"mode": "ocr"})})
    new = cleaned(tmp_path, key, policy, **stored(values, 12))
    made = new.pixel_array
    ink = np.asarray(letters) > 128
    assert made[ink].max() < 2500
    rows = np.flatnonzero(ink.any(axis=1))
    far = np.ones(values.shape, bool)
    far[max(0, rows.min() - 40) : rows.max() + 40] = False
    assert np.array_equal(made[far], values[far])
    assert new.BurnedInAnnotation == "NO"
    assert new.ImageType[0] == "DERIVED"
