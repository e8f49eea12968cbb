"""The interval of film linkage by simulation: does it cover the truth, and how often do films pass that hold no
patient?

    python performance/film_interval.py --data CHESTXRAY14 --patients 60 --repeats 200

Labels, views and numbers of films are those of real patients, drawn anew each time; what attackers see is simulated:
real films share their patient's vector, some are near to everything, and released films hold nothing of their patient
(``noise``: all alike; ``shuffled``: somebody's real film; ``independent``: any direction). For each kind the spread of
the figure over repetitions stands beside the half-width of its interval, over both patients of a comparison and, for
comparison, by resampling the genuine patient alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from updp.core.memory import keep_freed_memory
from updp.core.record import Study
from updp.evaluation.cohort.exhibit import published_records
from updp.evaluation.intervals import bootstrap, crossed
from updp.evaluation.probes.attacks.adversary import Linker
from updp.evaluation.probes.attacks.film import score
from updp.evaluation.probes.attacks.matching import Protocol, genuine_pairs
from updp.evaluation.statistics import mean
from updp.sources import open_source

KINDS = ("noise", "shuffled", "independent")
PROTOCOLS: tuple[Protocol, ...] = ("own film", "another film")
SPACE, LIMIT = 24, 0.05


def vectors(kind: str, owner: NDArray[np.intp], rng: np.random.Generator) -> Linker:
    """Films as an attacker sees them, of whom no released one tells its patient."""
    count, people = len(owner), int(owner.max()) + 1
    common = rng.normal(size=SPACE)
    near = common * (0.7 + 0.5 * rng.normal(size=(count, 1)))
    real = near + 0.8 * rng.normal(size=(people, SPACE))[owner] + 0.6 * rng.normal(size=(count, SPACE))
    real /= np.linalg.norm(real, axis=1, keepdims=True)
    made = {
        "noise": lambda: common + 0.3 * rng.normal(size=(count, SPACE)),
        "shuffled": lambda: real[rng.permutation(count)],
        "independent": lambda: rng.normal(size=(count, SPACE)),
    }[kind]()
    left = made / np.linalg.norm(made, axis=1, keepdims=True)
    return Linker(left.astype(np.float32), real.astype(np.float32), ("simulated",))


def simulate(kind: str, people: list[list[Study]], patients: int, most: int, seed: int) -> dict[str, Any]:
    """Linkage and difference to twins of one draw of patients, each minus its true value, with half-widths."""
    rng = np.random.default_rng(seed)
    chosen = [people[i][:most] for i in rng.permutation(len(people))[:patients]]
    studies = [study for films in chosen for study in films]
    owner = np.repeat(np.arange(len(chosen)), [len(films) for films in chosen])
    names = owner.astype(str)
    labels = sorted({label for study in studies for label in study.labels or ()})
    told = np.array([[label in (study.labels or ()) for label in labels] for study in studies], np.float32)
    records = published_records(np.array([study.view or "" for study in studies]), told)
    linker = vectors(kind, owner, rng)
    out: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        pairs = genuine_pairs(records, names, np.arange(len(studies)), protocol, rng, 10)
        found = score(linker, pairs, names)
        there = found.there
        place = np.flatnonzero(there) // there.shape[1]
        for what, values in (("AUC", found.above - 0.5), ("beyond twins", found.above - found.twins)):
            both = crossed(values[there], found.weights[there], found.patients[place], found.others[there])
            alone = np.nanmean(np.where(there, values, np.nan), axis=1)
            one = bootstrap(mean, found.patients, alone, draws=200, rng=np.random.default_rng(seed))
            out[f"{protocol}, {what}"] = (both, one)
    return out


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--most", type=int, default=8, help="films per patient")
    parser.add_argument("--repeats", type=int, default=200)
    options = parser.parse_args()
    found: dict[str, list[Study]] = {}
    for study in open_source(options.data, frontal_only=True):
        if isinstance(study, Study):
            found.setdefault(study.patient_id, []).append(study)
    people = [films for _, films in sorted(found.items()) if len(films) >= 3]
    print(f"{options.patients} patients of {len(people)}, {options.repeats} repetitions")
    print("| films | figure | bias | spread | half-width | covers | half-width, one side | covers | passes |")
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        runs = [simulate(kind, people, options.patients, options.most, seed) for seed in range(options.repeats)]
        for name in runs[0]:
            values = np.array([run[name][0].value for run in runs])
            cells = [f"{values.mean():+.4f}", f"{values.std():.4f}"]
            for side in (0, 1):
                ends = [run[name][side] for run in runs]
                cells.append(f"{np.mean([(e.high - e.low) / 2 for e in ends]):.4f}")
                cells.append(f"{np.mean([e.low <= 0 <= e.high for e in ends]):.3f}")
            cells.append(f"{np.mean([run[name][0].high <= LIMIT for run in runs]):.2f}")
            print(f"| {kind} | {name} | {' | '.join(cells)} |", flush=True)
        whole = np.mean([all(run[name][0].high <= LIMIT for name in run) for run in runs])
        print(f"| {kind} | all four | | | | | | | {whole:.2f} |", flush=True)


if __name__ == "__main__":
    main()
