"""Findings as reports state or deny them, and the labels that follow."""

from __future__ import annotations

import pytest

from updp.domains.chest import CHEST
from updp.reports.findings import findings, labels_of, sentences


def said(report: str) -> set[str]:
    return {("" if f.present else "no ") + f.name for f in findings(report)}


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("Pleural effusion.", {"pleural effusion"}),
        ("No pleural effusion.", {"no pleural effusion"}),
        ("There are small bilateral effusions.", {"pleural effusion"}),
        (
            "No focal consolidation, pleural effusion or pneumothorax.",
            {"no consolidation", "no pleural effusion", "no pneumothorax"},
        ),
        ("No pneumothorax, but there is a small effusion.", {"no pneumothorax", "pleural effusion"}),
        ("Effusion without pneumothorax.", {"pleural effusion", "no pneumothorax"}),
        ("Pneumothorax is not seen.", {"no pneumothorax"}),
        ("The previously noted effusion has resolved.", {"no pleural effusion"}),
        ("No significant change in the right effusion.", {"pleural effusion"}),
        ("Pneumonia cannot be excluded.", {"pneumonia"}),
        ("The lungs are free of infiltrates.", {"no infiltrate"}),
        ("Negative for pneumothorax or large effusion.", {"no pneumothorax", "no pleural effusion"}),
        ("Neither mass nor nodule.", {"no mass", "no nodule"}),
        ("Aside from atelectasis, no consolidation.", {"atelectasis", "no consolidation"}),
        ("No effusion except for blunting of the left angle.", {"no pleural effusion", "blunting"}),
        ("Left effusion. No right effusion.", {"pleural effusion", "no pleural effusion"}),
        ("The heart is mildly enlarged.", {"cardiomegaly"}),
        ("The heart is not enlarged.", {"no cardiomegaly"}),
        ("Heart size and mediastinal contours are normal.", {"no cardiomegaly"}),
        ("Enlarged cardiac silhouette.", {"cardiomegaly"}),
        ("A 1.5 cm nodule. No mass.", {"nodule", "no mass"}),
        ("Pericardial effusion.", {"pericardial effusion"}),
        ("Fever and cough. Normal study.", set()),
        ("Nodules of unknown origin; notable masses.", {"nodule", "mass"}),
        ("no pleural effusion . small nodule .", {"no pleural effusion", "nodule"}),
        ("No effusion.Minimal scarring", {"no pleural effusion", "scar"}),
        ("", set()),
    ],
)
def test_reports_are_read_with_their_negations(report, expected):
    assert said(report) == expected


def test_sentences_end_at_stops_but_not_inside_numbers():
    assert sentences("A 1.5 cm nodule. No mass; stable!\n\nImpression") == [
        "A 1.5 cm nodule",
        "No mass",
        "stable",
        "Impression",
    ]
    assert sentences("Unchanged since 2010. No mass. Size 3.") == ["Unchanged since 2010", "No mass", "Size 3"]


@pytest.mark.parametrize(
    ("report", "labels"),
    [
        ("Small left pleural effusion. No pneumothorax.", ("Effusion",)),
        ("Nodules in both lungs. The heart is enlarged.", ("Cardiomegaly", "Nodule")),
        ("Patchy opacity in the left base.", ("Lung Opacity",)),
        ("No pleural effusion, pneumothorax or consolidation.", ()),
        ("Lungs are clear. Heart size is normal.", ()),
        ("No acute cardiopulmonary abnormality.", ()),
        ("Normal chest.", ()),
        ("Left effusion. No right effusion.", ("Effusion",)),
        # Something was found, and no label says it: not "none found".
        ("No effusion. Scoliosis of the thoracic spine.", None),
        ("Scoliosis. Mild atelectasis.", ("Atelectasis",)),
        # In doubt.
        ("Possible pneumonia.", None),
        ("Pneumonia cannot be excluded.", None),
        ("Opacity in the right base, which may represent atelectasis or pneumonia.", ("Lung Opacity",)),
        ("Small effusion. Possible pneumonia.", ("Effusion",)),
        ("No pneumothorax; consolidation is suspected.", None),
        ("Possible pneumonia. Consolidation with pneumonia of the right lung.", ("Pneumonia", "Consolidation")),
        # Nothing is said.
        ("", None),
        ("Comparison with the film of last year.", None),
        ("Kein Pleuraerguss, keine Infiltrate. Das Herz ist nicht vergrößert und die Lunge ist frei.", None),
    ],
)
def test_labels_are_what_a_report_states_for_certain(report, labels):
    assert labels_of(report, CHEST.labels) == labels
