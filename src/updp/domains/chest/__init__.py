"""Chest films and their reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from updp.domains.base import Domain
from updp.domains.chest.labels import LABELS
from updp.domains.chest.views import VIEWS, view_of
from updp.domains.chest.words import compose

if TYPE_CHECKING:
    import numpy as np

    from updp.core.record import Study

#: The embedded model pack, and the weights of methods that learned with it.
PACK = "cxr256-2"
METHOD_WEIGHTS = "cxr256-2-methods"
#: The first generation: PriCheXy-Net and Privacy-Net have learned with no other yet.
FIRST_PACK, FIRST_METHOD_WEIGHTS = "cxr256", "cxr256-methods"


@dataclass(frozen=True, kw_only=True)
class Chest(Domain):
    def view(self, value: object) -> str | None:
        return view_of(value)

    def words(self, study: Study, rng: np.random.Generator) -> str:
        return "" if study.labels is None else compose(study.labels, study.view or "PA", rng)


CHEST = Chest(
    name="chest",
    summary="chest X-rays",
    labels=LABELS,
    views=VIEWS,
    side_views=("LATERAL",),
    reports=True,
    stations=("read", "screen", "report", "pseudonymise"),
    attributes=("view", "labels", "sex", "age", "date"),
    pack=PACK,
    roles=frozenset({"autoencoder", "vlm", "generator", "identity", "classifier"}),
)
