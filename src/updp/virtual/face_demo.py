"""The demonstration of faces on the virtual eye clinic: a release that can be turned back, beside an untouched one.

Every step is that of a real run; only the people are invented. The release by `invented-face` and the one with
photographs as they were taken are attacked and judged alike. Then some originals are recovered, with their passwords,
with those of other records, and from the vault.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.virtual.clinic import make_clinic
from updp.virtual.demo import _claim, _public, _secret, data_uri, judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from updp.pipeline.run import Progress
    from updp.release.assemble import Outcome
    from updp.release.verify import Verification

METHOD, UNTOUCHED = "invented-face", "keep"
PEOPLE, PHOTOGRAPHS = 24, 2
#: Records that are recovered, and shown before and after.
SHOWN = 4
_NOTICE = (
    "The faces on this page were drawn by a generator from noise, and eye diseases were rendered on them. "
    "They show no real person."
)


@dataclass(frozen=True, slots=True)
class FaceDemo:
    """How the demonstration went."""

    outcome: Outcome
    untouched: Outcome
    verification: Verification
    tried: int  # records whose original was asked for
    recovered: int  # of which so many came back from the released file
    exact: int  # and so many from the vault, byte for byte
    wrong: int  # and so many with the password of another record
    report: Path


def demo_policy(method: str, options: Mapping[str, Any] | None = None) -> Policy:
    return Policy.model_validate(
        {
            "source": {"domain": "face"},
            "method": {"name": method, "options": dict(options or {})},
            "release": {"name": "virtual-clinic", "licence": "CC0-1.0", "shard_size": 8},
        }
    )


def run(
    out: Path | str,
    *,
    seed: int = 0,
    people: int = PEOPLE,
    options: Mapping[str, Any] | None = None,
    key: Key | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> FaceDemo:
    """Make the clinic, its releases and the page at ``out``; what an earlier demonstration left there is replaced.

    ``options`` are those of the method.
    """
    from updp.evaluation.report import page
    from updp.release.verify import verify

    out = Path(out)
    _claim(out, seed)
    make_clinic(out / "hospital", seed=seed, people=people, photographs=PHOTOGRAPHS)
    if key is None:
        key = Key.create(out / "key", _secret(seed))
    policy, plain = demo_policy(METHOD, options), demo_policy(UNTOUCHED)
    settings: dict[str, Any] = {"key": key, "seed": seed, "workers": workers}
    outcome, evaluation = judged(out, "run", policy, progress=progress, **settings)
    verification = verify(evaluation.folder, trusted=_public(key))
    untouched, beside = judged(out, "untouched", plain, **settings)
    tried, recovered, exact, wrong, pairs = _recovered(out, outcome.folder, policy, key)
    facts = dict(evaluation.facts)
    facts["verification"] = [
        {"name": check.name, "outcome": check.outcome, "kind": check.kind, "detail": check.detail}
        for check in verification.checks
    ]
    report = out / "report.html"
    html = page(
        facts,
        policy,
        title="A virtual eye clinic, before and after",
        notice=_NOTICE,
        pairs=pairs,
        beside=("The same clinic with its photographs as they were taken", beside.facts, plain),
    )
    report.write_text(html, "utf-8")
    return FaceDemo(outcome, untouched, verification, tried, recovered, exact, wrong, report)


def _recovered(out: Path, folder: Path, policy: Policy, key: Key) -> tuple[int, int, int, int, list[dict[str, Any]]]:
    """Originals of a few records by every way there is, and the pictures of the page."""
    import numpy as np
    from PIL import Image

    from updp.methods import make_method
    from updp.methods.base import BadPassword, Reversible
    from updp.release import manifest
    from updp.release.recover import recover
    from updp.release.vault import open_vault

    method = make_method(policy.method.name, policy.method.options)
    assert isinstance(method, Reversible)
    rows = sorted(manifest.read(folder), key=lambda row: str(row["release_id"]))
    sources = {link.get("release_id"): link["source_film_id"] for link in open_vault(out / "run" / "vault", key)}
    people: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row["labels"]:
            people.setdefault(row["patient"], row)
    chosen = list(people.values())[:SHOWN]
    to = out / "recovered"
    to.mkdir(mode=0o700)
    pairs: list[dict[str, Any]] = []
    recovered = exact = wrong = 0
    for n, row in enumerate(chosen):
        record = row["release_id"]
        source = out / "hospital" / "images" / f"{sources[record]}.jpg"
        back = recover(folder, record, key, to / f"{record}.png", by="demonstration")
        original = recover(folder, record, key, to / f"{record}.jpg", how="vault", by="demonstration")
        exact += original.data == source.read_bytes()
        with Image.open(folder / row["file_name"]) as image:
            film = np.asarray(image.convert("RGB"))
        with Image.open(io.BytesIO(back.data)) as image:
            face = np.asarray(image.convert("RGB"))
        with Image.open(source) as image:
            before = np.asarray(image.convert("RGB"))
        recovered += face.shape == film.shape
        try:
            method.recover([film], [key.password(chosen[n - 1]["release_id"])])
            wrong += 1
        except BadPassword:
            pass
        shown = {"before": before, "after": film, "recovered": face}
        pairs.append(
            {"title": ", ".join(row["labels"])}
            | {name: data_uri(pixels.astype(np.float32) / np.float32(255), 256) for name, pixels in shown.items()}
        )
    return len(chosen), recovered, exact, wrong, pairs
