"""What reports say of each finding, present or denied, and whether two reports say the same: ``findings_f1``.

A lexical measure that needs no weights: terms of the whitelist, negation by NegEx-like scopes (Chapman et al. 2001)
and the phrases in ``data/findings.toml``. It is neither CheXbert's F1 nor RadGraph's, and bears its own name. Its
point is what n-gram measures and BERTScore miss: "Pleural effusion" is not "No pleural effusion".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from updp.core.measurement import Floats, Measurement
from updp.evaluation.intervals import measure
from updp.evaluation.probes.utility.text_metrics import Patients, checked
from updp.evaluation.statistics import averaged, ratio
from updp.reports.lexicon import whitelist

# The third form is a missing space ("effusion.Heart size"), which would lend one sentence's negation to the next.
_SENTENCE = re.compile(r"(?<!\d)[.!?;]+(?=\s|$)|(?<=\d)[.!?;]+(?=\s+[A-Za-z]|\s*$)|(?<=[a-z])\.(?=[A-Z][a-z])|\n\s*\n")


class Finding(NamedTuple):
    """One finding as a report states it."""

    name: str
    present: bool


class _Grammar(NamedTuple):
    names: Mapping[str, str]  # term to finding
    terms: re.Pattern[str]
    phrases: tuple[tuple[str, re.Pattern[str]], ...]
    denials: tuple[tuple[str, re.Pattern[str]], ...]
    before: re.Pattern[str]
    after: re.Pattern[str]
    not_negations: re.Pattern[str]
    ends: re.Pattern[str]


@lru_cache(maxsize=1)
def _grammar() -> _Grammar:
    data = tomllib.loads((resources.files(__package__) / "data" / "findings.toml").read_text(encoding="utf-8"))
    names = {term: term for term in whitelist()["pathology"] - frozenset(data["not_findings"])}
    names.update({term: name for name, terms in data["concepts"].items() for term in terms})

    def phrases(table: Mapping[str, Sequence[str]]) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple((name, re.compile(rf"\b(?:{p})\b")) for name, patterns in table.items() for p in patterns)

    negation = {key: _any_of(words) for key, words in data["negation"].items()}
    return _Grammar(names, _any_of(names), phrases(data["phrases"]), phrases(data["denials"]), **negation)


def _any_of(terms: Iterable[str]) -> re.Pattern[str]:
    """Any of the terms as whole words, the longest first."""
    longest_first = sorted(terms, key=lambda t: (-len(t), t))
    return re.compile(r"(?<![\w-])(?:" + "|".join(re.escape(t) for t in longest_first) + r")(?![\w-])")


def sentences(report: str) -> list[str]:
    """The sentences of a report; a full stop inside a number ends none."""
    return [s.strip() for s in _SENTENCE.split(report) if s and s.strip()]


def findings_in_sentence(sentence: str) -> frozenset[Finding]:
    """The findings one sentence states or denies."""
    grammar = _grammar()
    text = " ".join(re.sub(r"[,:()\[\]\"]", " ", sentence.lower()).split())
    # Blanked with equal length, so that offsets stay and "no change" is not read as "no".
    unread = grammar.not_negations.sub(lambda m: "#" * len(m.group()), text)
    scopes = list(_scopes(unread, grammar))
    found: set[Finding] = set()
    for name, start, end in _mentions(text, grammar):
        inside = grammar.before.search(unread[start:end]) is not None
        found.add(Finding(name, not (inside or any(low <= start < high for low, high in scopes))))
    found |= {Finding(name, False) for name, pattern in grammar.denials if pattern.search(text)}
    return frozenset(found)


def _mentions(text: str, grammar: _Grammar) -> Iterator[tuple[str, int, int]]:
    for match in grammar.terms.finditer(text):
        yield grammar.names[match.group()], *match.span()
    for name, pattern in grammar.phrases:
        for match in pattern.finditer(text):
            yield name, *match.span()


def _scopes(text: str, grammar: _Grammar) -> Iterator[tuple[int, int]]:
    ends = [match.span() for match in grammar.ends.finditer(text)]
    after = [match.span() for match in grammar.after.finditer(text)]
    for low, _ in after:
        yield max((end for _, end in ends if end <= low), default=0), low
    for match in grammar.before.finditer(text):
        low = match.end()
        if any(start <= match.start() < end for start, end in after):
            continue  # "not seen" denies what came before, nothing that follows
        yield low, min((start for start, _ in ends if start >= low), default=len(text))


def findings(report: str) -> frozenset[Finding]:
    """Everything a report states or denies; a finding can be both, on two sides of the chest."""
    return frozenset().union(*(findings_in_sentence(s) for s in sentences(report)))


def _f1(counts: ArrayLike, weights: ArrayLike | None = None) -> Any:
    counts = np.asarray(counts, dtype=np.float64)
    return ratio(2 * counts[:, 0], counts[:, 1] + counts[:, 2], weights)


def findings_counts(references: Sequence[str], hypotheses: Sequence[str]) -> Floats:
    """A row a report: findings said alike (same name, same polarity), said by the hypothesis, said by the reference."""
    rows = []
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        theirs, ours = findings(reference), findings(hypothesis)
        rows.append((len(theirs & ours), len(ours), len(theirs)))
    return np.array(rows, dtype=np.float64).reshape(-1, 3)


def findings_f1(
    references: Sequence[str],
    hypotheses: Sequence[str],
    patients: Patients,
    *,
    seed: int,
    repeats: int = 1,
    **options: Any,
) -> Measurement:
    """Micro-averaged F1 of (finding, present or denied) over reports; the mean of ``repeats`` captioners' F1."""
    checked(references, hypotheses, patients)
    counts = findings_counts(references, hypotheses)
    alike, ours, theirs = counts.sum(axis=0)
    n = len(set(patients))
    if not ours + theirs:
        why = "no report mentions a finding"
        return Measurement.missing("findings F1", why, n=n, seed=seed, regime=options.get("regime"))
    detail = {
        "precision": alike / ours if ours else 0.0,
        "recall": alike / theirs if theirs else 0.0,
        "findings_in_references": int(theirs),
        "findings_in_hypotheses": int(ours),
    }
    statistic = averaged(_f1, repeats)
    return measure("findings F1", statistic, patients, counts, better="higher", seed=seed, detail=detail, **options)
