"""updp: share radiology data between hospitals without sharing the patients.

The whole product in a few calls, each the twin of a command::

    import updp
    updp.deidentify("export/", "out/", method="dp-pix")
    updp.evaluate("out/release", "export/")
    updp.verify("out/release")
    updp.scan("Seen by Dr. Smith on 3/4/2019.")

Names are looked up late so that ``import updp`` and ``updp --help`` stay light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from updp.core.version import __version__

# Public name -> the module that holds it.
_PUBLIC = {
    "deidentify": "updp.pipeline.run",
    "evaluate": "updp.evaluation.evaluate",
    "tune": "updp.evaluation.tune",
    "verify": "updp.release.verify",
    "open_source": "updp.sources",
    "scan": "updp.reports",
    "load_pack": "updp.models",
    "Key": "updp.core.keys",
    "Policy": "updp.core.policy",
    "Study": "updp.core.record",
}

__all__ = [
    "Key",
    "Policy",
    "Study",
    "__version__",
    "deidentify",
    "evaluate",
    "load_pack",
    "open_source",
    "scan",
    "tune",
    "verify",
]

if TYPE_CHECKING:
    from updp.core.keys import Key
    from updp.core.policy import Policy
    from updp.core.record import Study
    from updp.evaluation.evaluate import evaluate
    from updp.evaluation.tune import tune
    from updp.models import load_pack
    from updp.pipeline.run import deidentify
    from updp.release.verify import verify
    from updp.reports import scan
    from updp.sources import open_source


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'updp' has no attribute {name!r}")
