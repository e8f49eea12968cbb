"""The conformance statement follows the policy and the tables."""

from __future__ import annotations

from pathlib import Path

from updp.core.policy import Policy
from updp.screening import conformance, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "reference" / "dicom-conformance.md"


def test_it_names_edition_and_options():
    text = conformance(Policy())
    assert f"edition {tables.edition()}" in text
    assert "| 113100 | Basic Application Confidentiality Profile | yes |" in text
    assert "| 113110 | Retain UIDs Option | no |" in text
    assert "MODIFIED" in text


def test_it_follows_the_policy():
    policy = Policy.parse("[header]\nretain_uids = true\nretain_longitudinal = false\n[burned_in]\nmode = 'off'\n")
    text = conformance(policy)
    assert "| 113110 | Retain UIDs Option | yes |" in text
    assert "| 113101 | Clean Pixel Data Option | no |" in text
    assert "(0028,0303) is REMOVED" in text
    assert "**unchecked**" in text


def test_it_counts_the_rows_of_the_table():
    rows = len(tables.read_tsv("e11.tsv"))
    assert f"{rows} attributes" in conformance(Policy())


def test_the_published_statement_is_that_of_the_default_policy():
    assert DOCUMENT.read_text("utf-8") == conformance(Policy())
