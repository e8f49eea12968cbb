"""What a span can be, and where it belongs: the seven groups of the UPDP paper and the 18 classes of HIPAA Safe Harbor.

The table is data (``data/categories.toml``); 45 CFR 164.514(b)(2)(i) letters (A) to (R) are the classes.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

GROUPS = (
    "patient_identifiers",
    "personnel",
    "contact_and_location",
    "dates",
    "demographics",
    "institutions",
    "other_hipaa_cues",
)

#: A place somebody has already de-identified; reported, never counted as PHI.
HOLE = "hole"


@dataclass(frozen=True, slots=True)
class Category:
    """One kind of identifier."""

    name: str
    group: str  # one of GROUPS, or "" for a hole
    safe_harbor: str  # the letter in 164.514(b)(2)(i), or "" for a hole
    tag: str  # what stands in its place in tag mode
    meaning: str


@lru_cache(maxsize=1)
def categories() -> dict[str, Category]:
    """Every category by name."""
    text = (resources.files("updp.reports") / "data" / "categories.toml").read_text("utf-8")
    return {row["name"]: Category(**row) for row in tomllib.loads(text)["category"]}
