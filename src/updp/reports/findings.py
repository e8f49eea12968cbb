"""What a report says of each finding, present or denied, and the labels that follow from it.

A lexical reader that needs no weights: terms of the whitelist, negation by NegEx-like scopes (Chapman et al. 2001) and
the phrases in ``data/findings.toml``. ``labels_of`` gives a film that its source does not label the labels that its
report states; they are derived, and everything that publishes them says so.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from updp.domains.labels import LabelTable
from updp.reports.language import ENGLISH, language
from updp.reports.lexicon import LayerMissing, read_data, whitelist

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
    doubt_before: re.Pattern[str]
    doubt_after: re.Pattern[str]
    normal: re.Pattern[str]
    labels: Mapping[str, str]  # finding to the label that says it under another name


@lru_cache(maxsize=1)
def _grammar() -> _Grammar:
    try:
        data = tomllib.loads(read_data("findings.toml").decode())
    except tomllib.TOMLDecodeError as error:
        raise LayerMissing("the report detector's data file findings.toml is damaged; reinstall updp") from error
    names = {term: term for term in whitelist()["pathology"] - frozenset(data["not_findings"])}
    names.update({term: name for name, terms in data["concepts"].items() for term in terms})

    def phrases(table: Mapping[str, Sequence[str]]) -> tuple[tuple[str, re.Pattern[str]], ...]:
        return tuple((name, re.compile(rf"\b(?:{p})\b")) for name, patterns in table.items() for p in patterns)

    negation = {key: _any_of(words) for key, words in data["negation"].items()}
    doubt = {f"doubt_{key}": _any_of(words) for key, words in data["doubt"].items()}
    normal = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in data["normal"]))
    return _Grammar(
        names, _any_of(names), phrases(data["phrases"]), phrases(data["denials"]), **negation, **doubt,
        normal=normal, labels=data["labels"],
    )  # fmt: skip


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
    return frozenset(_stated(_plain(sentence), grammar))


def _plain(sentence: str) -> str:
    return " ".join(re.sub(r"[,:()\[\]\"]", " ", sentence.lower()).split())


def _stated(text: str, grammar: _Grammar, doubt: bool = False) -> Iterator[Finding]:
    """The findings of a sentence; with ``doubt``, those alone that it states in doubt."""
    # Blanked with equal length, so that offsets stay and "no change" is not read as "no".
    unread = grammar.not_negations.sub(lambda m: "#" * len(m.group()), text)
    denied = list(_scopes(unread, grammar.before, grammar.after, grammar.ends))
    doubted = list(_scopes(text, grammar.doubt_before, grammar.doubt_after, grammar.ends)) if doubt else []
    for name, start, end in _mentions(text, grammar):
        inside = grammar.before.search(unread[start:end]) is not None
        present = not (inside or any(low <= start < high for low, high in denied))
        if not doubt or (present and any(low <= start < high for low, high in doubted)):
            yield Finding(name, present)
    if not doubt:
        yield from (Finding(name, False) for name, pattern in grammar.denials if pattern.search(text))


def _mentions(text: str, grammar: _Grammar) -> Iterator[tuple[str, int, int]]:
    for match in grammar.terms.finditer(text):
        yield grammar.names[match.group()], *match.span()
    for name, pattern in grammar.phrases:
        for match in pattern.finditer(text):
            yield name, *match.span()


def _scopes(
    text: str, before: re.Pattern[str], after: re.Pattern[str], stops: re.Pattern[str]
) -> Iterator[tuple[int, int]]:
    """What words before and after a finding reach: to the end of the sentence, or a word that ends their reach."""
    ends = [match.span() for match in stops.finditer(text)]
    behind = [match.span() for match in after.finditer(text)]
    for low, _ in behind:
        yield max((end for _, end in ends if end <= low), default=0), low
    for match in before.finditer(text):
        low = match.end()
        if any(start <= match.start() < end for start, end in behind):
            continue  # "not seen" denies what came before, nothing that follows
        yield low, min((start for start, _ in ends if start >= low), default=len(text))


def findings(report: str) -> frozenset[Finding]:
    """Everything a report states or denies; a finding can be both, on two sides of the chest."""
    return frozenset().union(*(findings_in_sentence(s) for s in sentences(report)))


def labels_of(report: str, table: LabelTable) -> tuple[str, ...] | None:
    """The labels that a report states, in the order of the table; () where it finds nothing.

    None where that is not known: the report is empty or not English, says nothing of any finding, or states only
    findings that the table has no name for or that are in doubt ("possible pneumonia"). A finding in doubt is no label.
    """
    if language(report) != ENGLISH:
        return None
    grammar = _grammar()
    present: set[str] = set()
    said = uncertain = False
    for sentence in sentences(report):
        text = _plain(sentence)
        doubted = {found.name for found in _stated(text, grammar, doubt=True)}
        for found in _stated(text, grammar):
            said = True
            if not found.present:
                continue
            label = table.find(grammar.labels.get(found.name, found.name))
            if label is None or found.name in doubted:
                uncertain = True
            else:
                present.add(label.name)
        said = said or grammar.normal.search(text) is not None
    if present:
        return tuple(name for name in table.names if name in present)
    return () if said and not uncertain else None
