"""`updp receive`: a Storage SCP with storage commitment and echo (PS3.4 A, B, J).

The answer to a C-STORE says that the object is on the disk, whole. A full disk, too many associations or an object that
is not whole are refused with the status that lets the sender try again; a caller that is not on the list gets no
association.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.global_state import quiet
from updp.core.metrics import Metrics, families
from updp.network.association import (
    TIMEOUT,
    NetworkError,
    Peer,
    Tls,
    associated,
    checked_title,
    entity,
    read_whole_units,
)
from updp.network.inbox import STATUS, Inbox, Landing

if TYPE_CHECKING:
    from pydicom import Dataset
    from pynetdicom.events import Event

log = logging.getLogger("updp.network")

#: Storage Commitment Push Model (PS3.4 J.3).
COMMITMENT = "1.2.840.10008.1.20.1"
COMMITMENT_INSTANCE = "1.2.840.10008.1.20.1.1"
#: Failure reasons of an object in a commitment (PS3.3 C.14.1.1).
_MISSING, _OTHER_CLASS = 0x0112, 0x0119

METRICS = families("receive")


class Receiver:
    """A Storage SCP that writes into an export from ``start`` to ``stop``."""

    def __init__(
        self,
        export: Path,
        *,
        title: str,
        host: str = "",
        port: int = 0,
        allow: Sequence[str] = (),
        commit_to: Mapping[str, tuple[str, int]] | None = None,
        tls: Tls | None = None,
        associations: int = 10,
        keep_free: int = 0,
        timeout: float = TIMEOUT,
        metrics: Metrics | None = None,
    ) -> None:
        self.entity = entity(title, timeout)
        self.title, self.host, self.port, self.timeout = title, host, port, timeout
        self.entity.require_called_aet = True
        self.entity.require_calling_aet = [checked_title(name) for name in allow]
        self.entity.maximum_associations = associations
        self.commit_to, self.tls = dict(commit_to or {}), tls
        self.metrics = metrics if metrics is not None else Metrics(METRICS)
        self._context = tls.server() if tls is not None else None
        self.inbox = Inbox(export, keep_free=keep_free)
        self._open = ExitStack()
        self._measure()

    def start(self) -> int:
        """Listen; the port, which the system chose if none was given."""
        from pynetdicom import ALL_TRANSFER_SYNTAXES, evt
        from pynetdicom.presentation import AllStoragePresentationContexts
        from pynetdicom.sop_class import Verification

        for context in AllStoragePresentationContexts:
            self.entity.add_supported_context(context.abstract_syntax or "", ALL_TRANSFER_SYNTAXES)
        self.entity.add_supported_context(Verification)
        self.entity.add_supported_context(COMMITMENT)
        handlers = [
            (evt.EVT_CONN_OPEN, read_whole_units),
            (evt.EVT_C_STORE, self._store),
            (evt.EVT_N_ACTION, self._commit),
            (evt.EVT_ACCEPTED, lambda _: self._noted("accepted")),
            (evt.EVT_REJECTED, lambda _: self._noted("rejected")),
            (evt.EVT_ABORTED, lambda _: self._noted("aborted")),
            (evt.EVT_RELEASED, lambda _: self._noted("released")),
        ]
        self._open.enter_context(quiet())
        try:
            server = self.entity.start_server(
                (self.host, self.port), block=False, ssl_context=self._context, evt_handlers=handlers
            )
        except OSError:
            self.stop()
            raise NetworkError(
                f"port {self.port} cannot be used; another program may listen there, or it needs root (below 1024)"
            ) from None
        assert server is not None
        self.port = int(server.server_address[1])
        log.info("listening", extra={"facts": {"port": self.port, "tls": self.tls is not None}})
        return self.port

    def stop(self) -> None:
        """End every association and listen no longer; objects that were confirmed stay."""
        self.entity.shutdown()
        self.inbox.close()
        self._open.close()

    def __enter__(self) -> Receiver:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _noted(self, how: str) -> None:
        self.metrics.add("updp_associations_total", how=how)
        log.info("association", extra={"facts": {"how": how}})

    def _measure(self) -> None:
        self.metrics.set("updp_export_objects", len(self.inbox))
        self.metrics.set("updp_export_free_bytes", self.inbox.free())

    def _store(self, event: Event) -> int:
        landing, size = stored(self.inbox, event)
        self.metrics.add("updp_received_objects_total", landing=landing.value)
        if landing is Landing.STORED:
            self.metrics.add("updp_received_bytes_total", size)
        self._measure()
        return STATUS[landing]

    # -- storage commitment ------------------------------------------------------------------------------------------

    def _commit(self, event: Event) -> tuple[int, Dataset | None]:
        """Answer an N-ACTION, then report on every object it names."""
        try:
            asked = event.action_information
            report = self._report(asked)
        except Exception:  # whatever a peer wrote into its request
            return 0x0115, None  # invalid argument value
        calling = str(event.assoc.requestor.ae_title)
        threading.Thread(target=self._tell, args=(event.assoc, calling, report), daemon=True).start()
        return 0x0000, None

    def _report(self, asked: Any) -> Dataset:
        from pydicom import Dataset

        report = Dataset()
        report.TransactionUID = asked.TransactionUID
        kept, failed = [], []
        for item in asked.ReferencedSOPSequence:
            line = Dataset()
            line.ReferencedSOPClassUID = item.ReferencedSOPClassUID
            line.ReferencedSOPInstanceUID = item.ReferencedSOPInstanceUID
            reason = self._missing(str(item.ReferencedSOPInstanceUID), str(item.ReferencedSOPClassUID))
            self.metrics.add("updp_commitments_total", answer="missing" if reason else "kept")
            if reason:
                line.FailureReason = reason
                failed.append(line)
            else:
                kept.append(line)
        report.ReferencedSOPSequence = kept
        if failed:
            report.FailedSOPSequence = failed
        log.info("commitment", extra={"facts": {"kept": len(kept), "missing": len(failed)}})
        return report

    def _missing(self, uid: str, kind: str) -> int:
        """Why an object cannot be committed to; 0 if it is on the disk."""
        import pydicom

        path = self.inbox.path(uid)
        try:
            if path is None:
                return _MISSING
            found = pydicom.filereader.read_file_meta_info(path).get("MediaStorageSOPClassUID")
        except Exception:
            return _MISSING
        return 0 if found == kind else _OTHER_CLASS

    def _tell(self, assoc: Any, calling: str, report: Dataset) -> None:
        """Send the report: to the address the hospital named for the caller, else on the caller's association."""
        event_type = 2 if "FailedSOPSequence" in report else 1
        try:
            if calling in self.commit_to:
                from pynetdicom import build_role

                peer = Peer(*self.commit_to[calling], calling, self.title, self.tls, self.timeout)
                with associated(peer, [(COMMITMENT, ())], roles=[build_role(COMMITMENT, scp_role=True)]) as back:
                    answer, _ = back.send_n_event_report(report, event_type, COMMITMENT, COMMITMENT_INSTANCE)
            else:
                answer, _ = _on(assoc, report, event_type)
            sent = "Status" in answer and answer.Status == 0x0000
        except Exception:  # the caller is gone or takes no report; it will ask again
            sent = False
        log.info("commitment report", extra={"facts": {"sent": sent}})


def _on(assoc: Any, report: Dataset, event_type: int) -> tuple[Any, Any]:
    """Report on the association the caller holds open. pynetdicom waits for its own loop to pause, and would wait for
    ever if the association ended just then: its end counts as a pause."""
    from pynetdicom import evt

    def over(_: Any) -> None:
        assoc._is_paused = True

    for ending in (evt.EVT_RELEASED, evt.EVT_ABORTED):
        assoc.bind(ending, over)
    return assoc.send_n_event_report(report, event_type, COMMITMENT, COMMITMENT_INSTANCE)  # type: ignore[no-any-return]


def stored(inbox: Inbox, event: Event) -> tuple[Landing, int]:
    """Land the object of a C-STORE, and its size."""
    try:
        data = event.encoded_dataset()
        return inbox.take(data, str(event.request.AffectedSOPInstanceUID)), len(data)
    except Exception:  # whatever a peer wrote into its request
        return Landing.NOT_WHOLE, 0
