"""De-identification methods, one file each. The registry names them without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from updp.methods.base import Method, MethodInfo

#: name -> "module:class", in the order `updp methods` lists them.
METHODS: dict[str, str] = {
    "keep": "updp.methods.keep:Keep",
    "blur": "updp.methods.blur:Blur",
    "pixelate": "updp.methods.pixelate:Pixelate",
    "dp-pix": "updp.methods.dp_pix:DPPix",
    "k-same": "updp.methods.k_same:KSame",
    "image-to-image": "updp.methods.image_to_image:ImageToImage",
    "privacy-net": "updp.methods.privacy_net:PrivacyNet",
    "prichexy": "updp.methods.prichexy:PriCheXyNet",
    "privdiff": "updp.methods.privdiff:PrivDiffNet",
    "dcm": "updp.methods.dcm:DCMDeID",
    "updp": "updp.methods.updp:UPDP",
}


class UnknownMethod(ValueError):
    """No method of that name, or wrong settings for it."""


def _class(name: str) -> Any:
    if name not in METHODS:
        raise UnknownMethod(f"no method {name!r}; there are: {', '.join(METHODS)}")
    module, attribute = METHODS[name].split(":")
    return getattr(import_module(module), attribute)


def method_info(name: str) -> MethodInfo:
    """What a method is, without making one, nor loading its networks."""
    from updp.methods.listing import LISTED

    return LISTED[name] if name in LISTED else _class(name).info


def make_method(name: str, options: Mapping[str, Any] | None = None) -> Method:
    """A method by name, with the settings of a policy's ``[method] options``."""
    cls = _class(name)
    try:
        made: Method = cls(**(options or {}))
    except (TypeError, ValueError) as error:
        raise UnknownMethod(f"method {name!r}: {error}") from None
    return made
