"""What readers answered: checked against the plan, and kept in SQLite, one transaction for each answer.

The database is in WAL mode and every commit reaches the disk before the server says that an answer is saved, so a
killed server or a power cut loses nothing that was answered. Answers are only ever added: going back and answering
again adds a row, and the last one counts.

Answers that come back from a hand-out carry a chain of codes: HMAC-SHA-256 under the reader's secret over the code
before and the answer. A file that anybody altered, cut or mixed without that secret is refused. The secret is in the
reader's own hand-out, so the codes do not show what the reader changed.
"""

from __future__ import annotations

import datetime as dt
import hmac
import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from updp.core.keys import Key
from updp.core.storage import OutputError
from updp.review.plan import CONFIDENCE, ORIGINS, QUALITY, Plan

FORMAT = "updp-answers-1"


class BadAnswer(ValueError):
    """An answer or a file of answers that is not of this plan and reader; nothing of it is kept."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One reading of one film."""

    item: int  # place in the reader's order, from 0
    film: str
    findings: tuple[int, ...]  # confidence 1 to 5 for each finding of the plan
    quality: int
    origin: str
    at: str  # UTC, ISO 8601
    milliseconds: int  # from the film on screen to the answer

    def statement(self) -> str:
        """The answer as one line, the same in Python and in the reader's page."""
        rated = ",".join(map(str, self.findings))
        return f"{self.item}|{self.film}|{rated}|{self.quality}|{self.origin}|{self.at}|{self.milliseconds}"

    def to_json(self) -> dict[str, Any]:
        return {
            "item": self.item,
            "film": self.film,
            "findings": list(self.findings),
            "quality": self.quality,
            "origin": self.origin,
            "at": self.at,
            "milliseconds": self.milliseconds,
        }


def read_answer(data: Any, plan: Plan, reader: str) -> Answer:
    """An answer as it comes from a page; refuses whatever the plan does not ask of this reader."""
    try:
        answer = Answer(
            data["item"],
            data["film"],
            tuple(data["findings"]),
            data["quality"],
            data["origin"],
            data["at"],
            data["milliseconds"],
        )
        moment = dt.datetime.fromisoformat(answer.at)
    except (KeyError, TypeError, ValueError):
        raise BadAnswer("this is not an answer") from None
    whole = (answer.item, answer.quality, answer.milliseconds, *answer.findings)
    if not all(type(value) is int for value in whole) or answer.milliseconds < 0 or moment.tzinfo is None:
        raise BadAnswer("this is not an answer")
    items = plan.reader(reader).items
    if not 0 <= answer.item < len(items) or items[answer.item].film != answer.film:
        raise BadAnswer("the plan shows this reader another film in this place")
    if len(answer.findings) != len(plan.findings) or not all(1 <= v <= len(CONFIDENCE) for v in answer.findings):
        raise BadAnswer("every finding of the plan is rated from 1 to 5")
    if not 1 <= answer.quality <= len(QUALITY) or answer.origin not in ORIGINS:
        raise BadAnswer("quality is rated from 1 to 5, and a film is real or generated")
    return answer


def check_turn(answer: Answer, given: Mapping[int, Answer], plan: Plan, reader: str, now: dt.datetime) -> None:
    """Films are read in the order of the plan, and its sessions lie apart: the wash-out depends on both."""
    items = plan.reader(reader).items
    if answer.item in given:  # answered again, while its session lasts: the next one shows the patient again
        if any(items[place].session > items[answer.item].session for place in given):
            raise BadAnswer("the session of this film has ended; its answers stay as they are")
        return
    if any(place not in given for place in range(answer.item)):
        raise BadAnswer("films are read in the order of the plan; load the page again")
    if answer.item and items[answer.item].session != items[answer.item - 1].session:
        apart = now - dt.datetime.fromisoformat(given[answer.item - 1].at)
        if apart < dt.timedelta(days=plan.days):
            raise BadAnswer(f"the next session opens {plan.days} days after the last film of this one")


# -- files -----------------------------------------------------------------------------------------------------------


def chain(answers: Iterable[Answer], plan: str, reader: str, secret: str) -> str:
    """The code over a file of answers."""
    code = _code(secret, f"{FORMAT}|{plan}|{reader}")
    for answer in answers:
        code = _code(secret, f"{code}|{answer.statement()}")
    return code


def _code(secret: str, text: str) -> str:
    return hmac.new(bytes.fromhex(secret), text.encode(), "sha256").hexdigest()


def read_file(path: Path, plan: Plan, key: Key) -> tuple[str, list[Answer]]:
    """Reader and answers of a file that came back; refuses one that was altered or is of another plan."""
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT:
            raise BadAnswer("the file is of another version of updp")
        reader, told, simulated = str(data["reader"]), str(data["code"]), data["simulated"]
        if data["plan"] != plan.digest:
            raise BadAnswer("these answers are of another plan")
        raw = list(data["answers"])
    except BadAnswer:
        raise
    except OSError:
        raise BadAnswer(f"{path.name} cannot be read") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadAnswer(f"{path.name} is not a file of answers") from None
    if reader not in {known.name for known in plan.readers} or simulated is not plan.simulated:
        raise BadAnswer("the plan has no such reader")
    answers = [read_answer(one, plan, reader) for one in raw]
    if not hmac.compare_digest(chain(answers, plan.digest, reader, plan.reader_key(key, reader)), told):
        raise BadAnswer(f"{path.name} was altered after it was exported")
    begun: dict[int, Answer] = {}
    for answer in answers:
        check_turn(answer, begun, plan, reader, dt.datetime.fromisoformat(answer.at))
        begun[answer.item] = answer
    return reader, answers


# -- the database ----------------------------------------------------------------------------------------------------


class Answers:
    """The answers of one study. Safe to use from several threads: every call opens its own connection."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.path, self.plan = folder / "answers.sqlite3", plan
        with closing(self._open()) as base, base:
            base.execute(
                "CREATE TABLE IF NOT EXISTS answers (id INTEGER PRIMARY KEY, reader TEXT NOT NULL, item INTEGER NOT "
                "NULL, answer TEXT NOT NULL)"
            )
            base.execute("CREATE INDEX IF NOT EXISTS by_item ON answers (reader, item, id)")
            base.execute("CREATE TABLE IF NOT EXISTS study (plan TEXT PRIMARY KEY)")
            started = base.execute("SELECT plan FROM study").fetchone()
            if started is None:
                base.execute("INSERT INTO study VALUES (?)", (plan.digest,))
            elif started[0] != plan.digest:
                raise BadAnswer("the plan is not the one this study was started with; its answers stay as they are")
        self.path.chmod(0o600)

    def _open(self) -> sqlite3.Connection:
        try:
            base = sqlite3.connect(self.path, timeout=60)
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("PRAGMA synchronous=FULL")
        except sqlite3.Error:
            raise OutputError("the answers cannot be opened; the folder is not writable or the file damaged") from None
        return base

    def add(self, reader: str, answers: Iterable[Answer]) -> None:
        """Keep answers of one reader, all or none."""
        rows = [(reader, answer.item, json.dumps(answer.to_json())) for answer in answers]
        try:
            with closing(self._open()) as base, base:
                base.executemany("INSERT INTO answers (reader, item, answer) VALUES (?, ?, ?)", rows)
        except sqlite3.Error:
            raise OutputError("the answer was not saved; is the disk full? Nothing answered before is lost") from None

    def of(self, reader: str) -> dict[int, Answer]:
        """The last answer to every item that a reader has answered."""
        query = "SELECT item, answer FROM answers WHERE reader = ? ORDER BY id"
        try:
            with closing(self._open()) as base:
                rows = base.execute(query, (reader,)).fetchall()
        except sqlite3.Error:
            raise OutputError("the answers cannot be read; the file is damaged") from None
        return {item: read_answer(json.loads(text), self.plan, reader) for item, text in rows}

    def collect(self, path: Path, key: Key) -> tuple[str, int]:
        """Take in a file of answers; returns whose it is and how many. The same or an older file changes nothing."""
        reader, answers = read_file(path, self.plan, key)
        last = {answer.item: answer for answer in answers}
        have = self.of(reader)
        new = [one for item, one in sorted(last.items()) if item not in have or _later(one, have[item])]
        self.add(reader, new)
        return reader, len(new)


def _later(one: Answer, before: Answer) -> bool:
    return dt.datetime.fromisoformat(one.at) > dt.datetime.fromisoformat(before.at)


def export(plan: Plan, key: Key, reader: str, answers: Mapping[int, Answer]) -> bytes:
    """A file of answers, as the reader's page writes it."""
    given = list(answers.values())
    return json.dumps(
        {
            "format": FORMAT,
            "plan": plan.digest,
            "reader": reader,
            "simulated": plan.simulated,
            "answers": [answer.to_json() for answer in given],
            "code": chain(given, plan.digest, reader, plan.reader_key(key, reader)),
        },
        indent=1,
    ).encode()
