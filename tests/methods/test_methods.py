"""The methods there are: each keeps the protocol, and what is wrong is refused in words about it."""

import subprocess
import sys

import pytest

from updp.methods import LEARNED, METHODS, UnknownMethod, make_method, method_info
from updp.methods.base import Method
from updp.models import load_pack
from updp.models.errors import PackError


def _ships(name):
    try:
        return name in load_pack(METHODS[name].Options().weights, verify=False).info["methods"]
    except PackError:
        return False


@pytest.mark.parametrize("name", list(METHODS))
def test_every_registered_method_keeps_the_protocol(name):
    assert method_info(name).name == name
    if name in LEARNED and not _ships(name):
        # Nothing is released by a method that has not learned yet: it says how to train it instead.
        with pytest.raises(UnknownMethod, match=f"updp train method {name}"):
            make_method(name)
    else:
        given = {"gallery": "films"} if name == "donor" else {}
        assert isinstance(make_method(name, given), Method)


def test_listing_methods_loads_no_network():
    code = "import sys; from updp.methods import METHODS, method_info; "
    code += "[method_info(name) for name in METHODS]; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_wrong_options_name_the_method():
    with pytest.raises(UnknownMethod, match="dp-pix"):
        make_method("dp-pix", {"cells": 3})


def test_an_unknown_method_is_refused_with_the_ones_there_are():
    with pytest.raises(UnknownMethod, match="no method 'blurr'; did you mean 'blur'\\? there are: keep, blur"):
        make_method("blurr")


def test_a_whole_number_will_do_for_a_fraction():
    assert make_method("updp", {"rate": 1})
