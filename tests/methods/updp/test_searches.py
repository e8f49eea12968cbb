"""The prompt searches: which class options name, what each uses, and which options contradict each other."""

from __future__ import annotations

import pytest

from updp.methods.options import BadOption
from updp.methods.updp.searches import LDP, MMA, PEZ, SEARCHES, STEPS, Algorithm1, Align, PromptSearch, Random, Report


@pytest.mark.parametrize(
    ("given", "search"),
    [
        ({}, Align),
        ({"search": "report"}, Report),
        ({"search": "random"}, Random),
        ({"search": "pez", "rate": 0.1}, PEZ),
        ({"search": "mma", "trials": 64}, MMA),
        ({"search": "steps", "trials": 64}, STEPS),
        ({"mode": "literal", "top_k": 5}, Algorithm1),
        ({"mode": "ldp", "check": False}, LDP),
    ],
)
def test_mode_and_search_name_the_class(given, search):
    assert type(PromptSearch.read(given)) is search


@pytest.mark.parametrize("search", SEARCHES)
def test_every_search_is_found_under_its_own_names(search):
    mode, name = search.names_of()
    assert type(PromptSearch.read({"mode": mode, "search": name})) is search


@pytest.mark.parametrize(
    ("given", "first", "second"),
    [
        ({"mode": "ldp", "search": "mma"}, "mode = 'ldp'", "search = 'mma'"),
        ({"mode": "literal", "search": "pez"}, "mode = 'literal'", "search = 'pez'"),
        ({"mode": "ldp", "image_to_image": True}, "mode = 'ldp'", "image_to_image"),
        ({"mode": "ldp", "check": True}, "mode = 'ldp'", "check"),
        ({"mode": "ldp", "rerolls": 3}, "mode = 'ldp'", "rerolls"),
        ({"mode": "ldp", "top_k": 3}, "mode = 'ldp'", "top_k"),
        ({"mode": "literal", "bonus": 0.1}, "mode = 'literal'", "bonus"),
        ({"mode": "literal", "free": 3}, "mode = 'literal'", "free"),
        ({"mode": "literal", "straight_through": True}, "mode = 'literal'", "straight_through"),
        ({"trials": 64}, "search = 'align'", "trials"),
        ({"search": "report", "steps": 3}, "search = 'report'", "steps"),
        ({"search": "random", "init": "report"}, "search = 'random'", "init"),
        ({"search": "pez", "bonus": 0.1}, "search = 'pez'", "bonus"),
        ({"search": "mma", "rate": 0.1}, "search = 'mma'", "rate"),
        ({"init": "random", "free": 3}, "init = 'random'", "free"),
        ({"check": False, "rerolls": 3}, "check = false", "rerolls"),
    ],
)
def test_options_that_contradict_each_other_are_refused_by_both_names(given, first, second):
    with pytest.raises(BadOption) as refused:
        PromptSearch.read(given)
    assert f"{first} and {second} contradict each other: " in str(refused.value)


def test_a_misplaced_option_is_told_where_it_belongs():
    with pytest.raises(BadOption, match="only search 'mma' and search 'steps' use trials"):
        PromptSearch.read({"trials": 64})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stps": 3}, "no option 'stps'; did you mean 'steps'? there are: pack, mode, search"),
        ({"search": "stps"}, "no search 'stps'; did you mean 'steps'? there are: align, report"),
        ({"mode": "magic"}, "no mode 'magic'; there are: resolved, literal, ldp"),
    ],
)
def test_an_unknown_name_lists_those_there_are_and_the_nearest(given, words):
    with pytest.raises(BadOption) as refused:
        PromptSearch.read(given)
    assert words in str(refused.value)


def test_a_fixed_report_leaves_the_film_no_word_and_full_strength_neither():
    assert PromptSearch.read({"search": "report"}).start_free(0.0, 40) == 0
    align = PromptSearch.read({"free": 8})
    assert [align.start_free(strength, 40) for strength in (0.0, 0.5, 1.0)] == [8, 4, 0]
    assert align.start_free(0.0, 3) == 3
    assert PromptSearch.read({"init": "random"}).start_free(0.0, 40) is None


def test_only_local_differential_privacy_has_an_epsilon():
    epsilons = {one.names_of(): PromptSearch.read({"mode": one.names_of()[0], "search": one.names_of()[1]})
                .projection(0.5).epsilon for one in SEARCHES}  # fmt: skip
    assert epsilons.pop(("ldp", "align")) == pytest.approx(40)
    assert set(epsilons.values()) == {None}
