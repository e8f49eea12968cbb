"""De-identification methods, one file each. The registry names them without importing them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, get_type_hints

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
    "privacy-net": "updp.methods.privacy_net.method:PrivacyNet",
    "prichexy": "updp.methods.prichexy.method:PriCheXyNet",
    "privdiff": "updp.methods.privdiff.method:PrivDiffNet",
    "dcm": "updp.methods.dcm.method:DCMDeID",
    "updp": "updp.methods.updp.method:UPDP",
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
    given = dict(options or {})
    _check_options(name, cls, given)
    try:
        made: Method = cls(**given)
    except (TypeError, ValueError) as error:
        raise UnknownMethod(f"method {name!r}: {error}") from None
    return made


def _check_options(name: str, cls: Any, given: Mapping[str, Any]) -> None:
    """Refuse options the method has not, and values of another kind than it takes, in words about the option."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    kinds = {option: kind for option, kind in get_type_hints(cls.__init__).items() if option != "return"}
    for option, value in given.items():
        if option not in kinds:
            there = f"there are: {', '.join(kinds)}" if kinds else "it has none"
            raise UnknownMethod(f"method {name!r} has no option {option!r}; {there}")
        try:
            TypeAdapter(kinds[option], config=ConfigDict(strict=True)).validate_python(value)
        except ValidationError as error:
            wrong = error.errors()[0]["msg"]
            raise UnknownMethod(f"method {name!r}, option {option!r}: {wrong[0].lower()}{wrong[1:]}") from None
