import numpy as np
import pytest

from updp.domains.chest.labels import FINDINGS
from updp.training.corpus import Corpus
from updp.training.zones import Place, Zones, brightness


def chest(rng, right=0.0, left=0.0, zone="lower"):
    """Two dark lungs on grey, a zone of each brighter by so much."""
    film = np.full((256, 256), 150.0)
    film[40:205, 40:108] = film[40:205, 148:216] = 80
    rows = {"upper": slice(45, 95), "mid": slice(95, 145), "lower": slice(145, 200)}[zone]
    film[rows, 40:108] += right
    film[rows, 148:216] += left
    return np.clip(film + rng.normal(0, 2) + rng.normal(0, 4, film.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def zones():
    rng = np.random.default_rng(0)
    normals = [chest(rng, rng.normal(0, 6), rng.normal(0, 6), z) for z in ("upper", "mid", "lower") for _ in range(15)]
    shown = [
        chest(rng, right=60),
        chest(rng, left=60, zone="upper"),
        chest(rng, 60, 60, "mid"),
        chest(rng),
        chest(rng, left=14),
    ]
    films = np.stack([*normals, *shown])
    count = len(films)
    corpus = Corpus(
        films=films, patients=np.arange(count).astype(str), splits=np.array(["train"] * count),
        views=np.array([""] * count), labels=np.zeros((count, len(FINDINGS)), np.float32), sentences=[[]] * count,
        ids=np.array([f"drawn/{i}" for i in range(count)]), observations=[()] * len(normals) + [("Pneumonia",)] * 5,
    )  # fmt: skip
    return Zones(corpus), len(normals)


def test_a_brighter_zone_names_its_side_zone_and_size(zones):
    measured, first = zones
    assert measured.place(first, "Pneumonia") == Place("right", "lower", "large")
    assert measured.place(first + 1, "Pneumonia") == Place("left", "upper", "large")
    assert measured.place(first + 2, "Pneumonia").side == "bilateral"
    assert measured.place(first + 2, "Pneumonia").zone == "mid"


def test_a_smaller_difference_is_called_smaller(zones):
    measured, first = zones
    slight = measured.place(first + 4, "Pneumonia")
    assert slight.side == "left"
    assert slight.size != "large"


def test_a_film_that_shows_nothing_is_given_no_place(zones):
    measured, first = zones
    assert measured.place(first + 3, "Pneumonia") is None
    assert measured.place(first, "Cardiomegaly") is None


def test_an_effusion_is_low_and_needs_no_zone(zones):
    measured, first = zones
    assert measured.place(first, "Effusion") == Place("right", None, "large")
    assert measured.place(first + 1, "Effusion") is None


def test_with_scores_a_third_each_of_the_films_with_a_finding_is_small_moderate_and_large():
    rng = np.random.default_rng(2)
    count = 30
    labels = np.zeros((count, len(FINDINGS)), np.float32)
    effusion = FINDINGS.index("Effusion")
    labels[:24, effusion] = 1
    corpus = Corpus(
        films=np.stack([chest(rng) for _ in range(count)]), patients=np.arange(count).astype(str),
        splits=np.array(["train"] * count), views=np.array([""] * count), labels=labels, sentences=[[]] * count,
        ids=np.array([f"drawn/{i}" for i in range(count)]), observations=[("Effusion",)] * 24 + [()] * 6,
    )  # fmt: skip
    scores = np.zeros((count, len(FINDINGS)), np.float32)
    scores[:, effusion] = np.arange(count)
    sizes = [place and place.size for place in (Zones(corpus, scores).place(row, "Effusion") for row in range(24))]
    assert sizes == ["small"] * 8 + ["moderate"] * 8 + ["large"] * 8


def test_brightness_does_not_hang_on_exposure_or_size():
    film = chest(np.random.default_rng(1), right=40)[None]
    darker = (film * 0.6 + 10).astype(np.uint8)
    assert np.allclose(brightness(film), brightness(darker), atol=0.08)
    assert np.allclose(brightness(film), brightness(film[:, ::2, ::2]), atol=0.05)
