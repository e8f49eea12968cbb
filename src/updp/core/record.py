"""A record: an image, its report where it has one, and what is known about both.

A ``Study`` leaves a source without pixels (only where they are), gains them at the start of the flow, and loses
whatever identifies on the way. One ``Study`` is one film; films of one examination share ``study_id``, films of one
person share ``patient_id``. Everything derived from those ids is a pure function of the hospital's key, so two films
of one examination are treated alike wherever they are processed.
"""

from __future__ import annotations

import datetime as dt
import hmac
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from updp.core.confidential import Confidential
from updp.core.native import Native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: A place in an image, and a box (left, top, right, bottom), in fractions of its width and height.
Point = tuple[float, float]
Box = tuple[float, float, float, float]
Sex = Literal["F", "M"]
Split = Literal["train", "val", "test"]
#: Labels that a source gives, and labels derived from a report, are not the same and never stand without this word.
LabelsFrom = Literal["source", "report"]

#: Splits of public benchmarks are made with this key so that everyone gets the same ones. It protects nothing.
BENCHMARK_KEY = b"updp public benchmark key, not a secret"


@dataclass(frozen=True, slots=True)
class Report:
    """A radiology report by section, in reading order: ``findings``, ``impression``, ``indication``, ..."""

    sections: Mapping[str, str]

    def text(self, names: Iterable[str] | None = None) -> str:
        """The named sections (all of them by default), one blank line between two."""
        wanted = self.sections if names is None else [n for n in names if n in self.sections]
        return "\n\n".join(self.sections[n] for n in wanted if self.sections[n].strip())

    def __bool__(self) -> bool:
        return any(text.strip() for text in self.sections.values())


@dataclass(frozen=True, slots=True)
class Study:
    """One image with its report and what is known about both, between a source and a release."""

    film_id: str  # unique within the source
    study_id: str
    patient_id: str
    path: Path | None = None  # where the pixels are; None for a report without a film
    view: str | None = None  # one of the views of the study's domain
    labels: tuple[str, ...] | None = None  # findings present; () is "none found", None is "not labelled"
    labels_from: LabelsFrom = "source"  # where the findings come from: the source, or its report
    report: Report | None = None
    report_path: Path | None = None  # a report that is read only when the study is
    age: int | None = None
    sex: Sex | None = None
    date: dt.date | None = None
    split: Split | None = None  # the source's official split, where it has one
    pixels: NDArray[np.float32] | None = field(default=None, repr=False)  # H x W, or H x W x channels, in [0, 1]
    native: Native | None = field(default=None, repr=False)  # in place of pixels, where films keep size and depth
    regions: Mapping[str, Box] = field(default_factory=dict)  # named parts of the image
    landmarks: Mapping[str, Point] = field(default_factory=dict)
    header: Any = field(default=None, repr=False)  # pydicom Dataset without pixel data
    notes: Mapping[str, Any] = field(default_factory=dict)  # what stations decided; fixed words, none of the data
    # Identifying columns of the source's table by DICOM keyword, until the study is read.
    identifiers: Mapping[str, str] = field(default_factory=dict, repr=False)
    known: Confidential | None = field(default=None, repr=False)  # names of the patient, from read to report alone

    def __post_init__(self) -> None:
        if not self.patient_id.isascii():
            object.__setattr__(self, "patient_id", plain_id(self.patient_id))

    def but(self, **changes: Any) -> Study:
        """This study with some fields changed."""
        return replace(self, **changes)

    def noted(self, **notes: Any) -> Study:
        """This study with further decisions recorded."""
        return replace(self, notes={**self.notes, **notes})


def plain_id(text: str) -> str:
    """An id in one spelling: two that look the same (an accent composed or not, a mark without width, a space that does
    not break) are one person, who has one pseudonym, one shift of dates and one split.
    """
    composed = unicodedata.normalize("NFC", text)
    shown = "".join(c for c in composed if unicodedata.category(c) != "Cf")
    return " ".join(shown.split())


def place_of(patient_id: str, key: bytes) -> float:
    """Where a patient stands in [0, 1) under a key; splits are cut from it."""
    digest = hmac.new(key, b"split\x00" + patient_id.encode(), "sha256").digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(patient_id: str, key: bytes) -> Split:
    """The split a patient falls into: 70 % train, 10 % val, 20 % test, all films of a patient together."""
    place = place_of(patient_id, key)
    return "train" if place < 0.7 else "val" if place < 0.8 else "test"
