"""UPDP's speed: the default against the literal loop and against the floor, and how cost grows with studies.

    python performance/updp_method.py --data SOURCE [--films 32]

Every arm uses the same pack, prompt length and optimisation steps, on the same validation films, in one run. The
literal loop takes one study at a time, DDIM with 50 steps, and asks the generator twice a step for guidance. The floor
is the floating-point work of a film over the convolution throughput of the same minute.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from updp.bench.prompts import validation_studies
from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.methods.updp.method import UPDP
from updp.models import load_pack
from updp.models.samplers import alpha, sigma

LITERAL_STEPS = 50


def convolution() -> float:
    """Floating-point operations a second in a convolution the size of the generator's."""
    layer = torch.nn.Conv2d(192, 192, 3, padding=1).to(memory_format=torch.channels_last)
    x = torch.randn(64, 192, 16, 16).to(memory_format=torch.channels_last)
    with torch.no_grad():
        layer(x)
        begun = time.perf_counter()
        for _ in range(10):
            layer(x)
    return 10 * 2 * x.numel() * 192 * 9 / (time.perf_counter() - begun)


@torch.no_grad()
def literal_film(method: UPDP, text: str, seed: int) -> torch.Tensor:
    """DDIM, 50 steps, two passes a step."""
    generator = method.pack.generator
    cond, uncond = generator.condition([text]), generator.condition([""])
    x = generator.seeded_noise([seed])
    times = torch.linspace(1, 0, LITERAL_STEPS + 1)
    for now, then in pairwise(times):
        t = now.expand(1)
        free = generator.unet(x, t, uncond)
        v = free + method.options.guidance * (generator.unet(x, t, cond) - free)
        film = alpha(now) * x - sigma(now) * v
        noise = sigma(now) * x + alpha(now) * v
        x = alpha(then) * film + sigma(then) * noise
    return generator.autoencoder.decode(film)


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--films", type=int, default=32, help="of the default; the literal loop takes a fourth")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pack", default=PACK)
    asked = parser.parse_args()
    default, literal = UPDP(pack=asked.pack), UPDP(pack=asked.pack, mode="literal")
    pack = load_pack(asked.pack)
    for method in (default, literal):
        method.__dict__["pack"] = pack
    torch.set_num_threads(asked.threads)
    studies = list(validation_studies([asked.data], asked.films))
    films = torch.from_numpy(np.stack([s.pixels for s in studies if s.pixels is not None]))[:, None]
    streams = [np.random.default_rng(n) for n in range(len(studies))]

    def batched(count: int, steps: int) -> None:
        for i in range(0, count, 32):
            rows = slice(i, min(i + 32, count))
            places = [j % len(studies) for j in range(rows.start, rows.stop)]
            written = default.write([studies[j] for j in places], films[places], 0.0, [streams[j] for j in places])
            pack.generator.generate(written.texts, list(range(len(places))), steps, default.options.guidance)

    def loop(count: int) -> None:
        for i in range(count):
            written = literal.write(studies[i : i + 1], films[i : i + 1], 0.0, streams[i : i + 1])
            literal_film(literal, written.texts[0], i)

    def seconds(what: Callable[[], None], count: int) -> float:
        begun = time.perf_counter()
        what()
        return (time.perf_counter() - begun) / count

    batched(2, 2)  # models load and warm up
    loop(1)
    count = len(studies)
    before = convolution()
    ours = seconds(lambda: batched(count, default.options.sampler_steps), count)
    theirs = seconds(lambda: loop(max(1, count // 4)), max(1, count // 4))
    equal = seconds(lambda: batched(count, LITERAL_STEPS), count)
    throughput = (before + convolution()) / 2
    counter = FlopCounterMode(display=False)
    with counter:
        batched(2, default.options.sampler_steps)
    floor = counter.get_total_flops() / 2 / throughput
    print("| what | seconds per film | films per minute | against the literal loop |\n|---|---|---|---|")
    rows = (
        ("literal loop: one study, DDIM 50, two passes", theirs),
        (f"default: batches of 32, {default.options.sampler_steps} steps", ours),
        (f"default at {LITERAL_STEPS} steps", equal),
    )
    for name, value in rows:
        print(f"| {name} | {value:.2f} | {60 / value:.1f} | {theirs / value:.1f} × |")
    print(f"\nfloor {floor:.2f} s per film at {throughput / 1e9:.0f} GFLOP/s; the default takes {ours / floor:.2f} ×")
    print("\n| studies | seconds per film | peak memory, MiB |\n|---|---|---|")
    for many in (count, 2 * count, 4 * count):
        value = seconds(lambda many=many: batched(many, default.options.sampler_steps), many)  # type: ignore[misc]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"| {many} | {value:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
