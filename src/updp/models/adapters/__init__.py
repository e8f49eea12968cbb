"""Models from elsewhere in the roles of a pack, loaded from a local path; nothing uses the network.

In `pack.toml`::

    [roles.generator]
    kind = "diffusers"
    path = "/models/roentgen"   # absolute, or relative to the pack
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from updp.core.registry import Registry
from updp.models.errors import PackError

#: The adapters, as kind/role; other packages add theirs in the group ``updp.adapters``.
ADAPTERS: Registry[Callable[..., Any]] = Registry(
    "adapter",
    "updp.adapters",
    {
        "open_clip/vlm": "updp.models.adapters.open_clip:OpenClipVlm",
        "diffusers/generator": "updp.models.adapters.diffusers:DiffusersGenerator",
        "diffusers/autoencoder": "updp.models.adapters.diffusers:DiffusersAutoencoder",
        "torchxrayvision/classifier": "updp.models.adapters.torchxrayvision:XrvClassifier",
        "torchscript/identity": "updp.models.adapters.torchscript:ScriptedIdentity",
        "torchscript/classifier": "updp.models.adapters.torchscript:ScriptedClassifier",
    },
    PackError,
)


def load(kind: str, role: str, path: Path, config: dict[str, Any]) -> Any:
    """The adapter of this kind in this role over the model at `path`."""
    adapter = ADAPTERS[f"{kind}/{role}"]
    if not path.exists():
        raise PackError(f"no model at {path}: adapters load from a local path, nothing is downloaded")
    return adapter(path, **config)


def extra(name: str) -> Any:
    """Import a package of the extra `pretrained`, or say which extra is missing."""
    try:
        return import_module(name)
    except (ImportError, RuntimeError) as error:  # a torchvision built for another torch fails with RuntimeError
        raise PackError(f"{name} cannot be imported ({error}): pip install 'updp[pretrained]'") from error
