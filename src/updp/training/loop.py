"""The training loop every stage shares: resumable, averaged, with a progress line.

A stage draws each batch from the step number alone, so a run that was killed and resumed has the same batches as an
unbroken run. Checkpoints are written whole (write, fsync, rename) and carry their own digest; the one before is kept
until the next is safe.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from updp.core.global_state import seeded
from updp.training.muon import Muon, takes

FORMAT = 2  # one state per optimiser


class TrainingError(RuntimeError):
    """Training cannot go on; the message says why and what is still intact."""


@dataclass(frozen=True)
class StageConfig:
    """How long and how fast one stage learns."""

    steps: int
    batch: int
    rate: float  # peak learning rate
    warmup: int = 100
    schedule: Literal["cosine", "constant", "stable"] = "cosine"
    cooldown: float = 0.2  # share of the steps, the last, in which a stable rate falls to zero
    momentum: float = 0.9  # of the optimiser; adversarial training needs less
    decay: float = 0.01  # weight decay
    average: float = 0.999  # of the exponential moving average of the weights
    clip: float = 1.0
    optimizer: Literal["adamw", "muon"] = "adamw"
    save_seconds: float = 120.0
    seed: int = 0


class Stage(Protocol):
    """What a stage has: a module, a loss for one step, and figures on validation patients."""

    name: str
    module: nn.Module

    def loss(self, module: nn.Module, step: int, rng: np.random.Generator, device: torch.device) -> Tensor: ...

    def validate(self, module: nn.Module) -> dict[str, float]: ...


def learning_rate(step: int, config: StageConfig) -> float:
    """Linear warm-up, then constant, half a cosine down to zero, or constant with a fall at the end (stable)."""
    if step < config.warmup:
        return config.rate * (step + 1) / config.warmup
    if config.schedule == "constant":
        return config.rate
    if config.schedule == "stable":
        left = (config.steps - step) / max(1.0, config.cooldown * config.steps)
        return config.rate * min(1.0, max(0.0, left))
    done = (step - config.warmup) / max(1, config.steps - config.warmup)
    return config.rate * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write `state` so that `path` is at every moment either the old or the new checkpoint."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    payload = buffer.getvalue()
    part, previous = path.with_suffix(".part"), path.with_suffix(".previous")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(hashlib.sha256(payload).digest())
            file.write(payload)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            os.replace(path, previous)
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        kept = "the last good checkpoint is intact" if path.exists() else "there is no earlier checkpoint"
        raise TrainingError(f"cannot write checkpoint {path}: {error.strerror or error}; {kept}") from error


def read_checkpoint(path: Path) -> dict[str, Any] | None:
    """The newest intact checkpoint at `path` or just before it; None if there is none at all."""
    candidates = [p for p in (path, path.with_suffix(".previous")) if p.exists()]
    for candidate in candidates:
        raw = candidate.read_bytes()
        if hashlib.sha256(raw[32:]).digest() == raw[:32]:
            state: dict[str, Any] = torch.load(io.BytesIO(raw[32:]), map_location="cpu", weights_only=True)
            if state.get("format") != FORMAT:
                raise TrainingError(f"{candidate} has checkpoint format {state.get('format')}, not {FORMAT}; delete it")
            return state
    if candidates:
        raise TrainingError(f"checkpoint {path} is corrupt and no earlier one is intact; delete it to start again")
    return None


def _average(averaged: nn.Module, module: nn.Module, decay: float) -> None:
    with torch.no_grad():
        source = module.state_dict()
        for name, value in averaged.state_dict().items():
            if value.dtype.is_floating_point:
                value.lerp_(source[name].to(value.device), 1 - decay)
            else:
                value.copy_(source[name])


#: Seconds between two validations.
_VALIDATE_EVERY = 600.0


def _optimizers(module: nn.Module, config: StageConfig) -> list[torch.optim.Optimizer]:
    """AdamW for all that learns; with Muon, for what Muon does not take."""
    named = [(name, weight) for name, weight in module.named_parameters() if weight.requires_grad]
    kernels = [weight for name, weight in named if config.optimizer == "muon" and takes(name, weight)]
    others = [weight for name, weight in named if config.optimizer != "muon" or not takes(name, weight)]
    adamw = torch.optim.AdamW(
        others, lr=config.rate, weight_decay=config.decay, betas=(config.momentum, 0.99), fused=True
    )
    return [Muon(kernels, config.rate, weight_decay=config.decay), adamw] if kernels else [adamw]


@seeded()  # every step seeds torch's global generator anew
def run_stage(
    stage: Stage,
    config: StageConfig,
    directory: Path,
    *,
    build: Callable[[], nn.Module],
    accelerator: Any = None,
    say: Callable[[str], None] = print,
    stop_after: float | None = None,
) -> nn.Module:
    """Train `stage` up to `config.steps`, from its checkpoint if there is one; gives the averaged module.

    `build` makes a module like the stage's own to hold the average. `stop_after` seconds ends this call early (the
    checkpoint is written, so the next call goes on). Both modules end in evaluation mode.
    """
    if accelerator is None:
        from accelerate import Accelerator

        accelerator = Accelerator(cpu=not torch.cuda.is_available())
    path = directory / f"{stage.name}.checkpoint"
    module, averaged = stage.module, build()
    averaged.load_state_dict(module.state_dict())
    averaged.requires_grad_(False).to(accelerator.device)
    trainable = [p for p in module.parameters() if p.requires_grad]
    module, *optimizers = accelerator.prepare(module, *_optimizers(module, config))
    bare = accelerator.unwrap_model(module)
    # The gradients of opposing networks are clipped apart, or the larger would hide the other.
    own = getattr(stage, "parts", None)
    parts = [trainable] if own is None else [[p for p in m.parameters() if p.requires_grad] for m in own(bare)]
    step, history = 0, []
    if (state := read_checkpoint(path)) is not None:
        try:
            bare.load_state_dict(state["module"])
            averaged.load_state_dict(state["average"])
            for optimizer, kept in zip(optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(kept)
        except (RuntimeError, ValueError, KeyError) as error:
            raise TrainingError(f"{path} belongs to another model shape; delete it or choose another --out") from error
        step, history = int(state["step"]), list(state["history"])
        say(f"{stage.name}: resumed at step {step}")

    def save() -> None:
        if accelerator.is_main_process:
            state = {
                "format": FORMAT,
                "stage": stage.name,
                "step": step,
                "config": asdict(config),
                "module": bare.state_dict(),
                "average": averaged.state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "history": history,
            }
            write_checkpoint(path, state)

    begun = saved = reported = validated = time.monotonic()
    first, running = step, float("nan")
    module.train()
    while step < config.steps:
        # The stage index is mixed in by name so that two stages with one seed do not share noise.
        entropy = [config.seed, step, accelerator.process_index, *stage.name.encode()]
        rng = np.random.default_rng(entropy)
        torch.manual_seed(int(rng.integers(2**62)))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, config)
        loss = stage.loss(module, step, rng, accelerator.device)
        accelerator.backward(loss)
        for part in parts:
            accelerator.clip_grad_norm_(part, config.clip)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        value = float(loss.detach())
        if not math.isfinite(value):
            raise TrainingError(f"{stage.name}: loss is {value} at step {step}; the last checkpoint is intact")
        step += 1
        # The decay is smaller at first, so that the average does not keep the first weights for long.
        _average(averaged, bare, min(config.average, (1 + step) / (10 + step)))
        running = value if math.isnan(running) else 0.98 * running + 0.02 * value
        now = time.monotonic()
        if now - reported > 15 or step == config.steps:
            rate = (step - first) * config.batch / max(1e-9, now - begun)
            left = (config.steps - step) * config.batch / max(1e-9, rate)
            say(
                f"{stage.name}: step {step}/{config.steps}  loss {running:.4f}  {rate:.1f} films/s  {_clock(left)} left"
            )
            reported = now
        if now - validated > _VALIDATE_EVERY:
            averaged.eval()
            history.append({"step": step, "loss": running, **stage.validate(averaged)})
            say(f"{stage.name}: validation at step {step}: {_line(history[-1])}")
            validated = time.monotonic()
        if now - saved > config.save_seconds:
            save()
            saved = time.monotonic()
        if stop_after is not None and now - begun > stop_after:
            break
    module.eval()
    averaged.eval()
    if step > first:
        history.append({"step": step, "loss": running, **stage.validate(averaged)})
        say(f"{stage.name}: validation at step {step}: {_line(history[-1])}")
        save()
    return averaged


def _line(figures: dict[str, float]) -> str:
    return "  ".join(f"{k} {v:.4g}" for k, v in figures.items())


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
