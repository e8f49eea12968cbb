"""From evidence to verdict: the same way when a release is made, evaluated, and checked by its receiver.

A receiver does not rely on the stated status. The measurements, certificates and counts of the release are judged under
the policy inside it, once they are known to be about these films, this method and these numbers.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from updp.core.measurement import Measurement
from updp.core.policy import Policy
from updp.core.questions import Exemption
from updp.domains import DEFAULT, domain_of
from updp.methods import make_method, method_info
from updp.methods.base import reads_pixels
from updp.methods.strength import resolve_strength
from updp.release import certificate, construction
from updp.release.gate import Proof, Verdict, judge


class BadEvidence(ValueError):
    """The evidence is malformed, or not about this release; the message says which."""


@dataclass(frozen=True, slots=True)
class Content:
    """What a release holds, counted from its manifest."""

    films: int
    reports: int
    disjoint: bool  # every patient's films are in one split
    digest: str = ""  # of films, reports and manifest


def judge_release(
    policy: Policy,
    content: Content,
    quarantined: int,
    tallies: Mapping[str, int],
    measured: Sequence[Measurement] = (),
    certified: Iterable[Proof] = (),
    patients: int = 0,
) -> Verdict:
    """The verdict on a release. ``patients`` are those of the release, where they were counted."""
    return judge(
        policy.gate,
        released=content.films,
        quarantined=quarantined,
        disjoint=content.disjoint,
        evidence=measured,
        exempt=exemptions(policy, content.reports, measured),
        proofs=[*construction.proofs(tallies), *certified],
        questions=domain_of(policy).asked(),
        patients=patients,
    )


def exemptions(policy: Policy, reports: int, measured: Iterable[Measurement] = ()) -> dict[str, Exemption]:
    """Questions that do not arise for a release, and why: as it is, or as a probe found."""
    out: dict[str, Exemption] = {m.question: m.exemption for m in measured if m.question and m.exemption is not None}
    if not reports:
        out["text"] = Exemption.NO_REPORTS
    if not method_info(policy.method.name).learned_from_images:
        out["membership"] = Exemption.LEARNED_NOTHING
    return out


def rejudged(facts: Mapping[str, Any], policy: Policy, content: Content, date: dt.date) -> Verdict:
    """The verdict that the evidence of a release gives, sealed on ``date``; refuses evidence that is not about it."""
    try:
        counts, tallies = facts["counts"], dict(facts["tallies"])
        kept_back = sum(_count(n) for n in counts["quarantined"].values())
        measured = [Measurement.from_json(m) for m in facts["measurements"]]
        stated = {check["name"]: check["outcome"] for check in facts["gate"]["checks"]}
        if not all(_count(n) >= 0 for n in tallies.values()):
            raise ValueError
        about = facts["evaluation"]["content_sha256"] if measured else content.digest
        certified = _certified(facts, policy, date)
    except BadEvidence:
        raise
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BadEvidence("the evidence cannot be read by this version of updp") from None
    if (counts["released"], tallies.get("reports", 0)) != (content.films, content.reports):
        raise BadEvidence("the evidence counts other films or reports than the manifest")
    if about != content.digest:
        raise BadEvidence("the measurements are of other films, reports or rows than these")
    if facts.get("method") != policy.method.model_dump(mode="json"):
        raise BadEvidence("policy and evidence name different methods or settings")
    if tallies.get(construction.CHECKED) and _surely_reads_pixels(policy):
        raise BadEvidence("the evidence claims films that do not depend on pixels, of a method that reads them")
    verdict = judge_release(policy, content, kept_back, tallies, measured, certified)
    found = {check.name: check.outcome.value for check in verdict.checks}
    if (facts["gate"].get("status"), stated) != (verdict.status, found):
        raise BadEvidence(f"the stated verdict is {facts['gate'].get('status')}; the evidence gives {verdict.status}")
    return verdict


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a count is a whole number from 0")
    return value


def _surely_reads_pixels(policy: Policy) -> bool:
    try:
        method = make_method(policy.method.name, policy.method.options, policy.source.domain or DEFAULT)
        return reads_pixels(method, policy.method.strength)
    except (ValueError, OSError):  # its model pack is not here, so its options cannot be looked at
        return False


def _certified(facts: Mapping[str, Any], policy: Policy, date: dt.date) -> list[Proof]:
    """What the certificates inside a release answer; each has to count for the method as the release states it."""
    if not facts["certificates"]:
        return []
    subject = certificate.Subject(**facts["subject"])
    info = method_info(policy.method.name)
    strength = None if info.default_strength is None else resolve_strength(info, policy.method.strength)
    own = certificate.Subject(
        policy.method.name,
        strength,
        {**subject.options, **certificate.own_options(policy.method.options)},
        subject.packs,
        facts["updp"],
        policy.source.domain or DEFAULT,
    )
    if fault := own.fault(subject):
        raise BadEvidence(f"the certified method is not that of the policy: {fault}")
    out: list[Proof] = []
    for signed in facts["certificates"]:
        signers = certificate.signers_of(signed, policy)
        found = certificate.check(json.dumps(signed).encode(), subject, signers, policy, date)
        if isinstance(found, certificate.Fault):
            raise BadEvidence(f"a certificate inside the release is not accepted: {found}")
        out += certificate.answers(found)
    return out
