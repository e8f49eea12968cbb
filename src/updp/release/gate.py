"""The gate: whether a release may leave, and what was never measured.

Three verdicts. ``passed``: every check of the policy holds on evidence. ``blocked``: one fails. ``not-measured``:
nothing failed, but privacy or utility has no evidence; the release is marked so, and says that it proves nothing.

Bounds hold for the far end of a 95 % interval: the upper bound of an attack, the lower bound of utility. A question
that was asked and could not be answered, for lack of patients or because an attack failed, is no evidence of safety: it
fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from updp.core.policy import GatePolicy

if TYPE_CHECKING:
    from updp.core.measurement import Measurement

Status = Literal["passed", "blocked", "not-measured"]
#: What was measured, by the question it answers.
Evidence = Mapping[str, "Sequence[Measurement]"]


@dataclass(frozen=True, slots=True)
class Check:
    """One condition: ``held`` is None where nothing was measured."""

    name: str
    held: bool | None
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    status: Status
    checks: tuple[Check, ...]

    def to_json(self) -> dict[str, Any]:
        return {"status": self.status, "checks": [asdict(check) for check in self.checks]}


#: What a release must have been tested for before it can pass; filled by `updp evaluate`.
MEASUREMENTS = {
    "linkage": "can an adaptive attacker link a released film to its patient's real films?",
    "identification": "can a classifier name the patient of a released film?",
    "attributes": "can age and sex be read from a released film?",
    "membership": "can one tell whose films trained the generator?",
    "text": "does an independent detector find PHI in the released reports?",
    "utility": "do models trained on the release work on real films?",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """Which measurements answer a question, and the policy's limit on them."""

    limit: str  # field of the gate's policy
    names: tuple[str, ...]  # what a measurement's name begins with
    side: Literal["upper", "excess", "lower"]  # of the interval: its end, its end above chance, its beginning

    def reads(self, measurement: Measurement) -> bool:
        return measurement.name.startswith(self.names)

    def allowed(self, policy: GatePolicy, measurement: Measurement) -> float:
        limit: float = getattr(policy, self.limit)
        return min(1.0, limit + (measurement.chance or 0.0)) if self.side == "excess" else limit

    def margin(self, policy: GatePolicy, measurement: Measurement) -> float:
        """How far the far end of the interval stays on the right side; negative where it does not."""
        allowed = self.allowed(policy, measurement)
        return measurement.low - allowed if self.side == "lower" else allowed - measurement.high


#: The bound of every question. Attacks measure more than this; the rest is stated in the report and not bounded.
BOUNDS: Mapping[str, Bound] = {
    "linkage": Bound("max_linkage", ("strongest linkage",), "upper"),
    "identification": Bound("max_identification", ("identification",), "excess"),
    "attributes": Bound("max_attributes", ("age accuracy", "sex accuracy"), "excess"),
    "membership": Bound("max_membership", ("strongest membership",), "upper"),
    "text": Bound("max_residual_phi", ("residual PHI",), "upper"),
    "utility": Bound("min_utility", ("diagnosis utility",), "lower"),
}


def judge(
    policy: GatePolicy,
    *,
    released: int,
    quarantined: int,
    disjoint: bool,
    evidence: Evidence | None = None,
    exempt: Mapping[str, str] | None = None,
) -> Verdict:
    """The verdict on a release; ``evidence`` is by question, ``exempt`` says why a question does not arise."""
    total = released + quarantined
    share = quarantined / total if total else 1.0
    checks = [
        Check("not empty", released > 0, f"{released} films"),
        Check(
            "quarantine",
            share <= policy.max_quarantined,
            f"{share:.1%} of the studies kept back, at most {policy.max_quarantined:.0%} allowed",
        ),
        Check("patients in one split", disjoint, "no patient's films are in two splits" if disjoint else "see splits"),
    ]
    for question, words in MEASUREMENTS.items():
        if exempt and question in exempt:
            checks.append(Check(question, True, f"does not arise: {exempt[question]}"))
        elif not evidence or not evidence.get(question):
            checks.append(Check(question, None, f"not measured: {words}"))
        else:
            checks.append(_bounded(policy, question, evidence[question]))
    if any(check.held is False for check in checks):
        status: Status = "blocked"
    elif any(check.held is None for check in checks):
        status = "blocked" if policy.require_evidence else "not-measured"
    else:
        status = "passed"
    return Verdict(status, tuple(checks))


def _bounded(policy: GatePolicy, question: str, found: Sequence[Measurement]) -> Check:
    """One question against its bound: what is least certain to hold decides."""
    bound = BOUNDS[question]
    relevant = [m for m in found if bound.reads(m)]
    unanswered = [m for m in (relevant or found) if not m.measured]
    if unanswered or not relevant:
        return Check(question, False, _unanswered(question, unanswered))
    worst = min(relevant, key=lambda m: bound.margin(policy, m))
    held = bound.margin(policy, worst) >= 0
    return Check(question, held, _told(bound, bound.allowed(policy, worst), worst, held))


def _unanswered(question: str, missing: Sequence[Measurement]) -> str:
    if not missing:
        return f"not measured: no attack or measure answered it ({BOUNDS[question].names[0]})"
    reasons = dict.fromkeys(f"{m.name}: {m.reason}" for m in missing)
    need = max((int(m.detail["patients_needed"]) for m in missing if "patients_needed" in m.detail), default=0)
    more = f"; at least {need} would do" if need and not any(str(need) in reason for reason in reasons) else ""
    return "asked, not answered: " + "; ".join(list(reasons)[:3]) + more


def _told(bound: Bound, allowed: float, m: Measurement, held: bool) -> str:
    from updp.core.measurement import patients_needed

    limit = f"at least {allowed:.3f}" if bound.side == "lower" else f"at most {allowed:.3f}"
    end = "lower" if bound.side == "lower" else "upper"
    out = f"{m}; its {end} bound has to be {limit}"
    if held:
        return out
    need = patients_needed(m, above=allowed) if bound.side == "lower" else patients_needed(m, below=allowed)
    if need is None and (m.value < allowed if bound.side == "lower" else m.value > allowed):
        return f"{out}, and more {m.unit} would not change that"
    if need is None:
        return f"{out}: the value is too near it to say how many {m.unit} would do"
    return f"{out}: too few {m.unit} to be sure, about {need} would do"
