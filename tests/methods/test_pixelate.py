"""pixelate: means of cells."""

import numpy as np
import pytest

from tests.methods.films import film, run


@pytest.mark.parametrize("shape", [(64, 64), (61, 47)])
def test_pixelation_keeps_the_mean_of_every_cell(shape):
    made = run(("pixelate", {"max_cell": 1 / 4}), film(shape), 1.0)
    b = made.decided["cell"]
    assert b == round(min(shape) / 4)
    for y in range(0, shape[0], b):
        for x in range(0, shape[1], b):
            cell = made.pixels[y : y + b, x : x + b]
            assert np.ptp(cell) == 0
            assert cell[0, 0] == pytest.approx(film(shape)[y : y + b, x : x + b].mean(), abs=1e-6)


def test_pixelation_of_strength_zero_is_the_film():
    made = run(("pixelate", {}), film(), 0.0)
    assert np.abs(made.pixels - film()).max() < 1e-6
