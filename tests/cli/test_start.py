"""`updp init`, `updp plan` and a run that is stopped, on the command line."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unicodedata
from pathlib import Path

import pytest

from tests.cli.in_process import updp_in_process as updp
from tests.conftest import CANARIES, PLAIN, Hospital
from tests.sources.exports import CANARY, write_film
from tests.sources.test_mapping import table


def test_init_shows_columns_and_writes_what_deidentify_reads(tmp_path):
    export = tmp_path / "export"
    write_film(export / "films" / "a.png")
    table(export / "list.csv", "Patient;Nachname;Pfad;Befund", f"p1;{CANARY};films\\a.png;Lungs are clear.")
    assert updp("sources").returncode == 0
    made = updp("init", export)
    assert made.returncode == 0, made.stderr
    assert "patient_name" in made.stdout
    assert CANARY not in made.stdout
    again = updp("init", export)
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert updp("init", export, "--force").returncode == 0


def test_init_that_does_not_find_the_patients_says_so_and_exits_with_2(tmp_path):
    table(tmp_path / "list.csv", "a,b", "1,2")
    made = updp("init", tmp_path)
    assert made.returncode == 2
    assert "Not found: patient_id, image" in made.stdout
    assert "Traceback" not in made.stderr


def test_plan_and_dry_run_say_the_same_and_write_nothing(hospital, tmp_path):
    (tmp_path / "policy.toml").write_text(PLAIN)
    export = hospital.write()
    planned = updp("plan", export, "--policy", tmp_path / "policy.toml", "--json")
    assert planned.returncode == 0, planned.stderr
    tried = updp("deidentify", export, tmp_path / "out", "--policy", tmp_path / "policy.toml", "--dry-run", "--json")
    assert tried.returncode == 0, tried.stderr
    one, other = json.loads(planned.stdout), json.loads(tried.stdout)
    same = ("films", "patients", "splits", "labels", "reports", "refused", "answers")
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert "10" in planned.stderr
    assert not (tmp_path / "out").exists()
    assert not any(word in planned.stderr + planned.stdout for word in CANARIES)


@pytest.mark.posix
def test_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(tmp_path):
    (tmp_path / "policy.toml").write_text(PLAIN)
    export = Hospital(tmp_path / "export", films=60).without_reports().write()
    assert updp("key", "new", tmp_path / "key").returncode == 0
    command = ("deidentify", export, tmp_path / "out", "--policy", tmp_path / "policy.toml", "--key", tmp_path / "key",
               "--workers", "2", "--json")  # fmt: skip
    running = subprocess.Popen([sys.executable, "-m", "updp.cli", *map(str, command)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    landed = tmp_path / "out" / ".work" / "shards"
    while running.poll() is None and not (landed.is_dir() and any(landed.glob("*.json"))):
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to every process of the command
    out, err = running.communicate()
    if running.returncode == 0:
        pytest.skip("the run was done before it could be stopped")
    assert running.returncode == 130
    told = json.loads(out)
    assert 0 < told["landed"] <= told["films"] == 60
    assert f"{told['landed']} of 60 films are done and kept" in " ".join(err.split())
    assert "Traceback" not in err
    again = updp(*command)
    assert again.returncode == 0
    assert json.loads(again.stdout)["released"] == 60


@pytest.mark.posix
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_completion_is_installed_and_completes_commands(tmp_path):
    script = Path(sys.executable).parent / "updp"
    here = {**os.environ, "HOME": str(tmp_path), "PATH": f"{script.parent}:{os.environ['PATH']}"}
    bash = lambda words: subprocess.run(["bash", "-c", words], capture_output=True, text=True, env=here)  # noqa: E731
    made = bash("updp --install-completion; exit $?")  # two commands: bash stays the parent, whose shell is asked for
    assert made.returncode == 0, made.stderr
    assert "updp.sh" in (tmp_path / ".bashrc").read_text()
    typed = "COMP_WORDS=(updp revi); COMP_CWORD=1; _updp_completion updp; echo ${COMPREPLY[*]}"
    assert bash(f". {tmp_path}/.bashrc; {typed}").stdout.split() == ["review"]


def test_no_column_of_a_source_gives_orders_to_the_terminal(tmp_path):
    export = tmp_path / "export"
    (export / "films").mkdir(parents=True)
    orders = "\x1b]0;title\x07\x1b[2J\x9b31m\u202e[red]"
    (export / "films.csv").write_text(f'image,patient_id,"note{orders}"\nfilms/1.png,p1,"{orders}"\n', "utf-8")
    made = updp("init", export)
    assert "note" in made.stdout
    assert not [c for c in made.stdout + made.stderr if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"]
    assert "[red]" in made.stdout
