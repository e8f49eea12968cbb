"""What the officer's desk knows of a run: its release, its originals, what was decided, and how to apply it.

Heavy work happens in threads beside the server: checking the release, finding the originals, measuring films, and
making the release anew. A page shows how far each of them is.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.keys import Key
from updp.core.policy import BadPolicy, Policy
from updp.core.reasons import REPAIR, Reason, Refused
from updp.core.record import Report, Study
from updp.core.storage import write_bytes
from updp.domains import domain_of
from updp.imaging.grey import grey8
from updp.imaging.read import read_with_window
from updp.imaging.square import square
from updp.pipeline.decisions import (
    OVERRULED,
    Decision,
    Decisions,
    Kind,
    decide,
    log_of,
    pending,
    read_decisions,
)  # fmt: skip
from updp.pipeline.run import noted_settings
from updp.pipeline.stations import whereabouts
from updp.release.assemble import Outcome, finished
from updp.release.signature import public_key
from updp.release.verify import Verification, verify
from updp.review.aside import aside
from updp.review.index import Index, Measures

if TYPE_CHECKING:
    from PIL import Image

    from updp.reports import Cleaner
    from updp.sources.base import Source

log = logging.getLogger("updp")

#: Sides of films: on the wall, and of an original on the comparison.
THUMB, LARGE = 192, 1024


class NoDesk(ValueError):
    """There is nothing to review at this place; the message says why."""


class _Stopped(Exception):
    """What runs beside the server ends before its time."""


@dataclass
class Work:
    """Something that runs beside the server."""

    name: str = ""
    done: int = 0
    total: int = 0
    error: str = ""
    running: bool = False


@dataclass(frozen=True)
class Run:
    """A run and how it ended."""

    name: str  # of its folder
    outcome: Outcome
    here: bool  # whether it is the one on the desk


@dataclass(frozen=True)
class Shown:
    """A study as the officer sees it."""

    row: dict[str, Any]
    before: Study | None
    problem: str = ""  # why there is no original
    header: Any = field(default=None, repr=False)  # of the released file
    report: Report | None = None  # released
    known: tuple[str, ...] = field(default=(), repr=False)


class Desk:
    """One run and its release."""

    def __init__(
        self,
        out: Path,
        key: Key,
        *,
        source: Path | None = None,
        layout: str | None = None,
        classify: bool = True,
    ) -> None:
        self.out, self.key, self.classify = out.absolute(), key, classify
        ended = finished(self.out)
        if ended is None:
            raise NoDesk(f"{out} has no finished release; run `updp deidentify` first, and give its output folder")
        self.run = _json(self.out / "run.json")
        if self.run.get("key") not in (None, key.fingerprint):
            raise NoDesk("this run was made with another key; give its own with --key")
        settings = noted_settings(self.out, key)
        self.policy = self._policy(settings, ended.folder)
        self.layout = layout or self.run.get("layout")
        place = source or (Path(settings["source"]) if settings.get("source") else None)
        self.source_path = place if place is not None and place.exists() else None
        (self.out / "review").mkdir(mode=0o700, exist_ok=True)
        self.index = Index(self.out / "review" / "desk.sqlite3", key)
        self.verification: Verification | None = None
        self.work = Work()  # making the release anew
        self.looking = Work()  # finding originals, measuring films
        self._source: Source | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._turn = 0  # of making the release anew: what began in another turn is about another release
        self._strip = lru_cache(maxsize=128)(self._make_strip)
        self._decisions: tuple[tuple[int, int], Decisions] | None = None
        self._bring_up_to_date()

    def _bring_up_to_date(self) -> None:
        """Make the index anew if the release is another one than it was."""
        if not self.index.is_of(self.folder):
            aside(self.index.build, self.folder, self.out)

    def _verify(self) -> Verification:
        return aside(verify, self.folder, trusted=public_key(self.key))

    def _policy(self, settings: dict[str, Any], folder: Path) -> Policy:
        try:
            return Policy.model_validate(settings["policy"])
        except (KeyError, ValueError):
            pass
        try:
            return Policy.load(folder / "policy.toml")
        except BadPolicy:
            raise NoDesk("the release has no readable policy") from None

    @property
    def folder(self) -> Path:
        ended = finished(self.out)
        if ended is not None:
            return ended.folder
        if self.work.running:
            raise NoDesk("the release is being made anew; wait a moment")
        raise NoDesk("making the release anew did not end; start it again on the page Decisions")

    @property
    def facts(self) -> dict[str, Any]:
        return _json(self.folder / "evidence" / "evaluation.json")

    def runs(self) -> list[Run]:
        """The finished runs in the folder that holds this one, made with this key."""
        found = []
        try:
            places = sorted(self.out.parent.iterdir())
        except OSError:  # the folder above is not the officer's
            places = [self.out]
        for place in places:
            own = place == self.out or _json(place / "run.json").get("key") == self.key.fingerprint
            if own and (ended := finished(place)) is not None:
                found.append(Run(place.name, ended, place == self.out))
        return found

    def start(self) -> None:
        """Begin what runs beside the server."""
        threading.Thread(target=self._beside, daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    # -- beside the server -------------------------------------------------------------------------------------------

    def _beside(self) -> None:
        """Check the release, find the originals and measure films, as far as that was not done before."""
        turn, looking = self._turn, Work("finding originals")
        try:
            if self.verification is None:
                self._take(turn, verification=self._verify())
            if self.source is not None:
                looking.running = True
                self._take(turn, looking=looking)
                if not self.index.has_originals():
                    self.index.keep_originals(self._studies(turn))
                self._measure(turn, looking)
        except _Stopped:
            pass
        except Exception as error:  # whatever goes wrong is shown on the page, not only in a log
            log.debug("desk: %s", whereabouts(error))
            own = type(error).__module__.startswith("updp.")
            looking.error = str(error) if own else f"unexpected {type(error).__name__}"
            with contextlib.suppress(_Stopped):
                self._take(turn, looking=looking)
        finally:
            looking.running = False

    def _go_on(self, turn: int) -> None:
        """Stop looking when the server ends, or when the films are being made anew: it begins again afterwards."""
        if self._stop.is_set() or self._turn != turn:
            raise _Stopped

    def _take(self, turn: int, **found: Any) -> None:
        """Keep what was found, unless the release is being made anew or was since: then it is about another one."""
        with self._lock:
            self._go_on(turn)
            for name, value in found.items():
                setattr(self, name, value)

    @property
    def seeking(self) -> bool:
        """Whether originals may still be found, by what runs beside the server or is about to."""
        return self.source_path is not None and not self.looking.error and not self.index.has_originals()

    @property
    def source(self) -> Source | None:
        from updp.sources import open_under

        if self._source is None and self.source_path is not None:
            self._source = open_under(self.policy, self.source_path, self.layout, self.run.get("limit"))
        return self._source

    def _studies(self, turn: int) -> Iterator[tuple[str, Study]]:
        assert self.source is not None
        for item in self.source:
            self._go_on(turn)
            if isinstance(item, Study):
                yield self.key.ref(item.film_id), item

    def _measure(self, turn: int, looking: Work) -> None:
        """How near every film is to its original: the correlation of both at 64 pixels."""
        looking.name, looking.total = "measuring films", self.index.counts()["films"]
        judge = _judge(self.policy) if self.classify else None
        while rows := self.index.unmeasured():
            values = {}
            for row in rows:
                self._go_on(turn)
                values[row["release_id"]] = self._measured(row, judge)
            with self._lock:  # the films cannot be made anew between asking and writing
                self._go_on(turn)
                self.index.measured(values)
            looking.done += len(values)

    def _measured(self, row: dict[str, Any], judge: Any) -> Measures:
        film = self.released_pixels(row["file_name"])
        findings = [name for name in (row["labels"] or "").split("|") if name]
        return self._likeness(row["ref"] or "", film), judge(film, findings) if judge else None

    def _likeness(self, ref: str, film: NDArray[np.float32]) -> float:
        """-1 where there is no original to compare with."""
        study = self.index.original(ref)
        if study is None or self.source is None:
            return -1.0
        try:
            pixels = self.source.load(study).pixels
        except Refused:
            return -1.0
        if pixels is None:
            return -1.0
        both = [square(p, 64, self.policy.image.fit).ravel() for p in (pixels, film)]
        if any(p.std() < 1e-6 for p in both):
            return 0.0
        return round(float(np.corrcoef(both[0], both[1])[0, 1]), 4)

    # -- pictures ----------------------------------------------------------------------------------------------------

    def released_pixels(self, file_name: str) -> NDArray[np.float32]:
        pixels, _ = read_with_window(
            self.folder / file_name,
            max_pixels=self.policy.image.max_pixels,
            min_side=1,
            channels=domain_of(self.policy).channels,
        )
        return pixels

    def strip(self, names: Sequence[str], side: int = THUMB, gap: int = 0) -> bytes | None:
        """The films of these release ids beside each other, each of ``side`` pixels; None if the release has none."""
        files = self.index.file_names(names)
        return self._strip(self._turn, tuple(files.get(name, "") for name in names), side, gap) if files else None

    def _make_strip(self, turn: int, file_names: tuple[str, ...], side: int, gap: int) -> bytes:
        """A film that is made anew may keep its name, so what was drawn in another ``turn`` is not shown again."""
        from PIL import Image, ImageOps

        mode = "L" if domain_of(self.policy).channels == 1 else "RGB"
        made = Image.new(mode, ((side + gap) * len(file_names), side))
        for n, name in enumerate(file_names):
            try:
                film = ImageOps.contain(self._released_image(name, mode), (side, side), Image.Resampling.BILINEAR)
            except (OSError, Refused):  # its place stays black
                continue
            made.paste(film, (n * (side + gap) + (side + gap - film.width) // 2, (side - film.height) // 2))
        out = io.BytesIO()
        made.save(out, "JPEG", quality=85)
        return out.getvalue()

    def _released_image(self, file_name: str, mode: str) -> Image.Image:
        """A film of eight bits as it stands in its file, which is quicker; any other as it is read."""
        from PIL import Image

        if file_name.endswith(".png"):
            with Image.open(self.folder / file_name) as film:
                if film.mode == mode and film.width * film.height <= self.policy.image.max_pixels:
                    film.load()
                    return film
        return Image.fromarray(grey8(self.released_pixels(file_name)))

    def released_png(self, release_id: str) -> bytes | None:
        row = self.index.film(release_id)
        return None if row is None else _png(self.released_pixels(row["file_name"]))

    def original_png(self, ref: str) -> bytes | None:
        """The original, made square as the released film is; burned-in text and all."""
        study = self.index.original(ref)
        if study is None or self.source is None:
            return None
        pixels = _as_far_as_it_goes(self.source, study).pixels
        if pixels is None:
            return None
        side = min(LARGE, max(pixels.shape[:2]))
        return _png(square(pixels, side, self.policy.image.fit))

    # -- one study ---------------------------------------------------------------------------------------------------

    def shown(self, row: dict[str, Any]) -> Shown:
        """A released or quarantined study with all that is known of it inside the hospital."""
        study = self.index.original(row["ref"] or "") if row.get("ref") else None
        problem = ""
        known: tuple[str, ...] = ()
        if study is None:
            problem = "no source was given" if self.source_path is None else "the original is not in the source"
            if self.seeking:
                problem = "the originals are still being looked for; it shows as soon as they are found"
            elif self.source_path is not None and not self.index.has_originals():
                problem = "the originals were not all found; the overview says why"
        elif self.source is not None:
            try:
                study = self.source.load(study)
            except Refused as refused:
                problem = f"it cannot be read: {REPAIR[refused.reason]}"
                study = _as_far_as_it_goes(self.source, study)
            if study is not None and study.header is not None:
                from updp.screening.identifiers import identifiers

                known = tuple(identifiers(study.header))
        header = report = None
        if row.get("file_name"):
            path = self.folder / row["file_name"]
            if path.suffix == ".dcm":
                from pydicom import dcmread

                header = dcmread(path, stop_before_pixels=True)
            if row["has_report"]:
                report = self._report(row["shard"], row["release_id"])
        return Shown(row, study, problem, header, report, known)

    def _report(self, shard: str, release_id: str) -> Report | None:
        with (self.folder / "reports" / f"{shard}.jsonl").open(encoding="utf-8") as lines:
            for line in lines:
                found = json.loads(line)
                if found["release_id"] == release_id:
                    return Report(found["sections"])
        return None

    @property
    def cleaner(self) -> Cleaner | None:
        """The cleaner of the run, loaded when a report is first looked at."""
        if self.policy.report.mode == "withhold":
            return None
        with self._lock:
            return _cleaner(self.policy.report.block, self.policy.report.allow, self.key, self.policy.report.mode)

    # -- decisions ---------------------------------------------------------------------------------------------------

    @property
    def decisions(self) -> Decisions:
        """The log, read again when it has grown."""
        try:
            stat = log_of(self.out).stat()
            mark = (stat.st_mtime_ns, stat.st_size)
        except OSError:
            mark = (0, 0)
        if self._decisions is None or self._decisions[0] != mark:
            self._decisions = (mark, read_decisions(self.out, self.key))
        return self._decisions[1]

    @property
    def pending(self) -> int:
        """Decisions that the release does not have yet."""
        return pending(self.out) or 0

    def decide(self, decision: Decision) -> Decision:
        """Take a decision: checked against what is known of the study, then logged."""
        from updp.pipeline.decisions import BadDecision

        if self.work.running:
            raise BadDecision("the release is being made again; decide when it is done")
        if decision.kind is not Kind.PHI and self.source_path is None:
            raise BadDecision("without its source nothing can be made again; start with --source")
        if decision.kind is Kind.RELEASE:
            entry = self.index.kept_back(decision.ref)
            way = OVERRULED.get(Reason(entry["reason"])) if entry else None
            if way is None:
                raise BadDecision("this reason cannot be overruled; correct the study in the source and run again")
            decision = _with(decision, way=way)
        if decision.kind is Kind.REDO and decision.strength is not None:
            self._check_strength(decision.strength)
        if decision.kind is Kind.PHI:
            affected = self.index.with_text(self.folder, decision.text)
            decision = _with(decision, affected=tuple(sorted(set(affected) - {decision.ref})))
        made = decide(self.out, self.key, decision)
        if made.kind is Kind.PHI:
            self._write_policy()
        return made

    def _check_strength(self, strength: float) -> None:
        from updp.methods import make_method
        from updp.methods.base import reads_pixels
        from updp.pipeline.decisions import BadDecision

        policy = self.policy.method
        method = make_method(policy.name, policy.options, domain_of(self.policy).name)
        if reads_pixels(method, strength) and not reads_pixels(method, policy.strength):
            raise BadDecision("at this strength films depend on the patient's pixels, and the release says none does")

    def _write_policy(self) -> None:
        """The run's policy with every string that was found in its block list, for the next run."""
        report = self.policy.report
        terms = tuple(dict.fromkeys((*report.block, *self.decisions.block)))
        policy = self.policy.model_copy(update={"report": report.model_copy(update={"block": terms})})
        write_bytes(self.out / "review" / "policy.toml", policy.to_toml().encode(), mode=0o600)

    def apply(self) -> None:
        """Make the release anew with what was decided; returns at once."""
        from updp.pipeline.decisions import BadDecision

        with self._lock:
            if self.work.running:
                raise BadDecision("the release is already being made again")
            if self.source_path is None:
                raise BadDecision("without its source nothing can be made again; start with --source")
            self.work = Work("making the release again", running=True)
            self._turn += 1
            self.verification = None  # what was checked is another release
        threading.Thread(target=self._apply, daemon=True).start()

    def _apply(self) -> None:
        from updp.pipeline.run import deidentify

        def progress(done: int, total: int) -> None:
            self.work.done, self.work.total = done, total

        assert self.source_path is not None
        try:
            deidentify(
                self.source_path,
                self.out,
                policy=self.policy,
                key=self.key,
                layout=self.layout,
                workers=1,
                seed=int(self.run.get("seed", 0)),
                limit=self.run.get("limit"),
                progress=progress,
            )
            self._bring_up_to_date()
            self.verification = self._verify()
        except Exception as error:  # shown on the page
            log.debug("apply: %s", whereabouts(error))
            own = type(error).__module__.startswith("updp.")
            self.work.error = str(error) if own else f"unexpected {type(error).__name__}; start it again"
        finally:
            self._turn += 1
            self._strip.cache_clear()
            self.work.running = False
        self._beside()


def _with(decision: Decision, **changes: Any) -> Decision:
    from dataclasses import replace

    return replace(decision, **changes)


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_far_as_it_goes(source: Any, study: Study) -> Study:
    """A study of which only the film or only the report can be read."""
    for part in ("load_report", "load_pixels"):
        with contextlib.suppress(Refused, AttributeError):
            study = getattr(source, part)(study)
    return study


def _png(pixels: NDArray[np.float32]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(grey8(pixels)).save(out, "PNG", compress_level=1)
    return out.getvalue()


@lru_cache(maxsize=1)
def _cleaner(block: tuple[str, ...], allow: tuple[str, ...], key: Key, mode: Any) -> Cleaner:
    from updp.reports import Cleaner, Detector

    return Cleaner(Detector(extra_block=block, extra_allow=allow), key, mode=mode)


def _judge(policy: Policy) -> Any:
    """A function that tells how surely the domain's classifier sees a film's findings; None without a classifier."""
    domain = domain_of(policy)
    if domain.pack is None or "classifier" not in domain.roles:
        return None
    from updp.models import load_pack

    classifier = load_pack(domain.pack).classifier

    def seen(film: NDArray[np.float32], labels: list[str]) -> float | None:
        """The probability of the finding that is seen least; None for a film without findings it knows."""
        import torch

        known = [classifier.labels.index(name) for name in labels if name in classifier.labels]
        if not known:
            return None
        with torch.inference_mode():
            made = classifier.probabilities(torch.from_numpy(np.ascontiguousarray(film))[None, None])
        return round(float(made[0, known].min()), 4)

    return seen
