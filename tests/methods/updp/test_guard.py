"""The last check of a prompt: no blocked word, also not spelled by pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.guard import Guard

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)
TABLE = VLM.token_table.detach()
ID = VLM.tokenizer.token_to_id


class Span:
    def __init__(self, start, end):
        self.start, self.end = start, end


def test_a_blocked_word_spelled_by_two_pieces_is_seen_and_dropped():
    guard = Guard(VOCABULARY, lambda text: [])
    ids = [ID("left"), ID("smi"), ID("##th"), ID("effusion")]
    assert guard.faults(ids) == {1, 2}
    assert guard.clean(ids) == ([ID("left"), ID("effusion")], 2)


def test_what_the_detector_finds_is_replaced_and_then_dropped():
    def find(text):
        at = text.find("left effusion")
        return [Span(at, at + 13)] if at >= 0 else []

    guard = Guard(VOCABULARY, find)
    ids = [ID("small"), ID("left"), ID("effusion")]
    assert guard.clean(ids) == ([ID("small")], 2)
    replaced, dropped = guard.clean(ids, lambda place, tried: ID("nodule") if ID("nodule") not in tried else ID("mass"))
    assert dropped == 0
    assert not guard.faults(replaced)


@given(st.lists(st.sampled_from(range(len(TABLE))), max_size=10))
def test_whatever_goes_in_no_fault_comes_out(ids):
    guard = Guard(VOCABULARY, lambda text: [])
    clean, dropped = guard.clean(ids)
    assert not guard.faults(clean)
    assert len(clean) + dropped == len(ids)
