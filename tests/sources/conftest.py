from tests.sources.exports import canary_free

__all__ = ["canary_free"]
