"""What every part of a release says about how its films came to be: taken from a patient, altered, or generated.

A receiver may hold one file and nothing else. So the same sentence stands in the film itself (DICOM attributes, PNG
text), in the card and in the Croissant description, with the terms of the model pack the films were made with.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from updp.core.policy import Policy
from updp.methods import method_info, pack_of

#: Roles of a model pack that draw a film; a method that needs one gives films nobody was exposed for.
_DRAWING = frozenset(("generator", "autoencoder"))


@dataclass(frozen=True, slots=True)
class Provenance:
    """How films were made, in words and as flags."""

    method: str
    synthetic: bool  # drawn by a generative network
    altered: bool  # not the film as it was taken
    terms: str  # of the model pack; empty if no network drew the film

    @property
    def statement(self) -> str:
        """One line for a person who opens a single file."""
        if self.synthetic:
            return f"SYNTHETIC image made by updp, method {self.method}. Not for diagnosis. Terms: {self.terms}."
        if self.altered:
            return f"Image altered by updp, method {self.method}, to hide the patient. Not for diagnosis."
        return "Image de-identified by updp; pixels as taken, but for burned-in text painted over."


def provenance(policy: Policy) -> Provenance:
    """What a release under this policy says of its films."""
    name = policy.method.name
    synthetic = bool(method_info(name).needs & _DRAWING)
    terms = _terms(pack_of(name, policy.method.options, None)) if synthetic else ""
    return Provenance(name, synthetic, method_info(name).alters, terms)


@lru_cache(maxsize=8)
def _terms(pack: str | None) -> str:
    from updp.models import load_pack
    from updp.models.errors import PackError

    if pack is None:
        return "those of its model pack"
    try:
        return str(load_pack(pack, verify=False).info.get("licence", "")) or "those of its model pack"
    except (PackError, OSError):  # a release is judged where its pack is not
        return "those of its model pack"
