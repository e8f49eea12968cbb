"""Reports: find what identifies, replace it, keep every finding.

Example::

    >>> from updp.reports import scan
    >>> [(s.category, s.why) for s in scan("Seen by Dr. Smith.")]
    [('staff', 'title dr')]

``Detector`` finds, ``Cleaner`` replaces, ``scan_lines`` reads a corpus, ``lexicon`` holds the word lists,
``surrogates`` what stands in their place. Stands between screening and image in the flow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_PUBLIC = {
    "Cleaner": "clean",
    "CleanedReport": "clean",
    "CorpusCounts": "corpus",
    "Detector": "detect",
    "LayerMissing": "lexicon",
    "Retention": "retention",
    "Span": "words",
    "render": "corpus",
    "scan": "detect",
    "scan_lines": "corpus",
}
__all__ = [
    "CleanedReport",
    "Cleaner",
    "CorpusCounts",
    "Detector",
    "LayerMissing",
    "Retention",
    "Span",
    "render",
    "scan",
    "scan_lines",
]

if TYPE_CHECKING:
    from updp.reports.clean import CleanedReport, Cleaner
    from updp.reports.corpus import CorpusCounts, render, scan_lines
    from updp.reports.detect import Detector, scan
    from updp.reports.lexicon import LayerMissing
    from updp.reports.retention import Retention
    from updp.reports.words import Span


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(f"updp.reports.{_PUBLIC[name]}"), name)
    raise AttributeError(f"module 'updp.reports' has no attribute {name!r}")
