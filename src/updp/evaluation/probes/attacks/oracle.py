"""Adversary A3 runs the de-identifier: its own films, and those of its candidates, go through the method once more.

It knows the method, its options and its strength, and has noise of its own. A setting that promises to read no pixels
is not run again: what would come out does not depend on the candidate's film, and the pipeline tests that promise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from updp.core.cache import Cache, kept_once, key_of
from updp.core.record import Report, Study

if TYPE_CHECKING:
    from updp.evaluation.cohort.exhibit import Exhibit
    from updp.evaluation.probes.base import MethodUse

#: Films given to the method at a time.
_BATCH = 32
_SEED = 20260102


def made_again(exhibit: Exhibit, method: MethodUse | None, most: int, cache: Cache) -> dict[str, NDArray[Any]] | None:
    """Films of the exhibit through the method once more, and which rows have one; None where that adds nothing.

    A method with networks is run on whole patients with at most ``most`` films; any other on all films.
    """
    from updp.methods import make_method
    from updp.methods.base import reads_pixels

    if method is None or not most:
        return None
    made = make_method(method.name, method.options)
    if not reads_pixels(made, method.strength):
        return None
    rows = _some(exhibit, most) if method.roles else np.arange(len(exhibit))
    settings = (method.name, sorted(map(str, method.options.items())), method.strength)

    def compute() -> dict[str, NDArray[Any]]:
        from updp.imaging.grey import grey8
        from updp.imaging.square import square

        films = np.zeros_like(np.asarray(exhibit.real))
        there = np.zeros(len(exhibit), bool)
        for start in range(0, len(rows), _BATCH):
            some = rows[start : start + _BATCH]
            streams = [np.random.default_rng([_SEED, int(row)]) for row in some]
            results = made.deidentify([study_of(exhibit, int(row)) for row in some], method.strength, streams)
            for row, one in zip(some, results, strict=True):
                if one.pixels is not None and one.refused is None:
                    films[row], there[row] = grey8(square(one.pixels, films.shape[1], "stretch")), True
        return {"films": films, "there": there}

    key = key_of("made again", settings, np.asarray(exhibit.real)[rows], rows, exhibit.records[rows])
    return dict(kept_once(cache, key, compute))


def study_of(exhibit: Exhibit, row: int) -> Study:
    """A film with its record, as a method takes it."""
    known = exhibit.labels[row]
    labels = None if np.isnan(known).all() else tuple(n for n, v in zip(exhibit.classes, known, strict=True) if v == 1)
    text = exhibit.released_texts[row] or exhibit.real_texts[row]
    name = f"candidate-{row}"
    return Study(
        name,
        name,
        str(exhibit.patients[row]),
        view=str(exhibit.views[row]) or None,
        labels=labels,
        report=Report({"findings": text}) if text.strip() else None,
        pixels=np.asarray(exhibit.real[row], np.float32) / np.float32(255),
    )


def _some(exhibit: Exhibit, most: int) -> NDArray[np.intp]:
    """Whole patients with about so many films, the same for every release of them."""
    names, place = np.unique(exhibit.patients, return_inverse=True)
    chosen: list[int] = []
    for patient in np.random.default_rng(len(exhibit)).permutation(len(names)):
        films = np.flatnonzero(place == patient).tolist()
        chosen += films if len(chosen) + len(films) <= most else []
    return np.sort(np.array(chosen, np.intp))
