"""blur: smoother with more strength."""

import pytest

from tests.methods.films import film, run


def test_blur_of_strength_zero_is_the_film_and_more_strength_is_smoother():
    spread = [run(("blur", {}), film(), s).pixels.std() for s in (0.0, 0.3, 1.0)]
    assert (run(("blur", {}), film(), 0.0).pixels == film()).all()
    assert spread[0] > spread[1] > spread[2]


@pytest.mark.parametrize("strength", [-0.1, 1.1])
def test_strength_outside_its_range_is_an_error(strength):
    with pytest.raises(ValueError, match=r"\[0, 1\]"):
        run(("blur", {}), film(), strength)
