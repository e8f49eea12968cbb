"""Which methods a bench or a tuning tries: names, options and strengths, from the command line or from a TOML file.

[[method]]
name = "updp"
strengths = [0.25, 0.5]
options = {search = "report"}
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from updp.core.registry import unknown
from updp.methods import make_method, method_info

#: Releases whose answer is known: nothing of a patient leaves in the first two, every third patient does in the last.
CONTROLS = ("noise", "shuffled", "planted")
#: Stands in an option for the source that a bench is run on.
HERE = "SOURCE"


class BadPlan(ValueError):
    """The file does not name methods as it should; the message says where."""


class MethodPlan(BaseModel):
    """A method to try, with its options, at its own strengths or at those of all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    options: dict[str, Any] = Field(default_factory=dict)
    strengths: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()


class _Plan(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    method: tuple[MethodPlan, ...] = Field(min_length=1)


#: Options that say where something lies.
PLACES = ("pack", "weights", "gallery", "fit")


@dataclass(frozen=True, slots=True)
class Setting:
    """A method with its options at one strength."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    strength: float | None = None

    @property
    def method(self) -> str:
        """The method and all its options: what tells two settings apart."""
        return label_method(self.name, dict(self.options))

    @property
    def shown(self) -> str:
        """The method with the options that make it another; where its films and networks lie does not."""
        return label_method(self.name, {name: value for name, value in self.options if name not in PLACES})

    @property
    def label(self) -> str:
        return self.method if self.strength is None else f"{self.method} {self.strength:g}"

    @property
    def slug(self) -> str:
        return "".join(c if c.isalnum() or c in ".-" else "_" for c in self.label)


def label_method(name: str, options: Mapping[str, Any]) -> str:
    """A method and its options, for people: ``updp (search=report)``."""
    return f"{name} ({', '.join(f'{k}={v}' for k, v in options.items())})" if options else name


def read_plan(path: Path) -> list[MethodPlan]:
    """The methods that a TOML file names."""
    try:
        return list(_Plan.model_validate(tomllib.loads(path.read_text("utf-8"))).method)
    except OSError:
        raise BadPlan(f"{path}: no such file, or it cannot be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadPlan(f"{path}: {error}") from None
    except ValidationError as error:
        faults = (f"{'.'.join(map(str, f['loc']))}: {_describe_fault(f)}" for f in error.errors(include_url=False))
        raise BadPlan(f"{path}: {'; '.join(faults)}") from None


def _describe_fault(fault: ErrorDetails) -> str:
    if fault["type"] != "extra_forbidden":
        return fault["msg"]
    *above, key = fault["loc"]
    return unknown("key", str(key), (MethodPlan if above else _Plan).model_fields)


def placed(plan: MethodPlan, source: Path) -> MethodPlan:
    """The plan on this source."""
    options = {name: str(source) if value == HERE else value for name, value in plan.options.items()}
    return plan.model_copy(update={"options": options})


def settings(methods: Sequence[str | MethodPlan], strengths: Sequence[float] | None, pack: str | None) -> list[Setting]:
    """Every method at each of its strengths, else at each of ``strengths``; a method without a strength once.

    Wrong names and options end here, before any film is read. A method that takes a model pack gets ``pack``,
    where one is given.
    """
    out = []
    for plan in (MethodPlan(name=one) if isinstance(one, str) else one for one in methods):
        options = dict(plan.options)
        made = make_method(plan.name, options)
        default_pack = getattr(getattr(made, "options", None), "pack", None)
        if "pack" not in options and pack is not None and default_pack not in (None, pack):
            options["pack"] = pack
            make_method(plan.name, options)
        default = method_info(plan.name).default_strength
        named = tuple(options.items())
        if default is None:
            out.append(Setting(plan.name, named))
        else:
            wanted = plan.strengths or strengths or (default,)
            out += [Setting(plan.name, named, round(float(strength), 4)) for strength in wanted]
    return out
