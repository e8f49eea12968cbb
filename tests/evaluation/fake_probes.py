"""Small attacks and measures with the shape of the real ones, so that the judge is tested without training anything."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from updp.core.measurement import Measurement, TooFewPatients
from updp.domains.chest.labels import FINDINGS
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import fold
from updp.evaluation.statistics import auc


@dataclass
class Budget:
    pairs: int = 100


@dataclass
class PixelLinkage:
    """Says "same patient" of a released and a real film that look alike; finds copies, and nothing in noise."""

    name: str = "pixel linkage"
    question: str = "film"

    def run(self, exhibit, pack, budget, rng, cache=None, method=None):
        rows = np.arange(len(exhibit))
        others = np.array([rng.choice(rows[exhibit.patients != exhibit.patients[i]]) for i in rows])
        real = exhibit.real.reshape(len(exhibit), -1).astype(np.float32)
        released = exhibit.released.reshape(len(exhibit), -1).astype(np.float32)

        def likeness(i, j):
            return [float(np.corrcoef(released[a], real[b])[0, 1]) for a, b in zip(i, j, strict=True)]

        scores = np.nan_to_num(likeness(rows, rows) + likeness(rows, others))
        truth = np.repeat([1, 0], len(rows))
        left, right = np.tile(exhibit.patients, 2), np.concatenate([exhibit.patients, exhibit.patients[others]])
        curves = {
            "roc": [[0.0, 0.0], [0.2, 0.6], [1.0, 1.0]],
            "size curve": [[10, 0.5, 0.4, 0.6], [100, 0.7, 0.6, 0.8]],
        }
        area = measure(
            "linkage AUC", auc, left, truth, scores, right=right, better="closer to chance", chance=0.5, seed=0,
            attacker="pixels", draws=100, detail=curves,
        )  # fmt: skip
        return [area, fold(area, "film linkage"), figure("film linkage beyond twins", 0.0, -0.01, 0.01, 0.0)]


@dataclass
class Fixed:
    """Gives what it was told to."""

    question: str
    found: list[Measurement] = field(default_factory=list)
    name: str = ""

    def __post_init__(self):
        self.name = self.name or f"fixed {self.question}"

    def run(self, exhibit, pack, budget, rng, cache=None, method=None):
        return list(self.found)


@dataclass
class Broken:
    question: str = "film"
    name: str = "broken"
    error: Exception = field(default_factory=lambda: RuntimeError("Zanthora Quibblesworth MRN7741982"))

    def run(self, exhibit, pack, budget, rng, cache=None, method=None):
        raise self.error


def few(question="film"):
    return Broken(question, "few", TooFewPatients(3, 10))


def figure(metric, value, low, high, chance=0.5, better="lower", n=60, regime=None, **detail):
    return Measurement(metric, value, low, high, n, chance, better, None, 0, detail, regime=regime)


def judges():
    """Two judges with a figure for every finding, as the diagnosis experiment gives them."""
    out = []
    for regime, value in (("train real, test real", 0.8), ("train released, test real", 0.75)):
        each = {name: {"auc": value, "low": value - 0.1, "high": value + 0.1, "positives": 20} for name in FINDINGS}
        out.append(figure("label-flip rate", 0.1, 0.0, 0.2, None, regime=regime, each={"F": 0.1, "M": 0.2}))
        ends = (value - 0.1, value + 0.1)
        out.append(figure("diagnosis AUC", value, *ends, better="higher", regime=regime, each=each))
    return out


def passing():
    """Probes under which a release passes, whatever is in it."""
    return [
        Fixed(
            "film",
            [figure("film linkage", 0.51, 0.48, 0.54), figure("film linkage beyond twins", 0.0, -0.03, 0.04, 0.0)],
        ),
        Fixed("record", [figure("smallest cell", 4, 4, 4, None, "higher")]),
        Fixed("membership", [figure("strongest membership", 0.5, 0.45, 0.55)]),
        Fixed("text", [figure("residual PHI", 0.0, 0.0, 0.0, None)]),
        Fixed("utility", [figure("diagnostic skill kept", 0.95, 0.9, 1.0, 0.0, "higher"), *judges()]),
    ]
