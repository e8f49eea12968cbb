"""Reports in other languages are told and refused with a reason; English ones, with names of the world, are not."""

from __future__ import annotations

import io
import json

import pytest

from updp.core.keys import Key
from updp.core.reasons import Reason, Refused
from updp.core.record import Report
from updp.reports import Cleaner, render, scan_lines, shared_detector
from updp.reports.language import language
from updp.sources.sections import parse

FOREIGN = [
    ("de", "Herzgröße normal. Kein Pleuraerguss, kein Pneumothorax. Keine Infiltrate beidseits."),
    ("de", "Befund: Unauffällige Lunge. Im Vergleich zur Voraufnahme keine Änderung bei Frau Müller."),
    ("fr", "Absence d'épanchement pleural. La silhouette cardiaque est normale. Pas de foyer dans les poumons."),
    ("fr", "Conclusion : radiographie thoracique sans anomalie décelable pour Mme Dupont."),
    ("es", "No se observan consolidaciones. Silueta cardíaca dentro de los límites normales. Sin derrame pleural."),
    ("es", "Hallazgos: pulmones sin lesiones. Paciente con antecedentes de neumonía."),
    ("nl", "Het hart is niet vergroot. Geen pleuravocht. De longen zijn normaal, geen infiltraat."),
    ("nl", "Conclusie: geen afwijkingen bij thoraxfoto van mevrouw De Vries."),
    ("it", "Non si rilevano versamento pleurico o addensamenti. Ombra cardiaca nei limiti. Polmoni regolari."),
    ("it", "Referto: torace senza alterazioni della paziente Rossi."),
    (
        "pt",
        "Não há derrame pleural. Silhueta cardíaca dentro dos limites. Campos livres, sem lesões.",
    ),
    ("pt", "Conclusão: radiografia do tórax sem achados para a paciente Silva."),
]


@pytest.mark.parametrize(("code", "text"), FOREIGN)
def test_the_language_is_told(code: str, text: str) -> None:
    assert language(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Clear.",
        "No acute disease.",
        "Seen by Dr. Maria de la Cruz and Jan van der Berg in Los Angeles. No pneumothorax.",
        "Thorax: normal. Pneumothorax excluded. Pleural effusion on the right.",
        "En bloc resection per os, in situ, ad lib. Cor pulmonale.",
        "PNEUMOTHORAX. PLEURAL EFFUSION. CONCLUSION: STABLE.",
    ],
)
def test_english_stays_english(text: str) -> None:
    assert language(text) == "en"


@pytest.mark.parametrize("mode", ["surrogate", "tag"])
@pytest.mark.parametrize(("code", "text"), FOREIGN[::2])
def test_a_foreign_report_is_refused_with_its_reason(code: str, text: str, mode: str) -> None:
    cleaner = Cleaner(shared_detector(), Key(bytes(range(32))), mode)  # type: ignore[arg-type]
    with pytest.raises(Refused) as refused:
        cleaner.clean(Report({"findings": text}), patient_id="p")
    assert refused.value.reason is Reason.REPORT_LANGUAGE


def test_a_scan_names_the_language_and_counts_the_reports() -> None:
    out = io.StringIO()
    lines = [json.dumps({"id": i, "text": text}) for i, (_, text) in enumerate([*FOREIGN[:2], ("en", "Clear lungs.")])]
    counts = scan_lines(lines, out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row.get("language") for row in rows] == ["de", "de", None]
    assert counts.foreign == {"de": 2}
    assert "2 in another language" in render(counts)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Befund: Herz normal.\nBeurteilung: Kein Erguss.", ["findings", "impression"]),
        ("FRAGESTELLUNG: Husten\nBEFUND: Herz normal.", ["indication", "findings"]),
        ("Résultats : poumons clairs\nConclusion : normal", ["findings", "impression"]),
        ("Hallazgos: pulmones claros\nImpresión: normal", ["findings", "impression"]),
        (
            "Klinische gegevens: hoest\nVerslag: longen helder\nConclusie: normaal",
            ["indication", "findings", "impression"],
        ),
        (
            "Quesito clinico: tosse\nReferto: polmoni chiari\nConclusioni: normale",
            ["indication", "findings", "impression"],
        ),
        ("Indicação: tosse\nAchados: pulmões livres\nConclusão: normal", ["indication", "findings", "impression"]),
    ],
)
def test_headings_of_other_languages_open_their_sections(text: str, wanted: list[str]) -> None:
    assert list(parse(text)) == wanted
