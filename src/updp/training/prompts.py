"""The text a film is described by: report sentences with every identifier gone, or sentences composed from labels.

No age, sex, date or name is ever part of it: what a generator is never told it cannot learn to draw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from updp.core.record import Report
from updp.domains.chest.words import compose

if TYPE_CHECKING:
    from updp.reports import Detector

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
