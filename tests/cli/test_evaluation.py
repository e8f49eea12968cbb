"""`updp evaluate`, `tune` and `bench`: exit codes, one sentence for wrong use, no patient data on the console."""

import base64
import stat

import pytest

from tests.cli.in_process import updp_in_process as updp
from tests.conftest import CANARIES
from tests.evaluation.fake_probes import Broken, Budget, PixelLinkage, passing


@pytest.fixture(autouse=True)
def asked(monkeypatch):
    """Small probes instead of the real ones; gives the list of those that are run."""
    probes = passing()
    monkeypatch.setattr("updp.evaluation.probes.probes", lambda names=None, quick=False: probes)
    monkeypatch.setattr("updp.evaluation.evaluate.budget_of", lambda quick: Budget())
    monkeypatch.setattr("updp.evaluation.evaluate.learned_in", lambda folder: None)
    return probes


@pytest.fixture
def placed(made, tmp_path):
    made_key = tmp_path / "key"
    made_key.write_text("updp-key-1:" + base64.b64encode(bytes(range(32))).decode() + "\n")
    made_key.chmod(stat.S_IRUSR | stat.S_IWUSR)
    hospital, outcome = made
    return outcome.folder, ("--source", hospital.root, "--key", made_key)


def silent(done):
    assert not any(word in done.stdout + done.stderr for word in CANARIES)
    assert "Traceback" not in done.stderr


def test_a_release_that_holds_exits_with_0_and_says_where_the_report_is(placed):
    release, options = placed
    done = updp("evaluate", release, *options)
    assert done.returncode == 0, done.stderr
    assert "passed" in done.stdout
    assert "report.html" in done.stdout
    silent(done)


def test_a_release_that_fails_exits_with_3(placed, asked):
    release, options = placed
    asked[:] = [PixelLinkage(), *asked[1:], Broken()]
    done = updp("evaluate", release, *options)
    assert done.returncode == 3, done.stderr
    assert "blocked" in done.stdout
    assert (release.parent / "blocked").is_dir()
    silent(done)


def test_wrong_use_exits_with_2_and_one_sentence(placed, tmp_path):
    release, options = placed
    other = updp("evaluate", release, "--source", tmp_path / "nowhere", "--key", options[3])
    assert other.returncode == 2
    assert "no such folder" in other.stderr
    (release / "README.md").write_text("safe!")
    edited = updp("evaluate", release, *options)
    assert edited.returncode == 2
    assert "edited after signing" in edited.stderr
    assert len(edited.stderr.strip().splitlines()) == 1
    none = updp("evaluate", tmp_path, *options)
    assert none.returncode == 2
    assert "not a release" in none.stderr
    for done in (other, edited, none):
        silent(done)


@pytest.mark.parametrize("text", ["a", "2"])
def test_strengths_that_are_none_are_wrong_use(placed, text):
    release, _ = placed
    done = updp("tune", release, "--strength", text)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--method", "keep", "--method", "blur", "--option", "max_sigma=0.1"), "--option belongs to one --method"),
        (("--method", "blur", "--option", "wide"), "'wide' is not in the form key=value"),
        (("--method", "keep", "--plan", "plan.toml"), "--plan names methods and options itself"),
        (("--plan", "absent.toml"), "absent.toml: no such file"),
        (("--method", "blur", "--option", "max_sigm=0.1"), "did you mean 'max_sigma'?"),
    ],
)
def test_a_bench_of_methods_says_what_is_wrong_with_its_arguments(placed, arguments, words):
    release, _ = placed
    done = updp("bench", "methods", "--data", release, *arguments)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
