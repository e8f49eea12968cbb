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
            "record",
            "The record",
            "What do the manifest and the report reveal about a patient?",
            "Every published combination of labels, view and attributes is shared by as many patients as the policy "
            "asks. What the record reveals is stated, whatever the film shows: how often an attacker with a real "
            "report finds the released one is the figure report→patient.",
            "Some published combination of labels, view and attributes is shared by too few patients for the policy.",
            "Whether enough patients share every published record cannot be decided.",
            (Bound("min_cell", ("smallest cell",), "lower"),),
            shown=("record linkage AUC", "alone with their record", "report→patient rank-1"),
        ),
        Question(
            "film",
            "The film beyond the record",
            "Does a released film reveal whose it is, beyond what its record reveals?",
            "Among real films with the same published record, an attacker chosen beforehand cannot tell a patient's "
            "film from another's beyond the bound, and the patient's pixels add no more than the bound allows.",
            "Released films reveal whose they are: an attacker finds a patient's film among others of the same record.",
            "Whether released films identify their patients cannot be decided with so few patients.",
            (
                Bound("max_film_linkage", ("film linkage",), "upper"),
                Bound("max_film_delta", ("film linkage beyond twins",), "upper"),
            ),
            shown=("film linkage among nearest findings", "film linkage among nearest reports",
                   "film linkage TPR at 0.01 FPR", "film linkage rank-1", "strongest linkage",
                   "identification accuracy", "sex accuracy", "age accuracy", "reconstruction explained",
                   "ID distance", "face match rank-1", "face verification accuracy"),
        ),
        Question(
            "membership",
            "Training films",
            "Does the method reveal whose films it was trained on?",
            "The method does not reveal whose films it was trained on, beyond the bound.",
            "The method reveals whose films it was trained on.",
            "Whether the method reveals whose films it was trained on cannot be decided: too few patients.",
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
            "Whether PHI is left in the reports cannot be decided with so few of them.",
            (Bound("max_residual_phi", ("residual PHI",), "upper"),),
            exemptions=frozenset({Exemption.NO_REPORTS}),
            shown=("prompt→patient rank-1",),
        ),
        Question(
            "utility",
            "Usefulness",
            "Do models trained on the release work on real films?",
            "A model that learns findings from released films keeps at least the share that the policy asks of the "
            "skill above guessing that real films teach.",
            "A model that learns findings from released films keeps less of the skill above guessing than the policy "
            "asks.",
            "Whether findings can be learned well enough from released films cannot be decided with so few patients.",
            (Bound("min_skill", ("diagnostic skill kept",), "lower"),),
            shown=("diagnosis AUC", "skill kept", "findings F1", "gain in findings F1", "gain in BLEU-4",
                   "gain in ROUGE-L COCO", "FD-classifier", "image–text score",
                   "power at 8–16 cycles", "power at 16–32 cycles", "FD-imagenet without bias",
                   "disease accuracy", "gaze error"),
        ),
    )
}  # fmt: skip
