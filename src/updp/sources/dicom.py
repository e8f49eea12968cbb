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

from updp.core.global_state import quiet
from updp.core.reasons import Reason, Refused
from updp.core.record import Study
from updp.imaging.read import is_dicom
from updp.sources.base import Layout, Refusal
from updp.sources.dicom_files import FILMS, PROJECTIONS, REPORTS, read_tags, text_of, view_in
from updp.sources.fields import date_of, number_of
from updp.sources.files import INCOMING, Members, files_below, find

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
    """A tree of DICOM files, reports beside them as text or DICOM SR."""

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
        kind = text_of(header, "SOPClassUID")
        if kind not in (FILMS | PROJECTIONS if self.projections else FILMS):
            # Every object has a class (PS3.3 C.12.1); one without it is a file whose header did not survive.
            raise Refused(Reason.NOT_A_FILM if kind else Reason.DICOM_UNREADABLE)
        film_id, study_id = text_of(header, "SOPInstanceUID"), text_of(header, "StudyInstanceUID")
        patient_id = text_of(header, "PatientID")
        if not (film_id and study_id and patient_id):
            raise Refused(Reason.ID_MISSING)
        return Study(
            film_id=film_id,
            study_id=study_id,
            patient_id=patient_id,
            path=path,
            view=view_in(header),
            date=date_of(text_of(header, "StudyDate")),
        )

    def _files(self) -> Iterator[Path | Refusal]:
        """Files in sorted order, and a refusal for every linked folder that leads out."""
        for folder, names, files in os.walk(self.root):
            names[:] = sorted(name for name in names if name != INCOMING)
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
            except Exception:  # reported when the file is read as a film
                continue
            rank = (
                header.get("VerificationFlag") == "VERIFIED",
                header.get("CompletionFlag") == "COMPLETE",
                text_of(header, "ContentDate"),
                text_of(header, "ContentTime"),
                inside,
            )
            filed = _Filed(
                rank, number_of(text_of(header, "PatientID")), inside, text_of(header, "SOPInstanceUID") or inside
            )
            study = number_of(text_of(header, "StudyInstanceUID"))
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
        for key in (text_of(header, "AccessionNumber"), text_of(header, "StudyInstanceUID")):
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
                studies.add(text_of(read_tags(path), "StudyInstanceUID"))
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
        names[:] = sorted(name for name in names if name != INCOMING and Path(folder, name) not in owned)
        others = 0
        for name in sorted(files):
            suffix = os.path.splitext(name)[1].lower()
            if suffix in (*_NAMED_DICOM, "") or suffix[1:].isdigit():
                yield Path(folder, name)
            elif others < 3:
                others += 1
                yield Path(folder, name)
