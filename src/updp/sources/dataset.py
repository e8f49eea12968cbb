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

    def __init__(self, source: Source, studies: Sequence[Study], classes: Sequence[str], size: int | None) -> None:
        self.source, self.studies, self.classes, self.size = source, list(studies), tuple(classes), size
        named = {label for study in self.studies for label in study.labels or ()}
        self.known = [name in named for name in self.classes]

    def __len__(self) -> int:
        return len(self.studies)

    def __getitem__(self, place: int) -> dict[str, Any]:
        """``image`` (channels × height × width, in [0, 1]), ``labels``, ``mask``, ``report``, ``film``, ``patient``."""
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
            "report": loaded.report.text() if loaded.report else "",
            "film": study.film_id,
            "patient": study.patient_id,
        }

    def targets(self, study: Study) -> tuple[torch.Tensor, torch.Tensor]:
        """Labels of a study as 0 and 1, and which of them are known."""
        import torch

        present = set(study.labels or ())
        labels = torch.tensor([float(name in present) for name in self.classes])
        mask = torch.tensor([study.labels is not None and known for known in self.known], dtype=torch.bool)
        return labels, mask


def torch_dataset(
    path: str | Path,
    split: Split | None = None,
    *,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    layout: str | None = None,
    check: bool = False,
) -> Films:
    """The films of a release, or of an export in any layout, as a dataset of PyTorch.

    ``split`` is train, val or test; None takes all. ``classes`` are the labels in the order of the multi-hot vector;
    unless given, those of the domain that the source names. ``size`` makes films square with this side; those of a
    release are square already. ``check`` reads every film once and leaves out what cannot be read, as a hospital's
    own export may hold; of a release all can be, if `updp verify` found it intact.
    """
    from updp.sources import open_source

    source = open_source(path, layout)
    every = [item for item in source if isinstance(item, Study)]
    if not every:
        raise BadSource(f"{path}: the source holds no film")
    if classes is None:
        named = {label for study in every for label in study.labels or ()}
        table = DOMAINS[source.domain.name].labels.names
        classes = [*(name for name in table if name in named), *sorted(named - set(table))]
    films = Films(source, every, classes, size)
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
