"""The stations that a study passes: read, screen, report, pseudonymise, image.

Each takes a study and gives a study, or raises ``Refused``. Up to ``image`` they run study by study, so that one native
film is in memory at a time; ``image`` takes a batch of small squares, or one film that stays native. After ``report``
no raw text is left, after ``pseudonymise`` no id of the source, after ``image`` no raw pixel.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from updp.core.confidential import Confidential
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.core.registry import Registry
from updp.core.remote import RemoteError
from updp.imaging.square import place_in_square, square
from updp.methods import make_method
from updp.methods.base import Reversible, reads_pixels
from updp.release.residual import residual_spans
from updp.reports.lexicon import LayerMissing
from updp.screening.native import NativeFilm

if TYPE_CHECKING:
    from updp.reports import Cleaner, Detector
    from updp.screening.headers import HeaderCleaner
    from updp.sources.base import Source

log = logging.getLogger("updp")

Station = Callable[[Study], Study]


@dataclass(frozen=True, slots=True)
class Stopped:
    """Where and why a study stopped."""

    station: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Line:
    """What the stations of a run are made from."""

    source: Source
    policy: Policy
    key: Key
    detect: Callable[[], Detector]  # loaded at most once, and only if something has to be read


def build(source: Source, policy: Policy, key: Key) -> list[tuple[str, Station]]:
    """The study-by-study stations of a run, in the order of the source's domain. Whatever cannot load stops the run
    here, before any study."""
    names = source.domain.stations
    if names[:1] != ("read",) or names[-1:] != ("pseudonymise",):
        raise ValueError(f"domain {source.domain.name!r}: the first station is read, the last is pseudonymise")
    line = Line(source, policy, key, lambda: _detector(policy))
    return [(name, STATIONS[name](line)) for name in names]


def _detector(policy: Policy) -> Detector:
    from updp.reports import shared_detector

    return shared_detector(policy.report.block, policy.report.allow)


def passage(study: Study, stations: list[tuple[str, Station]]) -> Study | Stopped:
    """Take one study through the stations; what goes wrong is a reason, never a crash nor the data's words."""
    for name, station in stations:
        try:
            study = station(study)
        except Refused as refused:
            return Stopped(name, refused.reason)
        except (LayerMissing, RemoteError):
            raise  # without a detector nothing may leave, without the store there is no film: the run stops
        except MemoryError:
            return Stopped(name, Reason.IMAGE_TOO_LARGE)
        except Exception as error:
            log.debug("station %s: %s", name, whereabouts(error))
            return Stopped(name, Reason.STATION_FAILED)
    return study


def whereabouts(error: BaseException) -> str:
    """Type and place of an error; its message may quote the data and is left out."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" at {trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}" if trace else ""
    return type(error).__name__ + place


class Read:
    """Pixels, header and report from the source, where they are what the domain takes."""

    def __init__(self, line: Line) -> None:
        self.source = line.source
        self.policy = line.policy

    def __call__(self, study: Study) -> Study:
        study = self.source.load(study)
        if study.pixels is None and study.native is None:
            raise Refused(Reason.IMAGE_MISSING)
        study = self.source.domain.examined(study)
        if self.policy.report.required and not study.report:
            raise Refused(Reason.REPORT_MISSING)
        return study


class Screen:
    """Header cleaned, burned-in text painted out at native size, then the film made square unless it stays native."""

    def __init__(self, line: Line) -> None:
        from updp.screening.burned_in import TextScreen

        self.policy, self.key, self.detect = line.policy, line.key, line.detect
        self.text = TextScreen(line.policy.burned_in)
        self.square = Square(line)

    @cached_property
    def headers(self) -> HeaderCleaner:
        from updp.screening.headers import HeaderCleaner

        return HeaderCleaner(self.policy.headers, self.key, self.detect())

    def __call__(self, study: Study) -> Study:
        known = list(study.known.reveal()) if study.known else []
        flag: str | None = None
        if study.header is not None:
            from updp.screening.identifiers import identifiers

            known += identifiers(study.header)
            flag = study.header.get("BurnedInAnnotation")
        if study.native is not None:
            film, boxes = self.text.screen_film(NativeFilm(study.native, study.header), known, flag)
            study = study.but(native=film.native)
        else:
            assert study.pixels is not None
            screened = self.text.screen(study.pixels, known=known, burned_in_flag=flag, subject=_subject(study))
            boxes = screened.boxes
            study = study.but(pixels=screened.pixels)
        checked = self.policy.burned_in.mode == "ocr" or (self.policy.burned_in.mode == "header" and flag == "NO")
        if study.header is not None:
            header = self.headers.clean(
                study.header, patient_id=study.patient_id, pixels_checked=checked, sex=study.sex
            )
            study = study.but(header=header)
        painted = sum(box.painted for box in boxes)
        study = study.noted(boxes_painted=painted, boxes=len(boxes), text_checked=checked)
        return self.square(study.but(known=Confidential(known)))


def _subject(study: Study) -> tuple[int, int, int, int] | None:
    """Where the person of a photograph is, in pixels; None where no domain marked it."""
    if study.pixels is None or "face" not in study.regions:
        return None
    height, width = study.pixels.shape[:2]
    left, top, right, bottom = study.regions["face"]
    return round(left * width), round(top * height), round((right - left) * width), round((bottom - top) * height)


class Square:
    """The image made square, and what is marked in it moved along; a native film stays as it is."""

    def __init__(self, line: Line) -> None:
        self.size, self.fit = line.policy.image.side, line.policy.image.fit

    def __call__(self, study: Study) -> Study:
        if study.native is not None:
            return study
        assert study.pixels is not None
        shape = study.pixels.shape
        regions = {
            name: (*place_in_square(x0, y0, shape, self.fit), *place_in_square(x1, y1, shape, self.fit))
            for name, (x0, y0, x1, y1) in study.regions.items()
        }
        landmarks = {name: place_in_square(x, y, shape, self.fit) for name, (x, y) in study.landmarks.items()}
        return study.but(pixels=square(study.pixels, self.size, self.fit), regions=regions, landmarks=landmarks)


class CleanReport:
    """PHI out of the report, findings kept; sections the policy does not name stay behind. A film that the source does
    not label gets the labels that its report states."""

    #: Sections that tell what a film shows; an indication tells what somebody feared.
    TELLING = ("findings", "impression")

    def __init__(self, line: Line) -> None:
        self.policy = line.policy.report
        self.table = line.source.domain.labels if line.policy.release.derive_labels else None
        self.cleaner: Cleaner | None = None
        if self.policy.mode != "withhold":
            from updp.reports import Cleaner

            self.cleaner = Cleaner(line.detect(), line.key, mode=self.policy.mode)

    def __call__(self, study: Study) -> Study:
        known = study.known.reveal() if study.known else ()
        study = study.but(known=None)
        if not study.report or self.cleaner is None:
            return self._labelled(study, study.report).but(report=None)
        if sum(map(len, study.report.sections.values())) > self.policy.max_characters:
            raise Refused(Reason.REPORT_TOO_LONG)
        kept = Report({name: study.report.sections[name] for name in self.policy.sections
                       if name in study.report.sections})  # fmt: skip
        cleaned = self.cleaner.clean(kept, patient_id=study.patient_id, known=known, sex=study.sex)
        # The receiver's detector shares nothing with the one above: what it would object to stays here.
        mode: Literal["surrogate", "tag"] = "surrogate" if self.cleaner.mode == "surrogate" else "tag"
        if any(residual_spans(text, mode=mode) for text in cleaned.report.sections.values()):
            raise Refused(Reason.REPORT_RESIDUAL)
        study = study.noted(phi=dict(cleaned.counts), retention=cleaned.retention)
        return self._labelled(study, cleaned.report).but(report=cleaned.report or None)

    def _labelled(self, study: Study, report: Report | None) -> Study:
        if self.table is None or study.labels is not None or not report:
            return study
        from updp.reports.findings import labels_of

        stated = report.text(name for name in self.TELLING if name in self.policy.sections)
        return study.but(labels=labels_of(stated, self.table), labels_from="report")


class Pseudonymise:
    """The source's ids and dates give way to the key's; from here on nothing says where a film came from."""

    def __init__(self, line: Line) -> None:
        self.key, domain = line.key, line.source.domain
        self.allowed = {*domain.labels.names, *line.policy.release.labels}
        # What no station before this one has cleaned stays behind.
        self.reports, self.headers = "report" in domain.stations, "screen" in domain.stations

    def __call__(self, study: Study) -> Study:
        labels, unknown = study.labels, 0
        if labels is not None:
            labels = tuple(label for label in labels if label in self.allowed)
            unknown = len(study.labels or ()) - len(labels)
            if unknown and not labels:
                labels = None  # something was found, and nobody here knows its name: that is not "none found"
        return study.but(
            film_id=self.key.film(study.film_id),
            study_id=self.key.study(study.patient_id, study.study_id),
            patient_id=self.key.patient(study.patient_id),
            path=None,
            report=study.report if self.reports else None,
            report_path=None,
            header=study.header if self.headers else None,
            known=None,
            identifiers={},
            labels=labels,
            date=None if study.date is None else study.date + self.key.shift(study.patient_id),
            age=None if study.age is None else min(study.age, 90),
            split=study.split or self.key.split(study.patient_id),
        ).noted(
            labels_dropped=unknown,
            labels_lost=int(labels is None and unknown > 0),
            labels_derived=int(labels is not None and study.labels_from == "report"),
        )


#: The stations; other packages add theirs in the group ``updp.stations``.
STATIONS: Registry[Callable[[Line], Station]] = Registry(
    "station",
    "updp.stations",
    {"read": Read, "screen": Screen, "square": Square, "report": CleanReport, "pseudonymise": Pseudonymise},
)


class MakeFilm:
    """A new film for each study, by the policy's method."""

    def __init__(self, policy: Policy, key: Key, seed: int, domain: str) -> None:
        self.method = make_method(policy.method.name, policy.method.options, domain, policy.image.native)
        self.strength = policy.method.strength
        self.reads_pixels = reads_pixels(self.method, self.strength)
        self.keeps_originals = isinstance(self.method, Reversible) and self.method.keeps_originals
        self.key = key
        self.seed = seed

    def __call__(self, batch: list[Study]) -> list[Study | Stopped]:
        try:
            return self._make(batch)
        except Exception as error:
            if len(batch) > 1:  # find the film that the method cannot take; the others still leave
                return [made for study in batch for made in self([study])]
            log.debug("method: %s", whereabouts(error))
            return [Stopped("image", Reason.METHOD_FAILED)]

    def _make(self, batch: list[Study]) -> list[Study | Stopped]:
        if not self.method.info.alters and all(study.native is not None for study in batch):
            return list(batch)  # millions of values need not be turned into grey values and back
        batch = [study if study.native is None else study.but(pixels=study.native.unit()) for study in batch]
        streams = [self.key.rng("film", study.film_id, str(self.seed)) for study in batch]
        if isinstance(self.method, Reversible):
            passwords = [self.key.password(study.film_id) for study in batch]
            made = self.method.encrypt(batch, self.strength, streams, passwords)
        else:
            made = self.method.deidentify(batch, self.strength, streams)
        out: list[Study | Stopped] = []
        for study, result in zip(batch, made, strict=True):
            if result.pixels is None or result.refused is not None:
                out.append(Stopped("image", result.refused or Reason.METHOD_REFUSED))
            else:
                made_of: dict[str, Any] = {"pixels": result.pixels}
                if study.native is not None:
                    made_of = {"pixels": None, "native": study.native.of(result.pixels)}
                out.append(study.but(**made_of).noted(decided=dict(result.decided)))
        return out


def manifest_row(study: Study, shard: str, suffix: str, policy: Policy) -> dict[str, Any]:
    """What the manifest says of a film: ids, and the attributes the policy lets out."""
    out = policy.release.attributes
    return {
        "release_id": study.film_id,
        "patient": study.patient_id,
        "study": study.study_id,
        "split": study.split,
        "file_name": f"images/{shard}/{study.film_id}.{suffix}",
        "shard": shard,
        "has_report": study.report is not None,
        "view": study.view if "view" in out else None,
        "labels": list(study.labels) if "labels" in out and study.labels is not None else None,
        "labels_from": study.labels_from if "labels" in out and study.labels is not None else None,
        "sex": study.sex if "sex" in out else None,
        "age": study.age if "age" in out else None,
        "date": study.date.isoformat() if "date" in out and study.date else None,
        "decided": study.notes.get("decided", {}),
    }
