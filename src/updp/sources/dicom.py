"""A tree of DICOM files, as a PACS exports it: CR, DX and secondary capture, reports beside them as text or SR.

Files are known by their prefix (PS3.10 7.1), whatever their name. Iterating reads headers only, folder by folder in
sorted order; a first walk notes the structured reports, since PACS file them in a series of their own. A text report
belongs to a film if it has the film's name, is named after accession number or study UID, or is the only text in a
folder that holds one study. A report nobody claims is refused rather than dropped.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study, View
from updp.imaging.dicom import quiet, read_dicom, windowed
from updp.imaging.read import is_dicom
from updp.sources import sections
from updp.sources.base import (
    Layout,
    Members,
    Refusal,
    age_of,
    checked_text,
    date_of,
    files_below,
    find,
    number_of,
    sex_of,
    view_of,
)

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
#: Basic Text, Enhanced, Comprehensive, Comprehensive 3D and Extensible SR; not the dose reports.
REPORTS = {f"1.2.840.10008.5.1.4.1.1.88.{kind}" for kind in (11, 22, 33, 34, 35)}
_DICOMDIR = "1.2.840.10008.1.3.10"

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
_NAMED_DICOM = (".dcm", ".dicom", ".dic", ".ima")
_NO_REPORT = re.compile(r"(?i)(readme|licen[cs]e|changelog|sha256sums|checksums?)\b")
#: Files whose first bytes are looked at to tell a DICOM tree from other folders.
_LOOK = 2000


class _Filed(NamedTuple):
    """A structured report: how final it is, whose it is, where it is."""

    rank: tuple[bool, bool, str, str, str]
    patient: int
    path: str
    uid: str


class Dicom(Layout):
    """A tree of DICOM files."""

    layout = "dicom"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        from updp.sources.mimic_cxr import MimicCXR
        from updp.sources.release import Release

        if not root.is_dir():
            return False
        # DICOM films of a layout that has its own table are that layout's.
        owned = {root / "images"} if Release.recognises(root) else set()
        owned |= {root / "files"} if MimicCXR.recognises(root) else set()
        for looked, path in enumerate(_candidates(root, owned)):
            if looked == _LOOK:
                return False
            try:
                if is_dicom(path):
                    return True
            except Refused:
                continue
        return False

    def rows(self) -> Iterator[Study | Refusal]:
        claimed, used = Members(), Members()
        sole: dict[Path, Path | None] = {}
        for path in self._files():
            if isinstance(path, Refusal):
                yield path
                continue
            inside = str(path.relative_to(self.root))
            if path.suffix.lower() == ".txt":
                continue
            try:
                if not self._is_dicom(path):
                    continue
                path = self.found(inside)
                header = read_tags(path)
                if header.get("SOPClassUID") in REPORTS:
                    continue
                study = self._study(header, path, inside)
                filed = self._filed.get(number_of(study.study_id))
                if filed is not None:
                    claimed.add(filed.path)
                    if filed.patient != number_of(study.patient_id):
                        yield Refusal(inside, Reason.PATIENT_CONFLICT, disputed=study.study_id)
                        continue
                    study = study.but(report_path=self.found(filed.path))
                else:
                    report = self._text(self.root / inside, header, sole)
                    if report is not None:
                        used.add(str(report))
                        study = study.but(report_path=self.found(report.relative_to(self.root)))
                yield study
            except Refused as refused:
                yield Refusal(inside, refused.reason)
        yield from self._orphans(claimed, used)

    def _study(self, header: Any, path: Path, inside: str) -> Study:
        kind = _id(header, "SOPClassUID")
        if kind not in FILMS:
            # Every object has a class (PS3.3 C.12.1); one without it is a file whose header did not survive.
            raise Refused(Reason.NOT_A_FILM if kind else Reason.DICOM_UNREADABLE)
        film_id, study_id = _id(header, "SOPInstanceUID"), _id(header, "StudyInstanceUID")
        patient_id = _id(header, "PatientID")
        if not (film_id and study_id and patient_id):
            raise Refused(Reason.ID_MISSING)
        return Study(
            film_id=film_id,
            study_id=study_id,
            patient_id=patient_id,
            path=path,
            view=view_in(header),
            date=date_of(_id(header, "StudyDate")),
        )

    def _files(self) -> Iterator[Path | Refusal]:
        """Files in sorted order, and a refusal for every linked folder that leads out."""
        for folder, names, files in os.walk(self.root):
            names.sort()
            for name in names:
                linked = Path(folder, name)
                if linked.is_symlink():
                    inside = str(linked.relative_to(self.root))
                    try:
                        find(self.root, inside)
                    except Refused as refused:
                        yield Refusal(inside, refused.reason)
            for name in sorted(files):
                yield Path(folder, name)

    def _is_dicom(self, path: Path) -> bool:
        """Whether a file is to be read as DICOM; refuses what is called DICOM but is not."""
        try:
            if is_dicom(find(self.root, path.relative_to(self.root))):
                return True
        except Refused:
            if path.suffix.lower() in (*_NAMED_DICOM, "") or path.is_symlink():
                raise
            return False
        if path.suffix.lower() in _NAMED_DICOM:
            raise Refused(Reason.DICOM_UNREADABLE)
        return False

    # -- reports -----------------------------------------------------------------------------------------------------

    @cached_property
    def _filed(self) -> dict[int, _Filed]:
        """The most final structured report of every study that has one."""
        import pydicom

        out: dict[int, _Filed] = {}
        for path in files_below(self.root):
            if path.suffix.lower() == ".txt":
                continue
            inside = str(path.relative_to(self.root))
            try:
                real = find(self.root, inside)
                if not is_dicom(real):
                    continue
                with quiet():
                    kind = pydicom.filereader.read_file_meta_info(real).get("MediaStorageSOPClassUID")
                if kind not in REPORTS:
                    continue
                header = read_tags(real)
            except Exception:  # told when the file is read as a film
                continue
            rank = (
                header.get("VerificationFlag") == "VERIFIED",
                header.get("CompletionFlag") == "COMPLETE",
                _id(header, "ContentDate"),
                _id(header, "ContentTime"),
                inside,
            )
            filed = _Filed(rank, number_of(_id(header, "PatientID")), inside, _id(header, "SOPInstanceUID") or inside)
            study = number_of(_id(header, "StudyInstanceUID"))
            if study not in out or out[study].rank < rank:
                out[study] = filed
        return out

    def _text(self, path: Path, header: Any, sole: dict[Path, Path | None]) -> Path | None:
        """The text report of a film, if there is one."""
        for name in (f"{path.name}.txt", f"{path.stem}.txt"):
            if path.with_name(name).is_file():
                return path.with_name(name)
        folders = [path.parent]
        while folders[-1] != self.root and len(folders) < 4:
            folders.append(folders[-1].parent)
        places = [*folders, self.root, self.root / "reports"]
        for key in (_id(header, "AccessionNumber"), _id(header, "StudyInstanceUID")):
            if not key or key != os.path.basename(key) or key.startswith("."):
                continue
            for folder in places:
                if (folder / f"{key}.txt").is_file():
                    return folder / f"{key}.txt"
        for folder in folders:
            if folder not in sole:
                if len(sole) > 1024:
                    sole.clear()
                sole[folder] = self._sole(folder)
            if (report := sole[folder]) is not None:
                return report
        return None

    def _sole(self, folder: Path) -> Path | None:
        """The only text in a folder, if all films below it are of one study."""
        texts = _texts(folder)
        if len(texts) != 1:
            return None
        studies: set[str] = set()
        for path in files_below(folder):
            try:
                if path.suffix.lower() == ".txt" or not is_dicom(path):
                    continue
                studies.add(_id(read_tags(path), "StudyInstanceUID"))
            except Refused:
                continue
            if len(studies) > 1:
                return None
        return texts[0]

    def _orphans(self, claimed: Members, used: Members) -> Iterator[Refusal]:
        for filed in sorted(self._filed.values(), key=lambda filed: filed.path):
            if filed.path not in claimed:
                yield Refusal(filed.uid, Reason.REPORT_ORPHAN)
        for path in files_below(self.root):
            if path.suffix.lower() == ".txt" and not _NO_REPORT.match(path.name) and str(path) not in used:
                yield Refusal(str(path.relative_to(self.root)), Reason.REPORT_ORPHAN)


def _texts(folder: Path) -> list[Path]:
    with os.scandir(folder) as found:
        return sorted(
            Path(entry.path)
            for entry in found
            if entry.name.lower().endswith(".txt") and entry.is_file() and not _NO_REPORT.match(entry.name)
        )


def _candidates(root: Path, owned: set[Path]) -> Iterator[Path]:
    """Files that may be DICOM: all that are called so or have no suffix, and the first few others of each folder."""
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if Path(folder, name) not in owned)
        others = 0
        for name in sorted(files):
            suffix = os.path.splitext(name)[1].lower()
            if suffix in (*_NAMED_DICOM, "") or suffix[1:].isdigit():
                yield Path(folder, name)
            elif others < 3:
                others += 1
                yield Path(folder, name)


# -- headers -----------------------------------------------------------------------------------------------------------


def read_tags(path: Path) -> Any:
    """The few header elements that iterating needs."""
    import pydicom

    try:
        with quiet():
            header = pydicom.dcmread(path, stop_before_pixels=True, specific_tags=list(_TAGS))
            if header.file_meta.get("MediaStorageSOPClassUID") == _DICOMDIR:
                raise Refused(Reason.DICOM_DIRECTORY)
            header.decode()
            return header
    except Refused:
        raise
    except Exception:  # pydicom raises anything on damaged input, and quotes it
        raise Refused(Reason.DICOM_UNREADABLE) from None


def _id(header: Any, name: str) -> str:
    try:
        with quiet():
            return str(header.get(name) or "").strip().strip("\0")
    except Exception:
        raise Refused(Reason.DICOM_UNREADABLE) from None


def view_in(header: Any) -> View | None:
    """The view from ViewPosition, else from a description that names exactly one."""
    if view := view_of(_id(header, "ViewPosition")):
        return view
    words = set(re.findall(r"[A-Z]+", f"{_id(header, 'SeriesDescription')} {_id(header, 'ProtocolName')}".upper()))
    named = {view_of(word) for word in words & {"PA", "AP", "LAT", "LATERAL"}}
    return named.pop() if len(named) == 1 else None


def load_film(study: Study, *, max_pixels: int, min_side: int) -> Study:
    """The study with pixels, header, and what the header says about the patient where the source did not."""
    dataset = read_dicom(study.path or Path(), max_pixels=max_pixels)
    pixels, window = windowed(dataset, max_pixels=max_pixels, min_side=min_side)
    with quiet():
        del dataset.PixelData
    return study.but(
        pixels=pixels,
        header=dataset,
        view=study.view or view_in(dataset),
        age=study.age if study.age is not None else age_of(_id(dataset, "PatientAge")),
        sex=study.sex or sex_of(_id(dataset, "PatientSex")),
        date=study.date or date_of(_id(dataset, "StudyDate")),
    ).noted(window=window)


# -- structured reports ------------------------------------------------------------------------------------------------


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
        value, meaning = (_id(concept, "CodeValue"), _id(concept, "CodeMeaning")) if concept else ("", "")
        # Text under a heading we do not know stays out of the sections that are released by default.
        named = sections.section_of_code(value, meaning)
        inner = named or ("other" if kind == "CONTAINER" and concept else section)
        if kind == "TEXT":
            text = str(child.get("TextValue") or "")
            # A Basic Text SR may hold a whole report, headings and all, in one item.
            pieces = sections.split(text)
            plain = len(pieces) == 1 and not pieces[0].heading
            yield from [(inner, text)] if plain else [(piece.name, piece.body) for piece in pieces]
        elif kind == "CODE" and (code := (child.get("ConceptCodeSequence") or [None])[0]):
            yield inner, f"{meaning}: {_id(code, 'CodeMeaning')}" if meaning and not named else _id(code, "CodeMeaning")
        elif kind == "NUM" and (measured := (child.get("MeasuredValueSequence") or [None])[0]):
            unit = (measured.get("MeasurementUnitsCodeSequence") or [None])[0]
            amount = f"{_id(measured, 'NumericValue')} {_id(unit, 'CodeValue') if unit else ''}".strip()
            yield inner, f"{meaning}: {amount}" if meaning else amount
        yield from _content(child, inner, depth + 1)
