"""Files broken in the ways exports break, each with the reason it has to be kept back for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from updp.core.reasons import Reason
from updp.virtual.chance import stream
from updp.virtual.examination import EPOCH, EXPLICIT, Examination, save_dicom
from updp.virtual.films import draw_patient
from updp.virtual.ledger import Ledger
from updp.virtual.people import House, Person


def add_faults(out: Path, house: House, people: list[Person], ledger: Ledger, seed: int) -> None:
    """Further visits whose files are broken in the ways exports break."""

    def visit(patient: int, number: int, fault: Reason | None) -> list[Path]:
        rng = stream(seed, "fault", patient, number)
        film = next(iter(draw_patient(rng).examinations))[:1]
        exam = Examination(house, people[patient], patient, number, EPOCH, None, film, rng, seed)
        return exam.write(out, ledger, fault=fault)

    def rewrite(path: Path, change: Callable[[Any], None]) -> None:
        from pydicom import dcmread

        dataset = dcmread(path)
        change(dataset)
        save_dicom(dataset, path)

    (path,) = visit(0, 90, Reason.IMAGE_EMPTY)
    path.write_bytes(b"")
    (path,) = visit(0, 91, Reason.DICOM_UNREADABLE)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    (path,) = visit(1, 90, Reason.DICOM_NO_PIXELS)
    rewrite(path, lambda ds: ds.__delitem__("PixelData"))
    (path,) = visit(1, 91, Reason.REPORT_ENCODING)
    text = f"FINDINGS: Seen by Dr. {house.doctors[0][1]}, 38 \xb0C.\n"
    path.with_name("report.txt").write_bytes(text.encode("latin-1"))
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

    dataset.file_meta.TransferSyntaxUID = UID(EXPLICIT)
    dataset.PixelData = data
    dataset["PixelData"].VR = "OB" if dataset.BitsAllocated == 8 else "OW"
    dataset["PixelData"].is_undefined_length = False


def _header_of(path: Path) -> Any:
    from pydicom import dcmread

    return dcmread(path, stop_before_pixels=True)
