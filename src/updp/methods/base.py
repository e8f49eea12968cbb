"""What a de-identification method is: one Protocol, one privacy setting.

A method sees films after screening and reports after cleaning, never raw text. ``strength`` in [0, 1] is the only
setting that the rest of the product changes, so that a privacy-utility frontier can be drawn for any method. A method's
constructor arguments are its config and are written into the release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from updp.core.reasons import Reason
    from updp.core.record import Study


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """What a method is, for a reader of `updp methods` and for the release's card."""

    name: str
    summary: str
    knob: str  # what strength 0 and 1 mean
    default_strength: float | None
    guarantee: str  # "none", or the formal guarantee with its honest unit
    paper: str = ""
    domains: tuple[str, ...] = ()  # the domains it serves; () serves every one
    needs: frozenset[str] = frozenset()  # roles of a model pack, "labels", "report", ...
    native: bool = False  # whether it takes films of any width, height and depth
    alters: bool = True  # whether the film that leaves differs from the film that came
    learned_from_images: bool = True  # any network or gallery it uses; a method that says nothing is asked about them

    @classmethod
    def read(cls, name: str, row: Mapping[str, Any]) -> Self:
        """The facts of a method from its row in ``methods.toml``."""
        sets = {"domains": tuple(row.get("domains", ())), "needs": frozenset(row.get("needs", ()))}
        return cls(**{"name": name, "default_strength": None, **row, **sets})


@dataclass(frozen=True, slots=True)
class Deidentified:
    """A film as it leaves a method, with what was decided; never a prompt or another code of the patient."""

    pixels: NDArray[np.float32] | None  # None: the method keeps the film back, for the reason given
    decided: Mapping[str, Any] = field(default_factory=dict)
    refused: Reason | None = None


@runtime_checkable
class Method(Protocol):
    """A way of making a new film from a film."""

    info: MethodInfo

    def deidentify(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator]
    ) -> list[Deidentified]:
        """New films for a batch of studies, in order; ``rng`` holds one stream per study, so that a film does not
        depend on which others share its batch."""


class BadPassword(ValueError):
    """A password that cannot be one, or that is not this film's; the message shows nothing of it."""


@runtime_checkable
class Reversible(Protocol):
    """A method whose films the holder of a password can turn back; every film has a password of its own.

    ``Method.deidentify`` of such a method draws passwords from the streams, for whoever only wants to see what leaves.
    """

    password_bits: int  # of the key space: what somebody would have to try
    keeps_originals: bool  # whether the run shall keep the exact source file too, encrypted, inside the hospital

    def encrypt(
        self, batch: list[Study], strength: float | None, rng: list[np.random.Generator], passwords: list[bytes]
    ) -> list[Deidentified]:
        """As ``deidentify``, with these passwords."""

    def recover(self, films: list[NDArray[np.uint8]], passwords: list[bytes]) -> list[NDArray[np.uint8]]:
        """The originals of released films as they are stored; a wrong password raises, or gives another face."""


def reads_pixels(method: Method, strength: float | None) -> bool:
    """Whether the image that leaves may depend on the pixels that came, at this strength.

    A method promises that it does not by a method of its own, ``reads_pixels(strength)``; without the promise it does.
    The pipeline tests the promise on a sample of every shard (`updp.pipeline.non_interference`).
    """
    promise = getattr(method, "reads_pixels", None)
    return True if promise is None else bool(promise(strength))
