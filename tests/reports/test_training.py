"""Made-up text is labelled right, the same seed makes the same corpus, and training from it works."""

from __future__ import annotations

import csv
import random
from pathlib import Path

from updp.core.record import BENCHMARK_KEY, split_of
from updp.reports import synthesis
from updp.reports.lexicon import names
from updp.reports.rules import Rules
from updp.reports.synthesis import LABELS, Synthesizer, in_training
from updp.reports.tagger import Features, Tagger, write_weights
from updp.reports.train_tagger import encode, forget, sentences

SENTENCES = ["The lungs are clear.", "No pleural effusion."]


def test_the_same_seed_makes_the_same_corpus() -> None:
    one, two = (list(Synthesizer(random.Random(3), SENTENCES).corpus(60)) for _ in range(2))
    assert one == two


def test_spans_cover_what_was_filled_in() -> None:
    maker = Synthesizer(random.Random(1), SENTENCES)
    for item in maker.corpus(300):
        end = 0
        for start, stop, label in sorted(item.spans):
            assert end <= start < stop <= len(item.text)
            assert label in LABELS.values()
            end = stop


def test_every_field_of_every_carrier_can_be_filled() -> None:
    maker = Synthesizer(random.Random(1), SENTENCES)
    for carrier in maker.carriers:
        assert "{" not in maker.one(carrier).text


def test_names_kept_for_tests_are_never_used_for_training() -> None:
    maker = Synthesizer(random.Random(1), SENTENCES)
    assert all(in_training(n) for pool in (*maker.given.values(), *maker.surnames.values()) for n in pool)
    assert 0.15 < sum(not in_training(n) for n in names()) / len(names()) < 0.25


def test_only_the_training_split_of_the_reports_is_read(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    ids = [f"CXR{i}" for i in range(40)]
    with path.open("w", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["id", "indication", "findings", "impression"])
        rows.writerows([key, "Cough.", f"Report of {key} is quite clear.", "XXXX is seen here."] for key in ids)
    wanted = [f"Report of {key} is quite clear." for key in ids if split_of(key, BENCHMARK_KEY) == "train"]
    assert sentences(path) == wanted


def test_training_gives_weights_that_tag(tmp_path: Path) -> None:
    maker = Synthesizer(random.Random(5), SENTENCES)
    rules = Rules()
    features = Features(rules.lexemes)
    rows = [row for item in maker.corpus(250) for row in encode(rules, features, item)]
    write_weights(rows, tmp_path / "a.crfsuite", rounds=15, c1=0.1, c2=0.1)
    assert (tmp_path / "a.features.gz").stat().st_size > 100
    labels = Tagger(tmp_path / "a.crfsuite").tag(rows[0][0])
    assert len(labels) == len(rows[0][1])


def test_carriers_of_training_and_test_are_disjoint() -> None:
    held = Path(__file__).parents[2] / "performance" / "held_out"
    train = set(Synthesizer(random.Random(0), SENTENCES).carriers)
    for path in held.glob("*.txt"):
        lines = {line.replace("\\n", "\n") for line in path.read_text("utf-8").splitlines() if line and line[0] != "#"}
        assert not lines & train
    assert synthesis.LABELS


def test_the_tagger_forgets_neighbours_and_never_the_word_itself() -> None:
    row = [b"w=film", b"ls=g0s0v3x", b"-1w=seen", b"+1w=of", b"-c=seen|x", b"-1l=g0s0v3x"]
    none, some, all_ = (forget([([row] * 200, ["O"] * 200)], share, random.Random(1))[0][0] for share in (0, 0.4, 1))
    assert none == [row] * 200
    assert all(kept == [row[0], row[1], row[5]] for kept in all_)
    left = sum(b"-1w=seen" in kept for kept in some)
    assert 80 < left < 160
    assert all(row[0] in kept for kept in some)
    assert some == forget([([row] * 200, ["O"] * 200)], 0.4, random.Random(1))[0][0]
