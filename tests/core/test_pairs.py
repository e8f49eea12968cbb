import random

import pytest

from updp.core import pairs
from updp.core.pairs import Pairs, number_of


def several(found):
    with Pairs() as table:
        for key, value in found:
            table.add(key, value)
        return table.several()


def test_a_key_with_one_value_however_often_is_not_several():
    assert several([]) == set()
    assert several([(1, 5), (1, 5), (2, 5)]) == set()
    assert several([(1, 5), (2, 7), (1, 6), (2**64 - 1, 0), (2**64 - 1, 2**64 - 1)]) == {1, 2**64 - 1}


@pytest.mark.parametrize("held", [1, 3, 64])
def test_the_answer_does_not_depend_on_how_many_pairs_are_held_in_memory(held, monkeypatch):
    chance = random.Random(5)
    keys = [chance.choice((chance.getrandbits(64), chance.getrandbits(4))) for _ in range(500)]
    found = [(key, chance.getrandbits(1)) for key in keys]
    plain = several(found)
    assert plain == {key for key, _ in found if len({v for k, v in found if k == key}) > 1}
    assert plain
    monkeypatch.setattr(pairs, "_HELD", held)
    assert several(found) == plain


def test_names_are_numbers_of_64_bits_also_where_they_are_not_utf8():
    assert 0 <= number_of("a") < 2**64
    assert number_of("a") != number_of("b")
    assert number_of("\udc80") != number_of("a")
