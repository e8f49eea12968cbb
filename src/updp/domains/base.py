"""What a domain is: everything that is particular to one kind of image, in one object.

The rest of the package asks the domain of a source: how many channels an image has, what its labels are and how they
are said, which stations a record passes, which attributes may leave, which models and probes apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from updp.core.policy import BadPolicy, Policy
from updp.core.questions import QUESTIONS, Question
from updp.core.reasons import Refused
from updp.core.registry import UnknownName, unknown
from updp.domains.labels import LabelTable

if TYPE_CHECKING:
    import numpy as np

    from updp.core.reasons import Reason
    from updp.core.record import Study


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One kind of image. A domain with rules of its own is a subclass."""

    name: str
    summary: str  # what its images are, in the plural: a release is a set of them
    labels: LabelTable = field(repr=False)
    channels: int = 1  # 1: grey, 3: red, green and blue
    views: tuple[str, ...] = ()
    side_views: tuple[str, ...] = ()  # views that a source passes over where the policy says ``frontal_only``
    reports: bool = False  # whether records have reports
    stations: tuple[str, ...] = ("read", "square", "pseudonymise")  # names of ``pipeline.stations.STATIONS``
    attributes: tuple[str, ...] = ("labels",)  # what a manifest may say of an image, where the policy lets it out
    pack: str | None = None  # the model pack of attackers and methods, unless another is given
    roles: frozenset[str] = frozenset()  # that a pack of this domain fills
    probes: tuple[str, ...] | None = None  # names of ``evaluation.probes.PROBES``; None is every one
    questions: tuple[str, ...] | None = None  # that the gate asks; None is every one

    def view(self, value: object) -> str | None:
        """One of the domain's views from what a table or header says; None for anything else."""
        text = str(value or "").strip()
        return text if text in self.views else None

    def refuses(self, study: Study) -> Reason | None:
        """Why a record that has been read is none of this domain; None where it is one."""
        return None

    def examined(self, study: Study) -> Study:
        """A record that has been read, with what this domain marks in its image; refuses one that is none of it."""
        if (reason := self.refuses(study)) is not None:
            raise Refused(reason)
        return study

    def words(self, study: Study, rng: np.random.Generator) -> str:
        """What an image shows, as its labels say it; "" where nothing is known."""
        if study.labels is None:
            return ""
        said = [self.labels.phrases(name) for name in study.labels]
        return " ".join(choices[int(rng.integers(len(choices)))] for choices in said)

    def asked(self) -> Mapping[str, Question]:
        """The questions that the gate asks of a release of this domain, by id."""
        if self.questions is None:
            return QUESTIONS
        for name in self.questions:
            if name not in QUESTIONS:
                raise UnknownName(f"domain {self.name!r}: {unknown('question', name, QUESTIONS)}")
        return {name: question for name, question in QUESTIONS.items() if name in self.questions}

    def check(self, policy: Policy) -> None:
        """Refuse a policy that asks for what this domain does not have."""
        for name in policy.release.attributes:
            if name not in self.attributes:
                raise BadPolicy(f"domain {self.name!r}: {unknown('attribute', name, self.attributes)}")
        if policy.image.native and self.channels != 1:
            raise BadPolicy(f"domain {self.name!r}: images are made square; set [image] size to a number of pixels")
        if policy.image.format == "dicom" and self.channels != 1:
            raise BadPolicy(f"domain {self.name!r}: images of {self.channels} channels are written as png alone")

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        # Worker processes take the domain of this name from their own registry.
        return _named, (self.name,)


def _named(name: str) -> Domain:
    from updp.domains import DOMAINS

    return DOMAINS[name]
