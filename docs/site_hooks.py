"""Pages of the site that are made while it is built: API reference, import graph, the notebooks with their output.

mkdocs calls ``on_config`` and ``on_files``. Nothing is written to the checkout, so these pages are never out of date.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import import_graph

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

DOCS = Path(__file__).parent
API = "API reference"
#: The command line has a page of its own, and ``updp`` is the page of the public names.
_PARTS = tuple(part for part in import_graph.ORDER if part not in ("cli", "updp"))


def generated() -> dict[str, str]:
    """Path within the site to content."""
    pages = {"pictures/import-graph.svg": import_graph.drawing(), "reference/parts.md": parts_page()}
    for part in _PARTS:
        content = f"# `updp.{part}`\n\n::: updp.{part}\n    options:\n      show_submodules: true\n"
        pages[f"reference/api/{part}.md"] = content
    return pages


def parts_page() -> str:
    """What each part of the package is for, and which others it imports."""
    graph = import_graph.part_edges()
    rows = [
        f"| `{part}` | {import_graph.purpose(part)} | {', '.join(sorted(graph[part], key=import_graph.ORDER.index))} |"
        for part in import_graph.ORDER
    ]
    head = ["# Parts of the package", "", "| part | what it is for | imports |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def executed(notebook: Path) -> dict[str, str | bytes]:
    """A notebook run from top to bottom: the page, and the pictures it shows."""
    import nbformat
    from nbclient import NotebookClient
    from nbconvert import MarkdownExporter

    cells = nbformat.read(notebook, as_version=4)
    NotebookClient(cells, timeout=600, kernel_name="python3").execute()
    text, extra = MarkdownExporter().from_notebook_node(cells)
    folder = notebook.parent.relative_to(DOCS).as_posix()
    for name in extra["outputs"]:
        text = text.replace(f"({name})", f"({notebook.stem}-{name})")
    text += f"\n[Download the notebook]({notebook.name})\n"
    pictures = {f"{folder}/{notebook.stem}-{name}": data for name, data in extra["outputs"].items()}
    return {f"{folder}/{notebook.stem}.md": text, **pictures}


def guides() -> list[Path]:
    """The extension guides: how to add a method, an attacker, a source, a domain."""
    return sorted(DOCS.glob("how-to/add-a*.md"))


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the pages of the API and the extension guides to the navigation."""
    for section in config.nav or ():
        for entry in section.get("How to", ()):
            if "Extend" in entry:
                entry["Extend"] += [path.relative_to(DOCS).as_posix() for path in guides()]
        for entry in section.get("Reference", ()):
            if API in entry:
                entry[API] += [{part: f"reference/api/{part}.md"} for part in _PARTS]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    from mkdocs.structure.files import File

    pages: dict[str, str | bytes] = {**generated()}
    for notebook in sorted(DOCS.glob("notebooks/*.ipynb")):
        pages |= executed(notebook)
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files
