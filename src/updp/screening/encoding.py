"""Writing a cleaned dataset: elements that were passed on as bytes go to the file as bytes.

pydicom writes any dataset; this writes one kind, that which the header station makes, at about half the cost. Little
endian, explicit or implicit VR, plain or encapsulated pixels (PS3.5 section 7, PS3.10 section 7.1). Anything else is
left to pydicom.
"""

from __future__ import annotations

import struct
from pathlib import Path

from pydicom.charset import convert_encodings
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.dataset import Dataset
from pydicom.filebase import DicomBytesIO
from pydicom.filewriter import write_data_element
from pydicom.uid import UID, DeflatedExplicitVRLittleEndian

_LONG = frozenset(("OB", "OD", "OF", "OL", "OV", "OW", "SQ", "SV", "UC", "UN", "UR", "UT", "UV"))  # PS3.5 7.1.2
_ITEM = b"\xfe\xff\x00\xe0"
_END_OF_SEQUENCE = b"\xfe\xff\xdd\xe0\x00\x00\x00\x00"
_UNDEFINED = 0xFFFFFFFF


def save(dataset: Dataset, path: Path) -> None:
    """Write a dataset with file meta group to a file."""
    syntax = UID(str(dataset.file_meta.get("TransferSyntaxUID", "")))
    plain = bool(syntax) and syntax.is_transfer_syntax and not syntax.is_private and syntax.is_little_endian
    if not plain or syntax == DeflatedExplicitVRLittleEndian:
        dataset.save_as(path, enforce_file_format=True)
        return
    path.write_bytes(encode(dataset, implicit=syntax.is_implicit_VR))


def encode(dataset: Dataset, *, implicit: bool) -> bytes:
    """The whole file: preamble, file meta group, dataset."""
    return b"".join(encoded_parts(dataset, implicit=implicit))


def encoded_parts(dataset: Dataset, *, implicit: bool) -> list[bytes]:
    """The file in parts that follow each other: a large film need not be copied into one piece."""
    meta = {tag: dataset.file_meta.get_item(tag) for tag in sorted(dataset.file_meta.keys()) if tag != 0x00020000}
    out: list[bytes] = []
    for element in meta.values():
        _element(out, element, False, ["iso8859"])
    group = b"".join(out)
    length = struct.pack("<HH2sHL", 2, 0, b"UL", 4, len(group))
    return [b"\0" * 128, b"DICM", length, group, *_dataset(dataset, implicit, ["iso8859"])]


def _dataset(dataset: Dataset, implicit: bool, inherited: list[str]) -> list[bytes]:
    named = dataset.get(0x00080005)
    encodings = list(convert_encodings(named.value)) if named is not None and named.value else inherited
    same = dataset.original_encoding == (implicit, True)
    out: list[bytes] = []
    for tag in sorted(dataset.keys()):
        element = dataset.get_item(tag) if same else dataset[tag]
        _element(out, element, implicit, encodings)
    return out


def _element(out: list[bytes], element: DataElement | RawDataElement, implicit: bool, encodings: list[str]) -> None:
    if isinstance(element, RawDataElement):
        value = element.value or b""
        out.append(
            _head(element.tag, element.VR, implicit, element.length if element.length == _UNDEFINED else len(value))
        )
        out.append(value)
        if element.length == _UNDEFINED:
            out.append(_END_OF_SEQUENCE)
        return
    if element.VR == "SQ":
        items: list[bytes] = []
        for item in element.value:
            body = b"".join(_dataset(item, implicit, encodings))
            items += [_ITEM, struct.pack("<L", len(body)), body]
        value = b"".join(items)
        out.append(_head(element.tag, "SQ", implicit, len(value)))
        out.append(value)
        return
    buffer = DicomBytesIO()
    buffer.is_little_endian, buffer.is_implicit_VR = True, implicit
    write_data_element(buffer, element, encodings)
    out.append(buffer.getvalue())


def _head(tag: int, vr: str | None, implicit: bool, length: int) -> bytes:
    group, number = tag >> 16, tag & 0xFFFF
    if implicit or vr is None:
        return struct.pack("<HHL", group, number, length)
    if vr in _LONG:
        return struct.pack("<HH2sHL", group, number, vr.encode("ascii"), 0, length)
    if length > 0xFFFF:  # PS3.5 6.2.2: a value too long for its VR is written as UN
        return struct.pack("<HH2sHL", group, number, b"UN", 0, length)
    return struct.pack("<HH2sH", group, number, vr.encode("ascii"), length)
