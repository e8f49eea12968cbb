"""The prompt searches: which class options name, what each uses, and which options contradict each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.chance import empirical_epsilon
from tests.methods.tiny import tiny_vlm
from updp.methods.options import BadOption
from updp.methods.updp.alignment import start
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.projection import Projector
from updp.methods.updp.searches import (
    LDP,
    MMA,
    PEZ,
    SEARCHES,
    STEPS,
    Algorithm1,
    Align,
    PromptSearch,
    Random,
    Raw,
    Report,
    Similarity,
    Task,
)

pytestmark = pytest.mark.numeric


@pytest.mark.parametrize(
    ("given", "search"),
    [
        ({}, Align),
        ({"search": "report"}, Report),
        ({"search": "random"}, Random),
        ({"search": "pez", "rate": 0.1}, PEZ),
        ({"search": "mma", "trials": 64}, MMA),
        ({"search": "steps", "trials": 64}, STEPS),
        ({"search": "raw"}, Raw),
        ({"search": "similarity", "iterations": 3}, Similarity),
        ({"mode": "literal", "top_k": 5, "init": "raw"}, Algorithm1),
        ({"mode": "ldp", "check": False}, LDP),
    ],
)
def test_mode_and_search_name_the_class(given, search):
    assert type(PromptSearch.read(given)) is search


def test_a_plan_in_toml_writes_all_for_every_token():
    assert PromptSearch.read({"free": "all"}).start_free(0.0, 40) is None
    assert PromptSearch.read({"search": "mma", "free": "all"}).start_free(0.0, 40) is None
    assert PromptSearch.read({"mode": "ldp", "words": "all"}).fixes_length()


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
        ({"mode": "ldp", "temperature": 0.1}, "mode = 'ldp'", "temperature"),
        ({"mode": "ldp", "iterations": 2}, "mode = 'ldp'", "iterations"),
        ({"epsilon": 3.0}, "search = 'align'", "epsilon"),
        ({"search": "raw", "steps": 3}, "search = 'raw'", "steps"),
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
        ({"stps": 3}, "no option 'stps'; did you mean 'steps'? there are: pack, device, dtype, batch, compiled"),
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
    spent = {one.names_of(): PromptSearch.read({"mode": one.names_of()[0], "search": one.names_of()[1]})
             .spends(0.5, 40) for one in SEARCHES}  # fmt: skip
    assert spent.pop(("ldp", "align"))["epsilon_study"] == pytest.approx(10)
    assert not any(spent.values())


@pytest.mark.parametrize(("strength", "epsilon"), [(0.0, 100.0), (0.5, 10.0), (1.0, 1.0)])
@pytest.mark.parametrize("words", [1, 4, 32])
def test_the_budget_is_shared_over_the_words_and_never_exceeded(strength, epsilon, words):
    told = PromptSearch.read({"mode": "ldp", "words": words}).spends(strength, 40)
    assert told["epsilon_study"] <= epsilon * (1 + 1e-9)
    assert told["epsilon_study"] == pytest.approx(epsilon, rel=1e-6)
    assert told["epsilon_word"] >= epsilon / words * (1 - 1e-9)
    assert told["unit"] == "film"


TINY = tiny_vlm()
LISTED = Vocabulary(TINY)


def drawn(options, film, count, texts=("no mass",)):
    """How often each candidate is drawn by the search itself, over ``count`` streams."""
    search = PromptSearch.read({"mode": "ldp", **options})
    rngs = [np.random.default_rng([7, n]) for n in range(count)]
    begun = start(TINY, LISTED, list(texts) * count, 12, rngs, fixed_length=search.fixes_length(), least=search.least,
                  free=search.start_free(0.0, 12))  # fmt: skip
    table = TINY.token_table.detach()
    projector = Projector(table, LISTED, search.projection(0.0))
    found = search.find(Task(TINY, LISTED, begun, film.expand(count, -1), projector, rngs, None), 0.0)
    pool = search._pool(LISTED)
    moving = begun.mask & ~begun.fixed if search.words is not None else begun.mask
    return torch.stack([(found.ids[moving] == index).sum() for index in pool]).tolist(), found, begun


def opposite_films():
    """Two films as unlike as can be for a word of the set: the worst case of the mechanism."""
    pool = PromptSearch.read({"mode": "ldp"})._pool(LISTED)
    said = TINY.embed_texts([LISTED.spell([index])[0] for index in pool.tolist()])
    wanted = torch.tensor([1.0, *[-1.0] * (len(said) - 1)])
    apart = torch.nn.functional.normalize(torch.linalg.pinv(said) @ wanted, dim=0)
    assert float(said[0] @ apart) > 0.05 > -0.05 > float((said[1:] @ apart).max())
    return apart[None], -apart[None]


@pytest.mark.parametrize("utility", ["word", "row"])
def test_the_sampler_keeps_its_epsilon_on_the_two_most_unlike_films(utility):
    one, other = opposite_films()
    options = {"words": 1, "epsilon": 2.0, "utility": utility, "clip": 0.05, "steps": 3}
    counts = [drawn(options, film, 3000)[0] for film in (one, other)]
    assert empirical_epsilon(*counts) <= 2.0
    if utility == "word":  # the test has the power to find a mechanism that spends more
        wasteful = [drawn(options | {"epsilon": 6.0}, film, 3000)[0] for film in (one, other)]
        assert empirical_epsilon(*wasteful) > 2.0


def test_the_sampler_draws_from_the_fixed_set_alone_and_leaves_the_record_as_it_is():
    film = opposite_films()[0]
    search = PromptSearch.read({"mode": "ldp", "words": 3, "epsilon": 1.0})
    pool = set(search._pool(LISTED).tolist())
    _, found, begun = drawn({"words": 3, "epsilon": 1.0}, film, 40)
    for ids, mask, fixed in zip(found.ids, found.mask, begun.fixed, strict=True):
        assert LISTED.spell(ids[fixed].tolist())[0] == "no mass"
        words = ids[mask & ~fixed].tolist()
        assert len(words) == 3
        assert len(set(words)) == 3
        assert set(words) <= pool


def test_a_short_report_does_not_make_the_mechanism_draw_more_words_than_it_counts():
    _, found, begun = drawn({"words": 2}, opposite_films()[0], 5, texts=("",))
    assert (found.mask & ~begun.fixed).sum(1).tolist() == [2] * 5


def test_a_large_budget_draws_the_best_words_and_a_small_one_any():
    film = opposite_films()[0]
    certain = drawn({"words": 1, "epsilon": 400.0, "clip": 1.0}, film, 60)[0]
    assert max(certain) == 60
    vague = drawn({"words": 1, "epsilon": 0.001}, film, 600)[0]
    assert min(vague) > 0


def test_a_vlm_without_the_words_of_the_set_is_refused_before_any_film(monkeypatch):
    monkeypatch.setattr("updp.methods.updp.searches.drawable", lambda which: frozenset({"effusion"}))
    with pytest.raises(BadOption, match="use 'whitelist'"):
        PromptSearch.read({"mode": "ldp"})._pool(LISTED)
    assert len(PromptSearch.read({"mode": "ldp", "vocabulary": "whitelist"})._pool(LISTED)) > 2
