import numpy as np
import pytest

from updp.core.native import Native


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize(("bits", "kind"), [(8, "u1"), (10, "u2"), (12, "u2"), (16, "u2"), (12, "i2"), (16, "i2")])
def test_every_value_that_can_be_stored_comes_back_as_it_was(bits, kind, inverted):
    lowest = -(2 ** (bits - 1)) if kind[0] == "i" else 0
    values = np.arange(lowest, lowest + 2**bits).reshape(-1, 2 ** (bits // 2)).astype(kind)
    film = Native(values, bits, inverted)
    unit = film.unit()
    assert unit.dtype == np.float32
    assert (unit.min(), unit.max()) == (0, 1)
    again = film.of(unit)
    assert again.values.dtype == values.dtype
    assert np.array_equal(again.values, values)


def test_white_is_dense_whatever_the_file_calls_white():
    values = np.array([[0, 4095]], np.uint16)
    assert Native(values, 12).unit().tolist() == [[0, 1]]
    assert Native(values, 12, inverted=True).unit().tolist() == [[1, 0]]


def test_grey_values_beyond_the_ends_stop_there():
    film = Native(np.zeros((1, 3), np.int16), 12)
    assert film.of(np.array([[-1, 0.5, 2]], np.float32)).values.tolist() == [[-2048, 0, 2047]]


def test_the_scale_depends_on_the_depth_and_not_on_the_film():
    dark, bright = (Native(np.full((2, 2), value, np.uint16), 12).unit() for value in (1, 4000))
    assert dark.max() == pytest.approx(1 / 4095)
    assert bright.min() == pytest.approx(4000 / 4095)
