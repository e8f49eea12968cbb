"""keep: the film as it is."""

from tests.methods.films import film, run


def test_keep_changes_nothing():
    assert (run(("keep", {}), film()).pixels == film()).all()
