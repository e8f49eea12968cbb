"""Our samplers beside the schedulers of diffusers, in one run: loading, time per film, distance of the
results, repeatability.

    python performance/samplers.py [--films 4] [--steps 8] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.models import load_pack
from updp.models.samplers import alpha, dpm_solver, sigma, time_grid

#: Discrete times of the scheduler, which knows no others.
TIMES = 1000


def scheduler(steps: int) -> Any:
    """DPM-Solver++(2M) of diffusers on our noise schedule."""
    from diffusers import DPMSolverMultistepScheduler

    kept = alpha(torch.arange(TIMES) / (TIMES - 1)).double().square()
    betas = 1 - kept / torch.cat([torch.ones(1, dtype=torch.float64), kept[:-1]])
    made: Any = DPMSolverMultistepScheduler(
        num_train_timesteps=TIMES,
        trained_betas=betas.clamp(0, 0.999999).numpy(),
        prediction_type="sample",
        algorithm_type="dpmsolver++",
        solver_order=2,
        lower_order_final=True,
        final_sigmas_type="zero",
    )
    times = (time_grid(steps)[:-1] * (TIMES - 1)).round().long().tolist()
    made.set_timesteps(timesteps=times)
    return made


@torch.no_grad()
def theirs(latents: Tensor, steps: int, predict: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    made = scheduler(steps)
    for t in made.timesteps:
        now = torch.full((len(latents),), float(t) / (TIMES - 1))
        latents = made.step(predict(latents, now), t, latents).prev_sample
    return latents


@torch.no_grad()
def ours(latents: Tensor, steps: int, predict: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    return dpm_solver(latents, time_grid(steps), predict)


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--films", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    begun = time.process_time()
    scheduler(arguments.steps)
    print(f"loading diffusers: {time.process_time() - begun:.1f} s of processor time")
    generator: Any = load_pack(PACK).generator
    condition = generator.condition(["There is a pleural effusion."] * arguments.films)
    noise = generator.seeded_noise(range(arguments.films))

    def network(x: Tensor, t: Tensor) -> Tensor:
        v = generator.unet(x, t, condition)
        return alpha(t)[:, None, None, None] * x - sigma(t)[:, None, None, None] * v

    def nothing(x: Tensor, t: Tensor) -> Tensor:
        return x

    found = {}
    for name, predict in (("with the network", network), ("the loop alone", nothing)):
        seconds: dict[str, list[float]] = {"updp": [], "diffusers": []}
        for _ in range(arguments.rounds):
            for who, sample in (("updp", ours), ("diffusers", theirs)):
                begun = time.process_time()
                made = sample(noise, arguments.steps, predict)
                seconds[who].append((time.process_time() - begun) / arguments.films)
                if name == "with the network":
                    same = who not in found or torch.equal(found[who], made)
                    found[who] = made
                    print(f"{who}: the same bits as in the round before: {same}")
        for who, values in seconds.items():
            print(f"{name}, {who}: {1000 * np.median(values):.2f} ms of processor time per film")
    latents = (found["updp"] - found["diffusers"]).abs()
    films = [generator.autoencoder.decode(found[who]) for who in ("updp", "diffusers")]
    grey = 255 * (films[0] - films[1]).abs()
    print(f"difference of latents: mean {latents.mean():.4f}, largest {latents.max():.4f}")
    print(f"difference of films, of 255 grey values: mean {grey.mean():.2f}, largest {grey.max():.0f}")


if __name__ == "__main__":
    main()
