"""One visit: its films and report as DICOM and text files, with identity wherever exports carry it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from updp.core.reasons import Reason
from updp.domains.chest.views import View

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset, FileDataset

from updp.virtual.films import VirtualFilm
from updp.virtual.ledger import Canary, FilmNote, Ledger
from updp.virtual.people import House, Person, plain
from updp.virtual.reports import write_report

#: Root of the invented UIDs (pydicom's own, PS3.5 9.1).
_UID_ROOT = "1.2.826.0.1.3680043.8.498."
#: All examinations happen from this day on; fixed, so that a hospital does not depend on the day it was made.
EPOCH = dt.date(2023, 1, 2)
_CR = "1.2.840.10008.5.1.4.1.1.1"
_DX = "1.2.840.10008.5.1.4.1.1.1.1"
_SC = "1.2.840.10008.5.1.4.1.1.7"
_SR = "1.2.840.10008.5.1.4.1.1.88.11"  # Basic Text SR
EXPLICIT = "1.2.840.10008.1.2.1"
_IMPLICIT = "1.2.840.10008.1.2"
_JPEG_LS = "1.2.840.10008.1.2.4.80"
_JPEG_2000 = "1.2.840.10008.1.2.4.90"


@dataclass(slots=True)
class Examination:
    """One visit: its films, its report, and the files they become."""

    house: House
    person: Person
    patient: int
    number: int
    day: dt.date
    prior: dt.date | None
    taken: tuple[VirtualFilm, ...]
    rng: np.random.Generator
    seed: int

    accession: str = field(init=False)
    time: dt.time = field(init=False)
    doctor: tuple[str, str] = field(init=False)
    reader: tuple[str, str] = field(init=False)
    technologist: tuple[str, str] = field(init=False)
    phone: str = field(init=False)
    device: tuple[str, str, str, str] = field(init=False)
    folder: str = field(init=False)
    study_uid: str = field(init=False)

    def __post_init__(self) -> None:
        draw = self.rng
        self.accession = f"A{draw.integers(10**7, 10**8)}"
        self.time = dt.time(int(draw.integers(6, 22)), int(draw.integers(60)), int(draw.integers(60)))
        self.doctor, self.reader = (self.house.doctors[int(draw.integers(len(self.house.doctors)))] for _ in range(2))
        crew = self.house.technologists
        self.technologist = crew[int(draw.integers(len(crew)))]
        self.phone = self.house.phones[int(draw.integers(len(self.house.phones)))]
        self.device = self.house.devices[int(draw.integers(len(self.house.devices)))]
        self.folder = self._folder()
        self.study_uid = self._uid("study")

    def _folder(self) -> str:
        # Exports name folders after the record number, and often enough after the patient.
        name = f"{plain(self.person.family)}_{plain(self.person.given)}_" if self.patient % 3 == 0 else ""
        return f"{name}{self.person.mrn}/{self.day:%Y%m%d}-{self.number + 1}"

    def _uid(self, *parts: object) -> str:
        from pydicom.uid import generate_uid

        name = "/".join(str(part) for part in (self.seed, self.patient, self.number, *parts))
        return str(generate_uid(_UID_ROOT, entropy_srcs=[name]))

    def write(self, out: Path, ledger: Ledger, *, fault: Reason | None = None) -> list[Path]:
        """The files of this visit; reports of visits with a fault are plain text."""
        folder = out / self.folder
        folder.mkdir(parents=True, exist_ok=True)
        ledger.canaries += [
            Canary("accession number", self.accession, self.patient),
            Canary("UID", self.study_uid, self.patient),
        ]
        kind: Literal["text", "sr"] | None = None
        if self.number % 7 != 6:  # a few visits have no report yet
            kind = "sr" if fault is None and self.rng.random() < 0.25 else "text"
            text = write_report(self)
            if kind == "text":
                (folder / "report.txt").write_text(text, "utf-8")
            else:
                save_dicom(self._structured_report(text), folder / "SR0001.dcm")
        paths = []
        for place, film in enumerate(self.taken):
            path = folder / f"IM{place + 1:04d}.dcm"
            dataset, words = self._film(film, place)
            save_dicom(dataset, path)
            ledger.canaries.append(Canary("UID", str(dataset.SOPInstanceUID), self.patient))
            ledger.films.append(
                FilmNote(
                    path=path.relative_to(out).as_posix(),
                    patient=self.patient,
                    study=self.number,
                    view=film.view,
                    findings=tuple(finding.name for finding in film.findings),
                    date=self.day.isoformat(),
                    origin=film.origin,
                    report=kind,
                    burned_in=tuple(words),
                    film_id=str(dataset.SOPInstanceUID),
                    fault=fault,
                )
            )
            paths.append(path)
        return paths

    # -- DICOM -------------------------------------------------------------------------------------------------------

    def _film(self, film: VirtualFilm, place: int) -> tuple[FileDataset, list[str]]:
        import numpy as np

        draw = self.rng
        pixels = film.pixels()
        words: list[str] = []
        if draw.random() < 0.7:
            pixels, words = burn_in(pixels, self._banner(film.view), draw)
        else:
            pixels, _ = burn_in(pixels, [], draw)
        sop = (_CR, _DX, _DX, _DX)[int(draw.integers(4))]
        if self.patient == 1 and self.number == 0:
            sop = _SC
        dataset = self._header(sop, "series", place)
        bits = 8 if sop == _SC else int((8, 10, 12, 12, 14, 16)[int(draw.integers(6))])
        inverted = sop == _CR and draw.random() < 0.5
        stored = np.rint((1 - pixels if inverted else pixels) * (2**bits - 1)).astype(
            np.uint8 if bits == 8 else np.uint16
        )
        dataset.Modality = {_CR: "CR", _DX: "DX", _SC: "OT"}[sop]
        dataset.ViewPosition = {"PA": "PA", "AP": "AP", "LATERAL": "LL"}[film.view]
        dataset.PatientOrientation = ["L", "F"] if film.view != "LATERAL" else ["P", "F"]
        dataset.BodyPartExamined = "CHEST"
        dataset.SeriesDescription = {"PA": "Chest PA", "AP": "Chest AP portable", "LATERAL": "Chest lateral"}[film.view]
        if sop == _SC:
            dataset.ConversionType = "DF"
        flag = (None, "YES", "NO")[int(draw.integers(3))]  # what the header claims is not to be relied on
        if flag:
            dataset.BurnedInAnnotation = flag
        dataset.SamplesPerPixel = 1
        dataset.PhotometricInterpretation = "MONOCHROME1" if inverted else "MONOCHROME2"
        dataset.PixelRepresentation = 0
        dataset.Rows, dataset.Columns = stored.shape
        dataset.BitsAllocated = 8 if bits == 8 else 16
        dataset.BitsStored, dataset.HighBit = bits, bits - 1
        if bits > 8 and draw.random() < 0.6:
            dataset.WindowCenter, dataset.WindowWidth = 2 ** (bits - 1), 2**bits
        dataset.PixelData = stored.tobytes()
        dataset["PixelData"].VR = "OB" if bits == 8 else "OW"
        choice = draw.random()
        if choice < 0.12:
            dataset.compress(_JPEG_LS, generate_instance_uid=False)
        elif choice < 0.20:
            dataset.compress(_JPEG_2000, generate_instance_uid=False)
        elif choice < 0.35:
            from pydicom.uid import UID

            dataset.file_meta.TransferSyntaxUID = UID(_IMPLICIT)
        return dataset, words

    def _header(self, sop: str, *parts: object) -> FileDataset:
        """Everything about the visit that is not pixels."""
        from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
        from pydicom.sequence import Sequence
        from pydicom.uid import UID

        person, house = self.person, self.house
        meta = FileMetaDataset()
        meta.MediaStorageSOPClassUID = UID(sop)
        meta.MediaStorageSOPInstanceUID = UID(self._uid("instance", *parts))
        meta.TransferSyntaxUID = UID(EXPLICIT)
        meta.ImplementationClassUID = UID(_UID_ROOT + "1")
        ds = FileDataset("", {}, file_meta=meta, preamble=b"\0" * 128)
        ds.SpecificCharacterSet = "ISO_IR 192"
        ds.ImageType = ["DERIVED" if sop == _SC else "ORIGINAL", "PRIMARY"]
        ds.SOPClassUID, ds.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        ds.StudyInstanceUID, ds.SeriesInstanceUID = self.study_uid, self._uid("series", *parts)
        ds.FrameOfReferenceUID = self._uid("frame", *parts)
        ds.StudyDate = ds.SeriesDate = ds.AcquisitionDate = ds.ContentDate = f"{self.day:%Y%m%d}"
        ds.StudyTime = ds.SeriesTime = ds.ContentTime = f"{self.time:%H%M%S}"
        ds.AcquisitionDateTime = f"{self.day:%Y%m%d}{self.time:%H%M%S}"
        ds.AccessionNumber, ds.StudyID = self.accession, f"{self.number + 1}"
        ds.InstanceNumber, ds.SeriesNumber = 1, 1
        ds.PatientName, ds.PatientID = person.dicom_name, person.mrn
        ds.PatientBirthDate, ds.PatientSex = f"{person.birth:%Y%m%d}", person.sex
        ds.PatientAge = f"{self.age:03d}Y"
        ds.PatientAddress, ds.PatientTelephoneNumbers = f"{person.street}, {person.city}", person.phone
        ds.IssuerOfPatientID, ds.MedicalRecordLocator = house.name[:64], person.mrn
        other = Dataset()
        other.PatientID, other.IssuerOfPatientID, other.TypeOfPatientID = person.other_id, house.name[:64], "TEXT"
        ds.OtherPatientIDsSequence = Sequence([other])
        ds.PatientComments = f"Known as {person.given} {person.family}, insurance {person.insurance}"
        ds.ReferringPhysicianName = f"{self.doctor[1]}^{self.doctor[0]}^^Dr"
        ds.PerformingPhysicianName = f"{self.reader[1]}^{self.reader[0]}"
        ds.OperatorsName = f"{self.technologist[1]}^{self.technologist[0]}"
        ds.RequestingPhysician = ds.ReferringPhysicianName
        ds.InstitutionName, ds.InstitutionAddress = house.name, f"{house.street}, {house.city}"
        ds.InstitutionalDepartmentName = house.department
        ds.Manufacturer, ds.ManufacturerModelName, ds.DeviceSerialNumber, ds.StationName = self.device
        ds.StudyDescription = f"Chest for Dr. {self.doctor[1]}"
        ds.ImageComments = f"Repeat of {self.prior:%d.%m.%Y}" if self.prior else ""
        step = Dataset()
        step.RequestedProcedureDescription = "CHEST PA AND LATERAL"
        step.ScheduledProcedureStepID, step.RequestedProcedureID = f"SPS{self.accession[1:]}", self.accession
        step.ScheduledProcedureStepDescription = f"Chest, {person.title} {person.family}"
        inner = Dataset()
        inner.ReferencedSOPClassUID = "1.2.840.10008.3.1.2.3.1"
        inner.ReferencedSOPInstanceUID = self._uid("step")
        step.ReferencedStudySequence = Sequence([inner])
        ds.RequestAttributesSequence = Sequence([step])
        block = ds.private_block(0x0029, "VIRTUAL HOSPITAL 1.0", create=True)
        block.add_new(0x10, "LO", f"{person.given} {person.family}")
        block.add_new(0x11, "DA", f"{person.birth:%Y%m%d}")
        nested = Dataset()
        nested.PatientID, nested.PatientName = person.other_id, person.dicom_name
        block.add_new(0x20, "SQ", Sequence([nested]))
        return ds

    def _structured_report(self, text: str) -> FileDataset:
        """The report as a Basic Text SR: a heading container a section (PS3.16 TID 2000)."""
        from pydicom.dataset import Dataset
        from pydicom.sequence import Sequence

        from updp.sources import sections

        ds = self._header(_SR, "report")
        ds.Modality = "SR"
        del ds.ImageType
        ds.CompletionFlag, ds.VerificationFlag = "COMPLETE", "VERIFIED"
        verifier = Dataset()
        verifier.VerifyingObserverName = f"{self.reader[1]}^{self.reader[0]}"
        verifier.VerifyingOrganization = self.house.name
        verifier.VerificationDateTime = f"{self.day:%Y%m%d}{self.time:%H%M%S}"
        ds.VerifyingObserverSequence = Sequence([verifier])
        ds.ValueType = "CONTAINER"
        ds.ContinuityOfContent = "SEPARATE"
        ds.ConceptNameCodeSequence = Sequence([_code("18748-4", "LN", "Diagnostic imaging report")])
        # Section, its heading and the name of a text below it (PS3.16 CID 7001 and 7002).
        codes = {
            "indication": (("121109", "Indications for Procedure"), ("121110", "Patient Presentation")),
            "history": (("121060", "History"), ("121110", "Patient Presentation")),
            "comparison": (("121068", "Previous Findings"), ("121069", "Previous Finding")),
            "findings": (("121070", "Findings"), ("121071", "Finding")),
            "impression": (("121072", "Impressions"), ("121073", "Impression")),
        }
        items = []
        for name, body in sections.parse(text).items():
            if name not in codes:
                continue
            heading, kind = codes[name]
            line = Dataset()
            line.RelationshipType, line.ValueType = "CONTAINS", "TEXT"
            line.ConceptNameCodeSequence = Sequence([_code(kind[0], "DCM", kind[1])])
            line.TextValue = body
            box = Dataset()
            box.RelationshipType, box.ValueType, box.ContinuityOfContent = "CONTAINS", "CONTAINER", "SEPARATE"
            box.ConceptNameCodeSequence = Sequence([_code(heading[0], "DCM", heading[1])])
            box.ContentSequence = Sequence([line])
            items.append(box)
        ds.ContentSequence = Sequence(items)
        return ds

    # -- words -------------------------------------------------------------------------------------------------------

    @property
    def age(self) -> int:
        born = self.person.birth
        return self.day.year - born.year - ((self.day.month, self.day.day) < (born.month, born.day))

    def _banner(self, view: View) -> list[str]:
        """Lines a modality prints onto the film."""
        person = self.person
        lines = [
            f"{plain(person.family).upper()}, {plain(person.given).upper()}",
            f"MRN {person.mrn}",
            f"DOB {person.birth:%m/%d/%Y}  {person.sex}",
            f"{self.day:%Y-%m-%d} {self.time:%H:%M}",
            plain(self.house.name).upper(),
        ]
        keep = 2 + int(self.rng.integers(len(lines) - 1))
        return [*lines[:keep], *(["PORTABLE"] if view == "AP" else [])]


def burn_in(
    pixels: NDArray[np.float32], lines: list[str], rng: np.random.Generator
) -> tuple[NDArray[np.float32], list[str]]:
    """The film with a side marker, and lines of text in its corners; also the lines drawn."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    height, width = pixels.shape
    image = Image.fromarray(np.rint(pixels * 255).astype(np.uint8))
    pen = ImageDraw.Draw(image)
    size = max(14, round(height * rng.uniform(0.020, 0.030)))
    font, large = ImageFont.load_default(size), ImageFont.load_default(round(size * 1.9))
    side = "L" if rng.random() < 0.75 else "R"  # a film hung the usual way shows the patient's left on the right
    where = (width * 0.93 if side == "L" else width * 0.07, height * rng.uniform(0.24, 0.32))
    pen.text(where, side, fill=250, font=large, anchor="mm", stroke_width=1)
    corner = int(rng.integers(3))
    top, left = height * 0.015, width * 0.015
    for place, line in enumerate(lines):
        down = top + place * size * 1.25
        if corner == 0:
            pen.text((left, down), line, fill=240, font=font)
        elif corner == 1:
            pen.text((width - left, down), line, fill=240, font=font, anchor="ra")
        else:
            pen.text((left, height - top - (len(lines) - place) * size * 1.25), line, fill=240, font=font)
    burned = np.asarray(image, dtype=np.float32) / 255
    # Only where something was drawn; the rest keeps its full depth.
    changed = np.abs(burned - np.rint(pixels * 255) / 255) > 1e-4
    return np.where(changed, burned, pixels).astype(np.float32), list(lines)


def _code(value: str, scheme: str, meaning: str) -> Dataset:
    from pydicom.dataset import Dataset

    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, scheme, meaning
    return code


def save_dicom(dataset: FileDataset, path: Path) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # long invented addresses exceed LO's 64 characters, as real ones do
        dataset.save_as(path, enforce_file_format=True)
