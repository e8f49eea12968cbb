"""The commands that evaluate take the small release that the tests of the evaluation make."""

from tests.evaluation.conftest import made

__all__ = ["made"]
