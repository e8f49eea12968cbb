import numpy as np
import pytest

from updp.core.record import Report
from updp.domains.chest.labels import FINDINGS
from updp.domains.chest.words import compose, phrases
from updp.training.prompts import clean_sentences, describe


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
    from updp.reports import Detector

    report = Report({"findings": "The lungs are clear. Reviewed by Jonathan Abernathy at Mercy General Hospital."})
    assert clean_sentences(report, Detector()) == ["The lungs are clear."]
