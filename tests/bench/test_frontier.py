"""Every method by its knob: the plan is whole, a bench resumes, hypervolumes have intervals that mean something."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import Hospital, sweep
from tests.evaluation.fake_probes import Fixed, PixelLinkage, figure
from tests.methods.tiny import tiny_pack
from updp.bench.frontier import area_of, bench_frontier, every_method, leads, page, picture, ranked
from updp.bench.methods import BadBench
from updp.evaluation.cohort.settings import HERE, MethodPlan
from updp.methods import METHODS, UnknownMethod, make_method, method_info


def test_every_method_with_a_knob_is_there_at_five_strengths_or_more():
    plans = every_method(Path("export"))
    chest = [name for name in METHODS if "chest" in (method_info(name).domains or ("chest",))]
    assert {plan.name for plan in plans} == set(chest)
    for name in chest:
        if method_info(name).default_strength is not None:
            assert max(len(plan.strengths) for plan in plans if plan.name == name) >= 5, name
    cells = {plan.options["b"] for plan in plans if plan.name == "dp-pix" and "b" in plan.options}
    assert cells == {2, 4, 8, 16}
    assert any(plan.options.get("m") == "image" for plan in plans)


def test_options_of_the_plan_are_those_the_methods_take(tmp_path):
    for plan in every_method(tmp_path):
        make_method(plan.name, plan.options)


def test_the_source_and_the_weights_are_filled_in():
    plans = {plan.name: plan for plan in every_method(Path("export"), ["k-same", "dcm"], "mine")}
    assert set(plans) == {"k-same", "dcm"}
    assert plans["k-same"].options["fit"] == "export"
    assert plans["dcm"].options["weights"] == "mine"


@pytest.fixture
def source(tmp_path):
    return Hospital(tmp_path / "export", films=120).write()


def probes():
    return [PixelLinkage(), Fixed("utility", [figure("diagnostic skill kept", 0.9, 0.8, 1.0, 0.0, "higher")])]


def run(source, tmp_path, **options):
    given = {
        "plans": [MethodPlan(name="keep"), MethodPlan(name="blur", strengths=(0.2, 0.9))],
        "films": 60,
        "quick": True,
        "pack": str(tmp_path / "tiny"),
        "probes": probes,
        "say": lambda line: None,
    }
    return bench_frontier(source, tmp_path / "out", **(given | options))


def test_a_table_a_picture_and_hypervolumes_are_written_and_a_second_call_resumes(source, tmp_path):
    tiny_pack(tmp_path / "tiny")
    asked = []

    def counting():
        asked.append(1)
        return probes()

    volumes = run(source, tmp_path, probes=counting)
    assert {v.method for v in volumes} == {"keep", "blur"}
    assert {v.method: v.points for v in volumes}["blur"] == 2
    assert all(v.area.low <= v.area.value <= v.area.high for v in volumes)
    text = (tmp_path / "out" / "frontier.md").read_text()
    assert "### Hypervolume" in text
    assert "| blur | 0.9 |" in text
    written = json.loads((tmp_path / "out" / "frontier.json").read_text())
    assert len(written["points"]) == 3
    assert page(written) == text
    assert "<svg" in (tmp_path / "out" / "frontier.svg").read_text()
    assert sweep(tmp_path / "out", skip=(".cache",)) == []
    assert run(source, tmp_path, probes=counting) == volumes
    assert len(asked) == 3


def test_processes_that_share_a_folder_measure_every_setting_once(source, tmp_path):
    tiny_pack(tmp_path / "tiny")
    asked = []

    def counting():
        asked.append(1)
        return probes()

    for k in (1, 2):
        assert run(source, tmp_path, part=(k, 2), probes=counting) == []
        assert not (tmp_path / "out" / "frontier.md").exists()
    assert len(asked) == 3
    assert {v.method for v in run(source, tmp_path, probes=counting)} == {"keep", "blur"}
    assert len(asked) == 3


def test_the_picture_names_a_method_once_where_it_keeps_most():
    drawn = picture([point("a", 0.9, 0.9) | {"strength": 0.1}, point("a", 0.6, 0.5), point("b", 0.5, 0.9)]).decode()
    assert re.findall(r">(a|b)<", drawn) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"plans": None, "names": ["magic"]}, BadBench, "no method 'magic'"),
        ({"plans": None, "names": ["prichexy"]}, UnknownMethod, "learned with another"),
        ({"plans": None, "names": ["dcm"], "weights": "nowhere"}, UnknownMethod, "nowhere"),
    ],
)
def test_methods_without_fitting_weights_end_it_before_any_film(source, tmp_path, options, error, match):
    tiny_pack(tmp_path / "tiny")
    with pytest.raises(error, match=match):
        run(source, tmp_path, **options)
    assert not (tmp_path / "out").exists()


def point(method, linkage, utility, reach=0.02):
    def side(v):
        return {"value": v, "low": v - reach, "high": v + reach}

    return {"method": method, "strength": 0.5, "linkage": side(linkage), "utility": side(utility)}


def test_the_area_of_one_point_is_its_rectangle_and_its_interval_holds_it():
    one = area_of([point("a", 0.75, 0.8)], np.random.default_rng(0))
    assert one.value == pytest.approx(0.5 * 0.8, abs=1e-3)
    # Privacy is 2 - 2 linkage: its spread 0.04 / 1.96, that of the product by both.
    spread = np.hypot(0.8 * 0.04, 0.5 * 0.02)
    assert one.high - one.value == pytest.approx(spread, rel=0.2)
    exact = area_of([point("a", 0.75, 0.8, reach=0.0)], np.random.default_rng(0))
    assert (exact.low, exact.high) == pytest.approx((exact.value, exact.value))


def test_many_equal_noisy_points_are_not_called_better_than_one():
    one = area_of([point("a", 0.6, 0.8)], np.random.default_rng(0))
    many = area_of([point("a", 0.6, 0.8)] * 8, np.random.default_rng(0))
    assert many.value == pytest.approx(one.value, abs=1e-3)
    assert (many.low + many.high) / 2 == pytest.approx(many.value, abs=0.01)


def test_methods_are_ranked_by_area():
    order = ranked([point("a", 0.9, 0.9), point("b", 0.5, 0.9), point("c", 0.6, 0.5)])
    assert [v.method for v in order] == ["b", "c", "a"]


def test_a_lead_is_sure_only_where_its_interval_leaves_zero_out():
    clear = leads([point("a", 0.5, 0.9), point("b", 0.7, 0.6)], ["a", "b"])["b"]
    assert clear.value == pytest.approx(0.9 - 0.6 * 0.6, abs=1e-3)
    assert 0 < clear.low < clear.value < clear.high
    unsure = leads([point("a", 0.6, 0.80, reach=0.2), point("b", 0.6, 0.79, reach=0.2)], ["a", "b"])["b"]
    assert unsure.low < 0 < unsure.value
    assert leads([point("a", 0.5, 0.9)], ["a"]) == {}


def test_the_plan_names_no_place_of_this_machine():
    from importlib import resources

    text = resources.files("updp.bench").joinpath("frontier.toml").read_text()
    assert "/" not in text.replace("docs/how-to", "")
    assert HERE in text
