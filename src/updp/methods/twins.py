"""twins: several films from the record alone, one of them chosen for the patient's film by a private choice.

A method of this package. The report's allowed words, and nothing of the film, make a prompt, and the generator draws
``twins`` films from it, each from noise of its own: films that the record could have. Those that copy a training film
or contradict the record are left out. The patient's film then decides which of the rest is released: one drawn by the
exponential mechanism, and a twin scores by how near its findings are to those of the film (outputs of the pack's
classifier) less how alike the two are as people (the pack's identity): a seed that links is drawn less often.

So what the released film reveals of the patient's film beyond the record is bounded twice, for any attacker: by epsilon
(local differential privacy of the film), and by log2(twins) bits. Every pixel comes from the record and from noise.
``strength`` 1 spends nothing: the film is not read, and one twin is drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.strength import resolve_strength
from updp.methods.updp.method import Written
from updp.methods.updp.record import OfRecord, RecordOptions

if TYPE_CHECKING:
    from torch import Tensor

    from updp.methods.updp.method import Streams


class TwinOptions(RecordOptions):
    """UPDP's options of a prompt from the report alone, and those of the choice."""

    twins: int = Field(8, ge=2, description="Films drawn from a record; at most log2 of it in bits is revealed.")
    max_epsilon: float = Field(16.0, gt=0, description="Privacy budget of the choice at strength 0.")
    aside: float = Field(0.5, ge=0, description="Weight of the likeness of two people against that of their findings.")
    scale: float = Field(0.25, gt=0, description="Mean difference of findings that counts as none in common.")


class Twins(OfRecord):
    """``strength`` scales the privacy budget of the choice down to nothing."""

    info: ClassVar[MethodInfo] = method_info("twins")

    Options = TwinOptions  # type: ignore[assignment]
    options: TwinOptions

    def epsilon(self, strength: float | None) -> float:
        """The budget of the choice."""
        return self.options.max_epsilon * (1 - resolve_strength(self.info, strength))

    def reads_pixels(self, strength: float | None) -> bool:
        return self.epsilon(strength) > 0

    def _make(
        self, studies: list[Study], films: Tensor, written: Written, strength: float, rngs: Streams
    ) -> list[Deidentified]:
        import numpy as np
        import torch

        from updp.methods.updp.exponential import exponential

        epsilon = self.epsilon(strength)
        count = self.options.twins if epsilon > 0 else 1
        usable = [i for i, text in enumerate(written.texts) if text]
        out = [Deidentified(None, refused=Reason.NOTHING_TO_SHOW) for _ in studies]
        with torch.no_grad():
            utilities = _Utilities(self, films) if epsilon > 0 else None
            waiting = usable
            for roll in range(self.options.rerolls + 1):
                drawn = self._draw([written.texts[i] for i in waiting], [rngs[i] for i in waiting], count)
                again = []
                for i, twins in zip(waiting, drawn, strict=True):
                    # Judged by the record and the generator's training films alone, so the film has no part in it.
                    faults = (
                        self._checker.faults([studies[i]] * count, None, twins)
                        if self.options.check
                        else [None] * count
                    )
                    fit = [n for n, fault in enumerate(faults) if fault is None]
                    if not fit:
                        out[i] = Deidentified(None, refused=next(fault for fault in faults if fault is not None))
                        again.append(i)
                        continue
                    place = fit[0]
                    if utilities is not None:
                        mechanism = exponential(epsilon)
                        levels = mechanism.levels(utilities.of(i, twins[fit]))
                        place = fit[mechanism.draw(levels.tolist(), rngs[i])]
                    facts = {
                        "rerolls": roll,
                        "twins": count,
                        "epsilon": epsilon,
                        "bits": math.log2(count),
                        "unit": "film",
                    }
                    out[i] = Deidentified(twins[place, 0].numpy().astype(np.float32), facts)
                waiting = again
                if not waiting:
                    break
        return out


class _Utilities:
    """What twins score for films."""

    def __init__(self, method: Twins, films: Tensor) -> None:
        self.pack, self.options = method.pack, method.options
        self.findings = self.pack.classifier.probabilities(films)
        self.people = self.pack.identity.embed(films)

    def of(self, film: int, twins: Tensor) -> Any:
        """Scores of twins for a film, about 0 to 1."""
        apart = (self.pack.classifier.probabilities(twins) - self.findings[film]).abs().mean(1)
        alike = (self.pack.identity.embed(twins) * self.people[film]).sum(1).clamp_min(0)
        return (1 - apart / self.options.scale - self.options.aside * alike).double().numpy()
