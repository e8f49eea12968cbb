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


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("updp", {"stps": 3}, "no option 'stps'; did you mean 'steps'\\? there are: pack, mode"),
        ("keep", {"sigma": 1}, "no option 'sigma'; there are: none"),
        ("updp", {"steps": "many"}, "option 'steps': input should be a valid integer"),
        ("updp", {"free": True}, "option 'free': input should be a valid integer"),
        ("updp", {"block": "smith"}, "option 'block': 'str' instances are not allowed"),
        ("updp", {"search": "luck"}, "option 'search': input should be 'align'"),
        ("updp", {"steps": -1}, "not negative"),
        ("blur", {"max_sigma": "wide"}, "option 'max_sigma': input should be a valid number"),
    ],
)
def test_a_wrong_option_is_refused_in_words_about_it(name, options, words):
    with pytest.raises(UnknownMethod, match=words):
        make_method(name, options)


def test_a_whole_number_will_do_for_a_fraction():
    assert make_method("updp", {"rate": 1})
