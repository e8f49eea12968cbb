"""A small hospital of drawn films and a pack of untrained models: what utility experiments are tested on."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from updp.domains.chest.labels import FINDINGS
from updp.evaluation.cohort.exhibit import Exhibit
from updp.models.pack import Pack, load_pack, write_pack_toml
from updp.models.weights import save_weights

SIZE = 64
WORDS = ("the", "heart", "is", "enlarged", "normal", "in", "size", "lungs", "are", "clear", "no", "effusion", "there")
WORDS += ("a", "left", "right", "pleural", ".", ",", "acute")


def film(rng: np.random.Generator, findings: np.ndarray) -> np.ndarray:
    """Noise with a bright bar for the first finding and a bright square for the second."""
    out = rng.normal(90, 12, (SIZE, SIZE))
    if findings[0]:
        out[20:28, :] += 80
    if findings[1]:
        out[40:56, 40:56] += 80
    return np.clip(out, 0, 255).astype(np.uint8)


def report(findings: np.ndarray) -> str:
    heart = "The heart is enlarged." if findings[0] else "The heart is normal in size."
    pleura = "There is a left pleural effusion." if findings[1] else "No pleural effusion."
    return f"{heart} {pleura}"


def exhibit(patients: int = 60, films: int = 2, seed: int = 0) -> Exhibit:
    """Every other patient has the first finding, every third the second; a third of the patients are scored."""
    rng = np.random.default_rng(seed)
    rows = [(p, v) for p in range(patients) for v in range(films)]
    labels = np.zeros((len(rows), len(FINDINGS)), np.float32)
    for i, (p, _) in enumerate(rows):
        labels[i, 0], labels[i, 1] = p % 2 == 0, (p // 2) % 3 == 0
    real = np.stack([film(rng, y) for y in labels])
    texts = [report(y) for y in labels]
    return Exhibit(
        real=real,
        released=real.copy(),
        patients=np.array([f"p{p:03d}" for p, _ in rows]),
        splits=np.array(["train" if p % 5 < 3 else "val" if p % 5 == 3 else "test" for p, _ in rows]),
        views=np.array(["PA" if p % 7 else "AP" for p, _ in rows]),
        labels=labels,
        ages=np.array([20 + p % 60 for p, _ in rows], np.float32),
        sexes=np.array(["F" if (p // 6) % 2 else "M" for p, _ in rows]),
        real_texts=texts,
        released_texts=list(texts),
    )


def noise(shown: Exhibit, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shown.real.shape, dtype=np.uint8)


def pack(directory: Path) -> Pack:
    """Untrained classifier and vlm of the real classes, saved and loaded as any pack is."""
    import torch
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    from updp.models.classifier import Classifier
    from updp.models.vlm import VisionLanguage

    tokens = {t: i for i, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *dict.fromkeys(WORDS)])}
    tokenizer = Tokenizer(models.WordPiece(tokens, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    from tokenizers import decoders

    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(str(directory / "tokenizer.json"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        classifier = Classifier(FINDINGS, size=SIZE)
        vlm = VisionLanguage(len(tokens), width=32, layers=1, heads=2, context=24, size=SIZE, space=16)
        # Fresh batch statistics leave maps of a random network nearly constant; those of noise spread them.
        for model in (classifier.encoder, vlm.image):
            model.train()
            with torch.no_grad():
                for _ in range(3):
                    model(torch.rand(16, 1, SIZE, SIZE))
            for part in model.modules():
                if isinstance(part, torch.nn.BatchNorm2d):
                    part.momentum = 0.3
            with torch.no_grad():
                for _ in range(10):
                    model(torch.rand(16, 1, SIZE, SIZE) * torch.rand(16, 1, 1, 1))
            model.eval()
    save_weights(classifier, directory / "classifier.safetensors")
    save_weights(vlm, directory / "vlm.safetensors")
    roles = {
        "classifier": {"kind": "updp", "file": "classifier.safetensors", "config": classifier.config},
        "vlm": {"kind": "updp", "file": "vlm.safetensors", "tokenizer": "tokenizer.json", "config": vlm.config},
    }
    write_pack_toml(directory, {"name": "small", "size": SIZE, "roles": roles})
    return load_pack(directory)
