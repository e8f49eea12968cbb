"""`updp evaluate --policy`: the figures a release has, held to the bounds of another policy, without measuring anew.

Only ``[gate]`` of the policy counts; all else was settled when the release was made. The release is sealed again under
the name that the new verdict gives it.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from updp.core.keys import Key, default_path
from updp.core.measurement import Measurement
from updp.core.policy import Policy
from updp.evaluation.cohort.load import NotComparable, opened_release
from updp.evaluation.evaluate import Evaluation
from updp.evaluation.report import page, released_sheet
from updp.release import certificate
from updp.release.assemble import located, restate
from updp.release.evidence import Content, judge_release


def rejudge(release: str | Path, policy: Policy, *, key: Key | str | Path | None = None) -> Evaluation:
    """The verdict on a measured release under the gate of ``policy``."""
    folder = located(Path(release).absolute())
    opened = key if isinstance(key, Key) else Key.load(Path(key) if key else default_path())
    facts, stated = opened_release(folder, opened)
    if not facts.get("measurements"):
        raise NotComparable("this release was not measured yet; run `updp evaluate` with --source first")
    measured = tuple(Measurement.from_json(one) for one in facts["measurements"])
    used = stated.model_copy(update={"gate": policy.gate})
    today = dt.date.today()
    certified = certificate.find(used, today)
    counts, tallies = facts["counts"], facts["tallies"]
    verdict = judge_release(
        used,
        Content(counts["released"], tallies.get("reports", 0), disjoint=True),
        sum(counts["quarantined"].values()),
        tallies,
        measured,
        certified.proofs,
        sum(facts["evaluation"]["patients"].values()),
    )
    facts |= {"gate": verdict.to_json(), "certificates": list(certified.signed)}
    public = used.public()
    target = restate(folder, facts, public, opened, page(facts, public, films=released_sheet(folder)), today)
    cache = folder.parent  # nothing is read of the source, so nothing is kept of it
    return Evaluation(target, target / "evidence" / "report.html", cache, facts, verdict, measured)
