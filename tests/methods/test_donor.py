"""donor: the film of a public patient with the same record, whatever the patient's own film shows."""

import numpy as np
import pytest

from tests.conftest import Hospital, draw
from updp.core.reasons import Reason
from updp.core.record import BENCHMARK_KEY, Study, place_of
from updp.imaging.read import read_film
from updp.methods import UnknownMethod, make_method, method_info
from updp.methods.base import reads_pixels

KINDS = {"": "PA", "Effusion": "PA", "Effusion|Nodule": "AP", "Mass": "AP"}


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    """Eighty films of forty public patients, two of each with the same labels and view."""
    public = Hospital(tmp_path_factory.mktemp("public") / "films", films=0)
    for n in range(80):
        labels = list(KINDS)[n // 2 % 4]
        public.add(n, labels=labels or "No Finding", view=KINDS[labels])
    public.write()
    return public


@pytest.fixture
def donor(gallery):
    return make_method("donor", {"gallery": str(gallery.root)})


def study(labels, view="PA", seed=900):
    return Study("f", "s", "p", pixels=draw(seed, 64).astype(np.float32) / 255, view=view, labels=labels)


def given(method, one, seed=0):
    return method.deidentify([one], None, [np.random.default_rng(seed)])[0]


def film_of(gallery, pixels):
    """The row of the gallery whose film this is."""

    def same(row):
        film = read_film(gallery.root / row["image"], max_pixels=10**8, min_side=1)
        return np.array_equal(film, pixels)

    return next(row for row in gallery.rows if same(row))


@pytest.mark.parametrize(("labels", "view"), [((), "PA"), (("Effusion",), "PA"), (("Effusion", "Nodule"), "AP")])
def test_the_film_is_one_with_the_same_findings_and_view(donor, gallery, labels, view):
    made = given(donor, study(labels, view))
    row = film_of(gallery, made.pixels)
    assert (set(row["labels"].split("|")) - {"No Finding"}, row["view"]) == (set(labels), view)
    assert made.decided == {"labels_apart": 0}


def test_without_an_equal_the_nearest_findings_are_taken(donor, gallery):
    made = given(donor, study(("Effusion", "Nodule", "Hernia"), "AP"))
    assert film_of(gallery, made.pixels)["labels"] == "Effusion|Nodule"
    assert made.decided == {"labels_apart": 1}


def test_the_patients_own_film_has_no_part_in_the_choice(donor):
    one, other = (given(donor, study(("Effusion",), seed=seed)) for seed in (901, 902))
    assert np.array_equal(one.pixels, other.pixels)
    assert not reads_pixels(donor, None)
    assert method_info("donor").default_strength is None


def test_equals_are_drawn_by_the_stream(donor, gallery):
    drawn = {film_of(gallery, given(donor, study(()), seed).pixels)["image"] for seed in range(40)}
    assert len(drawn) > 1


def test_no_donor_is_a_patient_kept_for_attackers_and_judges(donor, gallery):
    donors = {film.patient_id for films in donor.donors.values() for film in films}
    everyone = {row["patient_id"] for row in gallery.rows}
    assert donors == {name for name in everyone if place_of(name, BENCHMARK_KEY) < 0.5}
    assert donors < everyone


def test_a_study_without_labels_is_kept_back(donor):
    assert given(donor, study(None)).refused is Reason.NOTHING_TO_SHOW


def test_no_gallery_is_refused_before_the_first_film():
    with pytest.raises(UnknownMethod, match="gallery"):
        make_method("donor")


def test_a_gallery_without_labels_is_an_error_about_the_option(tmp_path):
    public = Hospital(tmp_path / "films", films=0)
    for n in range(8):
        public.add(n, labels="")
    method = make_method("donor", {"gallery": str(public.write())})
    with pytest.raises(ValueError, match="gallery"):
        given(method, study(("Mass",)))
