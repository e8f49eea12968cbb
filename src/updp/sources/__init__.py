"""Sources: one file per layout, recognised by what is in the folder.

The flow starts here: ``open_source("export/")`` looks at the folder, says which layout it is, and streams its films.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from updp.core.registry import Registry, unknown
from updp.domains import DEFAULT, DOMAINS
from updp.sources.base import Refusal, Source
from updp.sources.files import BadSource

if TYPE_CHECKING:
    from updp.core.policy import Policy, SourcePolicy
    from updp.sources.base import Layout

__all__ = ["LAYOUTS", "BadSource", "Refusal", "Source", "open_source", "open_sources", "open_under", "recognise"]

#: The layouts, in the order they are tried and listed; other packages add theirs in the group ``updp.sources``.
LAYOUTS: Registry[type[Layout]] = Registry(
    "layout",
    "updp.sources",
    {
        "release": "updp.sources.release:Release",
        "iu_xray": "updp.sources.iu_xray:IUXray",
        "openi": "updp.sources.openi:OpenI",
        "chestxray14": "updp.sources.chestxray14:ChestXray14",
        "chexpert": "updp.sources.chexpert:CheXpert",
        "mimic_cxr": "updp.sources.mimic_cxr:MimicCXR",
        "celeba": "updp.sources.celeba:CelebA",
        "mema": "updp.sources.mema:Mema",
        "people": "updp.sources.people:People",
        "dicom": "updp.sources.dicom:Dicom",
        "manifest": "updp.sources.manifest:Manifest",
    },
    BadSource,
)


def recognise(path: str | Path) -> list[str]:
    """Names of the layouts found at ``path``: none, one or several."""
    root = Path(path)
    return [name for name, kind in LAYOUTS.members() if kind.recognises(root)]


def open_source(
    path: str | Path,
    layout: str | None = None,
    *,
    domain: str | None = None,
    frontal_only: bool = True,
    limit: int | None = None,
    max_pixels: int | None = None,
    min_side: int | None = None,
    mapping: SourcePolicy | None = None,
    native: bool = False,
    projections: bool = False,
) -> Source:
    """The source at ``path``, its layout recognised unless given; its domain is that of the layout unless given.

    ``max_pixels`` and ``min_side`` default to the policy's defaults. ``mapping`` says which column of a table holds
    what; the layout is then ``manifest``. ``native`` loads films as they are stored, in place of grey values in [0, 1];
    ``projections`` takes DICOM radiographs of other kinds than CR, DX and secondary capture too.
    """
    from updp.sources.manifest import has_mapping

    root = Path(path)
    mapped = mapping is not None and bool(mapping.mapping())
    if mapped and layout is None:
        layout = "manifest"
    if mapped and layout != "manifest":
        raise BadSource(f"[source.columns] belongs to the layout manifest, not to {layout}")
    if layout is not None and layout not in LAYOUTS:
        raise BadSource(unknown("layout", layout, LAYOUTS))
    if limit is not None and limit < 0:
        raise BadSource("limit is a number of films, zero or more")
    try:
        if not root.exists():
            raise BadSource(f"{path}: no such folder")
        if root.is_dir() and next(root.iterdir(), None) is None:
            raise BadSource(f"{path}: the folder is empty")
        found = recognise(root)
        if len(found) > 1 and "manifest" in found and has_mapping(root):
            found = ["manifest"]  # a table with a mapping says more of its films than their headers do
    except PermissionError:
        raise BadSource(f"{path}: the folder cannot be read; check its permissions") from None
    except OSError:
        raise BadSource(f"{path}: the folder cannot be read") from None
    if layout is None:
        if not found:
            known = ", ".join(LAYOUTS)
            raise BadSource(f"{path}: no known layout was recognised; known: {known}. See docs/how-to/sources")
        if len(found) > 1:
            choices = " or ".join(f"--layout {name}" for name in found)
            raise BadSource(f"{path}: several layouts in one folder ({', '.join(found)}); choose one: {choices}")
        layout = found[0]
    elif layout not in found and not mapped:
        raise BadSource(f"{path}: this folder does not hold the layout {layout}. See docs/how-to/sources")
    kind = LAYOUTS[layout]
    # Layouts of other packages need not know what only some sources are asked for.
    asked: dict[str, Any] = {"native": native, "projections": projections, "mapping": mapping if mapped else None}
    try:
        source = kind(
            root,
            domain=DOMAINS[domain or kind.domain_of(root) or DEFAULT],
            frontal_only=frontal_only,
            limit=limit,
            max_pixels=max_pixels,
            min_side=min_side,
            **{name: value for name, value in asked.items() if value},
        )
    except BadSource as error:
        # Layouts name no files: the folder is the user's own word, a file's name may be a patient's.
        raise BadSource(f"{path}: {error}") from None
    source.layout = layout
    return source


def open_sources(paths: Iterable[str | Path]) -> Iterator[tuple[str, Source]]:
    """Several sources, each with a name of its own: its layout, and a number from the second of a layout on."""
    seen: Counter[str] = Counter()
    for path in paths:
        source = open_source(path)
        seen[source.layout] += 1
        yield source.layout if seen[source.layout] == 1 else f"{source.layout}-{seen[source.layout]}", source


def open_under(
    policy: Policy, path: Path, layout: str | None = None, limit: int | None = None, *, native: bool = False
) -> Source:
    """The source at ``path`` as a policy takes it; ``native`` loads films as they are stored."""
    return open_source(
        path,
        layout,
        domain=policy.source.domain,
        frontal_only=policy.source.frontal_only,
        limit=limit,
        max_pixels=policy.image.max_pixels,
        min_side=policy.image.min_side,
        mapping=policy.source,
        native=native,
        projections=policy.image.native,
    )
