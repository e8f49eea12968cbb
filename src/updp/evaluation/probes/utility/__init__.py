"""Utility: what a release is still good for, as measurements.

`text_metrics` and `findings` compare reports, `image_metrics` films and sets of films. The experiments use them:
`diagnosis` and `report_generation` train models on a release and test them on real films, `fidelity` sets released
films and reports beside the real ones; `lora` is report generation with large models. All give a `Measurement`,
resampled over patients. A measure that is not the published one never bears its name. Runs on a finished release,
inside the hospital.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from updp.models.errors import MissingRequirement


def require(package: str, measure: str, install: str | None = None) -> Any:
    """Import a package that only some measures need, or say which measure wants it and how to get it."""
    try:
        return import_module(package)
    except (ImportError, RuntimeError) as error:  # a package built for another torch fails with RuntimeError
        name = install or package.partition(".")[0]
        raise MissingRequirement(f"{measure} needs {name}, which cannot be imported: pip install {name}") from error
