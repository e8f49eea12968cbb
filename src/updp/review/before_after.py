"""A study before and after: its header, its report with every removed span marked, the findings that stayed.

For inside the hospital only: the left side is the patient's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from updp.core.record import Report
from updp.reports.categories import HOLE
from updp.reports.lexicon import whitelist

if TYPE_CHECKING:
    from updp.reports import Cleaner, Span

#: Spans that are taken out, for every section that leaves.
Removed = Mapping[str, Sequence["Span"]]


def header_rows(before: Any, after: Any) -> list[tuple[str, str | None, str | None]]:
    """Name, value in the hospital, value in the release for every attribute; None: it is not there.

    Items of sequences stand below their sequence. What the release added stands at the end.
    """
    old, new = dict(_values(before)), {} if after is None else dict(_values(after))
    out: list[tuple[str, str | None, str | None]] = []
    for name, value in old.items():
        out.append((_NAMED.sub("", name), value, new.get(name) or None))
    hidden = sum(element.tag.is_private for element in before.iterall())
    if hidden:
        out.append(("Private elements", str(hidden), None))
    out += [(_NAMED.sub("", name), None, value) for name, value in new.items() if name not in old]
    return out


#: The tag that tells two attributes of one name apart, before the name.
_NAMED = re.compile(r"\([0-9A-F]{4},[0-9A-F]{4}\) ")


def _values(header: Any, above: str = "") -> Iterator[tuple[str, str]]:
    """Tag and name, below those of its sequences, and value of every attribute that is not private and not pixels."""
    for element in header:
        if element.tag.is_private or element.VR in _BINARY:
            continue
        name = f"{above}({element.tag.group:04X},{element.tag.element:04X}) {element.name}"
        if element.VR == "SQ":
            yield name, f"{len(element.value)} items"
            for n, item in enumerate(element.value, start=1):
                yield from _values(item, f"{name} {n} › ")
        else:
            several = element.VM > 1  # written as the standard writes them
            yield name, "\\".join(map(str, element.value)) if several else str(element.value)


#: Values that nobody reads: pixels, curves, tables.
_BINARY = frozenset({"OB", "OD", "OF", "OL", "OV", "OW"})


def removed(report: Report, cleaner: Cleaner | None, known: Sequence[str], sections: tuple[str, ...]) -> Removed:
    """What is taken out of each section that leaves."""
    leaving = Report({name: text for name, text in report.sections.items() if name in sections})
    spans = cleaner.spans(leaving, known) if cleaner is not None else {}
    return {name: _apart(spans.get(name, ())) for name in leaving.sections}


def _apart(spans: Sequence[Span]) -> list[Span]:
    """Spans of something that was removed, none within another."""
    out: list[Span] = []
    for span in spans:
        if span.category != HOLE and (not out or span.start >= out[-1].end):
            out.append(span)
    return out


def marked_before(report: Report, gone: Removed) -> list[tuple[str, bool, Markup]]:
    """Section, whether it leaves, and its text with what was removed marked by category."""
    return [(name, name in gone, _marked(text, gone.get(name, ()))) for name, text in report.sections.items()]


def _marked(text: str, spans: Sequence[Span]) -> Markup:
    parts, end = [Markup("")], 0
    for span in spans:
        parts.append(Markup.escape(text[end : span.start]))
        parts.append(
            Markup('<mark class="gone"><span>{}</span><small>{}</small></mark>').format(
                text[span.start : span.end], span.category.replace("_", " ")
            )
        )
        end = span.end
    parts.append(Markup.escape(text[end:]))
    return Markup("").join(parts)


def marked_after(report: Report, before: Report | None, gone: Removed) -> list[tuple[str, Markup]]:
    """Section and released text, with every finding that stayed marked, and what stands where something was removed."""
    out = []
    for name, text in report.sections.items():
        old = before.sections.get(name, "") if before is not None else ""
        parts, end = [Markup("")], 0
        for low, high in _stand_ins(old, gone.get(name, ()), text):
            parts += [_with_findings(text[end:low]), Markup('<mark class="stands">{}</mark>').format(text[low:high])]
            end = high
        out.append((name, Markup("").join([*parts, _with_findings(text[end:])])))
    return out


def _stand_ins(old: str, spans: Sequence[Span], new: str) -> list[tuple[int, int]]:
    """Places of the released text that are not in the one before; none where the two do not fit each other."""
    kept: list[str] = []
    end = 0
    for span in spans:
        if any(map(str.isalnum, old[end : span.start])) or not kept:
            kept.append(old[end : span.start])
        end = span.end
    out: list[tuple[int, int]] = []
    at = 0
    for n, part in enumerate([*kept, old[end:]]):
        last = n == len(kept)
        place = len(new) - len(part) if last else new.find(part, at)
        if place < at or not new.startswith(part, place) or (n == 0 and place):
            return []
        if n:
            out.append((at, place))
        at = place + len(part)
    return [(low, high) for low, high in out if low < high]


def _with_findings(text: str) -> Markup:
    parts, end = [Markup("")], 0
    for found in _findings().finditer(text):
        parts.append(Markup.escape(text[end : found.start()]))
        parts.append(Markup('<mark class="kept">{}</mark>').format(found.group()))
        end = found.end()
    return Markup("").join([*parts, Markup.escape(text[end:])])


@cache
def _findings() -> re.Pattern[str]:
    terms = sorted(whitelist()["pathology"], key=len, reverse=True)
    return re.compile(r"\b(" + "|".join(map(re.escape, terms)) + r")\b", re.IGNORECASE)
