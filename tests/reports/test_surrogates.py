"""Surrogates: one person, one name; dates that keep their form and distance; ranges set aside for fiction."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.core.keys import SHIFT_WEEKS, Key
from updp.release.residual import residual_spans
from updp.reports import surrogates
from updp.reports.lexicon import names, places, surrogate_names, vocabulary

KEY = Key(bytes(range(32)))


def test_one_person_has_one_surrogate_in_every_form() -> None:
    first, last = surrogates.person(KEY, "John Smith").split()
    assert surrogates.person(KEY, "Smith, John") == f"{last}, {first}"
    assert surrogates.person(KEY, "SMITH^JOHN") == f"{last}^{first}".upper()
    assert surrogates.person(KEY, "Mr. Smith") == f"Mr. {last}"
    assert surrogates.person(KEY, "john smith, MD") == f"{first} {last}, MD".lower().replace("md", "MD")
    assert surrogates.person(KEY, "J. Smith") == f"{first[0]}. {last}"
    assert surrogates.initials(KEY, "JS") == first[0] + last[0]


def test_a_name_is_drawn_for_each_patient_anew_and_for_staff_once() -> None:
    patients = {surrogates.person(KEY, "John Smith", whose=f"patient {i}") for i in range(12)}
    assert len(patients) > 6
    made = {surrogates.surrogate(KEY, "name", "John Smith", patient_id=f"patient {i}") for i in range(12)}
    assert made == patients
    assert len({surrogates.surrogate(KEY, "staff", "Dr. Smith", patient_id=f"patient {i}") for i in range(12)}) == 1


def test_initials_follow_the_names_of_the_same_patient() -> None:
    first, last = surrogates.person(KEY, "John Smith", whose="a").split()
    assert surrogates.person(KEY, "J. Smith", whose="a") == f"{first[0]}. {last}"
    assert surrogates.initials(KEY, "JS", "a") == first[0] + last[0]


def test_particles_belong_to_the_surname() -> None:
    assert surrogates.person(KEY, "Mr van der Berg").split()[-1] == surrogates.person(KEY, "Berg")


def test_another_key_gives_other_names() -> None:
    others = {surrogates.person(Key(bytes([i] * 32)), "John Smith") for i in range(12)}
    assert len(others) > 6


def test_sex_of_the_name_is_kept() -> None:
    assert surrogates.person(KEY, "Mary").title() in surrogate_names()["F"]
    assert surrogates.person(KEY, "Robert").title() in surrogate_names()["M"]


@pytest.mark.parametrize("name", ["Mary", "Robert", "Robin"])
def test_given_names_follow_the_sex_of_the_person(name: str) -> None:
    pools = surrogate_names()
    assert surrogates.person(KEY, name, "F").title() in pools["F"]
    assert surrogates.person(KEY, name, "M").title() in pools["M"]
    assert surrogates.person(KEY, f"{name} Smith", "F").split()[1] == surrogates.person(KEY, "Smith")
    assert surrogates.person(KEY, name, "O") == surrogates.person(KEY, name)


def test_only_the_patients_own_names_follow_the_patients_sex() -> None:
    own = surrogates.name_words(["SMITH^ROBIN", "Ren\u00e9e's"])
    assert own == {"smith", "robin", "renee"}
    assert surrogates.person(KEY, "Robin's", "F", own) == surrogates.person(KEY, "Robin", "F") + "'s"
    assert surrogates.person(KEY, "Robert", "F", own) == surrogates.person(KEY, "Robert")


@given(st.sampled_from(sorted(names())[::97]))
def test_a_name_is_never_its_own_surrogate(name: str) -> None:
    assert surrogates.person(KEY, name.capitalize()).lower() != name


def test_pool_names_are_no_words_and_no_places() -> None:
    for kind, pool in surrogate_names().items():
        lower = [n.lower() for n in pool]
        assert len(lower) > 500
        assert not set(lower) & set(vocabulary()), kind
        if kind == "surname":
            assert not set(lower) & places()


def test_invented_towns_are_invented() -> None:
    made = surrogates._invented()
    assert not {root.lower() + end for root in made["roots"] for end in made["town_endings"]} & places()


SHIFT = KEY.shift("p1")
MOVED = dt.date(2019, 3, 14) + SHIFT


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("03/14/2019", "%m/%d/%Y"),
        ("2019-03-14", "%Y-%m-%d"),
        ("14.03.2019", "%d.%m.%Y"),
        ("March 14, 2019", "%B {d}, %Y"),
        ("14 Mar 2019", "{d} %b %Y"),
        ("14-MAR-2019", "{d}-%b-%Y"),
        ("03/14/19", "%m/%d/%y"),
        ("2019-03-14T14:32:00", "%Y-%m-%dT14:32:00"),
    ],
)
def test_dates_move_and_keep_their_form(text: str, form: str) -> None:
    wanted = MOVED.strftime(form.format(d=MOVED.day))
    assert surrogates.date(KEY, "p1", text).lower() == wanted.lower()


def test_a_date_object_moves_as_its_text_does() -> None:
    assert surrogates.date(KEY, "p1", dt.date(2019, 3, 14)) == MOVED
    assert surrogates.compact_date(KEY, "p1", "20190314") == f"{MOVED:%Y%m%d}"


@given(st.dates(dt.date(1950, 1, 1), dt.date(2030, 1, 1)), st.integers(0, 400))
def test_intervals_and_weekdays_stay(start: dt.date, days: int) -> None:
    end = start + dt.timedelta(days=days)
    a, b = (dt.date.fromisoformat(surrogates.date(KEY, "p", d.isoformat())) for d in (start, end))
    assert (b - a).days == days
    assert a.weekday() == start.weekday()
    assert SHIFT_WEEKS[0] <= (start - a).days / 7 <= SHIFT_WEEKS[1]


@pytest.mark.parametrize("text", ["13/13/2019", "99/99/9999", "00/00/0000", "2019-02-30"])
def test_what_is_no_date_becomes_a_tag(text: str) -> None:
    assert surrogates.date(KEY, "p1", text) == "[DATE]"


def test_weekdays_stay_and_parts_of_dates_move() -> None:
    assert surrogates.date(KEY, "p1", "Monday") == "Monday"
    assert surrogates.date(KEY, "p1", "2019") in {str(2019 + SHIFT.days // 365 + i) for i in (-1, 0, 1)}
    assert surrogates.date(KEY, "p1", "March") != "March" or MOVED.month == 3


def test_times_go_round_the_clock_and_keep_their_form() -> None:
    moved = surrogates.time(KEY, "p1", "14:32")
    assert moved != "14:32"
    assert len(moved) == 5
    assert surrogates.time(KEY, "p1", "2:15 PM")[-2:] in ("AM", "PM")
    assert surrogates.time(KEY, "p1", "noon") == "[TIME]"


@pytest.mark.parametrize(
    ("category", "text", "wanted"),
    [
        ("age", "97", "90+"),
        ("photo", "photo 3", "[PHOTO]"),
        ("mrn", "p-1", KEY.patient("p1")),  # the patient's own number shows as the pseudonym
    ],
)
def test_fixed_replacements(category: str, text: str, wanted: str) -> None:
    assert surrogates.surrogate(KEY, category, text, patient_id="p1") == wanted


@pytest.mark.parametrize(
    ("category", "text"),
    [
        ("phone", "(317) 555-8899"),
        ("email", "a@b.com"),
        ("ip", "10.1.2.3"),
        ("url", "www.x.org"),
        ("ssn", "123-45-6789"),
        ("mrn", "1234567"),
        ("accession", "CR-19-12345"),
        ("username", "jsmith2"),
        ("location", "Boston"),
        ("name", "John Smith"),
        ("address", "46202"),
    ],
)
def test_surrogates_can_be_told_without_the_key(category: str, text: str) -> None:
    made = surrogates.surrogate(KEY, category, text, patient_id="p1")
    assert made != text
    assert residual_spans(f"Seen at {made} today.") == []  # the receiver has no key
    assert (surrogates.surrogate(KEY, category, text, patient_id="p2") == made) is (category != "name")


def test_a_phone_keeps_its_form_and_is_fictional() -> None:
    assert surrogates.phone(KEY, "(317) 456-7890").startswith("(555) 555-01")


def test_what_is_generic_in_an_institution_stays() -> None:
    made = surrogates.institution(KEY, "Mercy General Hospital")
    assert made.endswith("Hospital")
    assert "Mercy" not in made


@pytest.mark.parametrize(
    "stamp",
    ["2019-03-14T14:32:07Z", "2019-03-14 14:32:07.250", "20190314T143207", "20190314143207.000000", "2019-03-14T14:32"],
)
def test_the_time_of_a_stamp_moves_with_its_date(stamp: str) -> None:
    moved = surrogates.surrogate(Key(bytes(range(32))), "date", stamp, patient_id="p1")
    assert "14:32" not in moved
    assert "1432" not in moved
    assert not moved.startswith(("2019-03-14", "20190314"))
    assert len(moved) > 10


def test_letters_apart_become_a_name() -> None:
    made = surrogates.surrogate(Key(bytes(range(32))), "name", "J O H N  S M I T H", patient_id="p1")
    assert len(made.split()) == 2


def test_dotted_credentials_stay() -> None:
    made = surrogates.surrogate(Key(bytes(range(32))), "staff", "Dr. Ewa Nowak, M.D., Ph.D.", patient_id="p1")
    assert made.startswith("Dr. ")
    assert made.endswith(", M.D., Ph.D.")
