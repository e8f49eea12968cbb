"""What was invented: every identifier and every file of a virtual hospital, to sweep a release for."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from updp.core.reasons import Reason
from updp.domains.chest.views import View

Origin = Literal["drawn", "generated"]


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
