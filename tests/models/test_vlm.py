import pytest
import torch

from updp.models.vlm import VisionLanguage
from updp.training.tokenizer import train_tokenizer

pytestmark = pytest.mark.numeric


@pytest.fixture(scope="module")
def vlm():
    torch.manual_seed(0)
    tokenizer = train_tokenizer(["the heart is enlarged"], size=400, names=False)
    vlm = VisionLanguage(tokenizer.get_vocab_size(), width=32, layers=2, heads=2, context=16, size=32, space=8)
    vlm.tokenizer = tokenizer
    return vlm.eval().requires_grad_(False)


def test_embedding_tokens_is_embedding_the_text(vlm):
    texts = ["The heart is enlarged.", "Clear lungs."]
    ids, mask = vlm.tokenize(texts)
    assert torch.allclose(vlm.embed_tokens(vlm.token_table[ids], mask), vlm.embed_texts(texts), atol=1e-6)


def test_gradients_reach_the_token_embeddings(vlm):
    ids, mask = vlm.tokenize(["The heart is enlarged."])
    rows = vlm.token_table[ids].clone().requires_grad_()
    vlm.embed_tokens(rows, mask)[0, 0].backward()
    assert rows.grad is not None
    assert (rows.grad.abs().sum(-1) > 0).all()


def test_a_neighbour_in_the_batch_does_not_change_a_text(vlm):
    long = "The heart is enlarged. " * 3
    together = vlm.embed_texts(["Clear lungs.", long])[0]
    assert torch.allclose(together, vlm.embed_texts(["Clear lungs."])[0], atol=1e-5)


def test_long_texts_are_cut_to_the_context_and_still_closed(vlm):
    ids, mask = vlm.tokenize(["the heart " * 50])
    assert ids.shape == (1, 16)
    assert mask.all()
    assert ids[0, -1] == vlm.tokenizer.token_to_id("[SEP]")


def test_the_empty_text_has_an_embedding(vlm):
    assert torch.isfinite(vlm.embed_texts([""])).all()


def test_embeddings_are_unit_vectors(vlm):
    films = vlm.embed_images(torch.rand(2, 1, 64, 64))
    assert torch.allclose(films.norm(dim=1), torch.ones(2), atol=1e-5)


def test_without_a_tokenizer_texts_are_refused():
    bare = VisionLanguage(10, width=32, layers=1, heads=2, context=8, size=32, space=8)
    with pytest.raises(RuntimeError, match="has no tokenizer"):
        bare.embed_texts(["x"])
