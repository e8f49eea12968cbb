"""Films compared: one with the film it was made from, a release with real films, and films with their reports.

SSIM (Wang et al. 2004, over the pixels whose window lies inside), MS-SSIM (Wang et al. 2003), PSNR and LPIPS are
*two-sided*: near its best the released film is the patient's own, a leak; far below what two chest films of different
patients have in common it is no chest film. So their chance level is the similarity to films of other patients, and
closer to it is better. SSIM and MS-SSIM are computed here and not by torchmetrics: its mean takes in reflected borders,
which Wang et al. leave out, and in double precision, which the variances need, it takes ten times as long or more
(``performance/measures.py``).

The Fréchet distance names its feature network ("FD-classifier") and is never called FID, which means Inception's
features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.measurement import FEWEST_PATIENTS, Better, Floats, Measurement, TooFewPatients
from updp.evaluation.intervals import LeavingOut, jackknife, jackknife_each, measure
from updp.evaluation.statistics import auc, finite, mean, ratio

if TYPE_CHECKING:
    from torch import Tensor

Patients = Sequence[Hashable] | NDArray[Any]
#: Weights of the five scales of MS-SSIM, from the finest.
SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
#: Equal films have no finite PSNR; means count them with this many decibels, and say how many they were.
PSNR_OF_EQUAL_FILMS = 100.0
#: Two films and their products stay in the processor's cache, which is ten times faster than a large batch.
_BATCH = 2


# Film against film ---------------------------------------------------------------------------------------------------


def _films(films: Any, what: str) -> Tensor:
    import torch

    tensor = torch.as_tensor(np.asarray(films) if not isinstance(films, torch.Tensor) else films).float()
    if tensor.ndim == 3:
        tensor = tensor[:, None]
    if tensor.ndim != 4 or tensor.shape[1] != 1:
        raise ValueError(f"{what}: films are (films, height, width) or (films, 1, height, width)")
    if not torch.isfinite(tensor).all():
        raise ValueError(f"{what}: some pixels are NaN or infinite")
    if len(tensor) and (tensor.min() < -1e-6 or tensor.max() > 1 + 1e-6):
        raise ValueError(f"{what}: pixels lie between 0 and 1")
    return tensor


def _pairs(first: Any, second: Any) -> tuple[Tensor, Tensor]:
    a, b = _films(first, "first films"), _films(second, "second films")
    if a.shape != b.shape:
        raise ValueError(f"films of shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be compared one by one")
    return a, b


def _batched(compare: Callable[[Tensor, Tensor], Tensor], first: Any, second: Any, size: int = _BATCH) -> Floats:
    a, b = _pairs(first, second)
    out = [compare(a[i : i + size], b[i : i + size]).double().numpy() for i in range(0, len(a), size)]
    return np.concatenate(out) if out else np.empty(0)


#: Half of the Gaussian window of SSIM (11 wide, sigma 1.5), from its edge to its centre; it sums to 1.
_HALF_WINDOW = np.exp(-((np.arange(6) - 5) ** 2) / (2 * 1.5**2))
_HALF_WINDOW /= 2 * _HALF_WINDOW.sum() - 1


def _blur(films: Tensor) -> Tensor:
    """Films under the window, where it fits: shifted sums along one axis, then along the other."""
    for axis in (-2, -1):
        length = films.shape[axis] - 10
        out = films.narrow(axis, 5, length) * float(_HALF_WINDOW[5])
        for i in range(5):
            weight = float(_HALF_WINDOW[i])
            out.add_(films.narrow(axis, i, length), alpha=weight)
            out.add_(films.narrow(axis, 10 - i, length), alpha=weight)
        films = out
    return films


def _similarity(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Mean SSIM and mean contrast-structure term of each film, where the window fits."""
    if min(a.shape[-2:]) < 11:
        raise ValueError("SSIM needs films of at least 11 pixels per side at every scale")
    a, b = a.double(), b.double()  # variances are differences of large numbers
    c1, c2 = 0.01**2, 0.03**2
    mean_a, mean_b = _blur(a), _blur(b)
    var_a, var_b = _blur(a * a) - mean_a**2, _blur(b * b) - mean_b**2
    covariance = _blur(a * b) - mean_a * mean_b
    structure = (2 * covariance + c2) / (var_a + var_b + c2)
    luminance = (2 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    return (luminance * structure).mean(dim=(1, 2, 3)), structure.mean(dim=(1, 2, 3))


def ssim(first: Any, second: Any) -> Floats:
    """SSIM of each pair of films."""
    return _batched(lambda a, b: _similarity(a, b)[0], first, second)


def ms_ssim(first: Any, second: Any, scales: Sequence[float] = SCALES) -> Floats:
    """MS-SSIM of each pair of films; negative structure counts as none."""
    from torch.nn import functional

    def compare(a: Tensor, b: Tensor) -> Tensor:
        smallest = 11 * 2 ** (len(scales) - 1)
        if min(a.shape[-2:]) < smallest:
            raise ValueError(f"MS-SSIM at {len(scales)} scales needs films of at least {smallest} pixels per side")
        product = a.new_ones(len(a)).double()
        for i, weight in enumerate(scales):
            whole, structure = _similarity(a, b)
            last = i == len(scales) - 1
            product *= (whole if last else structure).clamp(min=0) ** weight
            a, b = functional.avg_pool2d(a, 2), functional.avg_pool2d(b, 2)
        return product

    return _batched(compare, first, second)


def psnr(first: Any, second: Any) -> Floats:
    """PSNR of each pair of films in decibels; infinite for equal films."""

    def compare(a: Tensor, b: Tensor) -> Tensor:
        return -10 * ((a - b).double() ** 2).mean(dim=(1, 2, 3)).log10()

    return _batched(compare, first, second)


def someone_else(patients: Patients, rng: np.random.Generator) -> NDArray[np.intp]:
    """For every row a row of another patient, at random."""
    owner = np.unique(np.asarray(patients), return_inverse=True)[1].reshape(-1)
    if len(owner) == 0 or owner.max() == 0:
        raise TooFewPatients(int(len(owner) > 0), 2)
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], owner)
    sizes = np.bincount(owner)[owner]
    # Skip one's own block in the order by patient.
    pick = (starts + sizes + rng.integers(0, len(owner) - sizes)) % len(owner)
    found: NDArray[np.intp] = order[pick]
    return found


def film_similarity(
    real: Any,
    released: Any,
    patients: Patients,
    *,
    seed: int,
    lpips: Path | None = None,
    net: str = "alex",
    **options: Any,
) -> list[Measurement]:
    """SSIM, MS-SSIM, PSNR and (given its weights) LPIPS of released films to the films they were made from."""
    a, b = _pairs(real, released)
    if len(patients) != len(a):
        raise ValueError(f"{len(patients)} patients for {len(a)} films")
    measures: list[tuple[str, Callable[[Any, Any], Floats]]] = [("SSIM", ssim)]
    if len(a) and min(a.shape[-2:]) >= 11 * 2 ** (len(SCALES) - 1):
        measures.append(("MS-SSIM", ms_ssim))
    measures.append(("PSNR", psnr))
    if lpips is not None:
        from updp.models.lpips import Lpips

        network = Lpips(lpips, net)  # type: ignore[arg-type]
        measures.append((f"LPIPS-{net}", lambda x, y: _batched(network, x, y, 16)))
    n = len(set(patients))
    if n < 2:
        reason = str(TooFewPatients(n, options.get("fewest", FEWEST_PATIENTS)))
        return [Measurement.missing(name, reason, n=n, seed=seed) for name, _ in measures]
    other = someone_else(patients, np.random.default_rng(seed))
    out = []
    for name, compare in measures:
        values, strangers = compare(a, b), compare(a[other], b)
        equal = int(np.count_nonzero((a == b).flatten(1).all(dim=1)))
        if name == "PSNR":
            values, strangers = (np.minimum(v, PSNR_OF_EQUAL_FILMS) for v in (values, strangers))
        detail = {
            "two_sided": "near its best the film is the patient's own; chance is the film of another patient",
            "equal_films": equal,
            "quantiles": _quantiles(values),
        }
        chance = float(strangers.mean())
        out.append(
            measure(
                name,
                mean,
                patients,
                values,
                chance=chance,
                better="closer to chance",
                seed=seed,
                detail=detail,
                **options,
            )
        )
    if len(measures) > 1 and measures[1][0] != "MS-SSIM":
        smallest = 11 * 2 ** (len(SCALES) - 1)
        reason = f"films are smaller than the {smallest} pixels that five scales need"
        out.insert(1, Measurement.missing("MS-SSIM", reason, n=n, seed=seed))
    return out


def _quantiles(values: Floats) -> dict[str, float]:
    points = (0.0, 0.05, 0.5, 0.95, 1.0)
    return {f"{p:g}": float(q) for p, q in zip(points, np.quantile(values, points), strict=True)}


# Release against real films ------------------------------------------------------------------------------------------


def _features(values: ArrayLike, what: str) -> Floats:
    array = finite(values, what)
    if array.ndim != 2:
        raise ValueError(f"{what}: features are (films, dimensions)")
    return array


def frechet(first: ArrayLike, second: ArrayLike) -> float:
    """The squared Fréchet distance of two sets of features, as of Gaussians (Dowson and Landau 1982).

    tr((Σa Σb)^½) is the sum of the singular values of A Bᵀ, with A and B the centred features: exact, and as sound
    with fewer films than dimensions, where the root of a singular product is not.
    """
    a, b = _features(first, "first features"), _features(second, "second features")
    if a.shape[1] != b.shape[1]:
        raise ValueError(f"features of {a.shape[1]} and {b.shape[1]} dimensions")
    if min(len(a), len(b)) < 2:
        raise ValueError("a Fréchet distance needs at least two films on either side")
    gap = a.mean(axis=0) - b.mean(axis=0)
    a = (a - a.mean(axis=0)) / math.sqrt(len(a) - 1)
    b = (b - b.mean(axis=0)) / math.sqrt(len(b) - 1)
    traces = np.sum(a * a) + np.sum(b * b)
    cross = np.linalg.svd(_shortened(a) @ _shortened(b).T, compute_uv=False).sum()
    return float(max(0.0, gap @ gap + traces - 2 * cross))


def _shortened(x: Floats) -> Floats:
    """At most as many rows as columns with the same xᵀx: R of the QR decomposition."""
    out: Any = np.linalg.qr(x, mode="r") if len(x) > x.shape[1] else x
    return np.asarray(out, dtype=np.float64)


def frechet_distance(
    real: ArrayLike, released: ArrayLike, real_patients: Patients, released_patients: Patients,
    *, features: str, seed: int, **options: Unpack[LeavingOut],
) -> Measurement:  # fmt: skip
    """The Fréchet distance under a named feature network, as "FD-<features>".

    It grows as films get fewer, so ``detail`` has the distance between two halves of the real films beside it: what
    is no larger than that says nothing.
    """
    if not features or features.upper().startswith("FID"):
        raise ValueError("name the feature network, as in features='classifier'")
    a, b = _features(real, "real features"), _features(released, "released features")
    detail = {"features": features, "dimensions": a.shape[1], "real": len(a), "released": len(b)}
    samples: list[tuple[Patients, Any]] = [(real_patients, a), (released_patients, b)]
    found = _left_out(f"FD-{features}", frechet, samples, "lower", seed, detail, **options)
    if not found.measured:
        return found
    owner = np.unique(np.asarray(real_patients), return_inverse=True)[1].reshape(-1)
    half = (np.random.default_rng(seed).permutation(owner.max() + 1) % 2)[owner]
    halves = frechet(a[half == 0], a[half == 1])
    return replace(found, detail={**found.detail, "halves_of_real": halves})


def _left_out(
    name: str,
    statistic: Callable[..., float],
    samples: list[tuple[Patients, Any]],
    better: Better,
    seed: int,
    detail: Mapping[str, Any],
    chance: float | None = None,
    **options: Unpack[LeavingOut],
) -> Measurement:
    """A statistic of two samples that cannot be negative, by leaving patients out."""
    n = len(set().union(*(set(np.asarray(p).tolist()) for p, _ in samples)))
    try:
        found = jackknife(statistic, samples, np.random.default_rng(seed), **options)
    except TooFewPatients as few:
        return Measurement.missing(name, str(few), n=n, chance=chance, better=better, seed=seed, detail=detail)
    return Measurement(name, found.value, max(0.0, found.low), found.high, n, chance, better, None, seed, detail)


#: Spatial frequencies in cycles per film; a band beyond half the film's pixels is left out.
BANDS = ((4, 8), (8, 16), (16, 32), (32, 64), (64, 128))


def band_power(films: ArrayLike, bands: Sequence[tuple[int, int]] = BANDS) -> Floats:
    """Power of each film in bands of spatial frequency, films x bands; a Hann window keeps the edges out."""
    x = np.asarray(films, dtype=np.float64)
    size = x.shape[-1]
    window = np.outer(np.hanning(x.shape[-2]), np.hanning(size))
    along = np.hypot(
        *np.meshgrid(np.fft.fftfreq(x.shape[-2]) * x.shape[-2], np.fft.fftfreq(size) * size, indexing="ij")
    )
    out = np.zeros((len(x), len(bands)))
    for i, film in enumerate(x):
        power = np.abs(np.fft.fft2((film - film.mean()) * window)) ** 2
        out[i] = [power[(along >= low) & (along < high)].sum() for low, high in bands]
    return out


def power_by_band(
    real: ArrayLike, released: ArrayLike, patients: Patients, *, seed: int, **options: Any
) -> list[Measurement]:
    """Power of released films relative to the real ones they came from, by band: below 1 is blur, above 1 is noise."""
    size = np.asarray(real).shape[-1]
    bands = [band for band in BANDS if band[1] <= size // 2]
    ours, theirs = band_power(released, bands), band_power(real, bands)
    return [
        measure(
            f"power at {low}–{high} cycles",
            ratio,
            patients,
            ours[:, j],
            theirs[:, j],
            chance=1.0,
            better="closer to chance",
            seed=seed,
            **options,
        )
        for j, (low, high) in enumerate(bands)
    ]


def frechet_without_bias(
    real: ArrayLike,
    released: ArrayLike,
    patients: Patients,
    *,
    features: str,
    seed: int,
    **options: Unpack[LeavingOut],
) -> Measurement:
    """The Fréchet distance as it would be with any number of films (Chong and Forsyth 2020, arXiv 1911.07023).

    The distance grows as films get fewer, about as one over their number: a line through its values at several numbers
    of patients meets the axis at the distance of infinitely many. Two halves of the real films are treated alike and
    given beside it.
    """
    a, b, owners = _features(real, "real features"), _features(released, "released features"), np.asarray(patients)
    metric = f"FD-{features} without bias"
    samples: list[tuple[Patients, Any]] = [(owners, a), (owners, b)]
    found = _left_out(metric, frechet, samples, "lower", seed, {"features": features}, **options)
    if not found.measured:
        return found
    rng = np.random.default_rng(seed)
    distinct = np.unique(owners)
    half = np.isin(owners, distinct[rng.permutation(len(distinct))[: len(distinct) // 2]])
    limit = _without_bias(a, b, owners, owners, rng)
    same = _without_bias(a[half], a[~half], owners[half], owners[~half], rng)
    shift = limit - found.value
    detail = {**found.detail, "with_bias": found.value, "real_to_real": same, "dimensions": a.shape[1]}
    return replace(found, value=limit, low=found.low + shift, high=found.high + shift, detail=detail)


def _without_bias(a: Floats, b: Floats, left: Any, right: Any, rng: np.random.Generator) -> float:
    """The intercept of a line through distances at several numbers of patients, over one over the number of films."""
    across, up = [], []
    for share in (1.0, 0.75, 0.5, 0.35):
        for _ in range(1 if share == 1.0 else 3):
            sides = []
            for x, owners in ((a, left), (b, right)):
                distinct = np.unique(owners)
                kept = distinct[rng.permutation(len(distinct))[: max(2, round(share * len(distinct)))]]
                sides.append(x[np.isin(owners, kept)])
            if min(map(len, sides)) > 2:
                across.append(0.5 / len(sides[0]) + 0.5 / len(sides[1]))
                up.append(frechet(*sides))
    return float(np.polyfit(across, up, 1)[1])


def two_sample_test(
    real: ArrayLike, released: ArrayLike, patients: Patients, *, features: str, seed: int, **options: Any
) -> Measurement:
    """How well a classifier tells released from real films of patients it has not seen (Lopez-Paz and Oquab 2017,
    arXiv 1610.06545): 0.5 is not at all. Both films of a patient are on the same side of training and test."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    metric = f"real or released, AUC [{features}]"
    x = np.concatenate([_features(real, "real features"), _features(released, "released features")])
    truth = np.repeat([False, True], [len(x) - len(np.asarray(released)), len(np.asarray(released))])
    owners = np.tile(np.asarray(patients), 2)
    distinct = np.unique(owners)
    if len(distinct) < 2 * FEWEST_PATIENTS:
        why = str(TooFewPatients(len(distinct), 2 * FEWEST_PATIENTS))
        return Measurement.missing(metric, why, n=len(distinct), chance=0.5, seed=seed)
    part = np.random.default_rng(seed).permutation(len(distinct)) % 2
    fold = part[np.searchsorted(distinct, owners)]
    scores = np.zeros(len(x))
    for k in (0, 1):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
        scores[fold == k] = model.fit(x[fold != k], truth[fold != k]).decision_function(x[fold == k])
    return measure(metric, auc, owners, truth, scores, chance=0.5, better="closer to chance", seed=seed, **options)


def precision_recall_density_coverage(
    real: ArrayLike, released: ArrayLike, real_patients: Patients, released_patients: Patients,
    *, features: str, seed: int, k: int = 5, **options: Unpack[LeavingOut],
) -> list[Measurement]:  # fmt: skip
    """Precision and recall (Kynkäänniemi et al. 2019), density and coverage (Naeem et al. 2020) over k neighbours.

    Precision and density: do released films lie among real ones. Recall and coverage: are all kinds of real films
    there. ``detail["expected"]`` is density and coverage if both sets came from one population.
    """
    a, b = _features(real, "real features"), _features(released, "released features")
    n = len(set(np.asarray(real_patients).tolist()) | set(np.asarray(released_patients).tolist()))
    distances = _Distances(_distances(a, a), _distances(b, b), _distances(a, b))
    samples = [(real_patients, np.arange(len(a))), (released_patients, np.arange(len(b)))]
    rng = np.random.default_rng(seed)
    try:
        if min(len(a), len(b)) <= 2 * k:
            few = min(len(a), len(b))
            raise TooFewPatients(few, 2 * k + 1, unit="films")
        found = jackknife_each(lambda i, j: _prdc(distances, i, j, k), samples, rng=rng, **options)
    except TooFewPatients as few_patients:
        return missing_neighbours(features, str(few_patients), n=n, seed=seed, k=k)
    coverage = 1 - math.prod((len(a) - i) / (len(a) + len(b) - i) for i in range(1, k + 1))
    expected = {"density": 1.0, "coverage": coverage}
    detail = {"features": features, "k": k, "real": len(a), "released": len(b), "expected": expected}
    return [
        Measurement(name, v.value, max(0.0, v.low), v.high, n, None, "higher", None, seed, detail, f"{features}, k={k}")
        for name, v in zip(_NEIGHBOURS, found, strict=True)
    ]


_NEIGHBOURS = ("precision", "recall", "density", "coverage")


def missing_neighbours(features: str, why: str, *, n: int, seed: int, k: int = 5) -> list[Measurement]:
    """Precision, recall, density and coverage in a feature network, not measured for this reason."""
    return [Measurement.missing(name, why, n=n, seed=seed, protocol=f"{features}, k={k}") for name in _NEIGHBOURS]


class _Distances(NamedTuple):
    real: Floats
    released: Floats
    between: Floats  # real x released


def _distances(a: Floats, b: Floats) -> Floats:
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1)[None] - 2 * a @ b.T
    out: Floats = np.sqrt(np.maximum(squares, 0))
    return out


def _prdc(distances: _Distances, i: NDArray[np.intp], j: NDArray[np.intp], k: int) -> Floats:
    between = distances.between[np.ix_(i, j)]
    # The k-th neighbour of a film among its own kind; place 0 is the film itself.
    real = np.partition(distances.real[np.ix_(i, i)], k, axis=1)[:, k]
    released = np.partition(distances.released[np.ix_(j, j)], k, axis=1)[:, k]
    inside = between < real[:, None]
    return np.array(
        [
            inside.any(axis=0).mean(),
            (between < released[None]).any(axis=1).mean(),
            inside.sum(axis=0).mean() / k,
            (between.min(axis=1) < real).mean(),
        ]
    )


def _unit(values: ArrayLike, what: str) -> Floats:
    array = _features(values, what)
    norms = np.linalg.norm(array, axis=1, keepdims=True)
    if bad := int(np.count_nonzero(norms == 0)):
        raise ValueError(f"{what}: {bad} of {len(array)} embeddings are zero and have no direction")
    out: Floats = array / norms
    return out


# Films and their reports ---------------------------------------------------------------------------------------------


#: The metric of ``image_text_score``.
SCORE = "image–text score"


def image_text_score(
    images: ArrayLike, texts: ArrayLike, patients: Patients, *, encoder: str, seed: int, **options: Any
) -> Measurement:
    """100 times the mean cosine of each film with its report, under a named encoder; chance is another's report."""
    a, b = _unit(images, "image embeddings"), _unit(texts, "text embeddings")
    if a.shape != b.shape:
        raise ValueError(f"embeddings of shapes {a.shape} and {b.shape}: one film, one report, one space")
    n = len(set(np.asarray(patients).tolist()))
    if n < 2:
        reason = str(TooFewPatients(n, options.get("fewest", FEWEST_PATIENTS)))
        return Measurement.missing(SCORE, reason, n=n, seed=seed, protocol=encoder, regime=options.get("regime"))
    cosines = 100 * (a * b).sum(axis=1)
    other = someone_else(patients, np.random.default_rng(seed))
    chance = float(100 * (a * b[other]).sum(axis=1).mean())
    detail = {"lowest": float(cosines.min()), "highest": float(cosines.max())}
    options |= {"chance": chance, "better": "higher", "seed": seed, "detail": detail, "protocol": encoder}
    return measure(SCORE, mean, patients, cosines, **options)
