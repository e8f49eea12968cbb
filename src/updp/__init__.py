"""Make releases of chest X-rays and reports that another hospital can train on.

The functions; most are also commands:

    import updp

    updp.deidentify("export/", "out/", method="dp-pix")    # updp deidentify export/ out/ --method dp-pix
    updp.evaluate("out/", "export/")                       # attacks, usefulness, verdict of the gate
    updp.verify("out/release", trusted="PUBLIC KEY")       # the receiver's check
    updp.tune("export/", out="frontier")                   # privacy and usefulness by strength
    updp.scan("Seen by Dr. Smith on 3/4/2019.")            # identifiers in a text
    updp.open_source("export/")                            # iterate over the studies of an export or a release
    updp.torch_dataset("out/release", "train")             # films, multi-hot labels and masks for PyTorch
    updp.load_pack("cxr256-2")                             # the embedded models

``Key`` is the hospital's secret, ``Policy`` says what may leave, ``Study`` is one image with its report.
A name is imported when it is first used, so ``import updp`` is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from updp.core.lazy import lazy_names
from updp.core.version import __version__

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
    "torch_dataset",
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
    from updp.sources.dataset import torch_dataset

__getattr__ = lazy_names(
    __name__,
    {
        "deidentify": "updp.pipeline.run",
        "evaluate": "updp.evaluation.evaluate",
        "tune": "updp.evaluation.tune",
        "verify": "updp.release.verify",
        "open_source": "updp.sources",
        "torch_dataset": "updp.sources.dataset",
        "scan": "updp.reports",
        "load_pack": "updp.models",
        "Key": "updp.core.keys",
        "Policy": "updp.core.policy",
        "Study": "updp.core.record",
    },
)


def __dir__() -> list[str]:
    """The public names, so that ``help(updp)`` shows them."""
    return [*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"]
