"""What may leave the hospital: one TOML file, checked before anything is read.

Every field has a default, so an empty policy is a complete one. ``updp policy`` prints the defaults and the JSON
schema; an error names the line of the file it comes from. Sections follow the flow: source, header, burned_in, report,
image, method, release, gate.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from updp.core.registry import unknown

#: Policies that ship, strictest first; each file says what it is for.
PRESETS = ("strict", "research", "clean-only")
Fraction = Annotated[float, Field(ge=0, le=1)]
#: Side of the squares in which native films are compared: that of the films the embedded models learned from.
COMPARED = 256
#: How pydantic names the members of a union in the place of a fault.
_MEMBER = re.compile(r"constrained-int|literal\[.*\]")


class BadPolicy(ValueError):
    """The policy cannot be used; the message names file and line."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SourcePolicy(Section):
    domain: str | None = Field(
        None,
        description="Kind of image; `updp domains` lists them; default: that of the layout, else chest.",
    )
    frontal_only: bool = Field(True, description="Take PA and AP films only; lateral films are passed over.")
    table: str | None = Field(None, description="The table that names films, below the source's folder.")
    columns: dict[str, str | tuple[str, ...]] | None = Field(
        None,
        description='Which column of the table holds what, as `patient_id = "MRN"`; `updp init` writes it. '
        '`image = "films/{name}.png"` composes a path. Several columns for `labels` are one finding each.',
    )
    values: dict[str, dict[str, str]] | None = Field(
        None,
        description='What a cell stands for, by pattern, as `view = {"AP*" = "AP"}`; the first that fits counts.',
    )
    only: dict[str, str] | None = Field(
        None, description='Take rows only where the column has this value, as `modality = "X-ray"`.'
    )
    rows: Literal["one", "any", "majority"] | None = Field(
        None,
        description="Rows per film: one; several of which any names a finding; or several readers, of whom most agree.",
    )

    def mapping(self) -> dict[str, Any]:
        """What this says of how a table is to be read, by field; empty where it says nothing."""
        return self.model_dump(include={"table", "columns", "values", "only", "rows"}, exclude_none=True)


class HeaderPolicy(Section):
    """Options of the PS3.15 Basic Application Level Confidentiality Profile (Table E.1-1 columns)."""

    retain_longitudinal: bool = Field(
        True, description="Keep dates, moved by the patient's own shift (Retain Longitudinal With Modified Dates)."
    )
    retain_uids: bool = Field(False, description="Keep UIDs instead of re-mapping them by key.")
    retain_device: bool = Field(False, description="Keep the identity of the imaging device.")
    retain_institution: bool = Field(False, description="Keep the identity of the institution.")
    retain_patient_characteristics: bool = Field(False, description="Keep age, sex, size and weight.")
    clean_descriptors: bool = Field(
        True, description="Keep descriptions and comments after the report detector has cleaned them."
    )
    clean_structured_content: bool = Field(
        True, description="Keep the content of structured reports after cleaning it; else it is replaced by dummies."
    )
    retain_safe_private: bool = Field(False, description="Keep private elements known to be safe (PS3.15 E.3.10).")


class BurnedInPolicy(Section):
    mode: Literal["ocr", "header", "off"] = Field(
        "ocr",
        description="ocr: read every film and paint text out. header: trust BurnedInAnnotation = NO, else quarantine. "
        "off: release films unchecked (the release says so).",
    )
    keep: tuple[str, ...] = Field((), description="Further words allowed to stay on a film.")
    doubt: Literal["paint", "quarantine"] = Field(
        "paint", description="What becomes of text-like marks that cannot be read: painted over, or the film kept back."
    )


class ReportPolicy(Section):
    mode: Literal["surrogate", "tag", "structured", "withhold"] = Field(
        "surrogate",
        description="Replace PHI by consistent surrogates or by typed tags; restate findings, negations, sides and "
        "measurements in standard sentences, so that no wording leads back to the original; or release no report.",
    )
    sections: tuple[str, ...] = Field(
        ("findings", "impression"), description="Sections that leave, in this order; all others stay."
    )
    required: bool = Field(False, description="Keep back studies that have no report.")
    max_characters: int = Field(2_000_000, ge=1, description="Longer reports are kept back.")
    block: tuple[str, ...] = Field((), description="Further terms that never leave (added to the blacklist).")
    allow: tuple[str, ...] = Field((), description="Further terms that always stay (added to the whitelist).")


class ImagePolicy(Section):
    size: Annotated[int, Field(ge=16, le=4096)] | Literal["native"] = Field(
        256,
        description='Side of the released square film, in pixels; or "native": width, height, bit depth, window and '
        "pixel spacing as they came, for methods that serve it (`keep`, `blur`, `pixelate`, `dp-pix`).",
    )
    fit: Literal["pad", "crop", "stretch"] = Field(
        "crop",
        description="How a film that is not square becomes square: its central square, as the models learned films; "
        "or with black bars, which loses no edge.",
    )
    format: Literal["png", "dicom", "source"] = Field(
        "png", description="File format of released films; source: DICOM for a film that came as DICOM, else PNG."
    )
    transfer_syntax: Literal["explicit-le", "jpeg-ls", "jpeg-2000"] = Field(
        "explicit-le", description="How DICOM films are stored: uncompressed, or lossless JPEG-LS or JPEG 2000."
    )
    max_pixels: int = Field(100_000_000, ge=1, description="Films with more pixels are kept back undecoded.")
    min_side: int = Field(64, ge=1, description="Films with a shorter side are kept back.")

    @property
    def native(self) -> bool:
        """Whether films leave in the size and depth they came in."""
        return self.size == "native"

    @property
    def side(self) -> int:
        """The side of the squares that attacks and measures look at; that of the released film, where it is one."""
        return self.size if isinstance(self.size, int) else COMPARED


class MethodPolicy(Section):
    name: str = Field("updp", description="De-identification method; `updp methods` lists them.")
    strength: Fraction | None = Field(
        None, description="0 is closest to the original, 1 is most private; the method's own default if absent."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="Further settings of the method.")


class ReleasePolicy(Section):
    name: str = Field("release", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", description="Name on the dataset card.")
    recipient: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="Who will receive it: pseudonyms and dates differ from those of all other recipients. The vault "
        "states it, the release does not.",
    )
    licence: str = Field("unspecified", description="Licence or agreement under which the release is shared.")
    attributes: tuple[Literal["view", "labels", "sex", "age", "date"], ...] = Field(
        ("view", "labels"), description="What the manifest says of a film. age is capped at 90, date is shifted."
    )
    labels: tuple[str, ...] = Field(
        (), description="Label names that may leave beside those of ChestX-ray14 and CheXpert; others are dropped."
    )
    derive_labels: bool = Field(
        True,
        description="Whether films that the source does not label get the labels that their report states; the "
        "manifest marks them as derived.",
    )
    shard_size: int = Field(64, ge=1, le=100_000, description="Films per shard: the unit of work, resume and storage.")


class GatePolicy(Section):
    """Bounds on what `updp evaluate` measured. They hold for the far end of each 95 % interval, not for its middle, so
    that a release with too few patients for certainty is blocked, with the number of patients that would suffice."""

    require_evidence: bool = Field(
        False, description="Block what was not measured (else its folder is named `unmeasured`)."
    )
    accept: tuple[Literal["measured", "construction", "certified"], ...] = Field(
        ("measured", "construction", "certified"),
        description="Kinds of evidence that answer a question: figures of this release (measured), a proof by how its "
        "films were made (construction), a certificate of the method and its options (certified).",
    )
    certificates: tuple[str, ...] = Field(
        (), description="Certificate files of the method beside those that ship; one that does not match blocks."
    )
    certifiers: tuple[str, ...] = Field((), description="Public keys whose certificates are trusted.")
    shipped_certificates: bool = Field(
        True, description="Whether certificates that ship with updp count; their signers are trusted for them alone."
    )
    certificate_days: int | None = Field(None, ge=1, description="Oldest certificate that counts, in days.")
    min_cell: int = Field(
        0,
        ge=0,
        description="Fewest patients that must share a published record (labels, view, attributes): films of rarer "
        "ones are kept back. 0 sets no bound.",
    )
    max_film_linkage: Fraction = Field(
        0.55,
        description="Largest upper confidence bound of finding a patient's film among films with the same published "
        "record, as an AUC (0.5 is guessing).",
    )
    max_film_delta: Fraction = Field(
        0.05,
        description="Largest upper confidence bound of how much of that AUC the patient's own pixels add, against "
        "films made from the same record without them.",
    )
    max_membership: Fraction = Field(
        0.60, description="Largest upper confidence bound of telling whose films trained the generator, as an AUC."
    )
    max_residual_phi: Fraction = Field(
        0.01,
        description="Largest upper confidence bound of the share of reports in which the second detector sees PHI.",
    )
    min_skill: Fraction = Field(
        0.70,
        description="Smallest lower confidence bound of the diagnostic skill that released films teach: (AUC - 0.5) of "
        "a judge that learned from them over (AUC - 0.5) of one that learned from real films.",
    )
    max_quarantined: Fraction = Field(
        0.1, description="Largest share of studies in quarantine; more says that something is wrong with the export."
    )


#: What begins like a path of this machine.
_PATH = re.compile(r"[~/\\]|\.{1,2}[/\\]|[A-Za-z]:[/\\]")


class Policy(Section):
    """What may leave the hospital, one section per step. Every field has a default."""

    source: SourcePolicy = SourcePolicy()
    header: HeaderPolicy = HeaderPolicy()
    burned_in: BurnedInPolicy = BurnedInPolicy()
    report: ReportPolicy = ReportPolicy()
    image: ImagePolicy = ImagePolicy()
    method: MethodPolicy = MethodPolicy()
    release: ReleasePolicy = ReleasePolicy()
    gate: GatePolicy = GatePolicy()

    @classmethod
    def load(cls, path: Path) -> Policy:
        """Read a TOML policy, or the preset of that name; what is wrong with it is said with its line."""
        if str(path) in PRESETS and not path.exists():
            return cls.preset(str(path))
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:
            raise BadPolicy(f"{path}: no such policy file, and {unknown('preset', path.name, PRESETS)}") from None
        except (OSError, UnicodeDecodeError):
            raise BadPolicy(f"{path}: the policy file cannot be read as UTF-8 text") from None
        return cls.parse(text, name=str(path))

    @classmethod
    def preset(cls, name: str) -> Policy:
        """A policy that ships with the package."""
        if name not in PRESETS:
            raise BadPolicy(unknown("preset", name, PRESETS))
        return cls.parse(preset_text(name), name=name)

    @classmethod
    def parse(cls, text: str, name: str = "policy") -> Policy:
        """Read a policy from TOML text."""
        try:
            return cls.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise BadPolicy(f"{name}: {error}") from None
        except ValidationError as error:
            found: dict[tuple[int | str, ...], list[str]] = {}
            for fault in error.errors(include_url=False, include_context=False):
                place = tuple(part for part in fault["loc"] if not _MEMBER.fullmatch(str(part)))
                wrong = _unknown_key(cls, fault["loc"]) if fault["type"] == "extra_forbidden" else fault["msg"]
                found.setdefault(place, []).append(wrong)
            raise BadPolicy(
                "\n".join(
                    f"{name}:{_line_of(text, place)}: {'.'.join(map(str, place))}: {', or: '.join(said)}"
                    for place, said in found.items()
                )
            ) from None

    def with_image(self, **changes: Any) -> Policy:
        """This policy with other settings of [image], which are checked."""
        try:
            image = ImagePolicy.model_validate(self.image.model_dump() | changes)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=False)
            raise BadPolicy("; ".join(f"{fault['loc'][0]}: {fault['msg']}" for fault in faults)) from None
        return self.model_copy(update={"image": image})

    @property
    def headers(self) -> HeaderPolicy:
        """The header policy in effect: a native film leaves with its header, which withholds what the manifest does."""
        if not self.image.native:
            return self.header
        let = set(self.release.attributes)
        return self.header.model_copy(
            update={
                "retain_longitudinal": self.header.retain_longitudinal and "date" in let,
                "retain_patient_characteristics": self.header.retain_patient_characteristics and {"age", "sex"} <= let,
            }
        )

    def public(self) -> Policy:
        """This policy as a release may state it: blocked terms are names as a rule, and the source's columns, paths
        and words are the hospital's own, so these stay; of a pack in a folder of the hospital only the name leaves.
        """
        options = {
            name: re.split(r"[/\\]", value.rstrip("/\\"))[-1]
            if isinstance(value, str) and (name in ("pack", "weights") or _PATH.match(value))
            else value
            for name, value in self.method.options.items()
            if name != "block"
        }
        return self.model_copy(
            update={
                "source": SourcePolicy(domain=self.source.domain, frontal_only=self.source.frontal_only),
                "report": self.report.model_copy(update={"block": ()}),
                "release": self.release.model_copy(update={"recipient": None}),
                "gate": self.gate.model_copy(update={"certificates": ()}),  # paths of the hospital
                "method": self.method.model_copy(update={"options": options}),
            }
        )

    def to_toml(self) -> str:
        """This policy as TOML, every field written out."""
        out = []
        for section, values in self.model_dump(mode="json").items():
            out.append(f"[{section}]")
            for name, value in values.items():
                if value is not None:
                    out.append(f"{name} = {_inline(value)}")
            out.append("")
        return "\n".join(out)


def preset_text(name: str) -> str:
    """A preset as it is written, with its reasons."""
    return resources.files("updp.core").joinpath("presets", f"{name}.toml").read_text("utf-8")


def _inline(value: Any) -> str:
    """A value as TOML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_inline(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


def json_schema() -> str:
    """The published JSON schema of a policy."""
    return json.dumps(Policy.model_json_schema(), indent=2, sort_keys=True) + "\n"


def _unknown_key(model: type[BaseModel], loc: tuple[int | str, ...]) -> str:
    """What to say of a section or a key that a policy does not have."""
    for name in loc[:-1]:
        model = cast("type[BaseModel]", model.model_fields[str(name)].annotation)
    return unknown("section" if len(loc) == 1 else "key", str(loc[-1]), model.model_fields)


def _line_of(text: str, loc: tuple[int | str, ...]) -> int:
    """The line of ``text`` that a validation fault at ``loc`` comes from; the section's line if the key is absent."""
    names = [part for part in loc if isinstance(part, str)]
    section, best = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[+\s*([A-Za-z0-9_.\"-]+)\s*\]+", line)
        if header:
            section = header.group(1).replace('"', "")
            if names and section == names[0]:
                best = number
            continue
        key = re.match(r"\s*([A-Za-z0-9_.\"-]+)\s*=", line)
        if not key:
            continue
        dotted = [p for p in (*section.split("."), *key.group(1).replace('"', "").split(".")) if p]
        if dotted == names[: len(dotted)]:
            best = number
    return best
