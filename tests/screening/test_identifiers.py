"""Identifiers of a header: the patient's own names, numbers and dates, and nothing that names nobody."""

from __future__ import annotations

from pydicom.dataset import Dataset
from pydicom.sequence import Sequence

from tests.screening.objects import element, film, through_file, with_bytes
from updp.screening.identifiers import identifiers


def test_identifiers_are_the_patients_own():
    other = Dataset()
    other.PatientID = "ALT99123"
    ds = film(OtherPatientIDsSequence=Sequence([other]), OperatorsName="Fernsby^Ada", InstitutionName="St Quibble")
    found = identifiers(through_file(ds))
    for wanted in ("Quibblesworth", "Zanthora", "Zanthora Quibblesworth", "M77419", "A5550123", "ALT99123", "Ottermole",
                   "Fernsby", "19440229", "29/02/1944", "02/29/1944", "29 Feb 1944", "St Quibble"):  # fmt: skip
        assert wanted in found
    assert found == sorted(set(found), key=lambda text: (-len(text), text))


def test_identifiers_include_names_in_their_own_script():
    ds = film(SpecificCharacterSet=["", "ISO 2022 IR 87"], PatientName="Yamada^Tarou=山田^太郎")
    assert {"Yamada", "山田", "太郎"} <= set(identifiers(through_file(ds)))


def test_placeholders_and_fragments_are_no_identifiers():
    ds = film(PatientName="ANONYMOUS", PatientID="", ReferringPhysicianName="Li^X", PatientBirthDate="00000000")
    found = identifiers(through_file(ds))
    assert not {"ANONYMOUS", "", "X", "Li"} & set(found)


def test_unreadable_elements_name_nobody():
    ds = with_bytes(element(0x00100010, "SQ", b"\xff\xff\xff\xff"), element(0x00100030, "DA", b"notadate"))
    assert identifiers(ds) == []
