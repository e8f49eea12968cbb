"""A vlm of the real class, a few words large, for tests of prompts."""

import torch

from updp.models.vlm import VisionLanguage

#: Words a report may use, words that identify, and pieces that spell a name.
WORDS = (  # noqa: SIM905
    "effusion nodule cardiomegaly opacity left right lung heart no small large clear normal pleural mass the is there "
    "in of smith john january male hospital boston stark kowalski 7 2019 , . ##smith ##th smi"
).split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tiny_vlm(seed: int = 0) -> VisionLanguage:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    table = {word: n for n, word in enumerate([*SPECIAL, *WORDS])}
    tokenizer = Tokenizer(models.WordPiece(table, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", table["[CLS]"]), ("[SEP]", table["[SEP]"])]
    )
    torch.manual_seed(seed)
    vlm = VisionLanguage(len(table), width=32, layers=2, heads=2, context=24, size=64, space=16)
    torch.nn.init.normal_(vlm.text.tokens.weight, std=1.0)
    vlm.requires_grad_(False).eval()
    vlm.tokenizer = tokenizer
    return vlm


def tiny_pack(folder, labels=("Effusion", "Nodule"), **thresholds):
    """A pack folder of the real roles, untrained, small enough to generate in a moment."""
    from updp.models.autoencoder import Autoencoder
    from updp.models.classifier import Classifier
    from updp.models.generator import UNet
    from updp.models.identity import Identity
    from updp.models.pack import write_pack_toml
    from updp.models.weights import save_weights

    torch.manual_seed(1)
    vlm = tiny_vlm()
    roles = {
        "autoencoder": Autoencoder(channels=4, width=16),
        "vlm": vlm,
        "generator": UNet(channels=4, widths=(32, 32), context=32),
        "identity": Identity(size=64, space=16),
        "classifier": Classifier(labels, size=64),
    }
    folder.mkdir(parents=True)
    vlm.tokenizer.save(str(folder / "tokenizer.json"))
    info = {"name": "tiny", "version": "0", "size": 256, "thresholds": thresholds, "roles": {}}
    for name, module in roles.items():
        save_weights(module, folder / f"{name}.safetensors")
        info["roles"][name] = {"kind": "updp", "file": f"{name}.safetensors", "config": module.config}
    info["roles"]["vlm"]["tokenizer"] = "tokenizer.json"
    write_pack_toml(folder, info)
    return folder
