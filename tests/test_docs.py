"""The documentation is up to date with the code, and its links lead somewhere."""

import importlib.util
import json
import re
from pathlib import Path

import pytest

from updp.core.policy import BadPolicy, Policy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *(path for path in [ROOT / "README.md"] if path.exists())])
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")


def generator():
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["reference/policy.md", "reference/policy.schema.json", "reference/command-line.md",
                                  "reference/reason-codes.md"])  # fmt: skip
def test_generated_pages_are_up_to_date(name):
    made = generator().pages()
    assert (DOCS / name).read_text("utf-8") == made[name], "run: python docs/generate.py"


def anchors(page):
    heads = re.findall(r"^#+\s+(.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_resolve(page):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        resolves = found.exists() and ROOT in found.parents
        if not resolves or (anchor and found.suffix == ".md" and anchor not in anchors(found)):
            broken.append(target)
    assert not broken


def test_links_of_every_kind_are_seen():
    assert LINK.findall("[a](b.md) ![c](d.png 'title') [e](<f.md>)") == ["b.md", "d.png", "f.md"]


@pytest.mark.parametrize(
    "block", re.findall(r"```toml\n(.*?)```", (DOCS / "how-to/policy.md").read_text("utf-8"), re.DOTALL)
)
def test_policies_in_the_how_to_are_valid(block):
    assert Policy.parse(block) != Policy()
    with pytest.raises(BadPolicy):
        Policy.parse(block + "\n[nonsense]\n")


def test_schema_describes_every_section():
    schema = json.loads((DOCS / "reference" / "policy.schema.json").read_text("utf-8"))
    assert set(schema["properties"]) == set(Policy.model_fields)
