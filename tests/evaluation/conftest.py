import pytest

import updp
from tests.conftest import Hospital
from tests.evaluation.fake_probes import Budget
from updp.evaluation import evaluate as module


@pytest.fixture(autouse=True)
def _small(monkeypatch, request):
    """These tests bring their own small probes, hence their own budget and no store of what was learned."""
    if request.node.path.name == "test_probes.py":
        return
    monkeypatch.setattr(module, "budget_of", lambda quick: Budget(10 if quick else 100))
    monkeypatch.setattr(module, "learned_in", lambda folder: None)


@pytest.fixture
def made(tmp_path, key, policy):
    """A release of twenty invented patients, with its source."""
    hospital = Hospital(tmp_path / "export", films=40)
    for n, row in enumerate(hospital.rows):
        row |= {"age": str(30 + n % 40), "sex": "FM"[n // 2 % 2]}
    hospital.write()
    outcome = updp.deidentify(hospital.root, tmp_path / "out", policy=policy, key=key, workers=1)
    return hospital, outcome


@pytest.fixture(scope="session", autouse=True)
def _judges_of_the_pack():
    """The ImageNet network costs more than all of a small pack; one test of its own is about it."""
    with pytest.MonkeyPatch.context() as patch:
        for user in ("diagnosis", "fidelity"):
            patch.setattr(f"updp.evaluation.probes.utility.{user}.has_imagenet", lambda: False)
        yield
