"""The sweep finds what is hidden, and does not cry wolf."""

import base64
import gzip
import io
import json
import tarfile
import zipfile

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.uid import UID

from updp.virtual.canaries import Hit, Net, sweep

NAME = "Kowalczyk"
NUMBER = "40771239"


def png(**info):
    out = io.BytesIO()
    Image.new("L", (8, 8)).save(out, "PNG", **info)
    return out.getvalue()


def png_with_text():
    chunk = PngInfo()
    chunk.add_text("Comment", f"Patient {NAME}", zip=True)
    return png(pnginfo=chunk)


def dicom(name=NAME, compressed=False):
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = UID("1.2.840.10008.5.1.4.1.1.7"), UID("1.2.3")
    meta.TransferSyntaxUID = UID("1.2.840.10008.1.2.1.99" if compressed else "1.2.840.10008.1.2.1")
    dataset = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
    dataset.SOPClassUID, dataset.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    inner = Dataset()
    inner.PatientName = f"{name}^Anna"
    dataset.OtherPatientIDsSequence = [inner]
    out = io.BytesIO()
    dataset.save_as(out, enforce_file_format=True)
    return out.getvalue()


def parquet():
    out = io.BytesIO()
    pq.write_table(pa.table({"note": [f"seen {NAME}"] * 40}), out, compression="zstd", use_dictionary=False)
    return out.getvalue()


def zipped(data=b"Kowalczyk", name="a.txt"):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return out.getvalue()


def tarred():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("a")
        info.size = len(NAME)
        archive.addfile(info, io.BytesIO(NAME.encode()))
    return out.getvalue()


HIDDEN = {
    "plain": NAME.encode(),
    "upper case": NAME.upper().encode(),
    "escaped JSON": json.dumps({"x": "\u004bowalczyk"}).encode().replace(b"K", rb"\u004b"),
    "JSON lines": b'{"a": 1}\n{"b": ["Mrs. Kowalczyk"]}\n',
    "UTF-16": b"\0\0" + NAME.encode("utf-16-le"),
    "UTF-16, other order, odd place": b"\xff\0\0" + NAME.upper().encode("utf-16-be"),
    "compressed text of a PNG": png_with_text(),
    "DICOM sequence": dicom(),
    "deflated DICOM": dicom(compressed=True),
    "Parquet": parquet(),
    "gzip": gzip.compress(NAME.encode()),
    "zip": zipped(),
    "name of a zip's member": zipped(b"", f"{NAME}.txt"),
    "gzip in zip": zipped(gzip.compress(NAME.encode())),
    "tar": gzip.compress(tarred()),
    "picture in a page": b'<img src="data:image/png;base64,' + base64.b64encode(png_with_text()) + b'">',
    "entities of a page": b"<p>&#75;owalczyk &amp; Co</p>",
    "after the end of a PNG": png() + NAME.encode(),
}


@pytest.mark.parametrize("data", HIDDEN.values(), ids=HIDDEN)
def test_finds_a_name_wherever_it_hides(tmp_path, data):
    (tmp_path / "file").write_bytes(data)
    assert {hit.canary for hit in sweep(tmp_path, [NAME, "Absentia"])} == {NAME}


def test_finds_a_name_in_file_and_folder_names(tmp_path):
    (tmp_path / "kowalczyk_anna").mkdir()
    (tmp_path / "kowalczyk_anna" / "x").write_bytes(b"")
    assert Hit(NAME, "kowalczyk_anna") in sweep(tmp_path, [NAME])


@pytest.mark.parametrize("text", ["4077 1239", "40-77-12-39", "4077.1239", "MRN40771239", "(4077) 1239", "x 40771239."])
def test_separators_in_numbers_do_not_hide_them(text):
    assert Net([NUMBER]).text(text) == {NUMBER}


def test_separators_in_the_canary_do_not_matter_either():
    assert Net(["555-301-7788"]).text("call 5553017788") == {"555-301-7788"}


@pytest.mark.parametrize("text", ["Muller", "MÜLLER", "mu\u0308ller"])
def test_diacritics_and_case_do_not_matter(text):
    assert Net(["Müller"]).text(f"Dr. {text} called") == {"Müller"}


@pytest.mark.parametrize("text", ["Rossini", "across", "4077123", "407712390", "1940771239", "4077 12390"])
def test_part_of_a_longer_word_or_number_is_no_hit(text):
    net = Net(["Ross", "acros", NUMBER])
    assert net.text(text) == set()
    assert net.data(b"\0\xff" + text.encode()) == set()


def test_clean_folder_gives_no_hit(tmp_path):
    for place, data in enumerate(
        [png(), dicom("Nobody"), b"{}", gzip.compress(b"x"), b"PK\3\4 damaged", b"PAR1 damaged"]
    ):
        (tmp_path / str(place)).write_bytes(data)
    assert sweep(tmp_path, [NAME, NUMBER]) == []


def test_a_name_in_another_script_is_found_as_itself_only():
    net = Net(["伊藤^くみ子"])
    assert net.data(b"\0\xffRenner^Alfred\0") == set()
    assert net.data("\0伊藤^くみ子\0".encode()) == {"伊藤^くみ子"}


def test_nothing_to_look_for_finds_nothing(tmp_path):
    (tmp_path / "a").write_bytes(b"x\0")
    assert sweep(tmp_path, []) == []
