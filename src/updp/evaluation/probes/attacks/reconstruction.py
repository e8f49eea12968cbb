"""Reconstruction (A4): learn from the training patients how released films become real ones, then attack the result.

A linear filter over latents of the pack's autoencoder, by ridge regression over a cell and its neighbours, with a mean
of its own for every place. What it rebuilds of unseen patients is decoded and shown to the frozen identity network.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import key_of
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.attacks.adversary import Linker
from updp.evaluation.probes.attacks.features import Features, Floats, as_tensor, finite, weights_digest
from updp.evaluation.probes.base import SCORED, Inquiry, PairKind, Probe, absent, by_patient, too_few
from updp.evaluation.statistics import ratio

_STRENGTHS = (1e-3, 1e-2, 1e-1)
#: Cells the filter is fitted on at most.
_CELLS = 120_000
_BATCH = 32


class Unrebuildable(ValueError):
    """Nothing can be rebuilt here; the message says why."""


def latents(features: Features, films: NDArray[np.uint8]) -> Floats:
    """The autoencoder's latents of these films, N×C×H×W."""
    key = key_of("latents", films, weights_digest(features.pack, "autoencoder"))

    def make() -> dict[str, NDArray[Any]]:
        import torch

        with torch.no_grad():
            parts = [
                features.pack.autoencoder.encode(as_tensor(films[i : i + _BATCH])).half()
                for i in range(0, len(films), _BATCH)
            ]
        return {"latents": finite(torch.cat(parts).numpy(), "latents")}

    found: Floats = features.kept(key, make)["latents"].astype(np.float32)
    return found


def around(z: Floats) -> Floats:
    """Every cell with its eight neighbours: N·H·W × 9·C."""
    n, channels, height, width = z.shape
    padded = np.pad(z, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    moved = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    out: Floats = np.stack(moved, 1).reshape(n, 9 * channels, height * width).transpose(0, 2, 1)
    return np.ascontiguousarray(out).reshape(n * height * width, 9 * channels)


class Filter:
    """The ridge filter from released to real latents."""

    def __init__(self, released: Floats, real: Floats, strength: float) -> None:
        self.from_mean, self.to_mean = released.mean(0), real.mean(0)
        count = len(released)
        cells = released.shape[2] * released.shape[3]
        step = max(1, count * cells // _CELLS)
        x = around((released - self.from_mean)[::step]).astype(np.float64)
        y = (real - self.to_mean)[::step].transpose(0, 2, 3, 1).reshape(len(x), -1).astype(np.float64)
        gram = x.T @ x / len(x)
        floor = strength * max(float(np.trace(gram)) / len(gram), 1e-9)
        self.weights = np.linalg.solve(gram + floor * np.eye(len(gram)), x.T @ y / len(x)).astype(np.float32)

    def __call__(self, released: Floats) -> Floats:
        n, _, height, width = released.shape
        y = around(released - self.from_mean) @ self.weights
        out: Floats = y.reshape(n, height, width, -1).transpose(0, 3, 1, 2) + self.to_mean
        return out


class Rebuilt(NamedTuple):
    """Films that were rebuilt: the frozen identity network on them, and how near they came."""

    linker: Linker
    rows: NDArray[np.intp]
    error: NDArray[np.float64]  # of each, mean square in latents
    spread: NDArray[np.float64]  # of the real film around the mean film, the same way


def rebuild_films(features: Features) -> Rebuilt:
    """Learn to rebuild on the training patients, rebuild films of the scored ones, and look at them."""
    key = key_of("rebuilt", features.key, weights_digest(features.pack, "autoencoder"), features.budget.rebuilt)
    found = features.cache.get(key)
    if found is None:
        import torch

        rows, made, true, middle = _rebuild(features)
        vectors = np.zeros_like(features.embedded("real"))
        with torch.no_grad():
            for i in range(0, len(rows), 32):
                films = features.pack.autoencoder.decode(torch.from_numpy(made[i : i + 32]))
                vectors[rows[i : i + 32]] = finite(features.pack.identity.embed(films).numpy(), "rebuilt films")
        found = {
            "left": vectors,
            "rows": rows,
            "error": np.square(made - true).mean((1, 2, 3), dtype=np.float64),
            "spread": np.square(true - middle).mean((1, 2, 3), dtype=np.float64),
        }
        features.cache.put(key, found)
    linker = Linker(found["left"], features.embedded("real"), ("frozen on rebuilt films",))
    return Rebuilt(linker, found["rows"], found["error"], found["spread"])


def _rebuild(features: Features) -> tuple[NDArray[np.intp], Floats, Floats, Floats]:
    """Rows of scored films, their rebuilt latents, their true ones, and the mean of the training films."""
    originals, budget = features.originals, features.budget
    if budget.rebuilt <= 0:
        raise Unrebuildable("left out by the budget")
    if (have := len(by_patient(features.exhibit.patients, features.exhibit.rows("train")))) < FEWEST_PATIENTS:
        raise Unrebuildable(too_few(have, "training patients"))
    # Films are drawn among the originals, so that latents of the real ones serve every release of them.
    there, place = ~originals.kept_back, np.cumsum(~originals.kept_back) - 1
    patient_rows = by_patient(originals.patients, originals.rows("train"))
    rng = np.random.default_rng(11)
    order = rng.permutation(len(patient_rows))
    # A few hundred films fill the filter; the rest would only cost time.
    train = np.sort(np.concatenate([patient_rows[i] for i in order])[: 2 * budget.rebuilt])
    # Films of patients with several come first: only they can be compared with another film.
    films = sorted(by_patient(originals.patients, originals.rows(*SCORED)), key=lambda own: len(own) < 2)
    rows = np.sort(np.concatenate(films)[: budget.rebuilt])

    def both(drawn: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats, Floats]:
        kept = drawn[there[drawn]]
        if not len(kept):
            raise Unrebuildable("the method kept all of the films drawn back")
        return kept, latents(features, originals.released[kept]), latents(features, originals.real[drawn])[there[drawn]]

    train, before, after = both(train)
    rows, asked, true = both(rows)
    names = np.unique(originals.patients[train])
    held = np.isin(originals.patients[train], names[rng.permutation(len(names))[: max(1, len(names) // 5)]])
    errors = [0.0]
    if held.any() and not held.all():
        errors = [
            float(np.mean((Filter(before[~held], after[~held], s)(before[held]) - after[held]) ** 2))
            for s in _STRENGTHS
        ]
    best = Filter(before, after, _STRENGTHS[int(np.argmin(errors))])
    return place[rows], best(asked), true, after.mean(0)


class Reconstruction(Probe):
    name = "reconstruction"
    question = "film"

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        from updp.evaluation.probes.attacks.contest import Contest, scored

        patient_rows, patients, budget = inquiry.patient_rows, inquiry.exhibit.patients, inquiry.budget
        explained = "reconstruction explained"

        def nothing(reason: str, **options: Any) -> list[Measurement]:
            both = [
                m
                for protocol in ("another film", "own film")
                for m in absent(["verification AUC"], reason, attacker="A4", protocol=protocol, **options)
            ]
            return [*both, *absent([explained], reason, attacker="A4", **options)]

        if len(patient_rows) < FEWEST_PATIENTS:
            return nothing(too_few(len(patient_rows), "patients outside the train split"), needed=FEWEST_PATIENTS)
        try:
            rebuilt = rebuild_films(inquiry.features)
        except Unrebuildable as refused:
            return nothing(str(refused))
        linker, rows = rebuilt.linker, rebuilt.rows
        out: list[Measurement] = []
        several = sum(len(films) > 1 for films in by_patient(patients, rows))
        kinds: tuple[PairKind, ...] = ("another film", "own film")
        for protocol in kinds:
            if protocol == "another film" and several < FEWEST_PATIENTS:
                reason = too_few(several, "patients with two rebuilt films")
                out += absent(["verification AUC"], reason, attacker="A4", protocol=protocol, chance=0.5)
                continue
            pairs = inquiry.pairs(protocol, rows)
            contest = Contest("A4", protocol, pairs, linker.scores(pairs), linker.about())
            out += scored(contest, patients, budget.draws, inquiry.seed)
        # How much of what makes a film differ from the mean film comes back; the mean film itself scores 0.
        out.append(
            measure(
                explained,
                ratio,
                patients[rows],
                rebuilt.spread - rebuilt.error,
                rebuilt.spread,
                chance=0.0,
                better="lower",
                seed=inquiry.seed,
                attacker="A4",
                draws=budget.draws,
                detail={"space": "latents of the autoencoder"},
            )
        )
        return out
