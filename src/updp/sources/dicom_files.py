"""One DICOM file of an export: the tags that tell what it is, a film with its header, a structured report."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from updp.core.global_state import quiet
from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.domains.chest.views import View, view_of
from updp.imaging.dicom import DICOMDIR, read_dicom, stored, windowed
from updp.sources import sections
from updp.sources.fields import age_of, date_of, sex_of
from updp.sources.files import checked_text

#: CR, DX (for presentation, for processing) and secondary capture image storage, multi-frame kinds included.
FILMS = {
    "1.2.840.10008.5.1.4.1.1.1",
    "1.2.840.10008.5.1.4.1.1.1.1",
    "1.2.840.10008.5.1.4.1.1.1.1.1",
    "1.2.840.10008.5.1.4.1.1.7",
    "1.2.840.10008.5.1.4.1.1.7.1",
    "1.2.840.10008.5.1.4.1.1.7.2",
    "1.2.840.10008.5.1.4.1.1.7.3",
    "1.2.840.10008.5.1.4.1.1.7.4",
}
#: Further projection radiographs, for releases of native films: mammography and intra-oral (each for presentation and
#: for processing), X-ray angiography and fluoroscopy, of which single frames are taken.
PROJECTIONS = {
    "1.2.840.10008.5.1.4.1.1.1.2",
    "1.2.840.10008.5.1.4.1.1.1.2.1",
    "1.2.840.10008.5.1.4.1.1.1.3",
    "1.2.840.10008.5.1.4.1.1.1.3.1",
    "1.2.840.10008.5.1.4.1.1.12.1",
    "1.2.840.10008.5.1.4.1.1.12.2",
}
#: Basic Text, Enhanced, Comprehensive, Comprehensive 3D and Extensible SR; not the dose reports.
REPORTS = {f"1.2.840.10008.5.1.4.1.1.88.{kind}" for kind in (11, 22, 33, 34, 35)}
_TAGS = [
    "SOPClassUID",
    "SOPInstanceUID",
    "StudyInstanceUID",
    "PatientID",
    "AccessionNumber",
    "Modality",
    "ViewPosition",
    "SeriesDescription",
    "ProtocolName",
    "StudyDate",
    "CompletionFlag",
    "VerificationFlag",
    "ContentDate",
    "ContentTime",
]


def read_tags(path: Path) -> Any:
    """The few header elements that iterating needs."""
    import pydicom

    try:
        with quiet():
            header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=list(_TAGS))
            if header.file_meta.get("MediaStorageSOPClassUID") == DICOMDIR:
                raise Refused(Reason.DICOM_DIRECTORY)
            header.decode()
            return header
    except Refused:
        raise
    except Exception:  # pydicom raises anything on damaged input, and quotes it
        raise Refused(Reason.DICOM_UNREADABLE) from None


def text_of(header: Any, name: str) -> str:
    """The value of an attribute as text; empty where there is none."""
    try:
        with quiet():
            return str(header.get(name) or "").strip().strip("\0")
    except Exception:
        raise Refused(Reason.DICOM_UNREADABLE) from None


def view_in(header: Any) -> View | None:
    """The view from ViewPosition, else from a description that names exactly one."""
    if view := view_of(text_of(header, "ViewPosition")):
        return view
    words = set(
        re.findall(r"[A-Z]+", f"{text_of(header, 'SeriesDescription')} {text_of(header, 'ProtocolName')}".upper())
    )
    named = {view_of(word) for word in words & {"PA", "AP", "LAT", "LATERAL"}}
    return named.pop() if len(named) == 1 else None


def load_film(study: Study, *, max_pixels: int, min_side: int, native: bool = False) -> Study:
    """The study with pixels, header, and what the header says about the patient where the source did not."""
    dataset = read_dicom(study.path or Path(), max_pixels=max_pixels)
    if native:
        study = study.but(native=stored(dataset, max_pixels=max_pixels, min_side=min_side))
    else:
        pixels, window = windowed(dataset, max_pixels=max_pixels, min_side=min_side)
        study = study.but(pixels=pixels).noted(window=window)
    with quiet():
        del dataset.PixelData
    return study.but(
        header=dataset,
        view=study.view or view_in(dataset),
        age=study.age if study.age is not None else age_of(text_of(dataset, "PatientAge")),
        sex=study.sex or sex_of(text_of(dataset, "PatientSex")),
        date=study.date or date_of(text_of(dataset, "StudyDate")),
    )


def read_structured_report(path: Path) -> Report:
    """The text of a DICOM SR (PS3.3 C.17.3), by section."""
    try:
        with quiet():
            dataset = read_dicom(path)
            if dataset.get("SOPClassUID") not in REPORTS:
                raise Refused(Reason.REPORT_UNREADABLE)
            pieces = [(name, checked_text(text)) for name, text in _content(dataset, "findings", 0)]
    except Refused as refused:
        encoding = refused.reason is Reason.REPORT_ENCODING
        raise Refused(Reason.REPORT_ENCODING if encoding else Reason.REPORT_UNREADABLE) from None
    except Exception:  # damaged trees, broken encodings
        raise Refused(Reason.REPORT_UNREADABLE) from None
    return Report(sections.gather(pieces))


def _content(item: Any, section: str, depth: int) -> Iterator[tuple[str, str]]:
    """Texts, codes and measurements of a content tree with the section whose heading is nearest above them."""
    if depth > 32:
        raise Refused(Reason.REPORT_UNREADABLE)
    for child in item.get("ContentSequence") or ():
        kind = child.get("ValueType")
        concept = (child.get("ConceptNameCodeSequence") or [None])[0]
        value, meaning = (text_of(concept, "CodeValue"), text_of(concept, "CodeMeaning")) if concept else ("", "")
        # Text under a heading that is not known stays out of the sections that are released by default.
        named = sections.section_of_code(value, meaning)
        inner = named or ("other" if kind == "CONTAINER" and concept else section)
        if kind == "TEXT":
            text = str(child.get("TextValue") or "")
            # A Basic Text SR may hold a whole report, headings and all, in one item.
            pieces = sections.split(text)
            plain = len(pieces) == 1 and not pieces[0].heading
            yield from [(inner, text)] if plain else [(piece.name, piece.body) for piece in pieces]
        elif kind == "CODE" and (code := (child.get("ConceptCodeSequence") or [None])[0]):
            yield (
                inner,
                f"{meaning}: {text_of(code, 'CodeMeaning')}" if meaning and not named else text_of(code, "CodeMeaning"),
            )
        elif kind == "NUM" and (measured := (child.get("MeasuredValueSequence") or [None])[0]):
            unit = (measured.get("MeasurementUnitsCodeSequence") or [None])[0]
            amount = f"{text_of(measured, 'NumericValue')} {text_of(unit, 'CodeValue') if unit else ''}".strip()
            yield inner, f"{meaning}: {amount}" if meaning else amount
        yield from _content(child, inner, depth + 1)
