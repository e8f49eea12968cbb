"""Patients whom no model was trained on: who may be measured for a certificate, and how they are divided.

A pack states which public sets it learned from and by which rule their patients were shared out
(``updp.training.corpus``). Of such a set only patients outside its training part are taken; of any other source all
are. They are then shared between attackers and judges that learn and patients that are scored by a hash of their own,
so that generator, judges and scored films come from different people.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from updp.core.record import Split, Study, place_of
from updp.evaluation.cohort.sample import Place
from updp.training.corpus import rule_of, split_for

if TYPE_CHECKING:
    from updp.models.pack import Pack

#: Of the unseen patients, attackers and judges learn from 60 %; 13 % and 27 % are scored.
_TRAIN, _VAL = 0.6, 0.73
_KEY = b"updp unseen patients"


def unseen(packs: Sequence[Pack]) -> Place:
    """The split of a study whose patient trained none of these packs; None for all others."""

    def place(study: Study, layout: str) -> Split | None:
        if any(learned_from(pack, layout) and split_for(layout, study, rule_of(pack)) == "train" for pack in packs):
            return None
        where = place_of(study.patient_id, _KEY)
        return "train" if where < _TRAIN else "val" if where < _VAL else "test"

    return place


def learned_from(pack: Pack, layout: str) -> bool:
    """Whether a pack says that it learned from films of this layout; a pack that does not say may have."""
    stated = pack.info.get("data")
    return stated is None or _plain(layout) in {_plain(name) for name in stated}


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
