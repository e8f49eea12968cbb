"""The documentation is up to date with the code, and its links lead somewhere."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest
import yaml

from docs import import_graph
from updp.core.policy import BadPolicy, Policy

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?[^)]*\)")


def generator(name="generate"):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made_for_the_site():
    """The pages that exist only in the built site: path within docs/ to content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "import_graph", import_graph)
        return generator("site_hooks").generated()


@pytest.mark.parametrize("name", ["reference/policy.md", "reference/policy.schema.json", "reference/command-line.md",
                                  "reference/reason-codes.md", "../README.md", "results.md",
                                  "results-updp.md", "results-faces.md"])  # fmt: skip
def test_generated_pages_are_up_to_date(name):
    made = generator().pages()
    assert (DOCS / name).read_text("utf-8") == made[name], "run: python docs/generate.py"


@pytest.fixture
def regenerate(monkeypatch):
    spec = importlib.util.spec_from_file_location("regenerate", ROOT / "performance" / "regenerate.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "regenerate", module)
    spec.loader.exec_module(module)
    return module


def test_tables_of_the_results_are_copied_and_nothing_of_the_machine_is_in_them(tmp_path, monkeypatch, regenerate):
    from tests.bench.test_evidence import ABOUT, rows

    made = generator()
    monkeypatch.setattr(made, "DOCS", tmp_path)
    monkeypatch.setattr(regenerate, "DOCS", tmp_path)
    monkeypatch.setattr(regenerate, "install_certificates", lambda out: None)
    monkeypatch.setattr(regenerate.subprocess, "run", lambda *args, **more: None)
    assert "not been made" in made.table_of("evidence")
    out = tmp_path / "home" / "work"
    known = list(regenerate.steps(Path("/home/films"), Path("/home/reports"), out, regenerate.PACK))
    (out / "evidence").mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    (out / "evidence" / "methods.json").write_text(
        json.dumps({"about": ABOUT, "rows": [row.to_json() for row in rows()]})
    )
    (out / "evidence" / "frontier.svg").write_text("<svg/>")
    (out / "evidence.txt").write_text("tables")
    (out / "prompts.txt").write_text("$ command\na warning\n| mode | hits |\n|---|---|\n| ldp | 0 |\n\nreal\n")
    regenerate.install(known, out, {str(out): "WORK", "/home/films": "FILMS", "/home/reports": "REPORTS"})
    text = made.table_of("evidence")
    assert "| donor | 0.50 [0.48, 0.52] |" in text
    assert "| 2 | 4 (10%) |" in text
    assert text.startswith("`updp bench methods --data FILMS --quick --tables evidence,identity,privdiff --plan docs")
    assert made.table_of("prompts").endswith("`\n\n| mode | hits |\n|---|---|\n| ldp | 0 |\n\n")
    assert (tmp_path / "pictures" / "privacy-utility.svg").is_file()
    written = "".join(path.read_text() for path in (tmp_path / "figures").iterdir())
    assert "/home" not in text + written
    assert str(tmp_path) not in written


def written_figures():
    """Figures as each bench leaves them, one row of each."""
    from dataclasses import asdict

    from tests.bench.test_evidence import ABOUT, rows
    from updp.bench import ablation, epsilon, frontier, generated, identity, privdiff, rate
    from updp.bench.evidence import Row
    from updp.evaluation.cohort.settings import Setting
    from updp.evaluation.intervals import Interval

    value = Interval(0.111, 0.1, 0.12)
    about = {"pack": {"name": "tiny", "role": "vlm", "sha256": "0" * 64}, "films": 4, "patients": 3, "seed": 0}
    methods = {"about": ABOUT, "rows": [row.to_json() for row in rows()]}
    named = [Row(Setting("keep"), (), 0.1, 0, 4).to_json()] * len(identity.PLANS)
    swept = Row(Setting("blur", (), 0.5), (), 0.1, 0, 4).to_json()
    return {
        "ablation": {
            "about": about,
            "rows": [asdict(ablation.Row("length", "8", 0.11, 0.1, 0.12, None, 0.01, 4))],
            "gains": [asdict(ablation.Gain("random", value, None))],
        },
        "generated": {
            "about": about,
            "rows": [asdict(generated.Row(generated.STARTING, "raw report", value, None, value, None, 4))],
        },
        "epsilon": {"about": about, "rows": [asdict(epsilon.Row("words 4", 1.0, 0.0, 0.25, value, None, value, 4))]},
        "rate": {"about": about, "rows": [asdict(rate.Row(4, value, value, value, 4))]},
        "privdiff-path": {
            "about": about,
            "rows": [asdict(privdiff.Row(0.5, "both", value, None, 0.1, 4))],
            "sizes": [asdict(privdiff.Size(0.5, 0.1, 0.1, 0.1, 1.0))],
        },
        "identity": {
            "about": {"pack": about["pack"], "seed": 0, "quick": True},
            "groups": [{"group": "other patients", "patients": 3, "films": 11, "rows": named}],
        },
        "frontier": {
            **about,
            "quick": True,
            "rows": [swept],
            "hypervolume": [asdict(frontier.Volume("blur", value, 1))],
        },
        **dict.fromkeys(("evidence", "composed", "reports", "searches", "privdiff", "drafts"), methods),
    }


def test_figures_of_every_kind_become_tables_with_the_pictures_that_are_installed(tmp_path, monkeypatch, regenerate):
    made = generator()
    monkeypatch.setattr(made, "DOCS", tmp_path)
    (tmp_path / "figures").mkdir()
    found = written_figures()
    assert set(found) == set(made._TABLES)
    known = {step.name: step for step in regenerate.steps(Path("films"), Path("reports"), Path("out"), regenerate.PACK)}
    for name, facts in found.items():
        (tmp_path / "figures" / f"{name}.json").write_text(json.dumps({"command": f"updp bench {name}", **facts}))
        text = made.table_of(name)
        assert text.startswith(f"`updp bench {name}`\n\n")
        assert "|---|" in text.replace(" ", "")
        assert {f"pictures/{picture}" for picture in known[name].pictures.values()} == set(LINK.findall(text)), name
        if name in ("ablation", "epsilon", "rate", "frontier", "privdiff-path"):
            assert "0.11" in text


def test_every_step_has_a_place_on_a_page_and_every_place_a_step(regenerate):
    known = list(regenerate.steps(Path("films"), Path("reports"), Path("out"), regenerate.PACK))
    shown = {s.name for s in known if s.stage != regenerate.FIRST and not s.name.startswith("certificate-")}
    places = re.findall(
        r"^<!-- end of ([\w-]+) -->$",
        (DOCS / "results.md").read_text("utf-8") + (DOCS / "results-updp.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert sorted(places) == sorted([*shown, "certificate"])
    assert set(generator()._TABLES) == {s.name for s in known if s.figures}


def test_steps_resume_and_a_failure_stops_what_needs_it_alone(regenerate, tmp_path):
    def step(name, code, **more):
        return regenerate.Step(name, "", [sys.executable, "-c", code], **more)

    counted = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    known = [
        step("first", "raise SystemExit(1)", stage=regenerate.FIRST),
        step("dependent", counted, needs=["first"]),
        step("free", counted, parts=[[sys.executable, "-c", counted]] * 2),
    ]
    assert [s.name for s in regenerate.chosen_of(known, ["dependent"])] == ["first", "dependent"]
    assert not regenerate.run(known, tmp_path, jobs=2)
    assert not (tmp_path / "dependent.txt").exists()
    assert not (tmp_path / "first.txt").exists()
    assert (tmp_path / "free.txt").exists()
    ran = len((tmp_path / "count").read_text())
    assert regenerate.run(known[2:], tmp_path, jobs=2)
    assert len((tmp_path / "count").read_text()) == ran
    # Other models: what was made with those of before is made anew.
    assert regenerate.run(known[2:], tmp_path, jobs=2, mark=lambda step: "other")
    assert len((tmp_path / "count").read_text()) > ran


def anchors(page):
    heads = re.findall(r"^#+\s+(.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_resolve(page, made_for_the_site):
    built = {DOCS / name for name in made_for_the_site}
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        resolves = (found.exists() and ROOT in found.parents) or found in built
        if not resolves or (anchor and found not in built and found.suffix == ".md" and anchor not in anchors(found)):
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


def nav_pages(nav):
    for entry in nav:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from nav_pages([value] if isinstance(value, str) else value)


def test_every_page_is_in_the_navigation_of_the_site_and_every_entry_is_a_page(made_for_the_site):
    listed = list(nav_pages(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]))
    notebooks = {path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.rglob("*.ipynb")}
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    written -= {path.relative_to(DOCS).as_posix() for path in DOCS.glob("how-to/add-a*.md")}  # added by the hooks
    made = {name for name in made_for_the_site if name.endswith(".md") and "/api/" not in name}
    assert sorted(listed) == sorted(notebooks | written | made)


def test_the_site_uses_nothing_from_the_network():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    assert settings["theme"]["font"] is False
    assert "://" not in (ROOT / "mkdocs.yml").read_text("utf-8")


def test_the_import_graph_shows_every_part_and_the_page_of_parts_says_what_each_is_for(made_for_the_site):
    made = made_for_the_site
    for part in import_graph.ORDER:
        assert f">{part}</text>" in made["pictures/import-graph.svg"]
        assert re.search(rf"^\| `{part}` \| \w.+ \|", made["reference/parts.md"], re.MULTILINE)


@pytest.mark.parametrize("notebook", sorted(DOCS.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(notebook, tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    assert not any(cell.get("outputs") for cell in cells), "clear the output before committing"
    names = {"__name__": "__main__"}
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        for cell in cells:
            if cell["cell_type"] == "code":
                exec("".join(cell["source"]), names)
    assert names["outcome"].released > 0


def test_every_file_of_the_table_from_idea_to_file_exists():
    page = (DOCS / "explanation" / "architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| .+? \| (`.+) \|$", page, re.MULTILINE)
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > 50
    assert [name for name in named if not (ROOT / "src" / "updp" / name).exists()] == []


def test_help_on_the_package_shows_every_public_name():
    import pydoc

    import updp

    shown = pydoc.plain(pydoc.render_doc(updp))
    for name in set(updp.__all__) - {"__version__"}:
        assert re.search(rf"^    (class )?{name}\(", shown, re.MULTILINE), name
        assert getattr(updp, name).__doc__


def test_the_citation_and_the_change_log_name_this_version():
    from updp import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == __version__
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)
    assert f"\n## {__version__}\n" in (ROOT / "CHANGELOG.md").read_text("utf-8")
