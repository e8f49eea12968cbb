import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.core.policy import PRESETS, BadPolicy, Policy, json_schema


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


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[metod]\n", "metod: no section 'metod'; did you mean 'method'? there are: source, header"),
        ("[method]\nnam = 'x'\n", "policy:2: method.nam: no key 'nam'; did you mean 'name'? there are: name, strength"),
    ],
)
def test_an_unknown_name_is_said_with_the_nearest_and_all_there_are(text, said):
    with pytest.raises(BadPolicy) as caught:
        Policy.parse(text)
    assert said in str(caught.value)


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


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_read_by_its_name_unless_a_file_has_that_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Policy.load(Path(name)) == Policy.preset(name)
    Path(name).write_text("[image]\nsize = 77\n")
    assert Policy.load(Path(name)).image.size == 77


def test_presets_do_what_their_names_say():
    strict, research, clean_only = (Policy.preset(name) for name in PRESETS)
    assert strict.gate.require_evidence
    assert strict.burned_in.doubt == "quarantine"
    assert strict.gate.max_quarantined < research.gate.max_quarantined < 1
    assert research == Policy()
    assert clean_only.method.name == "keep"
    assert clean_only.image.native
    assert not clean_only.source.frontal_only
    assert research.method.name != "keep"
    with pytest.raises(BadPolicy, match="strict, research, clean-only"):
        Policy.preset("lax")


@given(st.text())
def test_any_text_is_a_policy_or_a_clear_error(text):
    with contextlib.suppress(BadPolicy):
        assert Policy.parse(text) is not None


def test_the_schema_describes_every_field():
    schema = json.loads(json_schema())
    for section in schema["$defs"].values():
        for name, field in section["properties"].items():
            assert field.get("description"), name


@pytest.mark.parametrize("path", ["/srv/radiology/packs/ours", "~/packs/ours/", "C:\\packs\\ours", "../ours", "ours"])
def test_a_release_names_a_pack_and_not_where_the_hospital_keeps_it(path: str) -> None:
    options = {"pack": path, "weights": path, "steps": 20, "further": path, "said": "a/b"}
    policy = Policy.model_validate({"method": {"name": "updp", "options": options}})
    expected = {"pack": "ours", "weights": "ours", "steps": 20, "further": "ours", "said": "a/b"}
    assert policy.public().method.options == expected
