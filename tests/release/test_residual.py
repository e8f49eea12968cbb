"""The second opinion: it finds what was left, passes over surrogates, and shares nothing with the first detector."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import updp.release.residual as module
from updp.core.keys import Key
from updp.core.record import Report
from updp.release.residual import residual_spans
from updp.reports import Cleaner, shared_detector


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Seen by Dr. Okafor today.", [("Okafor", "name")]),
        ("Xzqorr Qumbel was seen.", [("Xzqorr", "name"), ("Qumbel", "name")]),  # names on no list
        ("Jonathan Smith was seen.", [("Jonathan", "name"), ("Smith", "name")]),
        ("Discussed with Wanjiru at noon.", [("Wanjiru", "name")]),
        ("Client name: Paul English", [("Paul English", "name")]),
        ("Sent from Lakeside for CT.", [("Lakeside", "location")]),
        ("Films from UIHC and the ICU.", [("UIHC", "institution")]),
        ("Lives in Vyksa CO with family.", [("Vyksa", "location"), ("CO", "location")]),
        ("MRN 12 34 56, pt is 93, plate ABC 1234.", [("12 34 56", "id"), ("93", "age"), ("ABC 1234", "vehicle")]),
        ("The patient is 1104 months old, in his 93rd year.", [("1104", "age"), ("93rd", "age")]),
        ("Slides cut by hk. Confirmed by ct.", [("hk", "username")]),
        ("Ready for collection bk 14/03/2019", [("bk", "username")]),
        ("Run closed pb", [("pb", "username")]),
        ("Hospital number: 10 50 02", [("10 50 02", "mrn")]),
        ("Member MCM857748568 moved.", [("MCM857748568", "id")]),
        ("Miss Mealoid, 93, day 3.", [("Mealoid", "name"), ("93", "age")]),
        ("Age: ninety-three. Angle ninety degrees.", [("ninety-three", "age")]),
        ("Key 3f2504e0-4f89-11d3-9a0c-0305e82c3301.", [("3f2504e0-4f89-11d3-9a0c-0305e82c3301", "id")]),
        ("Digest 5d41402abc4b2a76b9719d911017c592.", [("5d41402abc4b2a76b9719d911017c592", "id")]),
        ("Write to skype: zanthora.q today.", [("zanthora.q", "username")]),
        ("Then Qu1bbl3sworth fell.", [("Qu1bbl3sworth", "name")]),
        ("Ask @jane_doe or ris-3.internal.", [("@jane_doe", "username"), ("ris-3.internal", "url")]),
        ("Host fe80::1ff:fe23:4567:890a down.", [("fe80::1ff:fe23:4567:890a", "ip")]),
        ("Name: J O H N  S M I T H", [("J O H N  S M I T H", "name")]),
        ("Glenn shunt, Haller index 3.4 and a Blakemore tube; the T-spine is normal.", []),
        ("Attending: Present at bedside. Lungs: Clear bilaterally.", []),
        ("Images from QMC; NGH radiology called.", [("QMC", "institution"), ("NGH", "institution")]),
        ("Lives in Bida, PA.", [("Bida", "location"), ("PA", "location")]),
        ("Typed by wl, minutes by tkato15.", [("wl", "username"), ("tkato15", "username")]),
        ("Records: 5 400 288; camera YZ2279B.", [("5 400 288", "id"), ("YZ2279B", "id")]),
        ("Seen: Miss Georgs, 91, was well.", [("Georgs", "name"), ("91", "age")]),
        ("Typed as is, checked by us. Prior MRI. UTI and LVH. Pain Clinic, General Surgery.", []),
        ("MRN 12345678.", [("12345678", "id")]),
        ("Accession CR-19-12345.", [("CR-19-12345", "id")]),
        ("SSN 123-45-6789.", [("123-45-6789", "ssn")]),
        ("Call 317-456-7890.", [("317-456-7890", "phone")]),
        ("mail mary@hospital.com now", [("mary@hospital.com", "email")]),
        ("see www.hospital.com", [("www.hospital.com", "url")]),
        ("from 10.1.2.3", [("10.1.2.3", "ip")]),
        ("from 10.112.23.34", [("10.112.23.34", "ip")]),
        ("Dr. aware. Dr. ___ called. XXXX.", []),
        ("A 4 mm nodule at T12, BP 120/80, 12.5 x 11.25 cm.", []),
        ("Hodgkin lymphoma with Kerley B lines and a Swan-Ganz catheter.", []),
        ("Seen on 3/14/2019 and March 14.", []),
    ],
)
def test_golden(text: str, wanted: list[tuple[str, str]]) -> None:
    assert [(text[r.start : r.end], r.category) for r in residual_spans(text)] == wanted


def test_dates_count_where_a_release_should_have_none() -> None:
    assert [r.category for r in residual_spans("Seen on 3/14/2019.", mode="tag")] == ["date"]


@pytest.mark.parametrize("mode", ["tag", "surrogate"])
def test_a_cleaned_report_passes(mode: str) -> None:
    text = (
        "Patient: Jonathan Okafor, MRN 12345678, DOB 3/4/1950, SSN 123-45-6789, tel (317) 456-7890, jon@mail.com.\n"
        "Lives at 12 Main Street, Boston, MA 02115. Seen by Dr. Mary Smith at Mercy General Hospital, "
        "accession CR-19-12345.\n"
        "No effusion. A 4 mm nodule in the left lower lobe."
    )
    assert len(residual_spans(text)) >= 6
    cleaned = Cleaner(shared_detector(), Key(bytes(range(32))), mode).clean(Report({"findings": text}), patient_id="p1")  # type: ignore[arg-type]
    assert residual_spans(cleaned.report.text(), mode=mode) == []  # type: ignore[arg-type]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_spans_index_the_text(text: str) -> None:
    for r in residual_spans(text):
        assert 0 <= r.start < r.end <= len(text)


def test_a_long_line_is_read_in_linear_time() -> None:
    assert residual_spans("a" * 1_000_000) == []
    assert len(residual_spans("12345678 " * 50_000)) == 50_000


def test_it_shares_no_code_and_no_list_with_the_first_detector() -> None:
    source = Path(module.__file__).read_text("utf-8")
    imported = {node.module or "" for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)} | {
        alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert not [name for name in imported if name.startswith("updp")]
    reports = Path(module.__file__).parents[1] / "reports"
    first = "".join(
        (reports / f"{m}.py").read_text("utf-8") for m in ("detect", "patterns", "gazetteer", "tagger", "view", "words")
    )
    assert "residual_names" in source
    assert "residual_names" not in first
    for shared in (
        "names.txt.gz",
        "vocabulary.txt.gz",
        "places.txt.gz",
        "whitelist.toml",
        "blacklist.toml",
        "patterns.toml",
        "word_classes",
    ):
        assert f'"{shared}' not in source
