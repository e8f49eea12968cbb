"""No call changes the caller's process, and no result depends on what the process did before."""

from __future__ import annotations

import csv
import locale
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import warnings

import accelerate  # noqa: F401 - adds a filter when first imported
import numpy as np
import pydicom.config
import pytest
import sklearn.linear_model  # noqa: F401 - sets variables and filters when first imported
import torch
import torch._dynamo  # optimisers import it when first made; it sets a variable and a filter
from PIL import Image, TiffImagePlugin
from threadpoolctl import threadpool_info

import updp
from tests.conftest import PLAIN, Hospital, draw, same_tree
from tests.evaluation.fake_probes import Budget, PixelLinkage, passing
from tests.evaluation.probes.attacks import hospital
from tests.methods.tiny import tiny_pack
from tests.training.miniature import SIZE, TINY, studies
from updp.core.global_state import QUOTING, limited, quiet, seeded
from updp.core.policy import Policy
from updp.core.record import Report, Study
from updp.evaluation import evaluate as evaluation
from updp.evaluation.evaluate import run_probes
from updp.evaluation.probes import PROBES, probes
from updp.evaluation.tune import tune
from updp.methods import make_method
from updp.pipeline.run import deidentify

LOGGERS = ("", "PIL", TiffImagePlugin.__name__, "pydicom", "faker", "RapidOCR", "py.warnings", "matplotlib")

ATTACKS = [name for name in PROBES if ".attacks." in PROBES.module_of(name) and not PROBES[name].domains]


def state() -> dict[str, object]:
    """What other code of the process would notice."""
    import matplotlib

    loggers = {name: logging.getLogger(name) for name in LOGGERS}
    return {
        "loggers": {name: (one.level, one.disabled, len(one.handlers)) for name, one in loggers.items()},
        "warnings": list(warnings.filters),
        "torch threads": torch.get_num_threads(),
        "thread pools": sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info()),
        "torch random": torch.get_rng_state().numpy().tobytes(),
        "numpy random": str(np.random.get_state()),
        "random": random.getstate(),
        "gradients": (torch.is_grad_enabled(), torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()),
        "pixels": Image.MAX_IMAGE_PIXELS,
        "backend": matplotlib.get_backend(auto_select=False),
        "dicom": (pydicom.config.settings.reading_validation_mode, pydicom.config.settings.writing_validation_mode),
        "errors": np.geterr(),
        "environment": {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"},
        "folder": os.getcwd(),
        "locale": locale.setlocale(locale.LC_ALL),
        "signals": [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)],
        "recursion": sys.getrecursionlimit(),
        "csv": csv.field_size_limit(),
        "path": list(sys.path),
    }


@pytest.fixture
def callers(monkeypatch):
    """A caller with settings of its own; gives a function that says what has changed since."""
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    threads = torch.get_num_threads()
    for name in LOGGERS[1:]:
        logging.getLogger(name).setLevel(logging.DEBUG)
    torch.set_num_threads(2)
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("always", category=FutureWarning)
        torch.manual_seed(11)
        before = state()

        def changed() -> list[str]:
            now = state()
            # A library that is loaded later brings its own pool along; the caller's are as they were.
            now["thread pools"] = [pool for pool in now["thread pools"] if pool[0] in dict(before["thread pools"])]
            return [name for name in before if before[name] != now[name]]

        yield changed
    torch.set_num_threads(threads)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    return str(tiny_pack(tmp_path_factory.mktemp("packs") / "tiny"))


def batch(count=2):
    return [
        Study(f"f{n}", f"s{n}", f"p{n}", pixels=draw(n, 256).astype(np.float32) / 255, view="PA", labels=("Effusion",),
              report=Report({"findings": "Small left effusion."}))
        for n in range(count)
    ]  # fmt: skip


def make(pack, name="updp", **options):
    options = {"pack": pack} | ({"steps": 2, "sampler_steps": 2, "length": 4} if name == "updp" else {}) | options
    return make_method(name, options)


def streams(count=2):
    return [np.random.default_rng(n) for n in range(count)]


def test_importing_everything_changes_nothing():
    code = """
import csv, logging, pkgutil, importlib
import numpy, torch, PIL.Image, pydicom, matplotlib
logging.getLogger("PIL").setLevel(logging.DEBUG)
torch.set_num_threads(2)
def state():
    names = ("", "PIL", "pydicom", "updp")
    return ([(logging.getLogger(n).level, logging.getLogger(n).disabled, logging.getLogger(n).handlers) for n in names],
            torch.get_num_threads(), torch.get_rng_state().tolist(),
            PIL.Image.MAX_IMAGE_PIXELS, str(numpy.random.get_state()), matplotlib.get_backend(auto_select=False),
            csv.field_size_limit())
before = state()
import accelerate  # noqa: F401 - adds a filter when first imported
import updp
for found in pkgutil.walk_packages(updp.__path__, "updp."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
after = state()
print([(a, b) for a, b in zip(before, after) if a != b])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("workers", [1, 2])
def test_deidentify_verify_and_scan_leave_the_caller_as_it_was(tmp_path, key, callers, workers):
    hospital = Hospital(tmp_path / "export", films=6)
    source = (hospital if workers == 1 else hospital.without_reports()).write()
    out = deidentify(source, tmp_path / "out", key=key, policy=Policy.parse(PLAIN), workers=workers)
    updp.verify(out.folder)
    updp.scan("Seen by Dr. Smith on 3/4/2019.")
    assert callers() == []


def test_a_method_on_a_pack_leaves_the_caller_as_it_was(pack, callers):
    method = make(pack)
    assert method.pack.info["name"] == "tiny"
    assert callers() == []
    method.deidentify(batch(), 0.5, streams())
    assert callers() == []


def test_evaluate_and_tune_leave_the_caller_as_it_was(tmp_path, key, callers, monkeypatch):
    monkeypatch.setattr(evaluation, "budget_of", lambda quick: Budget())
    monkeypatch.setattr(evaluation, "learned_in", lambda folder: None)
    source = Hospital(tmp_path / "export", films=40).write()
    out = deidentify(source, tmp_path / "out", key=key, policy=Policy.parse(PLAIN), workers=1)
    updp.evaluate(out.folder, source, key=key, probes=[PixelLinkage(), *passing()[1:]])
    assert callers() == []
    tune(source, out=tmp_path / "t", method="blur", strengths=[1.0], films=40, probes=passing, say=lambda text: None)
    assert callers() == []


def test_attacks_leave_the_caller_as_it_was(tmp_path, callers):
    shown = hospital.exhibit(patients=28)
    found = run_probes(shown, hospital.simple_pack(tmp_path), hospital.SMALL, 0, probes=probes(ATTACKS))
    assert not any(m.detail.get("failed") for m in found)
    assert callers() == []


def test_training_leaves_the_caller_as_it_was(tmp_path, callers):
    from updp.training.corpus import prepare_corpus
    from updp.training.recipe import train_pack

    with limited(1):  # films this small are slower on two threads
        train_pack(prepare_corpus(studies(), tmp_path / "corpus", SIZE), tmp_path / "pack", TINY, say=lambda line: None)
    # What it imports for the first time sets variables and filters of its own.
    assert set(callers()) <= {"environment", "warnings"}


def test_an_error_gives_everything_back_too(callers):
    for inside in (quiet(), limited(1), seeded(3)):
        with pytest.raises(ZeroDivisionError), inside:
            raise ZeroDivisionError
    assert callers() == []


def test_readers_are_quiet_until_the_last_of_several_threads_is_done(callers, caplog):
    caplog.set_level(logging.DEBUG)
    entered, leave = threading.Event(), threading.Event()

    def read():
        with quiet():
            entered.set()
            leave.wait(30)

    first = threading.Thread(target=read)
    with quiet():
        first.start()
        entered.wait(30)
    for name in (*QUOTING, TiffImagePlugin.__name__):
        logging.getLogger(name).error("Quibblesworth")
    with warnings.catch_warnings(record=True) as seen:
        warnings.warn("Quibblesworth", FutureWarning, stacklevel=1)
    assert (caplog.text, seen) == ("", [])
    leave.set()
    first.join()
    logging.getLogger("pydicom").error("heard again")
    assert "heard again" in caplog.text
    caplog.set_level(logging.NOTSET)


@pytest.mark.numeric
@pytest.mark.parametrize("workers", [1, 2])
def test_a_release_is_the_same_whatever_the_process_did_before(tmp_path, key, pack, workers):
    source = Hospital(tmp_path / "export", films=3).write()
    options = f'{{pack = "{pack}", steps = 2, sampler_steps = 2, length = 4, check = false}}'
    policy = Policy.parse(PLAIN.replace("'keep'", f"'updp'\noptions = {options}"))
    threads, outs = torch.get_num_threads(), []
    for before, count in enumerate((1, 2)):
        with torch.random.fork_rng(devices=[]):
            torch.set_num_threads(count)
            torch.manual_seed(before)
            torch.randn(before)
            outs.append(tmp_path / f"out{before}")
            deidentify(source, outs[-1], key=key, policy=policy, workers=workers if before else 1)
    torch.set_num_threads(threads)
    assert same_tree(*(out / "unmeasured" for out in outs))


@pytest.mark.numeric
def test_a_method_gives_the_same_film_on_any_number_of_threads(pack):
    threads, made = torch.get_num_threads(), []
    for count in (1, 2):
        torch.set_num_threads(count)
        made.append(make(pack).deidentify(batch(), 0.5, streams())[0].pixels)
    torch.set_num_threads(threads)
    assert np.array_equal(*made)


def test_figures_do_not_depend_on_what_was_drawn_before(tmp_path):
    shown, found = hospital.noise(hospital.exhibit(patients=28)), []
    for before in range(2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(before)
            np.random.seed(before)
            pack = hospital.simple_pack(tmp_path)
            measured = run_probes(shown, pack, hospital.SMALL, 0, probes=probes(ATTACKS))
            found.append(hospital.figures(measured))
    assert found[0] == found[1]
    assert len(found[0]) > 20


def test_a_pin_names_what_a_process_under_it_computes_with():
    from updp.core.global_state import instruction_set

    pinned = instruction_set(torch=False, pin="avx2")
    assert pinned.keys() == instruction_set(torch=False).keys()
    assert "512" not in pinned["numpy"]
    with pytest.raises(ValueError, match="there are: avx2"):
        instruction_set(pin="avx3")
