"""Membership: were a patient's films among those the generator learned from, and does it release copies of them?

The loss of a diffusion model is lower on films it has seen: the loss at several noise levels is thresholded (Matsumoto
et al. 2023, arXiv 2302.03262), and judged by a likelihood ratio between films in and out of the training (Carlini et
al. 2022, arXiv 2112.03570), whose Gaussians are fitted on other patients; without shadow models this bounds less than
the original. Copies: released films that lie nearer to a training film than unseen real films do.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import key_of
from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.core.questions import Exemption
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import fold, seldom
from updp.evaluation.probes.attacks.features import Features, as_tensor, finite, weights_digest
from updp.evaluation.probes.base import SCORED, Inquiry, Probe, absent, by_patient, roc_points, too_few
from updp.evaluation.statistics import auc, mean, tpr_at_fpr

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack

#: Two films whose identity vectors agree so far are the same film, decoded twice.
SAME_FILM = 0.995
_NOISE_SEED = 20260101


def training_codes(pack: Pack) -> NDArray[np.float32] | None:
    """Identity vectors of the films the pack's generator learned from, where the pack brings them."""
    path = pack.path / "training_identities.safetensors"
    if not path.is_file():
        return None
    from safetensors.numpy import load_file

    codes: NDArray[np.float32] = load_file(path)["identities"].astype(np.float32)
    return codes


def nearest(vectors: NDArray[np.float32], codes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The similarity of each vector to the training film most like it."""
    parts = [(vectors[i : i + 512] @ codes.T).max(1) for i in range(0, len(vectors), 512)]
    out: NDArray[np.float32] = finite(np.concatenate(parts), "similarity to training films")
    return out


METRICS = ("membership AUC", "strongest membership")


class Membership(Probe):
    """``members`` says which rows trained the generator; without it, rows are members if the pack's list of training
    films holds them, and nothing is measured if it holds none."""

    name = "membership"
    question = "membership"

    def __init__(self, members: NDArray[np.bool_] | None = None) -> None:
        self.members = members

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        members, method = self.members, inquiry.method
        if members is not None and members.shape != (len(inquiry.whole),):
            raise ValueError(f"members has {members.shape} rows for {len(inquiry.whole)} films")
        if method is not None and not method.learned_from_images:
            exempt = Exemption.LEARNED_NOTHING
            return absent(METRICS, exempt.words, chance=0.5, exemption=exempt)
        features = inquiry.features if members is None else inquiry.features_of(inquiry.whole)
        codes = training_codes(inquiry.pack)
        copies = self._copies(features, codes, inquiry.seed)
        if method is not None and "generator" not in method.roles:
            reason = f"no attack here asks the networks of {method.name} about the films they learned from"
            return [*absent(METRICS, reason, chance=0.5), *copies]
        return [*self._infer(features, codes, members, inquiry.seed), *copies]

    def _infer(
        self, features: Features, codes: NDArray[np.float32] | None, members: NDArray[np.bool_] | None, seed: int
    ) -> list[Measurement]:
        # What the generator says of real films, released or not: the answer serves every release of them.
        exhibit, budget = features.originals, features.budget
        if "generator" not in features.pack.info.get("roles", {}):
            return absent(METRICS, "the pack has no generator", chance=0.5)
        how = "given"
        if members is None:
            if codes is None:
                reason = "the pack does not say which films its generator learned from"
                return absent(METRICS, reason, chance=0.5)
            members = nearest(features.embedded_originals(), codes) >= SAME_FILM
            how = "real films found in the pack's list of training films"
            if not members.any():
                exempt = Exemption.NO_TRAINING_PATIENTS
                return absent(METRICS, exempt.words, chance=0.5, exemption=exempt)
        chosen = _sample(exhibit.patients, members, budget.members, np.random.default_rng(seed))
        for state in (True, False):
            have = len(set(exhibit.patients[chosen[members[chosen] == state]].tolist()))
            if have < FEWEST_PATIENTS:
                what = "patients known to have trained the generator" if state else "patients known not to have"
                return absent(METRICS, too_few(have, what), n=have, chance=0.5, needed=FEWEST_PATIENTS)
        if not hasattr(features.pack.generator, "add_noise"):
            return absent(METRICS, "this generator does not say how noise is put on its latents", chance=0.5)
        # The question is about patients: an attacker who has films and reports of a patient uses them together.
        losses, patients = by_mean(self._losses(features, chosen), exhibit.patients[chosen])
        inside = np.isin(patients, exhibit.patients[chosen[members[chosen]]])
        about = {"members_are": how, "members": int(inside.sum()), "non_members": int((~inside).sum())}
        about |= {"films": len(chosen), "asked": "with the film's report or labels as prompt, and without"}
        return inferred(losses, inside, patients, seed, budget.draws, about)

    def _losses(self, features: Features, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """The generator's error in naming the noise put on each film: without a prompt, with the film's own, and where
        it has a prior, with what the film shows too, and the prior's error in naming that; films x noise levels of
        each."""
        films, noise_levels = features.originals.real[rows], features.budget.noise_levels
        prompts = [prompt_of(features.originals, int(row)) for row in rows]
        weights = [weights_digest(features.pack, role) for role in ("generator", "autoencoder", "vlm")]
        key = key_of("losses", films, noise_levels, weights, prompts)

        def make() -> dict[str, NDArray[Any]]:
            import torch

            generator: Any = features.pack.generator
            times = np.linspace(0.15, 0.6, noise_levels)
            knows = getattr(generator, "has_prior", False)
            out = np.empty((len(films), 4 if knows else 2, noise_levels))
            noise = torch.Generator().manual_seed(_NOISE_SEED)
            with torch.no_grad():
                for i in range(0, len(films), 32):
                    seen = as_tensor(films[i : i + 32])
                    clean = features.pack.autoencoder.encode(seen)
                    conditions = [generator.condition(words) for words in ([""] * len(clean), prompts[i : i + 32])]
                    if knows:  # an attacker who holds film and pack also knows what the film shows
                        conditions.append(generator.settled_by(conditions[1], seen))
                    for j, time in enumerate(times):
                        t = torch.full((len(clean),), float(time))
                        for k, condition in enumerate(conditions):
                            # The same noise for every film: what is left to differ is the film.
                            noise.manual_seed(_NOISE_SEED + j)
                            drawn = torch.randn(clean.shape[1:], generator=noise).expand_as(clean)
                            said = generator.noise(generator.add_noise(clean, drawn, t), t, condition)
                            error = (said - drawn).square().mean((1, 2, 3)).double().numpy()
                            out[i : i + len(clean), k, j] = error
                        if knows:
                            shown = conditions[2].representation[:, :-1]
                            noise.manual_seed(_NOISE_SEED + j)
                            drawn = torch.randn(shown.shape[1:], generator=noise).expand_as(shown)
                            out[i : i + len(clean), 3, j] = generator.prior_errors(conditions[2], t, drawn).numpy()
            return {"losses": finite(out.reshape(len(films), -1), "losses of the generator")}

        found: NDArray[np.float64] = features.kept(key, make)["losses"]
        return found

    def _copies(self, features: Features, codes: NDArray[np.float32] | None, seed: int) -> list[Measurement]:
        """Released films of unseen patients that lie nearer to a training film than 95 % of their real films do."""
        names = ["copies of training films", "exact copies of training films"]
        exhibit = features.exhibit
        if codes is None:
            return absent(names, "the pack does not say which films its generator learned from")
        rows = exhibit.rows(*SCORED)
        real, released = (nearest(features.embedded(side), codes) for side in ("real", "released"))
        unseen = rows[real[rows] < SAME_FILM]
        have = len(set(exhibit.patients[unseen].tolist()))
        if have < FEWEST_PATIENTS:
            reason = too_few(have, "patients outside the train split whose films the generator has not seen")
            return absent(names, reason, n=have, needed=FEWEST_PATIENTS)
        limit = float(np.quantile(real[unseen], 0.95))
        exact = float(features.pack.info.get("thresholds", {}).get("identity_copy", SAME_FILM))
        options: dict[str, Any] = {"better": "lower", "seed": seed, "draws": features.budget.draws}
        everyone = np.arange(len(exhibit))
        # An exact copy is looked for among all released films, those made from training films first of all.
        copied = released[everyone] >= max(exact, limit)
        detail: dict[str, Any] = {"limit": limit, "training_films": len(codes)}
        shares = [
            measure(
                names[0],
                mean,
                exhibit.patients[unseen],
                (released[unseen] > limit).astype(float),
                chance=0.05,
                attacker="nearest training film",
                detail={**detail, "of": "released films of patients the generator has not seen"},
                **options,
            ),
            measure(
                names[1],
                mean,
                exhibit.patients[everyone],
                copied.astype(float),
                chance=0.0,
                attacker="nearest training film",
                detail={**detail, "limit": max(exact, limit), "of": "all released films"},
                **options,
            ),
        ]
        return [seldom(share) for share in shares]


def inferred(
    losses: NDArray[np.float64],
    inside: NDArray[np.bool_],
    patients: NDArray[np.str_],
    seed: int,
    draws: int,
    about: dict[str, Any],
) -> list[Measurement]:
    """How well losses tell the patients of the training from others: patients x losses, one row for each patient."""
    scores = {
        "loss threshold": -losses.mean(1),
        "likelihood ratio": likelihood_ratio(losses, inside, patients, np.random.default_rng(seed)),
    }
    out: list[Measurement] = []
    wide: list[Measurement] = []
    options: dict[str, Any] = {"chance": 0.5, "better": "closer to chance", "seed": seed}
    for attacker, score in scores.items():
        detail = {**about, "roc": roc_points(inside, score)}
        rows = (patients, inside, score)
        area = {**options, "attacker": attacker}
        out.append(measure(METRICS[0], auc, *rows, draws=draws, detail=detail, **area))
        if (~inside).sum() >= 100:

            def low(y: Any, s: Any, weights: Any = None) -> Any:
                return tpr_at_fpr(y, s, 0.01, weights)

            rate = {**area, "chance": 0.01, "better": "lower"}
            name = "membership TPR at 0.01 FPR"
            out.append(measure(name, low, *rows, draws=draws, detail=about, **rate))
        wide.append(fold(measure(METRICS[0], auc, *rows, draws=2000, level=0.975, **area), METRICS[1]))
    measured = [m for m in wide if m.measured]
    if not measured:
        return [*out, *absent(METRICS[1:], str(wide[0].reason), chance=0.5)]
    top = max(measured, key=lambda m: m.value)
    correction = "Bonferroni over two attacks: each interval at level 0.975"
    low_end, high_end = max(m.low for m in measured), max(m.high for m in measured)
    detail = {**top.detail, **about, "correction": correction}
    return [*out, replace(top, low=low_end, high=high_end, detail=detail)]


def prompt_of(exhibit: Exhibit, row: int) -> str:
    """The prompt of a film: its report, else its labels."""
    if exhibit.real_texts[row].strip():
        return exhibit.real_texts[row]
    named = zip(exhibit.classes, exhibit.labels[row], strict=True)
    return ", ".join(name.replace("_", " ") for name, value in named if value == 1)


def by_mean(losses: NDArray[np.float64], patients: NDArray[np.str_]) -> tuple[NDArray[np.float64], NDArray[np.str_]]:
    """The mean over the films of each patient, and the patients."""
    names, place = np.unique(patients, return_inverse=True)
    total = np.zeros((len(names), losses.shape[1]))
    np.add.at(total, place.reshape(-1), losses)
    return total / np.bincount(place.reshape(-1))[:, None], names


#: Films of one patient that are asked about.
PER_PATIENT = 3


def _sample(
    patients: NDArray[np.str_], members: NDArray[np.bool_], most: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """At most so many films of patients in and out of the training; of a patient in it, films of the training first.

    A patient is in the training if one of their films is.
    """
    patient_rows = by_patient(patients, np.arange(len(patients)))
    chosen: list[int] = []
    for inside in (True, False):
        taken: list[int] = []
        same = [films for films in patient_rows if members[films].any() == inside]
        for place in rng.permutation(len(same)):
            films = rng.permutation(same[place])
            films = films[np.argsort(~members[films], kind="stable")][:PER_PATIENT]
            if len(taken) + len(films) > most and len(taken):
                break
            taken += films.tolist()
        chosen += taken
    return np.sort(np.array(chosen, np.intp))


def likelihood_ratio(
    losses: NDArray[np.float64], inside: NDArray[np.bool_], patients: NDArray[np.str_], rng: np.random.Generator
) -> NDArray[np.float64]:
    """log p(losses | in) − log p(losses | out), Gaussians of log losses fitted on the other half of the patients.

    Halves are standardised alike, so that both give scores on one scale.
    """
    x = np.log(np.maximum(losses, 1e-12))
    names = np.unique(patients)
    half = np.isin(patients, names[rng.permutation(len(names))[: len(names) // 2]])
    out = np.zeros(len(x))
    for asked in (half, ~half):
        fits = []
        learned = ~asked
        pooled = np.cov(x[learned].T).reshape(x.shape[1], x.shape[1]) if learned.sum() > x.shape[1] + 1 else None
        for state in (True, False):
            rows = learned & (inside == state)
            if rows.sum() < 2 * x.shape[1] or pooled is None:
                out[:] = -losses.mean(1)
                return out  # too few to fit anything: the threshold on the loss is all there is
            own = np.cov(x[rows].T).reshape(pooled.shape)
            spread = 0.5 * own + 0.5 * pooled + 1e-6 * np.eye(len(pooled))
            fits.append((x[rows].mean(0), np.linalg.inv(spread), float(np.linalg.slogdet(spread)[1])))
        densities = [-0.5 * (np.einsum("ij,jk,ik->i", x[asked] - m, p, x[asked] - m) + logdet) for m, p, logdet in fits]
        out[asked] = densities[0] - densities[1]
    return out
