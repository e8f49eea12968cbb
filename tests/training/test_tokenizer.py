from updp.training.tokenizer import train_tokenizer


def test_the_vocabulary_has_words_to_tell_and_words_to_block():
    tokenizer = train_tokenizer(["The heart is enlarged with cardiomegaly."] * 3)
    words = tokenizer.get_vocab()
    for word in ("cardiomegaly", "effusion", "smith", "january", "male", "hospital", "7", "1987", "texas"):
        assert word in words, word


def test_a_text_is_framed_and_comes_back_as_it_was_said():
    tokenizer = train_tokenizer(["clear lungs"], size=400, names=False)
    encoded = tokenizer.encode("The Heart is enlarged")
    assert encoded.tokens[0] == "[CLS]"
    assert encoded.tokens[-1] == "[SEP]"
    assert tokenizer.decode(encoded.ids) == "the heart is enlarged"
