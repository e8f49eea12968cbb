"""Certificates: what was measured of a method on a large cohort, signed, for releases too small to be measured.

A certificate holds for one kind of image and one method with its strength and options, the model packs it ran on and
the version of updp. It says which questions were answered by which figures, and of whom: how many patients, views,
findings and ages. The gate holds its figures to the policy's bounds like those of a release. Anything that does not
match is a fault, and a certificate that a policy names and that has a fault blocks the release.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.measurement import Measurement
from updp.core.questions import Kind
from updp.domains import DEFAULT
from updp.release.gate import Proof
from updp.release.signed import Altered, read_signed, write_signed

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from pydantic import BaseModel

    from updp.core.keys import Key
    from updp.core.policy import MethodPolicy, Policy

FORMAT = "updp-certificate-1"
#: Options that belong to a hospital and not to the method: further blocked words only take away.
_OWN = ("pack", "weights", "block", "device")


class Fault(StrEnum):
    """Why a certificate does not count."""

    UNREADABLE = "it cannot be read as a certificate"
    ALTERED = "it was altered after signing"
    UNKNOWN_SIGNER = "it is signed by a key the policy does not trust"
    EXPIRED = "it is older than the policy allows"
    METHOD = "it is of another method"
    STRENGTH = "it is of another strength"
    OPTIONS = "it is of other options"
    PACK = "it is of other model weights"
    VERSION = "it is of another version of updp"
    DOMAIN = "it is of another kind of image"


def _stated(options: BaseModel) -> dict[str, Any]:
    """Options as a certificate states them. One that is marked as newer than certificates is stated only where it is
    not its default, which is what was done before there was a choice."""
    fields = type(options).model_fields
    newer = {name for name, one in fields.items() if one.json_schema_extra == {"newer": True}}
    silent = {name for name in newer if getattr(options, name) == fields[name].default}
    return options.model_dump(mode="json", exclude=silent)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a certificate is about."""

    method: str
    strength: float | None
    options: Mapping[str, Any]
    packs: Mapping[str, str]  # SHA-256 of the descriptions of the packs used
    version: str
    domain: str = DEFAULT

    @classmethod
    def of(cls, method: MethodPolicy, domain: str | None = None) -> Subject:
        """The method of a policy as it runs here, on images of a domain."""
        from updp.core import version
        from updp.methods import make_method, method_info, packs_of
        from updp.methods.strength import resolve_strength
        from updp.models import load_pack

        info = method_info(method.name)
        made = make_method(method.name, method.options)
        given = getattr(made, "options", None)
        options = {} if given is None else _stated(given)
        packs = {use: load_pack(name, verify=False).digest for use, name in packs_of(made).items()}
        strength = None if info.default_strength is None else resolve_strength(info, method.strength)
        return cls(method.name, strength, own_options(options), packs, version.__version__, domain or DEFAULT)

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def fault(self, other: Subject) -> Fault | None:
        """The first way in which another subject differs from this one."""
        for one, two, fault in (
            (self.method, other.method, Fault.METHOD),
            (self.strength, other.strength, Fault.STRENGTH),
            (dict(self.options), dict(other.options), Fault.OPTIONS),
            (dict(self.packs), dict(other.packs), Fault.PACK),
            (self.version, other.version, Fault.VERSION),
            (self.domain, other.domain, Fault.DOMAIN),
        ):
            if one != two:
                return fault
        return None


def own_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that make a method another method."""
    return {name: value for name, value in options.items() if name not in _OWN}


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was measured of a subject, on whom, and when."""

    subject: Subject
    made: dt.date
    cohort: Mapping[str, Any]
    measurements: tuple[Measurement, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "subject": self.subject.to_json(),
            "made": self.made.isoformat(),
            "cohort": dict(self.cohort),
            "measurements": [m.to_json() for m in self.measurements],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        found = tuple(Measurement.from_json(m) for m in data["measurements"])
        return cls(Subject(**data["subject"]), dt.date.fromisoformat(data["made"]), data["cohort"], found)


def write(path: Path, certificate: Certificate, key: Key) -> None:
    """Sign a certificate and write it."""
    write_signed(path, "certificate", certificate.to_json(), key)


def read(raw: bytes, signers: Iterable[str]) -> Certificate | Fault:
    """A certificate whose signature holds and is by a trusted key, else what is wrong with it."""
    try:
        stated, signer = read_signed(raw, "certificate", FORMAT)
        found = Certificate.from_json(stated)
    except Altered:
        return Fault.ALTERED
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # whatever a wrong shape raises
        return Fault.UNREADABLE
    return found if signer in {one.strip() for one in signers} else Fault.UNKNOWN_SIGNER


def shipped() -> Traversable:
    """The folder of certificates inside the package, with the keys that signed them."""
    return resources.files("updp.release").joinpath("certificates")


def shipped_files() -> list[Traversable]:
    """The certificates inside the package."""
    folder = shipped()
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted((entry for entry in found if entry.name.endswith(".json")), key=lambda entry: entry.name)


def shipped_signers() -> list[str]:
    """The public keys whose certificates ship with the package."""
    keys = shipped().joinpath("signers.txt")
    return keys.read_text("ascii").split() if keys.is_file() else []


def signers_of(signed: Mapping[str, Any], policy: Policy) -> Iterable[str]:
    """The public keys that may have signed a certificate inside a release: those of the package for what ships with it,
    those of the policy for everything else."""
    ships = any(json.loads(raw) == signed for raw, named in _held(policy) if not named)
    return shipped_signers() if ships else policy.gate.certifiers


@dataclass(frozen=True, slots=True)
class Found:
    """Certificates that count for a policy, as signed, and what they answer; those it names in vain answer with a
    failure."""

    signed: tuple[Mapping[str, Any], ...] = ()
    proofs: tuple[Proof, ...] = ()
    subject: Subject | None = None

    def to_json(self) -> dict[str, Any]:
        """As the evidence of a release states it."""
        subject = None if self.subject is None else self.subject.to_json()
        return {"certificates": list(self.signed), "subject": subject}


def find(policy: Policy, today: dt.date) -> Found:
    """The certificates for releases under this policy.

    Certificates of the package count where they match, and are passed over where they do not. One that the policy
    names must match: otherwise the release is blocked, with the reason.
    """
    if Kind.CERTIFIED not in policy.gate.accept:
        return Found()
    subject = Subject.of(policy.method, policy.source.domain)
    signed: list[Mapping[str, Any]] = []
    proofs: list[Proof] = []
    for raw, named in _held(policy):
        # A signer of the package is trusted for the certificates that ship, and for no other that a policy names.
        found = check(raw, subject, policy.gate.certifiers if named else shipped_signers(), policy, today)
        if isinstance(found, Certificate):
            signed.append(json.loads(raw))
            proofs += answers(found)
        elif named:
            words = f"the certificate named by the policy does not count: {found}"
            proofs.append(Proof("utility", Kind.CERTIFIED, False, words))
    return Found(tuple(signed), tuple(proofs), subject if signed else None)


def _held(policy: Policy) -> Iterator[tuple[bytes, bool]]:
    """Every certificate at hand, and whether the policy names it."""
    if policy.gate.shipped_certificates:
        yield from ((entry.read_bytes(), False) for entry in shipped_files())
    for name in policy.gate.certificates:
        try:
            yield Path(name).read_bytes(), True
        except OSError:
            yield b"", True


def check(raw: bytes, subject: Subject, signers: Iterable[str], policy: Policy, today: dt.date) -> Certificate | Fault:
    """A certificate that counts for this subject today, else the first fault."""
    found = read(raw, signers)
    if isinstance(found, Fault):
        return found
    if fault := subject.fault(found.subject):
        return fault
    days = policy.gate.certificate_days
    return Fault.EXPIRED if days is not None and (today - found.made).days > days else found


def answers(certificate: Certificate) -> Iterator[Proof]:
    """What a certificate answers, question by question."""
    patients, films = certificate.cohort.get("patients", 0), certificate.cohort.get("films", 0)
    words = f"certified on {films} films of {patients} patients, {certificate.made.isoformat()}"
    asked = dict.fromkeys(m.question for m in certificate.measurements if m.question and m.measured)
    for question in asked:
        own = tuple(m for m in certificate.measurements if m.question == question)
        yield Proof(question, Kind.CERTIFIED, True, words, own)


def differences(cohort: Mapping[str, Any], release: Mapping[str, Any], least: float = 0.1) -> list[str]:
    """Where a release is unlike the cohort of a certificate: shares of views and findings that differ by ``least``."""
    out = []
    for kind in ("views", "findings", "ages"):
        one, two = cohort.get(kind, {}), release.get(kind, {})
        for name in sorted({*one, *two}):
            here, there = float(two.get(name, 0.0)), float(one.get(name, 0.0))
            if abs(here - there) >= least:
                out.append(f"{kind} {name}: {here:.0%} of this release, {there:.0%} of the cohort")
    return out
