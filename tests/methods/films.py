"""Films for methods: random ones and a method run on one, studies with drawn ones."""

import numpy as np

from tests.conftest import draw
from updp.core.record import Study
from updp.methods import make_method


def film(shape=(64, 48), seed=0):
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


def run(method, pixels, strength=None, seed=1):
    return make_method(*method).deidentify(
        [Study("f", "s", "p", pixels=pixels)], strength, [np.random.default_rng(seed)]
    )[0]


def studies(count, first=0, **changes):
    made = [
        Study(f"f{n}", f"s{n}", f"p{n}", pixels=draw(n, 256).astype(np.float32) / 255, view="PA", labels=("Effusion",))
        for n in range(first, first + count)
    ]
    return [study.but(**changes) for study in made]


def streams(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]
