"""Heads in closed form bring films to their texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.training.miniature import SIZE, TINY, studies
from updp.models.vlm import VisionLanguage
from updp.training.corpus import prepare_corpus
from updp.training.tokenizer import train_tokenizer
from updp.training.vlm import film_features, fit_heads, missing_words

pytestmark = pytest.mark.numeric


def test_films_come_nearer_to_texts_that_describe_them(tmp_path):
    corpus = prepare_corpus(studies(), tmp_path / "corpus", SIZE)
    sentences = [s for row in corpus.rows("train") for s in corpus.sentences[row]]
    tokenizer = train_tokenizer(sentences, 300, False)
    torch.manual_seed(0)
    vlm = VisionLanguage(tokenizer.get_vocab_size(), **TINY.vlm_model).eval()
    vlm.tokenizer = tokenizer
    rows = corpus.rows("train")
    features = film_features(vlm, corpus, rows)
    # What the tower makes of drawn films is no use here: give the films features that tell the finding.
    features[:, :8] += 6 * torch.from_numpy(np.nan_to_num(corpus.labels[rows, 1:2]))
    figures = fit_heads(vlm, corpus, features, np.random.default_rng(0))
    with torch.no_grad():
        films = vlm.embed_features(features)
        texts = vlm.embed_texts(["The heart is enlarged. Clear lungs.", "Heart size is normal. No acute disease."])
        said = (films @ texts.T).argmax(1).numpy()
    assert ((said == 0) == (corpus.labels[rows, 1] == 1)).mean() > 0.9
    assert figures["ridge"] > 0


def test_words_that_were_said_are_nearer_than_words_that_were_not():
    table = torch.eye(6)
    ids, mask = torch.tensor([[1, 2, 0]]), torch.tensor([[True, True, False]])
    said = missing_words(10 * (table[1] + table[2])[None], table, ids, mask)
    unsaid = missing_words(10 * (table[3] + table[4])[None], table, ids, mask)
    assert said < 1 < unsaid
