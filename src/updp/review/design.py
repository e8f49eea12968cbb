"""`updp study design`: which films, in which order, for which reader.

Blinded crossover: every reader reads every patient twice, once the original and once the released film, in two
sessions. Half the patients are seen as originals first, the other half for the next reader, so that order and learning
cancel out. Between the two films of one patient lie at least ``washout`` other films, in whatever sessions they fall. A
short third session shows some films again, for the agreement of each reader over time. Films have names that tell
nothing, one size, one format and one time stamp; text burned into an original is painted out as in the release.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from updp.core.keys import Key
from updp.core.registry import unknown
from updp.core.storage import explain
from updp.evaluation.agreement import films_needed
from updp.evaluation.cohort.load import Beside, beside, label_matrix, report_text
from updp.imaging.encode import encode_png
from updp.pipeline import stations
from updp.release.construction import CHECKED
from updp.release.shard import STAMP
from updp.review.plan import BadPlan, Item, Plan, PlannedFilm, Reader, Version, save_plan

if TYPE_CHECKING:
    from updp.core.record import Study

DESIGNS = ("blinded-crossover",)
VERSIONS: tuple[Version, ...] = ("original", "released")
#: Findings asked of every film at most: a reader rates each on five steps, and more would tire the reader.
MOST_FINDINGS = 5
#: Side of the squares in which films are read that leave at their own size: sizes would tell versions apart.
NATIVE = 1024
#: A kappa to plan for: that of the papers' clinicians (0.81 to 0.89).
EXPECTED_KAPPA = 0.85

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Power:
    """What a study of this size can show."""

    films: int
    readers: int
    margin: float  # half the width of the interval of the mean kappa, for a finding of this prevalence
    prevalence: float
    needed: int  # films for ± 0.05


def power(films: int, readers: int, prevalence: float, kappa: float = EXPECTED_KAPPA) -> Power:
    """The interval that so many films and readers give, and the films that ± 0.05 takes."""
    needed = films_needed(kappa, prevalence, readers=readers)
    return Power(films, readers, 0.05 * (needed / films) ** 0.5, prevalence, needed)


def arranged(
    names: Sequence[tuple[str, str]],
    strata: Sequence[int],
    readers: int,
    washout: int,
    repeats: int,
    key: Key,
    seed: int,
) -> list[tuple[Item, ...]]:
    """The readings of every reader. ``names`` are (original, released) of each patient, ``strata`` what is balanced."""
    count = len(names)
    if not 0 <= washout <= count:
        raise BadPlan(f"the wash-out is between 0 and {count}, the number of patients")
    block = count - washout + 1  # patients change places within a block: the nearest two readings are washout apart
    if repeats > min(block, count):
        raise BadPlan(f"at most {min(block, count)} films can be repeated with a wash-out of {washout}")
    draw = key.rng("study", "sides", str(seed))
    rank = np.empty(count, int)
    shuffled = draw.permutation(count)
    rank[shuffled[np.argsort(np.asarray(strata)[shuffled], kind="stable")]] = np.arange(count)
    out = []
    for reader in range(readers):
        rng = key.rng("study", "order", str(seed), str(reader))
        first = (rank + reader) % 2  # which version is seen first: 0 the original
        order = rng.permutation(count)
        again = np.concatenate([rng.permutation(order[at : at + block]) for at in range(0, count, block)])
        early = rng.permutation(again[:block])[:repeats]
        sides = rng.permutation(np.arange(repeats) % 2)
        out.append(
            tuple(
                [Item(names[p][first[p]], 1) for p in order]
                + [Item(names[p][1 - first[p]], 2) for p in again]
                + [Item(names[p][s], 3, repeat=True) for p, s in zip(early, sides, strict=True)]
            )
        )
    return out


def nearest(plan: Plan) -> int:
    """The fewest films from one reading of a patient to the next, over all readers."""
    least = sum(len(reader.items) for reader in plan.readers)
    for reader in plan.readers:
        seen: dict[str, int] = {}
        for place, item in enumerate(reader.items):
            patient = plan.films[item.film].patient
            if patient in seen:
                least = min(least, place - seen[patient])
            seen[patient] = place
    return least


def design(
    release: Path,
    source: Path,
    out: Path,
    *,
    key: Key,
    readers: int = 3,
    films: int = 120,
    design: str = "blinded-crossover",
    findings: Sequence[str] = (),
    washout: int | None = None,
    repeats: int | None = None,
    days: int = 14,
    seed: int = 0,
    simulated: bool = False,
    vault: Path | None = None,
    layout: str | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Choose films, order them, render them and write the study to ``out``."""
    if design not in DESIGNS:
        raise BadPlan(unknown("design", design, DESIGNS))
    if readers < 1 or films < 4:
        raise BadPlan("a study has at least one reader and four patients")
    if out.exists() and any(out.iterdir()):
        raise BadPlan(f"{out} is not empty; a plan is never overwritten")
    pair = beside(Path(release).absolute(), source, key, vault=vault, layout=layout)
    one_each = _one_film_a_patient(pair, key, seed)
    texts = [report_text(pair.source, study, pair.policy.report.sections) for _, _, study in one_each]
    labels = label_matrix([study for _, _, study in one_each], texts, pair.source.domain)
    asked = _asked(labels, pair.source.domain.labels.classes, findings)
    chosen = _chosen(labels[:, asked], films, key.rng("study", "films", str(seed)))
    if len(chosen) < 4:
        raise BadPlan(f"the release has films of {len(chosen)} patients; a study takes at least four")
    screen = _screen(pair, key)
    made: dict[str, PlannedFilm] = {}
    names: list[tuple[str, str]] = []
    strata: list[int] = []
    try:
        (out / "films").mkdir(parents=True, mode=0o700)
        os.chmod(out, 0o700)
        for place in chosen:
            patient, path, study = one_each[place]
            both = _rendered(pair, path, study, screen)
            if both is None:
                continue
            row = labels[place, asked]
            truth = None if np.isnan(row).any() else tuple(int(value) for value in row)
            own = []
            for version, pixels in zip(VERSIONS, both, strict=True):
                own.append(_store(out, key, seed, patient, version, pixels, truth, made))
            names.append((own[0], own[1]))
            strata.append(0 if truth is None else int("".join(map(str, truth)), 2))
            if progress:
                progress(len(names), len(chosen))
    except OSError as error:
        raise explain(error) from None
    if len(names) < 4:
        raise BadPlan("too few originals can be read and screened; a study takes at least four patients")
    apart = len(names) // 2 if washout is None else washout
    again = min(max(1, len(names) // 10), len(names) - apart + 1) if repeats is None else repeats
    who = "simulated reader" if simulated else "reader"
    orders = arranged(names, strata, readers, apart, again, key, seed)
    plan = Plan(
        design=design,
        release=pair.manifest,
        findings=tuple(pair.source.domain.labels.classes[i] for i in asked),
        washout=apart,
        days=days,
        simulated=simulated,
        films=made,
        readers=tuple(Reader(f"{who} {n}", items) for n, items in enumerate(orders, start=1)),
    )
    assert nearest(plan) >= apart, "the order breaks the wash-out"
    save_plan(plan, out, key)
    return plan


def _one_film_a_patient(pair: Beside, key: Key, seed: int) -> list[tuple[str, Path, Study]]:
    """Pseudonym, released file and original of one film of every patient; cases of a study are independent."""
    found: dict[str, tuple[bytes, Path, Study]] = {}
    for one in pair.originals:
        if not one.released:
            continue
        draw = key.digest("study-draw", str(seed), one.name)
        if one.patient not in found or draw < found[one.patient][0]:
            found[one.patient] = (draw, pair.release / pair.rows[one.name]["file_name"], one.study)
    return [(patient, path, study) for patient, (_, path, study) in sorted(found.items())]


def _asked(labels: NDArray[np.float32], classes: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Columns of the findings that are asked: those named, or the most frequent ones."""
    if wanted:
        known = {name.lower(): place for place, name in enumerate(classes)}
        if missing := [name for name in wanted if name.lower() not in known]:
            raise BadPlan(unknown("finding", missing[0], classes))
        return [known[name.lower()] for name in wanted]
    seen = np.nansum(labels, axis=0)
    order = [int(i) for i in np.argsort(-seen, kind="stable")[:MOST_FINDINGS] if seen[i] > 0]
    if not order:
        raise BadPlan("no film of the release has a known finding; name the findings to ask with --finding")
    return order


def _chosen(labels: NDArray[np.float32], films: int, rng: np.random.Generator) -> list[int]:
    """Patients of the study: half with a finding and half without, as far as there are."""
    order = rng.permutation(len(labels))
    ill = np.asarray(np.nansum(labels, axis=1) > 0)
    sick, well = [int(i) for i in order if ill[i]], [int(i) for i in order if not ill[i]]
    half = max(films // 2, films - len(well))
    chosen = [*sick[:half], *well[: films - len(sick[:half])]]
    return [chosen[i] for i in rng.permutation(len(chosen))]


def _screen(pair: Beside, key: Key) -> list[tuple[str, stations.Station]]:
    """The stations up to the square film: text burned into an original would tell it from a released one.

    Side markers stay where a release keeps them. Films made without the original's pixels have none.
    """
    policy = pair.policy
    if policy.image.native:
        policy = policy.model_copy(update={"image": policy.image.model_copy(update={"size": NATIVE})})
    line = [one for one in stations.build(pair.source, policy, key) if one[0] in ("read", "screen", "square")]
    if pair.facts["tallies"].get(CHECKED):
        for _, station in line:
            if isinstance(station, stations.Screen):
                station.text.paint_kept = True
    return line


def _rendered(
    pair: Beside, path: Path, study: Study, screen: list[tuple[str, stations.Station]]
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    from updp.imaging.read import read_with_window
    from updp.imaging.square import square

    passed = stations.passage(study, screen)
    if isinstance(passed, stations.Stopped) or passed.pixels is None:
        return None
    released, _ = read_with_window(
        path, max_pixels=pair.policy.image.max_pixels, min_side=1, channels=pair.source.domain.channels
    )
    return passed.pixels, square(released, len(passed.pixels), pair.policy.image.fit)


def _store(
    out: Path,
    key: Key,
    seed: int,
    patient: str,
    version: Version,
    pixels: NDArray[np.float32],
    truth: tuple[int, ...] | None,
    made: dict[str, PlannedFilm],
) -> str:
    data = encode_png(pixels)
    name = "x" + key.digest("study-film", str(seed), patient, version).hex()[:20]
    path = out / "films" / f"{name}.png"
    path.write_bytes(data)
    os.utime(path, (STAMP, STAMP))
    made[name] = PlannedFilm(patient, version, truth, hashlib.sha256(data).hexdigest())
    return name
