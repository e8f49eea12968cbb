"""Reason codes: each is given somewhere, and each says how to repair what it names."""

from pathlib import Path

import pytest

import updp
from updp.core.reasons import REPAIR, Reason

PACKAGE = Path(updp.__file__).parent
#: A domain of another package gives a reason that none of this package does.
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "add-a-domain.md"


@pytest.fixture(scope="module")
def code():
    own = PACKAGE / "core" / "reasons.py"
    return "\n".join(path.read_text("utf-8") for path in (GUIDE, *PACKAGE.rglob("*.py")) if path != own)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_given_somewhere_and_has_its_repair(code, reason):
    assert f"Reason.{reason.name}" in code
    assert REPAIR[reason]
