"""A demonstration releases the same films twice and shows them: the text reader looks at each film once."""

import hashlib

import pytest

from updp.screening.burned_in import RapidReader


@pytest.fixture(scope="session", autouse=True)
def _one_look_at_every_film():
    read, known = RapidReader.read, {}

    def once(reader, pixels, *, thorough):
        key = (hashlib.sha256(pixels.tobytes()).digest(), pixels.shape, thorough)
        if key not in known:
            known[key] = read(reader, pixels, thorough=thorough)
        return list(known[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RapidReader, "read", once)
        yield
