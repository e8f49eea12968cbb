import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.core.policy import BadPolicy, Policy, json_schema


def test_an_empty_policy_is_a_complete_one():
    assert Policy.parse("") == Policy()


def test_a_policy_written_out_reads_back_the_same():
    method = '[method]\nname = "dp-pix"\nstrength = 0.3\noptions = {b = 4, m = "image"}\n'
    policy = Policy.parse(method + '[report]\nblock = ["ä\\"x"]')
    assert Policy.parse(policy.to_toml()) == policy


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("[image]\nsize = 3\n", "policy:2: image.size"),
        ("[image]\n\n# comment\nsize = 'big'\n", "policy:4: image.size"),
        ("[release]\nnmae = 'x'\n", "policy:2: release.nmae"),
        ("[method]\nname='keep'\nstrength = 1.5\n", "policy:3: method.strength"),
        ("[relase]\n", "policy:1: relase"),
        ("\n[report]\nsections = [1]\n", "policy:3: report.sections.0"),
        ("image.size = 3\n", "policy:1: image.size"),
        ("[image\n", "line 1"),
    ],
)
def test_an_error_names_the_line_it_comes_from(text, where):
    with pytest.raises(BadPolicy) as caught:
        Policy.parse(text)
    assert where in str(caught.value)


def test_every_fault_is_told_at_once():
    with pytest.raises(BadPolicy) as caught:
        Policy.parse("[image]\nsize = 3\nfit = 'x'\n")
    assert len(str(caught.value).splitlines()) == 2


def test_a_policy_that_is_not_there_or_not_text_is_said_so(tmp_path):
    with pytest.raises(BadPolicy, match="no such policy file"):
        Policy.load(tmp_path / "none.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPolicy, match="UTF-8"):
        Policy.load(tmp_path / "p.toml")


@given(st.text())
def test_any_text_is_a_policy_or_a_clear_error(text):
    with contextlib.suppress(BadPolicy):
        assert Policy.parse(text) is not None


def test_the_schema_describes_every_field():
    schema = json.loads(json_schema())
    for section in schema["$defs"].values():
        for name, field in section["properties"].items():
            assert field.get("description"), name
