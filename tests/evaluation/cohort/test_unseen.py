"""Who may vouch for a method: patients outside the training part of every pack, shared out anew."""

from types import SimpleNamespace

import pytest

from updp.core.record import BENCHMARK_KEY, Study, place_of
from updp.evaluation.cohort.unseen import learned_from, unseen

PATIENTS = [str(n) for n in range(3000)]


def pack(data=("ChestX-ray14",), rule=None):
    info = {"data": {name: {} for name in data}} if data is not None else {}
    return SimpleNamespace(info=info | ({"splits": {"name": rule}} if rule else {}))


def placed(packs, layout="chestxray14"):
    place = unseen(packs)
    return {name: place(Study(name, name, name), layout) for name in PATIENTS}


@pytest.mark.parametrize(("rule", "least"), [(None, 0.7), ("hash", 0.7), ("halves", 0.47)])
def test_patients_of_the_training_part_have_no_part(rule, least):
    taken = {name for name, split in placed([pack(rule=rule)]).items() if split}
    assert taken == {name for name in PATIENTS if place_of(name, BENCHMARK_KEY) >= least}


def test_one_pack_that_saw_a_patient_is_enough():
    both = placed([pack(rule="hash"), pack(rule="halves")])
    assert both == placed([pack(rule="hash")])


def test_a_source_nobody_learned_from_takes_part_whole():
    assert all(placed([pack()], "dicom").values())


def test_a_pack_that_does_not_say_what_it_learned_from_may_have_learned_from_anything():
    assert learned_from(pack(data=None), "dicom")
    assert not all(placed([pack(data=None)], "dicom").values())


@pytest.mark.parametrize(("name", "layout"), [("ChestX-ray14", "chestxray14"), ("IU X-Ray", "iu_xray")])
def test_a_public_set_is_known_by_the_name_its_card_gives_it(name, layout):
    assert learned_from(pack(data=(name,)), layout)
    assert not learned_from(pack(data=("ImageNet",)), layout)


def test_unseen_patients_are_shared_out_anew():
    splits = [split for split in placed([pack()]).values() if split]
    for split, share in (("train", 0.6), ("val", 0.13), ("test", 0.27)):
        # six standard deviations of a share of about 900 patients
        assert abs(splits.count(split) / len(splits) - share) < 6 * 0.5 / len(splits) ** 0.5
