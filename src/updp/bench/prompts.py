"""What the benches of UPDP's prompts share: validation films, the pack loaded once, and a vlm that only scores.

The optimised vlm scores its own result, so a second one (``judge``, never optimised against) may be given to score it
too. Every setting has the same films and the same streams of random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from updp.core.global_state import limited
from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Study, split_of
from updp.domains.chest import PACK
from updp.evaluation.evaluate import pack_facts
from updp.evaluation.intervals import Interval, bootstrap
from updp.evaluation.statistics import Statistic
from updp.imaging.square import square
from updp.methods.updp.method import UPDP, Written
from updp.sources import open_source
from updp.training.corpus import NoUsableFilm

if TYPE_CHECKING:
    from torch import Tensor

Say = Callable[[str], None]


class PromptOptions(TypedDict, total=False):
    """Options of a bench of prompts."""

    pack: str
    judge: str | None  # a judge file (`updp train judge`) or another pack
    films: int  # of each source, at most
    seed: int
    say: Say


class PromptBench:
    """Validation films of the sources, and the prompts of any setting for them."""

    needs = "can be read"  # what a validation film must have, for the error where none has it
    role: str | None = "vlm"  # the one model of the pack that the figures depend on; None: several

    def __init__(
        self,
        sources: Sequence[Path],
        pack: str = PACK,
        judge: str | None = None,
        films: int = 64,
        seed: int = 0,
        say: Say = print,
    ) -> None:
        import torch

        self.pack, self.seed, self.say = pack, seed, say
        self.judge = second_vlm(judge)
        self.studies = [study for study in validation_studies(sources, films) if self.usable(study)]
        if not self.studies:
            raise NoUsableFilm(f"the sources hold no validation film that {self.needs}")
        self.images = torch.from_numpy(np.stack([study.pixels for study in self.studies if study.pixels is not None]))
        self.images = self.images[:, None]
        self.patients = [study.patient_id for study in self.studies]
        self.loaded = UPDP(pack=pack).pack
        with torch.no_grad():
            self.targets: Tensor = self.loaded.vlm.embed_images(self.images)
            self.judged: Tensor | None = self.judge.embed_images(self.images) if self.judge else None

    @property
    def about(self) -> dict[str, Any]:
        """What the figures are of."""
        pack: dict[str, Any] = {**(pack_facts(self.loaded) or {})}
        if self.role is not None:  # other models may change without these figures
            pack |= {"role": self.role, "sha256": self.loaded.role_digest(self.role)}
        return {"pack": pack, "films": len(self.studies), "patients": len(set(self.patients)), "seed": self.seed}

    def usable(self, study: Study) -> bool:
        """Whether a validation film can be measured."""
        return True

    def streams(self) -> list[np.random.Generator]:
        return [np.random.default_rng([self.seed, n]) for n in range(len(self.studies))]

    def write(self, **options: Any) -> tuple[UPDP, Written]:
        """The method with these options, and its prompts for the films."""
        method = UPDP(pack=self.pack, **options)
        method.__dict__["pack"] = self.loaded
        with limited(1):  # as in a release
            return method, method.write(self.studies, self.images, 0.0, self.streams(), targets=self.targets)

    def marks(self, texts: Sequence[str]) -> NDArray[np.float64] | None:
        """Scores of prompts by the second vlm, times 100."""
        import torch

        if self.judged is None:
            return None
        with torch.no_grad():
            return np.asarray(100 * (self.judge.embed_texts(texts) * self.judged).sum(1).numpy())

    def over(self, *values: Any, statistic: Statistic = np.mean) -> Interval:
        """A statistic of the films, resampled by patient."""
        return bootstrap(statistic, self.patients, *values, rng=np.random.default_rng(self.seed), fewest=2)


def validation_studies(sources: Sequence[Path], limit: int) -> Iterator[Study]:
    """Films with their reports or labels of validation patients: the source's own split, else the public one."""
    for path in sources:
        source = open_source(path)

        def held_out(source: Any = source) -> Iterator[Study]:
            for item in source:
                if isinstance(item, Study) and (item.split or split_of(item.patient_id, BENCHMARK_KEY)) == "val":
                    try:
                        loaded = source.load(item)
                    except Refused:
                        continue
                    yield loaded.but(pixels=square(loaded.pixels, 256, "pad"))

        yield from islice(held_out(), limit)


def second_vlm(judge: str | None) -> Any:
    """The vlm that only scores: a judge file (`updp train judge`) or another pack."""
    from updp.models import load_pack

    if judge is None:
        return None
    if judge.endswith(".safetensors"):
        from updp.bench.judge import load_judge

        return load_judge(Path(judge))
    return load_pack(judge).vlm
