"""Utility: what a release is still good for, as measurements.

`text_metrics` and `findings` compare reports, `image_metrics` films and sets of films, `agreement` readers. The
experiments use them: `diagnosis` and `report_generation` train models on a release and test them on real films,
`fidelity` sets released films and reports beside the real ones; `lora` is report generation with large models. All
give a `Measurement`, resampled over patients. A measure that is not the published one never bears its name. Stands
after image in the flow, inside the hospital.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from updp.evaluation.probes.utility.base import Utility

#: The experiments, in the order they are run and reported.
UTILITIES = {
    "diagnosis": "updp.evaluation.probes.utility.diagnosis:Diagnosis",
    "report generation": "updp.evaluation.probes.utility.report_generation:ReportGeneration",
    "images": "updp.evaluation.probes.utility.fidelity:Images",
    "image-text": "updp.evaluation.probes.utility.fidelity:ImageText",
}


class MissingRequirement(RuntimeError):
    """A package or file that a measure needs is not there; the message names it."""


def require(package: str, measure: str, install: str | None = None) -> Any:
    """Import a package that only some measures need, or say which measure wants it and how to get it."""
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:  # a package built for another torch fails with RuntimeError
        name = install or package.partition(".")[0]
        raise MissingRequirement(f"{measure} needs {name}, which cannot be imported: pip install {name}") from error


def utilities(names: Sequence[str] | None = None) -> list[Utility]:
    """The experiments of these names, or all of them; always in the same order."""
    if unknown := sorted(set(names or ()) - set(UTILITIES)):
        raise ValueError(f"no utility experiment {', '.join(unknown)}; there are {', '.join(UTILITIES)}")
    found: list[Utility] = []
    for name, place in UTILITIES.items():
        if names is None or name in names:
            module, _, kind = place.partition(":")
            found.append(getattr(import_module(module), kind)())
    return found
