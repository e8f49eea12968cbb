"""What the tests of utility share: a small pack, and a cache for the tests of one file."""

import pytest

from tests.evaluation.probes.utility import small
from updp.core.cache import MemoryCache


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return small.pack(tmp_path_factory.mktemp("pack"))


@pytest.fixture(scope="module")
def cache():
    return MemoryCache()
