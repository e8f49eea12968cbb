"""The files of a service: they are not built here, so every path, option and rule in them is checked."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
import yaml

from updp.cli import app
from updp.cli.session import common_options_first

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
UNITS = sorted(path.name for path in DEPLOY.glob("*.service"))


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", text))
    return [
        (word.upper(), rest.strip()) for word, _, rest in (line.partition(" ") for line in joined.splitlines()) if word
    ]


def faults(text: str) -> list[str]:
    """What a linter of Dockerfiles would object to, and every source of a COPY that is not in the checkout."""
    found = []
    steps = instructions(text)
    for word, rest in steps:
        if word == "FROM" and (":" not in rest or rest.endswith(":latest")):
            found.append("an image without a version")
        if word == "ADD":
            found.append("ADD where COPY does")
        if word == "COPY":
            found += [f"no such file: {name}" for name in rest.split()[:-1] if not (ROOT / name).exists()]
        if word == "WORKDIR" and not rest.startswith("/"):
            found.append("a relative WORKDIR")
        if word in ("ENTRYPOINT", "CMD", "VOLUME") and not rest.startswith("["):
            found.append(f"{word} as shell text")
        if word == "RUN" and "apt-get install" in rest:
            for needed in ("apt-get update", "--yes", "--no-install-recommends", "rm -rf /var/lib/apt/lists"):
                found += [] if needed in rest else [f"apt-get without {needed}"]
        if word == "RUN" and "pip install" in rest:
            found += [] if "--no-cache-dir" in rest and "-c constraints.txt" in rest else ["pip without versions"]
        if word == "RUN" and re.search(r"\bsudo\b|curl[^|]*\|", rest):
            found.append("sudo, or a script from the network")
    users = [rest for word, rest in steps if word == "USER"]
    if not users or users[-1] in ("root", "0"):
        found.append("runs as root")
    if not steps or steps[0][0] != "FROM":
        found.append("does not begin with FROM")
    return found


def understood(words: list[str]) -> bool:
    """Whether the command line takes these words: every option exists and has a value of its kind."""
    group = typer.main.get_command(app)
    with group.make_context("updp", common_options_first(words), resilient_parsing=False) as outer:
        name, command, rest = group.resolve_command(outer, [*outer._protected_args, *outer.args])  # type: ignore[attr-defined]
        assert command is not None
        command.make_context(name, list(rest), parent=outer)
    return True


def test_the_dockerfile_keeps_the_rules():
    assert faults((DEPLOY / "Dockerfile").read_text()) == []


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("FROM python", "without a version"),
        ("COPY nowhere.txt ./", "no such file"),
        ("RUN pip install updp", "pip without versions"),
        ("RUN apt-get install x", "apt-get without"),
        ("CMD updp --help", "shell text"),
        ("USER root", "runs as root"),
        ("RUN curl x | sh", "script from the network"),
    ],
)
def test_the_check_of_dockerfiles_can_fail(line, fault):
    assert any(fault in found for found in faults((DEPLOY / "Dockerfile").read_text() + f"\n{line}\n"))


def test_the_dockerfile_installs_extras_that_exist():
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.search(r'"\.\[([\w,-]+)\]"', (DEPLOY / "Dockerfile").read_text())
    assert named is not None
    assert set(named[1].split(",")) <= extras.keys()


def test_every_path_volume_and_option_of_the_compose_file_exists():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    docker = (DEPLOY / "Dockerfile").read_text()
    mounted = json.loads(next(rest for word, rest in instructions(docker) if word == "VOLUME"))
    for service in compose["services"].values():
        context = (DEPLOY / service["build"]["context"]).resolve()
        assert (context / service["build"]["dockerfile"]).is_file()
        for volume in service.get("volumes", []):
            name, _, place = volume.partition(":")
            assert name in compose["volumes"]
            assert place in mounted
        for name in service.get("networks", []):
            assert name in compose["networks"]
        places = [word for word in service["command"] if word.startswith("/")]
        assert places
        assert all(place in mounted for place in places)
        assert understood(service["command"])
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_starts_a_command_that_exists_and_writes_only_where_it_may(name):
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string((DEPLOY / name).read_text())
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/updp")
    assert understood(words)
    allowed = unit["Service"]["ReadWritePaths"].split()
    for word in words:
        if word.startswith("/"):
            assert any(word == place or word.startswith(f"{place}/") for place in allowed)
    assert unit["Service"]["User"] == "updp"
    assert unit["Service"]["ProtectSystem"] == "strict"
    assert unit["Install"]["WantedBy"] == "multi-user.target"


def test_an_option_that_does_not_exist_is_found():
    with pytest.raises(Exception, match="No such option: --nonsense"):
        understood(["receive", "--to", "x", "--ae-title", "U", "--nonsense", "1"])
    assert UNITS == ["updp-receive.service", "updp-watch.service"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_reads_the_unit(name, tmp_path):
    # The program and the user are not on this machine: others stand in for them.
    text = re.sub(r"ExecStart=\S+", "ExecStart=/bin/true", (DEPLOY / name).read_text()).replace("User=updp\n", "")
    (tmp_path / name).write_text(text)
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    assert f"{name}:" not in checked.stderr
