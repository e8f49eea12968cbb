"""Exhibits and packs that several tests attack."""

from __future__ import annotations

import pytest

from tests.evaluation.probes.attacks.hospital import exhibit, noise, simple_pack, strangers
from updp.core.global_state import limited


@pytest.fixture(scope="session")
def untouched():
    return exhibit()


@pytest.fixture(scope="session")
def noisy(untouched):
    return noise(untouched)


@pytest.fixture(scope="session")
def others(untouched):
    return strangers(untouched)


@pytest.fixture
def pack(tmp_path):
    return simple_pack(tmp_path)


@pytest.fixture(autouse=True)
def _one_thread():
    """Films this small are slower on two threads than on one."""
    with limited(1):
        yield
