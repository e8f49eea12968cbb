"""The how-to pages for extensions: their code is installed as another package would be, and used."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import updp
from tests.conftest import PLAIN, draw, reasons
from updp.core.policy import Policy
from updp.core.registry import Registry
from updp.domains import DOMAINS
from updp.evaluation.probes import PROBES
from updp.methods import METHODS
from updp.sources import LAYOUTS, recognise

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
REGISTRIES: dict[str, Registry] = {registry.group: registry for registry in (METHODS, PROBES, LAYOUTS, DOMAINS)}


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put the code of a page on the path with the entry point it declares, as pip would."""
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(place)
    loaded = []

    def put(page: str) -> None:
        text = (PAGES / page).read_text("utf-8")
        code = re.search(r"```python\n# (\w+)\.py\n(.*?)```", text, re.DOTALL)
        project = tomllib.loads(re.search(r"```toml\n(.*?)```", text, re.DOTALL)[1])["project"]
        points = project["entry-points"]
        (place / f"{code[1]}.py").write_text(code[2])
        loaded.append(code[1])
        info = place / f"{code[1]}-1.0.dist-info"
        info.mkdir()
        # Without name and version no project is installed.
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        lines = [f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in own.items()) for group, own in points.items()]
        (info / "entry_points.txt").write_text("\n".join(lines))
        for group in points:
            monkeypatch.setattr(REGISTRIES[group], "_plugins", None)

    yield put
    for name in loaded:
        sys.modules.pop(name, None)


def test_a_method_is_added_as_the_guide_says(install, hospital, tmp_path, key):
    install("add-a-method.md")
    policy = Policy.parse(PLAIN.replace("'keep'", "'mirror'\nstrength = 1.0"))
    made = updp.deidentify(hospital.write(), tmp_path / "out", key=key, policy=policy, workers=1)
    assert made.released == len(hospital.rows)
    kept = updp.deidentify(hospital.root, tmp_path / "kept", key=key, policy=Policy.parse(PLAIN), workers=1)
    for path in sorted((made.folder / "images").rglob("*.png")):
        film, plain = (np.asarray(Image.open(f / path.relative_to(made.folder))) for f in (made.folder, kept.folder))
        assert np.array_equal(film, plain[:, ::-1])


def test_an_attacker_is_added_as_the_guide_says(install):
    from tests.evaluation.probes.attacks import hospital
    from updp.evaluation.evaluate import run_probes
    from updp.evaluation.probes import probes

    install("add-an-attacker.md")
    assert [probe.name for probe in probes()][-1] == "brightness"
    found = run_probes(hospital.exhibit(), None, hospital.SMALL, 0, probes=probes(["brightness"]))
    assert [(m.metric, m.question, m.detail["probe"]) for m in found] == [("brightness AUC", "film", "brightness")]
    assert found[0].measured


def test_a_source_is_added_as_the_guide_says(install, tmp_path, key, policy):
    install("add-a-source.md")
    for n in range(4):
        folder = tmp_path / "export" / "patients" / f"p{n // 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw(n)).save(folder / f"{n}.png")
    assert recognise(tmp_path / "export") == ["folders"]
    assert updp.deidentify(tmp_path / "export", tmp_path / "out", key=key, policy=policy, workers=1).released == 4


def test_a_domain_is_added_as_the_guide_says(install, tmp_path, key):
    install("add-a-domain.md")
    export = tmp_path / "export"
    export.mkdir()
    rows = ["patient_id,image,labels"]
    for n in range(6):
        shape = (40, 200, 3) if n == 5 else (90, 100, 3)
        Image.fromarray(np.random.default_rng(n).integers(0, 255, shape, dtype=np.uint8)).save(export / f"{n}.png")
        rows.append(f"p{n},{n}.png,{'mel' if n % 2 else 'healthy'}")
    (export / "manifest.csv").write_text("\n".join(rows) + "\n")
    text = (
        PLAIN.replace("shard_size", "attributes = ['labels']\nshard_size")
        + "min_side = 16\n[source]\ndomain = 'skin'\n[gate]\nmax_quarantined = 0.2\n"
    )
    made = updp.deidentify(export, tmp_path / "out", key=key, policy=Policy.parse(text), workers=1)
    assert made.released == 5
    assert reasons(tmp_path / "out") == {"not-of-this-domain": 1}
    labels = {study.labels for study in updp.open_source(made.folder)}
    assert labels == {("melanoma",), ()}
    assert updp.verify(made.folder, accept_unknown_signer=True).intact
