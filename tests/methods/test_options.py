"""Options of methods: read from plain values, refused in words about the option."""

from __future__ import annotations

import pytest
from pydantic import Field

from updp.methods import UnknownMethod, make_method
from updp.methods.options import BadOption, MethodOptions


class Soap(MethodOptions):
    foam: int = Field(3, ge=1)
    scent: str = "none"


def test_options_not_given_have_their_defaults():
    assert Soap.read({"scent": "rose"}) == Soap(foam=3, scent="rose")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"foem": 3}, "no option 'foem'; did you mean 'foam'? there are: foam, scent"),
        ({"zzz": 3}, "no option 'zzz'; there are: foam, scent"),
        ({"foam": 0}, "option 'foam': input should be greater than or equal to 1"),
        ({"foam": "3"}, "option 'foam': input should be a valid integer"),
        ({"foam": True}, "option 'foam': input should be a valid integer"),
    ],
)
def test_a_wrong_option_is_refused_in_words_about_it(given, words):
    with pytest.raises(BadOption) as refused:
        Soap.read(given)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("keep", {"sigma": 1}, "method 'keep': no option 'sigma'; there are: none"),
        ("blur", {"max_sigma": "wide"}, "method 'blur': option 'max_sigma': input should be a valid number"),
        ("dp-pix", {"kept": 4}, "options basis and kept contradict each other: basis 'cells' does not use kept"),
        ("dp-pix", {"basis": "frequencies", "b": 4}, "options basis and b contradict each other"),
        ("updp", {"block": "smith"}, "option 'block': 'str' instances are not allowed"),
        ("updp", {"free": True}, "option 'free': input should be a valid integer"),
        ("updp", {"steps": -1}, "option 'steps': input should be greater than or equal to 0"),
    ],
)
def test_a_method_names_itself_where_an_option_is_wrong(name, options, words):
    with pytest.raises(UnknownMethod) as refused:
        make_method(name, options)
    assert words in str(refused.value)
