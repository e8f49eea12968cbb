"""Cohen's kappa from reader files: figures, missing answers, and files that cannot be used."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from tests.chance import near
from updp.evaluation.probes.utility.agreement import BadReaderFile, agreement, between_readers, cohen_kappa, read

pytestmark = pytest.mark.numeric

HEADER = "reader,release_id,condition,answer"


def write(path, rows, header: str = HEADER):
    path.write_text("\n".join([header, *(",".join(r) for r in rows)]) + "\n", encoding="utf-8")
    return path


def readings(tmp_path, answers, name="a.csv", readers=("r1", "r2", "r3"), condition="Effusion"):
    """One answer a film, given by every reader."""
    rows = [(r, f"f{i}", condition, a) for i, a in enumerate(answers) for r in readers]
    return read(write(tmp_path / name, rows))


def test_kappa_equals_scikit_learn_and_its_weights_repeat_answers():
    g = np.random.default_rng(0)
    a, b = g.integers(0, 3, 80), g.integers(0, 3, 80)
    assert cohen_kappa(a, b) == pytest.approx(cohen_kappa_score(a, b))
    weights = g.integers(0, 3, (4, 80))
    expected = [cohen_kappa_score(np.repeat(a, w), np.repeat(b, w)) for w in weights]
    assert cohen_kappa(a, b, weights) == pytest.approx(expected)


def test_kappa_by_hand():
    a = ["yes"] * 25 + ["no"] * 25
    b = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(a, b) == pytest.approx(0.4)
    assert math.isnan(cohen_kappa(["no"] * 5, ["no"] * 5))
    with pytest.raises(ValueError, match="kappa of no answers"):
        cohen_kappa([], [])


def test_perfect_and_chance_agreement(tmp_path):
    g = np.random.default_rng(1)
    truth = g.choice(["yes", "no"], 120)
    real = readings(tmp_path, truth)
    same, total = agreement(real, readings(tmp_path, truth, "b.csv"), seed=0)
    assert (same.value, same.low, same.chance) == (1, 1, 0)
    assert same.name == "Cohen's kappa, real against released: effusion"
    assert total.value == 1
    guess = agreement(real, readings(tmp_path, g.permutation(truth), "c.csv"), seed=0)[0]
    assert near(guess, 0)
    assert "n = 120 films" in str(guess)


def test_majority_vote_outvotes_one_reader_and_ties_are_left_out(tmp_path):
    rows = []
    for i in range(30):
        truth = "yes" if i % 2 else "no"
        rows += [("r1", f"f{i}", "Mass", truth), ("r2", f"f{i}", "Mass", truth), ("r3", f"f{i}", "Mass", "no")]
    real = read(write(tmp_path / "a.csv", rows))
    assert real.majority("mass")[0]["f1"] == "yes"
    tied = read(write(tmp_path / "b.csv", [r for r in rows if r[0] != "r1"]))
    decided, ties = tied.majority("mass")
    assert (len(decided), ties) == (15, 15)


def test_conditions_are_reported_apart_and_pooled_by_their_mean(tmp_path):
    g = np.random.default_rng(2)
    a, b = g.choice(["yes", "no"], 60), g.choice(["yes", "no"], 60)
    rows = [("r", f"f{i}", "Mass", x) for i, x in enumerate(a)] + [("r", f"f{i}", "Nodule", x) for i, x in enumerate(b)]
    other = [("r", f"f{i}", "Mass", x) for i, x in enumerate(a)]
    other += [("r", f"f{i}", "Nodule", x) for i, x in enumerate(g.permutation(b))]
    found = agreement(read(write(tmp_path / "a.csv", rows)), read(write(tmp_path / "b.csv", other)), seed=0)
    assert [m.name.rpartition(": ")[2] for m in found] == ["mass", "nodule", "all conditions"]
    assert found[0].value == 1
    assert found[2].value == pytest.approx((found[0].value + found[1].value) / 2)


def test_missing_answers_and_films_read_once_are_counted(tmp_path):
    answers = ["yes", "no"] * 20
    gaps = [a if i >= 6 else " N/A " for i, a in enumerate(answers)]
    m = agreement(readings(tmp_path, answers), readings(tmp_path, gaps, "b.csv"), seed=0)[0]
    assert (m.n, m.detail["missing_answers"], m.detail["read_on_one_side_only"]) == (34, 18, 6)
    assert m.value == 1


def test_resampling_patients_widens_the_interval_of_their_films(tmp_path):
    g = np.random.default_rng(3)
    agree = np.repeat(g.random(20) < 0.7, 6)  # a patient's films agree together or not at all
    real = np.where(np.arange(120) % 2 == 0, "yes", "no")
    other = np.where(agree, real, np.where(real == "yes", "no", "yes"))
    a, b = readings(tmp_path, real), readings(tmp_path, other, "b.csv")
    films = agreement(a, b, seed=0)[0]
    patients = agreement(a, b, seed=0, patients={f"f{i}": i // 6 for i in range(120)})[0]
    assert (films.n, patients.n, patients.unit) == (120, 20, "patients")
    assert patients.high - patients.low > 1.5 * (films.high - films.low)
    with pytest.raises(ValueError, match="120 of 120 release ids have no patient"):
        agreement(a, b, seed=0, patients={"x": 1})


def test_outcomes_where_kappa_cannot_be_had(tmp_path):
    always = readings(tmp_path, ["no"] * 30)
    m = agreement(always, always, seed=0)[0]
    assert m.reason == "every answer is the same, so kappa is undefined (raw agreement 100%)"
    few = readings(tmp_path, ["yes", "no", "no"], "b.csv")
    assert "too few films: 3, at least 10 needed" in agreement(few, few, seed=0)[0].reason
    elsewhere = read(write(tmp_path / "c.csv", [("r", "other", "Effusion", "no")]))
    assert agreement(always, elsewhere, seed=0)[0].reason == "no film was read on both sides"


def test_readers_of_one_file_are_compared_in_pairs_and_not_named(tmp_path):
    g = np.random.default_rng(4)
    truth = g.choice(["yes", "no"], 40)
    rows = [(r, f"f{i}", "Mass", a) for r in ("ann", "bob") for i, a in enumerate(truth)]
    rows += [("cyn", f"f{i}", "Mass", a) for i, a in enumerate(g.permutation(truth)[:30])]
    found = between_readers(read(write(tmp_path / "a.csv", rows)), seed=0)
    assert [m.name for m in found] == [
        "Cohen's kappa, reader 1 against reader 2: mass",
        "Cohen's kappa, reader 1 against reader 3: mass",
        "Cohen's kappa, reader 2 against reader 3: mass",
    ]
    assert found[0].value == 1
    assert (found[1].n, found[1].detail["read_by_one_only"]) == (30, 10)
    assert not any(name in str(m.to_json()) for m in found for name in ("ann", "bob", "cyn"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reader,release_id,answer\nr,f,yes\n", "the column condition is missing"),
        ("", "the column reader, release_id, condition, answer is missing"),
        (f"{HEADER}\n", "no answers"),
        (f"{HEADER}\nr,,Mass,yes\n", "line 2: reader, release_id and condition may not be empty"),
        (f"{HEADER}\nr,f1,Mass,yes\nr,f1,mass,no\n", "line 3: this reader has answered this question before"),
    ],
)
def test_files_that_cannot_be_used_name_the_line_and_not_the_answer(tmp_path, text, message):
    path = tmp_path / "readers.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadReaderFile, match=message):
        read(path)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "readers.csv"
    path.write_bytes(b"reader,\xff\xfe\x00")
    with pytest.raises(BadReaderFile, match="not UTF-8"):
        read(path)


def test_spreadsheet_exports_are_read(tmp_path):
    path = tmp_path / "readers.csv"
    path.write_bytes("\ufeffReader,Release_ID,Condition,Answer,Comment\r\nr1,f1,Mass, YES ,fine\r\n".encode())
    assert read(path).answers == {("mass", "f1", "r1"): "yes"}
