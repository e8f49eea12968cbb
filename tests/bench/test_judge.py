import pytest
import torch

from tests.training.miniature import SIZE, studies
from updp.bench.judge import JudgeError, Words, load_judge, read_alexnet, train_judge
from updp.training.corpus import prepare_corpus

pytestmark = pytest.mark.numeric

# AlexNet's layers with few channels, under torchvision's names.
_SHAPES = {0: (8, 3, 11), 3: (12, 8, 5), 6: (16, 12, 3), 8: (16, 16, 3), 10: (16, 16, 3)}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judge")
    draw = torch.Generator().manual_seed(0)
    trunk = {}
    for place, (outputs, inputs, kernel) in _SHAPES.items():
        spread = (inputs * kernel * kernel) ** -0.5
        trunk[f"features.{place}.weight"] = spread * torch.randn(outputs, inputs, kernel, kernel, generator=draw)
        trunk[f"features.{place}.bias"] = torch.zeros(outputs)
    torch.save(trunk, folder / "alexnet.pth")
    corpus = prepare_corpus(studies(), folder / "corpus", SIZE)
    said = []
    judge = train_judge(corpus, folder / "alexnet.pth", folder / "judge.safetensors", say=said.append)
    return folder, corpus, judge, said


def test_it_learns_which_text_belongs_to_which_film(trained):
    _, corpus, judge, _ = trained
    texts = ["The heart is enlarged.", "Heart size is normal."]
    train = corpus.rows("train")
    films = torch.from_numpy(corpus.films[train].astype("float32") / 255)[:, None]
    nearer = (judge.embed_images(films) @ judge.embed_texts(texts).T).argmax(1).numpy()
    assert ((nearer == 0) == (corpus.labels[train, 1] == 1)).mean() > 0.8


def test_it_says_how_good_it_is_on_patients_it_has_not_seen(trained):
    assert "recall@10" in trained[3][0]
    assert "zero-shot auc" in trained[3][0]


def test_the_order_of_words_does_not_matter_and_unknown_words_say_nothing(trained):
    judge = trained[2]
    first, second, third = judge.embed_texts(["heart is enlarged", "enlarged heart is", "enlarged qqqq heart is"])
    assert torch.allclose(first, second)
    assert torch.allclose(first, third)


def test_it_is_read_back_as_it_was_written(trained):
    folder, corpus, judge, _ = trained
    again = load_judge(folder / "judge.safetensors")
    films = torch.from_numpy(corpus.films[:3].astype("float32") / 255)[:, None]
    assert torch.allclose(again.embed_texts(["clear lungs"]), judge.embed_texts(["clear lungs"]), atol=1e-5)
    assert torch.allclose(again.embed_images(films), judge.embed_images(films), atol=1e-4)


def test_a_text_without_a_word_has_an_embedding_too(trained):
    assert trained[2].embed_texts(["", "..."]).isfinite().all()


def test_texts_without_a_common_word_are_refused():
    with pytest.raises(ValueError, match="no word in common"):
        Words.learned(["one", "two", "three"])


def test_weights_that_are_no_alexnet_are_said_so_before_any_film_is_read(tmp_path):
    with pytest.raises(JudgeError, match="no weights at"):
        read_alexnet(tmp_path / "none.ckpt")
    other = {"features.0.weight": torch.zeros(2, 3, 3, 3), "features.0.bias": torch.zeros(2)}
    torch.save(other, tmp_path / "other.pth")
    (tmp_path / "broken.ckpt").write_bytes(b"not weights")
    (tmp_path / "broken.pth").write_bytes(b"not weights")
    for name in ("other.pth", "broken.ckpt", "broken.pth"):
        with pytest.raises(JudgeError, match="no AlexNet"):
            read_alexnet(tmp_path / name)


def test_a_missing_or_foreign_file_is_said_so(tmp_path):
    from safetensors.torch import save_file

    with pytest.raises(JudgeError, match="no judge at"):
        load_judge(tmp_path / "none.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"not weights")
    with pytest.raises(JudgeError, match="not a judge"):
        load_judge(tmp_path / "broken.safetensors")
    save_file({"other": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(JudgeError, match="not a judge"):
        load_judge(tmp_path / "other.safetensors")
