"""Names in a header go from one station to the next, and nowhere else."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from dataclasses import asdict

import pytest

from tests.conftest import CANARIES
from updp.core.confidential import Confidential
from updp.core.record import Study


def study() -> Study:
    return Study("film", "study", "patient", known=Confidential(CANARIES))


def test_the_words_are_there_for_who_asks():
    assert study().known.reveal() == CANARIES


@pytest.mark.parametrize("thing", [study(), study().known, [study().known]])
def test_they_are_not_pickled_or_copied(thing):
    for write in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            write(thing)
    with pytest.raises(TypeError, match="not pickled"):
        asdict(study())


def test_they_are_not_written_as_json():
    with pytest.raises(TypeError) as refused:
        json.dumps({"known": study().known})
    assert not any(word in str(refused.value) for word in CANARIES)
    assert not any(word in json.dumps({"known": study().known}, default=str) for word in CANARIES)


def test_they_do_not_show_in_text_or_logs(caplog):
    held = study().known
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("updp").debug("%s %r %s", held, held, study())
    said = [repr(held), str(held), f"{held} {held!r} {held:>30}", repr(study()), caplog.text, str(dir(held))]
    assert not any(word in text for text in said for word in CANARIES)
    assert not hasattr(held, "__dict__")
