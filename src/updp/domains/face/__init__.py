"""Photographs of faces in an eye clinic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from updp.domains.base import Domain
from updp.domains.face.labels import LABELS

if TYPE_CHECKING:
    from updp.core.policy import Policy
    from updp.core.record import Study


#: Names of the model pack of faces, and of the pack of method weights that learned with it: in the distribution
#: updp-packs.
PACK, METHOD_WEIGHTS = "face128", "face128-methods"
#: The pack with the space of faces alone; it is in the distribution updp-packs.
SPACE_PACK = "face128-space"


@dataclass(frozen=True, kw_only=True)
class Photographs(Domain):
    def check(self, policy: Policy) -> None:
        """Refuse a policy that asks for what faces do not have, and a machine that cannot find them."""
        from updp.domains.face.finder import model_folder

        super().check(policy)
        model_folder()

    def examined(self, study: Study) -> Study:
        from updp.domains.face.acceptance import accepted
        from updp.domains.face.landmarks import named

        assert study.pixels is not None
        face = accepted(study.pixels, study.labels)
        height, width = study.pixels.shape[:2]
        left, top, right, bottom = (float(end) for end in face.box)
        box = (left / width, top / height, right / width, bottom / height)
        marks = named(face.points, study.pixels.shape)
        return study.but(landmarks=marks, regions={"face": box}, view="FRONTAL")


FACE = Photographs(
    name="face",
    summary="photographs of faces in an eye clinic",
    labels=LABELS,
    channels=3,
    views=("FRONTAL",),
    stations=("read", "screen", "pseudonymise"),
    attributes=("view", "labels", "sex", "age", "date"),
    probes=("record", "faces", "face membership", "reversal", "face diagnosis", "face landmarks"),
    questions=("record", "film", "membership", "utility"),
)
