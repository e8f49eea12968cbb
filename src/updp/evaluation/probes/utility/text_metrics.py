"""How close generated reports are to real ones: BLEU, ROUGE-L, METEOR, and BERTScore and RadGraph-F1 where weights are.

Every figure comes in two conventions that must never be compared with each other: the raw text (cased, mteval-13a
tokens, as sacrebleu reads it) and R2Gen's (lower case, no punctuation, rare words and long ends cut away in the
reference too), which scores higher and is what most report-generation papers print. Measures are kept as sums over
reports, so that an interval over patients is one matrix product.

BLEU: Papineni et al. 2002, in the form of the COCO caption evaluation. ROUGE-L: Lin 2004, in COCO's form (beta 1.2) and
in rouge-score's (F1). METEOR 1.5: Denkowski and Lavie 2014, by its own Java program. All values are between 0 and 1.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from updp.core.cache import Cache, key_of
from updp.core.measurement import Floats, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.utility import require
from updp.evaluation.statistics import averaged, mean
from updp.models.errors import MissingRequirement

Patients = Sequence[Hashable] | NDArray[Any]
Style = Literal["iu_xray", "mimic_cxr"]
UNKNOWN = "<unk>"
R2GEN = "R2Gen-normalised"
NAMES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "ROUGE-L COCO", "ROUGE-L F1", "METEOR")


def checked(references: Sequence[str], hypotheses: Sequence[str], patients: Patients | None = None) -> None:
    """Refuse texts that cannot be compared: unequal numbers, texts that are none, empty references."""
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references for {len(hypotheses)} hypotheses")
    if patients is not None and len(patients) != len(references):
        raise ValueError(f"{len(patients)} patients for {len(references)} reports")
    for what, texts in (("references", references), ("hypotheses", hypotheses)):
        if isinstance(texts, str):
            raise ValueError(f"{what}: give a list of reports, not one text")
        if bad := sum(not isinstance(t, str) for t in texts):
            raise ValueError(f"{what}: {bad} of {len(texts)} are no text")
    if bad := sum(not t.strip() for t in references):
        raise ValueError(f"references: {bad} of {len(references)} are empty; leave these studies out")


# Conventions ---------------------------------------------------------------------------------------------------------

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_13A = (
    (re.compile(r"([!-&(-+/:-@\[-`{-~])"), r" \1 "),  # ASCII punctuation, but for ' , - .
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),  # a full stop or comma, unless between digits
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def tokens_13a(text: str) -> list[str]:
    """Tokens of NIST's mteval-v13a, case kept: the raw-text convention."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    text = f" {text} "
    for pattern, spaced in _13A:
        text = pattern.sub(spaced, text)
    return text.split()


def tokens_rouge(text: str) -> list[str]:
    """Tokens of rouge-score without stemming: lower-case runs of a-z and 0-9."""
    return re.findall(r"[a-z0-9]+", text.lower())


# R2Gen's character class holds the range from ":" to "[" where a hyphen was meant, so hyphens stay.
_R2GEN_DROPPED = re.compile(r"[.,?;*!%^&_+():<=>@\[\]{}]")
_R2GEN_QUOTES = re.compile(r"[\"/\\']")


def clean_r2gen(report: str, style: Style = "iu_xray") -> str:
    """A report as R2Gen reads it: lower case, no enumeration and punctuation, sentences joined by " . "."""
    if style == "mimic_cxr":
        report = re.sub(" {2,}", " ", re.sub("_{2,}", "_", report.replace("\n", " ")))
    report = re.sub(r"\.{2,}", ".", report).replace("1. ", "")
    for item in "2345":
        report = report.replace(f". {item}. ", ". ")
    for item in "2345":
        report = report.replace(f" {item}. ", ". ")
    sentences = (_R2GEN_DROPPED.sub("", _R2GEN_QUOTES.sub("", s).strip()) for s in report.strip().lower().split(". "))
    return " . ".join(sentences) + " ."


@dataclass(frozen=True, slots=True)
class R2Gen:
    """R2Gen's normalisation: clean, words rarer than ``threshold`` in the training reports to <unk>, cut to length.

    ``length`` is R2Gen's ``max_seq_length``, which counts the begin mark too: one word fewer is left.
    """

    vocabulary: frozenset[str]
    length: int = 60
    style: Style = "iu_xray"

    @classmethod
    def fit(
        cls,
        training_reports: Iterable[str],
        style: Style = "iu_xray",
        threshold: int | None = None,
        length: int | None = None,
    ) -> R2Gen:
        """The vocabulary of the training reports; thresholds 3 (IU) and 10 (MIMIC), lengths 60 and 100, as R2Gen's."""
        if style not in ("iu_xray", "mimic_cxr"):
            raise ValueError(f"R2Gen knows the styles iu_xray and mimic_cxr, not {style!r}")
        least = threshold if threshold is not None else {"iu_xray": 3, "mimic_cxr": 10}[style]
        counts = Counter(word for report in training_reports for word in clean_r2gen(report, style).split())
        if not counts:
            raise ValueError("R2Gen's vocabulary needs training reports: there are none")
        vocabulary = frozenset(word for word, count in counts.items() if count >= least)
        return cls(vocabulary, length or {"iu_xray": 60, "mimic_cxr": 100}[style], style)

    def __call__(self, report: str) -> str:
        words = clean_r2gen(report, self.style).split()
        return " ".join(w if w in self.vocabulary else UNKNOWN for w in words[: self.length - 1])


# BLEU ----------------------------------------------------------------------------------------------------------------


def bleu_counts(references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]], order: int = 4) -> Floats:
    """One row per report: matching n-grams 1..order, n-grams 1..order of the hypothesis, its length, the
    reference's."""
    rows = np.zeros((len(references), 2 * order + 2))
    for row, reference, hypothesis in zip(rows, references, hypotheses, strict=True):
        for n in range(1, order + 1):
            ours, theirs = _ngrams(hypothesis, n), _ngrams(reference, n)
            row[n - 1] = sum((ours & theirs).values())
            row[order + n - 1] = max(0, len(hypothesis) - n + 1)
        row[-2:] = len(hypothesis), len(reference)
    return rows


def _ngrams(tokens: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def bleu_of_counts(counts: ArrayLike, n: int = 4, weights: ArrayLike | None = None) -> Any:
    """Corpus BLEU-n of summed counts, with the two small constants by which COCO avoids division by zero."""
    counts = np.asarray(counts, dtype=np.float64)
    order = (counts.shape[1] - 2) // 2
    total = counts.sum(axis=0)[None] if weights is None else np.atleast_2d(weights) @ counts
    matched, guessed = total[:, :order], total[:, order : 2 * order]
    precision = (matched + 1e-15) / (guessed + 1e-9)
    score = np.prod(precision[:, :n], axis=1) ** (1 / n)
    brevity = (total[:, -2] + 1e-15) / (total[:, -1] + 1e-9)
    score = score * np.exp(np.minimum(0, 1 - 1 / brevity))
    return score if weights is not None and np.ndim(weights) == 2 else float(score[0])


# ROUGE-L -------------------------------------------------------------------------------------------------------------


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Its length, by Hyyrö's bit-parallel recurrence: one big-integer step per word."""
    where: dict[str, int] = {}
    for i, word in enumerate(first):
        where[word] = where.get(word, 0) | 1 << i
    full = (1 << len(first)) - 1
    row = full
    for word in second:
        hit = row & where.get(word, 0)
        row = ((row + hit) | (row - hit)) & full
    return len(first) - row.bit_count()


def rouge_l(reference: Sequence[str], hypothesis: Sequence[str], beta: float = 1.0) -> float:
    """ROUGE-L of one report: beta 1 is rouge-score's F1, beta 1.2 COCO's."""
    common = longest_common_subsequence(reference, hypothesis)
    if not common:
        return 0.0
    precision, recall = common / len(hypothesis), common / len(reference)
    return (1 + beta**2) * precision * recall / (recall + beta**2 * precision)


# METEOR --------------------------------------------------------------------------------------------------------------

#: METEOR 1.5's English parameters for ranking: alpha, beta, gamma, delta; weights of exact, stem, synonym, paraphrase.
_METEOR = (0.85, 0.2, 0.6, 0.75)
_METEOR_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])


def meteor_counts(references: Sequence[str], hypotheses: Sequence[str]) -> Floats:
    """METEOR 1.5's own counts of each report, from its Java program as pycocoevalcap ships it."""
    module = require("pycocoevalcap.meteor.meteor", "METEOR", "pycocoevalcap")
    if shutil.which("java") is None:
        raise MissingRequirement("METEOR 1.5 is a Java program, and no java is on the path")
    checked(references, hypotheses)
    scorer = module.Meteor()
    try:
        lines = [scorer._stat(_one_line(h), [_one_line(r)]) for r, h in zip(references, hypotheses, strict=True)]
    finally:
        scorer.meteor_p.kill()
    rows = [[float(x) for x in line.split()] for line in lines]
    if any(len(row) != 23 for row in rows):
        raise MissingRequirement("METEOR's Java program stopped before its last report; does it have 2 GB of memory?")
    counts = np.array(rows).reshape(-1, 23)
    # METEOR adds no chunk for a report it matched whole and in one piece.
    whole = (counts[:, 21] == counts[:, 0]) & (counts[:, 22] == counts[:, 1]) & (counts[:, 20] == 1)
    counts[whole, 20] = 0
    return counts


def _kept_counts(references: list[str], hypotheses: list[str], cache: Cache | None) -> Floats:
    """``meteor_counts``, which takes seconds to start, or those of the same reports kept from before."""
    key = key_of("METEOR 1.5", references, hypotheses)
    held = cache.get(key) if cache is not None else None
    if held is None:
        held = {"counts": meteor_counts(references, hypotheses)}
        if cache is not None:
            cache.put(key, held)
    return held["counts"]


def _one_line(text: str) -> str:
    """The program reads one line per report and ||| between fields; neither may come from a report."""
    return " ".join(text.replace("|", " ").split())


def meteor_of_counts(counts: ArrayLike, weights: ArrayLike | None = None) -> Any:
    """Corpus METEOR 1.5 of summed counts."""
    alpha, beta, gamma, delta = _METEOR
    counts = np.asarray(counts, dtype=np.float64)
    total = counts.sum(axis=0)[None] if weights is None else np.atleast_2d(weights) @ counts
    matched = total[:, 4:20].reshape(-1, 4, 4)  # module x (content, function) x two texts
    ours = (delta * matched[:, :, 0] + (1 - delta) * matched[:, :, 2]) @ _METEOR_WEIGHTS
    theirs = (delta * matched[:, :, 1] + (1 - delta) * matched[:, :, 3]) @ _METEOR_WEIGHTS
    lengths = delta * (total[:, :2] - total[:, 2:4]) + (1 - delta) * total[:, 2:4]
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = ours / lengths[:, 0], theirs / lengths[:, 1]
        f_mean = 1 / ((1 - alpha) / precision + alpha / recall)
        fragmentation = total[:, 20] / ((total[:, 21] + total[:, 22]) / 2)
        score = np.nan_to_num(f_mean * (1 - gamma * fragmentation**beta))
    return score if weights is not None and np.ndim(weights) == 2 else float(score[0])


# Measurements --------------------------------------------------------------------------------------------------------


def text_measures(
    references: Sequence[str],
    hypotheses: Sequence[str],
    patients: Patients,
    *,
    seed: int,
    normaliser: R2Gen | None = None,
    java: bool = True,
    draws: int = 1000,
    cache: Cache | None = None,
    repeats: int = 1,
    **options: Any,
) -> list[Measurement]:
    """Every text measure that needs no weights, in raw and, with a ``normaliser``, in R2Gen's text.

    ``java=False`` leaves METEOR out and says so; ``cache`` keeps its counts by content. ``repeats``: so many
    captioners wrote for the same films one after the other, and a figure is the mean of theirs. Further options go to
    `updp.core.measurement.measure`.
    """
    checked(references, hypotheses, patients)
    options = {"seed": seed, "draws": draws, "better": "higher", **options}
    n = len(set(patients))
    texts: dict[str, tuple[list[str], list[str]]] = {"raw": (list(references), list(hypotheses))}
    if normaliser is not None:
        texts[R2GEN] = ([normaliser(r) for r in references], [normaliser(h) for h in hypotheses])
    reason = "there are no reports" if not references else None
    java_reason = None if java else "left out (java=False)"
    meteors: dict[str, Floats] = {}
    if java and not reason:
        try:  # one start of the Java program for both conventions: it reads its tables for longer than it scores
            ours, theirs = ([t for pair in texts.values() for t in pair[side]] for side in (0, 1))
            both = _kept_counts(ours, theirs, cache)
            meteors = dict(zip(texts, np.split(both, len(texts)), strict=True))
        except MissingRequirement as missing:
            java_reason = str(missing)
    out: list[Measurement] = []
    said: dict[str, Any] = {"seed": seed, "regime": options.get("regime")}
    for convention in ("raw", R2GEN):
        why = reason or (None if convention in texts else "R2Gen's vocabulary needs the training reports")
        if why:
            out += [Measurement.missing(name, why, n=n, protocol=convention, **said) for name in NAMES]
            continue
        meteor_rows = meteors.get(convention)
        out += _measures(convention, *texts[convention], patients, meteor_rows, java_reason, repeats, options)
    return out


def _measures(
    convention: str,
    references: list[str],
    hypotheses: list[str],
    patients: Patients,
    meteors: Floats | None,
    java_reason: str | None,
    repeats: int,
    options: dict[str, Any],
) -> list[Measurement]:
    split = tokens_13a if convention == "raw" else str.split
    ours, theirs = [split(h) for h in hypotheses], [split(r) for r in references]
    empty = sum(not h for h in ours)
    options = {**options, "detail": {**options.get("detail", {}), "empty_hypotheses": empty}}

    def missing(name: str, why: str | None) -> Measurement:
        said = {"seed": options["seed"], "regime": options.get("regime"), "protocol": convention}
        return Measurement.missing(name, str(why), n=len(set(patients)), **said)

    def found(name: str, statistic: Callable[..., Any], rows: ArrayLike) -> Measurement:
        return measure(name, averaged(statistic, repeats), patients, rows, protocol=convention, **options)

    counts = bleu_counts(theirs, ours)
    out = []
    for n in range(1, 5):

        def corpus(rows: ArrayLike, weights: ArrayLike | None = None, n: int = n) -> Any:
            return bleu_of_counts(rows, n, weights)

        out.append(found(f"BLEU-{n}", corpus, counts))
    out.append(found("ROUGE-L COCO", mean, [rouge_l(r, h, 1.2) for r, h in zip(theirs, ours, strict=True)]))
    plain = [rouge_l(tokens_rouge(r), tokens_rouge(h)) for r, h in zip(references, hypotheses, strict=True)]
    out.append(found("ROUGE-L F1", mean, plain))
    out.append(missing("METEOR", java_reason) if meteors is None else found("METEOR", meteor_of_counts, meteors))
    return out


# Measures with weights -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Weights:
    """Where the weights of BERTScore and RadGraph-F1 lie; a measure without a folder is left out."""

    bertscore: Path | None = None
    layer: int = 5  # of the encoder of BERTScore
    baseline: Path | None = None
    radgraph: Path | None = None

    def check(self) -> None:
        """Refuse folders without the files that a measure needs."""
        if self.bertscore is not None:
            _check_bert_score(self.bertscore, self.baseline)
        if self.radgraph is not None:
            _check_radgraph(self.radgraph / RADGRAPH)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that ``measures`` gives."""
        bert = () if self.bertscore is None else (_bert_score_name(self.bertscore, self.layer, self.baseline),)
        return bert + (() if self.radgraph is None else _radgraph_names(RADGRAPH))

    def measures(
        self, references: Sequence[str], hypotheses: Sequence[str], patients: Patients, **options: Any
    ) -> list[Measurement]:
        """Every measure that has weights. ``options`` go to `updp.evaluation.intervals.measure`."""
        out = []
        if self.bertscore is not None:
            how: dict[str, Any] = {"weights": self.bertscore, "layer": self.layer, "baseline": self.baseline}
            out.append(bert_score(references, hypotheses, patients, **how, **options))
        if self.radgraph is not None:
            out += radgraph_f1(references, hypotheses, patients, weights=self.radgraph, **options)
        return out


#: The model of RadGraph-F1, as radeval names it.
RADGRAPH = "radgraph-xl"


def bert_score(
    references: Sequence[str],
    hypotheses: Sequence[str],
    patients: Patients,
    *,
    weights: Path,
    layer: int,
    seed: int,
    baseline: Path | None = None,
    **options: Any,
) -> Measurement:
    """BERTScore F1 by radeval, with the encoder in the folder ``weights``; ``baseline`` (a TSV) rescales it.

    Encoder, layer and rescaling are in the name: figures of two settings cannot be compared. It hardly notices a
    flipped negation, so read it beside ``findings_f1``.
    """
    checked(references, hypotheses, patients)
    _check_bert_score(weights, baseline)
    vendor = _radeval("radeval.metrics.bertscore._vendor", "BERTScore")
    scorer = vendor.BERTScorer(
        model_type=str(weights),
        num_layers=layer,
        lang="en" if baseline else None,
        rescale_with_baseline=baseline is not None,
        baseline_path=None if baseline is None else str(baseline),
    )
    _, _, f1 = scorer.score(cands=list(hypotheses), refs=list(references))
    name = _bert_score_name(weights, layer, baseline)
    return measure(name, mean, patients, np.asarray(f1, dtype=np.float64), better="higher", seed=seed, **options)


def radgraph_f1(
    references: Sequence[str],
    hypotheses: Sequence[str],
    patients: Patients,
    *,
    weights: Path,
    seed: int,
    model: str = RADGRAPH,
    **options: Any,
) -> list[Measurement]:
    """RadGraph-F1 by radeval at its three levels; the usual one is partial (RG_ER).

    ``weights`` holds a folder named as the model, with config.json, weights.th and vocabulary/; config.json must name
    the text encoder by a local folder, since nothing is downloaded.
    """
    checked(references, hypotheses, patients)
    _check_radgraph(weights / model)
    # radeval 2.2 imports itself under its former name in the RadGraph it carries.
    sys.modules.setdefault("RadEval", _radeval("radeval", "RadGraph-F1"))
    vendor = _radeval("RadEval.metrics.radgraph", "RadGraph-F1")
    scorer = vendor.F1RadGraph(reward_level="all", model_type=model, model_cache_dir=str(weights))
    levels = scorer(refs=list(references), hyps=list(hypotheses))[1]
    return [
        measure(name, mean, patients, list(scores), better="higher", seed=seed, **options)
        for name, scores in zip(_radgraph_names(model), levels, strict=True)
    ]


def _bert_score_name(weights: Path, layer: int, baseline: Path | None) -> str:
    return f"BERTScore F1 [{weights.name}, layer {layer}, {'rescaled' if baseline else 'not rescaled'}]"


def _radgraph_names(model: str) -> tuple[str, ...]:
    levels = ("simple, RG_E", "partial, RG_ER", "complete, RG_ER-bar")
    return tuple(f"RadGraph-F1 [{model}, {level}]" for level in levels)


def _check_bert_score(weights: Path, baseline: Path | None) -> None:
    _present("BERTScore", weights, ("config.json",))
    if baseline is not None and not baseline.is_file():
        raise MissingRequirement(f"BERTScore: no baseline file {baseline.name} at the path given")


def _check_radgraph(folder: Path) -> None:
    _present("RadGraph-F1", folder, ("config.json", "weights.th", "vocabulary"))
    _encoder_is_local(folder / "config.json")


def _radeval(module: str, measure: str) -> Any:
    """A module of radeval, kept from the download that some of its modules start when imported."""
    try:
        nltk: Any = import_module("nltk")
    except ImportError:
        return require(module, measure, "radeval")
    download = nltk.download
    nltk.download = lambda *names, **options: False
    try:
        return require(module, measure, "radeval")
    finally:
        nltk.download = download


def _present(what: str, folder: Path, files: Sequence[str]) -> None:
    if absent := [f for f in files if not (folder / f).exists()]:
        raise MissingRequirement(f"{what} needs weights in a local folder; {', '.join(absent)} not in {folder}")


def _encoder_is_local(config: Path) -> None:
    import json

    def encoders(node: Any) -> Iterable[str]:
        if isinstance(node, dict):
            for key, value in node.items():
                if key == "model_name" and isinstance(value, str):
                    yield value
                else:
                    yield from encoders(value)

    if remote := sorted({n for n in encoders(json.loads(config.read_text())) if not Path(n).is_dir()}):
        named = f"{config} names the text encoder {', '.join(remote)}"
        raise MissingRequirement(f"RadGraph-F1: {named}, which is no local folder; put its path there")
