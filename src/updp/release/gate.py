"""The gate: whether a release may leave, and what was never measured.

Three verdicts. ``passed``: every check of the policy holds on evidence. ``blocked``: one fails. ``not-measured``:
nothing failed, but a question was not asked; the release is marked so, and says that it proves nothing.

Bounds hold for the far end of a 95 % interval: the upper end of an attack, the lower end of utility. A question that
was asked and not answered, for lack of patients or because an attack failed, is no evidence of safety: it blocks.
Beside figures of this release, a question may be answered by a ``Proof``: by construction, or by a certificate, where
the policy accepts that kind. No proof outweighs a figure of this release that lies beyond its bound for certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from updp.core.policy import GatePolicy
from updp.core.questions import QUESTIONS, Bound, Exemption, Kind, Outcome, Question

if TYPE_CHECKING:
    from updp.core.measurement import Measurement

Status = Literal["passed", "blocked", "not-measured"]


@dataclass(frozen=True, slots=True)
class Check:
    """One condition and how it ended. ``question`` is set where it is one of the table; ``kind`` where it was answered.

    ``more_patients`` says that the value is on the right side of its bound and only the interval is too wide.
    """

    name: str
    outcome: Outcome
    detail: str
    question: str | None = None
    kind: Kind | None = None
    exemption: Exemption | None = None
    more_patients: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """An answer that is no figure of this release: by construction, or from a certificate.

    A certificate brings the figures it was given (``measurements``), which are held to the policy's bounds like any
    others; a proof by construction has ``held`` instead, and ``detail`` says on how many records it was checked.
    """

    question: str
    kind: Kind
    held: bool
    detail: str
    measurements: tuple[Measurement, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    checks: tuple[Check, ...]

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "checks": [asdict(check) for check in self.checks]}

    def check(self, name: str) -> Check:
        """The check of this name, or of this question."""
        return next(check for check in self.checks if check.name == name)


def plain(name: str, held: bool, detail: str) -> Check:
    """A check that either holds or does not."""
    return Check(name, Outcome.HELD if held else Outcome.FAILED, detail)


def judge(
    policy: GatePolicy,
    *,
    released: int,
    quarantined: int,
    disjoint: bool,
    evidence: Iterable[Measurement] = (),
    exempt: Mapping[str, Exemption] | None = None,
    proofs: Iterable[Proof] = (),
    questions: Mapping[str, Question] = QUESTIONS,
    patients: int = 0,
) -> Verdict:
    """The verdict on a release. Every measurement says which question it answers; ``exempt`` says why a question does
    not arise, and counts only where the question allows that exemption. ``patients`` are those of the release, of whom
    a part is scored: how many more it takes is said in patients of the release."""
    total = released + quarantined
    share = quarantined / total if total else 1.0
    checks = [
        plain("not empty", released > 0, f"{released} films"),
        plain(
            "quarantine",
            share <= policy.max_quarantined,
            f"{share:.1%} of the studies kept back, at most {policy.max_quarantined:.0%} allowed",
        ),
        plain("patients in one split", disjoint, "no patient's films are in two splits" if disjoint else "see splits"),
    ]
    found: dict[str, list[Measurement]] = {}
    for m in evidence:
        found.setdefault(m.question or "", []).append(m)
    given = list(proofs)
    for question in questions.values():
        own = [proof for proof in given if proof.question == question.id]
        why = (exempt or {}).get(question.id)
        checks.append(_answer(policy, question, found.get(question.id, []), why, own, patients))
    outcomes = {check.outcome for check in checks}
    if outcomes & {Outcome.FAILED, Outcome.UNANSWERED}:
        status: Status = "blocked"
    elif Outcome.NOT_ASKED in outcomes:
        status = "blocked" if policy.require_evidence else "not-measured"
    else:
        status = "passed"
    return Verdict(status, tuple(checks))


def _answer(
    policy: GatePolicy,
    question: Question,
    found: Sequence[Measurement],
    exemption: Exemption | None,
    proofs: Sequence[Proof],
    patients: int,
) -> Check:
    """One question: exempt, refuted, answered by a kind of evidence the policy accepts, or not answered."""
    if exemption is not None and exemption in question.exemptions:
        return Check(question.id, Outcome.NOT_APPLICABLE, exemption.words, question.id, exemption=exemption)
    accepted = {Kind(kind) for kind in policy.accept}
    measured = _bounded(policy, question, found, patients) if found else None
    if broken := next((proof for proof in proofs if not proof.held), None):
        # A proof that failed counts against the release; a missing one does not.
        return Check(question.id, Outcome.FAILED, broken.detail, question.id, broken.kind)
    refuted = any(
        m.measured and (bound := question.bound_of(m)) is not None and bound.refuted(policy, m) for m in found
    )
    if measured is not None and (refuted or (measured.outcome is Outcome.HELD and Kind.MEASURED in accepted)):
        return measured
    for kind in (Kind.CONSTRUCTION, Kind.CERTIFIED):
        for proof in (p for p in proofs if p.kind is kind and kind in accepted):
            if not proof.measurements:
                return Check(question.id, Outcome.HELD, proof.detail, question.id, kind)
            by_proof = _bounded(policy, question, proof.measurements)
            if by_proof.outcome is Outcome.HELD:
                return Check(question.id, Outcome.HELD, f"{proof.detail}: {by_proof.detail}", question.id, kind)
    if measured is None:
        return Check(question.id, Outcome.NOT_ASKED, question.asks, question.id)
    if measured.outcome is Outcome.HELD:
        words = "the policy accepts other kinds of evidence only"
        return Check(question.id, Outcome.UNANSWERED, f"{measured.detail}; {words}", question.id, Kind.MEASURED)
    return measured


def _bounded(policy: GatePolicy, question: Question, found: Sequence[Measurement], patients: int = 0) -> Check:
    """One question against its bounds: what is least certain to hold decides."""
    relevant = [(m, bound) for m in found if (bound := question.bound_of(m)) is not None]
    unanswered = [m for m in ([m for m, _ in relevant] or found) if not m.measured]
    silent = [bound for bound in question.bounds if not any(one is bound for _, one in relevant)]
    if unanswered or silent:
        return Check(question.id, Outcome.UNANSWERED, _unanswered(unanswered, silent), question.id)
    worst, bound = min(relevant, key=lambda pair: pair[1].margin(policy, pair[0]))
    held = bound.margin(policy, worst) >= 0
    words, more = _describe(bound, bound.allowed(policy, worst), worst, held, patients)
    outcome = Outcome.HELD if held else Outcome.FAILED
    return Check(question.id, outcome, words, question.id, worst.kind, more_patients=more)


def _unanswered(missing: Sequence[Measurement], silent: Sequence[Bound]) -> str:
    if not missing:
        return f"no attack or measure gave {', '.join(metric for bound in silent for metric in bound.metrics)}"
    reasons = dict.fromkeys(f"{m.name}: {m.reason}" for m in missing)
    need = max((int(m.detail["patients_needed"]) for m in missing if "patients_needed" in m.detail), default=0)
    more = f"; at least {need} would do" if need and not any(str(need) in reason for reason in reasons) else ""
    return "; ".join(list(reasons)[:3]) + more


def _describe(bound: Bound, allowed: float, m: Measurement, held: bool, patients: int) -> tuple[str, bool]:
    """A measurement beside its bound, and whether more patients would settle it."""
    from updp.core.measurement import patients_needed

    limit = f"at least {allowed:.3f}" if bound.side == "lower" else f"at most {allowed:.3f}"
    end = "lower" if bound.side == "lower" else "upper"
    out = f"{m}; its {end} bound has to be {limit}"
    if held:
        return out, False
    need = patients_needed(m, above=allowed) if bound.side == "lower" else patients_needed(m, below=allowed)
    if bound.side != "lower" and m.chance is not None and m.value > allowed and m.covers(m.chance):
        return f"{out}; not shown, since the interval contains chance: more {m.unit} would tell", True
    if need is None and (m.value < allowed if bound.side == "lower" else m.value > allowed):
        return f"{out}, and more {m.unit} would not change that", False
    if need is None:
        return f"{out}: the value is too near it to say how many {m.unit} would do", True
    if m.unit == "patients" and 0 < m.n < patients:  # only some of the hospital's patients are scored
        need = math.ceil(need * patients / m.n)
        return f"{out}: too few patients to be sure, about {need} would do ({m.n} of {patients} were scored)", True
    return f"{out}: too few {m.unit} to be sure, about {need} would do", True
