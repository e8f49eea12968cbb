import json

import numpy as np
import pytest
import torch

from tests.conftest import PLAIN, Hospital, draw, sweep
from tests.methods.tiny import tiny_pack
from updp.core.policy import Policy
from updp.core.reasons import Reason
from updp.core.record import Report, Study
from updp.methods import UnknownMethod, make_method
from updp.methods.updp.method import UPDP, FilmCheck
from updp.pipeline.run import deidentify
from updp.release import manifest
from updp.release.signature import public_key
from updp.release.verify import verify

pytestmark = pytest.mark.numeric

REPORT = Report({"findings": "Small left effusion. No mass. Seen by Dr. John Smith, January 7 2019."})


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return str(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


def studies(count, **changes):
    made = []
    for n in range(count):
        pixels = draw(n, 256).astype(np.float32) / 255
        made.append(Study(f"f{n}", f"s{n}", f"p{n}", pixels=pixels, view="PA", labels=("Effusion",), report=REPORT))
    return [study.but(**changes) for study in made]


def streams(count, seed=0):
    return [np.random.default_rng(seed + n) for n in range(count)]


def films(batch):
    return torch.from_numpy(np.stack([study.pixels for study in batch]))[:, None]


def method(pack, **more):
    return UPDP(**({"pack": pack, "steps": 6, "sampler_steps": 2, "length": 8, "check": False} | more))


@pytest.mark.parametrize("mode", ["resolved", "literal", "ldp"])
def test_every_mode_makes_a_new_film_of_the_right_kind(pack, mode):
    out = method(pack, mode=mode).deidentify(studies(3), None, streams(3))
    for study, made in zip(studies(3), out, strict=True):
        assert made.pixels.shape == (256, 256)
        assert made.pixels.dtype == np.float32
        assert 0 <= made.pixels.min() <= made.pixels.max() <= 1
        assert np.abs(made.pixels - study.pixels).mean() > 0.01
        assert made.decided["mode"] == mode


@pytest.mark.parametrize("label", ["Support Devices", "Fracture", "A label of our own"])
def test_a_study_with_any_label_and_no_report_gets_a_film(pack, label):
    made = method(pack, mode="literal").deidentify(studies(1, labels=(label,), report=None), None, streams(1))[0]
    assert made.refused is None
    assert made.pixels.shape == (256, 256)


#: Options that make each search of the paper's table short.
SEARCHES = {
    "align": {"steps": 8, "rate": 0.5, "free": 3},
    "report": {},
    "random": {},
    "pez": {"steps": 8, "rate": 0.5},
    "mma": {"steps": 2, "trials": 16},
    "steps": {"steps": 2, "trials": 20},
    "raw": {},
    "similarity": {"steps": 8, "rate": 0.5},
}


def test_every_search_of_the_papers_table_writes_prompts_of_its_own(pack):
    batch = studies(2)
    written = {}
    for search, options in SEARCHES.items():
        made = UPDP(pack=pack, sampler_steps=2, length=8, check=False, search=search, **options)
        written[search] = made.write(batch, films(batch), 0.0, streams(2)).texts
        assert len(written[search]) == 2
        assert all(written[search])
    assert len({tuple(texts) for texts in written.values()}) == len(SEARCHES)


@pytest.mark.parametrize("mode", ["resolved", "literal", "ldp"])
def test_no_prompt_has_a_blocked_word_or_a_detector_hit(pack, mode):
    made = method(pack, mode=mode)
    hostile = Report({"findings": "JOHN SMITH XXXX 01/07/2019 ___ MRN 123456 left effusion Boston hospital"})
    batch = studies(8, report=hostile)
    for text in made.write(batch, films(batch), 0.3, streams(8)).texts:
        assert made.guard.find(text) == []
        assert not {"smith", "john", "boston", "hospital", "january", "7", "2019"} & set(text.split())
        spelled = {made.vocabulary.tokens[i] for i in made.vocabulary.encode(text)}
        blocked = {made.vocabulary.tokens[i] for i in made.vocabulary.blocked.nonzero()[:, 0]}
        assert not spelled & {token for token in blocked if token.isalnum()}


def test_the_prompt_is_nowhere_in_what_leaves(pack):
    made = method(pack).deidentify(studies(2), None, streams(2))
    assert all(set(one.decided) <= {"mode", "rerolls", "words_cut"} for one in made)


def test_a_study_gets_the_same_film_in_any_batch_and_another_with_another_stream(pack):
    together = method(pack).deidentify(studies(3), 0.5, streams(3))
    alone = method(pack).deidentify(studies(3)[1:2], 0.5, streams(3)[1:2])
    assert np.abs(together[1].pixels - alone[0].pixels).max() < 1e-4
    other = method(pack).deidentify(studies(3)[1:2], 0.5, streams(1, seed=99))
    assert np.abs(other[0].pixels - alone[0].pixels).max() > 1e-3


def test_full_strength_leaves_the_film_no_say_in_the_prompt(pack):
    batch, other = studies(2), studies(4)[2:]
    made = method(pack, temperature=0.0)
    texts = made.write(batch, films(batch), 1.0, streams(2)).texts
    assert texts == made.write(batch, films(other), 1.0, streams(2)).texts


def test_less_strength_brings_the_prompt_closer_to_the_film(pack):
    batch = studies(6)
    made = method(pack, steps=20, rate=0.5, temperature=0.0)
    near = np.mean(made.write(batch, films(batch), 0.0, streams(6)).scores)
    far = np.mean(made.write(batch, films(batch), 1.0, streams(6)).scores)
    assert near > far


def test_image_to_image_is_a_mode_of_its_own_and_says_so(pack):
    batch = studies(2)
    weak = method(pack, image_to_image=True).deidentify(batch, 0.1, streams(2))
    assert weak[0].decided["image_to_image"] is True
    with pytest.raises(ValueError, match="mode = 'ldp' and image_to_image contradict each other"):
        method(pack, mode="ldp", image_to_image=True)


def test_the_private_mode_states_its_epsilon_for_word_and_study(pack):
    made = method(pack, mode="ldp", words=2, epsilon=8.0).deidentify(studies(1), None, streams(1))[0]
    assert made.decided["epsilon_word"] == pytest.approx(4.0)
    assert made.decided["epsilon_study"] == pytest.approx(8.0)
    assert made.decided["words_drawn"] == 2


def test_the_private_mode_refuses_no_film_for_what_it_shows(pack):
    private = method(pack, mode="ldp")
    private.__dict__["_mean_film"] = np.linspace(0, 1, 256, dtype=np.float32)
    falling = np.linspace(1, 0, 256, dtype=np.float32)[:, None].repeat(256, 1)
    batch = studies(1, pixels=falling)
    assert private.deidentify(batch, None, streams(1))[0].refused is None
    looking = method(pack)
    looking.__dict__["_mean_film"] = private._mean_film
    assert looking.deidentify(batch, 0.0, streams(1))[0].refused is Reason.FILM_INVERTED


def test_a_prompt_too_short_for_its_report_holds_the_findings_and_not_what_is_normal(pack):
    normal = "The heart is normal. The lungs are clear. No mass is seen. No pneumothorax is seen. "
    batch = studies(1, report=Report({"findings": normal + "Small left effusion."}), labels=None)
    (text,) = method(pack, length=7).write(batch, films(batch), 1.0, streams(1)).texts
    assert {"left", "effusion"} <= set(text.split())


def test_a_prompt_parts_sentences_and_no_search_chooses_a_full_stop(pack):
    batch = studies(1, report=Report({"findings": "Small effusion. No mass."}), labels=None)
    aligned = method(pack, free=3)
    (text,) = aligned.write(batch, films(batch), 1.0, streams(1)).texts
    assert "effusion . " in text
    assert not text.startswith(".")
    assert ". ." not in text
    assert bool(aligned.vocabulary.blocked[aligned.vocabulary.stop])


def test_the_raw_baseline_prompts_with_the_whole_report_and_reads_no_film(pack):
    raw = UPDP(pack=pack, sampler_steps=2, search="raw", check=False)
    batch = studies(2)
    texts = raw.write(batch, films(batch), 0.0, streams(2)).texts
    assert all({"john", "smith", "january", "7"} <= set(text.split()) for text in texts)
    assert raw.reads_pixels(0.0) is False


def test_similarity_without_lists_may_use_words_that_the_lists_block(pack):
    batch = studies(8)
    free = UPDP(pack=pack, sampler_steps=2, length=8, search="similarity", check=False, steps=8, rate=0.5)
    assert not free.vocabulary.favoured.any()
    assert free.vocabulary.blocked.sum() == 5  # the frame and its kind
    listed = method(pack).vocabulary
    ids = {i for text in free.write(batch, films(batch), 0.0, streams(8)).texts for i in free.vocabulary.encode(text)}
    assert any(bool(listed.blocked[i]) for i in ids)


@pytest.mark.parametrize("options", [{"free": 3}, {"mode": "literal", "temperature": 0.0}, {"search": "similarity"}])
def test_content_iterations_begin_where_the_one_before_ended(pack, options):
    """Steps once and again are more steps; the trace has all of them."""
    batch = studies(3)
    once = method(pack, rate=0.5, **options).write(batch, films(batch), 0.0, streams(3))
    thrice = method(pack, rate=0.5, iterations=3, **options).write(batch, films(batch), 0.0, streams(3))
    assert len(thrice.trace) == 3 * len(once.trace)
    assert thrice.trace[: len(once.trace)] == pytest.approx(once.trace)
    if "mode" not in options:  # straight-through keeps the best of all
        assert np.mean(thrice.scores) >= np.mean(once.scores) - 1e-4


def test_the_private_mode_looks_at_the_film_once(pack):
    assert method(pack, mode="ldp").options.check is False
    with pytest.raises(ValueError, match="mode = 'ldp' and check contradict each other"):
        method(pack, mode="ldp", check=True)


@pytest.mark.parametrize(
    "report",
    [None, Report({"findings": ""}), Report({"findings": "XXXX ___ XXXX"}), Report({"findings": "Das Herz ist groß."}),
     Report({"findings": "left effusion " * 5000})],
)  # fmt: skip
def test_any_report_or_none_still_gives_a_film(pack, report):
    made = method(pack).deidentify(studies(2, report=report, labels=None), 0.5, streams(2))
    assert all(one.pixels is not None for one in made)


def test_with_nothing_on_record_a_film_that_reads_no_pixels_is_kept_back(pack):
    made = method(pack).deidentify(studies(2, report=None, labels=None), 1.0, streams(2))
    assert all(one.pixels is None and one.refused is not None for one in made)


def test_a_lateral_film_is_kept_back_and_the_others_are_made(pack):
    batch = studies(3)
    batch[1] = batch[1].but(view="LATERAL")
    out = method(pack).deidentify(batch, None, streams(3))
    assert [one.refused for one in out] == [None, Reason.FILM_NOT_FRONTAL, None]


def test_a_negative_is_kept_back(pack):
    made = method(pack)
    mean = draw(5, 16).astype(np.float32) / 255
    made.__dict__["_mean_film"] = mean.flatten()  # an untrained autoencoder has a flat one
    grey = np.kron(mean, np.ones((16, 16), np.float32))
    batch = [studies(1)[0].but(pixels=1 - grey), studies(1)[0].but(pixels=grey)]
    assert [one.refused for one in made.deidentify(batch, 0.5, streams(2))] == [Reason.FILM_INVERTED, None]


def test_a_film_too_like_the_patients_own_is_made_again_and_then_kept_back(tmp_path):
    strict = tiny_pack(tmp_path / "strict", identity_same=-1.0)
    out = method(str(strict), check=True, rerolls=2).deidentify(studies(2), 0.5, streams(2))
    assert {one.refused for one in out} == {Reason.FILM_TOO_SIMILAR}


def test_a_copy_of_a_training_film_is_kept_back(tmp_path):
    from safetensors.torch import save_file

    folder = tiny_pack(tmp_path / "copy", identity_copy=0.5, identity_same=2.0)
    made = method(str(folder), check=True)
    generated = made.pack.generator.generate(["effusion"], [1], 2, 2.5)
    save_file({"identities": made.pack.identity.embed(generated)}, folder / "training_identities.safetensors")
    checker = FilmCheck(made.pack)
    own = -checker.identities(generated)
    assert checker.faults(studies(1), own, generated) == [Reason.FILM_COPY]


def test_a_film_that_does_not_show_its_findings_is_kept_back(tmp_path):
    folder = tiny_pack(tmp_path / "findings", identity_same=2.0, finding_present={"Effusion": 1.1, "Nodule": 0.0})
    checker = FilmCheck(method(str(folder)).pack)
    film = films(studies(1))
    own = checker.identities(film)
    assert checker.faults(studies(1), own, film) == [Reason.FINDINGS_DISAGREE]
    assert checker.faults(studies(1, labels=("Nodule",)), own, film) == [None]
    assert checker.faults(studies(1, labels=None), own, film) == [None]


def test_a_film_nobody_describes_is_kept_back_where_the_report_is_all(pack):
    silent = {"report": None, "labels": None}
    batch = [studies(2)[0], studies(2)[1].but(**silent)]
    told, untold = method(pack).deidentify(batch, 1.0, streams(2))
    assert told.pixels is not None
    assert (untold.pixels, untold.refused) == (None, Reason.NOTHING_TO_SHOW)
    (led,) = method(pack).deidentify([batch[1]], 0.0, streams(1))  # its own film may say what it shows
    assert led.pixels is not None
    (alone,) = method(pack, check=True).deidentify([batch[1]], 1.0, streams(1))
    assert alone.refused is Reason.NOTHING_TO_SHOW


def test_a_short_report_gets_no_random_finding(pack):
    batch = studies(1, report=Report({"findings": "Effusion."}), labels=None)
    written = method(pack).write(batch, films(batch), 1.0, streams(1))
    assert set(written.texts[0].split()) - {"of", "the", "."} == {"effusion"}  # beside the words of the view


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "magic"},
        {"search": "luck"},
        {"length": 0},
        {"steps": -1},
        {"sampler_steps": 0},
        {"colour": 1},
        {"trials": 64},
        {"search": "mma", "trials": 0},
    ],
)
def test_settings_without_meaning_name_the_method(pack, wrong):
    with pytest.raises(UnknownMethod, match="updp"):
        make_method("updp", {"pack": pack} | wrong)


def test_a_release_made_with_updp_is_verified_and_names_no_one(tmp_path, key, pack):
    source = Hospital(tmp_path / "export", films=6).write()
    options = f'{{pack = "{pack}", steps = 3, sampler_steps = 2, length = 6, check = false}}'
    policy = Policy.parse(PLAIN.replace("'keep'", f"'updp'\noptions = {options}"))
    outcome = deidentify(source, tmp_path / "out", key=key, policy=policy, workers=1)
    assert outcome.released == 6
    assert sweep(tmp_path / "out") == []
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact
    rows = list(manifest.read(tmp_path / "out" / "unmeasured"))
    decided = [json.loads(row["decided"]) for row in rows]
    assert {(one["mode"], one["rerolls"]) for one in decided} == {("resolved", 0)}


@pytest.mark.parametrize(
    ("strength", "settings", "reads"),
    [
        (1.0, {}, False),
        (0.5, {}, True),
        (0.0, {}, True),
        (0.3, {"search": "report"}, False),
        (1.0, {"image_to_image": True}, True),
        (1.0, {"mode": "literal"}, True),
        (1.0, {"mode": "ldp"}, True),
        (0.5, {"search": "mma"}, True),
        (1.0, {"search": "mma"}, False),
        (1.0, {"init": "random"}, True),
    ],
)
def test_it_says_of_every_setting_whether_it_reads_pixels(pack, strength, settings, reads):
    assert UPDP(pack=pack, **settings).reads_pixels(strength) is reads


@pytest.mark.parametrize("settings", [{}, {"search": "report"}])
@pytest.mark.parametrize("check", [True, False])
def test_without_reading_pixels_the_film_is_the_same_whatever_came(pack, settings, check):
    batch = studies(3)
    blank = [study.but(pixels=np.zeros((256, 256), np.float32)) for study in batch]
    negative = [study.but(pixels=1 - study.pixels) for study in batch]
    small = UPDP(pack=pack, sampler_steps=2, length=8, check=check, **settings)
    made = [small.deidentify(b, 1.0, streams(3)) for b in (batch, blank, negative)]
    for one, two, three in zip(*made, strict=True):
        assert one.refused is two.refused is three.refused
        assert one.refused is None or check  # at odds with its findings, never because of the film that came
        if one.pixels is not None:
            assert np.array_equal(one.pixels, two.pixels)
            assert np.array_equal(one.pixels, three.pixels)
