"""The virtual hospital: a DICOM tree of invented patients, with identity wherever real exports carry it.

Names, numbers, dates and addresses stand in headers (nested sequences and private elements too), burned into the films
and in reports (text files and DICOM SR); a few files are broken in the ways exports break. Every invented identifier
is in the ``Ledger``, so a release can be swept for all of them. The same seed gives the same bytes.

Films come through one seam, ``films``: those a model pack brings (generated from noise, nobody's), else drawn ones
(``updp.virtual.drawing``). Neither is a real patient's.
"""

from __future__ import annotations

import datetime as dt
import json
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from updp.core.reasons import Reason
from updp.core.record import Sex, View

if TYPE_CHECKING:
    import numpy as np
    from faker import Faker
    from numpy.typing import NDArray
    from pydicom.dataset import Dataset, FileDataset

    from updp.virtual.drawing import Finding

Origin = Literal["drawn", "generated"]

#: Root of the invented UIDs (pydicom's own, PS3.5 9.1).
_UID_ROOT = "1.2.826.0.1.3680043.8.498."
#: All examinations happen from this day on; fixed, so that a hospital does not depend on the day it was made.
_EPOCH = dt.date(2023, 1, 2)
#: A patient's examinations lie within this many days: shorter than the shortest date shift, so that a shifted date
#: is never another true date of the same patient.
_SPAN = 330

_CR = "1.2.840.10008.5.1.4.1.1.1"
_DX = "1.2.840.10008.5.1.4.1.1.1.1"
_SC = "1.2.840.10008.5.1.4.1.1.7"
_SR = "1.2.840.10008.5.1.4.1.1.88.11"  # Basic Text SR
_EXPLICIT = "1.2.840.10008.1.2.1"
_IMPLICIT = "1.2.840.10008.1.2"
_JPEG_LS = "1.2.840.10008.1.2.4.80"
_JPEG_2000 = "1.2.840.10008.1.2.4.90"


# -- what is known of the hospital -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Canary:
    """An invented identifier: if it turns up in a release, something leaked."""

    kind: str  # "name", "record number", "birth date", ...
    value: str
    patient: int | None = None


@dataclass(frozen=True, slots=True)
class FilmNote:
    """What one file of the hospital is, and what should become of it."""

    path: str  # within the hospital
    patient: int
    study: int
    view: View
    findings: tuple[str, ...]
    date: str
    origin: Origin
    report: Literal["text", "sr"] | None = None
    burned_in: tuple[str, ...] = ()  # words on the film
    film_id: str = ""  # SOP Instance UID
    fault: Reason | None = None  # why it has to end in quarantine


@dataclass(slots=True)
class Ledger:
    """Everything that was invented."""

    seed: int
    films: list[FilmNote] = field(default_factory=list)
    canaries: list[Canary] = field(default_factory=list)

    def strings(self) -> list[str]:
        """Every identifier once, in a fixed order."""
        return sorted({canary.value for canary in self.canaries})

    def faults(self) -> dict[str, int]:
        """Reason code to how many films have to be kept back for it."""
        out: dict[str, int] = {}
        for note in self.films:
            if note.fault is not None:
                out[note.fault.value] = out.get(note.fault.value, 0) + 1
        return dict(sorted(out.items()))

    def origins(self) -> set[Origin]:
        return {note.origin for note in self.films}

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> Ledger:
        raw = json.loads(path.read_text("utf-8"))
        notes = []
        for note in raw["films"]:
            fault = Reason(note["fault"]) if note["fault"] else None
            lists = {"findings": tuple(note["findings"]), "burned_in": tuple(note["burned_in"])}
            notes.append(FilmNote(**note | lists | {"fault": fault}))
        return cls(raw["seed"], notes, [Canary(**canary) for canary in raw["canaries"]])


@dataclass(frozen=True, slots=True)
class Person:
    """An invented patient."""

    given: str
    family: str
    sex: Sex
    birth: dt.date
    mrn: str
    other_id: str
    insurance: str
    street: str
    city: str
    phone: str
    written: str = ""  # the name in the person's own script, where that is not Latin

    @property
    def title(self) -> str:
        return "Mrs." if self.sex == "F" else "Mr."

    @property
    def dicom_name(self) -> str:
        latin = f"{self.family}^{self.given}"
        return f"{latin}={self.written}" if self.written else latin


@dataclass(frozen=True, slots=True)
class House:
    """The hospital itself and the people who work there."""

    name: str
    street: str
    city: str
    department: str
    doctors: tuple[tuple[str, str], ...]  # given, family
    technologists: tuple[tuple[str, str], ...]
    phones: tuple[str, ...]
    devices: tuple[tuple[str, str, str, str], ...]  # maker, model, serial number, station


# -- films -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VirtualFilm:
    """A film that is nobody's, made when it is asked for."""

    view: View
    findings: tuple[Finding, ...]
    origin: Origin
    pixels: Callable[[], NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class VirtualPatient:
    """Films of one invented person, examination by examination."""

    sex: Sex
    examinations: tuple[tuple[VirtualFilm, ...], ...]


def films(seed: int, patients: int, *, pack: Traversable | None = None) -> Iterator[VirtualPatient]:
    """Films for so many patients: the pack's while they last, then drawn ones.

    A pack brings a folder ``virtual`` with ``films.json`` (``{"films": [{"patient": 0, "study": 0, "view": "PA",
    "findings": ["Effusion"], "file": "0-0.jpg", "sex": "F"}, ...]}``; ``sex`` may be left out) and the files it names.
    """
    found = pack if pack is not None else _packed()
    made = _generated(found, seed) if found is not None else []
    for index in range(patients):
        yield made[index] if index < len(made) else _drawn(_rng(seed, "film", index))


def _packed() -> Traversable | None:
    """The virtual films of the embedded model pack, if this installation has them."""
    try:
        folder = resources.files("updp") / "packs" / "cxr256" / "virtual"
        return folder if (folder / "films.json").is_file() else None
    except (ModuleNotFoundError, OSError):
        return None


def _generated(folder: Traversable, seed: int) -> list[VirtualPatient]:
    from updp.virtual.drawing import Finding

    rows: dict[int, dict[int, list[VirtualFilm]]] = {}
    sexes: dict[int, Sex] = {}
    for row in json.loads((folder / "films.json").read_text("utf-8"))["films"]:
        picture = folder / row["file"]
        found = tuple(Finding(name) for name in row["findings"])
        film = VirtualFilm(row["view"], found, "generated", lambda picture=picture: _decoded(picture))  # type: ignore[misc]
        rows.setdefault(row["patient"], {}).setdefault(row["study"], []).append(film)
        if row.get("sex") in ("F", "M"):
            sexes[row["patient"]] = row["sex"]
    out = []
    for patient, studies in sorted(rows.items()):
        sex: Sex = sexes.get(patient) or ("F" if _rng(seed, "sex", patient).random() < 0.5 else "M")
        out.append(VirtualPatient(sex, tuple(tuple(studies[number]) for number in sorted(studies))))
    return out


def _decoded(picture: Traversable) -> NDArray[np.float32]:
    import numpy as np
    from PIL import Image

    with picture.open("rb") as file, Image.open(file) as image:
        small = image.convert("L")
        side = max(512, *small.size)
        scale = side / max(small.size)
        large = small.resize((round(small.width * scale), round(small.height * scale)), Image.Resampling.BICUBIC)
    return np.asarray(large, dtype=np.float32) / np.float32(255)


def _drawn(rng: np.random.Generator) -> VirtualPatient:
    from updp.virtual import drawing

    sex: Sex = "F" if rng.random() < 0.5 else "M"
    anatomy = drawing.Anatomy.sample(rng, sex)
    size = int(rng.integers(560, 900)), int(rng.integers(512, 820))
    lasting = tuple(_sampled(rng, lasting=True))
    examinations = []
    for _ in range(int(rng.integers(2, 6))):
        found = lasting + tuple(_sampled(rng, lasting=False))
        view: View = "AP" if rng.random() < 0.3 else "PA"
        taken = [_sketch(anatomy, found, view, size, int(rng.integers(2**63)))]
        if view == "PA" and rng.random() < 0.3:
            taken.append(_sketch(anatomy, found, "LATERAL", size, int(rng.integers(2**63))))
        examinations.append(tuple(taken))
    return VirtualPatient(sex, tuple(examinations))


def _sketch(anatomy: Any, found: tuple[Finding, ...], view: View, size: tuple[int, int], seed: int) -> VirtualFilm:
    import numpy as np

    from updp.virtual import drawing

    def pixels() -> NDArray[np.float32]:
        return drawing.draw(anatomy, found, view, size, np.random.Generator(np.random.PCG64(seed)))

    return VirtualFilm(view, found, "drawn", pixels)


def _sampled(rng: np.random.Generator, *, lasting: bool) -> Iterator[Finding]:
    """The findings of a person or of a day."""
    from updp.virtual.drawing import Finding

    for name, facts in _words()["findings"].items():
        if facts["stays"] is lasting and rng.random() < facts["share"]:
            low, high = facts.get("millimetres", (0, 0))
            yield Finding(
                name,
                side=("left", "right")[int(rng.integers(2))] if facts.get("sided") else None,
                zone=("upper", "mid", "lower")[int(rng.integers(3))] if facts.get("zoned") else None,
                millimetres=int(rng.integers(low, high)) if high else None,
            )


# -- making the hospital ---------------------------------------------------------------------------------------------


def make_hospital(out: Path, *, seed: int, patients: int = 40, pack: Traversable | None = None) -> Ledger:
    """Write the export of an invented hospital to ``out`` and return everything that was invented."""
    if patients < 4:
        raise ValueError("a virtual hospital has at least four patients, or its faults would have no holders")
    ledger = Ledger(seed)
    house = _house(seed, ledger)
    people = []
    for index, virtual in enumerate(films(seed, patients, pack=pack)):
        person = _person(seed, index, virtual.sex, ledger)
        people.append(person)
        rng = _rng(seed, "patient", index)
        span = sorted(rng.choice(_SPAN, len(virtual.examinations), replace=False).tolist())
        first = _EPOCH + dt.timedelta(days=int(rng.integers(0, 600)))
        prior: dt.date | None = None
        for number, taken in enumerate(virtual.examinations):
            day = first + dt.timedelta(days=span[number])
            exam = _Examination(
                house, person, index, number, day, prior, taken, _rng(seed, "exam", index, number), seed
            )
            exam.write(out, ledger)
            prior = day
    _break(out, house, people, ledger, seed)
    ledger.canaries = sorted(set(ledger.canaries), key=lambda c: (c.patient is None, c.patient or 0, c.kind, c.value))
    return ledger


@dataclass(slots=True)
class _Examination:
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
        name = f"{_plain(self.person.family)}_{_plain(self.person.given)}_" if self.patient % 3 == 0 else ""
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
                _save(self._structured_report(text), folder / "SR0001.dcm")
        paths = []
        for place, film in enumerate(self.taken):
            path = folder / f"IM{place + 1:04d}.dcm"
            dataset, words = self._film(film, place)
            _save(dataset, path)
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
        meta.TransferSyntaxUID = UID(_EXPLICIT)
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
            f"{_plain(person.family).upper()}, {_plain(person.given).upper()}",
            f"MRN {person.mrn}",
            f"DOB {person.birth:%m/%d/%Y}  {person.sex}",
            f"{self.day:%Y-%m-%d} {self.time:%H:%M}",
            _plain(self.house.name).upper(),
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


# -- reports ---------------------------------------------------------------------------------------------------------


def write_report(exam: _Examination) -> str:
    """The report of a visit, from its findings."""
    words, draw = _words(), exam.rng
    person = exam.person
    slots = {
        "given": person.given,
        "family": person.family,
        "title": person.title,
        "mrn": person.mrn,
        "age": str(exam.age),
        "birth": _date(person.birth, 0),
        "address": f"{person.street}, {person.city}",
        "accession": exam.accession,
        "hospital": exam.house.name,
        "hospital_address": f"{exam.house.street}, {exam.house.city}",
        "department": exam.house.department,
        "doctor": exam.doctor[1],
        "reader": " ".join(exam.reader),
        "reader_family": exam.reader[1],
        "technologist": " ".join(exam.technologist),
        "phone": exam.phone,
        "time": f"{exam.time:%H:%M}",
        "date": _date(exam.day, int(draw.integers(4))),
        "prior": _date(exam.prior or exam.day - dt.timedelta(days=40), int(draw.integers(4))),
        "onset": _date(exam.day - dt.timedelta(days=int(draw.integers(2, 20))), int(draw.integers(4))),
        "views": " and ".join({"PA": "PA", "AP": "AP portable", "LATERAL": "lateral"}[f.view] for f in exam.taken),
        "room": _pick(words["hospital"]["rooms"], draw),
        "change": _pick(words["prose"]["changes"], draw),
    }
    found = exam.taken[0].findings
    says, concludes = [], []
    for finding in found:
        facts = words["findings"].get(finding.name, words["named"])
        own = _finding_slots(finding, draw)
        says.append(_fill(facts["says"], {**slots, **own}, draw) or _fill(words["named"]["says"], own, draw))
        concludes.append(
            _fill(facts["concludes"], {**slots, **own}, draw) or _fill(words["named"]["concludes"], own, draw)
        )
    absent = [f for name, f in words["findings"].items() if name not in {x.name for x in found} and f["denies"]]
    order = draw.permutation(len(absent))[:3]
    says += [_pick(absent[int(at)]["denies"], draw) for at in order]
    says.insert(int(draw.integers(len(says) + 1)), _pick(words["prose"]["neutral"], draw))
    prose = words["prose"]
    if exam.prior is not None or draw.random() < 0.4:
        says.append(_fill(prose["compared"], slots, draw))
    if draw.random() < 0.5:
        says.insert(0, _fill(prose["identity"], slots, draw))
    concludes = concludes or [_pick(prose["normal"], draw)]
    if draw.random() < 0.7:
        concludes.append(_fill(prose["communication"], slots, draw))
    slots |= {
        "indication": _fill(prose["indications"], slots, draw),
        "comparison": f"Chest radiograph of {slots['prior']}." if exam.prior else "None.",
        "findings": " ".join(says),
        "impression": " ".join(
            [f"{n}. {line}" for n, line in enumerate(concludes, 1)] if len(concludes) > 1 else concludes
        ),
    }
    layout: str = _pick(list(words["layouts"].values()), draw)
    return layout.strip("\n").format_map(slots) + "\n"


def _finding_slots(finding: Finding, draw: np.random.Generator) -> dict[str, str]:
    plain = finding.name.replace("_", " ").lower()
    own = {
        "name": plain,
        "Name": plain.capitalize(),
        "ratio": str(draw.integers(55, 66)),
        "mm3": str(draw.integers(8, 25)),
    }
    if finding.side:
        own |= {"side": finding.side, "Side": finding.side.capitalize()}
    if finding.zone:
        own["zone"] = finding.zone
    if finding.millimetres:
        own |= {"mm": str(finding.millimetres), "mm2": str(finding.millimetres - 2)}
    return own


def _fill(choices: list[str], slots: Mapping[str, str], draw: np.random.Generator) -> str:
    """One of the sentences whose slots are all known, filled; empty if there is none."""
    import string

    able = [c for c in choices if all(name in slots for _, name, _, _ in string.Formatter().parse(c) if name)]
    return _pick(able, draw).format_map(slots) if able else ""


def _date(day: dt.date, style: int) -> str:
    return (f"{day:%m/%d/%Y}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%b} {day.year}", f"{day:%Y-%m-%d}")[
        style
    ]


# -- people ----------------------------------------------------------------------------------------------------------


def _house(seed: int, ledger: Ledger) -> House:
    draw = _rng(seed, "house")
    fake = _faker("en_US", seed, "house")
    family = _distinct(fake)
    name = f"{family} {_pick(_words()['hospital']['kinds'], draw)}"
    doctors = tuple((fake.first_name(), _distinct(fake)) for _ in range(8))
    technologists = tuple((fake.first_name(), _distinct(fake)) for _ in range(4))
    phones = tuple(_phone(draw) for _ in range(4))
    devices = tuple(
        (maker, model, f"SN{draw.integers(10**6, 10**7)}", f"RAD{draw.integers(1000, 10**4)}{family[:3].upper()}")
        for maker, model in _words()["hospital"]["makers"]
    )
    street, city = fake.street_address(), fake.city()
    house = House(
        name, street, city, _pick(_words()["hospital"]["departments"], draw), doctors, technologists, phones, devices
    )
    ledger.canaries += [Canary("institution", name), Canary("institution", family), Canary("address", street)]
    for kind, crew in (("physician", doctors), ("staff", technologists)):
        for given, last in crew:
            ledger.canaries += [Canary(kind, last), *(Canary(kind, form) for form in _name_forms(given, last))]
    ledger.canaries += [Canary("phone number", phone) for phone in phones]
    for _, _, serial, station in devices:
        ledger.canaries += [Canary("device", serial), Canary("device", station)]
    return house


def _person(seed: int, index: int, sex: Sex, ledger: Ledger) -> Person:
    draw = _rng(seed, "person", index)
    shares = _words()["locales"]
    locale = str(draw.choice(list(shares), p=[n / sum(shares.values()) for n in shares.values()]))
    fake = _faker(locale, seed, "person", index)
    written = ""
    if locale == "ja_JP":
        family, given = _distinct(fake, fake.last_romanized_name), (
            fake.first_romanized_name_female() if sex == "F" else fake.first_romanized_name_male()
        )  # fmt: skip
        written = f"{fake.last_name()}^{fake.first_name_female() if sex == 'F' else fake.first_name_male()}"
    else:
        family = _distinct(fake)
        given = fake.first_name_female() if sex == "F" else fake.first_name_male()
    latin = fake if locale != "ja_JP" else _faker("en_US", seed, "address", index)
    person = Person(
        given=given,
        family=family,
        sex=sex,
        birth=dt.date(1932, 1, 1) + dt.timedelta(days=int(draw.integers(0, 365 * 66))),
        mrn=str(draw.integers(10**7, 10**8)),
        other_id=f"X{draw.integers(10**8, 10**9)}",
        insurance=f"{draw.integers(100, 900)}-{draw.integers(10, 99)}-{draw.integers(1000, 9999)}",
        street=" ".join(latin.street_address().split()),
        city=" ".join(latin.city().split()),
        phone=_phone(draw),
        written=written,
    )
    ledger.canaries += [
        *(Canary("name", form, index) for form in _name_forms(given, family)),
        Canary("name", family, index),
        Canary("record number", person.mrn, index),
        Canary("other id", person.other_id, index),
        Canary("insurance number", person.insurance, index),
        *(Canary("birth date", form, index) for form in (*(_date(person.birth, n) for n in range(4)),
                                                         f"{person.birth:%Y%m%d}")),
        Canary("address", person.street, index),
        Canary("phone number", person.phone, index),
    ]  # fmt: skip
    if written:
        ledger.canaries.append(Canary("name", written, index))
    return person


def _name_forms(given: str, family: str) -> tuple[str, ...]:
    return f"{given} {family}", f"{family}^{given}", f"{family}, {given}"


@cache
def _taken() -> frozenset[str]:
    """Names that may turn up in a release by design: surrogates, and words of reports."""
    from updp.reports import lexicon

    pool = {_plain(name).lower() for names in lexicon.surrogate_names().values() for name in names}
    return frozenset(pool | set(lexicon.vocabulary()))


def _distinct(fake: Faker, draw: Callable[[], str] | None = None) -> str:
    """A family name that is neither a surrogate name nor a common word: found in a release, it leaked."""
    for _ in range(2000):
        name = " ".join((draw or fake.last_name)().split())
        if len(name) >= 6 and name.isalpha() and _plain(name).lower() not in _taken():
            return name
    raise RuntimeError("this locale has no family name outside the surrogate pool")


def _phone(draw: np.random.Generator) -> str:
    return f"{draw.integers(201, 989)}-{draw.integers(200, 999)}-{draw.integers(1000, 9999)}"


# -- what goes wrong -------------------------------------------------------------------------------------------------


def _break(out: Path, house: House, people: list[Person], ledger: Ledger, seed: int) -> None:
    """Further visits whose files are broken in the ways exports break."""

    def visit(patient: int, number: int, fault: Reason | None) -> list[Path]:
        rng = _rng(seed, "fault", patient, number)
        film = next(iter(_drawn(rng).examinations))[:1]
        exam = _Examination(house, people[patient], patient, number, _EPOCH, None, film, rng, seed)
        return exam.write(out, ledger, fault=fault)

    def rewrite(path: Path, change: Callable[[Any], None]) -> None:
        from pydicom import dcmread

        dataset = dcmread(path)
        change(dataset)
        _save(dataset, path)

    (path,) = visit(0, 90, Reason.IMAGE_EMPTY)
    path.write_bytes(b"")
    (path,) = visit(0, 91, Reason.DICOM_UNREADABLE)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    (path,) = visit(1, 90, Reason.DICOM_NO_PIXELS)
    rewrite(path, lambda ds: ds.__delitem__("PixelData"))
    (path,) = visit(1, 91, Reason.REPORT_ENCODING)
    told = f"FINDINGS: Seen by Dr. {house.doctors[0][1]}, 38 \xb0C.\n"
    path.with_name("report.txt").write_bytes(told.encode("latin-1"))
    (path,) = visit(1, 92, Reason.IMAGE_NOT_GREY)
    rewrite(path, _coloured)

    (first,), (second,) = visit(2, 90, Reason.ID_DUPLICATE), visit(2, 91, Reason.ID_DUPLICATE)
    twin = _header_of(first).SOPInstanceUID

    def same_instance(dataset: Any) -> None:
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = twin

    rewrite(second, same_instance)

    (first,), (second,) = visit(2, 92, Reason.PATIENT_CONFLICT), visit(3, 90, Reason.PATIENT_CONFLICT)
    study = _header_of(first).StudyInstanceUID
    rewrite(second, lambda ds: setattr(ds, "StudyInstanceUID", study))

    (first,), (second,) = visit(2, 93, Reason.FILM_SHARED), visit(3, 92, Reason.FILM_SHARED)
    rewrite(second, lambda ds: _same_pixels(ds, first))

    (path,) = visit(3, 91, Reason.REPORT_ORPHAN)
    path.unlink()
    ledger.films[-1] = replace(ledger.films[-1], path=path.with_name("report.txt").relative_to(out).as_posix())


def _coloured(dataset: Any) -> None:
    """A colour photograph filed among the films."""
    import numpy as np

    rows, columns = 256, 256
    down, right = np.mgrid[0:rows, 0:columns]
    dataset.Rows, dataset.Columns = rows, columns
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation, dataset.PlanarConfiguration = 3, "RGB", 0
    dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8, 8, 7
    _set_pixels(dataset, np.stack([down, right, 255 - down], axis=2).astype(np.uint8).tobytes())


def _same_pixels(dataset: Any, other: Path) -> None:
    from pydicom import dcmread

    twin = dcmread(other)
    if twin.file_meta.TransferSyntaxUID.is_compressed:
        twin.decompress(generate_instance_uid=False)
    for name in ("Rows", "Columns", "BitsAllocated", "BitsStored", "HighBit", "PhotometricInterpretation"):
        setattr(dataset, name, twin[name].value)
    for name in ("WindowCenter", "WindowWidth"):
        if name in dataset:
            del dataset[name]
        if name in twin:
            setattr(dataset, name, twin[name].value)
    _set_pixels(dataset, twin.PixelData)


def _set_pixels(dataset: Any, data: bytes) -> None:
    from pydicom.uid import UID

    dataset.file_meta.TransferSyntaxUID = UID(_EXPLICIT)
    dataset.PixelData = data
    dataset["PixelData"].VR = "OB" if dataset.BitsAllocated == 8 else "OW"
    dataset["PixelData"].is_undefined_length = False


def _header_of(path: Path) -> Any:
    from pydicom import dcmread

    return dcmread(path, stop_before_pixels=True)


# -- small things ----------------------------------------------------------------------------------------------------


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((resources.files("updp.virtual") / "words.toml").read_text("utf-8"))


def _rng(seed: int, *parts: object) -> np.random.Generator:
    """A named stream: what one patient is does not depend on how many there are."""
    import hashlib

    import numpy as np

    name = "\0".join(map(str, ("virtual", seed, *parts))).encode()
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(name).digest()[:16], "big")))


def _faker(locale: str, seed: int, *parts: object) -> Faker:
    from faker import Faker

    fake = Faker(locale)
    fake.seed_instance(int(_rng(seed, locale, *parts).integers(2**63)))
    return fake


def _pick(choices: Any, draw: np.random.Generator) -> Any:
    return choices[int(draw.integers(len(choices)))]


def _plain(text: str) -> str:
    """Text as a modality prints it: without diacritics."""
    for letter, printed in (("ł", "l"), ("Ł", "L"), ("ß", "ss"), ("ø", "o"), ("Ø", "O")):  # no decomposition in Unicode
        text = text.replace(letter, printed)
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def _code(value: str, scheme: str, meaning: str) -> Dataset:
    from pydicom.dataset import Dataset

    code = Dataset()
    code.CodeValue, code.CodingSchemeDesignator, code.CodeMeaning = value, scheme, meaning
    return code


def _save(dataset: FileDataset, path: Path) -> None:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # long invented addresses exceed LO's 64 characters, as real ones do
        dataset.save_as(path, enforce_file_format=True)
