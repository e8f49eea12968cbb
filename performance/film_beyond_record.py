"""Film beyond record on real films: do controls that hold nothing of a patient pass, and are identities found?

    python performance/film_beyond_record.py --data CHESTXRAY14 --patients 60 --kinds noise shuffled planted keep blur

Patients are those who trained neither the pack nor the shipped weights of methods (``updp.evaluation.cohort.unseen``),
with at least three films each. Kinds are controls (noise, shuffled, planted: one patient in three untouched) and
methods by name, at their default strength or at one given as ``name@strength``. Each line is printed when it is done.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from updp.core.cache import MemoryCache
from updp.core.global_state import quiet
from updp.core.keys import Key
from updp.core.measurement import Measurement, find
from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS
from updp.core.record import Study
from updp.domains.chest import PACK
from updp.domains.chest.labels import FINDINGS
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.cohort.unseen import unseen
from updp.evaluation.probes.attacks.film import DELTA, LINKAGE, RANK, Film
from updp.evaluation.probes.base import Budget
from updp.imaging.grey import grey8
from updp.imaging.square import square
from updp.methods import make_method
from updp.methods.learned import WEIGHTS
from updp.models import load_pack
from updp.models.pack import Pack
from updp.release.gate import judge
from updp.sources import open_source

FEWEST_FILMS = 3


def read(path: Path, patients: int, most: int, size: int, packs: list[Pack]) -> tuple[Exhibit, list[Study]]:
    """Films of so many unseen patients, at most ``most`` each."""
    source = open_source(path, frontal_only=True)
    place = unseen(packs)
    people: dict[str, list[Study]] = {}
    for study in source:
        if isinstance(study, Study) and place(study, source.layout) is not None:
            people.setdefault(study.patient_id, []).append(study)
    several = sorted(name for name, films in people.items() if len(films) >= FEWEST_FILMS)
    chosen = np.random.default_rng(0).permutation(several)[:patients]
    studies = [study for name in sorted(chosen) for study in people[name][:most]]
    films = [grey8(square(source.load(study).pixels, size, "crop")) for study in studies]
    labels = np.array([[name in (study.labels or ()) for name in FINDINGS] for study in studies], np.float32)
    owners = np.array([study.patient_id for study in studies])
    real = np.stack(films)
    shown = Exhibit(
        real=real,
        released=real.copy(),
        patients=owners,
        splits=np.full(len(studies), "train"),  # few patients are scored in turn, whatever their split
        views=np.array([study.view or "" for study in studies]),
        labels=labels,
        ages=np.full(len(studies), np.nan, np.float32),
        sexes=np.full(len(studies), ""),
        real_texts=[""] * len(studies),
        released_texts=[""] * len(studies),
    )
    return shown, studies


def release(shown: Exhibit, studies: list[Study], kind: str) -> Exhibit:
    """The films as this control or method releases them."""
    rng = np.random.default_rng(1)
    noise = rng.integers(0, 256, shown.real.shape, dtype=np.uint8)
    if kind == "noise":
        return shown.but(released=noise)
    if kind == "shuffled":
        return shown.but(released=shown.real[rng.permutation(len(shown))])
    if kind == "planted":
        third = np.searchsorted(np.unique(shown.patients), shown.patients) % 3 == 0
        return shown.but(released=np.where(third[:, None, None], shown.real, noise))
    name, _, strength = kind.partition("@")
    method, key = make_method(name), Key(bytes(32))
    out, kept = shown.real.copy(), np.zeros(len(shown), bool)
    for start in range(0, len(shown), 16):
        rows = range(start, min(start + 16, len(shown)))
        batch = [studies[i].but(pixels=shown.real[i].astype(np.float32) / 255) for i in rows]
        streams = [key.rng("film", study.film_id) for study in batch]
        made = method.deidentify(batch, float(strength) if strength else None, streams)
        for i, one in zip(rows, made, strict=True):
            if one.pixels is not None:
                out[i], kept[i] = grey8(square(one.pixels, out.shape[1], "stretch")), True
    return shown.but(released=out, kept_back=~kept)


def lines(shown: Exhibit, studies: list[Study], kinds: list[str], pack: str, draws: int) -> Iterator[str]:
    models, cache = load_pack(pack), MemoryCache()
    budget = Budget.quick().but(draws=draws, networks=(), films=10**6)
    for kind in kinds:
        begun = time.perf_counter()
        found = Film().run(release(shown, studies, kind), models, budget, np.random.default_rng(0), cache)
        asked = {"film": QUESTIONS["film"]}
        check = judge(GatePolicy(), released=1, quarantined=0, disjoint=True, evidence=found, questions=asked)
        cells = [
            cell(find(found, metric, protocol=protocol))
            for protocol in ("own film", "another film")
            for metric in (LINKAGE, DELTA, RANK)
        ]
        outcome = check.check("film").outcome
        yield f"| {kind} | {' | '.join(cells)} | {outcome} | {time.perf_counter() - begun:.0f} |"


def cell(m: Measurement | None) -> str:
    return f"{m.value:.3f} [{m.low:.3f}, {m.high:.3f}]" if m is not None and m.measured else "not measured"


@quiet()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--patients", type=int, default=60)
    parser.add_argument("--most", type=int, default=8, help="films per patient")
    parser.add_argument("--kinds", nargs="+", default=["noise", "shuffled", "planted", "keep", "blur", "dp-pix"])
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--draws", type=int, default=1000)
    options = parser.parse_args()
    packs = [load_pack(name, verify=False) for name in (options.pack, WEIGHTS)]
    shown, studies = read(options.data, options.patients, options.most, 256, packs)
    print(f"{len(shown)} films of {len(set(shown.patients))} patients, {len(set(shown.records))} published records")
    heads = [f"{what}, {film}" for film in ("own film", "another film") for what in ("AUC", "beyond twins", "rank-1")]
    print(f"| kind | {' | '.join(heads)} | film question | s |\n|{'---|' * (len(heads) + 3)}")
    for line in lines(shown, studies, options.kinds, options.pack, options.draws):
        print(line, flush=True)


if __name__ == "__main__":
    main()
