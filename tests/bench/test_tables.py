"""What benches write: cells with their intervals, a table beside its figures, curves."""

import json
import math

import numpy as np
import pytest

from updp.bench.tables import cell, panels, plot_intervals, save
from updp.evaluation.intervals import Interval


def test_a_cell_has_the_value_and_both_ends():
    assert cell(Interval(1.234, 1.0, 1.5)) == "1.23 [1.00, 1.50]"
    assert cell(Interval(0.5, 0.25, 0.75), 3) == "0.500 [0.250, 0.750]"
    assert cell(None) == ""


def test_figures_and_table_stand_beside_each_other(tmp_path):
    save(tmp_path / "new", "rate", {"films": 3}, "| films |\n", rows=[{"rate": 1}])
    assert json.loads((tmp_path / "new" / "rate.json").read_text()) == {"about": {"films": 3}, "rows": [{"rate": 1}]}
    assert (tmp_path / "new" / "rate.md").read_text() == "| films |\n"


def test_a_point_without_an_interval_is_drawn_without_a_bar():
    _, (axes, other) = panels(4, 3, 2)
    plot_intervals(axes, [1.0, 2.0], [Interval(0.5, 0.4, 0.7), Interval(0.6, math.nan, math.nan)], "ours")
    (drawn,) = axes.containers
    first, second = drawn.lines[2][0].get_segments()
    assert first == pytest.approx(np.array([[1.0, 0.4], [1.0, 0.7]]))
    assert second == pytest.approx(np.array([[2.0, 0.6], [2.0, 0.6]]))
    assert drawn.get_label() == "ours"
    assert not other.containers
