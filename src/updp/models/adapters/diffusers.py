"""Any diffusers text-to-image folder (Stable Diffusion, RoentGen-like) as `generator`, its VAE as `autoencoder`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from updp.models.generator import Condition
from updp.models.images import batched


def _grey(images: Tensor, size: int) -> Tensor:
    """Three channels in [0, 1] at any size to one at `size`."""
    images = images.float().mean(1, keepdim=True)
    if images.shape[-1] != size:
        images = functional.interpolate(images, size, mode="bilinear", antialias=True)
    return images.clamp(0, 1)


def _colour(images: Tensor, size: int) -> Tensor:
    """Grey in [0, 1] to three channels in [-1, 1] at `size`, as Stable Diffusion's VAE wants them."""
    if images.shape[-1] != size:
        images = functional.interpolate(images, size, mode="bilinear", antialias=True)
    return images.expand(-1, 3, -1, -1) * 2 - 1


class DiffusersAutoencoder:
    """The `AutoencoderKL` of a pipeline folder (or a VAE folder itself)."""

    def __init__(
        self, path: Path, device: str = "cpu", size: int = 256, work: int | None = None, dtype: str = "float32"
    ) -> None:
        from diffusers import AutoencoderKL

        folder = path / "vae" if (path / "vae").is_dir() else path
        vae = AutoencoderKL.from_pretrained(str(folder), local_files_only=True)  # type: ignore[no-untyped-call]
        self.vae: Any = vae.to(device, getattr(torch, dtype)).eval().requires_grad_(False)
        self.size = size
        self.work = work or size  # the resolution the VAE works at

    @batched
    def encode(self, images: Tensor) -> Tensor:
        colour = _colour(images.to(self.vae.device, self.vae.dtype), self.work)
        latents: Tensor = self.vae.encode(colour).latent_dist.mode() * self.vae.config.scaling_factor
        return latents

    @batched
    def decode(self, latents: Tensor) -> Tensor:
        scaled = latents.to(self.vae.device, self.vae.dtype) / self.vae.config.scaling_factor
        decoded = self.vae.decode(scaled).sample
        return _grey((decoded + 1) / 2, self.size).cpu()


class DiffusersGenerator:
    """A text-to-image pipeline folder; image-to-image by the same weights."""

    def __init__(
        self, path: Path, device: str = "cpu", size: int = 256, work: int | None = None, dtype: str = "float32"
    ) -> None:
        from diffusers import AutoPipelineForImage2Image, AutoPipelineForText2Image

        pipe: Any = AutoPipelineForText2Image.from_pretrained(  # type: ignore[no-untyped-call]
            str(path), dtype=getattr(torch, dtype), local_files_only=True, safety_checker=None
        )
        pipe.set_progress_bar_config(disable=True)
        self.text2image: Any = pipe.to(device)
        self.image2image: Any = AutoPipelineForImage2Image.from_pipe(pipe)
        self.image2image.set_progress_bar_config(disable=True)
        factor = pipe.vae_scale_factor
        self.device, self.size = device, size
        self.work = work or int(pipe.unet.config.sample_size) * factor

    def condition(self, prompts: Sequence[str]) -> Condition:
        pipe = self.text2image
        tokens = pipe.tokenizer(
            list(prompts),
            padding="max_length",
            max_length=pipe.tokenizer.model_max_length,
            truncation=True,
            return_tensors="pt",
        )
        with torch.no_grad():
            states = pipe.text_encoder(tokens.input_ids.to(self.device))[0]
        # Stable Diffusion's U-Net was trained with the padding tokens in its condition.
        return Condition(states, torch.ones(states.shape[:2], dtype=torch.bool, device=states.device))

    def noise(self, latents: Tensor, t: Tensor, condition: Condition) -> Tensor:
        """Predicted noise at times t in [0, 1] of the pipeline's own schedule."""
        scheduler = self.text2image.scheduler
        step = (t * (scheduler.config.num_train_timesteps - 1)).round().long().to(self.device)
        raw = self.text2image.unet(latents, step, encoder_hidden_states=condition.states).sample
        if scheduler.config.prediction_type == "epsilon":
            return raw  # type: ignore[no-any-return]
        kept = scheduler.alphas_cumprod.to(latents)[step][:, None, None, None]
        if scheduler.config.prediction_type == "v_prediction":
            return kept.sqrt() * raw + (1 - kept).sqrt() * latents  # type: ignore[no-any-return]
        return (latents - kept.sqrt() * raw) / (1 - kept).sqrt()  # type: ignore[no-any-return]

    @torch.no_grad()
    def generate(
        self,
        prompts: Sequence[str],
        seeds: Sequence[int],
        steps: int | None = None,
        guidance: float | None = None,
        init_images: Tensor | None = None,
        strength: float | None = None,
        batch: int = 8,
    ) -> Tensor:
        if len(prompts) != len(seeds):
            raise ValueError(f"{len(prompts)} prompts but {len(seeds)} seeds: give one seed per film")
        if (init_images is None) != (strength is None):
            raise ValueError("init_images and strength belong together: give both or neither")
        out = []
        for i in range(0, len(prompts), batch):
            part = slice(i, i + batch)
            common = {
                "prompt": list(prompts[part]),
                "num_inference_steps": 20 if steps is None else steps,
                "guidance_scale": 2.0 if guidance is None else guidance,
                "generator": [torch.Generator(self.device).manual_seed(int(s)) for s in seeds[part]],
                "output_type": "pt",
            }
            if init_images is None:
                made = self.text2image(height=self.work, width=self.work, **common)
            else:
                image = _colour(init_images[part].to(self.device), self.work)
                made = self.image2image(image=(image + 1) / 2, strength=strength, **common)
            out.append(_grey(made.images, self.size).cpu())
        return torch.cat(out) if out else torch.zeros(0, 1, self.size, self.size)
