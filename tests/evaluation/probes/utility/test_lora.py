"""LoRA fine-tuning of the real model classes, tiny and untrained: what learns, what is masked, what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from updp.evaluation.probes.utility.lora import LoraSettings, ReportModel, UnknownModel, batch, families, load, writer
from updp.models.errors import MissingRequirement

peft = pytest.importorskip("peft")
TINY = LoraSettings(
    rank=4, alpha=8, epochs=12, batch=4, at_once=2, rate=2e-2, merger_rate=1e-2, vision_rate=1e-2, length=24
)
SPECIAL = ["<pad>", "<unk>", "<bos>", "<eos>"]
REPORTS = ["Clear.", "Large heart.", "Clear.", "Large heart."]


def tokenizer(special: list[str], template: str):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: i for i, token in enumerate([*SPECIAL, *special, "\n", *map(chr, range(32, 127))])}
    letters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=letters,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        extra_special_tokens=special,
        chat_template=template,
    )


CHAT = (
    "{% for m in messages %}START{{ m['role'] }}:{% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}FILM{% else %}{{ c['text'] }}{% endif %}{% endfor %}END{% endfor %}"
    "{% if add_generation_prompt %}STARTmodel:{% endif %}"
)


def qwen(folder):
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    special = ["<|im_start|>", "<|im_end|>", "<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"]
    film = "<|vision_start|><|image_pad|><|vision_end|>"
    template = CHAT.replace("START", "<|im_start|>").replace("END", "<|im_end|>").replace("FILM", film)
    tokens = tokenizer(special, template)
    ids = dict(zip(special, tokens.convert_tokens_to_ids(special), strict=True))
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokens),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 10000.0},
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [1],
            "window_size": 56,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(0)
    Qwen2_5_VLForConditionalGeneration(config).save_pretrained(folder)
    tokens.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=56 * 56).save_pretrained(folder)


def gemma(folder):
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

    special = ["<start_of_turn>", "<end_of_turn>", "<start_of_image>", "<image_soft_token>", "<end_of_image>"]
    template = CHAT.replace("START", "<start_of_turn>").replace("END", "<end_of_turn>")
    tokens = tokenizer(special, "<bos>" + template.replace("FILM", "<start_of_image>"))
    ids = dict(zip(special, tokens.convert_tokens_to_ids(special), strict=True))
    config = Gemma3Config(
        text_config={
            "vocab_size": len(tokens),
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 8,
            "sliding_window": 512,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
        },
        vision_config={
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": 56,
            "patch_size": 14,
        },
        mm_tokens_per_image=4,
        image_token_index=ids["<image_soft_token>"],
        boi_token_index=ids["<start_of_image>"],
        eoi_token_index=ids["<end_of_image>"],
    )
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config)
    torch.nn.init.normal_(model.model.multi_modal_projector.mm_input_projection_weight)  # zero in a fresh model
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    Gemma3ImageProcessorPil(size={"height": 56, "width": 56}).save_pretrained(folder)


@pytest.fixture(scope="module", params=[qwen, gemma], ids=["Qwen2.5-VL", "Gemma-3"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param.__name__)
    request.param(path)
    return path


def films(count: int = 4) -> np.ndarray:
    """Dark films and bright ones in turn."""
    rng = np.random.default_rng(0)
    level = np.where(np.arange(count) % 2, 200, 30)[:, None, None]
    return (level + rng.integers(0, 20, (count, 64, 64))).astype(np.uint8)


def opened(folder, settings=TINY) -> ReportModel:
    return load(folder, settings, device="cpu", precision=torch.float32)


def test_adapters_learn_and_the_base_stays(folder):
    model = opened(folder)
    groups = {g["name"]: g for g in model.groups()}
    assert set(groups) == {"language", "merger", "vision"}
    assert groups["vision"]["lr"] == TINY.vision_rate
    trainable = {n for n, p in model.model.named_parameters() if p.requires_grad}
    assert all("lora_" in n or model.family["merger"] in n for n in trainable)
    assert not any("lm_head" in n for n in trainable)
    before = {n: p.detach().clone() for n, p in model.model.named_parameters()}
    losses = model.fit(films(), REPORTS, seed=0)
    assert len(losses) == TINY.epochs
    assert losses[-1] < losses[0] - 0.2
    moved = {n for n, p in model.model.named_parameters() if not torch.equal(p, before[n])}
    assert moved
    assert moved <= trainable
    assert any(n.removeprefix("base_model.model.").startswith(model.family["vision"]) for n in moved)
    written = model.write(films(3))
    assert len(written) == 3
    assert all(isinstance(text, str) for text in written)


def test_the_same_seed_learns_the_same_and_saves_only_what_learned(folder, tmp_path):
    short = LoraSettings(rank=2, alpha=2, dropout=0.05, epochs=1, batch=4, at_once=4, length=4)
    runs = [opened(folder, short) for _ in range(2)]
    losses = [model.fit(films(), REPORTS, seed=3) for model in runs]
    assert losses[0] == losses[1]
    runs[0].save(tmp_path)
    sizes = {p.name: p.stat().st_size for p in tmp_path.iterdir()}
    assert "adapter_model.safetensors" in sizes
    assert json.loads((tmp_path / "adapter_config.json").read_text())["r"] == 2


def test_a_batch_in_parts_has_the_loss_of_a_whole_one(folder):
    base = {"rank": 2, "alpha": 2, "dropout": 0.0, "epochs": 1, "batch": 4}
    losses = [opened(folder, LoraSettings(**base, at_once=k)).fit(films(), REPORTS, seed=0)[0] for k in (1, 4)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_prompt_film_and_padding_are_not_learned(folder):
    reader = opened(folder).reader
    prompts, seen = reader.examples(films(2), "What is seen?")
    answers = [reader.answer("Clear."), reader.answer("Large heart.")]
    inputs = batch(prompts, answers, reader)
    for i, answer in enumerate(answers):
        kept = inputs["labels"][i][inputs["labels"][i] != -100].tolist()
        assert kept == answer
        assert answer[-1] == reader.end
    assert (inputs["input_ids"] == reader.film).sum() == 2 * (prompts[0].count(reader.film))
    assert prompts[0].count(reader.film) == 4
    assert torch.isfinite(seen["pixel_values"]).all()
    alone = batch([prompts[0], prompts[0][1:]], None, reader)
    assert alone["attention_mask"][1].tolist()[0] == 0
    assert "labels" not in alone


def test_the_writer_fits_the_experiment(folder):
    from updp.evaluation.probes.utility.report_generation import Pairs

    short = LoraSettings(rank=2, alpha=2, epochs=1, batch=4, length=4)
    write = writer(lambda: opened(folder, short), {"real": films(), "released": films()})
    written = write([Pairs("released", np.array([0, 1]), REPORTS[:2])], np.array([2, 3]), 0)
    assert len(written) == 2


def test_the_settings_are_the_papers():
    settings = LoraSettings()
    assert (settings.rank, settings.alpha, settings.dropout) == (64, 64, 0.05)
    assert (settings.epochs, settings.batch) == (3, 36)
    assert (settings.rate, settings.merger_rate, settings.vision_rate) == (1e-5, 1e-5, 1e-4)


def test_as_many_reports_as_films(folder):
    with pytest.raises(ValueError, match="2 films for 1 reports"):
        opened(folder).fit(films(2), ["Clear."], seed=0)


def test_folders_that_hold_no_known_model_are_refused(tmp_path):
    with pytest.raises(MissingRequirement, match=r"config\.json"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(UnknownModel, match=r"bert.*Qwen2\.5-VL"):
        load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "phi3_v"}')
    with pytest.raises(UnknownModel, match="trust_code=True"):
        load(tmp_path)


def phi(folder):
    """A folder with code of its own, as Phi-3.5-vision's; its real code is not to be had here."""
    special = ["<|user|>", "<|assistant|>", "<|end|>"]
    tokens = tokenizer(special, CHAT)
    tokens.save_pretrained(folder)
    code = (Path(__file__).parent / "own_code.py.txt").read_text()
    (folder / "own_code.py").write_text(code)
    config = {
        "model_type": "phi3_v",
        "architectures": ["Phi3VForCausalLM"],
        "auto_map": {"AutoConfig": "own_code.Phi3VConfig", "AutoModelForCausalLM": "own_code.Phi3VForCausalLM"},
        "vocab_size": len(tokens),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "tie_word_embeddings": False,
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "processor_config.json").write_text(
        json.dumps({"processor_class": "Phi3VProcessor", "auto_map": {"AutoProcessor": "own_code.Phi3VProcessor"}})
    )
    import runpy

    made = runpy.run_path(str(folder / "own_code.py"))
    plain = {k: v for k, v in config.items() if k not in ("auto_map", "architectures", "model_type")}
    torch.manual_seed(0)
    state = made["Phi3VForCausalLM"](made["Phi3VConfig"](**plain)).state_dict()
    from safetensors.torch import save_file

    save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})


def test_a_model_with_code_of_its_own_is_run_only_when_trusted(tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    folder = tmp_path / "model"
    folder.mkdir()
    phi(folder)
    with pytest.raises(UnknownModel, match="trust_code=True"):
        opened(folder)
    model = load(folder, TINY, device="cpu", precision=torch.float32, trust_code=True)
    assert {g["name"] for g in model.groups()} == {"language", "merger", "vision"}
    losses = model.fit(films(), REPORTS, seed=0)
    assert losses[-1] < losses[0] - 0.2
    assert len(model.write(films(2))) == 2


def test_without_peft_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingRequirement, match=r"updp\[pretrained\]"):
        load(folder)


def test_every_family_says_what_it_needs():
    for family in families().values():
        assert {"name", "end", "vision", "merger"} <= set(family)
