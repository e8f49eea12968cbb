"""What every source shares: the promise it keeps, safe paths, compact indexes, lazy reading.

A source is the first station of the flow. Iterating it yields one ``Study`` without pixels per film, in the order of
the layout's own table (or of sorted paths), and a ``Refusal`` for whatever can be seen to be wrong already; ``load``
runs in a worker and reads the rest. Nothing is remembered between rows but the compact indexes that joins need.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from updp.core.policy import ImagePolicy
from updp.core.reasons import Reason, Refused
from updp.core.record import Report, Study
from updp.domains.base import Domain
from updp.imaging.read import is_dicom, read_native, read_with_window
from updp.sources import sections
from updp.sources.dicom_files import load_film, read_structured_report
from updp.sources.files import find, read_report


@dataclass(frozen=True, slots=True)
class Refusal:
    """A film or report that is kept back before it is even loaded."""

    film_id: str  # the source's own id, or a position such as "row 17" where there is none; never printed
    reason: Reason
    disputed: str | None = None  # a study filed under two patients: whatever else is filed under it is in doubt too


class Source(Protocol):
    """A folder of films and reports in one layout."""

    layout: str
    domain: Domain
    root: Path
    skipped: int  # lateral films passed over by the last iteration

    def __iter__(self) -> Iterator[Study | Refusal]: ...

    def load(self, study: Study) -> Study: ...


class Layout(ABC):
    """A source in one layout: a subclass says how to recognise it and how to read its rows. The first line of its
    docstring says what the folder holds."""

    layout: str  # the name it is registered by, set where it is opened
    holds: str | None = None  # the domain of its images; None where a folder may be of any

    def __init__(
        self,
        root: Path,
        *,
        domain: Domain,
        frontal_only: bool = True,
        limit: int | None = None,
        max_pixels: int | None = None,
        min_side: int | None = None,
        native: bool = False,
        projections: bool = False,
    ) -> None:
        defaults = ImagePolicy.model_construct()
        self.root = root
        self.domain = domain
        self.frontal_only = frontal_only
        self.limit = limit
        self.max_pixels = defaults.max_pixels if max_pixels is None else max_pixels
        self.min_side = defaults.min_side if min_side is None else min_side
        self.native = native  # films are loaded as they are stored
        self.projections = projections  # DICOM films of other parts of the body are taken too
        self.skipped = 0

    @classmethod
    @abstractmethod
    def recognises(cls, root: Path) -> bool:
        """Whether ``root`` holds this layout; looks at names and first bytes only."""

    @classmethod
    def domain_of(cls, root: Path) -> str | None:
        """The domain of the images at ``root``, if the layout determines it."""
        return cls.holds

    @abstractmethod
    def rows(self) -> Iterator[Study | Refusal]:
        """Every film and every refusal, in a fixed order."""

    def __iter__(self) -> Iterator[Study | Refusal]:
        self.skipped, taken = 0, 0
        if self.limit is not None and self.limit <= 0:
            return
        for row in self.rows():
            if isinstance(row, Study):
                if self.frontal_only and row.view in self.domain.side_views:
                    self.skipped += 1
                    continue
                taken += 1
            yield row
            if taken == self.limit:
                return

    def __getstate__(self) -> dict[str, Any]:
        # Indexes are built by the iterating process for itself; workers need none of them.
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def load(self, study: Study) -> Study:
        """The study with its report and pixels; refuses what cannot be read."""
        return self.load_pixels(self.load_report(study))

    def load_report(self, study: Study) -> Study:
        if study.report is not None or study.report_path is None:
            return study
        try:
            structured = is_dicom(study.report_path)
        except Refused:
            raise Refused(Reason.REPORT_UNREADABLE) from None
        if structured:
            return study.but(report=read_structured_report(study.report_path))
        return study.but(report=Report(sections.parse(read_report(study.report_path))))

    def load_pixels(self, study: Study) -> Study:
        if study.path is None:
            raise Refused(Reason.IMAGE_MISSING)
        if is_dicom(study.path):
            return load_film(study, max_pixels=self.max_pixels, min_side=self.min_side, native=self.native)
        if self.native:
            return study.but(native=read_native(study.path, max_pixels=self.max_pixels, min_side=self.min_side))
        pixels, window = read_with_window(
            study.path, max_pixels=self.max_pixels, min_side=self.min_side, channels=self.domain.channels
        )
        return study.but(pixels=pixels).noted(window=window)

    def found(self, name: str | Path) -> Path:
        """The file called ``name`` in this source; refuses paths that lead out and files that are not there."""
        return find(self.root, name)
