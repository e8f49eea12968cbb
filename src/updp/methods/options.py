"""Options of a method: one pydantic model per method, and errors that name the option.

A method has a nested class ``Options``; the keys of a policy's ``[method.options]`` are its fields. A key that the
model does not have is an error that lists the keys there are, with the nearest name. A field may be refused together
with another one (``contradiction``): the error names both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from updp.core.registry import unknown


class BadOption(ValueError):
    """An option that the method does not take, or a value that it cannot use."""


class MethodOptions(BaseModel):
    """Base of the options of a method. Values are taken as they are: a number in quotes is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """The options from plain values; what is wrong is said about the first wrong option."""
        known = cls.names()
        for name in given:
            if name not in known:
                raise BadOption(unknown("option", name, known))
        chosen = cls.model_for(given)
        try:
            return chosen(**given)
        except ValidationError as error:
            raise BadOption(describe_fault(error)) from None

    @classmethod
    def model_for(cls, given: Mapping[str, Any]) -> type[Self]:
        """The model that these options belong to, where a method has several."""
        return cls

    @classmethod
    def names(cls) -> list[str]:
        """Every option there is, in the order of the documentation."""
        return list(cls.model_fields)


def contradiction(first: str, second: str, why: str) -> str:
    """What to say of two options that cannot be used together."""
    return f"options {first} and {second} contradict each other: {why}"


def describe_fault(error: ValidationError) -> str:
    """The first fault of a model, with the option it is about."""
    fault = error.errors(include_url=False)[0]
    words = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else str(fault["msg"])
    if not fault["loc"]:
        return words
    return f"option {str(fault['loc'][0])!r}: {words[0].lower()}{words[1:]}"


class Configured:
    """A method whose constructor arguments are its options."""

    Options: type[MethodOptions] = MethodOptions

    def __init__(self, **options: Any) -> None:
        self.options = self.Options.read(options)
