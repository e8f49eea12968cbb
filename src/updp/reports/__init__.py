"""Reports: find what identifies, replace it, keep every finding.

Example::

    >>> from updp.reports import scan
    >>> [(s.category, s.why) for s in scan("Seen by Dr. Smith.")]
    [('staff', 'title dr')]

``Detector`` finds, ``Cleaner`` replaces, ``scan_lines`` reads a corpus, ``lexicon`` holds the word lists,
``surrogates`` what stands in their place. Runs between the stations screen and image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from updp.core.lazy import lazy_names

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
    "shared_detector",
]

if TYPE_CHECKING:
    from updp.reports.clean import CleanedReport, Cleaner
    from updp.reports.corpus import CorpusCounts, render, scan_lines
    from updp.reports.detect import Detector, scan, shared_detector
    from updp.reports.lexicon import LayerMissing
    from updp.reports.retention import Retention
    from updp.reports.words import Span

__getattr__ = lazy_names(
    __name__,
    {
        "Cleaner": "updp.reports.clean",
        "CleanedReport": "updp.reports.clean",
        "CorpusCounts": "updp.reports.corpus",
        "Detector": "updp.reports.detect",
        "LayerMissing": "updp.reports.lexicon",
        "Retention": "updp.reports.retention",
        "Span": "updp.reports.words",
        "render": "updp.reports.corpus",
        "scan": "updp.reports.detect",
        "scan_lines": "updp.reports.corpus",
        "shared_detector": "updp.reports.detect",
    },
)
