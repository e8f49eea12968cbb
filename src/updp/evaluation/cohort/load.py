"""From a release, its source and the key to the exhibit: every film given to the method beside what it made of it.

The vault says which is which, so this runs inside the hospital only. Nothing is compared before it is certain that the
release is whole, was signed with this key, and was made from this source; what is not is refused in one sentence.
Films are decoded once into files on disk, so that memory does not grow with the release.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.policy import BadPolicy, Policy
from updp.core.reasons import Refused
from updp.core.record import Report, Study
from updp.domains.base import Domain
from updp.evaluation.cohort.exhibit import Exhibit, published_records
from updp.imaging.grey import grey8
from updp.imaging.read import is_dicom
from updp.imaging.square import square, without_bars
from updp.release import manifest
from updp.release.assemble import OWN_OPTIONS
from updp.release.signature import NotOwn, check_own, file_sum
from updp.release.vault import BadVault, open_vault

if TYPE_CHECKING:
    from updp.sources.base import Source

Films = NDArray[np.uint8]


class NotComparable(ValueError):
    """Release, source and key do not belong together; the message says which and names no patient."""


@dataclass(frozen=True)
class Case:
    """A release that may be judged: what it is compared on, and what it says of itself."""

    release: Path
    exhibit: Exhibit
    policy: Policy
    facts: dict[str, Any]  # evidence/evaluation.json as it stands
    manifest: str  # digest of the manifest: what exactly was judged
    source: str  # keyed digest of the source


@dataclass(frozen=True)
class Beside:
    """A release beside its source: certain to be whole, signed with this key, and made from these originals."""

    release: Path
    facts: dict[str, Any]
    policy: Policy
    rows: Mapping[str, Mapping[str, Any]]  # the manifest by release id
    source: Source
    originals: list[Original]
    manifest: str  # digest of the manifest
    digest: str  # keyed digest of the source


def beside(release: Path, source: Path, key: Key, *, vault: Path | None = None, layout: str | None = None) -> Beside:
    """Open a release beside its source; refuses whatever does not belong together."""
    facts, policy = opened_release(release, key)
    policy = _with_own_options(policy, vault or release.parent / "vault")
    rows = {row["release_id"]: row for row in manifest.read(release)}
    if not rows:
        raise NotComparable("the release has no films; there is nothing to measure")
    links, key = _originals(rows, vault or release.parent / "vault", key)
    opened, digest = _source(source, release, policy, key, layout)
    originals = _studies(opened, rows, links, key)
    return Beside(release, facts, policy, rows, opened, originals, manifest.digest(release), digest)


def load_case(
    release: Path,
    source: Path,
    key: Key,
    *,
    vault: Path | None = None,
    layout: str | None = None,
    cache: Path,
) -> Case:
    """What a release is judged on, its films decoded into ``cache``."""
    pair = beside(release, source, key, vault=vault, layout=layout)
    originals, policy = pair.originals, pair.policy
    if len({(one.patient, one.split) for one in originals}) != len({one.patient for one in originals}):
        raise NotComparable("a patient's films are in two splits; no attack can be trained and tested apart")
    exhibit = _exhibit(release, originals, pair.source, policy, cache, pair.digest)
    return Case(release, exhibit, policy, pair.facts, pair.manifest, pair.digest)


def opened_release(release: Path, key: Key) -> tuple[dict[str, Any], Policy]:
    """Evidence and policy of a release that is as it was signed, and signed with this key."""
    try:
        check_own(release, key)
    except NotOwn as bad:
        raise NotComparable(str(bad)) from None
    try:
        facts = json.loads((release / "evidence" / "evaluation.json").read_bytes())
        if not {"counts", "tallies", "gate", "method"} <= facts.keys():
            raise ValueError
        return facts, Policy.load(release / "policy.toml")
    except (OSError, ValueError, AttributeError) as error:
        what = "policy.toml" if isinstance(error, BadPolicy) else "evidence/evaluation.json"
        raise NotComparable(f"the release's {what} cannot be read by this version of updp") from None


def _with_own_options(policy: Policy, vault: Path) -> Policy:
    """The policy of a release with the paths of the hospital's packs, where the vault knows them."""
    try:
        options = json.loads((vault / OWN_OPTIONS).read_bytes())
        own = policy.model_copy(update={"method": policy.method.model_copy(update={"options": dict(options)})})
    except (OSError, ValueError, TypeError):
        return policy
    return own if own.public() == policy else policy


class Original(NamedTuple):
    """A film that was given to the method: what the source says of it, and its name in the release, where it is one."""

    name: str  # the release id, which it has whether it was released or not
    study: Study
    patient: str
    split: str
    released: bool


def _originals(rows: Mapping[str, Any], vault: Path, key: Key) -> tuple[dict[str, dict[str, Any]], Key]:
    """The vault's links of the films given to the method, by release id: those released, and those it kept back.

    With them comes the key as it was used: the vault says for which recipient."""
    try:
        links = list(open_vault(vault, key))
    except BadVault as bad:
        raise NotComparable(f"{bad}; the vault links a release to its source and stands beside it") from None
    known = {link["release_id"]: link for link in links if link.get("release_id") in rows}
    if strangers := len(rows) - len(known):
        raise NotComparable(f"{strangers} of {len(rows)} released films are not in the vault; is it of another run?")
    refs = _kept_back(vault.parent / "quarantine.jsonl")
    key = key.for_recipient(links[0].get("recipient") if links else None)
    return known | {key.film(link["source_film_id"]): link for link in links if link["ref"] in refs}, key


def _kept_back(path: Path) -> set[str]:
    """Films that passed every station and that the method kept back; without the run's list, none are known of."""
    try:
        entries = [json.loads(line) for line in path.read_bytes().splitlines()]
        return {str(entry["ref"]) for entry in entries if entry["station"] == "image"}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _source(place: Path, release: Path, policy: Policy, key: Key, layout: str | None) -> tuple[Source, str]:
    """The source, and its keyed digest; refuses one that the run's record says is another."""
    from updp.pipeline.run import take_survey
    from updp.sources import open_under

    try:
        run = json.loads((release.parent / "run.json").read_bytes())
    except (OSError, ValueError):
        run = {}  # the release was moved away from its run; the vault has its links
    opened = open_under(policy, place, layout, run.get("limit"))
    digest = take_survey(opened, key, bool(run.get("check_content"))).digest
    if run.get("key") == key.fingerprint and run.get("source") not in (None, digest):
        raise NotComparable("this is not the source the release was made from, or it has changed since")
    return opened, digest


def _studies(
    source: Source, rows: Mapping[str, Any], links: Mapping[str, Mapping[str, Any]], key: Key
) -> list[Original]:
    """The source's study of every link, in the order of release ids: the same for every release of the source."""
    wanted = {link["source_film_id"]: name for name, link in links.items()}
    found: dict[str, Original] = {}
    for item in source:
        name = wanted.get(item.film_id)
        if name is None or not isinstance(item, Study):
            continue
        if item.patient_id != links[name].get("source_patient_id"):
            raise NotComparable("a film of this source belongs to another patient than the released one")
        row = rows.get(name)
        split = row["split"] if row else item.split or key.split(item.patient_id)
        found[name] = Original(name, item, links[name]["patient"], split, row is not None)
    if missing := sum(name not in found for name in rows):
        raise NotComparable(f"{missing} of {len(rows)} released films are not in this source; it is another one")
    return [found[name] for name in sorted(found)]


def _exhibit(
    release: Path, originals: list[Original], source: Source, policy: Policy, cache: Path, digest: str
) -> Exhibit:
    from updp.sources import open_source

    image, sections, domain = policy.image, policy.report.sections, source.domain
    shape = (image.side, image.side, *((domain.channels,) if domain.channels > 1 else ()))
    copy = open_source(release, "release", domain=domain.name, frontal_only=False, min_side=1)
    own = {item.film_id: item for item in copy if isinstance(item, Study)}
    counterparts = [own[one.name] if one.released else None for one in originals]
    studies = [one.study for one in originals]
    count = len(originals)

    def loaded(reader: Source, study: Study) -> NDArray[np.float32]:
        pixels = reader.load(study).pixels
        if pixels is None or not np.isfinite(pixels).all():
            raise NotComparable("a film can no longer be read; release and source must be unchanged")
        return pixels

    # Networks learned central squares, and an attacker takes the bars off a padded film: they come off here too.
    padded = image.fit == "pad"

    def real_films() -> Iterator[NDArray[np.uint8]]:
        for study in studies:
            yield grey8(square(loaded(source, study), image.side, "crop" if padded else image.fit))

    def released_films() -> Iterator[NDArray[np.uint8]]:
        for study, origin in zip(counterparts, studies, strict=True):
            if study is None:
                yield np.zeros(shape, np.uint8)
                continue
            pixels = loaded(copy, study)
            if padded:
                pixels = without_bars(pixels, loaded(source, origin).shape)
            yield grey8(square(pixels, image.side, "crop" if padded else image.fit))

    texts = [report_text(source, study, sections) for study in studies]
    described = [_described(study) for study in studies]
    ids = "\n".join(one.name for one in originals)
    real = decode_films(cache, ("real", digest, ids, image.side, padded or image.fit), count, shape, real_films)
    listing = file_sum(release / "checksums.sha256")
    released = decode_films(cache, ("released", listing, ids, image.side, padded), count, shape, released_films)
    views, labels = np.array([study.view or "" for study in described]), label_matrix(described, texts, domain)
    return Exhibit(
        real=real,
        released=released,
        patients=np.array([one.patient for one in originals]),
        splits=np.array([one.split for one in originals]),
        views=views,
        labels=labels,
        classes=domain.labels.classes,
        records=record_words(policy, described, views, labels),
        derived=find_derived(described, labels),
        ages=np.array([np.nan if study.age is None else study.age for study in described], np.float32),
        sexes=np.array([study.sex or "" for study in described]),
        real_texts=texts,
        released_texts=["" if study is None else report_text(copy, study, sections) for study in counterparts],
        kept_back=np.array([not one.released for one in originals]),
    )


def record_words(
    policy: Policy, studies: list[Study], views: NDArray[np.str_], labels: NDArray[np.float32]
) -> NDArray[np.str_]:
    """What the release publishes of each film, as the policy lets out; ages by decade, or hardly two would match."""
    leaves = policy.release.attributes
    further = []
    if "sex" in leaves:
        further.append(np.array([study.sex or "" for study in studies]))
    if "age" in leaves:
        further.append(np.array(["" if study.age is None else str(int(study.age) // 10) for study in studies]))
    shown = views if "view" in leaves else np.full(len(studies), "")
    published = labels if "labels" in leaves else np.full_like(labels, np.nan)
    return published_records(shown, published, *further)


def label_matrix(studies: list[Study], texts: list[str], domain: Domain) -> NDArray[np.float32]:
    """Labels, films x classes of the domain: as the source labels them, else as its report states; NaN without either.

    Most hospitals have reports and no labels. What a report states is read as a release derives labels; denied and
    unmentioned findings count as absent.
    """
    from updp.reports.findings import labels_of

    out = np.full((len(studies), len(domain.labels.classes)), np.nan, np.float32)
    for i, (study, text) in enumerate(zip(studies, texts, strict=True)):
        labels = study.labels
        if labels is None and domain.reports:
            labels = labels_of(text, domain.labels)
        if labels is not None:
            present = set(domain.labels.canonical(labels))
            out[i] = [name in present for name in domain.labels.classes]
    return out


def find_derived(studies: list[Study], labels: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Which rows of a matrix of labels were read in reports."""
    ours = np.array([study.labels is None or study.labels_from == "report" for study in studies], bool)
    return np.asarray(ours & ~np.isnan(labels).all(axis=1))


def _described(study: Study) -> Study:
    """The study with what only its header says of the patient: sources of DICOM files read headers late."""
    if study.path is None or (study.age is not None and study.sex is not None) or not is_dicom(study.path):
        return study
    import pydicom

    from updp.sources.fields import age_of, sex_of

    try:
        with quiet():
            header = pydicom.dcmread(study.path, stop_before_pixels=True, specific_tags=["PatientAge", "PatientSex"])
            given = {name: str(header.get(name) or "").strip() for name in ("PatientAge", "PatientSex")}
    except Exception:  # pydicom raises anything on damaged input, and quotes it
        return study
    age = age_of(given["PatientAge"]) if study.age is None else study.age
    return study.but(age=age, sex=study.sex or sex_of(given["PatientSex"]))


def report_text(source: Source, study: Study, sections: tuple[str, ...]) -> str:
    """The report of a study as the source has it, these sections of it; "" without one."""
    loader: Callable[[Study], Study] = getattr(source, "load_report", lambda study: study)
    try:
        report: Report | None = loader(study).report
    except Refused:
        return ""
    return report.text(sections) if report else ""


def decode_films(
    cache: Path,
    what: tuple[object, ...],
    count: int,
    shape: tuple[int, ...],
    films: Callable[[], Iterator[NDArray[np.uint8]]],
) -> Films:
    """Films in a file of one byte per pixel, decoded only if the same ones are not there yet; read by mapping it."""
    private(cache)
    name = hashlib.sha256("\0".join(map(str, what)).encode()).hexdigest()[:32]
    path = cache / f"{what[0]}-{name}.u8"
    if not path.is_file() or path.stat().st_size != count * math.prod(shape):
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                for pixels in films():
                    out.write(np.ascontiguousarray(pixels).tobytes())
            os.replace(temporary, path)
        except Refused:
            raise NotComparable("a film can no longer be read; release and source must be unchanged") from None
        finally:
            temporary.unlink(missing_ok=True)
    return np.memmap(path, np.uint8, "r", shape=(count, *shape))


def private(folder: Path) -> None:
    """A folder for films and models of patients: readable by its owner only, where it does not exist yet."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
