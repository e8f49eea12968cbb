"""Text measures against their reference implementations, R2Gen's text, and what happens where something is missing."""

from __future__ import annotations

import math
import shutil
import sys
import types

import numpy as np
import pytest

from tests.evaluation.probes.utility.fake_radeval import install, radgraph_weights
from updp.evaluation.probes.utility import text_metrics as text
from updp.evaluation.probes.utility.text_metrics import (
    R2Gen,
    Weights,
    bert_score,
    bleu_counts,
    bleu_of_counts,
    clean_r2gen,
    longest_common_subsequence,
    meteor_of_counts,
    radgraph_f1,
    rouge_l,
    text_measures,
    tokens_13a,
    tokens_rouge,
)
from updp.models.errors import MissingRequirement

REFERENCES = [
    "the heart is normal in size . the lungs are clear . no pleural effusion or pneumothorax .",
    "there is a small left pleural effusion with adjacent atelectasis . the heart is mildly enlarged .",
    "no acute cardiopulmonary abnormality .",
    "stable cardiomegaly . patchy opacities in the right lower lobe may represent pneumonia .",
    "lungs are hyperinflated . no focal consolidation .",
]
HYPOTHESES = [
    "heart size is normal . lungs are clear . there is no pneumothorax or pleural effusion .",
    "small left pleural effusions and atelectatic changes . the heart is enlarged .",
    "no acute cardiopulmonary abnormality .",
    "the cardiac silhouette is normal . the lungs are clear .",
    "",
]
#: What pycocoevalcap 1.2 gives for these five pairs (BLEU-1..4; ROUGE-L and METEOR 1.5 of the corpus and of each).
COCO_BLEU = [0.4912846515945052, 0.352012517676174, 0.2641118485940655, 0.19779779448030738]
COCO_ROUGE = [0.6821994408201305, 0.5859124866595516, 1.0, 0.2349165596919127, 0.0]
COCO_METEOR = 0.2539448997423726
COCO_METEOR_EACH = [0.4091223883734081, 0.3223073751247551, 1.0, 0.0374414976599064, 0.0]
#: METEOR 1.5's counts of each pair, as its Java program prints them.
METEOR_COUNTS = """
17 18 9 10 8 8 7 7 0 0 0 0 0 0 0 0 0 0 0 0 10 15 15
13 17 5 8 5 5 4 4 1 1 0 0 0 0 0 0 0 0 0 0 3 10 10
5 5 2 2 3 3 2 2 0 0 0 0 0 0 0 0 0 0 0 0 1 5 5
11 14 6 4 0 0 3 3 0 0 0 0 0 0 0 0 0 0 0 0 3 3 3
0 8 0 4 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
RAW = [
    "The heart is enlarged (CT ratio 0.55), unchanged. No effusion; no pneumothorax.",
    '1. Left-sided effusion, 2-3 cm. 2. Don\'t rule out "pneumonia" & follow-up at 10:30.',
]
RAW_GUESS = [
    "Heart is enlarged, unchanged. There is no effusion; no pneumothorax (CT).",
    "Left-sided effusion of 2-3 cm. Follow-up for pneumonia.",
]


def fake_meteor(monkeypatch, printed: str = METEOR_COUNTS):
    """Stands in for the Java program: remembers what it was sent and prints what METEOR 1.5 printed."""
    sent: list[tuple[str, list[str]]] = []
    lines = printed.strip().split("\n")

    class Meteor:
        def __init__(self) -> None:
            self.meteor_p = types.SimpleNamespace(kill=lambda: None)

        def _stat(self, hypothesis: str, references: list[str]) -> str:
            sent.append((hypothesis, references))
            return lines[(len(sent) - 1) % len(lines)]

    module = types.ModuleType("pycocoevalcap.meteor.meteor")
    module.Meteor = Meteor
    for name in ("pycocoevalcap", "pycocoevalcap.meteor"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "pycocoevalcap.meteor.meteor", module)
    monkeypatch.setattr(text.shutil, "which", lambda name: "/usr/bin/java")
    return sent


# BLEU ----------------------------------------------------------------------------------------------------------------


def bleu(references: list[str], hypotheses: list[str], n: int = 4) -> float:
    return bleu_of_counts(bleu_counts([r.split() for r in references], [h.split() for h in hypotheses]), n)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_bleu_equals_pycocoevalcap(n):
    assert bleu(REFERENCES, HYPOTHESES, n) == pytest.approx(COCO_BLEU[n - 1], abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_raw_bleu_equals_sacrebleu(n):
    sacrebleu = pytest.importorskip("sacrebleu")
    reference = sacrebleu.BLEU(max_ngram_order=n, smooth_method="none", tokenize="13a", lowercase=False)
    expected = reference.corpus_score(RAW_GUESS, [RAW]).score / 100
    counts = bleu_counts([tokens_13a(t) for t in RAW], [tokens_13a(t) for t in RAW_GUESS])
    assert expected > 0.1
    assert bleu_of_counts(counts, n) == pytest.approx(expected, abs=1e-8)


def test_raw_tokens_equal_sacrebleus():
    tokenizer = pytest.importorskip("sacrebleu.tokenizers.tokenizer_13a").Tokenizer13a()
    odd = ["a&quot;b&lt;c", "1,000.5 mm", "x-\ny", "§ café — 3-4", "", "end.", "U.S.A. 5.", "<skipped> a_b`c~d", "it's"]
    for line in RAW + RAW_GUESS + REFERENCES + odd:
        assert " ".join(tokens_13a(line)) == tokenizer(line)


def test_identical_text_scores_one_and_empty_zero():
    assert bleu(REFERENCES, REFERENCES) == pytest.approx(1)
    assert bleu(REFERENCES, [""] * 5) == pytest.approx(0, abs=1e-9)


def test_bleu_of_weighted_reports_is_that_of_repeated_ones():
    counts = bleu_counts([r.split() for r in REFERENCES], [h.split() for h in HYPOTHESES])
    weights = np.array([[2, 1, 0, 3, 1], [1, 1, 1, 1, 1]])
    repeated = counts[np.repeat(np.arange(5), weights[0])]
    found = bleu_of_counts(counts, 2, weights)
    assert found == pytest.approx([bleu_of_counts(repeated, 2), COCO_BLEU[1]])


# ROUGE-L -------------------------------------------------------------------------------------------------------------


def test_rouge_l_equals_pycocoevalcap():
    found = [rouge_l(r.split(), h.split(), 1.2) for r, h in zip(REFERENCES, HYPOTHESES, strict=True)]
    assert found == pytest.approx(COCO_ROUGE, abs=1e-12)


def test_rouge_l_equals_rouge_score():
    scorer = pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(["rougeL"], use_stemmer=False)
    for reference, guess in zip(RAW + REFERENCES, RAW_GUESS + HYPOTHESES, strict=True):
        expected = scorer.score(reference, guess)["rougeL"].fmeasure
        assert rouge_l(tokens_rouge(reference), tokens_rouge(guess)) == pytest.approx(expected, abs=1e-12)


def test_longest_common_subsequence_by_hand_and_against_the_table():
    assert longest_common_subsequence("abcbdab", "bdcaba") == 4
    assert longest_common_subsequence("", "abc") == 0
    g = np.random.default_rng(0)
    for _ in range(30):
        a, b = g.integers(0, 4, 25).astype(str).tolist(), g.integers(0, 4, 18).astype(str).tolist()
        table = np.zeros((26, 19), dtype=int)
        for i in range(25):
            for j in range(18):
                same = table[i, j] + 1 if a[i] == b[j] else 0
                table[i + 1, j + 1] = max(same, table[i, j + 1], table[i + 1, j])
        assert longest_common_subsequence(a, b) == table[-1, -1]


# METEOR --------------------------------------------------------------------------------------------------------------


def test_meteor_of_its_counts_equals_what_the_java_program_prints(monkeypatch):
    fake_meteor(monkeypatch)
    counts = text.meteor_counts(REFERENCES, HYPOTHESES)
    assert meteor_of_counts(counts) == pytest.approx(COCO_METEOR, abs=1e-12)
    assert meteor_of_counts(counts, np.eye(5)) == pytest.approx(COCO_METEOR_EACH, abs=1e-12)


def test_nothing_in_a_report_can_break_the_line_protocol(monkeypatch):
    sent = fake_meteor(monkeypatch)
    text.meteor_counts(["one ||| two\nEVAL"], ["three\n|||four"])
    assert sent == [("three four", ["one two EVAL"])]


def test_meteor_that_stops_early_is_an_error(monkeypatch):
    fake_meteor(monkeypatch, printed="")
    with pytest.raises(MissingRequirement, match="stopped before its last report"):
        text.meteor_counts(["one"], ["two"])


def test_meteor_names_what_is_missing(monkeypatch):
    fake_meteor(monkeypatch)
    monkeypatch.setattr(text.shutil, "which", lambda name: None)
    with pytest.raises(MissingRequirement, match="no java is on the path"):
        text.meteor_counts(["one"], ["two"])
    monkeypatch.setitem(sys.modules, "pycocoevalcap.meteor.meteor", None)
    with pytest.raises(MissingRequirement, match="pip install pycocoevalcap"):
        text.meteor_counts(["one"], ["two"])


@pytest.mark.skipif(shutil.which("java") is None, reason="METEOR 1.5 is a Java program")
def test_meteor_by_java_gives_the_recorded_figure():
    pytest.importorskip("pycocoevalcap")
    assert text.meteor_of_counts(text.meteor_counts(REFERENCES, HYPOTHESES)) == pytest.approx(COCO_METEOR, abs=1e-9)


# R2Gen ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "style", "expected"),
    [
        (
            '1. No acute disease.. 2. Heart size (mildly) enlarged, 3 cm: unchanged. 3. Follow-up "CT" advised/needed.',
            "iu_xray",
            "no acute disease . heart size mildly enlarged 3 cm unchanged . follow-up ct advisedneeded .",
        ),
        (" XXXX is 50% larger. [Prior] film @ 3.5 cm?", "iu_xray", "xxxx is 50 larger . prior film  35 cm ."),
        (
            "Findings: The patient's lungs are clear.\n\nNo ____ effusion;  stable 5. Normal.",
            "mimic_cxr",
            "findings the patients lungs are clear . no  effusion stable . normal .",
        ),
    ],
)
def test_cleaning_equals_r2gens(report, style, expected):
    assert clean_r2gen(report, style) == expected


def test_rare_words_become_unknown_in_the_reference_too_and_long_ends_are_cut():
    normalise = R2Gen.fit(["The lungs are clear."] * 3 + ["The lungs are emphysematous."], threshold=3, length=5)
    assert normalise("The lungs are emphysematous. No effusion.") == "the lungs are <unk>"
    assert R2Gen.fit(["a b"] * 3).length == 60
    assert R2Gen.fit(["a b"] * 10, "mimic_cxr").length == 100
    assert R2Gen.fit(["a b"] * 9, "mimic_cxr").vocabulary == frozenset()


def test_r2gen_needs_training_reports_and_a_known_style():
    with pytest.raises(ValueError, match="needs training reports"):
        R2Gen.fit([])
    with pytest.raises(ValueError, match="not 'padchest'"):
        R2Gen.fit(["a"], "padchest")


# Measurements --------------------------------------------------------------------------------------------------------


def many(times: int = 8) -> tuple[list[str], list[str], list[str]]:
    return REFERENCES * times, HYPOTHESES * times, [f"p{i}" for i in range(5 * times)]


def test_every_measure_comes_in_both_conventions_with_an_interval(monkeypatch):
    fake_meteor(monkeypatch)
    references, hypotheses, patients = many()
    found = text_measures(references, hypotheses, patients, seed=1, normaliser=R2Gen.fit(references, threshold=1))
    names = {m.name: m for m in found}
    assert len(names) == 14
    assert all(m.measured and m.low <= m.value <= m.high and m.n == 40 for m in found)
    assert names["BLEU-4, raw"].value == pytest.approx(COCO_BLEU[3])
    assert names["METEOR, R2Gen-normalised"].value == pytest.approx(COCO_METEOR)
    assert names["ROUGE-L COCO, raw"].detail["empty_hypotheses"] == 8


def test_without_training_reports_or_java_the_figures_are_missing_with_a_reason():
    references, hypotheses, patients = many()
    found = {m.name: m for m in text_measures(references, hypotheses, patients, seed=1, java=False)}
    assert found["METEOR, raw"].reason == "left out (java=False)"
    assert "training reports" in found["BLEU-4, R2Gen-normalised"].reason
    assert found["BLEU-4, raw"].measured


def test_no_reports_and_few_patients_are_outcomes():
    assert all(m.reason == "there are no reports" for m in text_measures([], [], [], seed=0)[:8])
    few = text_measures(REFERENCES, HYPOTHESES, list("abcde"), seed=0, java=False)[0]
    assert "too few patients: 5, at least 10 needed" in str(few)


@pytest.mark.parametrize(
    ("references", "hypotheses", "patients", "message"),
    [
        (["a"], [], ["p"], "1 references for 0 hypotheses"),
        (["a", "b"], ["a", "b"], ["p"], "1 patients for 2 reports"),
        (["a", " "], ["a", "b"], ["p", "q"], "references: 1 of 2 are empty"),
        (["a", "b"], ["a", math.nan], ["p", "q"], "hypotheses: 1 of 2 are no text"),
        ("ab", "ab", ["p", "q"], "give a list of reports"),
    ],
)
def test_texts_that_cannot_be_compared_are_refused(references, hypotheses, patients, message):
    with pytest.raises(ValueError, match=message):
        text_measures(references, hypotheses, patients, seed=0)


# Measures with weights -----------------------------------------------------------------------------------------------


@pytest.fixture
def fake_radeval(monkeypatch):
    return install(monkeypatch)


def test_bert_score_names_its_encoder_layer_and_scale(fake_radeval, tmp_path):
    encoder = tmp_path / "distilbert"
    encoder.mkdir()
    (encoder / "config.json").write_text("{}")
    baseline = tmp_path / "baseline.tsv"
    baseline.write_text("LAYER,P,R,F\n")
    plain = bert_score(*many(), weights=encoder, layer=5, seed=0)
    assert plain.name == "BERTScore F1 [distilbert, layer 5, not rescaled]"
    assert plain.value == pytest.approx(0.5)
    assert fake_radeval["bertscore"]["rescale_with_baseline"] is False
    rescaled = bert_score(*many(), weights=encoder, layer=5, baseline=baseline, seed=0)
    assert rescaled.name.endswith(", rescaled]")
    assert fake_radeval["bertscore"]["baseline_path"] == str(baseline)


def test_radgraph_gives_three_levels_from_local_weights(fake_radeval, tmp_path):
    found = radgraph_f1(*many(), weights=radgraph_weights(tmp_path, str(tmp_path)), seed=0)
    assert [m.value for m in found] == pytest.approx([0.5, 0.4, 0.3])
    assert found[1].name == "RadGraph-F1 [radgraph-xl, partial, RG_ER]"
    assert fake_radeval["radgraph"]["model_cache_dir"] == str(tmp_path)


def test_weights_that_are_not_there_are_named_and_never_downloaded(fake_radeval, tmp_path):
    with pytest.raises(MissingRequirement, match=r"BERTScore needs weights in a local folder; config\.json not in"):
        bert_score(*many(), weights=tmp_path, layer=5, seed=0)
    with pytest.raises(MissingRequirement, match=r"weights\.th, vocabulary not in"):
        radgraph_f1(*many(), weights=tmp_path, seed=0)
    with pytest.raises(MissingRequirement, match="names the text encoder org/bert, which is no local folder"):
        radgraph_f1(*many(), weights=radgraph_weights(tmp_path, "org/bert"), seed=0)
    assert not fake_radeval


def test_a_missing_package_is_named(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "radeval", None)
    with pytest.raises(MissingRequirement, match="pip install radeval"):
        bert_score(*many(), weights=tmp_path, layer=5, seed=0)


def test_measures_with_weights_are_those_that_have_a_folder(fake_radeval, tmp_path):
    encoder = tmp_path / "distilbert"
    encoder.mkdir()
    (encoder / "config.json").write_text("{}")
    held = Weights(bertscore=encoder, radgraph=radgraph_weights(tmp_path, str(tmp_path)))
    held.check()
    found = held.measures(*many(), seed=0, regime="local only")
    assert tuple(m.metric for m in found) == held.metrics
    assert len(found) == 4
    assert {m.regime for m in found} == {"local only"}
    assert Weights().measures(*many(), seed=0) == []
    with pytest.raises(MissingRequirement, match="weights in a local folder"):
        Weights(bertscore=tmp_path / "none").check()
