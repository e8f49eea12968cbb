"""Speed of the prompt searches beside the literal loop, in one run: seconds per film and step, and the ratio.

The literal loop does what the public codes do: one film at a time, every trial written out as text and read again to
see whether its length holds, every trial scored. Ours searches for all films together, knows of each token whether it
comes back as itself, and scores equal prompts once.

    python performance/searches.py --data IU_XRAY --films 8 --steps 3
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from updp.bench.prompts import validation_studies
from updp.core.global_state import limited
from updp.core.memory import keep_freed_memory
from updp.domains.chest import PACK
from updp.methods.updp.alignment import align, start
from updp.methods.updp.method import UPDP, words_of
from updp.methods.updp.mma import greedy_coordinate
from updp.methods.updp.projection import Projection, Projector
from updp.methods.updp.steps import TensorTrain, tensor_train
from updp.methods.updp.tokens import Search, Targets

LENGTH, FREE = 40, 8


class Literal:
    """One film, trials as texts."""

    def __init__(self, targets: Targets, ids: Tensor, places: Tensor) -> None:
        self.targets, self.ids, self.places = targets, ids.clone(), places
        self.mask = torch.ones_like(ids, dtype=torch.bool)[None]
        self.moving = torch.zeros_like(self.mask)
        self.moving[0, places] = True

    def scores(self, tried: Tensor) -> Tensor:
        vocabulary, vlm = self.targets.vocabulary, self.targets.vlm
        texts = [vocabulary.spell(row.tolist())[0] for row in tried]
        kept = torch.tensor([len(vocabulary.encode(text)) == tried.shape[1] for text in texts])
        with torch.no_grad():
            found = (vlm.embed_texts(texts) * self.targets.films).sum(1)
        return found.masked_fill(~kept, -2.0)

    def mma(self, steps: int, trials: int, generator: torch.Generator) -> None:
        for _ in range(steps):
            pool = self.targets.candidates(self.ids[None], self.mask, self.moving, 256)
            tried = self.ids.repeat(trials, 1)
            which = torch.arange(trials) * len(self.places) // trials
            picks = torch.randint(pool.shape[1], (trials,), generator=generator)
            tried[torch.arange(trials), self.places[which]] = pool[which, picks]
            self.ids = tried[self.scores(tried).argmax()]

    def steps(self, steps: int, trials: int, generator: torch.Generator, rounds: int = 10) -> None:
        for _ in range(steps):
            pool = self.targets.candidates(self.ids[None], self.mask, self.moving, 64)
            model = TensorTrain(len(self.places), pool.shape[1], 10, [generator])
            optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
            for _ in range(rounds):
                chosen = model.sample(trials // rounds, [generator])
                tried = self.ids.repeat(chosen.shape[1], 1)
                tried[:, self.places] = pool.gather(1, chosen[0].T).T
                top = self.scores(tried).topk(10).indices
                optimiser.zero_grad()
                torch.autograd.backward(-model.log_likelihood(chosen[:, top]).mean())
                optimiser.step()
            self.ids = tried[top[0]]


def main() -> None:
    keep_freed_memory()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pack", default=PACK)
    parser.add_argument("--films", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    method = UPDP(pack=asked.pack)
    vlm, vocabulary = method.pack.vlm, method.vocabulary
    studies = list(validation_studies([asked.data], asked.films))
    count = len(studies)
    images = torch.from_numpy(np.stack([s.pixels for s in studies if s.pixels is not None]))[:, None]
    with torch.no_grad():
        films = vlm.embed_images(images)
    rngs = [np.random.default_rng(n) for n in range(count)]
    texts = [words_of(study, rng) for study, rng in zip(studies, rngs, strict=True)]
    begun = start(vlm, vocabulary, texts, LENGTH, rngs, free=FREE)
    moving = begun.mask & ~begun.fixed
    targets = Targets(vlm, vocabulary, films)

    def search() -> Search:
        return Search(begun.ids, begun.mask, moving, [torch.Generator().manual_seed(n) for n in range(count)])

    def literal(kind: str, trials: int) -> None:
        for n in range(count):
            ids = begun.ids[n][begun.mask[n]]
            one = Literal(Targets(vlm, vocabulary, films[n : n + 1]), ids, moving[n].nonzero()[:, 0])
            getattr(one, kind)(asked.steps, trials, torch.Generator().manual_seed(n))

    def align_each() -> None:
        for n in range(count):
            row = slice(n, n + 1)
            align(vlm, vocabulary, begun.ids[row], begun.mask[row], films[row], projector, steps=20, rate=0.05,
                  straight_through=True, fixed=begun.fixed[row])  # fmt: skip

    projector = Projector(vlm.token_table.detach(), vocabulary, Projection())
    print("| search | literal loop, s per film | updp, s per film | ratio |")
    print("|---|---|---|---|")
    for name, slow, fast in (
        ("UPDP, 20 steps", align_each, lambda: align(
            vlm, vocabulary, begun.ids, begun.mask, films, projector, steps=20, rate=0.05, straight_through=True,
            fixed=begun.fixed)),
        (f"MMA-Diffusion, {asked.steps} × 512", lambda: literal("mma", 512),
         lambda: greedy_coordinate(targets, search(), asked.steps, 512)),
        (f"STEPS, {asked.steps} × 1 000", lambda: literal("steps", 1000),
         lambda: tensor_train(targets, search(), asked.steps, 1000)),
    ):  # fmt: skip
        times = []
        for run in (slow, fast):
            with limited(1):
                begin = time.process_time()
                run()
                times.append((time.process_time() - begin) / count)
        print(f"| {name} | {times[0]:.2f} | {times[1]:.2f} | {times[0] / times[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
