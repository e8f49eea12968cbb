"""The commands that evaluate take the small release that the tests of the evaluation make."""

from tests.evaluation.conftest import made, made_once

__all__ = ["made", "made_once"]
