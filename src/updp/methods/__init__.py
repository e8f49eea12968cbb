"""De-identification methods, one file each. The registry names them without importing them.

A method that needs heavy imports is a package with an ``INFO`` of its own, so that listing methods stays light.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from updp.core.registry import Registry

if TYPE_CHECKING:
    from updp.methods.base import Method, MethodInfo


class UnknownMethod(ValueError):
    """No method of that name, or wrong settings for it."""


#: The methods, in the order `updp methods` lists them; other packages add theirs in the group ``updp.methods``.
METHODS: Registry[type[Method]] = Registry(
    "method",
    "updp.methods",
    {
        "keep": "updp.methods.keep:Keep",
        "blur": "updp.methods.blur:Blur",
        "pixelate": "updp.methods.pixelate:Pixelate",
        "dp-pix": "updp.methods.dp_pix:DPPix",
        "k-same": "updp.methods.k_same:KSame",
        "image-to-image": "updp.methods.image_to_image:ImageToImage",
        "privacy-net": "updp.methods.privacy_net.method:PrivacyNet",
        "prichexy": "updp.methods.prichexy.method:PriCheXyNet",
        "privdiff": "updp.methods.privdiff.method:PrivDiffNet",
        "dcm": "updp.methods.dcm.method:DCMDeID",
        "updp": "updp.methods.updp.method:UPDP",
    },
    UnknownMethod,
)


def method_info(name: str) -> MethodInfo:
    """What a method is, without making one, nor loading its networks."""
    package = METHODS.module_of(name).rpartition(".")[0]
    light = getattr(import_module(package), "INFO", None) if package else None
    return METHODS[name].info if light is None else light


def make_method(name: str, options: Mapping[str, Any] | None = None, domain: str | None = None) -> Method:
    """A method by name, with the settings of a policy's ``[method] options``; refuses a domain it does not serve."""
    served = method_info(name).domains
    if domain is not None and served and domain not in served:
        others = ", ".join(other for other in METHODS if _serves(other, domain))
        raise UnknownMethod(f"method {name!r} does not serve the domain {domain!r}; those that do: {others}")
    cls: Any = METHODS[name]
    try:
        made: Method = cls(**(options or {}))
    except (TypeError, ValueError) as error:
        raise UnknownMethod(f"method {name!r}: {error}") from None
    return made


def _serves(name: str, domain: str) -> bool:
    try:
        served = method_info(name).domains
    except UnknownMethod:  # a plug-in that cannot be imported
        return False
    return not served or domain in served


def pack_of(name: str, options: Mapping[str, Any], default: str | None) -> str | None:
    """The model pack a method with these options runs on; the default one for a method without any."""
    method: Any = METHODS[name]
    field = method.Options.model_fields.get("pack")
    return default if field is None else str(options.get("pack", field.default))
