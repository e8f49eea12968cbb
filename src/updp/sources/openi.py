"""The Indiana collection as Open-i serves it: ``ecgen-radiology/<n>.xml`` and the NLMCXR films as PNG.

One XML file is one report of one person, naming its films. Open-i does not say which film is frontal; a Kaggle-style
``indiana_projections.csv`` (uid, filename, projection) beside the folder is used where present.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.sources import mesh, sections
from updp.sources.base import Layout, Refusal
from updp.sources.files import BadSource, Members, Stems, checked_text, read_report, read_table

_FOLDER = "ecgen-radiology"


class OpenI(Layout):
    """Open-i (NLMCXR): ecgen-radiology/*.xml and PNG films."""

    holds = "chest"

    @classmethod
    def recognises(cls, root: Path) -> bool:
        folder = _reports(root)
        return folder.is_dir() and any(path.suffix == ".xml" for path in folder.iterdir())

    def rows(self) -> Iterator[Study | Refusal]:
        films, lateral = Stems(self.root), self._lateral()
        for path in sorted(_reports(self.root).glob("*.xml"), key=_number):
            where = path.stem
            try:
                record = read_xml(path)
                yield from self._films(where, record, films, lateral)
            except Refused as refused:
                yield Refusal(where, refused.reason)

    def _films(
        self, where: str, record: ElementTree.Element, films: Stems, lateral: Members
    ) -> Iterator[Study | Refusal]:
        uid = record.find("uId")
        study_id = (uid.get("id") or "").strip() if uid is not None else ""
        if not study_id:
            raise Refused(Reason.ID_MISSING)
        report = _report(record)
        labels = mesh.findings((major.text or "") for major in record.iterfind("MeSH/major"))
        names = [image.get("id") or "" for image in record.iterfind("parentImage")]
        if not names:
            raise Refused(Reason.REPORT_ORPHAN)
        for at, name in enumerate(names):
            film_id = name.strip() or f"{where} film {at}"
            try:
                if not name.strip():
                    raise Refused(Reason.ID_MISSING)
                yield Study(
                    film_id=film_id,
                    study_id=study_id,
                    patient_id=study_id,
                    path=films.find(film_id),
                    view="LATERAL" if _short(film_id) in lateral else None,
                    labels=labels,
                    report=report,
                )
            except Refused as refused:
                yield Refusal(film_id, refused.reason)

    def _lateral(self) -> Members:
        """Films that a table of projections calls lateral."""
        out = Members()
        for table in sorted(self.root.glob("*projections.csv")):
            header: list[str] = []
            for number, row in read_table(table):
                if number == 0:
                    header = [title.strip().lower() for title in row or []]
                    if not {"filename", "projection"} <= set(header):
                        raise BadSource("the table of projections has no columns filename and projection")
                elif row and len(row) == len(header):
                    values = dict(zip(header, row, strict=True))
                    if values["projection"].strip().lower() == "lateral":
                        out.add(_short(values["filename"]))
        return out


def read_xml(path: Path) -> ElementTree.Element:
    """A report's XML. A document type is refused: it is where entities are declared that swell or reach for files."""
    text = read_report(path)
    if "<!doctype" in text.lower() or "<!entity" in text.lower():
        raise Refused(Reason.REPORT_UNREADABLE)
    try:
        return ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError):
        raise Refused(Reason.REPORT_UNREADABLE) from None


def _reports(root: Path) -> Path:
    return root / _FOLDER if root.name != _FOLDER or (root / _FOLDER).is_dir() else root


def _number(path: Path) -> tuple[int, str]:
    return (int(path.stem) if path.stem.isascii() and path.stem.isdigit() else 2**63, path.stem)


def _short(name: str) -> str:
    """``CXR1_1_IM-0001-3001`` and Kaggle's ``1_IM-0001-3001.dcm.png`` are one film."""
    stem = name.strip().split("/")[-1].split(".")[0]
    head, _, rest = stem.partition("_")
    return rest if head.upper().startswith("CXR") and rest else stem


def _report(record: ElementTree.Element) -> Report | None:
    pieces: list[tuple[str, str]] = []
    for part in record.iterfind(".//AbstractText"):
        text = checked_text("".join(part.itertext()))
        label = part.get("Label")
        if label is None:
            pieces += sections.parse(text).items()
        else:
            pieces.append((sections.section_name(label) or "other", text))
    found = sections.gather(pieces)
    return Report(found) if found else None
