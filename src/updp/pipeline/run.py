"""From a source to a release: survey, shards, assembly.

The survey reads the source once without pixels: how many films, which ids are doubled, and a keyed digest that tells on
resume whether the source is still the same. Shards have fixed membership (consecutive films of the source), are worked
on by an engine in any order, and land whole. Assembly turns what landed into the release. No step depends on how many
workers there were or how often the run was killed.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core import version
from updp.core.global_state import instruction_set, quiet
from updp.core.keys import Key, default_path
from updp.core.pairs import Pairs
from updp.core.policy import Policy
from updp.core.reasons import Quarantined, Reason
from updp.core.record import Study
from updp.core.remote import Remote, address_of, local_path
from updp.core.storage import OutputError, explain, lock_folder, write_bytes
from updp.domains import DEFAULT
from updp.methods import method_info
from updp.pipeline import non_interference, stations
from updp.pipeline.decisions import Override, Way, applied, read_decisions
from updp.pipeline.depot import Depot, Lock, made_apart
from updp.pipeline.engines import Crashed, EngineError, engine_of, other_kernels
from updp.pipeline.stations import Stopped
from updp.release import vault
from updp.release.assemble import FOLDERS, Outcome, assemble, finished
from updp.release.construction import CHECKED, DIFFERED
from updp.release.film_file import film_file
from updp.release.shard import Film, ShardRecord, land, place_film, release_shard, shard_name
from updp.release.signature import BadSignature, Seal, check_signature, file_sum, public_key
from updp.sources.base import Refusal
from updp.sources.remote import RemoteSource, make_likeness

if TYPE_CHECKING:
    from updp.sources.base import Source

#: Called at the start and after every shard with films done and films in all.
Progress = Callable[[int, int], None]


#: Source and policy of a run, encrypted under the key of the vault.
SETTINGS = "settings.sealed"


class RunError(ValueError):
    """The run cannot start or go on; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Job:
    """What every worker knows."""

    run: str  # tells runs apart in a worker that serves several
    out: Path
    source: Source
    policy: Policy
    key: Key
    seed: int
    folders: int  # release shards
    decisions: Mapping[str, Override] = field(default_factory=dict)  # by ref: what an officer decided of a study
    check_content: bool = False
    depot: Depot | None = None  # where shards land, if that is not ``out``
    kernels: Mapping[str, str] | None = None  # the instruction set a worker must have; None where it does not matter


@dataclass(frozen=True, slots=True)
class Shard:
    """A fixed set of studies."""

    index: int
    members: tuple[Study | Refusal, ...]
    state: str = ""  # keyed digest of the members as the source has them
    poisonous: frozenset[int] = frozenset()  # places of members that took a worker down


@dataclass(slots=True)
class Survey:
    """A source at a glance."""

    films: int = 0
    digest: str = ""
    duplicates: set[int] = field(default_factory=set)  # film ids, as keyed 64-bit hashes
    conflicts: set[int] = field(default_factory=set)  # study ids filed under two patients


@quiet()
def deidentify(
    source: str | Path,
    out: str | Path,
    *,
    method: str | None = None,
    policy: Policy | str | Path | None = None,
    key: Key | str | Path | None = None,
    layout: str | None = None,
    engine: str = "local",
    engine_options: Mapping[str, Any] | None = None,
    workers: int | None = None,
    seed: int = 0,
    limit: int | None = None,
    recipient: str | None = None,
    check_content: bool = False,
    progress: Progress | None = None,
) -> Outcome:
    """Make a release of ``source`` at ``out``; the same call again resumes or confirms it.

    Decisions that an officer took since (``updp review``) are applied: what they touch is made again.
    ``recipient`` names who will receive it: pseudonyms differ from those of every other recipient. A resumed run stops
    if a film, a report or an attribute changed meanwhile, by size and time of files, or with ``check_content`` by their
    bytes.

    The same key, seed, policy and source give the same bytes with any number of workers and threads, on processors
    with the same instruction set; ``run.json`` names it. Elsewhere methods that compute with networks may differ in the
    last bits, which can turn a grey value by one, or a choice between two equals.

    Source and output may be addresses that fsspec knows, such as ``s3://bucket/folder`` (extra ``remote``).
    """
    settings: dict[str, Any] = {
        "method": method, "policy": policy, "key": key, "layout": layout, "engine": engine,
        "engine_options": engine_options, "workers": workers, "seed": seed, "limit": limit, "recipient": recipient,
        "check_content": check_content, "progress": progress,
    }  # fmt: skip
    address = address_of(out)
    if address is None:
        return _deidentify(source, local_path(out).absolute(), **settings)
    depot = Depot(Remote(address))
    with Lock(depot.remote, RunError(_BUSY)) as lock, tempfile.TemporaryDirectory(prefix="updp-") as folder:
        depot.pull(Path(folder))
        outcome = _deidentify(source, Path(folder), **settings, depot=depot, lock=lock)
    return replace(outcome, address=f"{address}/{outcome.folder.name}")


_BUSY = "another run is writing to this output; wait for it or choose another folder"


def _deidentify(
    source: str | Path,
    target: Path,
    *,
    method: str | None,
    policy: Policy | str | Path | None,
    key: Key | str | Path | None,
    layout: str | None,
    engine: str,
    engine_options: Mapping[str, Any] | None,
    workers: int | None,
    seed: int,
    limit: int | None,
    recipient: str | None,
    check_content: bool,
    progress: Progress | None,
    depot: Depot | None = None,
    lock: Lock | None = None,
) -> Outcome:
    """A run whose output is ``target``, or stands there for what is in ``depot``."""
    policy = policy if isinstance(policy, Policy) else Policy.load(Path(policy)) if policy else Policy()
    if method is not None:
        policy = policy.model_copy(update={"method": policy.method.model_copy(update={"name": method})})
    if recipient is not None:
        policy = policy.model_copy(update={"release": policy.release.model_copy(update={"recipient": recipient})})
    if not isinstance(key, Key):
        key, _ = Key.load_or_create(Path(key) if key else default_path())
    key = key.for_recipient(policy.release.recipient)
    opened = _opened(source, policy, layout, limit, check_content)
    if address_of(source) is None:
        _check_places(local_path(source).absolute(), target)
    elif depot is not None:
        _check_addresses(str(address_of(source)), depot.remote.address)
    domain = opened.domain
    domain.check(policy)
    if policy.source.domain is None and domain.name != DEFAULT:  # a release says of which domain it is
        policy = policy.model_copy(update={"source": policy.source.model_copy(update={"domain": domain.name})})
    # A method that does not exist or serve this domain, or wrong options, ends the run here.
    stations.MakeFilm(policy, key, seed, domain.name)
    options = dict(engine_options or {})
    run = engine_of(engine, options)
    computes = bool(method_info(policy.method.name).needs)
    kernels = instruction_set(torch=computes, pin=options.get("pin"))

    with lock_folder(target / ".work", "lock", RunError(_BUSY)):
        survey = take_survey(opened, key, check_content)
        identity = _identity(opened, policy, key, seed, limit, survey) | {"check_content": check_content}
        decided = read_decisions(target, key)
        _begin(target, identity, kernels)
        _note_settings(target, source, policy, key)
        if depot is not None:
            depot.push(target, ["run.json", SETTINGS])
        if (done := finished(target)) is not None:
            if applied(target) == decided.head:
                _clean(target)
                return done
            if depot is not None:
                raise RunError("decisions are applied to an output on this machine; copy it here, then run again")
            _reopen(target, done.folder)
        folders = -(-survey.films // policy.release.shard_size) or 1
        job = Job(
            uuid.uuid4().hex, target, opened, policy, key, seed, folders, decided.overrides, check_content, depot,
            kernels if computes else None,
        )  # fmt: skip
        landed = landed_films(target)
        count = sum(landed.values())
        if progress:
            progress(count, survey.films)
        for record in _land_all(job, survey, run, workers):
            if lock is not None:
                lock.check()
            count += len(record.films) + len(record.quarantine) - landed.get(record.shard, 0)
            if progress:
                progress(count, survey.films)
        try:
            stated = Seal(key.release(json.dumps(identity, sort_keys=True)), _next_serial(target, key), dt.date.today())
            if done is not None:
                os.rename(done.folder, target / ".superseded")
            outcome = assemble(target, policy, key, stated)
            _keep_records(target, decided.head)
            if depot is not None:
                depot.publish(target, outcome.folder)
        except OSError as error:
            raise (error if isinstance(error, OutputError) else explain(error)) from None
        _clean(target)
        if isinstance(opened, RemoteSource):
            shutil.rmtree(opened.root, ignore_errors=True)
        return replace(outcome, skipped=opened.skipped)


def _opened(source: str | Path, policy: Policy, layout: str | None, limit: int | None, check_content: bool) -> Source:
    """The source, here or at an address."""
    from updp.core.cache import default_folder
    from updp.sources import open_under

    address = address_of(source)
    if address is None:
        # Workers may begin in another folder.
        return open_under(policy, local_path(source).absolute(), layout, limit, native=policy.image.native)
    if check_content:
        raise RunError("--check-content reads files of this machine; those at an address are compared by size and time")
    # Beside what evaluation caches: it holds tables and reports, and outlives a run that was killed.
    likeness = default_folder() / "remote" / hashlib.sha256(address.encode()).hexdigest()[:24]
    remote = Remote(address)
    make_likeness(remote, likeness)
    return RemoteSource(remote, open_under(policy, likeness, layout, limit, native=policy.image.native))


# -- survey ----------------------------------------------------------------------------------------------------------


def take_survey(source: Source, key: Key, check_content: bool = False) -> Survey:
    """Read the source once; memory does not grow with the number of films or the size of a study."""
    digest = hashlib.sha256()
    survey = Survey()
    with Pairs() as places, Pairs() as patients:
        for item in source:
            survey.films += 1
            digest.update(state_of(item, key, check_content))
            if isinstance(item, Study):
                places.add(_hash(key, "film", item.film_id), survey.films)
                patients.add(_hash(key, "study", item.study_id), _hash(key, "patient", item.patient_id))
            elif item.disputed is not None:
                survey.conflicts.add(_hash(key, "study", item.disputed))
        survey.digest = key.digest("survey", digest.digest()).hex()
        survey.duplicates = places.several()
        survey.conflicts |= patients.several()
    return survey


def _hash(key: Key, use: str, value: str) -> int:
    return int.from_bytes(key.digest("survey-" + use, value)[:8], "big")


def state_of(item: Study | Refusal, key: Key, check_content: bool) -> bytes:
    """A keyed digest of all that a source says of a film, and of the files it names: their size and time, or their
    bytes. Where the files lie does not matter, so a source may be moved."""
    if isinstance(item, Refusal):
        return key.digest("state", "refused", item.film_id, item.reason.value, item.disputed or "")
    plain = (
        item.patient_id,
        item.study_id,
        item.view,
        item.labels,
        item.labels_from,
        item.age,
        item.sex,
        item.date,
        item.split,
    )
    sections = None if item.report is None else list(item.report.sections.items())
    marked = (sorted(item.regions.items()), sorted(item.landmarks.items()))
    known = () if item.known is None else tuple(item.known.reveal())
    files = [_file_state(path, check_content) for path in (item.path, item.report_path)]
    return key.digest("state", item.film_id, repr((plain, sections, marked, known)), *files)


def _file_state(path: Path | None, check_content: bool) -> str:
    if path is None:
        return "none"
    try:
        if check_content:
            return file_sum(path)
        found = path.stat()
        return f"{found.st_size} {found.st_mtime_ns}"
    except OSError:
        return "unreadable"


def _judged(source: Source, survey: Survey, key: Key) -> Iterator[Study | Refusal]:
    """The source again, with what only the survey could see turned into refusals."""
    for item in source:
        if isinstance(item, Study):
            if survey.duplicates and _hash(key, "film", item.film_id) in survey.duplicates:
                item = Refusal(item.film_id, Reason.ID_DUPLICATE)
            elif survey.conflicts and _hash(key, "study", item.study_id) in survey.conflicts:
                item = Refusal(item.film_id, Reason.PATIENT_CONFLICT)
        yield item


# -- shards ----------------------------------------------------------------------------------------------------------


def _shards(job: Job, survey: Survey) -> Iterator[Shard]:
    items = _judged(job.source, survey, job.key)
    index = 0
    while members := tuple(islice(items, job.policy.release.shard_size)):
        states = (state_of(item, job.key, job.check_content) for item in members)
        yield Shard(index, members, job.key.digest("states", *states).hex())
        index += 1


def _land_all(job: Job, survey: Survey, run: Any, workers: int | None) -> Iterator[ShardRecord]:
    """Every shard's record, as shards are found to have landed or the engine finishes them."""
    build = job.out / ".work" / "build"
    landed: deque[ShardRecord] = deque()

    def tasks() -> Iterator[tuple[Job, Shard]]:
        for shard in _shards(job, survey):
            record = ShardRecord.load(job.out / ".work" / "shards" / f"{shard_name(shard.index)}.json")
            if record is not None and record.members == _members(shard, job) and record.present(build):
                landed.append(record)
            else:
                yield job, shard

    for task, result in run(process, tasks(), workers):
        if isinstance(result, Crashed):
            result = process(_without_poison(*task))
        if isinstance(result, OutputError | EngineError):
            raise result
        if job.depot is not None:
            job.depot.note(job.out, result)
        yield result
        while landed:
            yield landed.popleft()
    yield from landed


def _members(shard: Shard, job: Job) -> str:
    """A digest of the studies of a shard as the source has them, and of what was decided of them."""
    key = job.key
    ids = [item.film_id for item in shard.members]
    decided = [(n, job.decisions.get(key.ref(name))) for n, name in enumerate(ids)] if job.decisions else []
    changes = [str(n).encode() + override.digest(key) for n, override in decided if override is not None]
    return key.digest("members", shard.state, *changes).hex()[:32]


def _without_poison(job: Job, shard: Shard) -> tuple[Job, Shard]:
    """The shard with the members that kill a worker marked, found by trying each alone."""
    from updp.pipeline.engines.local import alone

    bad = set()
    for place, item in enumerate(shard.members):
        if isinstance(item, Study) and isinstance(alone(_probe, (job, item)), Crashed):
            bad.add(place)
    return job, replace(shard, poisonous=frozenset(bad))


@quiet()
def _probe(task: tuple[Job, Study]) -> None:
    job, study = task
    line, make = _line(job)
    passed = stations.passage(study, line)
    if isinstance(passed, Study):
        make([passed])


def _unfit(job: Job) -> EngineError | None:
    """Why this worker may not work on a run: it is on a node that lacks the folders, or that rounds otherwise."""
    if not isinstance(job.source, RemoteSource) and not job.source.root.exists():
        return EngineError("a worker does not find the source; mount it at the same path on every node")
    if job.depot is None and not (job.out / ".work" / "shards").is_dir():
        return EngineError("a worker does not find the output; mount it at the same path on every node")
    if job.kernels is None or (own := instruction_set()) == job.kernels:
        return None
    return other_kernels(own, job.kernels)


_Line = tuple[list[tuple[str, stations.Station]], stations.MakeFilm]
_LINES: dict[tuple[str, Override], _Line] = {}


def _line(job: Job, override: Override = Override()) -> _Line:  # noqa: B008 - frozen
    """The stations of a run, made once a process: models and lexicons are not loaded again for every shard.

    A study of which an officer decided something has stations of its own, under its own policy and seed.
    """
    if (job.run, override) not in _LINES:
        if override == Override():
            _LINES.clear()
        policy, seed = override.policy(job.policy), job.seed if override.seed is None else override.seed
        _LINES[job.run, override] = (
            stations.build(job.source, policy, job.key),
            stations.MakeFilm(policy, job.key, seed, job.source.domain.name),
        )
    return _LINES[job.run, override]


def _tick(out: Path, shard: Shard) -> None:
    """Note, for who watches, that one more film of this shard went through the stations; a byte each."""
    with suppress(OSError), open(out / ".work" / "ticks" / shard_name(shard.index), "ab") as ticks:
        ticks.write(b".")


def landed_films(out: Path) -> dict[str, int]:
    """Films and quarantined studies of every shard that has landed at ``out``."""
    records = (ShardRecord.load(path) for path in sorted((out / ".work" / "shards").glob("*.json")))
    return {record.shard: len(record.films) + len(record.quarantine) for record in records if record is not None}


def films_in_work(out: Path) -> int:
    """Films that went through the stations and whose shard has not landed yet."""
    shards, ticks = out / ".work" / "shards", out / ".work" / "ticks"
    try:
        return sum(path.stat().st_size for path in ticks.iterdir() if not (shards / f"{path.name}.json").exists())
    except OSError:  # the run begins or ends just now
        return 0


@quiet()
def process(task: tuple[Job, Shard]) -> ShardRecord | OutputError | EngineError:
    """Work on one shard and land it, in a worker. Only errors of this package come back; they name no patient."""
    job, shard = task
    if (unfit := _unfit(job)) is not None:
        return unfit
    try:
        if job.depot is None:
            return _process(job, shard)
        made: ShardRecord = made_apart(lambda out: _process(replace(job, out=out), shard), job.depot)
        return made
    except OutputError as error:
        return error


def _process(job: Job, shard: Shard) -> ShardRecord:
    _line(job)
    passed: list[tuple[Study, Study, Override]] = []
    kept_back: list[tuple[Study | Refusal, Stopped]] = []
    films: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    tallies = Counter[str]()

    def finish() -> None:
        """Make and write the films of the studies that passed so far."""
        made, counted = _made([study for _, study, _ in passed], [override for _, _, override in passed], job)
        tallies.update(counted)
        for (item, study, override), result in zip(passed, made, strict=True):
            if isinstance(result, Stopped):
                kept_back.append((item, result))
                continue
            link = _link(item, job, study)
            film = _film(result, job, _content(study, job.key), link["ref"])
            try:
                if _line(job, override)[1].keeps_originals and item.path is not None:
                    vault.keep_original(job.out / "vault", study.film_id, item.path, job.key)
                films.append(place_film(job.out, film))
            except OSError as error:
                raise explain(error) from None
            links.append(link)
            _tally(tallies, result)
        passed.clear()

    for place, item in enumerate(shard.members):
        if isinstance(item, Refusal):
            kept_back.append((item, Stopped("source", item.reason)))
            continue
        if place in shard.poisonous:
            kept_back.append((item, Stopped("read", Reason.WORKER_DIED)))
            continue
        override = job.decisions.get(job.key.ref(item.film_id), Override())
        if override.keep_back:
            kept_back.append((item, Stopped("review", Reason.OFFICER)))
            continue
        bare = item.but(report=None, report_path=None) if override.way is Way.NO_REPORT else item
        result = stations.passage(bare, _line(job, override)[0])
        _tick(job.out, shard)
        if isinstance(result, Stopped):
            kept_back.append((item, result))
        else:
            passed.append((item, result, override))
            if result.native is not None:  # a shard of native films would not fit into memory
                finish()
    finish()
    quarantined = []
    for item, stopped in kept_back:
        link = _link(item, job, None)
        quarantined.append(Quarantined(link["ref"], stopped.station, stopped.reason))
        links.append(link)
    name = shard_name(shard.index)
    try:
        return land(job.out, name, _members(shard, job), films, quarantined, links, tallies, job.key)
    except OSError as error:
        raise explain(error) from None


def _content(study: Study, key: Key) -> str:
    """A keyed digest of a film as it came; one pixel in sixteen tells two films apart as well as all."""
    pixels = study.pixels if study.native is None else study.native.values
    assert pixels is not None
    return key.digest("content", pixels[::4, ::4].tobytes()).hex()[:16]


def _made(studies: list[Study], overrides: list[Override], job: Job) -> tuple[list[Study | Stopped], Counter[str]]:
    """A film for each study, made together with those under the same settings, and the counts of their proofs."""
    made: list[Study | Stopped | None] = [None] * len(studies)
    tallies = Counter[str]()
    for override in dict.fromkeys(overrides):
        own = [n for n, other in enumerate(overrides) if other == override]
        group, make = [studies[n] for n in own], _line(job, override)[1]
        results = make(group)
        if not make.reads_pixels:
            checked, differed = non_interference.check(group, results, make, job.key)
            tallies.update({CHECKED: checked, DIFFERED: differed})
        elif not _line(job)[1].reads_pixels:
            # The release says that its films do not depend on pixels; one that does stays behind.
            results = [Stopped("review", Reason.METHOD_REFUSED)] * len(group)
        for n, result in zip(own, results, strict=True):
            if isinstance(result, Study) and override != Override():
                result = result.noted(decided={**result.notes.get("decided", {}), "review": override.said})
            made[n] = result
    return [result for result in made if result is not None], tallies


def _film(study: Study, job: Job, content: str, ref: str) -> Film:
    data, suffix = film_file(study, job.policy)
    row = stations.manifest_row(study, release_shard(study.film_id, job.folders), suffix, job.policy)
    return Film(data, study.report, row, content, ref)


def _link(item: Study | Refusal, job: Job, released: Study | None) -> dict[str, str]:
    key = job.key
    link = {"ref": key.ref(item.film_id), "source_film_id": item.film_id}
    if job.policy.release.recipient:
        link["recipient"] = job.policy.release.recipient
    if isinstance(item, Study):
        link |= {"source_study_id": item.study_id, "source_patient_id": item.patient_id}
        if released is None:
            link |= {"patient": key.patient(item.patient_id), "study": key.study(item.patient_id, item.study_id)}
    if released is not None:
        link |= {"release_id": released.film_id, "patient": released.patient_id, "study": released.study_id}
    return link


def _tally(tallies: Counter[str], study: Study) -> None:
    """Counts for the evidence: what was removed and what was kept, by kind."""
    for category, count in study.notes.get("phi", {}).items():
        tallies[f"phi/{category}"] += count
    for name in ("boxes", "boxes_painted", "labels_dropped", "labels_lost", "labels_derived"):
        tallies[name] += study.notes.get(name, 0)
    if (film := study.pixels if study.native is None else study.native.values) is not None:
        height, width = film.shape[:2]
        tallies[f"size/{width} × {height}"] += 1
    retention = study.notes.get("retention")
    if retention is not None:
        for when, counts in (("before", retention.before), ("after", retention.after)):
            for kind, count in counts.items():
                tallies[f"retention/{kind}_{when}"] += count
        for term, count in retention.lost.items():
            tallies[f"lost/{term}"] += count


# -- the output folder -----------------------------------------------------------------------------------------------


def check_apart(source: Path, out: Path) -> None:
    """Refuse a source and an output that lie inside each other."""
    real_source, real_out = source.resolve(), out.resolve()
    if real_out == real_source or real_source in real_out.parents:
        raise RunError("the output lies inside the source; choose a folder outside it")
    if real_out in real_source.parents:
        raise RunError("the source lies inside the output; choose another output folder")


def _check_addresses(source: str, out: str) -> None:
    if f"{out}/".startswith(f"{source}/"):
        raise RunError("the output lies inside the source; choose a folder outside it")
    if f"{source}/".startswith(f"{out}/"):
        raise RunError("the source lies inside the output; choose another output folder")


def _check_places(source: Path, out: Path) -> None:
    check_apart(source, out)
    if out.exists() and not out.is_dir():
        raise RunError("the output is a file; choose a folder")
    if out.is_dir() and any(out.iterdir()) and not any((out / name).exists() for name in (".work", "run.json")):
        raise RunError("the output folder is not empty and updp did not make it; choose another")


def _identity(source: Source, policy: Policy, key: Key, seed: int, limit: int | None, survey: Survey) -> dict[str, Any]:
    """What makes two runs the same run."""
    return {
        "version": version.__version__,
        "key": key.fingerprint,
        "policy": key.digest("policy", policy.to_toml()).hex(),
        "layout": source.layout,
        "limit": limit,
        "seed": seed,
        "source": survey.digest,
    }


_CHANGED = {
    "version": "was begun by another version of updp",
    "key": "was begun with another key",
    "policy": "was begun under another policy",
    "layout": "was begun from another source layout",
    "limit": "was begun with another --limit",
    "seed": "was begun with another --seed",
    "check_content": "was begun with or without --check-content, unlike now",
    "source": "was begun from other films, reports or attributes; the source has changed",
}


def _begin(out: Path, identity: dict[str, Any], kernels: dict[str, str]) -> None:
    """Note what the run is and what it ran on; refuse to go on with a different one. The note outlives the run.

    Another processor may go on with a run: its films are as good, but their last bits may be others (``kernels``).
    """
    noted = out / "run.json"
    try:
        before = json.loads(noted.read_bytes())
    except FileNotFoundError:
        before = None
    except ValueError:
        raise RunError("the output's run record is damaged; choose a new output folder") from None
    made_on = before.pop("made_on", []) if isinstance(before, dict) else []
    if before is not None and before != identity:
        why = [text for name, text in _CHANGED.items() if before.get(name) != identity.get(name)]
        raise RunError(f"this output {'; it '.join(why)}. Use a new output folder, or the same settings to resume.")
    try:
        if kernels not in made_on:
            write_bytes(noted, json.dumps(identity | {"made_on": [*made_on, kernels]}).encode(), mode=0o600)
        shutil.rmtree(out / ".work" / "ticks", ignore_errors=True)
        for folder in (".work/shards", ".work/ticks", ".work/build/images", ".work/build/reports"):
            (out / folder).mkdir(parents=True, exist_ok=True)
        (out / "vault").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise explain(error) from None


def noted_settings(out: Path, key: Key) -> dict[str, Any]:
    """Source and full policy as a run noted them; nothing where it did not, or with another key."""
    try:
        return vault.unseal(out / SETTINGS, key)[0]
    except (OSError, vault.BadVault, IndexError):
        return {}


def _note_settings(out: Path, source: str | Path, policy: Policy, key: Key) -> None:
    """Keep what the review page needs to make single films again, sealed: blocked terms and paths may name people."""
    place = address_of(source) or str(local_path(source).absolute())
    settings = {"source": place, "policy": policy.model_dump(mode="json")}
    try:
        vault.seal(out / SETTINGS, [settings], key)
    except OSError as error:
        raise explain(error) from None


def _keep_records(out: Path, head: str) -> None:
    """Keep what landed in each shard: a decision then costs the shard of its study, not the run again."""
    kept = out / "records"
    shutil.rmtree(kept, ignore_errors=True)
    os.rename(out / ".work" / "shards", kept)
    write_bytes(kept / "applied", head.encode(), mode=0o600)


def _reopen(out: Path, folder: Path) -> None:
    """Put the shards of a finished release back where a run works on them. Films are copied: a shard that is made again
    writes over them, and the release stays whole until the new one is. A film that is not as it was made is left out,
    so that its shard is made again."""
    shards, build = out / ".work" / "shards", out / ".work" / "build"
    try:
        for path in (out / "records").glob("*.json"):
            record = ShardRecord.load(path)
            if record is None or (shards / path.name).exists():  # damaged, or made again already before a kill
                continue
            for film in record.films:
                name = film["row"]["file_name"]
                if (folder / name).is_file() and file_sum(folder / name) == film["sum"]:
                    (build / name).parent.mkdir(exist_ok=True)
                    shutil.copy2(folder / name, build / name)
            shutil.copy2(path, shards / path.name)
    except OSError as error:
        raise explain(error) from None


def _next_serial(out: Path, key: Key) -> int:
    """The serial of the release about to be sealed: one more than that of the state it takes the place of."""
    serials = [0]
    for folder in (*(out / name for name in FOLDERS.values()), out / ".superseded"):
        with suppress(BadSignature):
            serials.append(check_signature(folder, public_key(key)).serial)
    return max(serials) + 1


def _clean(out: Path) -> None:
    """Remove what only a running run needs; the lock goes last, with the folder."""
    shutil.rmtree(out / ".superseded", ignore_errors=True)
    shutil.rmtree(out / ".work", ignore_errors=True)
