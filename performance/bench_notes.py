"""Notes nobody tuned to: whole-span recall by class, characters taken too many, speed; real reports left alone.

    python performance/bench_notes.py [--part untouched] [--names FILE] [--iu FOLDER] [--rounds 20] [--errors N]

An identifier counts as found when every letter and digit of it lies in spans. Characters too many are letters and
digits in a span and in no identifier, as a fraction of all that are in none. ``--iu`` is a folder with the IU X-Ray
``reports.csv``: every span in one of its reports that is no hole is printed and counted. ``--second`` scores the
second detector, which only has to touch an identifier: it refuses a report and cuts nothing.
Texts a second are processor time of one core.
"""

from __future__ import annotations

import argparse
import csv
import gc
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import notes

Find = Callable[[str], list[tuple[int, int]]]


class Score:
    """Recall by class and by field, and characters taken too many."""

    def __init__(self, touch: bool = False) -> None:
        self.touch = touch
        self.total: Counter[str] = Counter()
        self.hit: Counter[str] = Counter()
        self.plain = self.taken = 0
        self.errors: list[str] = []

    def add(self, row: dict[str, Any], spans: list[tuple[int, int]]) -> None:
        text = row["text"]
        covered, gold = bytearray(len(text)), bytearray(len(text))
        for start, end in spans:
            covered[start:end] = b"\1" * (end - start)
        for s in row["spans"]:
            start, end = s["start"], s["end"]
            gold[start:end] = b"\1" * (end - start)
            whole = (any if self.touch else all)([covered[i] for i in range(start, end) if text[i].isalnum()])
            for key in (s["category"], s["field"]):
                self.total[key] += 1
                self.hit[key] += whole
            if not whole:
                self.errors.append(f"missed {s['field']}: {_show(text, start, end)}")
        for i, c in enumerate(text):
            if c.isalnum() and not gold[i]:
                self.plain += 1
                self.taken += covered[i]
        for start, end in spans:
            if any(text[i].isalnum() and not gold[i] for i in range(start, end)):
                self.errors.append(f"too much: {_show(text, start, end)}")

    def recall(self, key: str) -> float:
        return self.hit[key] / self.total[key] if self.total[key] else float("nan")


def _show(text: str, start: int, end: int) -> str:
    return repr(f"{text[max(0, start - 40) : start]}<<{text[start:end]}>>{text[end : end + 25]}")


def _first() -> Find:
    from updp.reports import Detector

    detector = Detector()
    return lambda text: [(s.start, s.end) for s in detector.spans(text) if s.category != "hole"]


def _second() -> Find:
    from updp.release.residual import residual_spans

    return lambda text: [(s.start, s.end) for s in residual_spans(text, mode="tag")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["tuned", "untouched"], default="untouched")
    parser.add_argument("--names", type=Path, help="further names, 'given surname' a line, in no list of the product")
    parser.add_argument("--iu", type=Path, help="folder of the IU X-Ray reports.csv")
    parser.add_argument("--rounds", type=int, default=20, help="times each carrier is filled")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--errors", type=int, default=0, help="print this many errors")
    parser.add_argument("--second", action="store_true", help="score the second detector")
    args = parser.parse_args()
    further = (
        [(a, b) for a, b in (line.split(" ", 1) for line in args.names.read_text().splitlines())] if args.names else []
    )
    rows = notes.make(args.part, args.rounds, args.seed, further)
    find = _second() if args.second else _first()
    gc.freeze()
    start = time.process_time()
    found = [find(row["text"]) for row in rows]
    seconds = time.process_time() - start
    score = Score(args.second)
    for row, spans in zip(rows, found, strict=True):
        score.add(row, spans)
    kinds = sorted(set(notes.KIND.values()))
    whole = sum(score.hit[k] for k in kinds) / sum(score.total[k] for k in kinds)
    print(f"{args.part}: {len(rows)} notes, {sum(score.total[k] for k in kinds)} identifiers")
    print("| class | identifiers | found whole |\n|---|---:|---:|")
    for kind in kinds:
        print(f"| {kind} | {score.total[kind]} | {score.recall(kind):.4f} |")
    print(f"| all | {sum(score.total[k] for k in kinds)} | {whole:.4f} |")
    fields = sorted((f for f in notes.KIND if score.total[f]), key=score.recall)
    print("by field: " + ", ".join(f"{f} {score.recall(f):.3f}" for f in fields if score.recall(f) < 0.999))
    print(f"characters too many: {score.taken} of {score.plain} ({100 * score.taken / score.plain:.2f} %)")
    print(f"{len(rows) / seconds:.0f} notes a second ({sum(len(r['text']) for r in rows) / seconds / 1e6:.2f} MB/s)")
    for line in score.errors[: args.errors]:
        print(line)
    if args.iu:
        _untouched(args.iu / "reports.csv", find)


def _untouched(path: Path, find: Find) -> None:
    texts = []
    with path.open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            texts.append("\n".join(row[k] for k in ("indication", "findings", "impression") if row[k]))
    start = time.process_time()
    found = [find(text) for text in texts]
    seconds = time.process_time() - start
    spans = [text[a:b] for text, pieces in zip(texts, found, strict=True) for a, b in pieces]
    print(f"IU reports: {len(texts)}, spans {len(spans)}: {spans}; {len(texts) / seconds:.0f} a second")


if __name__ == "__main__":
    main()
