"""Films for training: a release, or any other source, as a dataset of PyTorch.

Labels are multi-hot over ``classes``, with a mask that says which of them are known: a film without labels teaches
nothing of any class, and a class that a source never names was not looked for in it. So local and received films can
stand side by side under one list of classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.reasons import Refused
from updp.core.record import BENCHMARK_KEY, Split, Study, split_of
from updp.domains import DOMAINS
from updp.imaging.square import square
from updp.sources.files import BadSource

if TYPE_CHECKING:
    import torch

    from updp.sources.base import Source


class Films:
    """Films of a source with labels, masks and reports; what `torch.utils.data.DataLoader` takes."""

    def __init__(
        self, source: Source, studies: Sequence[Study], classes: Sequence[str], size: int | None, derived: bool = False
    ) -> None:
        self.source, self.studies, self.classes, self.size = source, list(studies), tuple(classes), size
        self.derived = derived
        named = {label for study in self.studies for label in self.labels(study) or ()}
        self.known = [name in named for name in self.classes]

    def __len__(self) -> int:
        return len(self.studies)

    def labels(self, study: Study) -> tuple[str, ...] | None:
        """The labels of a study; None where it has none, or derived ones that were not asked for."""
        return study.labels if self.derived or study.labels_from == "source" else None

    def __getitem__(self, place: int) -> dict[str, Any]:
        """``image`` (channels × height × width, in [0, 1]), ``labels``, ``mask``, ``derived`` (whether the labels are),
        ``report``, ``film``, ``patient``."""
        import torch

        study = self.studies[place]
        try:
            loaded = self.source.load(study)
        except Refused as refused:
            raise BadSource(f"a film cannot be read: {refused.reason.value}") from None
        assert loaded.pixels is not None
        pixels = loaded.pixels if self.size is None else square(loaded.pixels, self.size, "crop")
        image = torch.from_numpy(pixels.copy())
        labels, mask = self.targets(study)
        return {
            "image": image[None] if image.ndim == 2 else image.permute(2, 0, 1),
            "labels": labels,
            "mask": mask,
            "derived": study.labels_from == "report",
            "report": loaded.report.text() if loaded.report else "",
            "film": study.film_id,
            "patient": study.patient_id,
        }

    def targets(self, study: Study) -> tuple[torch.Tensor, torch.Tensor]:
        """Labels of a study as 0 and 1, and which of them are known."""
        import torch

        labels = self.labels(study)
        present = set(labels or ())
        targets = torch.tensor([float(name in present) for name in self.classes])
        mask = torch.tensor([labels is not None and known for known in self.known], dtype=torch.bool)
        return targets, mask


def torch_dataset(
    path: str | Path,
    split: Split | None = None,
    *,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    layout: str | None = None,
    check: bool = False,
    derived: bool = False,
) -> Films:
    """The films of a release, or of an export in any layout, as a dataset of PyTorch.

    ``split`` is train, val or test; None takes all. ``classes`` are the labels in the order of the multi-hot vector;
    unless given, those of the domain that the source names. ``size`` makes films square with this side; those of a
    release are square already. ``check`` reads every film once and leaves out what cannot be read, as a hospital's
    own export may hold; of a release all can be, if `updp verify` found it intact. ``derived`` takes labels that were
    derived from reports beside those that were given; without it such films are masked.
    """
    from updp.sources import open_source

    source = open_source(path, layout)
    every = [item for item in source if isinstance(item, Study)]
    if not every:
        raise BadSource(f"{path}: the source holds no film")
    if classes is None:
        taken = (study for study in every if derived or study.labels_from == "source")
        named = {label for study in taken for label in study.labels or ()}
        table = DOMAINS[source.domain.name].labels.names
        classes = [*(name for name in table if name in named), *sorted(named - set(table))]
    films = Films(source, every, classes, size, derived)
    if split is not None:
        films.studies = [s for s in every if (s.split or split_of(s.patient_id, BENCHMARK_KEY)) == split]
    if check:
        films.studies = [study for study in films.studies if _readable(source, study)]
    return films


def _readable(source: Source, study: Study) -> bool:
    try:
        return source.load(study).pixels is not None
    except Refused:
        return False
