"""A prompt starts from the report's words and is moved towards the film."""

import numpy as np
import pytest
import torch

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.alignment import Frame, align, start
from updp.methods.updp.blacklist import Vocabulary
from updp.methods.updp.projection import Projection, Projector

pytestmark = pytest.mark.numeric
VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)
TABLE = VLM.token_table.detach()


def target(seed=0, count=1):
    return torch.nn.functional.normalize(torch.randn(count, 16, generator=torch.Generator().manual_seed(seed)), dim=-1)


def projector(**rule):
    return Projector(TABLE, VOCABULARY, Projection(**rule))


def rngs(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


def test_a_prompt_starts_from_the_reports_allowed_words():
    ids, mask, _, _ = start(VLM, VOCABULARY, ["Small left effusion in John Smith, 2019."], 8, rngs(1))
    assert VOCABULARY.spell(ids[0][mask[0]].tolist())[0] == "small left effusion in ."


@pytest.mark.parametrize("text", ["", "Smith 2019", "Привет мир", "XXXX XXXX"])
def test_a_report_with_nothing_to_say_starts_from_favoured_words(text):
    ids, mask, _, _ = start(VLM, VOCABULARY, [text], 8, rngs(1))
    assert mask.sum() == 4
    assert VOCABULARY.favoured[ids[mask]].all()


def test_a_report_of_ten_thousand_words_is_cut_to_length():
    ids, mask, _, cut = start(VLM, VOCABULARY, ["left effusion " * 5000], 8, rngs(1))
    assert cut == [9_992]
    assert ids.shape == mask.shape == (1, 8)


def test_with_free_words_the_report_stays_and_only_the_rest_moves():
    begun = start(VLM, VOCABULARY, ["small left effusion", "no mass"], 8, rngs(2), free=3)
    assert begun.mask.sum(1).tolist() == [6, 5]
    assert begun.fixed.sum(1).tolist() == [3, 2]
    assert begun.ids.shape == (2, 6)
    begun = start(VLM, VOCABULARY, ["small left effusion", "no mass"] * 8, 8, rngs(16), free=3)
    targets = VLM.embed_texts(["clear lung is normal there"] * 16).detach()
    projector = Projector(TABLE, VOCABULARY, Projection())
    found = align(
        VLM, VOCABULARY, begun.ids, begun.mask, targets, projector,
        steps=20, rate=0.5, straight_through=True, fixed=begun.fixed,
    )  # fmt: skip
    assert torch.equal(found.ids[begun.fixed], begun.ids[begun.fixed])
    assert not torch.equal(found.ids, begun.ids)


def test_a_report_leaves_room_for_the_free_words():
    begun = start(VLM, VOCABULARY, ["left effusion " * 20], 8, rngs(1), free=3)
    assert begun.fixed.sum() == 5
    assert begun.cut == [35]


def test_the_frame_embeds_prompts_exactly_as_text_is():
    texts = ["small left effusion", "no mass", "clear lung is normal there"]
    ids, mask, _, _ = start(VLM, VOCABULARY, texts, 8, rngs(3), least=1)
    assert torch.allclose(Frame(VLM, VOCABULARY, mask).embed(TABLE[ids]), VLM.embed_texts(texts), atol=1e-5)


def aligned(films, texts, seed=0, **more):
    settings = {"steps": 25, "rate": 0.3, "straight_through": True} | more
    ids, mask, _, _ = start(VLM, VOCABULARY, texts, 8, rngs(len(texts), seed))
    return align(VLM, VOCABULARY, ids, mask, films, projector(bonus=0.02), **settings)


def test_alignment_brings_prompts_closer_to_their_films_and_never_further():
    texts = ["small left effusion in the lung", "normal heart", "large mass right lung"]
    films = target(7, 3)
    before = aligned(films, texts, steps=0).scores
    after = aligned(films, texts).scores
    assert (after >= before - 1e-6).all()
    assert after.mean() > before.mean() + 0.02


def test_the_best_projected_prompt_is_kept_and_its_score_is_that_of_its_text():
    found = aligned(target(11, 2), ["small left effusion in the lung"] * 2)
    assert found.trace == sorted(found.trace)
    for n in range(2):
        text = VOCABULARY.spell(found.ids[n].tolist())[0]
        score = float((VLM.embed_texts([text])[0] * target(11, 2)[n]).sum())
        assert score == pytest.approx(float(found.scores[n]), abs=1e-5)


def test_a_study_gets_the_same_prompt_in_any_batch():
    texts = ["small left effusion in the lung", "normal heart", "large mass right lung"]
    films = target(7, 3)
    together = aligned(films, texts)
    for n in range(3):
        ids, mask, _, _ = start(VLM, VOCABULARY, texts[n : n + 1], 8, rngs(1, n))
        alone = align(VLM, VOCABULARY, ids, mask, films[n : n + 1], projector(bonus=0.02), steps=25, rate=0.3,
                      straight_through=True)  # fmt: skip
        assert together.ids[n][together.mask[n]].tolist() == alone.ids[0][alone.mask[0]].tolist()


def test_alignment_takes_the_steps_of_adam():
    """Three steps of the printed algorithm (arXiv 1412.6980) on the same gradients."""
    vlm = tiny_vlm()
    vocabulary = Vocabulary(vlm)
    ids = vocabulary.allowed[:4][None]
    mask = torch.ones_like(ids, dtype=torch.bool)
    film = torch.nn.functional.normalize(torch.randn(1, 16, generator=torch.Generator().manual_seed(2)), dim=1)
    projector = Projector(vlm.token_table.detach(), vocabulary, Projection())
    moved = align(vlm, vocabulary, ids, mask, film, projector, steps=3, rate=0.1, straight_through=False).rows
    rows, mean, square = vlm.token_table.detach()[ids].clone(), 0.0, 0.0
    frame = Frame(vlm, vocabulary, mask)
    for step in range(1, 4):
        point = rows.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((1 - (frame.embed(point) * film).sum(1)).sum(), point)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        rows = rows - 0.1 * (mean / (1 - 0.9**step)) / ((square / (1 - 0.999**step)).sqrt() + 1e-8)
    torch.testing.assert_close(moved, rows, rtol=1e-4, atol=1e-4)
    assert (moved - vlm.token_table.detach()[ids]).abs().max() > 0.1
