"""What follows from how the images were made: the proofs a release carries in the counts of its shards."""

from __future__ import annotations

from collections.abc import Mapping

from updp.core.questions import Kind
from updp.release.gate import Proof

#: Names of the counts in a shard's tallies: records made again from other pixels, and those that came out different.
CHECKED, DIFFERED = "non-interference/checked", "non-interference/differed"
#: What non-interference answers: the questions about an image beyond its record.
ANSWERED = ("film",)


def proofs(tallies: Mapping[str, int]) -> list[Proof]:
    """What the counts of a release prove."""
    return [*_text(tallies.get("reports", 0)), *_non_interference(tallies)]


def _text(reports: int) -> list[Proof]:
    """A report in which the second detector finds something is kept back, so all that left were read by it."""
    if not reports:
        return []
    words = f"every one of the {reports} released reports was read by the second detector, which found nothing"
    return [Proof("text", Kind.CONSTRUCTION, True, words)]


def _non_interference(tallies: Mapping[str, int]) -> list[Proof]:
    """Nothing where no record was checked."""
    checked, differed = tallies.get(CHECKED, 0), tallies.get(DIFFERED, 0)
    if not checked:
        return []
    if differed:
        words = f"{differed} of {checked} images made again from other pixels came out different"
    else:
        words = f"images do not depend on the patient's pixels: {checked} of {checked} made again from other pixels "
        words += "are equal"
    return [Proof(question, Kind.CONSTRUCTION, not differed, words) for question in ANSWERED]
