import numpy as np
import pytest
import torch

from updp.domains.chest.labels import FINDINGS
from updp.training.listening import SIDED, asked, listening_figures

pytestmark = pytest.mark.numeric


class Judge:
    """Sees a finding in the brightness of its own row, wherever it lies."""

    labels = FINDINGS

    def probabilities(self, images):
        rows = images[:, 0, : len(FINDINGS)]
        return rows.mean(-1).clamp(0, 1)


NOUNS = {"effusion": 2, "consolidation": 8, "pneumonia": 6, "infiltrat": 3, "atelectasis": 0, "mass": 4, "airspace": 3}
SIZES = {"small": 0.2, "mild": 0.2, "large": 0.8, "severe": 0.8}


class Listener:
    """Draws what it is asked: the row of the finding, and a brighter lung on the asked side."""

    def generate(self, prompts, seeds, **_):
        films = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            film = 0.05 * torch.rand(256, 256, generator=torch.Generator().manual_seed(seed)) + 0.3
            text = prompt.lower()
            size = next((v for word, v in SIZES.items() if word in text.split()), 0.5)
            for noun, row in NOUNS.items():
                if noun in text and "no " not in text and "free of" not in text:
                    film[row] += size * 0.5
            columns = slice(40, 108) if "right" in text.split() else slice(148, 216) if "left" in text.split() else None
            if columns is not None:
                film[45:200, columns] += 0.4 * size
            films.append(film.clamp(0, 1))
        return torch.stack(films)[:, None]


class Deaf(Listener):
    def generate(self, prompts, seeds, **_):
        return super().generate([""] * len(prompts), seeds)


def rng():
    return np.random.default_rng(0)


def test_who_listens_is_heard_in_finding_side_and_severity():
    figures = listening_figures(Listener(), Judge(), FINDINGS, rng(), pairs=8)
    assert figures["auc Effusion"] == 1
    assert figures["auc Effusion low"] <= 1 <= figures["auc Effusion high"]
    assert figures["side"] == 1
    assert figures["severity"] == 1
    assert figures["side counted"] == 8 * len(SIDED)
    assert 0.6 < figures["side Effusion low"] < 1


def test_who_is_deaf_scores_by_chance():
    figures = listening_figures(Deaf(), Judge(), FINDINGS, rng(), pairs=8)
    assert figures["mean auc"] == 0.5
    assert figures["side"] == 0
    assert figures["severity"] == 0


def test_findings_with_few_real_films_do_not_count_in_the_mean():
    labels = np.zeros((80, len(FINDINGS)), np.float32)
    labels[:40, 2] = 1
    labels[:5, 4] = 1
    films = Listener().generate(["Pleural effusion."] * 40 + ["Clear."] * 40, range(80))
    figures = listening_figures(Listener(), Judge(), FINDINGS, rng(), pairs=4, real=(films, labels))
    assert figures["findings counted"] == 1
    assert figures["auc Effusion on real films"] == 1
    assert figures["share of real films"] == 1
    assert "auc Mass on real films" not in figures


def test_wrong_use_is_named():
    class Blind(Judge):
        labels = ("Gout",)

    with pytest.raises(ValueError, match="the judge knows none of Atelectasis"):
        listening_figures(Listener(), Blind(), FINDINGS, rng())
    with pytest.raises(ValueError, match="at least 2 pairs, not 1"):
        listening_figures(Listener(), Judge(), FINDINGS, rng(), pairs=1)


def test_a_size_is_said_in_the_words_of_its_noun():
    assert asked("Effusion", "large", "left") == "Large left pleural effusion."
    assert asked("Pneumonia", "small", "right") == "Mild right pneumonia."
