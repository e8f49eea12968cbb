"""De-identification methods, one file or folder each; ``methods.toml`` lists them with what they are.

The table is read without importing a method, so that listing methods loads no network.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from updp.core.registry import Registry
from updp.methods.base import Method, MethodInfo

_TABLE: dict[str, dict[str, Any]] = tomllib.loads(
    resources.files("updp.methods").joinpath("methods.toml").read_text("utf-8")
)
_PLACES = {name: row.pop("place") for name, row in _TABLE.items()}
#: Methods with weights of their own: name -> class of the training stage.
LEARNED: dict[str, str] = {name: row.pop("training") for name, row in _TABLE.items() if "training" in row}
_INFO = {name: MethodInfo.read(name, row) for name, row in _TABLE.items()}


class UnknownMethod(ValueError):
    """No method of that name, or wrong settings for it."""


#: The methods, in the order `updp methods` lists them; other packages add theirs in the group ``updp.methods``.
METHODS: Registry[type[Method]] = Registry("method", "updp.methods", _PLACES, UnknownMethod)


def method_info(name: str) -> MethodInfo:
    """What a method is, without making one, nor loading its networks."""
    return _INFO[name] if name in _INFO else METHODS[name].info


def make_method(
    name: str, options: Mapping[str, Any] | None = None, domain: str | None = None, native: bool = False
) -> Method:
    """A method by name, with the settings of a policy's ``[method] options``; refuses a domain, or native films, that
    it does not serve."""
    cls = _serving(name, domain, native)
    try:
        made: Method = cls(**(options or {}))
    except (TypeError, ValueError) as error:
        raise UnknownMethod(f"method {name!r}: {error}") from None
    return made


def check_method(name: str, options: Mapping[str, Any], domain: str | None, native: bool) -> None:
    """Refuse a name, options and a domain as ``make_method`` does, without reading a model pack."""
    cls = _serving(name, domain, native)
    try:
        if hasattr(cls, "Options"):
            cls.Options.read(options)
    except ValueError as error:
        raise UnknownMethod(f"method {name!r}: {error}") from None


def _serving(name: str, domain: str | None, native: bool) -> Any:
    """The class of a method, if it serves the domain and, where asked, native films."""
    info = method_info(name)
    if native and not info.native:
        others = ", ".join(other for other in _INFO if _INFO[other].native)
        raise UnknownMethod(
            f"method {name!r} makes square films: set policy [image] size to a number of pixels, or choose a method "
            f"that serves native films: {others}"
        )
    if domain is not None and info.domains and domain not in info.domains:
        others = ", ".join(other for other in METHODS if _serves(other, domain))
        raise UnknownMethod(f"method {name!r} does not serve the domain {domain!r}; those that do: {others}")
    return METHODS[name]


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


def packs_of(method: Method) -> dict[str, str]:
    """The packs a method runs on, by use: its model pack, and that of its own weights."""
    options = getattr(method, "options", None)
    named = {use: getattr(options, use, None) for use in ("pack", "weights")}
    return {use: str(name) for use, name in named.items() if name}
