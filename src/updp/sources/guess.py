"""What the columns of a table may mean, for `updp init`: by their names, and by what kind of values they hold.

A guess, shown to a person and written to a file that can be corrected. Values are looked at and never shown.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from itertools import islice
from pathlib import Path

from updp.core.policy import SourcePolicy
from updp.core.reasons import Refused
from updp.core.registry import unknown
from updp.domains import DEFAULT, DOMAINS
from updp.sources.fields import date_of
from updp.sources.files import BadSource, Stems, files_below, find
from updp.sources.manifest import SUFFIXES, column_names, fitting, read_records
from updp.sources.mapping import IDENTIFIERS, Columns, columns_in, shipped, text_of

_SAMPLE = 200  # rows looked at
_MANY = 40  # letters on average from which a text is prose


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: how it is called, how often it is filled, what its values look like, what it is for."""

    name: str
    filled: float
    kind: str
    taken_as: str = ""


@dataclass(frozen=True, slots=True)
class Guess:
    """What a table may mean."""

    table: Path
    columns: tuple[Column, ...]
    mapping: SourcePolicy
    missing: tuple[str, ...]  # what is needed and was not found
    shipped: str = ""  # the mapping that ships, where one was taken


def guess(root: Path, mapping: str | None = None) -> Guess:
    """How the table at ``root`` may be read; ``mapping`` names one that ships."""
    folder = root if root.is_dir() else root.parent
    if mapping is not None and mapping not in shipped():
        raise BadSource(unknown("mapping", mapping, shipped()))
    fits = [mapping] if mapping is not None else fitting(root)
    if len(fits) > 1:
        raise BadSource(f"several mappings fit ({', '.join(fits)}); choose one: --mapping NAME")
    if fits:
        known = shipped()[fits[0]]
        try:
            table = find(folder, known.table or "")
        except Refused:
            raise BadSource(f"the table of {fits[0]} is not in this folder") from None
        taken: dict[str, list[str]] = {}
        for name, own in (known.columns or {}).items():
            for written in [own] if isinstance(own, str) else own:
                for column in columns_in(written):
                    taken.setdefault(column.lower(), []).append(name)
        columns = tuple(
            _with(one, ", ".join(taken.get(one.name.strip().lower(), ""))) for one in _columns(table, folder)
        )
        return Guess(table, columns, known, tuple(Columns(known).missing(_lower(columns))), fits[0])
    table = _table(root)
    return _guessed(table, folder, _columns(table, folder))


def _lower(columns: Sequence[Column]) -> set[str]:
    return {column.name.strip().lower() for column in columns}


def _with(column: Column, taken_as: str) -> Column:
    return Column(column.name, column.filled, column.kind, taken_as)


def _table(root: Path) -> Path:
    if root.is_file():
        return root
    tables = [path for path in files_below(root) if path.suffix.lower() in SUFFIXES]
    own = [path for path in tables if path.parent == root] or tables
    if not own:
        raise BadSource(f"no table was found; it is a {', '.join(SUFFIXES)} file")
    if len(own) > 1:
        raise BadSource(f"{len(own)} tables in this folder; give the path of the one that names films")
    return own[0]


@lru_cache(maxsize=1)
def _words() -> Mapping[str, str]:
    """A plain name -> the name of the field."""
    held = tomllib.loads((resources.files("updp.sources") / "columns.toml").read_text("utf-8"))
    return {word: name for name, words in held.items() for word in words}


def _plain(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.lower())


# -- by their values -------------------------------------------------------------------------------------------------


def _columns(table: Path, folder: Path) -> list[Column]:
    names = column_names(table)
    rows = [row for _, row in islice(read_records(table, _lower_names(names)), _SAMPLE) if row is not None]
    return [
        Column(name, *_looks([row.get(name.strip().lower()) for row in rows], folder)) for name in names if name.strip()
    ]


def _lower_names(names: Sequence[str]) -> set[str]:
    return {name.strip().lower() for name in names}


def _looks(values: Sequence[object], folder: Path) -> tuple[float, str]:
    """How often a column is filled and what its values look like."""
    texts = []
    for value in values:
        try:
            texts.append(text_of(value) if not isinstance(value, list | dict) else "list")
        except Refused:
            texts.append("?")
    some = [text for text in texts if text]
    share = len(some) / len(texts) if texts else 0.0
    if not some:
        return share, "empty"
    if all(text.lower() in ("0", "1", "0.0", "1.0", "-1", "-1.0", "true", "false", "yes", "no") for text in some):
        return share, "yes or no"
    if all(date_of(text) is not None for text in some):
        return share, "date"
    if any(_there(folder, text) for text in some[:20]):
        return share, "file"
    if all(re.fullmatch(r"[-+]?[\d.]+", text) for text in some):
        return share, "number"
    return share, "prose" if sum(map(len, some)) > _MANY * len(some) else "text"


def _there(folder: Path, name: str) -> bool:
    try:
        return find(folder, name.replace("\\", "/")).is_file()
    except Refused:
        return False


# -- together --------------------------------------------------------------------------------------------------------


def _guessed(table: Path, folder: Path, columns: list[Column]) -> Guess:
    words = _words()
    labels = DOMAINS[DEFAULT].labels
    found: dict[str, list[str]] = {}
    taken: dict[str, str] = {}

    def take(column: Column, name: str, written: str | None = None) -> None:
        found.setdefault(name, []).append(written or column.name)
        taken[column.name] = name

    single = [column for column in columns if column.kind == "yes or no" and labels.find(column.name)]
    if len(single) > 1:
        for column in single:
            take(column, "labels")
    for column in columns:
        name = words.get(_plain(column.name))
        if name is None or column.name in taken or column.kind == "empty":
            continue
        if name in found and name not in IDENTIFIERS:
            continue  # the first column of a name counts
        if name == "image" and column.kind != "file":
            continue  # a name of a film that is not there is looked for below
        take(column, name)
    if "image" not in found:
        if (named := next((one for one in columns if one.kind == "file"), None)) is not None:
            take(named, "image")
        else:
            _composed(table, folder, columns, take)
    mapping = SourcePolicy(
        table=os.path.relpath(table, folder).replace(os.sep, "/"),
        columns={
            name: tuple(own) if len(own) > 1 or (name == "labels" and single) else own[0] for name, own in found.items()
        },
    )
    missing = tuple(name for name in ("patient_id", "image") if name not in found)
    return Guess(table, tuple(_with(one, taken.get(one.name, "")) for one in columns), mapping, missing)


def _composed(table: Path, folder: Path, columns: Sequence[Column], take: object) -> None:
    """A column that names films without folder or suffix: both are taken from where the first of them lie."""
    stems = Stems(folder)
    order = sorted(columns, key=lambda column: _words().get(_plain(column.name)) not in ("image", "film_id"))
    for column in order:
        key = column.name.strip().lower()
        rows = [row for _, row in islice(read_records(table, {key}), 20) if row is not None]
        places = set()
        for row in rows:
            try:
                stem = text_of(row.get(key))
                path = stems.find(stem)
                places.add((os.path.relpath(path.parent, folder.resolve()), path.name.removeprefix(stem)))
            except Refused:
                continue
        if len(places) == 1:
            where, suffix = places.pop()
            prefix = "" if where == "." else where.replace(os.sep, "/") + "/"
            take(column, "image", f"{prefix}{{{column.name}}}{suffix}")  # type: ignore[operator]
            return


def as_toml(guess: Guess) -> str:
    """The mapping as a file for a person to correct."""
    import tomli_w

    head = ["# Which column of the table holds what. Written by `updp init`; correct it where it is wrong.",
            "# Columns that are not named here are not read. Fields: docs/how-to/sources/manifest.md."]  # fmt: skip
    head += [f"# {name} was not found; add it under [source.columns]." for name in guess.missing]
    return "\n".join(head) + "\n\n" + tomli_w.dumps({"source": guess.mapping.mapping()})
