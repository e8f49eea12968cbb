"""donor: a public film with the same findings in place of the patient's own. A baseline for every table.

The donor is chosen by the record alone: the label set and the view, nearest first, at random among equals. So the film
reveals what the record reveals and nothing else, its texture is that of a real film, and what a generator adds can be
seen beside it. It is no method for a release that must hide whose films it was made from: donors leave as they are.

Donors are patients at a place below one half under the benchmark key. Packs and methods may learn from these; others
are kept for attackers and judges, so a bench on the gallery's own source has no donor among its films.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from updp.core.reasons import Reason
from updp.core.record import BENCHMARK_KEY, Study, place_of
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.options import BadOption, MethodOptions
from updp.methods.per_image import PerImage

if TYPE_CHECKING:
    import numpy as np

    from updp.sources.base import Source

#: What is published of a film, as far as it chooses a donor.
Record = tuple[frozenset[str], str]
_DONORS = 0.5


class Donor(PerImage):
    info: ClassVar[MethodInfo] = method_info("donor")

    class Options(MethodOptions):
        gallery: str = Field("", description="Public films with labels: a folder in a known layout. It must be given.")

    options: Options

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        if not self.options.gallery:  # before the first film, or every film of a run would be refused
            raise BadOption("option 'gallery': a folder of public films with labels must be given")

    def reads_pixels(self, strength: float | None) -> bool:
        """The patient's film has no part in the choice."""
        return False

    @cached_property
    def source(self) -> Source:
        from updp.sources import open_source

        return open_source(self.options.gallery, frontal_only=True)

    @cached_property
    def donors(self) -> Mapping[Record, list[Study]]:
        """Films of the gallery by record; only tables are read, no film is loaded."""
        found: dict[Record, list[Study]] = {}
        for item in self.source:
            if not isinstance(item, Study) or item.path is None or item.labels is None:
                continue
            if place_of(item.patient_id, BENCHMARK_KEY) < _DONORS:
                found.setdefault((frozenset(item.labels), item.view or ""), []).append(item)
        if not found:
            raise BadOption("option 'gallery': no film there has labels and may be a donor")
        return found

    def make(self, study: Study, strength: float, rng: np.random.Generator) -> Deidentified:
        if study.labels is None:
            return Deidentified(None, refused=Reason.NOTHING_TO_SHOW)
        labels, view = frozenset(study.labels), study.view or ""

        def distance(record: Record) -> tuple[int, bool]:
            return len(record[0] ^ labels), record[1] != view

        nearest = min(map(distance, self.donors))
        equals = [film for record, films in self.donors.items() if distance(record) == nearest for film in films]
        chosen = equals[int(rng.integers(len(equals)))]
        return Deidentified(self.source.load(chosen).pixels, {"labels_apart": nearest[0]})
