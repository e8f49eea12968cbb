"""The questions a release is asked, in one table: wording, what answers them, bound, and when they do not arise.

The gate, the report, the evaluation and the bench read this table; a question is added here and nowhere else. What
answers a question is a figure of this release's own patients (``MEASURED``), a proof that the answer follows from how
the films were made (``CONSTRUCTION``), or a certificate of the same method and options (``CERTIFIED``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from updp.core.measurement import Measurement
    from updp.core.policy import GatePolicy


class Kind(StrEnum):
    """What an answer stands on."""

    MEASURED = "measured"
    CONSTRUCTION = "construction"
    CERTIFIED = "certified"


class Outcome(StrEnum):
    """How a check ended."""

    HELD = "held"
    FAILED = "failed"
    UNANSWERED = "unanswered"  # asked, and no figure could be had
    NOT_ASKED = "not asked"
    NOT_APPLICABLE = "not applicable"

    @property
    def good(self) -> bool:
        """Whether a release may leave with it."""
        return self in (Outcome.HELD, Outcome.NOT_APPLICABLE)


class Exemption(StrEnum):
    """Why a question does not arise for a release."""

    NO_REPORTS = "no-reports"
    LEARNED_NOTHING = "learned-nothing"
    NO_TRAINING_PATIENTS = "no-training-patients"

    @property
    def words(self) -> str:
        return _EXEMPTIONS[self]


_EXEMPTIONS: Mapping[Exemption, str] = {
    Exemption.NO_REPORTS: "the release has no reports",
    Exemption.LEARNED_NOTHING: "the method learned from no images",
    Exemption.NO_TRAINING_PATIENTS: "no image of this source is among those the method learned from",
}


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of the policy on one metric. ``side`` says which end of the interval it holds for: the upper end, the
    upper end above chance, or the lower end."""

    limit: str  # field of the gate's policy
    metrics: tuple[str, ...]
    side: Literal["upper", "excess", "lower"]

    def reads(self, measurement: Measurement) -> bool:
        return measurement.metric in self.metrics

    def allowed(self, policy: GatePolicy, measurement: Measurement) -> float:
        limit: float = getattr(policy, self.limit)
        return min(1.0, limit + (measurement.chance or 0.0)) if self.side == "excess" else limit

    def margin(self, policy: GatePolicy, measurement: Measurement) -> float:
        """How far the far end of the interval stays on the right side; negative where it does not."""
        allowed = self.allowed(policy, measurement)
        return measurement.low - allowed if self.side == "lower" else allowed - measurement.high

    def refuted(self, policy: GatePolicy, measurement: Measurement) -> bool:
        """Whether the whole interval lies on the wrong side: no other kind of evidence can outweigh that."""
        allowed = self.allowed(policy, measurement)
        return measurement.high < allowed if self.side == "lower" else measurement.low > allowed


@dataclass(frozen=True, slots=True)
class Question:
    """One question about a release."""

    id: str
    title: str
    asks: str
    holds: str  # what it means that every bound holds
    fails: str
    unsure: str  # the value is on the right side, its interval is not
    bounds: tuple[Bound, ...]
    exemptions: frozenset[Exemption] = frozenset()
    shown: tuple[str, ...] = ()  # metrics in the first table of the report beside the bounded ones

    def bound_of(self, measurement: Measurement) -> Bound | None:
        """The bound that reads this measurement, if one does."""
        return next((bound for bound in self.bounds if bound.reads(measurement)), None)

    def leads(self, measurement: Measurement) -> bool:
        """Whether a measurement stands in the first table of the report."""
        return self.bound_of(measurement) is not None or measurement.metric in self.shown


QUESTIONS: Mapping[str, Question] = {
    question.id: question
    for question in (
        Question(
            "linkage",
            "Linking",
            "Can an attacker who adapts link a released film to its patient's real films?",
            "An attacker who trained on this method's films cannot link a released film to its patient's real films "
            "beyond the bound of the policy.",
            "An attacker who trained on this method's films can link released films to their patients' real films.",
            "Whether released films can be linked to their patients' real films cannot be told with so few patients.",
            (Bound("max_linkage", ("strongest linkage",), "upper"),),
            shown=("verification AUC", "retrieval rank-1", "reconstruction explained"),
        ),
        Question(
            "identification",
            "Naming the patient",
            "Can a classifier name the patient of a released film?",
            "A classifier of patients names the patient of a film no more often than the bound above guessing.",
            "A classifier of patients names the patient of a released film more often than the policy allows.",
            "Whether a classifier can name the patient of a released film cannot be told with so few patients.",
            (Bound("max_identification", ("identification accuracy",), "excess"),),
            shown=("identification accuracy on real films",),
        ),
        Question(
            "attributes",
            "Age and sex",
            "Can age and sex be read from a released film?",
            "Age group and sex can be read from released films no better than the bound above guessing.",
            "Age group or sex can be read from released films better than the policy allows.",
            "Whether age group or sex can be read from released films cannot be told with so few patients.",
            (Bound("max_attributes", ("age accuracy", "sex accuracy"), "excess"),),
            shown=("age accuracy on real films", "sex accuracy on real films", "sex AUC"),
        ),
        Question(
            "membership",
            "Training films",
            "Can one tell whose films the method learned from?",
            "One cannot tell from the method whose films it learned from, beyond the bound.",
            "One can tell from the method whose films it learned from.",
            "Whether one can tell whose films the method learned from cannot be told with so few patients.",
            (Bound("max_membership", ("strongest membership",), "upper"),),
            exemptions=frozenset({Exemption.LEARNED_NOTHING, Exemption.NO_TRAINING_PATIENTS}),
            shown=("membership AUC", "copies of training films", "exact copies of training films"),
        ),
        Question(
            "text",
            "Reports",
            "Does an independent detector find PHI in the released reports?",
            "A second detector, which shares no code with the first, finds no PHI in the reports beyond the bound.",
            "A second detector finds what looks like PHI in more reports than the policy allows.",
            "Whether PHI is left in the reports cannot be told with so few of them.",
            (Bound("max_residual_phi", ("residual PHI",), "upper"),),
            exemptions=frozenset({Exemption.NO_REPORTS}),
            shown=("report→patient rank-1", "prompt→patient rank-1"),
        ),
        Question(
            "utility",
            "Usefulness",
            "Do models trained on the release work on real films?",
            "For diagnosis the released films serve nearly as well as real ones, within the bound.",
            "For diagnosis the released films serve worse than the policy asks.",
            "Whether the released films serve well enough for diagnosis cannot be told with so few patients.",
            (Bound("min_utility", ("diagnosis utility",), "lower"),),
            shown=("diagnosis AUC", "skill kept", "findings F1", "gain in findings F1", "gain in BLEU-4",
                   "gain in ROUGE-L COCO", "FD-classifier", "image–text score"),
        ),
    )
}  # fmt: skip
