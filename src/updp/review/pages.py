"""The templates of the pages."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from updp.core import version

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"), undefined=StrictUndefined, autoescape=True
    )
    made.filters["words"] = lambda text: str(text).replace("_", " ")
    made.globals["version"] = version.__version__
    return made
