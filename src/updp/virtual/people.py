"""Invented people: patients, and the hospital with those who work there."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from updp.core.record import Sex

if TYPE_CHECKING:
    import numpy as np
    from faker import Faker

from updp.virtual.chance import pick, stream, word_lists
from updp.virtual.ledger import Canary, Ledger


@dataclass(frozen=True, slots=True)
class Person:
    """An invented patient."""

    given: str
    family: str
    sex: Sex
    birth: dt.date
    mrn: str
    other_id: str
    insurance: str
    street: str
    city: str
    phone: str
    written: str = ""  # the name in the person's own script, where that is not Latin

    @property
    def title(self) -> str:
        return "Mrs." if self.sex == "F" else "Mr."

    @property
    def dicom_name(self) -> str:
        latin = f"{self.family}^{self.given}"
        return f"{latin}={self.written}" if self.written else latin


@dataclass(frozen=True, slots=True)
class House:
    """The hospital itself and the people who work there."""

    name: str
    street: str
    city: str
    department: str
    doctors: tuple[tuple[str, str], ...]  # given, family
    technologists: tuple[tuple[str, str], ...]
    phones: tuple[str, ...]
    devices: tuple[tuple[str, str, str, str], ...]  # maker, model, serial number, station


def written_date(day: dt.date, style: int) -> str:
    return (f"{day:%m/%d/%Y}", f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%b} {day.year}", f"{day:%Y-%m-%d}")[
        style
    ]


def invent_house(seed: int, ledger: Ledger) -> House:
    draw = stream(seed, "house")
    fake = _faker("en_US", seed, "house")
    family = _distinct(fake)
    name = f"{family} {pick(word_lists()['hospital']['kinds'], draw)}"
    doctors = tuple((fake.first_name(), _distinct(fake)) for _ in range(8))
    technologists = tuple((fake.first_name(), _distinct(fake)) for _ in range(4))
    phones = tuple(_phone(draw) for _ in range(4))
    devices = tuple(
        (maker, model, f"SN{draw.integers(10**6, 10**7)}", f"RAD{draw.integers(1000, 10**4)}{family[:3].upper()}")
        for maker, model in word_lists()["hospital"]["makers"]
    )
    street, city = fake.street_address(), fake.city()
    house = House(
        name, street, city, pick(word_lists()["hospital"]["departments"], draw), doctors, technologists, phones, devices
    )
    ledger.canaries += [Canary("institution", name), Canary("institution", family), Canary("address", street)]
    for kind, crew in (("physician", doctors), ("staff", technologists)):
        for given, last in crew:
            ledger.canaries += [Canary(kind, last), *(Canary(kind, form) for form in _name_forms(given, last))]
    ledger.canaries += [Canary("phone number", phone) for phone in phones]
    for _, _, serial, station in devices:
        ledger.canaries += [Canary("device", serial), Canary("device", station)]
    return house


def invent_person(seed: int, index: int, sex: Sex, ledger: Ledger) -> Person:
    draw = stream(seed, "person", index)
    shares = word_lists()["locales"]
    locale = str(draw.choice(list(shares), p=[n / sum(shares.values()) for n in shares.values()]))
    fake = _faker(locale, seed, "person", index)
    written = ""
    if locale == "ja_JP":
        family, given = _distinct(fake, fake.last_romanized_name), (
            fake.first_romanized_name_female() if sex == "F" else fake.first_romanized_name_male()
        )  # fmt: skip
        written = f"{fake.last_name()}^{fake.first_name_female() if sex == 'F' else fake.first_name_male()}"
    else:
        family = _distinct(fake)
        given = fake.first_name_female() if sex == "F" else fake.first_name_male()
    latin = fake if locale != "ja_JP" else _faker("en_US", seed, "address", index)
    person = Person(
        given=given,
        family=family,
        sex=sex,
        birth=dt.date(1932, 1, 1) + dt.timedelta(days=int(draw.integers(0, 365 * 66))),
        mrn=str(draw.integers(10**7, 10**8)),
        other_id=f"X{draw.integers(10**8, 10**9)}",
        insurance=f"{draw.integers(100, 900)}-{draw.integers(10, 99)}-{draw.integers(1000, 9999)}",
        street=" ".join(latin.street_address().split()),
        city=" ".join(latin.city().split()),
        phone=_phone(draw),
        written=written,
    )
    ledger.canaries += [
        *(Canary("name", form, index) for form in _name_forms(given, family)),
        Canary("name", family, index),
        Canary("record number", person.mrn, index),
        Canary("other id", person.other_id, index),
        Canary("insurance number", person.insurance, index),
        *(Canary("birth date", form, index) for form in (*(written_date(person.birth, n) for n in range(4)),
                                                         f"{person.birth:%Y%m%d}")),
        Canary("address", person.street, index),
        Canary("phone number", person.phone, index),
    ]  # fmt: skip
    if written:
        ledger.canaries.append(Canary("name", written, index))
    return person


def _name_forms(given: str, family: str) -> tuple[str, ...]:
    return f"{given} {family}", f"{family}^{given}", f"{family}, {given}"


@cache
def _taken() -> frozenset[str]:
    """Names that may turn up in a release by design: surrogates, and words of reports."""
    from updp.reports import lexicon

    pool = {plain(name).lower() for names in lexicon.surrogate_names().values() for name in names}
    return frozenset(pool | set(lexicon.vocabulary()))


def _distinct(fake: Faker, draw: Callable[[], str] | None = None) -> str:
    """A family name that is neither a surrogate name nor a common word: found in a release, it leaked."""
    for _ in range(2000):
        name = " ".join((draw or fake.last_name)().split())
        if len(name) >= 6 and name.isalpha() and plain(name).lower() not in _taken():
            return name
    raise RuntimeError("this locale has no family name outside the surrogate pool")


def _phone(draw: np.random.Generator) -> str:
    return f"{draw.integers(201, 989)}-{draw.integers(200, 999)}-{draw.integers(1000, 9999)}"


def _faker(locale: str, seed: int, *parts: object) -> Faker:
    from faker import Faker

    fake = Faker(locale)
    fake.seed_instance(int(stream(seed, locale, *parts).integers(2**63)))
    return fake


def plain(text: str) -> str:
    """Text as a modality prints it: without diacritics."""
    for letter, printed in (("ł", "l"), ("Ł", "L"), ("ß", "ss"), ("ø", "o"), ("Ø", "O")):  # no decomposition in Unicode
        text = text.replace(letter, printed)
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
