"""The gate: whether a release may leave, and what was never measured.

Three verdicts. ``passed``: every check of the policy holds on evidence. ``blocked``: one fails. ``not-measured``:
nothing failed, but privacy or utility has no evidence; the release is marked so, and says that it proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from updp.policy import GatePolicy

Status = Literal["passed", "blocked", "not-measured"]


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


def judge(
    policy: GatePolicy,
    *,
    released: int,
    quarantined: int,
    disjoint: bool,
    measured: Mapping[str, bool] | None = None,
) -> Verdict:
    """The verdict on a release; ``measured`` maps a measurement to whether its bound holds."""
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
    for name, question in MEASUREMENTS.items():
        held = (measured or {}).get(name)
        checks.append(Check(name, held, question if held is not None else f"not measured: {question}"))
    if any(check.held is False for check in checks):
        status: Status = "blocked"
    elif any(check.held is None for check in checks):
        status = "blocked" if policy.require_evidence else "not-measured"
    else:
        status = "passed"
    return Verdict(status, tuple(checks))
