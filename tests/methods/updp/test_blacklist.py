"""Which tokens a prompt may use."""

import pytest

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.blacklist import Vocabulary, VocabularyError, piece_of

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)
ID = VLM.tokenizer.token_to_id


@pytest.mark.parametrize(
    "word", ["smith", "john", "january", "male", "hospital", "boston", "kowalski", "7", "2019", ","]
)
def test_private_words_numbers_and_marks_are_blocked(word):
    assert VOCABULARY.blocked[ID(word)]


@pytest.mark.parametrize("word", ["effusion", "nodule", "cardiomegaly", "no", "left", "clear"])
def test_pathology_anatomy_negation_and_laterality_are_favoured(word):
    assert VOCABULARY.favoured[ID(word)]


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[PAD]", "##smith", "##th"])
def test_special_tokens_and_pieces_are_blocked(token):
    assert VOCABULARY.blocked[ID(token)]


def test_the_users_own_lists_count():
    mine = Vocabulary(VLM, block=["nodule"], allow=["stark"])
    assert mine.blocked[ID("nodule")]
    assert mine.favoured[ID("stark")]


def test_lists_that_block_everything_or_fit_nothing_are_said_so():
    with pytest.raises(VocabularyError, match="block every token"):
        Vocabulary(VLM, block=VOCABULARY.tokens)
    with pytest.raises(VocabularyError, match="do not fit"):
        Vocabulary(VLM, block=[VOCABULARY.tokens[i] for i in VOCABULARY.favoured.nonzero()[:, 0]])


def test_pieces_are_spelled_as_their_tokenizer_would():
    assert VOCABULARY.spell([ID("smi"), ID("##th"), ID("left")])[0] == "smith left"
    assert piece_of("left</w>", "clip").whole
    assert not piece_of("lef", "clip").closes
    assert piece_of("##th", "wordpiece").text == "th"


def test_text_and_ids_go_both_ways():
    ids = VOCABULARY.encode("small left effusion")
    assert VOCABULARY.spell(ids)[0] == "small left effusion"
