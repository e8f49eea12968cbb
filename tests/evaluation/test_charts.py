"""Pictures of a report: every point, interval and name is in them, whatever the values are."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import matplotlib
import pytest
from markupsafe import Markup

from updp.evaluation import charts

POINT = charts.Point("dp-pix 0.5", "dp-pix", (0.7, 0.6, 0.8), (0.8, 0.7, 0.9))
HERE = charts.Point("this release: me", "me", (0.55, 0.5, 0.6), (0.9, 0.8, 1.0), here=True)


def texts(svg: Markup) -> list[str]:
    return [
        element.text or ""
        for element in ElementTree.fromstring(charts.standalone(svg)).iter()
        if element.tag.endswith("}text")
    ]


def heights(svg: Markup, *labels: str) -> list[float]:
    drawn = {
        element.text: element
        for element in ElementTree.fromstring(charts.standalone(svg)).iter()
        if element.tag.endswith("}text")
    }
    return [float(drawn[label].get("y")) for label in labels]


def test_a_picture_names_every_point_and_what_the_policy_allows():
    svg = charts.plane([POINT, HERE], 0.6, 0.85)
    assert isinstance(svg, Markup)
    assert {"dp-pix 0.5", "this release: me", "allowed by the policy", charts.LINKAGE} <= set(texts(svg))


def test_a_picture_inside_a_page_names_no_address_and_a_file_its_name_space():
    svg = charts.plane([POINT], 0.6, 0.85)
    assert "http" not in svg
    assert "xlink" not in svg
    assert charts.standalone(svg).startswith(b'<svg xmlns="http://www.w3.org/2000/svg" ')


def test_a_name_is_text_and_never_markup_or_a_formula():
    name = '<script>alert("$x^2$")</script>'
    svg = charts.plane([charts.Point(name, name, POINT.linkage, POINT.utility)], 0.6, 0.85)
    assert "<script" not in svg
    assert name in texts(svg)
    assert name in texts(charts.curves([(name, [[0, 0], [1, 1]])], "x", "y"))


def test_labels_of_points_at_one_place_do_not_cover_each_other():
    points = [charts.Point(f"method {n}", f"m{n}", POINT.linkage, POINT.utility) for n in range(4)]
    found = sorted(heights(charts.plane(points, 0.6, 0.85), *(p.label for p in points)))
    assert all(b - a > 10 for a, b in itertools.pairwise(found))


def test_values_far_outside_stay_in_the_picture():
    svg = charts.plane([charts.Point("wild", "w", (0.7, 0.6, 0.8), (3.0, -1.0, 9.0))], 0.6, 0.85)
    numbers = [float(n) for n in re.findall(r' [xy]="(-?[\d.]+)"', svg)]
    assert numbers
    assert all(-20 <= n <= 600 for n in numbers)


def test_planes_stand_side_by_side_each_with_its_own_attacker():
    left, right = (charts.Plane([POINT], 0.6, 0.85, across) for across in ("frozen", "adaptive"))
    assert {"frozen", "adaptive"} <= set(texts(charts.planes([left, right], "both")))


def test_the_same_picture_has_the_same_bytes_and_drawing_changes_no_setting():
    before = dict(matplotlib.rcParams)
    assert charts.plane([POINT], 0.6, 0.85) == charts.plane([POINT], 0.6, 0.85)
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("points", [[[1, 0.5]], [[10, 0.6, 0.5, 0.7], [4000, 0.7, 0.6, 0.8]], [[5, 0.5], [5, 0.6]]])
def test_curves_over_decades_have_plain_numbers(points):
    ticks = [text for text in texts(charts.curves([("a", points)], "x", "y", logarithmic=True)) if text[:1].isdigit()]
    assert ticks
    assert not any("^" in tick or "$" in tick for tick in ticks)


def test_findings_are_rows_with_both_values():
    svg = charts.dumbbells([("effusion", 0.8, 0.7), ("nodule", 0.9, 0.9)], "real", "released", (0.5, 1.0))
    assert {"effusion", "nodule", "real", "released", "AUC"} <= set(texts(svg))


def test_kappas_are_marks_with_intervals_by_finding_and_reader():
    points = [(0.9, 0.8, 1.0), None]
    svg = charts.agreement(["effusion", "nodule"], [("reader 1", points), ("majority vote", [(0.7, -0.15, 0.9)] * 2)])
    assert {"effusion", "nodule", "reader 1", "majority vote"} <= set(texts(svg))
    assert "−0.2" in texts(svg)  # an interval that reaches below chance is drawn whole
    assert charts.agreement(["effusion"], [("reader 1", [(1.0, 1.0, 1.0)])])


def test_an_interval_is_a_bar_with_its_numbers_in_words():
    bar = charts.interval(0.7, 0.6, 0.8, 0.5, None, (0.0, 1.0))
    assert 'aria-label="0.700, interval 0.600 to 0.800"' in bar
    assert 'class="range" style="left:60.0%;width:20.0%"' in bar
    assert 'class="chance" style="left:50.0%"' in bar
    assert 'class="limit"' not in bar
    assert 'class="value" style="left:100.0%"' in charts.interval(9.0, 1.0, 9.0, None, None, (0.0, 1.0))
    assert "nan" not in charts.interval(1.0, 1.0, 1.0, None, None, (1.0, 1.0))
