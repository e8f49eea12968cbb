"""The text a film is described by: report sentences with every identifier gone, or sentences composed from labels.

A label says no side; where the film itself shows one (`updp.training.zones`), the sentence names it.
Sentences that state a finding come first, since a long prompt is cut at its end.
No age, sex, date or name is ever part of it: a generator cannot learn to draw what its prompts never hold.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from updp.core.record import Report
from updp.domains.chest.labels import FINDINGS, LABELS
from updp.domains.chest.words import compose, phrases

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from updp.reports import Detector
    from updp.training.zones import Place

_APPEARANCES = ("Typical Appearance", "Indeterminate Appearance", "Atypical Appearance")
_VIEWS, _SIDES = ("PA", "AP"), ("right", "left", "bilateral")
_ZONES, _SIZES = ("upper", "mid", "lower"), ("small", "moderate", "large")
#: What a sentence can say, in the order of the generator's attribute head.
ATTRIBUTES = (*FINDINGS, "Lung Opacity", "Normal", *_APPEARANCES, *_VIEWS, *_SIDES, *_ZONES, *_SIZES)

# A title is no end of a sentence: the name after it must go with it.
_SENTENCE = re.compile(r"(?<!\bDr\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bMrs\.)(?<=[.!?])\s+", re.IGNORECASE)
_ENUMERATION = re.compile(r"^\s*\d+\s*[.)]\s*")
# A sentence with any of these is dropped whole: a placeholder marks a hole where an identifier was, numbers of
# four digits are years or record numbers, and the words name a person, an age, a sex, a date or a place.
_IDENTIFYING = re.compile(
    r"XXXX|_{2,}|\d{4,}|\d+[/-]\d+|\b(?:year|years|y/o|yo|old|male|female|man|woman|boy|girl|gentleman|lady|he|she|his|"
    r"her|dr|doctor|mr|mrs|ms|phone|telephone|discussed|notified|hospital|clinic|january|february|march|april|june|"
    r"july|august|september|october|november|december|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
    re.IGNORECASE,
)
SECTIONS = ("findings", "impression")


def clean_sentences(report: Report, detector: Detector | None = None) -> list[str]:
    """The findings and impression sentences that hold nothing identifying, each once, in order.

    `detector` looks at each section as a whole; a sentence that touches anything it finds is dropped too.
    """
    seen: dict[str, None] = {}
    for section in SECTIONS:
        text = report.sections.get(section, "")
        found = [(span.start, span.end) for span in detector.spans(text)] if detector is not None else []
        start = 0
        for end in [*(gap.start() for gap in _SENTENCE.finditer(text)), len(text)]:
            sentence = _ENUMERATION.sub("", text[start:end]).strip()
            touched = any(a < end and b > start for a, b in found)
            if len(sentence) > 3 and not touched and not _IDENTIFYING.search(sentence):
                seen.setdefault(sentence)
            start = end
    return list(seen)


def findings_first(sentences: Sequence[str]) -> list[str]:
    """Sentences that state a finding, then all others, each in the order of the report."""
    from updp.reports.findings import findings_in_sentence

    stated = [any(finding.present for finding in findings_in_sentence(sentence)) for sentence in sentences]
    order = sorted(range(len(sentences)), key=lambda i: not stated[i])
    return [sentences[i] for i in order]


def encode_statements(words: Collection[str], complete: bool) -> NDArray[np.int8]:
    """For each attribute 1 where a text states it, 0 where it excludes it, -1 where it leaves it open.

    `complete`: a finding that the text does not name is absent. Of views, sides, zones and sizes, one that is named
    excludes the others.
    """
    normal = "Normal" in words
    out = {name: -1 for name in ATTRIBUTES}
    if complete or normal:
        out.update(dict.fromkeys(FINDINGS, 0))
    if normal:
        out.update(dict.fromkeys(("Lung Opacity", *_APPEARANCES), 0))
    elif set(words) & {*FINDINGS, "Lung Opacity", *_APPEARANCES}:
        out["Normal"] = 0
    for group in (_APPEARANCES, _VIEWS, _SIDES, _ZONES, _SIZES):
        if set(words) & set(group):
            out.update(dict.fromkeys(group, 0))
    out.update(dict.fromkeys(words, 1))
    return np.array([out[name] for name in ATTRIBUTES], np.int8)


def report_words(text: str) -> set[str] | None:
    """The attributes that the words of a report state: findings, or that there are none; None where that is open."""
    from updp.reports.findings import labels_of

    labels = labels_of(text, LABELS)
    if labels is None:
        return None
    return set(labels) & set(ATTRIBUTES) if labels else {"Normal"}


def describe(
    sentences: Sequence[str], findings: Sequence[str] | None, view: str, rng: np.random.Generator
) -> tuple[str, bool]:
    """Text for one film, and whether it is the film's own: report sentences where it has them, else composed ones.

    A labelled film with a report gets a composed text now and then, so that both ways of saying it mean the same.
    """
    if sentences and (findings is None or rng.random() < 0.7):
        kept = [s for s in sentences if rng.random() < 0.9] or list(sentences)
        if rng.random() < 0.3:
            kept = [kept[i] for i in rng.permutation(len(kept))]
        return " ".join(kept), True
    return compose(findings or (), view, rng), False


def located(finding: str, place: Place, rng: np.random.Generator) -> tuple[str, set[str]]:
    """A sentence that names a finding with its side, if that is known, and, now and then, its zone and size; and what
    it says."""
    said, words = phrases(), {finding}
    kinds = {kind: said[kind][finding] for kind in ("countable", "mass", "plural") if finding in said[kind]}
    noun, kind = _one([(noun, kind) for kind, nouns in kinds.items() for noun in nouns], rng)
    parts = []
    if place.side is None or rng.random() < 0.5:
        parts.append(_one(said["countable_sizes" if kind == "countable" else "mass_sizes"][place.size], rng))
        words.add(place.size)
    if place.side is not None:
        parts.append(place.side)
        words.add(place.side)
    if place.zone is not None and rng.random() < 0.6:
        zone = _one(said["zones"][place.zone], rng)
        if noun.startswith("lung "):
            noun = noun.removeprefix("lung ")
        parts.append(zone)
        words.add(place.zone)
    if kind == "countable" and place.side == "bilateral":
        noun, kind = _plural(noun), "plural"
    text = " ".join([*parts, noun])
    are = "are" if kind == "plural" else "is"
    article = "a " if kind == "countable" else ""  # no size and no side begins with a vowel sound
    start = text[0].upper() + text[1:]
    return _one([f"{start}.", f"There {are} {article}{text}.", f"{start} {are} seen."], rng), words


def _plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "es" if noun.endswith("s") else noun + "s"


def _one(choices: Sequence[Any], rng: np.random.Generator) -> Any:
    return choices[int(rng.integers(len(choices)))]


def tell(
    observed: Sequence[str], view: str, places: Mapping[str, Place], rng: np.random.Generator
) -> tuple[str, set[str]]:
    """A short report of what was observed, and what it says, in `ATTRIBUTES`.

    `places` names side, zone and size of the findings for which the film shows them; most sentences then say so.
    """
    said = phrases()
    sentences, words = [], set()
    for name in observed:
        if name in places and rng.random() < 0.75:
            text, more = located(name, places[name], rng)
        elif LABELS.find(name) is not None:
            text, more = _one(LABELS.phrases(name), rng), {name}
        else:  # a label of one source alone has no meaning for the others
            continue
        sentences.append(text)
        words |= more
    if not observed:
        words.add("Normal")
        kinds = [k for k in ("film", "lungs", "heart", "pleura") if rng.random() < 0.5] or ["film"]
        sentences += [_one(said["normal"][k], rng) for k in kinds]
    elif set(observed) & set(FINDINGS) and "Cardiomegaly" not in observed and rng.random() < 0.2:
        sentences.append(_one(said["normal"]["heart"], rng))
    sentences = [sentences[i] for i in rng.permutation(len(sentences))]
    if view in said["views"] and rng.random() < 0.5:
        sentences.insert(0, _one(said["views"][view], rng))
        words.add(view)
    return " ".join(sentences), words & set(ATTRIBUTES)
