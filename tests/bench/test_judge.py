from dataclasses import replace

import pytest
import torch

from tests.training.miniature import SIZE, studies
from updp.bench.judge import JUDGE, JudgeError, load_judge, train_judge
from updp.models.autoencoder import Autoencoder
from updp.training.corpus import prepare_corpus


def _corpus(folder):
    return prepare_corpus(studies(), folder, SIZE)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    torch.manual_seed(0)
    autoencoder = Autoencoder(8, 16).eval()
    corpus = _corpus(folder / "corpus")
    autoencoder.start_from_components(torch.from_numpy(corpus.films[:16].astype("float32") / 255)[:, None])
    said = []
    config = replace(JUDGE, steps=40, batch=24, warmup=5, rate=3e-3)
    judge = train_judge(corpus, autoencoder, folder / "judge.safetensors", config, said.append)
    return folder, corpus, autoencoder, judge, said


def test_it_learns_which_text_belongs_to_which_film(trained):
    _, corpus, _, judge, _ = trained
    texts = ["The heart is enlarged.", "Heart size is normal."]
    train = corpus.rows("train")
    films = torch.from_numpy(corpus.films[train].astype("float32") / 255)[:, None]
    with torch.no_grad():
        nearer = (judge.embed_images(films) @ judge.embed_texts(texts).T).argmax(1).numpy()
    assert ((nearer == 0) == (corpus.labels[train, 1] == 1)).mean() > 0.8


def test_it_is_read_back_as_it_was_written(trained):
    folder, _, autoencoder, judge, _ = trained
    again = load_judge(folder / "judge.safetensors", autoencoder)
    with torch.no_grad():
        assert torch.allclose(again.embed_texts(["clear lungs"]), judge.embed_texts(["clear lungs"]))


def test_a_text_without_a_word_has_an_embedding_too(trained):
    with torch.no_grad():
        assert trained[3].embed_texts(["", "..."]).isfinite().all()


def test_a_missing_or_foreign_file_is_said_so(trained, tmp_path):
    _, _, autoencoder, _, _ = trained
    with pytest.raises(JudgeError, match="no judge at"):
        load_judge(tmp_path / "none.safetensors", autoencoder)
    with pytest.raises(JudgeError, match="not a judge for this pack"):
        load_judge(trained[0] / "judge.safetensors", Autoencoder(16, 16))
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(JudgeError, match="not a judge"):
        load_judge(tmp_path / "broken.safetensors", autoencoder)
