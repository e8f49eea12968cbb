"""BiomedCLIP, or any open_clip model in a local folder, as `vlm`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from updp.models.adapters import extra
from updp.models.images import batched


class OpenClipVlm:
    """A folder with `open_clip_config.json` and its weights (as open_clip saves it for a hub)."""

    def __init__(self, path: Path, device: str = "cpu", dtype: str = "float32") -> None:
        open_clip = extra("open_clip")
        name = f"local-dir:{path}"
        model, preprocess = open_clip.create_model_from_pretrained(name)
        self.wrap(model.to(getattr(torch, dtype)), open_clip.get_tokenizer(name), device)
        del preprocess  # it works on PIL images; films are tensors already and need its numbers only

    def wrap(self, model: Any, tokenizer: Any, device: str = "cpu") -> OpenClipVlm:
        """Use a model that is already built."""
        self.model: Any = model.to(device).eval().requires_grad_(False)
        self.tokenizer, self.device = tokenizer, device
        visual = model.visual
        size = visual.image_size
        self.size = size[0] if isinstance(size, tuple | list) else size
        config = visual.preprocess_cfg
        self.mean = torch.tensor(config["mean"], device=device)[:, None, None]
        self.std = torch.tensor(config["std"], device=device)[:, None, None]
        return self

    @property
    def _text(self) -> Any:
        return getattr(self.model, "text", self.model)

    @property
    def token_table(self) -> Tensor:
        text = self._text
        if hasattr(text, "transformer") and hasattr(text.transformer, "get_input_embeddings"):
            return text.transformer.get_input_embeddings().weight  # type: ignore[no-any-return]
        return text.token_embedding.weight  # type: ignore[no-any-return]

    @batched
    def embed_images(self, images: Tensor) -> Tensor:
        x = functional.interpolate(images.to(self.device).float(), self.size, mode="bicubic", antialias=True)
        x = ((x.clamp(0, 1).expand(-1, 3, -1, -1) - self.mean) / self.std).to(self.token_table.dtype)
        return functional.normalize(self.model.encode_image(x), dim=-1)

    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        with torch.no_grad():
            tokens = self.tokenizer(list(texts)).to(self.device)
            return functional.normalize(self.model.encode_text(tokens), dim=-1)

    def embed_tokens(self, embeddings: Tensor, mask: Tensor) -> Tensor:
        """Unit vectors of token embeddings with the special tokens in place; differentiable."""
        text = self._text
        if hasattr(text, "pooler"):  # a Hugging Face tower, as BiomedCLIP has; its forward takes ids only
            out = text.transformer(inputs_embeds=embeddings, attention_mask=mask.long())
            return functional.normalize(text.proj(text.pooler(out, mask.long())), dim=-1)
        x = embeddings + text.positional_embedding[: embeddings.shape[1]]
        length = embeddings.shape[1]
        causal = None if text.attn_mask is None else text.attn_mask[:length, :length].to(x)
        x = text.ln_final(text.transformer(x, attn_mask=causal))
        # CLIP takes the sentence vector from its closing token: the last real one.
        last = x[torch.arange(len(x), device=x.device), mask.long().sum(1) - 1]
        project = text.text_projection
        return functional.normalize(project(last) if callable(project) else last @ project, dim=-1)
