"""Views of chest films as tables and headers write them."""

from __future__ import annotations

import pytest

from updp.domains.chest.views import view_of


@pytest.mark.parametrize(
    ("value", "view"), [("pa", "PA"), ("AP", "AP"), ("LL", "LATERAL"), ("Lateral", "LATERAL"), ("OBLIQUE", None)]
)
def test_views(value, view):
    assert view_of(value) == view
