import pytest

from tests.methods.tiny import tiny_pack
from tests.methods.tiny_weights import tiny_weights


@pytest.fixture(scope="session")
def small_pack(tmp_path_factory):
    return str(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


@pytest.fixture(scope="session")
def small_weights(small_pack, tmp_path_factory):
    return str(tiny_weights(small_pack, tmp_path_factory.mktemp("weights") / "tiny-methods"))


@pytest.fixture
def on(small_pack, small_weights):
    """Options that put a learned method on the tiny pack."""
    return {"pack": small_pack, "weights": small_weights}
