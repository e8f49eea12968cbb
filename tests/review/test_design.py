"""Plans: balanced, apart, blinded, the same for the same key; refused when altered."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from tests.conftest import sweep
from tests.review.conftest import released
from tests.sources.exports import draw, write_dicom
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.evaluation.cohort.load import NotComparable, beside
from updp.pipeline.run import deidentify
from updp.release.construction import CHECKED
from updp.review.design import arranged, design, nearest, power
from updp.review.plan import BadPlan, film_bytes, load_plan

#: A policy under which films leave as DICOM files of their own size.
NATIVE = """
[burned_in]
mode = "off"
[image]
size = "native"
format = "source"
min_side = 32
[method]
name = "keep"
[report]
required = false
[gate]
max_quarantined = 1.0
"""


@pytest.mark.parametrize("readers", [1, 3])
@pytest.mark.parametrize(("patients", "washout", "repeats"), [(4, 2, 1), (20, 10, 3), (21, 0, 4), (40, 40, 1)])
def test_two_films_of_a_patient_are_never_within_the_wash_out(key, readers, patients, washout, repeats):
    names = [(f"o{n}", f"r{n}") for n in range(patients)]
    for items in arranged(names, [n % 3 for n in range(patients)], readers, washout, repeats, key, 0):
        seen: dict[str, int] = {}
        for place, item in enumerate(items):
            before = seen.get(item.film[1:])
            assert before is None or place - before >= washout
            seen[item.film[1:]] = place
        assert Counter(item.session for item in items) == {1: patients, 2: patients, 3: repeats}
        assert {item.film for item in items if not item.repeat} == {name for pair in names for name in pair}


def test_which_version_comes_first_is_balanced_within_findings_and_turned_for_the_next_reader(key):
    names = [(f"o{n}", f"r{n}") for n in range(40)]
    strata = [n % 2 for n in range(40)]
    first, second = arranged(names, strata, 2, 20, 4, key, 0)
    starts = [{item.film for item in items if item.session == 1} for items in (first, second)]
    assert not starts[0] & starts[1]
    for stratum in (0, 1):
        assert sum(f"o{n}" in starts[0] for n in range(40) if strata[n] == stratum) == 10


def test_the_key_and_seed_decide_the_order(key):
    names = [(f"o{n}", f"r{n}") for n in range(12)]
    make = lambda k, seed: arranged(names, [0] * 12, 2, 6, 2, k, seed)  # noqa: E731
    assert make(key, 0) == make(key, 0)
    assert make(key, 0) != make(key, 1)
    assert make(key, 0) != make(Key(bytes(32)), 0)


def test_what_a_reader_gets_tells_nothing_of_a_film(study, plan, key):
    handed = plan.hand_out(key, "reader 1")
    assert "original" not in json.dumps(handed)
    assert not any(film.patient in json.dumps(handed) for film in plan.films.values())
    stats = {(path.stat().st_mtime, path.suffix) for path in (study / "films").iterdir()}
    assert len(stats) == 1
    heads = {path.read_bytes()[:33] for path in (study / "films").iterdir()}  # signature, size, depth
    assert len(heads) == 1


def test_a_study_holds_no_identifier(study):
    assert sweep(study) == []


def test_a_plan_comes_back_as_it_was_written(plan, study, key):
    assert nearest(plan) >= plan.washout == 10
    assert load_plan(study, key).digest == plan.digest
    assert set(plan.findings) == {"Effusion", "Nodule"}


@pytest.mark.parametrize("change", [{"washout": 0}, {"simulated": True}, {"findings": ["Hernia", "Mass"]}])
def test_an_altered_plan_is_refused(study, key, change):
    data = json.loads((study / "plan.json").read_text())
    (study / "plan.json").write_text(json.dumps(data | change))
    with pytest.raises(BadPlan, match="altered after it was made"):
        load_plan(study, key)


def test_a_plan_of_another_key_a_damaged_one_and_none_are_refused(study, key, tmp_path):
    with pytest.raises(BadPlan, match="another key"):
        load_plan(study, Key(bytes(32)))
    with pytest.raises(BadPlan, match="no plan"):
        load_plan(tmp_path, key)
    (study / "plan.json").write_text("{")
    with pytest.raises(BadPlan, match="damaged"):
        load_plan(study, key)


def test_a_film_that_was_exchanged_is_refused(study, plan):
    name = next(iter(plan.films))
    (study / "films" / f"{name}.png").write_bytes(b"another")
    with pytest.raises(BadPlan, match="altered"):
        film_bytes(study, plan, name)
    with pytest.raises(BadPlan, match="no such film"):
        film_bytes(study, plan, "../plan")


def test_side_markers_leave_originals_where_released_films_have_none(made, key):
    from updp.review import design as module

    pair = beside(released(made), made / "export", key)

    def painted(tallies):
        line = dict(module._screen(replace(pair, facts={**pair.facts, "tallies": tallies}), key))
        return line["screen"].text.paint_kept

    assert not painted({})
    assert painted({CHECKED: 3})


def pairs(plan):
    names = {(film.patient, film.version): name for name, film in plan.films.items()}
    return [(names[p, "original"], names[p, "released"]) for p in {film.patient for film in plan.films.values()}]


def same(folder, *names):
    first, second = (np.asarray(Image.open(folder / f"{name}.png"), float) for name in names)
    return np.abs(first - second).mean() < 1


def test_films_that_leave_at_their_own_size_are_read_in_one(key, tmp_path):
    for n in range(4):
        film = {"SOPInstanceUID": f"1.2.3.{n}", "StudyInstanceUID": f"1.2.{n}", "SeriesInstanceUID": f"1.2.{n}.0"}
        pixels = (draw(seed=n).astype(np.uint16) * 16).tobytes()
        write_dicom(tmp_path / "export" / f"{n}.dcm", PatientID=f"MRN-{n}", PixelData=pixels, **film)
    policy = Policy.parse(NATIVE)
    ended = deidentify(tmp_path / "export", tmp_path / "out", policy=policy, key=key, workers=1)
    plan = design(ended.folder, tmp_path / "export", tmp_path / "s", key=key, films=4, findings=["Effusion"])
    sizes = [Image.open(tmp_path / "s" / "films" / f"{name}.png").size for name in plan.films]
    assert sizes == [(1024, 1024)] * 8  # a film of another size would tell which version it is
    assert all(same(tmp_path / "s" / "films", *pair) for pair in pairs(plan))


def test_an_altered_release_gives_no_study(made, key, tmp_path):
    film = next((released(made) / "images").rglob("*.png"))
    film.write_bytes(film.read_bytes() + b"x")
    with pytest.raises(NotComparable, match="edited after signing"):
        design(released(made), made / "export", tmp_path / "s", key=key)
    assert not (tmp_path / "s").exists()


def test_wrong_wishes_are_refused_in_a_sentence(made_once, key, tmp_path, study):
    release, source = released(made_once), made_once / "export"
    with pytest.raises(BadPlan, match="no design"):
        design(release, source, tmp_path / "s", key=key, design="open")
    with pytest.raises(BadPlan, match="no finding 'Gout'"):
        design(release, source, tmp_path / "s", key=key, findings=["Gout"])
    with pytest.raises(BadPlan, match="not empty"):
        design(release, source, study, key=key)
    with pytest.raises(BadPlan, match="wash-out is between"):
        design(release, source, tmp_path / "t", key=key, films=10, washout=11)


def test_power_tells_the_interval_of_this_size_and_the_size_for_a_narrow_one():
    small, large = power(120, 3, 0.3), power(1200, 3, 0.3)
    assert small.needed == large.needed > 120
    assert large.margin < small.margin
    assert power(small.needed, 3, 0.3).margin == pytest.approx(0.05)
