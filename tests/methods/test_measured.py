"""Measured figures of methods: from a bench to the listing."""

import datetime as dt
import json

import pytest

from performance.write_measured import as_toml, from_bench, from_certificate, merged
from updp.core.keys import Key
from updp.core.measurement import Measurement
from updp.core.policy import MethodPolicy
from updp.methods import METHODS, method_info
from updp.methods.listing import describe_method
from updp.methods.measured import FIGURES, BadMeasurements, measured, read_measured
from updp.release import certificate
from updp.release.certificate import Certificate, Subject


def bench(tmp_path, *rows, name="methods.json"):
    about = {"films": 90, "patients": {"train": 9, "val": 2, "test": 3}, "seed": 0, "quick": True, "size": 256,
             "pack": {"name": "cxr256", "sha256": "ab" * 32}}  # fmt: skip
    path = tmp_path / name
    path.write_text(json.dumps({"about": about, "rows": rows}))
    return path


def row(method, strength=None, options=None, **figures):
    fields = {"attacker": None, "protocol": None, "regime": None}
    named = [
        {**fields, **FIGURES[key], "value": value, "low": value and value - 0.1, "high": value}
        for key, value in figures.items()
    ]
    return {"method": method, "options": options or {}, "strength": strength, "measurements": named}


def test_figures_of_a_bench_come_back_from_the_file(tmp_path):
    path = bench(tmp_path, row("keep", other=0.94, own=1.0, skill=1.0), row("dcm", 0.95, other=0.61, skill=0.8))
    entries = from_bench(path)
    kept = tmp_path / "measured.toml"
    kept.write_text(as_toml(entries, "a command", list(METHODS)))
    assert read_measured(kept) == entries
    (dcm,) = measured("dcm", kept)
    assert dcm.other == pytest.approx((0.61, 0.51, 0.61))
    assert (dcm.own, dcm.strength, dcm.patients) == (None, 0.95, 5)
    assert "not measured" in str(dcm)
    assert measured("blur", kept) == ()


def test_where_weights_come_from_makes_no_other_method_and_other_options_do(tmp_path):
    path = bench(
        tmp_path,
        row("dcm", 1.0, {"weights": "mine"}, other=0.5),
        row("updp", None, {"search": "report", "pack": "mine"}, other=0.5),
    )
    entries = from_bench(path)
    assert [(one.name, one.options) for one in entries] == [("dcm", {}), ("updp", {"search": "report"})]
    assert "search = report" in str(entries[1])
    kept = tmp_path / "measured.toml"
    kept.write_text(as_toml(entries, "a command", list(METHODS)))
    assert read_measured(kept) == entries


def test_controls_of_a_bench_are_no_methods(tmp_path):
    entries = from_bench(bench(tmp_path, row("noise", own=0.5), row("keep", own=1.0)))
    assert [one.name for one in entries] == ["keep"]


def test_judges_of_a_second_network_are_a_figure_of_their_own(tmp_path):
    (entry,) = from_bench(bench(tmp_path, row("keep", skill=1.0, other_judges=0.8)))
    assert (entry.skill[0], entry.other_judges[0]) == (1.0, 0.8)
    assert "by other judges 0.80" in str(entry)


def test_a_figure_that_could_not_be_measured_is_left_out(tmp_path):
    assert from_bench(bench(tmp_path, row("keep", own=None)))[0].own is None


def test_a_method_measured_anew_loses_its_old_strengths_and_others_stay(tmp_path):
    old = from_bench(bench(tmp_path, row("dcm", 0.5, other=0.7), row("dcm", 0.9, other=0.6), row("blur", 0.5)))
    new = from_bench(bench(tmp_path, row("dcm", 1.0, other=0.5)))
    assert [(one.name, one.strength) for one in merged(old, new)] == [("blur", 0.5), ("dcm", 1.0)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"about": {}, "rows": []}'])
def test_a_file_of_another_kind_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BadMeasurements, match=r"other\.json"):
        from_bench(path)
    with pytest.raises(BadMeasurements):
        from_bench(tmp_path / "absent.json")


def test_an_entry_without_its_figures_form_is_refused(tmp_path):
    path = tmp_path / "measured.toml"
    path.write_text('[[measured]]\nmethod = "keep"\nown = [0.5]\n')
    with pytest.raises(BadMeasurements):
        read_measured(path)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_listed_with_knob_guarantee_and_figures(name):
    lines = [line for line, _ in describe_method(method_info(name))]
    assert lines[:2] == ["strength", "guarantee"]
    assert "measured" in lines


def test_the_figures_that_ship_are_of_methods_there_are():
    assert {one.name for one in read_measured()} <= set(METHODS)
    assert all(0 <= one.own[1] <= one.own[0] <= one.own[2] <= 1 for one in read_measured() if one.own)


def test_a_certificate_gives_the_figures_of_its_method(tmp_path):
    found = [
        Measurement("film linkage", 0.51, 0.49, 0.53, 300, 0.5, "lower", protocol="own film"),
        Measurement("diagnostic skill kept", 0.6, 0.4, 0.8, 300, 0.0, "higher"),
    ]
    subject = Subject.of(MethodPolicy(name="blur", strength=0.5, options={"max_sigma": 0.125}))
    cohort = {"patients": 300, "films": 900, "quick": True}
    one = Certificate(subject, dt.date(2026, 11, 17), cohort, tuple(found))
    certificate.write(tmp_path / "c.json", one, Key(bytes(32)))
    told = from_certificate(tmp_path / "c.json")
    assert (told.name, told.options, told.strength) == ("blur", {"max_sigma": 0.125}, 0.5)
    assert (told.own, told.other, told.skill) == ((0.51, 0.49, 0.53), None, (0.6, 0.4, 0.8))
    assert (told.patients, told.films, told.quick) == (300, 900, True)
    with pytest.raises(BadMeasurements):
        from_certificate(bench(tmp_path, row("keep")))
