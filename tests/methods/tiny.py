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
