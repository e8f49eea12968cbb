import copy
import shutil

import pytest

import updp
from tests.conftest import PLAIN, Hospital
from tests.evaluation.fake_probes import Budget
from tests.evaluation.probes.utility import small
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.evaluation import evaluate as module
from updp.release.assemble import finished


@pytest.fixture(autouse=True)
def _small(monkeypatch, request):
    """These tests bring their own small probes, hence their own budget and no store of what was learned."""
    if request.node.path.name == "test_probes.py":
        return
    monkeypatch.setattr(module, "budget_of", lambda quick: Budget(10 if quick else 100))
    monkeypatch.setattr(module, "learned_in", lambda folder: None)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("made")
    hospital = Hospital(root / "export", films=40)
    for n, row in enumerate(hospital.rows):
        row |= {"age": str(30 + n % 40), "sex": "FM"[n // 2 % 2]}
    hospital.write()
    updp.deidentify(hospital.root, root / "out", policy=Policy.parse(PLAIN), key=Key(bytes(range(32))), workers=1)
    return hospital


@pytest.fixture
def made(tmp_path, made_once):
    """A release of twenty invented patients, with its source: a copy that a test may damage."""
    shutil.copytree(made_once.root.parent, tmp_path, dirs_exist_ok=True)
    hospital = copy.deepcopy(made_once)
    hospital.root = tmp_path / "export"
    return hospital, finished(tmp_path / "out")


@pytest.fixture(scope="session")
def utility_pack(tmp_path_factory):
    """The pack of untrained networks that experiments of utility look through."""
    return small.pack(tmp_path_factory.mktemp("utility-pack"))


@pytest.fixture(scope="session", autouse=True)
def _judges_of_the_pack():
    """The ImageNet network costs more than all of a small pack; one test of its own is about it."""
    with pytest.MonkeyPatch.context() as patch:
        for user in ("diagnosis", "fidelity"):
            patch.setattr(f"updp.evaluation.probes.utility.{user}.has_imagenet", lambda: False)
        yield
