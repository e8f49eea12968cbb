"""A restated report: no word beyond the lists leaves, what is counted is kept, and the wording is gone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.core.keys import Key
from updp.core.record import Report
from updp.reports import Cleaner, shared_detector
from updp.reports.lexicon import whitelist, word_class
from updp.reports.retention import compare
from updp.reports.structured import restate

_LISTED = (
    {w for terms in whitelist().values() for t in terms for w in re.findall(r"[a-z]+", t)}
    | word_class("links")
    | word_class("qualities")
)
_TERMS = sorted(t for group, terms in whitelist().items() if group != "eponyms" for t in terms)
_TEXTS = st.lists(
    st.sampled_from(
        [*_TERMS, "12 mm", "3.5 x 2 cm", "Okonkwo", "and", ",", ".", "but", "in the", "\n", "1.5", "[NAME]"]
    ),
    max_size=25,
).map(" ".join)


@pytest.mark.parametrize(
    ("text", "restated"),
    [
        ("There is a small right pleural effusion.", "Small right pleural effusion."),
        ("No evidence of pneumothorax or effusion.", "No evidence of pneumothorax or effusion."),
        ("The heart is normal in size. Nodule in the left lower lobe measuring 12 mm, seen by Okonkwo.",
         "Nodule in left lower lobe measuring 12 mm. Heart is normal in size."),
        ("No effusion, but there is a new opacity.", "New opacity. No effusion."),
        ("Possible pneumonia; a nodule may represent scar.", "Nodule may represent scar. Possible pneumonia."),
        ("Seen by Dr. Okafor. Lungs clear.", "Lungs clear."),
        ("Mrs Kowalczyk came from Lakeside on Monday.", ""),
    ],
)  # fmt: skip
def test_sentences_are_written_from_terms(text: str, restated: str) -> None:
    assert restate(text) == restated


@given(_TEXTS)
def test_everything_the_retention_check_counts_is_kept(text: str) -> None:
    assert compare(text, restate(text)).complete


@given(_TEXTS | st.text(max_size=80))
def test_no_word_beyond_the_lists_leaves(text: str) -> None:
    left = re.sub(
        r"\d+(?:\.\d+)?(?:\s?x\s?\d+(?:\.\d+)?)*\s?-?(?:mm|cm|ml|mg|%|french|degrees)", "", restate(text).lower()
    )
    assert set(re.findall(r"[^\W\d_]+", left)) <= _LISTED
    assert not re.search(r"\d\d", left.replace("covid-19", ""))


@given(_TEXTS)
def test_what_is_restated_stays_as_it_is(text: str) -> None:
    assert restate(restate(text)) == restate(text)


def test_order_of_sentences_says_nothing_of_the_original() -> None:
    assert restate("No effusion. Opacity. Heart normal.") == restate("Heart normal. No effusion. Opacity.")


def test_a_cleaner_restates_and_proves_what_is_kept() -> None:
    report = Report({"findings": "Dr. Kowalczyk saw a 12 mm nodule in the right apex on 3/4/2019. No effusion."})
    cleaned = Cleaner(shared_detector(), Key(bytes(32)), "structured").clean(report, patient_id="p")
    assert cleaned.report.sections == {"findings": "12 mm nodule in right apex. No effusion."}
    assert cleaned.retention.complete
    assert cleaned.counts["staff"] == cleaned.counts["date"] == 1
