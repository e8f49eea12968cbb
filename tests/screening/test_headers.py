"""The header station: nothing of the patient is left, the object stays valid, and bad input has a clear outcome."""

from __future__ import annotations

import datetime as dt
import pickle
import re
import struct
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.datadict import dictionary_VR, keyword_for_tag, tag_for_keyword
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence

from tests.screening.objects import (
    CR,
    DX,
    KEY,
    SC,
    SR,
    Nothing,
    clean,
    element,
    film,
    read,
    stored,
    through_file,
    with_bytes,
    with_canaries,
)  # fmt: skip
from updp.core.policy import HeaderPolicy
from updp.core.reasons import Reason, Refused
from updp.screening import tables
from updp.screening.encoding import encode
from updp.screening.headers import HeaderCleaner
from updp.screening.identifiers import identifiers

CANARY = re.compile(rb"(?i)canary\w*")


def attributes() -> list[int]:
    known = []
    for tag in tables.profile():
        try:
            dictionary_VR(tag)
        except KeyError:
            continue
        if tag >> 16 > 4:
            known.append(tag)
    return known


def raw_file(ds: Dataset) -> bytes:
    return encode(ds, implicit=ds.file_meta.TransferSyntaxUID.is_implicit_VR)


# -- nothing survives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("sop_class", [CR, DX, SC, SR, "1.2.840.10008.5.1.4.1.1.2", "1.2.3.4.999"])
@pytest.mark.parametrize("policy", [{}, {"retain_longitudinal": False, "clean_descriptors": False}])
def test_no_canary_survives_in_any_attribute_of_the_table(sop_class, policy, implicit):
    tags = attributes()
    source = with_canaries(tags, sop_class)
    cleaned = clean(through_file(source, implicit=implicit), Nothing(), **policy)
    found = {word for word in CANARY.findall(raw_file(cleaned))}
    if sop_class == SR:  # a detector that finds nothing lets the narrative of a report pass
        found = {word for word in found if not re.fullmatch(rb"Canary\d+", word)}
    assert not found
    for tag in tags:
        if tag in cleaned and dictionary_VR(tag) != "SQ" and cleaned[tag].value not in (None, ""):
            assert cleaned[tag].value != source[tag].value, keyword_for_tag(tag)


def test_no_canary_survives_in_an_object_made_in_memory():
    source = with_canaries(attributes())
    cleaned = clean(source, Nothing())
    assert not CANARY.findall(stored(cleaned))


def test_a_name_three_sequences_deep_goes():
    deep, middle, outer = Dataset(), Dataset(), Dataset()
    deep.PatientName, deep.OperatorsName = "Quibblesworth^Z", "Ottermole^F"
    middle.ReferencedSOPSequence = Sequence([deep])
    outer.ReferencedSeriesSequence = Sequence([middle])
    for implicit in (False, True):
        cleaned = clean(through_file(film(ProcedureCodeSequence=Sequence([outer])), implicit=implicit))
        data = raw_file(cleaned)
        assert b"Quibblesworth" not in data
        assert b"Ottermole" not in data
        assert len(cleaned.ProcedureCodeSequence[0].ReferencedSeriesSequence[0].ReferencedSOPSequence) == 1


def test_private_blocks_curves_overlays_and_group_lengths_go():
    ds = film()
    ds.private_block(0x0011, "QUIBBLE CORP", create=True).add_new(1, "LO", "Quibblesworth")
    ds.add_new(0x50000022, "LO", "Quibblesworth")
    ds.add_new(0x60000010, "US", 2)
    ds.add_new(0x60003000, "OW", b"Quibbles")
    ds.add_new(0x00080000, "UL", 99)
    cleaned = clean(through_file(ds))
    assert not [e for e in cleaned if e.tag.is_private or e.tag.group in (0x5000, 0x6000) or e.tag.element == 0]
    assert b"uibble" not in raw_file(cleaned).lower().replace(b"quibble corp", b"QC")


def test_file_meta_and_preamble_are_new():
    ds = film()
    data = stored(ds)
    source = read(data)
    source.preamble = b"Quibblesworth".ljust(128, b"\0")
    source.file_meta.SourceApplicationEntityTitle = "QUIBBLE"
    source.file_meta.PrivateInformationCreatorUID = "1.2.3"
    source.file_meta.PrivateInformation = b"Quibblesworth "
    cleaned = clean(source)
    assert b"QUIBBLE" not in raw_file(cleaned).upper()
    assert cleaned.file_meta.MediaStorageSOPInstanceUID == cleaned.SOPInstanceUID == KEY.uid("1.2.3.4.5")
    assert cleaned.preamble == b"\0" * 128
    assert cleaned.file_meta.TransferSyntaxUID == source.file_meta.TransferSyntaxUID


def test_the_patients_name_in_an_attribute_the_table_does_not_list_goes():
    cleaned = clean(through_file(film(Manufacturer="Acme for Quibblesworth", ManufacturerModelName="Panel 3")))
    assert "Manufacturer" not in cleaned or "Quibble" not in str(cleaned.Manufacturer)
    assert cleaned.ManufacturerModelName == "Panel 3"


def test_a_repeated_accession_number_goes_wherever_it_was_copied():
    cleaned = clean(through_file(film(SoftwareVersions="A5550123")))
    assert b"A5550123" not in raw_file(cleaned)


# -- what it becomes ------------------------------------------------------------------------------------------------


def test_what_the_standard_asks_for_is_written():
    cleaned = clean(through_file(film(DeidentificationMethod="Quibblesworth's own")), Nothing(), pixels_checked=True)
    assert cleaned.PatientIdentityRemoved == "YES"
    assert cleaned.LongitudinalTemporalInformationModified == "MODIFIED"
    assert cleaned.BurnedInAnnotation == "NO"
    codes = {item.CodeValue for item in cleaned.DeidentificationMethodCodeSequence}
    assert codes == {"113100", "113101", "113104", "113105", "113107"}
    assert all(item.CodingSchemeDesignator == "DCM" for item in cleaned.DeidentificationMethodCodeSequence)
    assert "Quibble" not in str(cleaned.DeidentificationMethod)


@pytest.mark.parametrize(("flag", "written"), [(None, "YES"), ("YES", "YES"), ("NO", "NO"), ("Quibble", "YES")])
def test_an_unchecked_film_says_so(flag, written):
    ds = film()
    if flag is not None:
        ds.BurnedInAnnotation = flag
    assert clean(through_file(ds)).BurnedInAnnotation == written


def test_one_key_gives_one_identity():
    first = clean(through_file(film()))
    second = clean(through_file(film(SOPInstanceUID="1.2.3.4.99")))
    assert first.PatientName == second.PatientName
    assert first.PatientID == second.PatientID == KEY.patient("M77419")
    assert first.StudyInstanceUID == second.StudyInstanceUID != "1.2.3.4.6"
    assert first.SOPInstanceUID != second.SOPInstanceUID
    assert first.StudyDate == second.StudyDate != "20190314"


def test_the_name_is_the_one_the_report_uses():
    surrogates = pytest.importorskip("updp.reports.surrogates")
    cleaned = clean(through_file(film()))
    assert cleaned.PatientName == surrogates.person(KEY, "Quibblesworth^Zanthora", whose="M77419")


@pytest.mark.parametrize("sex", ["F", "M"])
def test_header_and_report_follow_the_sex_together(sex):
    from updp.core.record import Report
    from updp.reports import Cleaner, shared_detector
    from updp.reports.lexicon import surrogate_names
    from updp.screening.identifiers import identifiers

    dataset = through_file(film(PatientName="SMITH^ROBIN", PatientSex=sex))
    family, given = str(clean(dataset).PatientName).split("^")
    assert given.title() in surrogate_names()[sex]
    report = Report({"findings": "Robin Smith was seen by Dr. Robin Okafor. Ms. Smith aware."})
    cleaned = Cleaner(shared_detector(), KEY).clean(report, patient_id="M77419", known=identifiers(dataset), sex=sex)
    text = cleaned.report.sections["findings"]
    assert text.startswith(f"{given.title()} {family.title()} was")
    assert f"Ms. {family.title()} aware" in text


def test_a_sex_that_is_neither_leaves_the_name_as_listed():
    names = {str(clean(through_file(film(PatientName="SMITH^ROBIN", PatientSex=sex))).PatientName) for sex in ("O", "")}
    assert len(names) == 1


def test_a_record_number_in_the_name_does_not_come_along():
    cleaned = clean(through_file(film(PatientName="Quibblesworth 7741982^Zanthora^^Dr")))
    assert "7741982" not in str(cleaned.PatientName)
    assert "Quibble" not in str(cleaned.PatientName)


def test_references_point_at_the_new_uids():
    reference = Dataset()
    reference.ReferencedSOPClassUID, reference.ReferencedSOPInstanceUID = CR, "1.2.3.4.5"
    ds = film(SourceInstanceSequence=Sequence([reference]))
    cleaned = clean(through_file(ds))
    item = cleaned.SourceInstanceSequence[0]
    assert item.ReferencedSOPInstanceUID == cleaned.SOPInstanceUID
    assert item.ReferencedSOPClassUID == CR


def test_well_known_uids_stay_and_foreign_ones_do_not():
    ds = film(SOPClassUID="1.2.840.113619.4.27")
    assert clean(through_file(ds)).SOPClassUID != "1.2.840.113619.4.27"
    assert clean(through_file(film())).SOPClassUID == CR


def test_compound_actions_follow_the_object():
    more = {"DetectorID": "D-11", "AcquisitionContextSequence": Sequence([Dataset()]), "InstitutionName": "St Quibble"}
    digital = clean(through_file(film(DX, **more)))
    assert "AcquisitionContextSequence" in digital  # Type 2 in DX
    assert len(digital.AcquisitionContextSequence) == 0
    assert "DetectorID" not in digital  # Type 3
    assert "InstitutionName" not in digital
    computed = clean(through_file(film(CR, **more)))
    assert "AcquisitionContextSequence" not in computed  # not part of CR
    other = clean(through_file(film("1.2.3.4.999", **more)))
    assert "DetectorID" not in other or other.DetectorID == "REMOVED"


def test_pixels_are_passed_on_untouched():
    source = through_file(film())
    cleaned = clean(source)
    assert cleaned.PixelData == b"\1\2\3\4"
    assert (cleaned.Rows, cleaned.BitsStored, cleaned.PhotometricInterpretation) == (2, 8, "MONOCHROME2")


def test_the_source_is_not_changed():
    source = through_file(film())
    before = stored(read(stored(source)))
    clean(source)
    assert stored(source) == before


def test_the_same_input_gives_the_same_bytes():
    data = stored(film(StudyDescription="CHEST PA"))
    assert raw_file(clean(read(data), Nothing())) == raw_file(clean(read(data), Nothing()))


def test_a_cleaner_can_be_sent_to_a_worker():
    cleaner = HeaderCleaner(HeaderPolicy(), KEY, Nothing())
    data = stored(film(StudyDescription="CHEST PA"))
    here = cleaner.clean(read(data), patient_id="M77419")
    there = pickle.loads(pickle.dumps(cleaner)).clean(read(data), patient_id="M77419")
    assert raw_file(here) == raw_file(there)
    assert "Quibble" not in repr(cleaner)


@pytest.mark.parametrize(
    ("scheme", "kept"),
    [("SCT", "Thoracic incision"), ("99LOCAL", "Thoracic"), ("", "Thoracic")],
)
def test_meanings_of_a_hospitals_own_codes_are_cleaned_like_descriptions(scheme, kept):
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = "1", scheme, "Thoracic incision"
    cleaned = clean(through_file(film(ProcedureCodeSequence=Sequence([item]))), Nothing())
    assert cleaned.ProcedureCodeSequence[0].CodeMeaning == kept


def test_nothing_is_said_on_the_way(recwarn, caplog, capfd):
    ds = with_bytes(
        element(tag_for_keyword("Modality"), "CS", b"Quibblesworth^Zanthora"),
        element(tag_for_keyword("PatientBirthDate"), "DA", b"Quibblesworth "),
        element(tag_for_keyword("SeriesInstanceUID"), "UI", b"Quibblesworth "),
    )
    recwarn.clear()
    caplog.clear()
    clean(ds, Nothing())
    identifiers(ds)
    assert not recwarn.list
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


# -- options --------------------------------------------------------------------------------------------------------


def test_dates_move_together_or_go():
    ds = film(AcquisitionDate="20190316", AcquisitionDateTime="20190316101112")
    moved = clean(through_file(ds))
    days = [dt.datetime.strptime(str(day), "%Y%m%d") for day in (moved.StudyDate, moved.AcquisitionDate)]
    assert days[1] - days[0] == dt.timedelta(days=2)
    assert moved.AcquisitionDateTime[:8] == moved.AcquisitionDate
    gone = clean(through_file(ds), retain_longitudinal=False)
    assert gone.StudyDate == ""
    assert "AcquisitionDate" not in gone
    assert gone.LongitudinalTemporalInformationModified == "REMOVED"


def test_the_birth_date_never_moves_it_goes():
    assert clean(through_file(film())).PatientBirthDate == ""


def test_uids_stay_if_asked():
    cleaned = clean(through_file(film()), retain_uids=True)
    assert cleaned.SOPInstanceUID == "1.2.3.4.5"
    assert "113110" in {item.CodeValue for item in cleaned.DeidentificationMethodCodeSequence}


def test_device_institution_and_characteristics_stay_if_asked():
    more = {"DeviceSerialNumber": "SN1", "InstitutionName": "St Elsewhere", "PatientAge": "094Y", "PatientWeight": "70"}
    bare = clean(through_file(film(**more)))
    assert not {"DeviceSerialNumber", "InstitutionName", "PatientAge", "PatientWeight"} & {e.keyword for e in bare}
    assert bare.PatientSex == ""
    kept = clean(
        through_file(film(**more)), retain_device=True, retain_institution=True, retain_patient_characteristics=True
    )
    assert kept.DeviceSerialNumber == "SN1"
    assert kept.PatientAge == "090Y"  # over 89
    assert kept.PatientSex == "F"
    assert kept.PatientWeight == 70
    assert kept.InstitutionName == "St Elsewhere"
    named = clean(through_file(film(**more | {"InstitutionName": "Quibblesworth"})), retain_institution=True)
    assert "InstitutionName" not in named  # a name of the patient does not stay, whatever attribute it is in


def test_descriptions_keep_words_of_radiography():
    ds = film(StudyDescription="CHEST PA Quibblesworth", PatientComments="seen by Ottermole", ProtocolName="M77419")
    cleaned = clean(through_file(ds), Nothing())
    assert cleaned.StudyDescription == "CHEST PA"
    assert "Ottermole" not in str(cleaned.get("PatientComments", ""))
    assert "ProtocolName" not in cleaned
    for bare in (clean(through_file(ds)), clean(through_file(ds), Nothing(), clean_descriptors=False)):
        assert "StudyDescription" not in bare


def test_a_detector_that_fails_lets_nothing_pass():
    class Broken:
        def spans(self, text):
            raise RuntimeError("Quibblesworth")

    cleaned = clean(through_file(film(StudyDescription="CHEST")), Broken())
    assert "StudyDescription" not in cleaned


def test_safe_private_elements_stay_if_asked_and_no_others():
    ds = film()
    known = ds.private_block(0x0025, "GEMS_SERS_01", create=True)
    known.add_new(0x07, "SL", 3)
    known.add_new(0x1B, "OB", b"Quibblesworth ")
    ds.private_block(0x0043, "GEMS_PARM_01", create=True).add_new(0x39, "IS", ["800", "0"])
    ds.private_block(0x0011, "QUIBBLE CORP", create=True).add_new(0x07, "SL", 3)
    kept = [e for e in clean(through_file(ds), retain_safe_private=True) if e.tag.is_private]
    assert [(e.tag.group, e.tag.element) for e in kept] == [(0x25, 0x10), (0x25, 0x1007), (0x43, 0x10), (0x43, 0x1039)]
    assert not [e for e in clean(through_file(ds)) if e.tag.is_private]


# -- structured reports ---------------------------------------------------------------------------------------------


def structured() -> Dataset:
    ds = film(SR)
    for keyword in ("PixelData", "Rows", "Columns"):
        delattr(ds, keyword)
    items = []
    for kind, keyword, value in (
        ("PNAME", "PersonName", "Ottermole^Fenn"),
        ("TEXT", "TextValue", "Effusion, seen by Ottermole."),
        ("DATE", "Date", "20190314"),
        ("DATETIME", "DateTime", "20190314103207"),
        ("UIDREF", "UID", "1.2.3.4.5"),
    ):
        item = Dataset()
        item.RelationshipType, item.ValueType = "CONTAINS", kind
        setattr(item, keyword, value)
        items.append(item)
    inner = Dataset()
    inner.RelationshipType, inner.ValueType, inner.ContentSequence = "CONTAINS", "CONTAINER", Sequence(items)
    ds.ContentSequence = Sequence([inner])
    return ds


class Ottermole:
    def spans(self, text):
        return [SimpleNamespace(start=m.start(), end=m.end()) for m in re.finditer("Ottermole", text)]


def test_the_content_tree_of_a_report_is_cleaned():
    cleaned = clean(through_file(structured()), Ottermole())
    name, text, date, moment, uid = cleaned.ContentSequence[0].ContentSequence
    assert "Ottermole" not in str(name.PersonName)
    assert str(name.PersonName)
    assert text.TextValue == "Effusion, seen by ."
    assert date.Date == cleaned.StudyDate == moment.DateTime[:8]
    assert cleaned.SOPInstanceUID == uid.UID
    assert "BurnedInAnnotation" not in cleaned


def test_without_a_detector_the_text_of_a_report_becomes_a_dummy():
    cleaned = clean(through_file(structured()))
    assert cleaned.ContentSequence[0].ContentSequence[1].TextValue == "REMOVED"


def test_without_the_option_the_tree_is_filled_with_dummies():
    cleaned = clean(through_file(structured()), Ottermole(), clean_structured_content=False)
    assert b"Effusion" not in raw_file(cleaned)
    assert b"Ottermole" not in raw_file(cleaned)


# -- bad input ------------------------------------------------------------------------------------------------------


def test_a_directory_is_refused():
    record = Dataset()
    record.PatientName = "Quibblesworth"
    ds = Dataset()
    ds.DirectoryRecordSequence = Sequence([record])
    ds.file_meta = FileMetaDataset()
    ds.file_meta.MediaStorageSOPClassUID = "1.2.840.10008.1.3.10"
    with pytest.raises(Refused) as caught:
        clean(ds)
    assert caught.value.reason is Reason.DICOM_DIRECTORY


def test_an_empty_object_and_a_missing_patient_are_refused():
    with pytest.raises(Refused) as caught:
        clean(Dataset())
    assert caught.value.reason is Reason.DICOM_UNREADABLE
    with pytest.raises(Refused) as caught:
        clean(film(), patient_id="")
    assert caught.value.reason is Reason.ID_MISSING


def test_tags_the_dictionary_does_not_know_go():
    ds = with_bytes(element(0x00090010, "LO", b"QUIBBLE "), element(0x00189FFE, "LO", b"Quibblesworth "))
    assert b"uibble" not in raw_file(clean(ds)).lower()


@pytest.mark.parametrize(
    ("keyword", "vr", "value"),
    [
        ("KVP", "LO", b"Quibblesworth "),  # a number that is text
        ("KVP", "DS", b"Quibblesworth "),  # a number that is no number
        ("BodyPartExamined", "OB", b"Quibblesworth "),  # a code that is bytes
        ("BodyPartExamined", "CS", b"Quibblesworth, Z"),  # a code that is a name
        ("Manufacturer", "PN", b"Quibblesworth "),
        ("AcquisitionDate", "LO", b"Quibblesworth "),
        ("AcquisitionDate", "DA", b"Quibblesworth "),
        ("PatientAge", "AS", b"Quib"),
        ("Rows", "LO", b"Quibblesworth "),
        ("ProcedureCodeSequence", "LO", b"Quibblesworth "),  # a sequence that is text
        ("ProcedureCodeSequence", "OB", b"Quibblesworth "),
        ("SoftwareVersions", "SQ", b""),
        ("SeriesInstanceUID", "LO", b"Quibblesworth "),
    ],
)
def test_a_wrong_vr_or_value_never_passes(keyword, vr, value):
    ds = with_bytes(element(tag_for_keyword(keyword), vr, value))
    cleaned = clean(ds, retain_patient_characteristics=True, retain_device=True)
    assert b"Quib" not in raw_file(cleaned)


def every_code_string() -> list[str]:
    """Keywords of the dictionary whose VR is CS, file meta and repeating groups aside."""
    from pydicom.datadict import DicomDictionary

    return [row[4] for tag, row in DicomDictionary.items() if row[0] == "CS" and row[4] and tag >> 16 >= 0x0008]


@pytest.mark.parametrize("implicit", [False, True])
def test_no_word_the_standard_does_not_define_stays_in_any_code_string(implicit):
    ds = film()
    for keyword in every_code_string():
        setattr(ds, keyword, "QUIBBLE")
    cleaned = clean(
        through_file(ds, implicit=implicit), Nothing(), retain_patient_characteristics=True, retain_device=True,
        retain_institution=True, retain_uids=True,
    )  # fmt: skip
    assert b"QUIBBLE" not in raw_file(cleaned)


def test_defined_terms_stay_and_other_values_beside_them_go():
    ds = film(ImageType=["ORIGINAL", "PRIMARY", "QUIBBLE"], BodyPartExamined="CHEST", ViewPosition="PA",
              PatientOrientation=["L", "F"], Laterality="QUIBBLE")  # fmt: skip
    cleaned = clean(through_file(ds))
    assert list(cleaned.ImageType) == ["ORIGINAL", "PRIMARY"]
    assert (cleaned.BodyPartExamined, cleaned.ViewPosition, cleaned.Modality) == ("CHEST", "PA", "CR")
    assert list(cleaned.PatientOrientation) == ["L", "F"]
    assert not cleaned.get("Laterality")


def test_an_element_of_unknown_vr_is_read_as_the_dictionary_says():
    cleaned = clean(with_bytes(element(tag_for_keyword("Manufacturer"), "UN", b"Acme")))
    assert cleaned.Manufacturer == "Acme"


@pytest.mark.parametrize(
    "value",
    [
        b"\xfe\xff\x00\xe0\x40\x00\x00\x00\x10\x00\x10\x00PN\x0e\x00Quibblesworth ",  # item longer than the sequence
        b"Quibblesworth\0",  # no item at all
        b"\xfe\xff\x00\xe0\xff\xff\xff\xff\x10\x00\x10\x00PN\x0e\x00Quibblesworth ",  # item without end
        b"\xfe\xff\x00\xe0\x06\x00\x00\x00\x10\x00\x10\x00PN",  # cut off inside an element
    ],
)
def test_a_broken_sequence_is_refused_or_cleaned(value):
    ds = with_bytes(element(tag_for_keyword("ProcedureCodeSequence"), "SQ", value))
    outcome = Reason.DICOM_UNREADABLE
    try:
        data = raw_file(clean(ds))
    except Refused as refused:
        outcome, data = refused.reason, str(refused).encode()
    assert outcome is Reason.DICOM_UNREADABLE
    assert b"Quib" not in data


def test_a_broken_sequence_that_is_removed_anyway_stops_nothing():
    ds = with_bytes(element(tag_for_keyword("RequestAttributesSequence"), "SQ", b"Quibblesworth\0"))
    assert "RequestAttributesSequence" not in clean(ds)


@pytest.mark.parametrize(
    ("charset", "name", "description"),
    [
        (["", "ISO 2022 IR 87"], "Yamada^Tarou=山田^太郎", "胸部正面 山田"),
        ("ISO_IR 144", "Иванов^Иван", "Грудь Иванов"),
        ("ISO_IR 192", "Καππα^Λ", "CHEST Καππα"),
        ("GB18030", "Wang^XiaoDong=王^小东", "胸片 王"),
    ],
)
def test_names_in_other_scripts_go(charset, name, description):
    ds = film(SpecificCharacterSet=charset, PatientName=name, StudyDescription=description, Manufacturer=name[:5])
    source = through_file(ds)
    cleaned = clean(source, Nothing())
    again = read(raw_file(cleaned))
    assert not {part for part in re.split(r"[=^]", name) if part in str(again)}
    assert str(again.PatientName).isascii()


@pytest.mark.parametrize("charset", [b"ISO_IR 999", b"Quibblesworth "])
def test_text_in_an_unknown_character_set_goes_unless_it_is_ascii(charset):
    ds = with_bytes(
        element(0x00080005, "CS", charset + b" " * (len(charset) % 2)),
        element(tag_for_keyword("Manufacturer"), "LO", b"Acm\xe9"),
        element(tag_for_keyword("ManufacturerModelName"), "LO", b"Panel 3 "),
    )
    cleaned = clean(ds)
    assert cleaned.Manufacturer == ""
    assert cleaned.ManufacturerModelName == "Panel 3"
    assert "SpecificCharacterSet" not in cleaned


def test_headers_of_colour_and_multiframe_films_and_of_films_without_pixels_are_cleaned_too():
    for more in (
        {"SamplesPerPixel": 3, "PhotometricInterpretation": "RGB", "PlanarConfiguration": 0},
        {"NumberOfFrames": "2", "FrameIncrementPointer": 0x00181063},
    ):
        cleaned = clean(through_file(film(SC, **more)))
        assert b"Quibble" not in raw_file(cleaned)
    bare = film()
    del bare.PixelData
    assert "PixelData" not in clean(through_file(bare))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=60), st.sampled_from(["LO", "SQ", "UN", "PN", "DA", "CS", "OB", "UI"]), st.integers(0, 60))
def test_no_bytes_whatever_raise_anything_but_a_refusal(value, vr, pick):
    tags = [*attributes()[:: max(1, len(attributes()) // 50)], *map(tag_for_keyword, ("Manufacturer", "KVP", "Rows"))]
    value += b" " * (len(value) % 2)
    ds = with_bytes(element(tags[pick % len(tags)], vr, b"Quibblesworth " + value))
    try:
        cleaned = clean(ds, Nothing())
    except Refused:
        return
    assert b"Quibblesworth" not in raw_file(cleaned) or tags[pick % len(tags)] == tag_for_keyword("Manufacturer")


@pytest.mark.parametrize("space", [b"\t", b" \t", b"\n", b"\r\n", b"\x0b "])
def test_a_name_in_a_uid_is_no_well_known_uid_whatever_space_follows(space):
    value = b"Quibblesworth" + space
    ds = with_bytes(element(tag_for_keyword("FrameOfReferenceUID"), "UI", value + b" " * (len(value) % 2)))
    assert b"Quibblesworth" not in raw_file(clean(ds, Nothing()))


@pytest.mark.parametrize("keyword", ["SeriesNumber", "InstanceNumber", "ExposureTime", "RelativeXRayExposure"])
@pytest.mark.parametrize("implicit", [True, False])
def test_a_number_that_repeats_an_identifier_goes(keyword, implicit):
    new = clean(read(stored(film(**{keyword: 77419}), implicit=implicit)))
    assert new.get(keyword) in (None, "")
    assert clean(read(stored(film(**{keyword: 31}), implicit=implicit))).get(keyword) == 31


def test_a_binary_number_that_repeats_an_identifier_goes():
    for kept, number in ((None, 77419), (31, 31)):
        assert clean(film(SelectorULValue=number)).get("SelectorULValue") == kept
        assert clean(read(stored(film(SelectorULValue=number)))).get("SelectorULValue") == kept


def test_a_colour_profile_goes():
    assert "ICCProfile" not in clean(film(ICCProfile=b"QuibblesworthQuibblesworth"))


# -- found by a second red team -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "keyword", ["WindowCenterWidthExplanation", "FrameLabel", "MIMETypeOfEncapsulatedDocument", "LUTExplanation"]
)
def test_a_name_the_header_has_nowhere_else_does_not_stay_in_text_the_table_does_not_list(keyword):
    for implicit in (False, True):
        inner = Dataset()
        setattr(inner, keyword, "Ottoline")
        ds = film(SharedFunctionalGroupsSequence=Sequence([inner]), **{keyword: "Ottoline"})
        assert b"ottoline" not in raw_file(clean(through_file(ds, implicit=implicit), Nothing())).lower()


def test_what_a_device_is_called_stays():
    cleaned = clean(through_file(film(Manufacturer="Acme Imaging", SoftwareVersions=["1.2", "XR7"])), Nothing())
    assert cleaned.Manufacturer == "Acme Imaging"
    assert list(cleaned.SoftwareVersions) == ["1.2", "XR7"]


@pytest.mark.parametrize(("keyword", "vr"), [("WaveformData", "OB"), ("WaveformPaddingValue", "OB")])
def test_bytes_whose_vr_depends_on_the_object_are_bytes_too(keyword, vr):
    item = Dataset()
    item.WaveformBitsAllocated = 8
    item.add_new(tag_for_keyword(keyword), vr, b"Quibblesworth ")
    cleaned = clean(through_file(film(WaveformSequence=Sequence([item]))))
    assert b"uibble" not in raw_file(cleaned)


@pytest.mark.parametrize("photometric", ["MONOCHROME2", "PALETTE COLOR"])
def test_a_palette_stays_only_on_a_film_that_uses_one(photometric):
    palette = b"Quibbleswort" * 16
    ds = film(PhotometricInterpretation=photometric)
    ds.add_new(tag_for_keyword("RedPaletteColorLookupTableData"), "OW", palette)
    assert (palette in raw_file(clean(through_file(ds)))) == (photometric == "PALETTE COLOR")


@pytest.mark.parametrize(
    ("keyword", "value", "left"),
    [
        ("DistanceSourceToDetector", "4821.3377", b"4821.3377"),
        ("DistanceSourceToDetector", "4.8213377E7", b"4.8213377E7"),
        ("DistanceSourceToDetector", "482133770", b"48213377"),
        ("PixelSpacing", ["0.148213377", "0.148213377"], b"48213377"),
        ("ExposureInmAs", 48213377.0, struct.pack("<d", 48213377.0)),
        ("FieldOfViewDimensionsInFloat", [48213377.0, 1.0], struct.pack("<f", 48213377.0)),
        ("SimpleFrameList", [1, 48213377], struct.pack("<I", 48213377)),
        ("FrameIncrementPointer", 0x48213377, struct.pack("<HH", 0x4821, 0x3377)),
    ],
)
def test_the_patients_number_goes_however_a_number_is_written(keyword, value, left):
    ds = film(PatientID="48213377")
    setattr(ds, keyword, value)
    assert left not in raw_file(clean(through_file(ds), patient_id="48213377"))


@pytest.mark.parametrize("value", ["0.1482", "4821.5", "1.5E2"])
def test_other_numbers_stay(value):
    ds = film(PatientID="48213377", DistanceSourceToDetector=value)
    assert value.encode() in raw_file(clean(through_file(ds), patient_id="48213377"))


_NAMED = "Quimblethorpe"  # nowhere else in the header


@pytest.mark.parametrize(
    "code",
    [
        {"CodeValue": "51185008", "CodeMeaning": _NAMED},
        {"CodeValue": "51185008", "CodeMeaning": f"Zelda {_NAMED}"},
        {"CodeValue": _NAMED, "CodeMeaning": "Chest"},
        {"CodeValue": "51185008", "CodingSchemeVersion": _NAMED, "CodeMeaning": "Chest"},
    ],
)
def test_a_name_does_not_pass_as_a_code_of_a_published_scheme(code):
    item = Dataset()
    for keyword, value in {"CodingSchemeDesignator": "SCT", **code}.items():
        setattr(item, keyword, value)
    ds = film(AnatomicRegionSequence=Sequence([item]))
    assert _NAMED.encode() not in raw_file(clean(through_file(ds)))


def test_a_code_of_a_published_scheme_keeps_its_meaning():
    item = Dataset()
    item.CodeValue, item.CodingSchemeDesignator, item.CodeMeaning = "51185008", "SCT", "Entire thorax"
    cleaned = clean(through_file(film(AnatomicRegionSequence=Sequence([item]))), detector=Nothing())
    assert cleaned.AnatomicRegionSequence[0].CodeMeaning == "Entire thorax"


@pytest.mark.parametrize(
    ("tag", "vr"),
    [
        (0x7FE00001, "OV"),
        (0x7FE00002, "OV"),
        (0x7FE00008, "OF"),
        (0x7FE00009, "OD"),
        (0x00281200, "OW"),
        (0x00281204, "OW"),
        (0x00281211, "OW"),
    ],
)
def test_no_second_film_and_no_unused_table_stands_beside_the_film(tag, vr):
    ds = film()
    ds.add_new(tag, vr, b"QUIMBLET")
    assert b"QUIMBLET" not in raw_file(clean(through_file(ds)))
