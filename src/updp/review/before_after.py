"""A study before and after: its header, its report with every removed span marked, the findings that stayed.

For inside the hospital only: the left side is the patient's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from updp.core.record import Report
from updp.reports.categories import HOLE
from updp.reports.lexicon import whitelist

if TYPE_CHECKING:
    from updp.reports import Cleaner, Span


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


def marked_before(
    report: Report, cleaner: Cleaner | None, known: Sequence[str], sections: tuple[str, ...]
) -> list[tuple[str, bool, Markup]]:
    """Section, whether it leaves, and its text with what was removed marked by category."""
    leaving = Report({name: text for name, text in report.sections.items() if name in sections})
    spans = cleaner.spans(leaving, known) if cleaner is not None else {}
    out = []
    for name, text in report.sections.items():
        out.append((name, name in leaving.sections, _marked(text, spans.get(name, ()))))
    return out


def _marked(text: str, spans: Sequence[Span]) -> Markup:
    parts, end = [Markup("")], 0
    for span in spans:
        if span.category == HOLE or span.start < end:
            continue
        parts.append(Markup.escape(text[end : span.start]))
        parts.append(
            Markup('<mark class="gone"><span>{}</span><small>{}</small></mark>').format(
                text[span.start : span.end], span.category.replace("_", " ")
            )
        )
        end = span.end
    parts.append(Markup.escape(text[end:]))
    return Markup("").join(parts)


def marked_after(report: Report) -> list[tuple[str, Markup]]:
    """Section and released text, with every finding that stayed marked."""
    terms = sorted(whitelist()["pathology"], key=len, reverse=True)
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, terms)) + r")\b", re.IGNORECASE)
    out = []
    for name, text in report.sections.items():
        parts, end = [Markup("")], 0
        for found in pattern.finditer(text):
            parts.append(Markup.escape(text[end : found.start()]))
            parts.append(Markup('<mark class="kept">{}</mark>').format(found.group()))
            end = found.end()
        parts.append(Markup.escape(text[end:]))
        out.append((name, Markup("").join(parts)))
    return out
