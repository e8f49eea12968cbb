"""Why a study was kept back: reason codes, and the exception that carries one through a station.

A refusal holds a code and the station, never a value of the study. So a log or a quarantine list says what went wrong
and how to repair it, and nothing about the patient.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Every reason code there is. The value is what is written to the quarantine list."""

    ID_MISSING = "id-missing"
    ID_DUPLICATE = "id-duplicate"
    PATIENT_CONFLICT = "patient-conflict"
    FILM_SHARED = "film-shared-by-patients"
    PATH_UNSAFE = "path-unsafe"
    ROW_UNREADABLE = "row-unreadable"
    IMAGE_MISSING = "image-missing"
    REPORT_ORPHAN = "report-without-image"
    IMAGE_EMPTY = "image-empty"
    IMAGE_UNREADABLE = "image-unreadable"
    IMAGE_TOO_LARGE = "image-too-large"
    IMAGE_TOO_SMALL = "image-too-small"
    IMAGE_BLANK = "image-blank"
    IMAGE_NOT_GREY = "image-not-grey"
    IMAGE_NOT_COLOUR = "image-not-colour"
    IMAGE_MULTIFRAME = "image-multiframe"
    IMAGE_NOT_NATIVE = "image-depth-unclear"
    DICOM_UNREADABLE = "dicom-unreadable"
    DICOM_NO_PIXELS = "dicom-no-pixels"
    DICOM_DIRECTORY = "dicom-directory"
    NOT_OF_DOMAIN = "not-of-this-domain"
    NOT_A_FILM = "not-a-film"
    FACE_NONE = "face-none"
    FACE_SEVERAL = "face-several"
    FACE_TOO_SMALL = "face-too-small"
    FACE_PROFILE = "face-profile"
    EYES_HIDDEN = "eyes-hidden"
    EYES_CLOSED = "eyes-closed"
    BURNED_IN_UNCHECKED = "burned-in-text-unchecked"
    BURNED_IN_RESIDUAL = "burned-in-text-residual"
    BURNED_IN_DOUBT = "burned-in-text-in-doubt"
    REPORT_MISSING = "report-missing"
    REPORT_ENCODING = "report-encoding"
    REPORT_TOO_LONG = "report-too-long"
    REPORT_LANGUAGE = "report-language"
    REPORT_UNREADABLE = "report-unreadable"
    REPORT_RESIDUAL = "report-residual-phi"
    METHOD_FAILED = "method-failed"
    METHOD_REFUSED = "method-refused"
    FILM_NOT_FRONTAL = "film-not-frontal"
    FILM_INVERTED = "film-inverted"
    NOTHING_TO_SHOW = "nothing-to-show"
    FILM_TOO_SIMILAR = "film-too-similar"
    FILM_COPY = "film-copy-of-training"
    FINDINGS_DISAGREE = "findings-disagree"
    STATION_FAILED = "station-failed"
    WORKER_DIED = "worker-died"
    RECORD_RARE = "record-too-rare"
    OFFICER = "kept-back-by-officer"


#: What a data engineer can do about each; printed beside the counts.
REPAIR: dict[Reason, str] = {
    Reason.ID_MISSING: "give the row a film, study and patient id",
    Reason.ID_DUPLICATE: "make film ids unique; every film with a repeated id was kept back",
    Reason.PATIENT_CONFLICT: "one study is filed under two patients; decide whose it is",
    Reason.FILM_SHARED: "the same film is filed under two patients; decide whose it is",
    Reason.PATH_UNSAFE: "keep films inside the export folder: no '..', no absolute paths, no links to other folders",
    Reason.ROW_UNREADABLE: "repair the row; its fields could not be read",
    Reason.IMAGE_MISSING: "the manifest names a film that is not there; export it again",
    Reason.REPORT_ORPHAN: "the report has no film, so there is nothing to release",
    Reason.IMAGE_EMPTY: "the film is a zero-byte file; export it again",
    Reason.IMAGE_UNREADABLE: "the film is truncated or of an unknown format; export it again",
    Reason.IMAGE_TOO_LARGE: "the film has more pixels than policy [image] max_pixels",
    Reason.IMAGE_TOO_SMALL: "the film is smaller than policy [image] min_side",
    Reason.IMAGE_BLANK: "the film has one grey value only",
    Reason.IMAGE_NOT_GREY: "the film is a colour picture",
    Reason.IMAGE_NOT_COLOUR: "the image is grey, and those of its domain are in colour",
    Reason.IMAGE_MULTIFRAME: "the file holds several frames; export single films",
    Reason.IMAGE_NOT_NATIVE: "the depth of the pixels is unclear or not within 2 to 16 bits, so it cannot be kept "
    "native; release it at a size in pixels: policy [image] size",
    Reason.DICOM_UNREADABLE: "the DICOM file is damaged; export it again",
    Reason.DICOM_NO_PIXELS: "the DICOM object carries no pixel data",
    Reason.DICOM_DIRECTORY: "DICOMDIR files name patients and are never released",
    Reason.NOT_OF_DOMAIN: "the domain does not take this kind of image; leave it out of the export",
    Reason.NOT_A_FILM: "the DICOM object is not a CR, DX or secondary capture image; leave it out of the export",
    Reason.FACE_NONE: "no face was found in the photograph; leave it out of the export",
    Reason.FACE_SEVERAL: "the photograph shows more than one face; cut it to the patient's own",
    Reason.FACE_TOO_SMALL: "the eyes are less than 24 pixels apart; export the photograph at a larger size",
    Reason.FACE_PROFILE: "the head is turned to the side; the domain takes frontal photographs",
    Reason.EYES_HIDDEN: "dark glasses hide the eyes",
    Reason.EYES_CLOSED: "both eyes are closed, and the sign of the labelled disease is on the open eye",
    Reason.BURNED_IN_UNCHECKED: "install updp[ocr], or allow unchecked films in policy [burned_in]",
    Reason.BURNED_IN_RESIDUAL: "text was still legible after it was painted over; review by hand",
    Reason.BURNED_IN_DOUBT: "a text-like mark nobody could read; review by hand, or paint it: policy [burned_in] doubt",
    Reason.REPORT_MISSING: "policy [report] required = true, and the study has no report",
    Reason.REPORT_ENCODING: "the report is not UTF-8; convert it",
    Reason.REPORT_TOO_LONG: "the report exceeds policy [report] max_characters",
    Reason.REPORT_LANGUAGE: "the report is not in English, which the detector cannot read; translate or withhold it",
    Reason.REPORT_UNREADABLE: "the report file could not be read",
    Reason.REPORT_RESIDUAL: "the cleaned report failed its second check",
    Reason.METHOD_FAILED: "the de-identification method raised an error on this film",
    Reason.METHOD_REFUSED: "the method's own check kept the film back",
    Reason.FILM_NOT_FRONTAL: "the method makes frontal films only",
    Reason.FILM_INVERTED: "the film is a negative (black is dense); export it with the right polarity",
    Reason.NOTHING_TO_SHOW: "neither report nor labels say what a new film should show; add one, or lower the strength",
    Reason.FILM_TOO_SIMILAR: "every generated film was too similar to the patient's own film; raise the strength",
    Reason.FILM_COPY: "every generated film was too similar to a training film of the generator",
    Reason.FINDINGS_DISAGREE: "no generated film shows the findings of its report",
    Reason.STATION_FAILED: "an unexpected error in a station; run with --debug and report it",
    Reason.WORKER_DIED: "the worker process ended while it handled this film (damaged file or out of memory)",
    Reason.RECORD_RARE: "fewer patients than policy [gate] min_cell have the view, labels and attributes that would be "
    "published of this film; publish fewer of them ([release] attributes), or lower min_cell",
    Reason.OFFICER: "the privacy officer keeps the film back; `updp review` shows why and can withdraw it",
}


class Refused(Exception):
    """Raised inside a station to send one study to quarantine."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason]]:
        return Refused, (self.reason,)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A study that was kept back: its keyed id, where it stopped and why."""

    ref: str  # keyed reference; the vault says which study it was
    station: str
    reason: Reason
