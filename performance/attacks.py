"""Are the attackers real? Every attack on films untouched, as noise, as noise with copies planted, and shuffled.

    python performance/attacks.py --data chestxray14 --films 2000

Untouched films of unseen patients must be linked (verification AUC ≥ 0.90, N-patient accuracy ≥ 0.85, adaptive no
weaker than frozen), noise and shuffled patients must not (the interval covers chance); where two of three patients of
the noise leave as they are, attacks must notice.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

import numpy as np

import updp
from updp.core.cache import FolderCache
from updp.core.measurement import Measurement
from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, split_of
from updp.domains.chest import PACK
from updp.domains.chest.labels import FINDINGS
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.probes import PROBES, probes
from updp.evaluation.probes.base import Budget
from updp.sources import Refusal, open_source
from updp.training.corpus import square

SHOWN = (
    "strongest linkage",
    "verification AUC, real-real (A0 frozen)",
    "verification AUC, another film (A0 frozen)",
    "verification AUC, released-released (A1)",
    "verification AUC, another film (A1 as printed)",
    "verification AUC, another film (A2)",
    "verification TPR at 0.01 FPR, another film (A2)",
    "verification AUC, another film, all pairs (A2)",
    "verification AUC, own film (A2)",
    "verification AUC, another film (A3)",
    "verification AUC, own film (A3)",
    "verification AUC, another film (A4)",
    "retrieval rank-1, another film (A0 frozen)",
    "retrieval rank-1, another film (A2)",
    "retrieval rank-5 A2 released-real",
    "retrieval mAP A2 released-real",
    "reference: identification accuracy real→real",
    "identification accuracy real→released as printed",
    "identification accuracy retrained on released",
    "identification accuracy adapted real→released",
    "sex accuracy frozen",
    "sex accuracy retrained",
    "age accuracy frozen",
    "age accuracy retrained",
    "reconstruction explained",
    "membership AUC loss threshold",
    "membership AUC likelihood ratio",
    "strongest membership",
    "copies of training films",
    "exact copies of training films",
    "residual PHI",
    "report→patient rank-1 own report",
)


def read(path: Path, films: int, size: int, most: int = 12) -> Exhibit:
    """About so many frontal films of a source, whole patients, those with several films first."""
    source = open_source(path)
    studies = [study for study in source if not isinstance(study, Refusal) and study.view != "LATERAL"]
    count = Counter(study.patient_id for study in studies)
    rng = np.random.default_rng(0)
    chosen: list[int] = []
    where: dict[str, list[int]] = {}
    for i, study in enumerate(studies):
        where.setdefault(study.patient_id, []).append(i)
    split = {p: studies[rows[0]].split or split_of(p, BENCHMARK_KEY) for p, rows in where.items()}
    for scored, share in ((False, 0.65), (True, 0.35)):
        names = sorted(p for p in where if (split[p] != "train") == scored)
        order = sorted((names[i] for i in rng.permutation(len(names))), key=lambda p: count[p] < 2)
        taken = 0
        for name in order:
            if taken >= share * films:
                break
            own = rng.permutation(where[name])[:most]
            chosen.extend(int(i) for i in own)
            taken += len(own)
    pixels, kept = [], []
    for i in sorted(chosen):
        try:
            loaded = source.load(studies[i])
        except Refused:
            continue
        assert loaded.pixels is not None
        pixels.append(square(loaded.pixels, size))
        kept.append(loaded)
    labels = np.full((len(kept), len(FINDINGS)), np.nan, np.float32)
    for i, study in enumerate(kept):
        if study.labels is not None:
            labels[i] = [name in study.labels for name in FINDINGS]
    texts = ["" if study.report is None else study.report.text() for study in kept]
    real = np.stack(pixels)
    return Exhibit(
        real=real,
        released=real.copy(),
        patients=np.array([study.patient_id for study in kept]),
        splits=np.array([split[study.patient_id] for study in kept]),
        views=np.array([study.view or "" for study in kept]),
        labels=labels,
        ages=np.array([np.nan if study.age is None else study.age for study in kept], np.float32),
        sexes=np.array([study.sex or "" for study in kept]),
        real_texts=texts,
        released_texts=list(texts),
    )


def noise(exhibit: Exhibit) -> Exhibit:
    rng = np.random.default_rng(1)
    return exhibit.but(released=rng.integers(0, 256, exhibit.real.shape, dtype=np.uint8))


def planted(exhibit: Exhibit) -> Exhibit:
    """Noise in which two of three patients leave as they are, and every third scored one as films of somebody the
    generator learned from (the pack's training patients are those of the public benchmark key)."""
    names = np.unique(exhibit.patients)
    turn = np.searchsorted(names, exhibit.patients) % 3
    train = exhibit.rows("train")
    released = noise(exhibit).released.copy()
    released[turn != 0] = exhibit.real[turn != 0]
    handed_out = np.flatnonzero((turn == 0) & (exhibit.splits != "train"))
    released[handed_out] = exhibit.real[np.random.default_rng(3).choice(train, len(handed_out))]
    return exhibit.but(released=released)


def shuffled(exhibit: Exhibit) -> Exhibit:
    """Patients permuted within learning and scored films: nothing true is left to learn."""
    rng = np.random.default_rng(2)
    patients = exhibit.patients.copy()
    splits = np.where(exhibit.splits == "train", "train", "test")
    for split in ("train", "test"):
        rows = np.flatnonzero(splits == split)
        patients[rows] = patients[rng.permutation(rows)]
    return exhibit.but(patients=patients, splits=splits)


KINDS = {"untouched": lambda exhibit: exhibit, "noise": noise, "planted": planted, "shuffled": shuffled}


def cell(m: Measurement | None) -> str:
    if m is None:
        return ""
    return f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]" if m.measured else "not measured"


NAMES = [name for name in PROBES if ".attacks." in PROBES.module_of(name)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="a source of films with several a patient")
    parser.add_argument("--films", type=int, default=2000)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--steps", type=int, help="of the Siamese net; 0 leaves it out")
    parser.add_argument("--networks", nargs="*", help="looked through beside the identity network")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--attacks", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="keep features and trained attackers here")
    options = parser.parse_args()
    pack = updp.load_pack(options.pack)
    exhibit = read(options.data, options.films, pack.info["size"])
    budget = (Budget.quick() if options.quick else Budget.full()).but(threads=options.threads)
    if options.steps is not None:
        budget = budget.but(steps=options.steps)
    if options.networks is not None:
        budget = budget.but(networks=tuple(options.networks))
    cache = None if options.cache is None else FolderCache(options.cache)
    scored = exhibit.rows("val", "test")
    people = [len(set(exhibit.patients[rows].tolist())) for rows in (exhibit.rows("train"), scored)]
    print(f"{len(exhibit)} films; {people[0]} patients to learn from, {people[1]} scored ({len(scored)} films)\n")
    found: dict[str, dict[str, Measurement]] = {}
    seconds: dict[str, dict[str, tuple[float, float]]] = {}
    for kind in options.kinds:
        for attack in probes(options.attacks):
            begun, worked = time.perf_counter(), time.process_time()
            measured = attack.run(KINDS[kind](exhibit), pack, budget, np.random.default_rng(0), cache)
            found.setdefault(kind, {}).update({m.name: m for m in measured})
            spent = (time.perf_counter() - begun, time.process_time() - worked)
            seconds.setdefault(attack.name, {})[kind] = spent
    print(f"| figure | chance | {' | '.join(options.kinds)} |")
    print("|---|---|" + "---|" * len(options.kinds))
    for name in SHOWN:
        row = [found[kind].get(name) for kind in options.kinds]
        chance = next((m.chance for m in row if m is not None and m.chance is not None), None)
        if any(row):
            print(f"| {name} | {'' if chance is None else f'{chance:.3f}'} | {' | '.join(map(cell, row))} |")
    print(f"\n| attack | {' | '.join(f'{kind}, s (CPU s)' for kind in options.kinds)} |")
    print("|---|" + "---|" * len(options.kinds))
    for name, spent in seconds.items():
        print(f"| {name} | {' | '.join(f'{spent[k][0]:.0f} ({spent[k][1]:.0f})' for k in options.kinds)} |")
    total = {kind: [sum(spent[kind][i] for spent in seconds.values()) for i in (0, 1)] for kind in options.kinds}
    print(f"| all | {' | '.join(f'{total[k][0]:.0f} ({total[k][1]:.0f})' for k in options.kinds)} |")


if __name__ == "__main__":
    main()
