"""Train the sequence tagger on made-up identifiers in real report sentences.

    python -m updp.reports.train_tagger --reports REPORTS.csv --out src/updp/reports/data/tagger.crfsuite

``REPORTS.csv`` has the columns id, indication, findings and impression (the layout of the Open-i collection). Only
reports whose id falls into the training split of the public benchmark key are read, so that the others can be tested
on. The same inputs give the same weights.
"""

from __future__ import annotations

import argparse
import csv
import random
import re
from pathlib import Path

from updp.core.record import BENCHMARK_KEY, split_of
from updp.reports.rules import Rules
from updp.reports.synthesis import Labelled, Synthesizer
from updp.reports.tagger import Features, windows, write_weights

_HOLE = re.compile(r"\S*XXXX\S*|_{3,}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


def sentences(path: Path, split: str = "train") -> list[str]:
    """Sentences of the reports of one split, with their holes closed."""
    found: list[str] = []
    with path.open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            if split_of(row["id"], BENCHMARK_KEY) != split:
                continue
            for column in ("indication", "findings", "impression"):
                for sentence in _SENTENCE.split(row[column] or ""):
                    if len(sentence) > 12 and not _HOLE.search(sentence):
                        found.append(sentence.strip())
    return found


def encode(rules: Rules, features: Features, item: Labelled) -> list[tuple[list[list[bytes]], list[str]]]:
    """A labelled text as windows of features and labels, cut as at run time."""
    read = rules.read(item.text)
    labels = ["O"] * len(read.known)
    spans = iter(sorted(item.spans))
    span = next(spans, None)
    previous = None
    for i, (start, end) in enumerate(zip(read.tokens.starts, read.tokens.ends, strict=True)):
        while span and start >= span[1]:
            span = next(spans, None)
        if span and end > span[0] and read.known[i].text[0] not in "\n<":
            labels[i] = ("I-" if previous == span else "B-") + span[2]
            previous = span
        else:
            previous = None
    marked = [i for i, label in enumerate(labels) if label != "O"]
    return [
        (features.rows(read.known, first, last, read.small), labels[first:last])
        for first, last in windows(read.known, read.small, hints=marked)
    ]


#: Features that say which word stands beside or two away, and not of what sort it is.
_NEIGHBOURS = (b"-1w=", b"+1w=", b"-2w=", b"+2w=", b"-c=", b"+c=")


def forget(
    rows: list[tuple[list[list[bytes]], list[str]]], share: float, rng: random.Random
) -> list[tuple[list[list[bytes]], list[str]]]:
    """The windows without a ``share`` of what is told of neighbouring words, drawn for each feature.

    A carrier's own words would otherwise carry most of the weight, and say nothing in a note that has other words (the
    undertraining of weights: Sutton, Sindelar and McCallum, NAACL 2006).
    """
    return [
        ([[f for f in row if not (f.startswith(_NEIGHBOURS) and rng.random() < share)] for row in xs], ys)
        for xs, ys in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--size", type=int, default=60_000, help="texts to make")
    parser.add_argument("--rounds", type=int, default=100, help="L-BFGS iterations")
    parser.add_argument("--c1", type=float, default=0.15)
    parser.add_argument("--c2", type=float, default=0.02)
    parser.add_argument("--forget", type=float, default=0.4, help="share of neighbouring words the tagger is not told")
    parser.add_argument("--seed", type=int, default=20261115)
    args = parser.parse_args()
    maker = Synthesizer(random.Random(args.seed), sentences(args.reports))
    rules = Rules()
    features = Features(rules.lexemes)
    rows = [row for item in maker.corpus(args.size) for row in encode(rules, features, item)]
    rows = forget(rows, args.forget, random.Random(args.seed + 1))
    print(f"{args.size} texts, {len(rows)} windows, {sum(len(y) for _, y in rows)} words")
    write_weights(rows, args.out, rounds=args.rounds, c1=args.c1, c2=args.c2)
    print(f"{args.out}: {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
