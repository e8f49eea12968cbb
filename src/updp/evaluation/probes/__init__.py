"""Probes: attacks on a release and measures of its usefulness, one file each, one base class.

They run inside the hospital, on an ``Exhibit``. A probe is added by one file with a subclass of ``base.Probe`` and one
line below, or by an entry point of another package in the group ``updp.probes``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from updp.core.registry import Registry

if TYPE_CHECKING:
    from updp.evaluation.probes.base import Probe

#: Every probe, in the order in which they run: the first fill the cache for those after them.
PROBES: Registry[type[Probe]] = Registry(
    "probe",
    "updp.probes",
    {
        "record": "updp.evaluation.probes.attacks.record:Record",
        "film": "updp.evaluation.probes.attacks.film:Film",
        "verification": "updp.evaluation.probes.attacks.verification:Verification",
        "retrieval": "updp.evaluation.probes.attacks.retrieval:Retrieval",
        "identification": "updp.evaluation.probes.attacks.identification:Identification",
        "attributes": "updp.evaluation.probes.attacks.attributes:Attributes",
        "reconstruction": "updp.evaluation.probes.attacks.reconstruction:Reconstruction",
        "membership": "updp.evaluation.probes.attacks.membership:Membership",
        "text": "updp.evaluation.probes.attacks.text:Text",
        "diagnosis": "updp.evaluation.probes.utility.diagnosis:Diagnosis",
        "other judges": "updp.evaluation.probes.utility.diagnosis:OtherJudges",
        "report generation": "updp.evaluation.probes.utility.report_generation:ReportGeneration",
        "images": "updp.evaluation.probes.utility.fidelity:Images",
        "image-text": "updp.evaluation.probes.utility.fidelity:ImageText",
        "faces": "updp.evaluation.probes.attacks.faces:Faces",
        "face membership": "updp.evaluation.probes.attacks.face_membership:FaceMembership",
        "reversal": "updp.evaluation.probes.attacks.reversal:Reversal",
        "face diagnosis": "updp.evaluation.probes.utility.face_signs:FaceDiagnosis",
        "face landmarks": "updp.evaluation.probes.utility.face_signs:FaceLandmarks",
    },
)


def probes(names: Sequence[str] | None = None, *, quick: bool = False) -> list[Probe]:
    """The probes of these names, or all that are made for every domain and asked unnamed, always in the same order;
    ``quick`` leaves out those that say so."""
    for name in names or ():
        PROBES.module_of(name)  # an unknown name is refused with those there are
    if names is not None:
        chosen = [PROBES[name] for name in PROBES if name in names]
        return [probe() for probe in chosen if probe.quick or not quick]
    unnamed = (probe for _, probe in PROBES.members() if not probe.domains and not probe.by_name)
    return [probe() for probe in unnamed if probe.quick or not quick]
