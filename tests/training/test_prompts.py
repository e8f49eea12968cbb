import numpy as np
import pytest

from updp.core.record import Report
from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import compose, phrases
from updp.training.prompts import (
    ATTRIBUTES,
    clean_sentences,
    describe,
    encode_statements,
    findings_first,
    located,
    report_words,
    tell,
)
from updp.training.zones import Place


@pytest.mark.parametrize(
    "sentence",
    [
        "Discussed with Dr. Smith.",
        "XXXX opacity in the left base.",
        "A 54 year old female.",
        "Compared to 3/4/2019.",
        "Seen on March 3.",
        "Accession 5550123 reviewed.",
    ],
)
def test_a_sentence_that_identifies_is_dropped_whole(sentence):
    assert clean_sentences(Report({"findings": f"The lungs are clear. {sentence}"})) == ["The lungs are clear."]


def test_sentences_lose_their_numbering_and_repeats():
    report = Report({"findings": "The lungs are clear.", "impression": "1. No acute disease. 2. The lungs are clear."})
    assert clean_sentences(report) == ["The lungs are clear.", "No acute disease."]


def test_only_findings_and_impression_are_told():
    assert clean_sentences(Report({"indication": "Chest pain.", "findings": "Clear lungs."})) == ["Clear lungs."]


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_finding_can_be_said(finding):
    text = compose([finding], "PA", np.random.default_rng(0))
    assert any(sentence in text for sentence in phrases()["findings"][finding])


def test_a_film_without_findings_is_called_normal():
    said = [s for group in phrases()["normal"].values() for s in group]
    text = compose([], "", np.random.default_rng(3))
    assert any(s in text for s in said)


def test_the_same_generator_gives_the_same_text():
    first, second = (compose(FINDINGS[:3], "AP", np.random.default_rng(5)) for _ in range(2))
    assert first == second


def test_a_report_is_told_in_its_own_words_unless_labels_take_turns():
    rng = np.random.default_rng(0)
    own = [describe(["Clear lungs."], ("Mass",), "PA", rng) for _ in range(100)]
    assert {text for text, is_own in own if is_own} == {"Clear lungs."}
    assert 10 < sum(not is_own for _, is_own in own) < 60
    assert describe(["Clear lungs."], None, "PA", rng) == ("Clear lungs.", True)


def test_phrases_hold_nothing_that_identifies():
    texts = [s for section in phrases().values() for group in section.values() for s in group]
    for text in texts:
        assert clean_sentences(Report({"findings": text})) == [text]


def test_a_sentence_the_detector_objects_to_is_dropped():
    from updp.reports import shared_detector

    report = Report({"findings": "The lungs are clear. Reviewed by Jonathan Abernathy at Mercy General Hospital."})
    assert clean_sentences(report, shared_detector()) == ["The lungs are clear."]


LOCATED = sorted({name for kind in ("countable", "mass", "plural") for name in phrases()[kind]})


@pytest.mark.parametrize("finding", LOCATED)
@pytest.mark.parametrize("side", ["right", "left", "bilateral"])
def test_a_located_sentence_agrees_with_its_noun(finding, side):
    rng = np.random.default_rng([1, *finding.encode()])
    for _ in range(60):
        text, said = located(finding, Place(side, "lower", "large"), rng)
        noun = text.rstrip(".").removesuffix(" are seen").removesuffix(" is seen").split()[-1]
        plural = noun in ("opacities", "infiltrates", "effusions", "masses")
        assert ("There is" not in text and "is seen" not in text) or not plural, text
        assert ("There are" not in text and "are seen" not in text) or plural, text
        assert "lung lung" not in text
        words = text.lower().split()
        assert len(words) == len(set(words)), text
        one = noun in ("opacity", "infiltrate", "effusion", "mass")
        assert (" a " in text) == (one and text.startswith("There is"))
        assert {finding, side} <= said
        assert ("large" in said) == any(word in text.lower() for word in ("large", "severe", "extensive"))
        assert ("lower" in said) == ("lower" in text.lower())


def test_what_is_told_says_what_was_observed_and_nothing_else():
    rng = np.random.default_rng(0)
    for _ in range(50):
        text, said = tell(["Effusion", "Nodule"], "AP", {"Effusion": Place("left", None, "small")}, rng)
        assert {"Effusion", "Nodule"} <= said <= set(ATTRIBUTES)
        assert not said & {"Normal", "right", "bilateral", "upper", "mid", "lower"}
        assert ("left" in text.lower()) == ("left" in said)
    assert tell([], "", {}, rng)[1] == {"Normal"}
    text, said = tell(["Negative for Pneumonia"], "", {}, rng)
    assert "neumonia" in text
    assert said == set()


def test_a_label_nobody_has_words_for_is_not_called_normal():
    assert tell(["Gout"], "", {}, np.random.default_rng(0)) == ("", set())


def test_sentences_that_state_a_finding_come_first_in_their_order():
    report = ["The heart size is normal.", "There is a left pleural effusion.", "No pneumothorax.", "Cardiomegaly."]
    assert findings_first(report) == [report[1], report[3], report[0], report[2]]
    assert findings_first([]) == []


@pytest.mark.parametrize(
    ("words", "complete", "stated", "excluded"),
    [
        ({"Effusion", "left"}, True, {"Effusion", "left"}, {"Cardiomegaly", "Normal", "right", "bilateral"}),
        ({"Lung Opacity"}, False, {"Lung Opacity"}, {"Normal"}),
        ({"Normal", "PA"}, False, {"Normal", "PA"}, {"Effusion", "Lung Opacity", "Typical Appearance", "AP"}),
        ({"Mass", "large"}, True, {"Mass", "large"}, {"Nodule", "small", "moderate"}),
        (set(), False, set(), set()),
    ],
)
def test_a_text_states_excludes_or_leaves_open(words, complete, stated, excluded):
    value = dict(zip(ATTRIBUTES, encode_statements(words, complete).tolist(), strict=True))
    assert {name for name, v in value.items() if v == 1} == stated
    assert excluded <= {name for name, v in value.items() if v == 0}
    named = {"PA", "AP"} & words
    assert all((value[view] == -1) == (not named) for view in ("PA", "AP"))


def test_a_report_states_its_findings_or_that_there_are_none():
    assert report_words("There is a left pleural effusion. The heart is enlarged.") == {"Effusion", "Cardiomegaly"}
    assert report_words("The lungs are clear. No effusion or pneumothorax.") == {"Normal"}
    assert report_words("Possible pneumonia.") is None
    assert report_words("") is None
