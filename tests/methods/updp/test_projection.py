import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.methods.tiny import tiny_vlm
from updp.methods.updp.alignment import Frame, align, start
from updp.methods.updp.blacklist import Vocabulary, VocabularyError, piece_of
from updp.methods.updp.guard import Guard
from updp.methods.updp.mma import greedy_coordinate
from updp.methods.updp.projection import Projection, Projector
from updp.methods.updp.steps import TensorTrain, tensor_train

pytestmark = pytest.mark.numeric

VLM = tiny_vlm()
VOCABULARY = Vocabulary(VLM)
TABLE = VLM.token_table.detach()
ID = VLM.tokenizer.token_to_id


def target(seed=0, count=1):
    return torch.nn.functional.normalize(torch.randn(count, 16, generator=torch.Generator().manual_seed(seed)), dim=-1)


def projector(**rule):
    return Projector(TABLE, VOCABULARY, Projection(**rule))


def rngs(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


# -- the vocabulary ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["smith", "john", "january", "male", "hospital", "boston", "kowalski", "7", "2019", ","]
)
def test_private_words_numbers_and_marks_are_blocked(word):
    assert VOCABULARY.blocked[ID(word)]


@pytest.mark.parametrize("word", ["effusion", "nodule", "cardiomegaly", "no", "left", "clear"])
def test_pathology_anatomy_negation_and_laterality_are_favoured(word):
    assert VOCABULARY.favoured[ID(word)]


@pytest.mark.parametrize("token", ["[CLS]", "[SEP]", "[PAD]", "##smith", "##th"])
def test_special_tokens_and_pieces_are_blocked(token):
    assert VOCABULARY.blocked[ID(token)]


def test_the_users_own_lists_count():
    mine = Vocabulary(VLM, block=["nodule"], allow=["stark"])
    assert mine.blocked[ID("nodule")]
    assert mine.favoured[ID("stark")]


def test_lists_that_block_everything_or_fit_nothing_are_said_so():
    with pytest.raises(VocabularyError, match="block every token"):
        Vocabulary(VLM, block=VOCABULARY.tokens)
    with pytest.raises(VocabularyError, match="do not fit"):
        Vocabulary(VLM, block=[VOCABULARY.tokens[i] for i in VOCABULARY.favoured.nonzero()[:, 0]])


def test_pieces_are_spelled_as_their_tokenizer_would():
    assert VOCABULARY.spell([ID("smi"), ID("##th"), ID("left")])[0] == "smith left"
    assert piece_of("left</w>", "clip").whole
    assert not piece_of("lef", "clip").closes
    assert piece_of("##th", "wordpiece").text == "th"


def test_text_and_ids_go_both_ways():
    ids = VOCABULARY.encode("small left effusion")
    assert VOCABULARY.spell(ids)[0] == "small left effusion"


# -- projection --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.sampled_from(["top-k", "whitelist-top-k", "whitelist"]), st.floats(0, 5))
@settings(max_examples=60, deadline=None)
def test_no_blocked_token_is_ever_projected_to(seed, candidates, temperature):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(12, 32, generator=generator)
    made = projector(candidates=candidates, temperature=temperature)
    ids = made.project(rows, torch.rand(12, made.width(), generator=generator))
    assert not VOCABULARY.blocked[ids].any()
    if candidates != "top-k":
        assert VOCABULARY.favoured[ids].all()


def test_rows_of_blocked_tokens_go_to_allowed_ones():
    ids = projector().project(TABLE[VOCABULARY.blocked])
    assert not VOCABULARY.blocked[ids].any()


def test_the_bonus_never_admits_a_token_outside_the_top_k():
    rows = torch.randn(50, 32, generator=torch.Generator().manual_seed(1))
    huge, none = projector(top_k=3, bonus=100.0), projector(top_k=3, bonus=0.0)
    allowed = none.candidates(rows)[1]
    chosen = huge.project(rows)
    assert (chosen[:, None] == allowed).any(1).all()
    assert VOCABULARY.favoured[chosen].sum() >= VOCABULARY.favoured[none.project(rows)].sum()


def test_a_temperature_near_zero_is_greedy():
    rows = torch.randn(40, 32, generator=torch.Generator().manual_seed(2))
    noise = torch.rand(40, 10, generator=torch.Generator().manual_seed(3))
    assert (projector(temperature=1e-6).project(rows, noise) == projector().project(rows)).all()


def test_tokens_that_are_allowed_project_to_themselves():
    ids = VOCABULARY.allowed
    assert (projector(bonus=0.0).project(TABLE[ids]) == ids).all()


def test_with_no_list_at_all_every_word_returns_itself():
    class Free(Vocabulary):
        def __init__(self, vlm):
            super().__init__(vlm)
            self.blocked = torch.zeros_like(self.blocked)

    ids = torch.arange(len(TABLE))
    assert (Projector(TABLE, Free(VLM), Projection(bonus=0.0)).project(TABLE) == ids).all()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_the_private_mode_keeps_its_bound_on_any_two_films(temperature):
    made = projector(candidates="whitelist", temperature=temperature)
    rows = torch.randn(300, 32, generator=torch.Generator().manual_seed(4))
    shares = torch.softmax(made.scores(rows) / temperature, dim=1)
    worst = (shares.log().max(0).values - shares.log().min(0).values).max()
    assert made.rule.epsilon == 4 / temperature
    assert float(worst) <= made.rule.epsilon


def test_draws_of_the_private_mode_follow_the_mechanism():
    made = projector(candidates="whitelist", temperature=0.3)
    row = torch.randn(1, 32, generator=torch.Generator().manual_seed(5))
    noise = torch.rand(20_000, made.width(), generator=torch.Generator().manual_seed(6))
    drawn = made.project(row.expand(20_000, -1), noise)
    seen = torch.bincount(torch.searchsorted(made.pool, drawn), minlength=len(made.pool)) / 20_000
    assert (seen - torch.softmax(made.scores(row)[0] / 0.3, 0)).abs().max() < 0.015


def test_only_the_private_mode_claims_a_guarantee():
    assert Projection("top-k", temperature=1.0).epsilon is None
    assert Projection("whitelist-top-k", temperature=1.0).epsilon is None
    assert Projection("whitelist", temperature=0.0).epsilon is None


@pytest.mark.parametrize("wrong", [{"top_k": 0}, {"temperature": -1.0}])
def test_settings_without_meaning_are_refused(wrong):
    with pytest.raises(ValueError, match="must"):
        Projection(**wrong)


# -- beginning and alignment -------------------------------------------------------------------------------------------


def test_a_prompt_starts_from_the_reports_allowed_words():
    ids, mask, _, _ = start(VLM, VOCABULARY, ["Small left effusion in John Smith, 2019."], 8, rngs(1))
    assert VOCABULARY.spell(ids[0][mask[0]].tolist())[0] == "small left effusion in"


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


# -- the guard ---------------------------------------------------------------------------------------------------------


class Span:
    def __init__(self, start, end):
        self.start, self.end = start, end


def test_a_blocked_word_spelled_by_two_pieces_is_seen_and_dropped():
    guard = Guard(VOCABULARY, lambda text: [])
    ids = [ID("left"), ID("smi"), ID("##th"), ID("effusion")]
    assert guard.faults(ids) == {1, 2}
    assert guard.clean(ids) == ([ID("left"), ID("effusion")], 2)


def test_what_the_detector_finds_is_replaced_and_then_dropped():
    def find(text):
        at = text.find("left effusion")
        return [Span(at, at + 13)] if at >= 0 else []

    guard = Guard(VOCABULARY, find)
    ids = [ID("small"), ID("left"), ID("effusion")]
    assert guard.clean(ids) == ([ID("small")], 2)
    replaced, dropped = guard.clean(ids, lambda place, tried: ID("nodule") if ID("nodule") not in tried else ID("mass"))
    assert dropped == 0
    assert not guard.faults(replaced)


@given(st.lists(st.sampled_from(range(len(TABLE))), max_size=10))
def test_whatever_goes_in_no_fault_comes_out(ids):
    guard = Guard(VOCABULARY, lambda text: [])
    clean, dropped = guard.clean(ids)
    assert not guard.faults(clean)
    assert len(clean) + dropped == len(ids)


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


# -- published searches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [greedy_coordinate, tensor_train])
def test_published_searches_improve_and_use_allowed_words_only(search):
    film = target(3)[0]
    ids, mask, _, _ = start(VLM, VOCABULARY, ["small left effusion in the lung"], 6, rngs(1))
    small = {"trials": 64 if search is greedy_coordinate else 500}
    found = search(VLM, VOCABULARY, ids, mask, film, steps=4, generator=torch.Generator().manual_seed(0), **small)
    begun = float((VLM.embed_texts(["small left effusion in the lung"])[0] * film).sum())
    assert float(found.scores[0]) > begun
    assert not VOCABULARY.blocked[found.ids].any()
    again = search(VLM, VOCABULARY, ids, mask, film, steps=4, generator=torch.Generator().manual_seed(0), **small)
    assert (again.ids == found.ids).all()


def test_a_tensor_train_is_a_distribution_and_learns_what_it_is_shown():
    generator = torch.Generator().manual_seed(0)
    model = TensorTrain(3, 4, 5, generator)
    every = torch.cartesian_prod(*[torch.arange(4)] * 3)
    assert float(model.log_likelihood(every).detach().exp().sum()) == pytest.approx(1, abs=1e-5)
    assert torch.allclose(model.marginals().sum(1), torch.ones(3), atol=1e-5)
    shown = torch.tensor([[0, 1, 2]]).expand(8, -1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (-model.log_likelihood(shown).mean()).backward()
        optimiser.step()
    assert (model.sample(50, generator) == shown[0]).all(1).float().mean() > 0.8
