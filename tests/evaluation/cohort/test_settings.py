"""Which methods a bench tries: from names, and from a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from updp.domains.chest import PACK
from updp.evaluation.cohort.settings import BadPlan, MethodPlan, Setting, read_plan, settings
from updp.methods import METHODS, UnknownMethod

PLANS = Path(__file__).parents[3] / "docs" / "plans"

PLAN = """
[[method]]
name = "keep"
[[method]]
name = "dp-pix"
strengths = [0.1, 0.7]
options = {b = 4}
"""


def test_every_method_is_tried_at_its_own_strengths_else_at_those_of_all():
    four = MethodPlan(name="dp-pix", options={"b": 4})
    assert [s.label for s in settings(["keep", four], [0.2, 0.4], PACK)] == [
        "keep",
        "dp-pix (b=4) 0.2",
        "dp-pix (b=4) 0.4",
    ]
    own = MethodPlan(name="dp-pix", options={"b": 4}, strengths=(0.1,))
    assert [s.label for s in settings(["blur", own], [0.2], PACK)] == ["blur 0.2", "dp-pix (b=4) 0.1"]
    assert settings(["dp-pix"], None, PACK)[0].strength == pytest.approx(0.6667)


def test_a_plan_file_names_methods_options_and_strengths(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    found = settings(read_plan(tmp_path / "plan.toml"), [0.5], PACK)
    assert [s.label for s in found] == ["keep", "dp-pix (b=4) 0.1", "dp-pix (b=4) 0.7"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "method: Field required"),
        ("method = []", "method"),
        ("[[method]]\nname = 'keep'\ncolour = 1", "method.0.colour: no key 'colour'; there are: name"),
        ("[[method]]\nname = 'blur'\nstrengths = [7]", "method.0.strengths.0"),
        ("[[method", "plan.toml: "),
    ],
)
def test_a_wrong_plan_file_is_refused_with_the_place(tmp_path, text, words):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(BadPlan) as refused:
        read_plan(tmp_path / "plan.toml")
    assert words in str(refused.value)


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_plans_of_the_documentation_name_methods_and_options_there_are(path):
    for plan in read_plan(path):
        METHODS[plan.name].Options.read(plan.options)


def test_a_plan_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(BadPlan, match="no such file"):
        read_plan(tmp_path / "absent.toml")


@pytest.mark.parametrize("wrong", [("magic", {}), ("dp-pix", {"b": 0}), ("dp-pix", {"colour": "red"})])
def test_wrong_methods_and_options_are_refused_before_any_film_is_read(wrong):
    with pytest.raises(UnknownMethod):
        settings([MethodPlan(name=wrong[0], options=wrong[1])], None, PACK)


def test_a_method_that_takes_a_pack_gets_the_pack_of_the_bench_and_no_other_does(tmp_path):
    found = settings(["updp", "image-to-image", "k-same", "blur"], [0.5], str(tmp_path))
    assert [dict(s.options).get("pack") for s in found] == [str(tmp_path)] * 3 + [None]
    own = settings([MethodPlan(name="updp", options={"pack": "mine"})], [0.5], str(tmp_path))
    assert dict(own[0].options) == {"pack": "mine"}


def test_the_name_of_a_file_has_no_separator():
    assert "/" not in Setting("a", (("x", "b/c"),)).slug


def test_a_setting_is_shown_without_the_places_of_its_files():
    setting = Setting("donor", (("gallery", "/hospital/Quibblesworth"), ("seed", 3)), 0.5)
    assert setting.shown == "donor (seed=3)"
    assert "Quibblesworth" in setting.method  # two galleries are two settings
