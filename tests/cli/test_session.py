"""What a command tells machines: JSON, a log, exit codes."""

import json
import logging
from pathlib import Path

import pytest

from tests.cli.in_process import updp_in_process as updp
from tests.cli.test_cli import deidentify, place, updp_of_its_own  # noqa: F401 - a fixture
from tests.conftest import CANARIES, draw
from tests.screening.objects import film, stored
from updp.cli.session import Session, add_result, begin, common_options_first, finish, open_log


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["verify", "x", "--json"], ["--json", "verify", "x"]),
        (["a", "--log", "f", "b"], ["--log", "f", "a", "b"]),
        (["a", "--log=f"], ["--log=f", "a"]),
        (["a", "--", "--json"], ["a", "--", "--json"]),
        (["a", "--log"], ["--log", "a"]),
    ],
)
def test_options_of_every_command_may_stand_anywhere(given, expected):
    assert common_options_first(given) == expected


def test_the_outcome_is_one_json_object(capsys):
    begin(Session("x", as_json=True))
    add_result(a=1)
    finish(Session("x", as_json=True, facts={"a": 1}), 3)
    assert json.loads(capsys.readouterr().out) == {"command": "x", "exit": 3, "a": 1}


def test_the_version_is_printed():
    import updp as package

    done = updp("--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"updp {package.__version__}")


@pytest.mark.posix
def test_a_run_tells_machines_what_people_read_and_logs_reason_codes(place, hospital):  # noqa: F811
    (hospital.root / hospital.rows[0]["image"]).write_bytes(b"")
    done = deidentify(place, "--json", "--strict", "--log", place / "run.log")
    outcome = json.loads(done.stdout)
    assert done.returncode == outcome["exit"] == 4
    assert outcome["command"] == "deidentify"
    assert (outcome["released"], outcome["quarantined"]) == (9, {"image-empty": 1})
    assert "9 films written" in done.stderr
    events = [json.loads(line) for line in (place / "run.log").read_text().splitlines()]
    assert [events[0]["event"], events[-1]["event"]] == ["start", "end"]
    assert [e["reason"] for e in events if e["event"] == "kept back"] == ["image-empty"]
    assert any(e["event"] == "progress" and e["films"] == 10 for e in events)
    assert events[-1]["exit"] == 4
    assert not any(word in (place / "run.log").read_text() for word in CANARIES)
    assert (place / "run.log").stat().st_mode & 0o777 == 0o600


def command_names():
    import typer

    from updp.cli.app import app

    def walk(command, names):
        inner = getattr(command, "commands", None)
        if inner is None:
            yield names
            return
        for name, one in inner.items():
            yield from walk(one, [*names, name])

    return list(walk(typer.main.get_command(app), []))


@pytest.fixture(scope="module")
def failures():
    """Every command on an option that does not exist."""
    return [(names, updp(*names, "--json", "--no-such-option")) for names in command_names()]


def test_every_command_answers_in_json_and_exits_with_2_on_wrong_use(failures):
    assert len(failures) == len(command_names()) > 15
    for names, done in failures:
        answer = json.loads(done.stdout)
        assert done.returncode == answer["exit"] == 2, names
        assert answer["command"] == " ".join(names)
        assert answer["error"]


@pytest.mark.parametrize("command", ["methods", "sources", "domains", "packs", "policy"])
def test_listings_are_json_too(command):
    done = updp(command, "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)) > 2


def test_scan_exits_with_2_when_a_line_could_not_be_read(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"id": 1, "text": "Clear."}\nnot json\n')
    done = updp("scan", tmp_path / "in.jsonl", "--out", tmp_path / "out.jsonl", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["unreadable"] == 1
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


# -- what a user may well give ---------------------------------------------------------------------------------------

CASES = {
    "a folder to scan": ["scan", "{tmp}"],
    "bytes to scan": ["scan", "{bytes}"],
    "a policy that is a folder": ["policy", "--check", "{tmp}"],
    "a policy of bytes": ["policy", "--check", "{bytes}"],
    "a key below a file": ["key", "new", "{bytes}/key"],
    "a key that is no key": ["key", "public", "--key", "{bytes}"],
    "a vault of no run": ["vault", "export", "{tmp}", "--to", "{tmp}/x.csv"],
    "a release that is a file": ["verify", "{bytes}"],
    "a release that is empty": ["verify", "{tmp}"],
    "evaluation of no release": ["evaluate", "{tmp}", "--source", "{export}", "--key", "{key}"],
    "evaluation with a frontier of bytes": ["evaluate", "{tmp}", "--source", "{export}", "--frontier", "{bytes}"],
    "a run into a file": ["deidentify", "{export}", "{bytes}", "--key", "{key}"],
    "a run of a file": ["deidentify", "{bytes}", "{tmp}/o", "--key", "{key}"],
    "an option without a value": ["deidentify", "{export}", "{tmp}/o", "--key", "{key}", "--option", "x"],
    "an option that does not exist": ["deidentify", "{export}", "{tmp}/o", "--key", "{key}", "--option", "x=1"],
    "a pack that does not exist": ["deidentify", "{export}", "{tmp}/o", "--key", "{key}", "--pack", "nowhere"],
    "a layout that does not exist": ["deidentify", "{export}", "{tmp}/o", "--key", "{key}", "--layout", "x"],
    "tuning a method that does not exist": ["tune", "{export}", "--method", "x", "--out", "{tmp}/t"],
    "tuning nothing": ["tune", "{tmp}/none", "--out", "{tmp}/t"],
    "certifying nothing": ["certify", "--data", "{tmp}/none", "--out", "{tmp}/c.json", "--key", "{key}"],
    "a bench of nothing": ["bench", "methods", "--data", "{tmp}/none", "--out", "{tmp}/b"],
    "a bench with a plan of bytes": ["bench", "methods", "--data", "{export}", "--plan", "{bytes}"],
    "a bench of an unknown table": ["bench", "methods", "--data", "{export}", "--tables", "x", "--out", "{tmp}/b"],
    "a bench of an unknown part": ["bench", "pack", "--data", "{export}", "--part", "x"],
    "an ablation of nothing": ["bench", "ablation", "--data", "{tmp}/none", "--out", "{tmp}/b"],
    "a pack trained by a config of bytes": [
        "train",
        "pack",
        "--data",
        "{export}",
        "--out",
        "{tmp}/p",
        "--config",
        "{bytes}",
    ],
    "a pack trained on nothing": ["train", "pack", "--data", "{tmp}/none", "--out", "{tmp}/p"],
    "a pack trained on an engine that is none": [
        *("train", "pack", "--data", "{export}", "--out", "{tmp}/p", "--engine", "rya"),
    ],
    "a pack of faces trained in workers": [
        *("train", "pack", "--data", "{export}", "--out", "{tmp}/p", "--domain", "face", "--workers", "2"),
    ],
    "an export of no training": ["train", "export", "--run", "{tmp}/none", "--out", "{tmp}/p"],
    "a method that cannot be trained": ["train", "method", "x", "--data", "{export}", "--out", "{tmp}/p"],
    "a judge from a trunk of bytes": ["train", "judge", "--data", "{export}", "--out", "{tmp}/j", "--trunk", "{bytes}"],
    "a mapping that does not exist": ["init", "{export}", "--mapping", "x"],
    "a log in no folder": ["methods", "--log", "{bytes}/log"],
}


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    from tests.conftest import Hospital

    tmp = tmp_path_factory.mktemp("cases")
    export = Hospital(tmp_path_factory.mktemp("h") / "export", films=2).write()
    (tmp / "bytes").write_bytes(b"\xff\xfe\x00\x01" * 20)
    return {"tmp": tmp, "bytes": tmp / "bytes", "export": export, "key": tmp_path_factory.mktemp("k") / "key"}


@pytest.mark.parametrize("name", CASES)
def test_what_a_user_may_well_give_ends_in_a_sentence(places, name):
    done = updp(*(word.format(**places) for word in CASES[name]))
    assert done.returncode in (2, 3), done.stderr
    assert "unexpected" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_service_logs_json_lines_on_standard_error(capsys):
    logger = logging.getLogger("updp")
    handlers, level = list(logger.handlers), logger.level
    try:
        open_log(Path("-"))
        logger.info("batch", extra={"facts": {"studies": 2}})
    finally:
        logger.handlers[:] = handlers
        logger.setLevel(level)
    line = json.loads(capsys.readouterr().err)
    assert (line["event"], line["studies"]) == ("batch", 2)


def test_no_library_quotes_a_value_of_a_header_on_the_console(tmp_path):
    """pydicom names the character set it does not know, whatever word stands there."""
    pixels = draw(1, 96)
    ds = film(SpecificCharacterSet="QUIBBLESWORTH", Rows=96, Columns=96, PixelData=pixels.tobytes())
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.dcm").write_bytes(stored(ds))
    (tmp_path / "policy.toml").write_text(
        '[image]\nsize = "native"\nformat = "source"\n[burned_in]\nmode = "off"\n[method]\nname = "keep"\n'
    )
    done = updp_of_its_own(
        "clean", tmp_path / "in", tmp_path / "out", "--key", tmp_path / "key", "--workers", "1",
        "--policy", tmp_path / "policy.toml",
    )  # fmt: skip
    assert "films 1/1" in done.stdout + done.stderr
    assert "quibblesworth" not in (done.stdout + done.stderr).lower()
