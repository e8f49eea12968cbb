"""drafts: several films from the record alone; the one that shows the record best leaves.

A method of this package. As in twins, the allowed words of the record make a prompt and the generator draws ``drafts``
films from it. Here the record chooses: the draft leaves whose findings, as the pack's classifier sees them, are most
likely under the labels; of a record without labels, the one that the vlm finds nearest to its prompt. The patient's
film has no part in it, so what a film reveals is what its record reveals, as of UPDP at strength 1.

A generator does not show each finding it is asked for. A draft that misses one teaches a receiver the wrong thing, and
is left out here. The choice is made by networks of the pack: what these say of released films is too kind, and judges
that look through others decide whether the choice is of use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from updp.core.reasons import Reason
from updp.core.record import Study
from updp.methods import method_info
from updp.methods.base import Deidentified, MethodInfo
from updp.methods.updp.method import Written
from updp.methods.updp.record import OfRecord, RecordOptions

if TYPE_CHECKING:
    from torch import Tensor

    from updp.methods.updp.method import Streams


class DraftOptions(RecordOptions):
    """UPDP's options of a prompt from the report alone, and how many films are drawn from it."""

    drafts: int = Field(4, ge=2, description="Films drawn from a record, one of which leaves.")


class Drafts(OfRecord):
    info: ClassVar[MethodInfo] = method_info("drafts")

    Options = DraftOptions  # type: ignore[assignment]
    options: DraftOptions

    def reads_pixels(self, strength: float | None) -> bool:
        return False

    def _make(
        self, studies: list[Study], films: Tensor, written: Written, strength: float, rngs: Streams
    ) -> list[Deidentified]:
        import numpy as np
        import torch

        count = self.options.drafts
        waiting = [i for i, text in enumerate(written.texts) if text]
        out = [Deidentified(None, refused=Reason.NOTHING_TO_SHOW) for _ in studies]
        with torch.no_grad():
            for roll in range(self.options.rerolls + 1):
                drawn = self._draw([written.texts[i] for i in waiting], [rngs[i] for i in waiting], count)
                again = []
                for i, drafts in zip(waiting, drawn, strict=True):
                    faults = (
                        self._checker.faults([studies[i]] * count, None, drafts)
                        if self.options.check
                        else [None] * count
                    )
                    fit = [n for n, fault in enumerate(faults) if fault is None]
                    if not fit:
                        out[i] = Deidentified(None, refused=next(fault for fault in faults if fault is not None))
                        again.append(i)
                        continue
                    best = fit[int(self.agreement(studies[i], written.texts[i], drafts[fit]).argmax())]
                    facts = {"rerolls": roll, "drafts": count}
                    out[i] = Deidentified(drafts[best, 0].numpy().astype(np.float32), facts)
                waiting = again
                if not waiting:
                    break
        return out

    def agreement(self, study: Study, text: str, drafts: Tensor) -> Tensor:
        """How well each draft shows its record: the likelihood of the labels, or the likeness to the prompt."""
        import torch

        labels = self.pack.classifier.labels
        stated = [name for name in study.labels or () if name in labels]
        if study.labels is None or (study.labels and not stated):
            near: Tensor = (self.pack.vlm.embed_images(drafts) * self.pack.vlm.embed_texts([text])).sum(1)
            return near
        truth = torch.tensor([float(name in stated) for name in labels])
        seen = self.pack.classifier.probabilities(drafts).clamp(1e-4, 1 - 1e-4)
        return (truth * seen.log() + (1 - truth) * (1 - seen).log()).sum(1)
