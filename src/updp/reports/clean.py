"""Replace what the detector found: a typed tag, or a surrogate that is the same everywhere in the corpus; or restate
what is left in standard sentences.

The sections of a report are read together, so that a name in the indication is known in the findings, and written back
apart. The patient's own identifiers, known from the header, go wherever they stand; a surname that is also a finding
("Cyst, Mary") goes only where a name stands. Cleaning a clean report changes nothing: tags are recognised by their
form, and a report with surrogates by its seal, a keyed hash that the cleaner remembers and the caller may keep.
"""

from __future__ import annotations

import hmac
import re
from bisect import bisect_right
from collections import Counter, OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from updp.core.reasons import Reason, Refused
from updp.core.record import Report
from updp.reports import surrogates
from updp.reports.categories import HOLE
from updp.reports.detect import Detector
from updp.reports.language import ENGLISH, language
from updp.reports.lexicon import vocabulary, whitelist
from updp.reports.retention import Retention, compare
from updp.reports.structured import restate
from updp.reports.view import View, plain
from updp.reports.words import Span, Tokens

if TYPE_CHECKING:
    from updp.core.keys import Key

Mode = Literal["surrogate", "tag", "structured"]
_JOINT = "\n\n"
_SEALS_REMEMBERED = 65_536
#: Detection is repeated on its own output until nothing new is found, but not for ever.
_ROUNDS = 4
_TITLES = frozenset(["mr", "mrs", "ms", "miss", "mx", "dr", "prof", "patient", "pt", "name"])


@dataclass(frozen=True, slots=True)
class CleanedReport:
    """A report that may leave, what it kept, and what was taken out, by category."""

    report: Report
    retention: Retention
    counts: Mapping[str, int]
    seal: str


class Cleaner:
    """Cleans reports under one key."""

    def __init__(self, detector: Detector, key: Key, mode: Mode = "surrogate") -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode is 'surrogate', 'tag' or 'structured', not {mode!r}")
        self.detector = detector
        self.key = key
        self.mode = mode
        self._seals: OrderedDict[str, None] = OrderedDict()
        self._plain_words = frozenset(t for terms in whitelist().values() for t in terms)

    def clean(
        self,
        report: Report,
        *,
        patient_id: str,
        known: Sequence[str] = (),
        sex: str | None = None,
        seal: str | None = None,
    ) -> CleanedReport:
        """``report`` without identifiers. ``known`` are the patient's own, from the header: name, record number, ...

        ``sex`` ("F" or "M") is the patient's: the given names among ``known`` follow it, as they do in the header.
        ``seal`` is that of an earlier cleaning; a report it fits is returned as it is.
        """
        names = list(report.sections)
        texts = [report.sections[n] for n in names]
        text = _JOINT.join(texts)
        if language(text) != ENGLISH:  # nothing is known of its names: better no report than a half cleaned one
            raise Refused(Reason.REPORT_LANGUAGE)
        if self._is_sealed(patient_id, texts, seal):
            return CleanedReport(report, compare(text, text), {}, self._seal(patient_id, texts))
        own_names = self._known_spans(text, known) if known else []
        spans = self._all_spans(text, own_names)
        year = next(
            (y for s in spans if s.category == "date" if (y := surrogates.date_year(text[s.start : s.end]))), None
        )
        bounds: list[tuple[int, int]] = []
        at = 0
        for part in texts:
            bounds.append((at, at + len(part)))
            at += len(part) + len(_JOINT)
        own = surrogates.name_words(known)
        # Who is staff in one place of a report is staff everywhere in it, or one person would have two names.
        staff = surrogates.name_words(text[s.start : s.end] for s in spans if s.category == "staff") - own
        cleaned = []
        counts: Counter[str] = Counter()
        queue = deque(spans)
        for low, high in bounds:
            out: list[str] = []
            end = low
            while queue and queue[0].start < high:
                span = queue.popleft()
                stop = min(span.end, high)
                if span.end > high:  # a span over the joint of two sections is two spans
                    queue.appendleft(Span(high, span.end, span.category, span.score, span.why))
                start = max(span.start, low)
                if start >= stop or not text[start:stop].strip():
                    continue
                out.append(text[end:start])
                old = text[start:stop]
                if self.mode != "surrogate":
                    made_up = surrogates.tag(span.category)
                elif span.why.startswith("initials "):
                    made_up = surrogates.initials(self.key, old, "" if span.category == "staff" else patient_id)
                else:
                    category = span.category
                    if category == "name" and staff and surrogates.name_words([old]) <= staff:
                        category = "staff"
                    made_up = surrogates.surrogate(
                        self.key, category, old, patient_id=patient_id, sex=sex, own=own, year=year
                    )
                out.append(made_up)
                counts[span.category] += 1
                end = stop
            out.append(text[end:high])
            part = "".join(out)
            cleaned.append(restate(part) if self.mode == "structured" else part)
        result = Report(dict(zip(names, cleaned, strict=True)))
        made = self._seal(patient_id, cleaned)
        if self.mode == "surrogate" and counts:
            self._remember(made)
        # A surname that is also a finding is no finding lost.
        before = _blank(text, [s for s in own_names if s.category == "name"])
        return CleanedReport(result, compare(before, _JOINT.join(cleaned)), dict(counts), made)

    # -- spans -------------------------------------------------------------------------------------------------------

    def spans(self, report: Report, known: Sequence[str] = ()) -> dict[str, list[Span]]:
        """What would be taken out of each section, at places in its own text; the review page shows it."""
        text = _JOINT.join(report.sections.values())
        found = self._all_spans(text, self._known_spans(text, known) if known else [])
        out: dict[str, list[Span]] = {}
        low = 0
        for name, part in report.sections.items():
            high = low + len(part)
            out[name] = [
                span._replace(start=max(span.start, low) - low, end=min(span.end, high) - low)
                for span in found
                if span.start < high and span.end > low
            ]
            low = high + len(_JOINT)
        return out

    def _all_spans(self, text: str, own: list[Span]) -> list[Span]:
        """Spans to replace, ``own`` those of the patient's own identifiers, holes left out; found again and again on
        the tagged text until there is nothing new.
        """
        taken = [s for s in self.detector.spans(text) if s.category != HOLE]
        taken = _add(taken, own) if own else taken
        for _ in range(_ROUNDS):
            if not taken:
                break
            shadow, places = _tagged(text, taken)
            fresh = []
            for span in self.detector.spans(shadow):
                if span.category == HOLE:
                    continue
                start, end = places[span.start], places[span.end - 1] + 1
                if places[span.start] >= 0 and places[span.end - 1] >= 0:
                    fresh.append(Span(start, end, span.category, span.score, span.why))
            if not fresh:
                break
            taken = _add(taken, fresh)
        return taken

    def _known_spans(self, text: str, known: Sequence[str]) -> list[Span]:
        view = plain(text)
        tokens = Tokens(view.text)
        lower = [w.lower().removesuffix("'s") for w in tokens.words]
        parts: set[str] = set()
        numbers: set[str] = set()
        for value in known:
            seen = plain(value).text
            for piece in re.split(r"[\^=,;\s]+", seen):
                if any(c.isdigit() for c in piece):
                    if sum(c.isalnum() for c in piece) >= 3:
                        numbers.add(piece)
                else:
                    parts.update(w.lower() for w in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", piece) if len(w) > 1)
        parts -= _TITLES
        out: list[Span] = []
        words = vocabulary()
        for i, word in enumerate(lower):
            if word not in parts:
                continue
            careful = words.get(word, "0") > "1" or word in self._plain_words or len(word) < 3
            if careful and not self._name_stands(tokens, lower, i, parts):
                continue
            end = tokens.ends[i] - (
                2 if tokens.words[i].lower().endswith("'s") and word != tokens.words[i].lower() else 0
            )
            out.append(_original(view, tokens.starts[i], end, "name", "the patient's own name"))
        for number in numbers:
            pattern = r"[\s./-]?".join(re.escape(c) for c in number if c.isalnum())
            for match in re.finditer(rf"(?<![A-Za-z0-9]){pattern}(?![A-Za-z0-9])", view.text, re.IGNORECASE):
                out.append(_original(view, *match.span(), "mrn", "the patient's own number"))
        return sorted(out, key=lambda s: s.start)

    def _name_stands(self, tokens: Tokens, lower: list[str], i: int, parts: set[str]) -> bool:
        """Whether a known name that is also a word is used as a name: beside another of the names, or behind a
        title.
        """
        if tokens.words[i].islower() and not all(w.islower() for w in tokens.words if w[0].isalpha()):
            return False
        beside = [j for j in (i - 1, i + 1) if 0 <= j < len(lower)]
        if any(lower[j] in parts and lower[j] != lower[i] for j in beside):
            return True
        if i > 0 and lower[i - 1] in (",", "^") and i > 1 and lower[i - 2] in parts:
            return True
        if i + 2 < len(lower) and lower[i + 1] in (",", "^") and lower[i + 2] in parts:
            return True
        before = lower[i - 2] if i > 1 and lower[i - 1] in (".", ":") else lower[i - 1] if i else ""
        return before in _TITLES and not (before in ("patient", "pt") and lower[i - 1] not in (":",))

    # -- seal ----------------------------------------------------------------------------------------------------------

    def _seal(self, patient_id: str, texts: Sequence[str]) -> str:
        return self.key.digest("report seal", patient_id, self.mode, *texts).hex()

    def _is_sealed(self, patient_id: str, texts: Sequence[str], seal: str | None) -> bool:
        mine = self._seal(patient_id, texts)
        return mine in self._seals or (seal is not None and hmac.compare_digest(mine, seal))

    def _remember(self, seal: str) -> None:
        self._seals[seal] = None
        if len(self._seals) > _SEALS_REMEMBERED:
            self._seals.popitem(last=False)


def _blank(text: str, spans: list[Span]) -> str:
    letters = list(text) if spans else []
    for span in spans:
        letters[span.start : span.end] = " " * (span.end - span.start)
    return "".join(letters) if spans else text


def _original(view: View, start: int, end: int, category: str, why: str) -> Span:
    a, b = view.original(start, end)
    return Span(a, b, category, 1.0, why)


def _add(taken: list[Span], more: list[Span]) -> list[Span]:
    """``taken``, which is in order, and what of ``more`` does not overlap it, in order."""
    out = list(taken)
    ends = [t.end for t in taken]
    for span in more:
        at = span.start
        for i in range(bisect_right(ends, at), len(taken)):
            t = taken[i]
            if t.start >= span.end:
                break
            if at < t.start:
                out.append(Span(at, t.start, span.category, span.score, span.why))
            at = max(at, t.end)
        if at < span.end:
            out.append(Span(at, span.end, span.category, span.score, span.why))
    out.sort(key=lambda s: s.start)
    return out


def _tagged(text: str, spans: list[Span]) -> tuple[str, list[int]]:
    """``text`` with tags for spans, and for each character of it the place it came from (-1 inside a tag)."""
    out: list[str] = []
    places: list[int] = []
    end = 0
    for span in spans:
        out.append(text[end : span.start])
        places += range(end, span.start)
        mark = surrogates.tag(span.category)
        out.append(mark)
        places += [-1] * len(mark)
        end = span.end
    out.append(text[end:])
    places += range(end, len(text))
    return "".join(out), places
