"""What the utility experiments cost and find on a decoded corpus: real films against a release made from them.

    python performance/utility.py --corpus DIR --source chestxray14 --release blur:4 --films 2000 [--quick]

``DIR`` is a corpus of ``updp train pack`` (films.u8, corpus.json). The release is made here: ``keep`` (the real films),
``blur:SIGMA`` in pixels, ``noise``, or ``shuffle`` (films of other patients, labels kept). Reports are the corpus's
cleaned sentences on both sides. Prints a Markdown table; the last lines are seconds by the clock and of the processor
(on a busy machine only the latter mean something), first with an empty cache and then with a filled one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from updp.core.cache import FolderCache, Layered, MemoryCache
from updp.core.measurement import Measurement
from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.evaluation.cohort.exhibit import Exhibit
from updp.evaluation.probes import probes
from updp.evaluation.probes.base import Budget
from updp.models.pack import load_pack
from updp.training.corpus import load_corpus


def released(real: np.ndarray, how: str, rng: np.random.Generator) -> np.ndarray:
    kind, _, knob = how.partition(":")
    if kind == "keep":
        return real.copy()
    if kind == "noise":
        return rng.integers(0, 256, real.shape, dtype=np.uint8)
    if kind == "shuffle":
        return real[rng.permutation(len(real))]
    if kind == "blur":
        from scipy.ndimage import gaussian_filter

        return np.stack([gaussian_filter(film, float(knob or 4)) for film in real])
    raise SystemExit(f"no release {how!r}: keep, blur:SIGMA, noise or shuffle")


def exhibit_of(corpus_folder: Path, source: str, films: int, how: str, seed: int) -> Exhibit:
    """Whole patients of one source, in the shares of its splits; ages and sexes are not in a corpus."""
    corpus = load_corpus(corpus_folder)
    rng = np.random.default_rng(seed)
    own = np.char.startswith(corpus.ids, f"{source}/")
    people = rng.permutation(np.unique(corpus.patients[own]))
    rank = {p: i for i, p in enumerate(people.tolist())}
    rows = np.flatnonzero(own)
    rows = rows[np.argsort([rank[p] for p in corpus.patients[rows].tolist()], kind="stable")][:films]
    real = np.asarray(corpus.films[rows])
    texts = [" ".join(corpus.sentences[i]) for i in rows]
    return Exhibit(
        real=real,
        released=released(real, how, rng),
        patients=corpus.patients[rows],
        splits=corpus.splits[rows],
        views=corpus.views[rows],
        labels=corpus.labels[rows],
        ages=np.full(len(rows), np.nan, np.float32),
        sexes=np.full(len(rows), ""),
        real_texts=texts,
        released_texts=list(texts),
    )


def line(measurement: Measurement) -> str:
    if not measurement.measured:
        return f"| {measurement.name} | not measured | | | {measurement.reason} |"
    m = measurement
    chance = "" if m.chance is None else f"{m.chance:.3f}"
    return f"| {m.name} | {m.value:.3f} | [{m.low:.3f}, {m.high:.3f}] | {chance} | {m.n} {m.unit} |"


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--source", required=True, help="prefix of the film ids, as chestxray14 or iu_xray")
    parser.add_argument("--release", default="blur:4")
    parser.add_argument("--films", type=int, default=2000)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--only", nargs="*", help="experiments by name; all by default")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="keep what was learned here; else a folder that goes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--match", default="", help="print only measurements whose name holds this")
    arguments = parser.parse_args()
    exhibit = exhibit_of(arguments.corpus, arguments.source, arguments.films, arguments.release, arguments.seed)
    pack = load_pack(arguments.pack)
    budget = (Budget.quick() if arguments.quick else Budget.full()).but(threads=arguments.threads)
    with tempfile.TemporaryDirectory() as folder:
        kept = FolderCache(arguments.cache or Path(folder))
        print(f"{len(exhibit)} films of {len(set(exhibit.patients))} patients of {arguments.source},", end=" ")
        print(f"release {arguments.release}, {'quick' if arguments.quick else 'full'} budget\n")
        print("| measurement | value | 95 % interval | chance | n |\n| --- | --- | --- | --- | --- |")
        seconds: dict[str, list[float]] = {}
        for turn in range(2):
            cache = Layered(MemoryCache(), kept)
            for experiment in probes(arguments.only):
                start, busy = time.perf_counter(), time.process_time()
                found = experiment.run(exhibit, pack, budget, np.random.default_rng(arguments.seed), cache)
                spent = (time.perf_counter() - start, time.process_time() - busy)
                seconds.setdefault(experiment.name, []).extend(spent)
                if turn == 0:
                    for measurement in found:
                        if arguments.match in measurement.name:
                            print(line(measurement), flush=True)
        head = "seconds, empty cache | of the processor | seconds, filled cache | of the processor |"
        print(f"\n| experiment | {head}\n| --- | --- | --- | --- | --- |")
        seconds["all"] = [sum(times) for times in zip(*seconds.values(), strict=True)]
        for name, times in seconds.items():
            print(f"| {name} | {' | '.join(f'{t:.0f}' for t in times)} |")


if __name__ == "__main__":
    main()
