"""The registry: methods by name, and options refused in words about the option."""

from __future__ import annotations

import pytest

from updp.methods import METHODS, UnknownMethod, make_method, method_info


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_listed_under_its_own_name(name):
    assert method_info(name).name == name


def test_an_unknown_method_is_refused_with_the_ones_there_are():
    with pytest.raises(UnknownMethod, match="no method 'blurr'; did you mean 'blur'\\? there are: keep, blur"):
        make_method("blurr")


def test_a_whole_number_will_do_for_a_fraction():
    assert make_method("updp", {"rate": 1})
