"""What the tests of utility share: a small pack, and a cache for the tests of one file."""

import pytest

from updp.core.cache import MemoryCache


@pytest.fixture(scope="session")
def pack(utility_pack):
    return utility_pack


@pytest.fixture(scope="module")
def cache():
    return MemoryCache()
