"""Report PHI: recall, precision and speed on corpora with known identifiers; presidio-analyzer in the same run.

    python performance/refill.py --reports NLMCXR_reports.tgz --out CORPUS
    python performance/reports.py CORPUS [--presidio PYTHON --model SPACY_MODEL] [--sample 200]

An identifier counts as found when every letter and digit of it lies in a span; a span counts as right when it touches
an identifier. Whitelist terms lost are counted after cleaning with tags. Reports a second are processor time of one
core, with nothing remembered from an earlier run; presidio runs in its own interpreter on the first ``--sample``
texts of each corpus, timed the same way, and its ratio is to updp on the same texts.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

#: Groups of the requirement: these four are held to 0.995.
STRICT = ("name", "id", "date", "contact")

_PRESIDIO = r"""
import json, sys, time
import spacy
from presidio_analyzer import AnalyzerEngine
from presidio_analyzer.nlp_engine import SpacyNlpEngine
class Engine(SpacyNlpEngine):
    def __init__(self, model):
        super().__init__(); self.nlp = {"en": spacy.load(model)}
analyzer = AnalyzerEngine(nlp_engine=Engine(sys.argv[1]), supported_languages=["en"])
texts = json.load(sys.stdin)
analyzer.analyze(texts[0], language="en")
start = time.process_time()
found = [[(r.start, r.end, r.entity_type) for r in analyzer.analyze(t, language="en")] for t in texts]
json.dump({"seconds": time.process_time() - start, "found": found}, sys.stdout)
"""


def load(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line]


class Score:
    """Recall by group and precision over spans."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        self.hit: Counter[str] = Counter()
        self.right = self.wrong = 0
        self.errors: list[str] = []

    def add(self, row: dict[str, Any], spans: list[tuple[int, int]]) -> None:
        text = row["text"]
        covered, gold = bytearray(len(text)), bytearray(len(text))
        for start, end in spans:
            covered[start:end] = b"\1" * (end - start)
        for s in row["spans"]:
            start, end = s["start"], s["end"]
            gold[start:end] = b"\1" * (end - start)
            self.total[s["category"]] += 1
            if all(covered[i] for i in range(start, end) if text[i].isalnum()):
                self.hit[s["category"]] += 1
            else:
                self.errors.append(f"missed {s['category']}: {_show_place(text, start, end)}")
        for start, end in spans:
            if any(gold[start:end]):
                self.right += 1
            else:
                self.wrong += 1
                self.errors.append(f"wrong: {_show_place(text, start, end)}")

    def recall(self, *groups: str) -> float:
        keys = groups or tuple(self.total)
        n = sum(self.total[k] for k in keys)
        return sum(self.hit[k] for k in keys) / n if n else float("nan")

    @property
    def precision(self) -> float:
        return self.right / (self.right + self.wrong) if self.right + self.wrong else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path, help="folder of JSON lines made by refill.py (or of the same form)")
    parser.add_argument("--presidio", type=Path, help="a Python interpreter that has presidio-analyzer")
    parser.add_argument("--model", type=Path, help="folder of a spaCy model for presidio")
    parser.add_argument("--sample", type=int, default=150, help="texts of each corpus for presidio")
    parser.add_argument("--errors", type=int, default=0, help="print this many errors of each corpus")
    args = parser.parse_args()

    from updp.core.keys import Key
    from updp.core.record import Report
    from updp.reports import Cleaner, Detector

    rows = []
    for path in sorted(args.corpus.glob("*.jsonl")):
        corpus = load(path)
        detector = Detector()
        gc.freeze()  # the corpus with its known identifiers is the benchmark's, and no load of the detector
        start = time.process_time()
        found = [detector.spans(row["text"]) for row in corpus]
        seconds = time.process_time() - start
        gc.unfreeze()
        score = Score()
        for row, spans in zip(corpus, found, strict=True):
            score.add(row, [(s.start, s.end) for s in spans if s.category != "hole"])
        cleaner = Cleaner(detector, Key(b"benchmark key, protects nothing!"), "tag")
        lost: Counter[str] = Counter()
        for row in corpus:
            outside = _outside(row)
            kept = cleaner.clean(Report({"text": row["text"]}), patient_id="p").report.sections["text"]
            lost.update(_lost(outside, kept))
        characters = sum(len(r["text"]) for r in corpus) / len(corpus)
        rows.append([path.stem, "updp", len(corpus), score, len(corpus) / seconds, lost, characters, 1.0])
        for line in score.errors[: args.errors]:
            print(f"{path.stem}: {line}", file=sys.stderr)
        if lost:
            print(f"{path.stem}: whitelist terms lost: {dict(lost)}", file=sys.stderr)
        if args.presidio:
            sample = corpus[: args.sample]
            start = time.process_time()
            fresh = Detector()
            start = time.process_time()
            for row in sample:
                fresh.spans(row["text"])
            ours = time.process_time() - start
            made = subprocess.run(
                [str(args.presidio), "-c", _PRESIDIO, str(args.model)],
                input=json.dumps([row["text"] for row in sample]),
                capture_output=True,
                text=True,
                check=True,
            )
            answer = json.loads(made.stdout)
            theirs = Score()
            for row, spans in zip(sample, answer["found"], strict=True):
                theirs.add(row, [(a, b) for a, b, _ in spans])
            rows.append(
                [
                    path.stem,
                    "presidio",
                    len(sample),
                    theirs,
                    len(sample) / answer["seconds"],
                    None,
                    0.0,
                    answer["seconds"] / ours,
                ]
            )

    head = [
        "corpus",
        "tool",
        "texts",
        "identifiers",
        "names",
        "ids",
        "dates",
        "contact",
        "all",
        "precision",
        "terms lost",
        "texts/s",
    ]
    print("| " + " | ".join(head) + " |")
    print("|---|---|" + "---:|" * (len(head) - 2))
    for name, tool, n, score, speed, lost, _, ratio in rows:
        cells = [name, tool, str(n), str(sum(score.total.values()))]
        cells += [_show(score.recall(g)) for g in STRICT]
        cells += [_show(score.recall()), _show(score.precision), "" if lost is None else str(sum(lost.values()))]
        cells.append(f"{speed:.0f}" if tool == "updp" else f"{speed:.0f} (1/{ratio:.0f})")
        print("| " + " | ".join(cells) + " |")


def _show_place(text: str, start: int, end: int) -> str:
    return repr(f"{text[max(0, start - 30) : start]}<<{text[start:end]}>>{text[end : end + 20]}")


def _show(value: float) -> str:
    return "" if value != value else f"{value:.4f}"


def _outside(row: dict[str, Any]) -> str:
    text = row["text"]
    for s in row["spans"]:
        text = text[: s["start"]] + " " * (s["end"] - s["start"]) + text[s["end"] :]
    return text


def _lost(before: str, after: str) -> Counter[str]:
    from updp.reports.retention import count

    return count(before)[1] - count(after)[1]


if __name__ == "__main__":
    main()
