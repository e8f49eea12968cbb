"""`updp fetch`: studies of a PACS into an export, by a query file (PS3.4 C, Study Root).

The PACS is asked which objects a study has, and only those that the export lacks are asked for. So a fetch that was cut
goes on where it was, and one that is done confirms it.
"""

from __future__ import annotations

import difflib
import logging
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

from updp.network.association import NetworkError, Peer, Tls, associated, status_of
from updp.network.inbox import STATUS, Inbox
from updp.network.receive import Receiver, stored
from updp.sources.dicom_files import FILMS, REPORTS

log = logging.getLogger("updp.network")

_FIND, _MOVE, _GET = (f"1.2.840.10008.5.1.4.1.2.2.{n}" for n in (1, 2, 3))
#: Implicit and explicit little endian, and the compressed ones in which films are kept.
SYNTAXES = (
    "1.2.840.10008.1.2.1",
    "1.2.840.10008.1.2",
    "1.2.840.10008.1.2.4.50",
    "1.2.840.10008.1.2.4.51",
    "1.2.840.10008.1.2.4.57",
    "1.2.840.10008.1.2.4.70",
    "1.2.840.10008.1.2.4.80",
    "1.2.840.10008.1.2.4.81",
    "1.2.840.10008.1.2.4.90",
    "1.2.840.10008.1.2.4.91",
    "1.2.840.10008.1.2.5",
)
#: Objects asked for at once by UID: a list longer than this makes a request that some PACS refuse.
_AT_ONCE = 50

#: Called with studies done and studies in all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Query:
    """What to ask for: attributes of studies (each entry a question), and of their series."""

    studies: tuple[Mapping[str, str], ...]
    series: tuple[Mapping[str, str], ...] = ({},)


@dataclass(slots=True)
class Fetched:
    """What a fetch came to."""

    studies: int = 0
    objects: int = 0  # that arrived now
    present: int = 0  # that were there before
    missing: int = 0  # that the PACS has and did not give


def read_query(path: Path) -> Query:
    """A query file: tables ``[[study]]`` and one ``[series]`` of DICOM keywords. A list asks once for each value."""
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
    except OSError:
        raise NetworkError("the query file cannot be read; check its path and permissions") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        where = f": {error}" if isinstance(error, tomllib.TOMLDecodeError) else ""
        raise NetworkError(f"the query file is not TOML{where}") from None
    if unknown := sorted(raw.keys() - {"study", "series"}):
        raise NetworkError(f"the query file has an unknown table {unknown[0]!r}; it takes [[study]] and [series]")
    studies = raw.get("study", [])
    tables = studies if isinstance(studies, list) else [studies]
    asked = tuple(one for table in tables for one in _questions(table, "study"))
    if not asked or not all(asked):
        raise NetworkError("a [[study]] of the query file names no attribute, which would ask for the whole archive")
    return Query(asked, tuple(_questions(raw.get("series", {}), "series")))


def _questions(table: Any, name: str) -> Iterator[Mapping[str, str]]:
    from pydicom.datadict import keyword_dict, tag_for_keyword

    if not isinstance(table, dict):
        raise NetworkError(f"{name!r} of the query file is not a table")
    for keyword in table:
        if tag_for_keyword(keyword) is None:
            near = difflib.get_close_matches(keyword, keyword_dict, 1)
            raise NetworkError(
                f"the query file names {keyword!r}, which is not a DICOM keyword"
                + (f"; did you mean {near[0]!r}?" if near else "")
            )
    values = [value if isinstance(value, list) else [value] for value in table.values()]
    if not all(isinstance(one, str) and one for value in values for one in value) or not all(values):
        raise NetworkError(f"values in {name!r} of the query file are texts, or lists of texts, and not empty")
    for chosen in product(*values):
        yield dict(zip(table, chosen, strict=True))


def fetch(
    peer: Peer,
    query: Query,
    export: Path,
    *,
    how: Literal["get", "move"] = "get",
    host: str = "",
    port: int = 0,
    tls: Tls | None = None,
    keep_free: int = 0,
    progress: Progress | None = None,
) -> Fetched:
    """Fetch every object that the query finds and the export lacks.

    By ``get`` objects come on the association of the query. By ``move`` the PACS sends them to the AE title of this
    computer, which it has to know; this listens at ``host`` and ``port`` meanwhile, with ``tls`` if given.
    """
    if how == "get":
        inbox = Inbox(export, keep_free=keep_free)
        try:
            return _all(peer, query, inbox, _Get(peer, inbox), progress)
        finally:
            inbox.close()
    receiver = Receiver(
        export, title=peer.calling, host=host, port=port, tls=tls, keep_free=keep_free, timeout=peer.timeout
    )
    with receiver:
        return _all(peer, query, receiver.inbox, _Move(peer), progress)


def _all(
    peer: Peer, query: Query, inbox: Inbox, retrieve: Callable[[Mapping[str, str]], int], progress: Progress | None
) -> Fetched:
    from pydicom import Dataset

    def found(**asked: str) -> Iterator[Dataset]:
        with associated(peer, [(_FIND, ())]) as assoc:
            yield from _find(assoc, peer, asked)

    studies = dict.fromkeys(
        uid
        for asked in query.studies
        for line in list(found(QueryRetrieveLevel="STUDY", StudyInstanceUID="", **asked))
        if (uid := str(line.get("StudyInstanceUID", "")))
    )
    out = Fetched()
    for done, study in enumerate(studies):
        if progress:
            progress(done, len(studies))
        for number, wanted in _series_of(study, query, found).items():
            out.present += sum(uid in inbox for uid in wanted)
            lacking = [uid for uid in wanted if uid not in inbox]
            whole = {"QueryRetrieveLevel": "SERIES", "StudyInstanceUID": study, "SeriesInstanceUID": number}
            if lacking and len(lacking) == len(wanted):
                retrieve(whole)
            for start in range(0, len(lacking) if len(lacking) < len(wanted) else 0, _AT_ONCE):
                part = "\\".join(lacking[start : start + _AT_ONCE])
                retrieve({**whole, "QueryRetrieveLevel": "IMAGE", "SOPInstanceUID": part})
            out.objects += sum(uid in inbox for uid in lacking)
            out.missing += sum(uid not in inbox for uid in lacking)
        out.studies += 1
    if progress:
        progress(len(studies), len(studies))
    log.info(
        "fetched",
        extra={"facts": {"studies": out.studies, "objects": out.objects, "missing": out.missing}},
    )
    return out


def _series_of(study: str, query: Query, found: Callable[..., Iterator[Any]]) -> dict[str, list[str]]:
    """The objects of every series of a study that the query asks for."""
    above = {"StudyInstanceUID": study}
    series = dict.fromkeys(
        str(line.SeriesInstanceUID)
        for asked in query.series
        for line in list(found(QueryRetrieveLevel="SERIES", SeriesInstanceUID="", **above, **asked))
        if "SeriesInstanceUID" in line
    )
    objects = {}
    for number in series:
        lines = found(QueryRetrieveLevel="IMAGE", SOPInstanceUID="", SeriesInstanceUID=number, **above)
        objects[number] = list(dict.fromkeys(str(line.SOPInstanceUID) for line in lines if "SOPInstanceUID" in line))
    return objects


def _find(assoc: Any, peer: Peer, asked: Mapping[str, str]) -> Iterator[Any]:
    for answer, line in assoc.send_c_find(_identifier(asked), _FIND):
        status = status_of(answer, peer)
        if status in (0xFF00, 0xFF01):
            if line is not None:
                yield line
        elif status != 0x0000:
            raise NetworkError(f"{peer.place} refused the query with status {status:#06x}; its log says why")


def _identifier(asked: Mapping[str, str]) -> Any:
    from pydicom import Dataset

    made = Dataset()
    for keyword, value in asked.items():
        setattr(made, keyword, value.split("\\") if "\\" in value else value)
    return made


class _Get:
    """C-GET: objects come on the association that asks for them."""

    def __init__(self, peer: Peer, inbox: Inbox) -> None:
        self.peer, self.inbox = peer, inbox

    def __call__(self, asked: Mapping[str, str]) -> int:
        from pynetdicom import build_role, evt

        kinds = sorted(FILMS | REPORTS)
        contexts: list[tuple[str, Sequence[str]]] = [(_GET, ()), *((kind, SYNTAXES) for kind in kinds)]
        roles = [build_role(kind, scp_role=True) for kind in kinds]
        handlers = [(evt.EVT_C_STORE, lambda event: STATUS[stored(self.inbox, event)[0]])]
        with associated(self.peer, contexts, roles=roles, handlers=handlers) as assoc:
            return _finished(assoc.send_c_get(_identifier(asked), _GET), self.peer)


class _Move:
    """C-MOVE: the PACS opens an association to the AE title of this computer."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def __call__(self, asked: Mapping[str, str]) -> int:
        with associated(self.peer, [(_MOVE, ())]) as assoc:
            return _finished(assoc.send_c_move(_identifier(asked), self.peer.calling, _MOVE), self.peer)


def _finished(answers: Iterator[tuple[Any, Any]], peer: Peer) -> int:
    """The final status of a retrieval. Objects that did not come are counted by the caller, whatever it says."""
    status = 0x0000
    for answer, _ in answers:
        status = status_of(answer, peer)
    if status == 0xA801:
        raise NetworkError(
            f"{peer.place} does not know where {peer.calling!r} listens; have address and port registered there"
        )
    return status
