"""The films of a release in SQLite, so that the desk answers at once and its memory does not grow with the release.

The index is made from manifest, quarantine list and vault, and made anew when the manifest changes. Where the originals
are is kept encrypted under the key of the vault. What is measured in the background (how near a film is to its
original, how well a classifier sees its findings) is added film by film and outlives the server.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.record import Study
from updp.core.storage import OutputError
from updp.release import manifest
from updp.release.vault import open_vault

_TABLES = """
DROP TABLE IF EXISTS about;
DROP TABLE IF EXISTS films;
DROP TABLE IF EXISTS quarantine;
DROP TABLE IF EXISTS originals;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE films (
  place INTEGER PRIMARY KEY, release_id TEXT UNIQUE, ref TEXT UNIQUE, patient TEXT, view TEXT, labels TEXT,
  decided TEXT, file_name TEXT, shard TEXT, has_report INTEGER, labels_from TEXT, likeness REAL,
  seen REAL
);
CREATE TABLE quarantine (ref TEXT PRIMARY KEY, station TEXT, reason TEXT, films INTEGER);
CREATE TABLE originals (ref TEXT PRIMARY KEY, sealed BLOB);
CREATE INDEX by_likeness ON films (likeness);
CREATE INDEX by_seen ON films (seen);
"""
_COLUMNS = "PRAGMA table_info(films)"
#: A row of the manifest, before vault and measures are looked up.
_FILM = """
INSERT INTO films (place, release_id, patient, view, labels, decided, file_name, shard, has_report, labels_from)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_AS_BEFORE = """
UPDATE films SET (likeness, seen) =
  (SELECT before.likeness, before.seen FROM before WHERE before.film = films.file_name || films.decided)
"""
#: Of the tables above: an index of another one is made anew.
VERSION = 2
#: Bytes of a DICOM file in which its header ends.
_HEADER = 65_536
#: Of one film: likeness to its original, how surely its findings are seen.
Measures = tuple[float | None, float | None]
#: Orders of the wall, by the name a page asks for: what it says, and what films are sorted by.
ORDERS: Mapping[str, tuple[str, str]] = {
    "release": ("in the order of the release", ""),
    "nearest": ("nearest to its original first", "-likeness"),
    "unsure": ("least sure findings first", "seen"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What the wall shows."""

    finding: str = ""
    view: str = ""
    decided: str = ""
    order: str = "release"
    #: Films from this place on count as not measured, so that an order stays as it is while films are being measured.
    upto: int | None = None

    def where(self) -> tuple[str, list[str]]:
        parts, values = ["1"], []
        if self.finding == "none":
            parts.append("labels = '|'")
        elif self.finding:
            parts.append("labels LIKE '%|' || ? || '|%'")
            values.append(self.finding)
        for name in ("view", "decided"):
            if value := getattr(self, name):
                parts.append(f"{name} = ?")
                values.append(value)
        return " AND ".join(parts), values

    def sorting(self) -> str:
        column = ORDERS.get(self.order, ORDERS["release"])[1]
        if not column:
            return "place"
        known = column if self.upto is None else f"CASE WHEN place < {self.upto:d} THEN {column} END"
        return f"{known} IS NULL, {known}, place"


class Index:
    """The films of one release. Every call opens its own connection, so threads may share it."""

    def __init__(self, path: Path, key: Key) -> None:
        self.path, self.key = path, key

    def _open(self) -> sqlite3.Connection:
        base = sqlite3.connect(self.path, timeout=60)
        base.row_factory = sqlite3.Row
        base.execute("PRAGMA journal_mode=WAL")
        base.execute("PRAGMA synchronous=NORMAL")
        return base

    def is_of(self, release: Path) -> bool:
        """Whether the index is there, and of this state of the release."""
        try:
            row = self._ask_one("SELECT value FROM about WHERE name = 'manifest'")
        except sqlite3.OperationalError:  # no index yet, or one of another version
            return False
        except sqlite3.DatabaseError:  # damaged
            for name in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + name).unlink(missing_ok=True)
            return False
        return row is not None and row["value"] == _state(release)

    def build(self, release: Path, out: Path) -> None:
        """Make the index of a release, whatever there was before."""
        try:
            with closing(self._open()) as base, base:  # until it is whole, pages read the one before
                base.execute("BEGIN IMMEDIATE")
                self._set_aside(base)
                for statement in _TABLES.split(";"):
                    base.execute(statement)
                # Row by row: neither the manifest nor the vault is ever held whole.
                base.executemany(_FILM, _rows(release))
                links = ((link["ref"], name) for link in open_vault(out / "vault", self.key)
                         if (name := link.get("release_id")))  # fmt: skip
                base.executemany("UPDATE films SET ref = ? WHERE release_id = ?", links)
                base.execute(_AS_BEFORE)
                base.execute("DROP TABLE before")
                base.executemany(  # films of one id share their ref
                    "INSERT INTO quarantine VALUES (?, ?, ?, 1) ON CONFLICT (ref) DO UPDATE SET films = films + 1",
                    _kept_back(out),
                )
                base.execute("INSERT INTO about VALUES ('manifest', ?)", (_state(release),))
            os.chmod(self.path, 0o600)
        except sqlite3.Error:
            raise OutputError("the index of the review page cannot be written; is the disk full?") from None

    @staticmethod
    def _set_aside(base: sqlite3.Connection) -> None:
        """Keep what was measured of films before a part of them is made again; not of those an officer decided on."""
        base.execute("DROP TABLE IF EXISTS before")
        base.execute("CREATE TABLE before (film TEXT PRIMARY KEY, likeness REAL, seen REAL)")
        if {"file_name", "decided", "likeness", "seen"} <= {row["name"] for row in base.execute(_COLUMNS)}:
            base.execute(
                "INSERT OR REPLACE INTO before SELECT file_name || decided, likeness, seen FROM films "
                "WHERE decided NOT LIKE '%review %'"
            )

    # -- asking ------------------------------------------------------------------------------------------------------

    def _ask(self, query: str, *values: Any) -> list[dict[str, Any]]:
        with closing(self._open()) as base:
            return [dict(row) for row in base.execute(query, values)]

    def _ask_one(self, query: str, *values: Any) -> dict[str, Any] | None:
        return next(iter(self._ask(query, *values)), None)

    def films(self, choice: Choice, offset: int = 0, limit: int = 200) -> tuple[int, list[dict[str, Any]]]:
        """How many films a choice has, and some of them."""
        where, values = choice.where()
        (total,) = self._ask(f"SELECT count(*) AS films FROM films WHERE {where}", *values)
        rows = self._ask(
            f"SELECT release_id, ref, view, labels, likeness, seen FROM films WHERE {where} "
            f"ORDER BY {choice.sorting()} LIMIT ? OFFSET ?",
            *values, limit, offset,
        )  # fmt: skip
        return total["films"], rows

    def film(self, release_id: str) -> dict[str, Any] | None:
        return self._ask_one("SELECT * FROM films WHERE release_id = ?", release_id)

    def file_names(self, release_ids: Sequence[str]) -> dict[str, str]:
        """The files of these films in the release, by release id."""
        places = ", ".join("?" * len(release_ids))
        rows = self._ask(f"SELECT release_id, file_name FROM films WHERE release_id IN ({places})", *release_ids)
        return {row["release_id"]: row["file_name"] for row in rows}

    def neighbours(self, release_id: str, choice: Choice) -> tuple[str | None, str | None]:
        """The films before and after one in the order of a choice."""
        where, values = choice.where()
        order = choice.sorting()
        row = self._ask_one(
            f"SELECT before, after FROM (SELECT release_id, lag(release_id) OVER (ORDER BY {order}) AS before, "
            f"lead(release_id) OVER (ORDER BY {order}) AS after FROM films WHERE {where}) WHERE release_id = ?",
            *values, release_id,
        )  # fmt: skip
        return (None, None) if row is None else (row["before"], row["after"])

    def choices(self) -> dict[str, list[tuple[str, int]]]:
        """What films can be filtered by, each with its count."""
        with closing(self._open()) as base:
            out = {
                name: [(row[0], row[1]) for row in base.execute(
                    f"SELECT {name}, count(*) FROM films WHERE {name} > '' GROUP BY 1 ORDER BY 2 DESC LIMIT 30")]
                for name in ("view", "decided")
            }  # fmt: skip
            told = "SELECT labels, count(*) FROM films WHERE labels IS NOT NULL GROUP BY 1"
            sets = base.execute(told).fetchall()
        counts: dict[str, int] = {}
        for row in sets:
            for name in filter(None, row[0].split("|")):
                counts[name] = counts.get(name, 0) + row[1]
        out["finding"] = sorted(counts.items(), key=lambda pair: -pair[1])
        if none := sum(row[1] for row in sets if row[0] == "|"):
            out["finding"].append(("none", none))
        return out

    def quarantine(self, reason: str = "", most: int = 2000) -> list[dict[str, Any]]:
        return self._ask(
            "SELECT ref, station, reason, films FROM quarantine WHERE ? IN ('', reason) ORDER BY reason, ref LIMIT ?",
            reason, most,
        )  # fmt: skip

    def reasons(self) -> list[tuple[str, int]]:
        rows = self._ask("SELECT reason, sum(films) AS films FROM quarantine GROUP BY 1 ORDER BY 2 DESC")
        return [(row["reason"], row["films"]) for row in rows]

    def kept_back(self, ref: str) -> dict[str, str] | None:
        return self._ask_one("SELECT ref, station, reason FROM quarantine WHERE ref = ?", ref)

    # -- originals and measures --------------------------------------------------------------------------------------

    def keep_originals(self, studies: Iterator[tuple[str, Study]]) -> None:
        """Note where the originals are, encrypted, a few hundred at a time."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        cipher = AESGCM(self.key.vault_key())
        held: list[tuple[str, bytes]] = []

        def spill() -> None:
            with closing(self._open()) as base, base:
                base.executemany("INSERT OR REPLACE INTO originals VALUES (?, ?)", held)
            held.clear()

        for ref, study in studies:
            nonce = os.urandom(12)
            held.append((ref, nonce + cipher.encrypt(nonce, pickle.dumps(study), ref.encode())))
            if len(held) == 500:
                spill()
        spill()
        with closing(self._open()) as base, base:
            base.execute("INSERT OR REPLACE INTO about VALUES ('originals', 'kept')")

    def has_originals(self) -> bool:
        return self._ask_one("SELECT 1 FROM about WHERE name = 'originals'") is not None

    def original(self, ref: str) -> Study | None:
        """The study of the source behind a film, without its pixels."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        row = self._ask_one("SELECT sealed FROM originals WHERE ref = ?", ref)
        if row is None:
            return None
        sealed = row["sealed"]
        plain = AESGCM(self.key.vault_key()).decrypt(sealed[:12], sealed[12:], ref.encode())
        study: Study = pickle.loads(plain)  # authenticated: written by this hospital's key
        return study

    def unmeasured(self, limit: int = 32) -> list[dict[str, Any]]:
        return self._ask(
            "SELECT release_id, ref, file_name, labels FROM films WHERE likeness IS NULL ORDER BY place LIMIT ?", limit
        )

    def settled(self, choice: Choice) -> Choice:
        """A choice whose order stays: by what is measured now, whatever is measured later."""
        if choice.sorting() == "place":
            return choice
        (row,) = self._ask("SELECT min(place) AS place FROM films WHERE likeness IS NULL")
        known = [place for place in (choice.upto, row["place"]) if place is not None]  # films made anew have no measure
        return replace(choice, upto=min(known, default=None))

    def measured(self, values: Mapping[str, Measures]) -> None:
        """Keep likeness and how well findings are seen, by release id."""
        with closing(self._open()) as base, base:
            base.executemany(
                "UPDATE films SET likeness = ?, seen = ? WHERE release_id = ?",
                [(*found, name) for name, found in values.items()],
            )

    def counts(self) -> dict[str, int]:
        (row,) = self._ask(
            "SELECT count(*) AS films, count(likeness) AS measured, count(DISTINCT patient) AS patients FROM films"
        )
        return row

    def with_text(self, release: Path, text: str) -> list[str]:
        """Refs of released studies whose report or header has a string, whatever its case and white space."""
        pattern = re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)
        # A header is searched as it is stored: in Unicode or in the Latin alphabet, whose bytes are its characters.
        stored = {text.encode(code).decode("latin-1").lower() for code in ("utf-8", "latin-1") if _fits(text, code)}
        names = set()
        for path in sorted((release / "reports").glob("*.jsonl")):
            with path.open(encoding="utf-8", newline="\n") as lines:
                for line in lines:
                    report = json.loads(line)
                    if any(map(pattern.search, report["sections"].values())):
                        names.add(report["release_id"])
        out = []
        with closing(self._open()) as base:
            for row in base.execute("SELECT release_id, ref, file_name FROM films ORDER BY place"):
                path = release / row["file_name"]
                found = row["release_id"] in names
                if not found and path.suffix == ".dcm":
                    with path.open("rb") as film:
                        header = film.read(_HEADER).decode("latin-1").lower()
                    found = any(one in header for one in stored)
                if found and row["ref"]:
                    out.append(row["ref"])
        return out


def _fits(text: str, code: str) -> bool:
    try:
        text.encode(code)
    except UnicodeEncodeError:
        return False
    return True


def _state(release: Path) -> str:
    return f"{VERSION} {manifest.digest(release)}"


def _rows(release: Path) -> Iterator[tuple[Any, ...]]:
    for place, row in enumerate(manifest.read(release)):
        labels = None if row["labels"] is None else "|" + "".join(f"{name}|" for name in row["labels"])
        yield (
            place, row["release_id"], row["patient"], row["view"], labels, _words(json.loads(row["decided"] or "{}")),
            row["file_name"], row["shard"], row["has_report"], row["labels_from"],
        )  # fmt: skip


def _kept_back(out: Path) -> Iterator[tuple[str, str, str]]:
    try:
        lines = (out / "quarantine.jsonl").open("rb")
    except OSError:
        return
    with lines:
        for line in lines:
            entry = json.loads(line)
            yield entry["ref"], entry["station"], entry["reason"]


def _words(decided: Mapping[str, Any]) -> str:
    """A method's decision in words, the same for films that were treated alike."""
    told = {name.replace("_", " "): value for name, value in sorted(decided.items()) if value is not None}
    return ", ".join(f"{name} {value}" for name, value in told.items())
