"""The demonstration of faces: originals come back to their password alone, and the page shows it."""

from __future__ import annotations

import pytest

from updp.core.keys import Key
from updp.virtual import face_demo

pytest.importorskip("rapidocr")


def test_the_demonstration_of_faces(tmp_path):
    options = {"side": 64}
    made = face_demo.run(tmp_path / "demo", people=4, options=options, key=Key(b"d" * 32), workers=1)
    assert made.outcome.released == 8
    assert made.tried == made.recovered == made.exact > 0
    assert made.wrong == 0
    page = made.report.read_text("utf-8")
    assert page.count("data:image/jpeg") >= 3 * made.tried
    assert "Recovered" in page
    assert made.outcome.status != "passed"  # four people are too few for any evidence
