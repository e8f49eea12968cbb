import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.in_process import updp_in_process as updp
from tests.conftest import CANARIES, PLAIN, sweep


def updp_of_its_own(*arguments):
    """The same as a process, as a user starts it."""
    command = [sys.executable, "-m", "updp.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def place(hospital, tmp_path):
    (tmp_path / "policy.toml").write_text(PLAIN)
    hospital.write()
    assert updp("key", "new", tmp_path / "key").returncode == 0
    return tmp_path


def deidentify(place, *more, updp=updp):
    fixed = ("--policy", place / "policy.toml", "--key", place / "key", "--workers", 1)
    return updp("deidentify", place / "export", place / "out", *fixed, *more)


def test_deidentify_verify_and_vault_tell_the_whole_story(place):
    done = deidentify(place, updp=updp_of_its_own)
    assert done.returncode == 0, done.stderr
    assert "10 films written" in done.stdout
    assert "Not measured" in done.stdout
    public = updp("key", "public", "--key", place / "key").stdout.strip()
    checked = updp("verify", place / "out" / "unmeasured", "--trust", public)
    assert checked.returncode == 0
    assert "not measured" in checked.stdout
    spoken = updp("key", "fingerprint", "--key", place / "key").stdout.strip()
    assert updp("verify", place / "out" / "unmeasured", "--trust", spoken.upper()).returncode == 0
    linked = updp("vault", "export", place / "out", "--key", place / "key", "--to", place / "links.csv")
    assert linked.returncode == 0
    assert "10 links" in linked.stdout
    printed = "".join(r.stdout + r.stderr for r in (done, checked, linked))
    assert not any(word in printed for word in CANARIES)
    assert sweep(place / "out") == []


def test_a_blocked_release_exits_with_3_and_is_not_called_release(place):
    (place / "policy.toml").write_text(PLAIN + "[gate]\nrequire_evidence = true\n")
    assert deidentify(place).returncode == 3
    assert (place / "out" / "blocked").is_dir()
    assert not (place / "out" / "unmeasured").exists()


def test_strict_exits_with_4_when_something_was_kept_back(place, hospital):
    (hospital.root / hospital.rows[0]["image"]).write_bytes(b"")
    done = deidentify(place, "--strict")
    assert done.returncode == 4
    assert "image-empty" in done.stdout


def test_an_altered_release_exits_with_3(place):
    deidentify(place)
    (place / "out/unmeasured/README.md").write_text("safe!")
    done = updp("verify", place / "out" / "unmeasured")
    assert done.returncode == 3
    assert "Do not use" in done.stdout


def test_an_unknown_signer_is_never_green_and_exits_with_3_unless_he_is_accepted(place):
    deidentify(place)
    done = updp("verify", place / "out" / "unmeasured")
    assert done.returncode == 3
    assert "updp key fingerprint" in done.stdout
    assert "nobody knows who signed" in done.stdout
    reckless = updp("verify", place / "out" / "unmeasured", "--accept-unknown-signer")
    assert reckless.returncode == 0


def test_recall_names_the_films_and_writes_a_list_that_verify_honours(place, hospital):
    deidentify(place)
    patient = hospital.rows[0]["patient_id"]
    films = sum(row["patient_id"] == patient for row in hospital.rows)
    done = updp("recall", patient, place / "out", "--key", place / "key", "--to", place / "out" / "revocations.json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == films + 1
    assert not any(word in done.stdout + done.stderr for word in CANARIES)
    public = updp("key", "public", "--key", place / "key").stdout.strip()
    checked = updp("verify", place / "out" / "unmeasured", "--trust", public)
    assert checked.returncode == 3
    assert "recalled" in checked.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("deidentify", "nowhere", "out"), "no such folder"),
        (("deidentify", ".", "out", "--method", "magic"), "no method"),
        (("deidentify", ".", "out", "--policy", "none.toml"), "no such policy file"),
        (("deidentify", ".", "out", "--engine", "warp"), "no engine"),
        (("deidentify", ".", "out", "--address", "auto"), "no option 'address'"),
        (("deidentify", ".", "out", "--gpus", "0.5"), "no option 'gpus'"),
        (("deidentify", ".", "out", "--pin", "avx2"), "no option 'pin'"),
        (("verify", "nowhere"), "not a release"),
        (("vault", "export", "nowhere", "--to", "x.csv"), "no key file"),
        (("scan", "nowhere.jsonl"), "No such file"),
    ],
)
def test_wrong_use_exits_with_2_and_one_sentence(hospital, tmp_path, arguments, message):
    hospital.write()
    places = ("out", "nowhere", "nowhere.jsonl", "none.toml", "x.csv")
    fixed = [str(tmp_path / a) if a in places else a for a in arguments]
    done = updp(*fixed, cwd=hospital.root, XDG_CONFIG_HOME=str(tmp_path / "c"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.posix
def test_a_key_others_may_read_stops_the_run(place):
    os.chmod(place / "key", 0o644)
    done = deidentify(place)
    assert done.returncode == 2
    assert "chmod 600" in done.stderr


@pytest.mark.posix
def test_the_first_run_makes_a_private_key_and_says_so(hospital, tmp_path):
    (tmp_path / "policy.toml").write_text(PLAIN)
    done = updp("deidentify", hospital.write(), tmp_path / "out", "--policy", tmp_path / "policy.toml", "--workers", 1,
                XDG_CONFIG_HOME=str(tmp_path / "config"))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "new secret key" in done.stdout
    assert (tmp_path / "config/updp/key").stat().st_mode & 0o777 == 0o600


def test_an_unexpected_error_shows_its_type_and_place_but_no_value(place, monkeypatch):
    def bad(*args, **options):
        raise KeyError("Zanthora Quibblesworth")

    monkeypatch.setattr("updp.pipeline.run.deidentify", bad)
    done = updp("deidentify", "a", "b", "--key", place / "key")
    assert done.returncode == 2
    assert "KeyError" in done.stderr
    assert "Zanthora" not in done.stderr + done.stdout


@pytest.mark.parametrize("command", ["methods", "sources", "domains", "policy"])
def test_listings_answer(command):
    done = updp(command)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 3


def test_help_needs_no_heavy_module():
    heavy = "torch numpy pandas pyarrow cv2"
    code = f"import sys, updp, updp.cli\nprint([m for m in {heavy.split()} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_policy_printed_by_default_is_accepted(tmp_path):
    (tmp_path / "policy.toml").write_text(updp("policy").stdout)
    done = updp("policy", "--check", tmp_path / "policy.toml")
    assert done.returncode == 0
    assert Path(tmp_path / "policy.toml").name in done.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[source]\ndomain = 'chst'\n", "no domain 'chst'; did you mean 'chest'?"),
        ("[method]\nname = 'bluur'\n", "no method 'bluur'; did you mean 'blur'?"),
        ("[method]\nname = 'blur'\noptions = {sigmaa = 1}\n", "no option 'sigmaa'"),
        ("[source]\ndomain = 'face'\n[method]\nname = 'k-same'\n", "does not serve the domain 'face'"),
        ("[source]\ndomain = 'face'\n[image]\nformat = 'dicom'\n", "written as png alone"),
        ("[image]\nsize = 'native'\n", "makes square films"),
    ],
)
def test_a_policy_that_names_what_there_is_not_is_no_valid_policy(tmp_path, text, said):
    (tmp_path / "policy.toml").write_text(text)
    done = updp("policy", "--check", tmp_path / "policy.toml")
    assert done.returncode == 2
    assert said in done.stderr


def test_clean_writes_native_films_and_names_a_wrong_syntax(place, tmp_path):
    fixed = ("--key", place / "key", "--workers", 1)
    plain = "[burned_in]\nmode = 'off'\n[image]\nsize = 'native'\n[method]\nname = 'keep'\n"
    (tmp_path / "native.toml").write_text(plain)
    done = updp("clean", place / "export", place / "out", "--policy", tmp_path / "native.toml", *fixed)
    assert done.returncode == 0, done.stderr
    assert "10 films written" in done.stdout
    wrong = updp("clean", place / "export", place / "b", "--syntax", "jpeg", *fixed)
    assert wrong.returncode == 2
    assert "'explicit-le', 'jpeg-ls' or 'jpeg-2000'" in wrong.stderr
    square = updp("clean", place / "export", place / "c", "--policy", place / "policy.toml", *fixed)
    assert square.returncode == 2
    assert "updp deidentify" in square.stderr
    (tmp_path / "new.toml").write_text(plain.replace("'keep'", "'updp'"))
    made = updp("clean", place / "export", place / "d", "--policy", tmp_path / "new.toml", *fixed)
    assert made.returncode == 2
    assert "keep, blur, pixelate, dp-pix" in made.stderr
