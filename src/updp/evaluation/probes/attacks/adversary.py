"""Adversaries that link films to patients, by what they hold (A0 … A3), each as two sets of vectors.

The similarity of a released film and a candidate film is the product of their vectors, so verification, retrieval and
identification are attacked by the same adversary. Each has several ways to compare films: the frozen identity network,
a learned linear metric on everything seen, a trained Siamese net, a linear map from released to real. How much each of
them counts is decided on training patients held out of their training, never on the patients it is scored on.

- A0 holds real films only: the frozen network.
- A1 trains on released films whose patients it knows, and compares released with released.
- A2 trains on released and real films of known patients, and compares released with real: the pairs it is scored on.
- A3 also knows which real film each released one of the training patients came from, and runs the de-identifier on
  films of its own and on those of the candidates (``oracle``), so that it compares released with released too. Where it
  does not run the method, it uses the released films of its candidates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import key_of
from updp.core.measurement import FEWEST_PATIENTS
from updp.evaluation.probes.attacks.features import Features, Floats, Side, pixels, unit
from updp.evaluation.probes.attacks.matching import Protocol, genuine_pairs, matched_pairs
from updp.evaluation.probes.base import SCORED, Inquiry, Pairs, balanced_pairs, by_patient, own_pairs, too_few
from updp.evaluation.statistics import auc

View = Literal["A0", "A1", "A2", "A3"]
Vectors = tuple[Floats, Floats]  # of every row as a released probe, and as a candidate

_RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)
_STRENGTHS = (3.0, 30.0, 300.0)
_SPACE = 160


@dataclass(frozen=True)
class Linker:
    """A trained adversary: vectors of every row of the exhibit, and how it was trained."""

    left: Floats
    right: Floats
    ways: tuple[str, ...]  # of comparing that count
    held_out: Mapping[str, float] = field(default_factory=dict)  # AUC of each way of comparing, held-out patients
    patients: int = 0  # it learned from

    def scores(self, pairs: Pairs) -> NDArray[np.float64]:
        out: NDArray[np.float64] = np.einsum(
            "ij,ij->i", self.left[pairs.left], self.right[pairs.right], dtype=np.float64
        )
        return out

    def similarity(self, probes: NDArray[Any], gallery: NDArray[Any]) -> NDArray[np.float64]:
        out: NDArray[np.float64] = (self.left[probes] @ self.right[gallery].T).astype(np.float64)
        return out

    def about(self) -> dict[str, Any]:
        return {
            "ways": list(self.ways),
            "held_out_auc": {name: round(float(value), 4) for name, value in self.held_out.items()},
            "training_patients": self.patients,
        }


class Untrainable(ValueError):
    """This adversary cannot be trained on this exhibit; the message says why."""


def frozen(features: Features, pair: tuple[Side, Side] = ("released", "real")) -> Linker:
    """A0: the pack's identity network as it is."""
    return Linker(features.embedded(pair[0]), features.embedded(pair[1]), ("frozen",))


def adversary(
    features: Features, view: View, protocol: Protocol = "another film", share: float = 1.0, *, matched: bool = False
) -> Linker:
    """The trained adversary of a view, from the cache if it was trained before.

    ``share`` of the training patients, without the Siamese net, for the attacker-size curve. ``matched``: how much each
    way of comparing counts is decided among held-out films with the same published record.
    """
    if view == "A0":
        return frozen(features)
    budget = features.budget
    settings = (view, protocol, share, budget.steps if share == 1 else 0, budget.batch, matched)
    key = key_of("adversary", features.key, settings, features.exhibit.records if matched else "")
    found = features.cache.get(key)
    if found is None:
        linker = _train(features, view, protocol, share, matched)
        found = {
            "left": linker.left,
            "right": linker.right,
            "ways": np.array(linker.ways),
            "names": np.array(list(linker.held_out)),
            "held_out": np.array(list(linker.held_out.values())),
            "patients": np.array(linker.patients),
        }
        features.cache.put(key, found)
    held = dict(zip(found["names"].tolist(), found["held_out"].tolist(), strict=True))
    return Linker(found["left"], found["right"], tuple(found["ways"].tolist()), held, int(found["patients"]))


def released_metric(features: Features) -> Linker:
    """PriCheXy's adversary as printed: it learns from released films alone and is then given real candidates."""
    weights, patients = _metric(features, "released")
    left, right = (unit(features.codes[side] @ weights) for side in ("released", "real"))
    return Linker(left, right, ("linear, released only",), {}, patients)


def _metric(features: Features, side: Literal["released", "real"]) -> tuple[Floats, int]:
    """A linear metric learned on one side's films of the training patients, and how many patients there are."""
    exhibit = features.exhibit
    patient_rows = by_patient(exhibit.patients, exhibit.rows("train"))
    several = sum(len(films) > 1 for films in patient_rows)
    if several < FEWEST_PATIENTS:
        raise Untrainable(too_few(several, "training patients with two films"))
    rows, who = _owners(patient_rows)
    return discriminant(features.codes[side][rows], who, _RIDGES[2]), len(patient_rows)


def by_findings(features: Features | Inquiry, protocol: Protocol) -> Linker:
    """Films compared by their findings' labels alone: what links them however well a release hides the patient.

    A release is made to keep findings, so its films can hardly be linked less than this by an attacker who reads them.
    Each finding that two films share, or both lack, counts as it does among training patients (naive Bayes).
    """
    exhibit = features.exhibit
    rows = exhibit.rows("train")
    if np.isnan(exhibit.labels[rows]).all() or np.isnan(exhibit.labels[exhibit.rows(*SCORED)]).all():
        raise Untrainable("the films have no labels")
    rng, most = np.random.default_rng(0), features.budget.per_patient
    pairs = (
        own_pairs(exhibit.patients, rows, rng, most)
        if protocol == "own film"
        else balanced_pairs(exhibit.patients, rows, rng, most, ordered=True)
    )
    if not pairs.same.any() or pairs.same.all():
        raise Untrainable("no pairs of training films to learn from")
    has, lacks = (exhibit.labels == 1).astype(np.float32), (exhibit.labels == 0).astype(np.float32)

    def evidence(a: Floats, b: Floats) -> Floats:
        met = a[pairs.left] * b[pairs.right]
        same, other = ((met[flag].sum(0) + 0.5) / (flag.sum() + 1.0) for flag in (pairs.same, ~pairs.same))
        return np.asarray(np.log(same / other), np.float32)

    differ = (evidence(has, lacks) + evidence(lacks, has)) / 2
    right = np.hstack([has * (evidence(has, has) - differ), lacks * (evidence(lacks, lacks) - differ)])
    return Linker(np.hstack([has, lacks]), right, ("findings",), {}, len(by_patient(exhibit.patients, rows)))


def real_metric(features: Features) -> Linker:
    """What an adversary without any released film brings: the frozen network and a metric learned on real films."""
    weights, patients = _metric(features, "real")
    sides = [np.concatenate([features.embedded(s), unit(features.codes[s] @ weights)], 1) for s in ("released", "real")]
    return Linker(sides[0], sides[1], ("frozen", "linear, real only"), {}, patients)


def _train(features: Features, view: View, protocol: Protocol, share: float, matched: bool) -> Linker:
    exhibit = features.exhibit
    patient_rows = by_patient(exhibit.patients, exhibit.rows("train"))
    if view == "A1" or protocol == "another film":
        several = sum(len(films) > 1 for films in patient_rows)
        if several < FEWEST_PATIENTS:
            raise Untrainable(too_few(several, "training patients with two films"))
    if len(patient_rows) < FEWEST_PATIENTS:
        raise Untrainable(too_few(len(patient_rows), "training patients"))
    rng = np.random.default_rng(7)  # the trained adversary is a function of the exhibit and the budget alone
    order = rng.permutation(len(patient_rows))
    if share < 1:
        # Patients with several films teach; the share is of them, and of the others alike.
        order = np.array([i for kind in (True, False) for i in _portion(order, patient_rows, kind, share)], np.intp)
    held = {int(i) for kind in (True, False) for i in _portion(order, patient_rows, kind, 0.25)}
    fit_rows = [patient_rows[i] for i in order if int(i) not in held]
    held_rows = np.sort(np.concatenate([patient_rows[i] for i in order if int(i) in held]))
    ordered = view != "A1"
    pairs = (
        own_pairs(exhibit.patients, held_rows, rng, 10)
        if protocol == "own film"
        else balanced_pairs(exhibit.patients, held_rows, rng, 10, ordered)
    )
    if matched:
        genuine = genuine_pairs(exhibit.records, exhibit.patients, held_rows, protocol, rng, 10)
        pairs = matched_pairs(genuine) if len(genuine) else pairs
    if not pairs.same.any() or pairs.same.all():
        raise Untrainable("the held-out training patients give no pair of films to choose by")
    net = features.budget.steps > 0 and share == 1 and "maps" in features.encode("real", "identity")
    settings: dict[str, float] = {}
    only = None if share == 1 else ["linear"]
    ways = ways_of(Fit(features, fit_rows, pairs, settings), view, protocol, net=net, only=only)
    scores = {name: _scores(vectors, pairs) for name, vectors in ways.items()}
    held_out = {name: float(auc(pairs.same, s)) for name, s in scores.items()}
    weights = _weights(held_out)
    # Linear ways learn from everybody once chosen; a net would have to be trained twice.
    everyone = [patient_rows[i] for i in order]
    final = ways_of(Fit(features, everyone, pairs, settings), view, protocol, net=False, only=list(weights))
    final.update({name: ways[name] for name in weights if name not in final})
    share_of = {name: np.sqrt(w / max(float(np.std(scores[name])), 1e-6)) for name, w in weights.items()}
    left, right = (
        np.concatenate([final[name][i] * w for name, w in share_of.items()], 1).astype(np.float32) for i in (0, 1)
    )
    return Linker(left, right, tuple(weights), held_out, len(everyone))


def _portion(order: NDArray[np.intp], patient_rows: list[NDArray[np.intp]], several: bool, share: float) -> list[int]:
    """The first share of the patients with several films, or with one."""
    these = [int(i) for i in order if (len(patient_rows[i]) > 1) == several]
    return these[: max(2, round(share * len(these)))] if these else []


def _weights(held_out: Mapping[str, float]) -> dict[str, float]:
    """How much each way counts: by its d′ on held-out patients, as for independent Gaussian scores.

    Not only the best one counts, since the pack's own network may have been trained on these very patients and then its
    figure on them is too high.
    """
    from scipy.special import ndtri

    sharpness = {name: float(ndtri(min(max(value, 1e-3), 1 - 1e-3))) for name, value in held_out.items()}
    useful = {name: d for name, d in sharpness.items() if d > 0.1 * max(sharpness.values()) and d > 0}
    useful = useful or dict.fromkeys(held_out, 1.0)
    total = sum(useful.values())
    return {name: d / total for name, d in useful.items()}


def _scores(vectors: Vectors, pairs: Pairs) -> NDArray[np.float64]:
    out: NDArray[np.float64] = np.einsum("ij,ij->i", vectors[0][pairs.left], vectors[1][pairs.right], dtype=np.float64)
    return out


@dataclass(frozen=True)
class Fit:
    """What ways of comparing films learn from: patients, and held-out pairs that choose the settings not given."""

    features: Features
    patient_rows: list[NDArray[np.intp]]
    pairs: Pairs
    settings: dict[str, float]  # chosen ones are written here

    def learned(self, way: str, variant: bool) -> Vectors:
        """The linear metric or the map, with the setting that was given or that held-out pairs prefer."""
        make = {"map": _mapped, "again": _made_again}.get(way, _linear)
        choices = _STRENGTHS if way == "map" else _RIDGES
        mark = key_of(np.concatenate(self.patient_rows))

        def vectors(setting: float) -> Vectors:
            key = (make.__name__, variant, mark, setting)
            if key not in self.features.memory:  # protocols and views share them
                self.features.memory[key] = make(self.features, variant, self.patient_rows, setting)
            found: Vectors = self.features.memory[key]
            return found

        if way not in self.settings:
            self.settings[way] = max(
                choices, key=lambda s: float(auc(self.pairs.same, _scores(vectors(s), self.pairs)))
            )
        return vectors(self.settings[way])

    def siamese(self, candidate: Side) -> Vectors:
        """The trained net. One net serves both protocols: it learns from own counterparts and from other films."""
        features, patient_rows, pairs = self.features, self.patient_rows, self.pairs
        budget = features.budget
        key = key_of("siamese", features.key, candidate, np.concatenate(patient_rows), budget.steps, budget.batch)

        def make() -> dict[str, NDArray[Any]]:
            from updp.evaluation.probes.attacks.siamese import Upper, train_siamese

            rows, who = _owners(patient_rows)
            start = features.start
            basis = start["basis"]
            sides: tuple[Side, ...] = ("released", "real") if candidate == "real" else ("released",)
            x = np.concatenate([features.codes[side][rows, : basis.shape[1]] for side in sides])
            weights = basis @ discriminant(x, np.concatenate([who] * len(sides)), 0.1)
            net = Upper(features.pack.identity, trainable=True)
            net.begin(weights, {s: (start[f"mean {s}"], start[f"spread {s}"]) for s in ("real", "released")})
            left, right, history = train_siamese(
                net,
                features.encode("released", "identity")["maps"],
                None if candidate == "released" else features.encode("real", "identity")["maps"],
                patient_rows,
                steps=budget.steps,
                batch=budget.batch,
                seed=int(key[:8], 16),
                watched=np.unique(np.concatenate([pairs.left, pairs.right])),
                judge=lambda a, b: float(auc(pairs.same, _scores((a, b), pairs))),
            )
            return {"left": left, "right": right, "history": np.array(history)}

        found = features.kept(key, make)
        return found["left"], found["right"]


def ways_of(
    fit: Fit, view: View, protocol: Protocol, *, net: bool, only: list[str] | None = None
) -> dict[str, Vectors]:
    """Every way this adversary can compare films."""
    features = fit.features

    def wanted(name: str) -> bool:
        return only is None or name in only

    ways: dict[str, Vectors] = {}
    candidate: Side = "released" if view == "A1" else "real"
    if wanted("frozen"):
        ways["frozen"] = (features.embedded("released"), features.embedded(candidate))
    if protocol == "own film" and wanted("pixels"):
        ways["pixels"] = (pixels(features.films("released")), pixels(features.films(candidate)))
    if wanted("linear"):
        ways["linear"] = fit.learned("linear", candidate == "real")
    if view != "A1" and wanted("map"):
        # A2 knows patients, so it learns towards a patient's mean; A3 knows which film it was.
        ways["map"] = fit.learned("map", view == "A3")
    if net and wanted("net"):
        ways["net"] = fit.siamese(candidate)
    if view == "A3" and protocol == "another film" and wanted("oracle"):
        # The candidate goes through the de-identifier too, and both are compared as released films.
        ways["oracle"] = fit.learned("oracle", False)
    if view == "A3" and features.again is not None and wanted("again"):
        ways["again"] = fit.learned("again", protocol == "own film")
    return ways


def _linear(features: Features, real: bool, patient_rows: list[NDArray[np.intp]], ridge: float) -> Vectors:
    """A discriminant metric, shared by both sides where candidates are ``real``; the sides are standardised apart."""
    sides: tuple[Side, ...] = ("released", "real") if real else ("released",)
    rows, who = _owners(patient_rows)
    codes = features.codes
    x = np.concatenate([codes[side][rows] for side in sides])
    weights = discriminant(x, np.concatenate([who] * len(sides)), ridge)
    return unit(codes["released"] @ weights), unit(codes[sides[-1]] @ weights)


def _mapped(features: Features, film: bool, patient_rows: list[NDArray[np.intp]], strength: float) -> Vectors:
    """Real films in their own discriminant space, released films by ridge regression towards their place there."""
    rows, who = _owners(patient_rows)
    codes = features.codes
    if sum(len(films) > 1 for films in patient_rows) >= FEWEST_PATIENTS:
        places = unit(codes["real"] @ discriminant(codes["real"][rows], who, 0.3))
    else:
        places = features.embedded("real")
    target = places[rows] if film else np.stack([places[films].mean(0) for films in patient_rows])[who]
    x = codes["released"][rows].astype(np.float64)
    weights = np.linalg.solve(x.T @ x + strength * np.eye(x.shape[1]), x.T @ target.astype(np.float64))
    return unit(codes["released"] @ weights.astype(np.float32)), places


def _made_again(features: Features, film: bool, patient_rows: list[NDArray[np.intp]], ridge: float) -> Vectors:
    """Released films beside what the attacker's own run of the method makes of each candidate. Of the training films it
    has both, and learns what two runs on one film have in common, or two films of one patient."""
    assert features.again is not None
    there: NDArray[np.bool_] = features.again["there"]
    rows, who = _owners(patient_rows)
    both = there[rows]
    who = np.arange(len(rows)) if film else who
    codes = features.codes
    x = np.concatenate([codes["released"][rows], codes["again"][rows[both]]])
    weights = discriminant(x, np.concatenate([who, who[both]]), ridge)
    right = unit(codes["again"] @ weights)
    right[~there] = 0
    return unit(codes["released"] @ weights), right


def _owners(patient_rows: list[NDArray[np.intp]]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    rows = np.concatenate(patient_rows)
    return rows, np.repeat(np.arange(len(patient_rows)), [len(films) for films in patient_rows])


def discriminant(x: Floats, who: NDArray[Any], ridge: float, space: int = _SPACE) -> Floats:
    """Directions in which a person's films agree and persons differ: within-person whitening, then the leading ones.

    As ``updp.training.identity.fit_linear`` starts the identity network; each person counts once.
    """
    order = np.argsort(who, kind="stable")
    x, names = x[order].astype(np.float64), who[order]
    _, starts, counts = np.unique(names, return_index=True, return_counts=True)
    means = np.add.reduceat(x, starts, axis=0) / counts[:, None]
    several = counts > 1
    centred = (x - np.repeat(means, counts, axis=0)) / np.sqrt(np.repeat(np.maximum(counts - 1, 1), counts))[:, None]
    within = centred.T @ centred / max(1, int(several.sum()))
    within += (ridge * max(float(np.trace(within)) / len(within), 1e-9)) * np.eye(len(within))
    values, vectors = np.linalg.eigh(within)
    whiten = vectors / np.sqrt(np.maximum(values, 1e-12))
    between = (means - means.mean(0)) @ whiten
    _, _, directions = np.linalg.svd(between, full_matrices=False)
    out: Floats = (whiten @ directions[:space].T).astype(np.float32)
    return out
