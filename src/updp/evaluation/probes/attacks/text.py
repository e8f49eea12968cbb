"""Text: identifiers an independent detector still finds, and how well a report points to its patient.

A cleaned report says what the real one says; that is its use, and it makes released and real reports of one film easy
to match for an attacker who already has the real report. The linkage figures state how easy, as a part of what the
record tells. They do not mean that a report names anybody. Reports restated by ``report.mode = "structured"`` keep the
findings and lose the wording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.measurement import FEWEST_PATIENTS, Measurement
from updp.core.questions import Exemption
from updp.evaluation.intervals import measure
from updp.evaluation.linkage import retrieval, seldom
from updp.evaluation.probes.base import Budget, Inquiry, Probe, absent, by_patient, too_few, with_detail
from updp.evaluation.statistics import mean

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.models.pack import Pack


class Text(Probe):
    """``prompts``, one per row of the exhibit ("" where there is none), are what a method gave its generator."""

    name = "text"
    question = "text"

    def __init__(self, prompts: Sequence[str] | None = None) -> None:
        self.prompts = prompts

    def measure(self, inquiry: Inquiry) -> list[Measurement]:
        exhibit, budget, seed = inquiry.whole, inquiry.budget, inquiry.seed
        if self.prompts is not None and len(self.prompts) != len(exhibit):
            raise ValueError(f"{len(self.prompts)} prompts for {len(exhibit)} films")
        return [
            self._residual(exhibit, budget, seed),
            *[replace(m, question="record") for m in self._reports(exhibit, budget, seed)],
            *self._prompts(exhibit, inquiry.pack, budget, seed),
        ]

    def _residual(self, exhibit: Exhibit, budget: Budget, seed: int) -> Measurement:
        """The share of released reports in which something still looks like an identifier."""
        from updp.release.residual import residual_spans

        name = "residual PHI"
        rows = np.flatnonzero(exhibit.with_reports("released"))
        if not len(rows):
            none = Exemption.NO_REPORTS
            return absent([name], none.words, exemption=none)[0]
        kinds: Counter[str] = Counter()
        hit = np.zeros(len(rows))
        for place, row in enumerate(rows):
            found = residual_spans(exhibit.released_texts[row])
            kinds.update(span.category for span in found)
            hit[place] = bool(found)
        before = [bool(residual_spans(text)) for text in exhibit.real_texts if text.strip()]
        detail: dict[str, Any] = {
            "reports": len(rows),
            "by_category": dict(sorted(kinds.items())),
            "share_in_real_reports": float(np.mean(before)) if before else None,
        }
        rate = measure(
            name,
            mean,
            exhibit.patients[rows],
            hit,
            chance=0.0,
            better="lower",
            seed=seed,
            attacker="independent detector",
            draws=budget.draws,
            detail=detail,
        )
        return seldom(rate)

    def _reports(self, exhibit: Exhibit, budget: Budget, seed: int) -> list[Measurement]:
        """Released reports as probes, one real report of each patient as the gallery: the own one, then another."""
        rows = np.flatnonzero(exhibit.with_reports("real", "released"))
        metrics, attacker = _metrics("report→patient"), "TF-IDF similarity to real reports"
        own: dict[str, Any] = {"attacker": attacker, "protocol": "own report"}
        other: dict[str, Any] = {"attacker": attacker, "protocol": "another report"}
        patient_rows = by_patient(exhibit.patients, rows)
        if len(patient_rows) < FEWEST_PATIENTS:
            reason = (
                Exemption.NO_REPORTS.words if not len(rows) else too_few(len(patient_rows), "patients with reports")
            )
            return [m for who in (own, other) for m in absent(metrics, reason, n=len(patient_rows), **who)]
        rng = np.random.default_rng(seed)
        patient_rows = [rng.permutation(films) for films in patient_rows]
        gallery = np.array([int(films[0]) for films in patient_rows], np.intp)
        # Another report must be another text: films of one examination share theirs.
        others = np.array(
            [
                int(films[k])
                for films in patient_rows
                for k in range(1, len(films))
                if exhibit.real_texts[int(films[k])] != exhibit.real_texts[int(films[0])]
            ],
            np.intp,
        )
        note = "a cleaned report keeps what the real one says, so an attacker with the real report finds it again"
        out = _matched(
            [exhibit.released_texts[i] for i in gallery],
            [exhibit.real_texts[i] for i in gallery],
            exhibit.patients[gallery],
            exhibit.patients[gallery],
            note,
            of="report→patient",
            draws=budget.draws,
            seed=seed,
            **own,
        )
        several = len(set(exhibit.patients[others].tolist()))
        if several < FEWEST_PATIENTS:
            reason = too_few(several, "patients with two different reports")
            return [*out, *absent(metrics, reason, n=several, **other)]
        return out + _matched(
            [exhibit.released_texts[i] for i in others],
            [exhibit.real_texts[i] for i in gallery],
            exhibit.patients[others],
            exhibit.patients[gallery],
            "another report of the patient, as held by somebody who saw the patient before",
            of="report→patient",
            draws=budget.draws,
            seed=seed,
            **other,
        )

    def _prompts(self, exhibit: Exhibit, pack: Pack, budget: Budget, seed: int) -> list[Measurement]:
        """Prompts as probes against real reports, and against real films in the space of the pack's vlm."""
        metrics = _metrics("prompt→patient")
        texts: dict[str, Any] = {"attacker": "TF-IDF similarity to real reports", "protocol": "by real reports"}
        films: dict[str, Any] = {"attacker": "vlm similarity to real films", "protocol": "by real films"}

        def nothing(reason: str, **options: Any) -> list[Measurement]:
            return [m for who in (texts, films) for m in absent(metrics, reason, **options, **who)]

        if self.prompts is None or not any(p.strip() for p in self.prompts):
            return nothing("no prompts were given: a release does not hold them")
        rows = np.array([i for i, p in enumerate(self.prompts) if p.strip()], np.intp)
        rng = np.random.default_rng(seed)
        single = np.array([int(rng.choice(films_)) for films_ in by_patient(exhibit.patients, rows)], np.intp)
        if len(single) < FEWEST_PATIENTS:
            return nothing(too_few(len(single), "patients with prompts"), n=len(single), needed=FEWEST_PATIENTS)
        prompts = [self.prompts[i] for i in single]
        patients = exhibit.patients[single]
        known = np.array([bool(exhibit.real_texts[i].strip()) for i in single])
        out: list[Measurement] = []
        options: dict[str, Any] = {"seed": seed, "draws": budget.draws, "of": "prompt→patient"}
        if known.sum() >= FEWEST_PATIENTS:
            real = [exhibit.real_texts[i] for i in single[known]]
            asked = [p for p, t in zip(prompts, known, strict=True) if t]
            out += _matched(asked, real, patients[known], patients[known], "", **texts, **options)
        else:
            out += absent(metrics, too_few(int(known.sum()), "patients with prompts and reports"), **texts)
        similarity = _by_films(pack, prompts, exhibit.real[single])
        return out + retrieval(similarity, patients, patients, **films, **options)


def _metrics(of: str) -> list[str]:
    return [f"{of} rank-1", f"{of} rank-5", f"{of} mAP"]


def _by_films(pack: Pack, prompts: list[str], films: NDArray[np.uint8]) -> NDArray[np.float64]:
    import torch

    from updp.evaluation.probes.attacks.features import as_tensor

    with torch.no_grad():
        words = [pack.vlm.embed_texts(prompts[i : i + 64]) for i in range(0, len(prompts), 64)]
        seen = [pack.vlm.embed_images(as_tensor(films[i : i + 32])) for i in range(0, len(films), 32)]
    out: NDArray[np.float64] = (torch.cat(words) @ torch.cat(seen).T).double().numpy()
    return out


def _matched(
    probes: list[str],
    gallery: list[str],
    probe_patients: NDArray[np.str_],
    gallery_patients: NDArray[np.str_],
    note: str,
    **options: Any,
) -> list[Measurement]:
    """Retrieval by TF-IDF of words and pairs of words, fitted on the gallery, which the adversary holds."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    try:
        real = vectorizer.fit_transform(gallery)
    except ValueError:  # no word at all
        who = {name: options[name] for name in ("attacker", "protocol")}
        return absent(_metrics(options["of"]), "the real reports hold no words", **who)
    similarity = np.asarray((vectorizer.transform(probes) @ real.T).todense(), dtype=np.float64)
    found = retrieval(similarity, probe_patients, gallery_patients, **options)
    return [with_detail(m, meaning=note) for m in found]
