"""Cleaning: tags or surrogates, sections kept, the patient's own identifiers, nothing of the findings lost,
idempotent.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from updp.core.keys import Key
from updp.core.record import Report
from updp.reports import Cleaner, Detector, shared_detector

KEY = Key(bytes(range(32)))


@pytest.fixture(scope="module")
def detector() -> Detector:
    return shared_detector()


@pytest.fixture(scope="module", params=["tag", "surrogate"])
def cleaner(request: pytest.FixtureRequest, detector: Detector) -> Cleaner:
    return Cleaner(detector, KEY, request.param)


REPORT = Report(
    {
        "indication": "93-year-old woman, MRN 1234567, seen by Dr. John Okafor on 3/4/2019.",
        "findings": "No pneumothorax. A 4 mm nodule in the left lower lobe. Okafor aware.",
        "impression": "Stable since 13/13/2019. Hodgkin lymphoma. XXXX.",
    }
)


def test_sections_are_kept_and_findings_too(cleaner: Cleaner) -> None:
    cleaned = cleaner.clean(REPORT, patient_id="p1")
    assert list(cleaned.report.sections) == list(REPORT.sections)
    assert "No pneumothorax. A 4 mm nodule in the left lower lobe." in cleaned.report.sections["findings"]
    assert "Hodgkin lymphoma. XXXX." in cleaned.report.sections["impression"]
    assert cleaned.retention.complete
    assert cleaned.retention.before["measurements"] == 1
    assert cleaned.retention.before["negations"] == 1


def test_nothing_that_identifies_is_left(cleaner: Cleaner) -> None:
    text = cleaner.clean(REPORT, patient_id="p1").report.text()
    for word in ("Okafor", "John", "1234567", "3/4/2019", "13/13", "93"):
        assert word not in text


def test_counts_say_what_was_taken_out(cleaner: Cleaner) -> None:
    counts = cleaner.clean(REPORT, patient_id="p1").counts
    assert counts["age"] == 1
    assert counts["mrn"] == 1
    assert counts["date"] == 2
    assert "hole" not in counts


def test_tags_are_typed(detector: Detector) -> None:
    cleaned = Cleaner(detector, KEY, "tag").clean(REPORT, patient_id="p1").report
    assert cleaned.sections["indication"] == "[AGE]-year-old woman, MRN [MRN], seen by [STAFF] on [DATE]."
    assert cleaned.sections["findings"].endswith("[NAME] aware.") or cleaned.sections["findings"].endswith(
        "[STAFF] aware."
    )


def test_names_of_one_patient_are_no_code_book_for_another(detector: Detector) -> None:
    cleaner = Cleaner(detector, KEY, "surrogate")
    text = "Patient: Adebayo Okonkwo. Seen by Dr. Kowalczyk."
    made = [cleaner.clean(Report({"a": text}), patient_id=f"p{i}").report.sections["a"] for i in range(8)]
    patients = {re.search(r"Patient: (.+?)\. Seen", one)[1] for one in made}
    staff = {re.search(r"by (.+)\.", one)[1] for one in made}
    assert len(patients) > 4
    assert len(staff) == 1


def test_a_doctor_has_one_name_in_a_report_with_and_without_the_title(detector: Detector) -> None:
    text = "Seen by Dr. Kowalczyk. Kowalczyk will call."
    made = Cleaner(detector, KEY, "surrogate").clean(Report({"a": text}), patient_id="p").report.sections["a"]
    name = re.search(r"Dr\. (\w+)", made)[1]
    assert made.count(name) == 2


def test_surrogates_are_the_same_in_all_sections_and_reports(detector: Detector) -> None:
    cleaner = Cleaner(detector, KEY)
    one = cleaner.clean(REPORT, patient_id="p1").report
    other = cleaner.clean(Report({"findings": "Seen by Okafor, John, MD."}), patient_id="p2").report.sections[
        "findings"
    ]
    given, surname = one.sections["indication"].partition("Dr. ")[2].split()[:2]
    assert one.sections["findings"].endswith(f"{surname} aware.")
    assert other == f"Seen by {surname}, {given}, MD."
    assert "90+" in one.sections["indication"]


@pytest.mark.parametrize("known", [("CYST^MARY", "1234567"), ("Mary Cyst",)])
def test_a_name_that_is_a_finding_goes_only_where_a_name_stands(cleaner: Cleaner, known: tuple[str, ...]) -> None:
    report = Report(
        {
            "findings": "Cyst, Mary was seen. Renal cyst unchanged. Cyst in the left kidney. Mrs Cyst agrees. "
            "No cysts elsewhere."
        }
    )
    cleaned = cleaner.clean(report, patient_id="p1", known=known)
    text = cleaned.report.sections["findings"]
    assert "Renal cyst unchanged. Cyst in the left kidney." in text
    assert "No cysts elsewhere." in text
    assert "Cyst, Mary" not in text
    assert "Mrs Cyst" not in text
    assert cleaned.retention.complete


def test_the_patients_own_name_goes_even_inside_a_finding(cleaner: Cleaner) -> None:
    report = Report({"findings": "The zanthora effusion of QUIBBLESWORTH is large; quibblesworth's nodule 7741-982."})
    text = cleaner.clean(report, patient_id="p1", known=("Quibblesworth^Zanthora", "7741982")).report.text().lower()
    for word in ("zanthora", "quibblesworth", "7741", "982"):
        assert word not in text
    assert "effusion" in text
    assert "nodule" in text


def test_look_alike_letters_do_not_hide_the_patients_own_name(cleaner: Cleaner) -> None:
    report = Report({"findings": "Quibbleswоrth has a mass."})
    assert "Quibblesw" not in cleaner.clean(report, patient_id="p1", known=("Quibblesworth^Z",)).report.text()


def test_cleaning_a_clean_report_changes_nothing(cleaner: Cleaner) -> None:
    once = cleaner.clean(REPORT, patient_id="p1")
    twice = cleaner.clean(once.report, patient_id="p1")
    assert twice.report == once.report
    assert twice.seal == once.seal


def test_a_seal_is_known_to_another_cleaner_of_the_same_key_only(detector: Detector) -> None:
    once = Cleaner(detector, KEY).clean(REPORT, patient_id="p1")
    again = Cleaner(detector, KEY).clean(once.report, patient_id="p1", seal=once.seal)
    assert again.report == once.report
    forged = Cleaner(detector, KEY).clean(REPORT, patient_id="p1", seal="00" * 32)
    assert forged.report != REPORT


_SENTENCES = st.lists(
    st.sampled_from(
        [
            "Seen by Dr. Okafor on 3/4/2019.",
            "No effusion.",
            "Patient: Nkosi, Thandiwe",
            "MRN 1234567",
            "at 14:32",
            "A 93-year-old man.",
            "Left lower lobe mass.",
            "Call (317) 456-7890.",
            "XXXX",
            "Mercy General Hospital",
            "lives in Boston, MA 02115",
            "13/13/2019",
            "Hodgkin",
            "smith",
            "her daughter Griselda",
            "since May",
            "[NAME]",
            "zz",
            "Ward 7B",
        ]
    ),
    max_size=8,
).map("\n".join)


@settings(max_examples=60, deadline=None)
@given(_SENTENCES | st.text(max_size=120), st.sampled_from(["tag", "surrogate"]))
def test_cleaning_is_idempotent(text: str, mode: str) -> None:
    cleaner = Cleaner(shared_detector(), KEY, mode)  # type: ignore[arg-type]
    once = cleaner.clean(Report({"findings": text}), patient_id="p1").report
    assert cleaner.clean(once, patient_id="p1").report == once


def test_an_unknown_mode_is_refused(detector: Detector) -> None:
    with pytest.raises(ValueError, match="'surrogate', 'tag' or 'structured'"):
        Cleaner(detector, KEY, "blank")  # type: ignore[arg-type]


def test_an_empty_report_stays_empty(cleaner: Cleaner) -> None:
    cleaned = cleaner.clean(Report({"findings": "", "impression": "  "}), patient_id="p1")
    assert cleaned.report.sections == {"findings": "", "impression": "  "}
    assert not cleaned.counts


def test_initials_follow_the_names_they_stand_for(detector: Detector) -> None:
    report = Report({"findings": "John Smith (J. Smith, JS) was seen by Jane Okafor. Read by J.O. PA view and CT."})
    text = Cleaner(detector, KEY).clean(report, patient_id="p1", known=("SMITH^JOHN",)).report.sections["findings"]
    given, surname = text.split()[:2]
    assert f"({given[0]}. {surname}, {given[0]}{surname[0]})" in text
    staff = text.partition("seen by ")[2].partition(".")[0].split()
    assert f"Read by {staff[0][0]}.{staff[1][0]}." in text
    assert text.endswith("PA view and CT.")
