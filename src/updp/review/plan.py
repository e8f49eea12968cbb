"""The plan of a reader study: who sees which film when, and what is asked. A folder made once and never edited.

::

    STUDY/plan.json          the plan, with a keyed code over it; tells which film is which, so no reader may see it
    STUDY/films/<name>.png   the films under names that tell nothing
    STUDY/answers.sqlite3    what was answered (``updp.review.answers``)

A reader gets ``Plan.hand_out``: films in the reader's order and the questions, and not what a film is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from updp.core.keys import Key
from updp.core.storage import write_bytes

FORMAT = "updp-study-1"
#: What a confidence from 1 to 5 means; a finding counts as seen from ``PRESENT`` on.
CONFIDENCE = ("definitely absent", "probably absent", "uncertain", "probably present", "definitely present")
PRESENT = 4
#: Image quality from 1 to 5, as the European guidelines on image criteria word it.
QUALITY = ("not diagnostic", "poor", "acceptable", "good", "excellent")
ORIGINS = ("real", "generated")
Version = Literal["original", "released"]


class BadPlan(ValueError):
    """The plan cannot be used; the message says why and names no patient."""


@dataclass(frozen=True, slots=True)
class PlannedFilm:
    """A film of the study and what only the plan knows of it."""

    patient: str  # pseudonym
    version: Version
    truth: tuple[int, ...] | None  # 1 or 0 for each finding of the plan; None where nothing is known
    sha256: str


@dataclass(frozen=True, slots=True)
class Item:
    """One reading: a film in its place."""

    film: str
    session: int
    repeat: bool = False  # seen before in this version: for the agreement of a reader over time


@dataclass(frozen=True, slots=True)
class Reader:
    name: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Plan:
    """Everything that is fixed before the first film is read."""

    design: str
    release: str  # digest of the manifest of the release it is about
    findings: tuple[str, ...]
    washout: int  # films between two readings of one patient at least
    days: int  # days between two sessions at least
    simulated: bool  # readers are a program: for tests and planning, never evidence
    films: dict[str, PlannedFilm]
    readers: tuple[Reader, ...]

    def reader(self, name: str) -> Reader:
        found = next((reader for reader in self.readers if reader.name == name), None)
        if found is None:
            raise BadPlan("the plan has no reader of that name")
        return found

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @property
    def digest(self) -> str:
        """A name of exactly this plan."""
        return hashlib.sha256(_canonical(self.to_json())).hexdigest()

    def reader_key(self, key: Key, name: str) -> str:
        """The secret of one reader's hand-out: answers carry a code made with it."""
        return key.digest("study-reader", self.digest, name).hex()

    def hand_out(self, key: Key, name: str) -> dict[str, Any]:
        """What a reader's page needs; nothing in it tells an original from a released film."""
        return {
            "plan": self.digest,
            "reader": name,
            "simulated": self.simulated,
            "key": self.reader_key(key, name),
            "days": self.days,
            "findings": list(self.findings),
            "confidence": list(CONFIDENCE),
            "quality": list(QUALITY),
            "origins": list(ORIGINS),
            "items": [{"film": item.film, "session": item.session} for item in self.reader(name).items],
        }


def _canonical(data: Any) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def _code(key: Key, data: dict[str, Any]) -> str:
    return key.digest("study-plan", _canonical(data)).hex()


def save_plan(plan: Plan, folder: Path, key: Key) -> None:
    """Write the plan, readable by its owner only, with a keyed code that shows any change."""
    data = plan.to_json()
    text = json.dumps({**data, "code": _code(key, data)}, indent=1)
    write_bytes(folder / "plan.json", text.encode(), mode=0o600)


def load_plan(folder: Path, key: Key) -> Plan:
    """The plan of a study folder; refuses one that was altered after it was made, or made with another key."""
    path = folder if folder.name == "plan.json" else folder / "plan.json"
    try:
        data = json.loads(path.read_bytes())
        code = data.pop("code")
        if data["format"] != FORMAT:
            raise BadPlan("the plan is of another version of updp")
        fields = {name: value for name, value in data.items() if name != "format"}
        whole = hmac.compare_digest(str(code), _code(key, data))
        plan = Plan(
            **{
                **fields,
                "findings": tuple(fields["findings"]),
                "films": {
                    name: PlannedFilm(
                        film["patient"],
                        film["version"],
                        None if film["truth"] is None else tuple(film["truth"]),
                        film["sha256"],
                    )
                    for name, film in fields["films"].items()
                },
                "readers": tuple(
                    Reader(reader["name"], tuple(Item(**item) for item in reader["items"]))
                    for reader in fields["readers"]
                ),
            }
        )
    except FileNotFoundError:
        raise BadPlan(f"there is no plan at {path}; make one with: updp study design") from None
    except BadPlan:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise BadPlan("the plan cannot be read; it is damaged or no plan") from None
    if not whole:
        raise BadPlan("the plan was altered after it was made, or was made with another key")
    return plan


def film_bytes(folder: Path, plan: Plan, name: str) -> bytes:
    """The picture of one film; refuses a film that is not the plan's own."""
    film = plan.films.get(name)
    if film is None:
        raise BadPlan("there is no such film in the plan")
    try:
        data = (folder / "films" / f"{name}.png").read_bytes()
    except OSError:
        raise BadPlan("a film of the study is missing") from None
    if hashlib.sha256(data).hexdigest() != film.sha256:
        raise BadPlan("a film of the study was altered after the plan was made")
    return data
