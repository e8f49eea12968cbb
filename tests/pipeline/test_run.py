import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.conftest import CANARIES, PLAIN, Hospital, draw, reasons, same_tree, sweep
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.core.storage import OutputError
from updp.methods.keep import Keep
from updp.pipeline import run as pipeline
from updp.pipeline import stations
from updp.pipeline.engines import ENGINES, EngineError
from updp.pipeline.run import RunError, deidentify
from updp.release import manifest
from updp.release.signature import public_key
from updp.release.verify import verify
from updp.sources import BadSource

#: Where a process of its own finds the tests and this version of the code.
PATHS = os.pathsep.join(str(Path(__file__).parents[2] / name) for name in ("", "src"))


def run(source, out, key, policy, **more):
    return deidentify(source, out, key=key, policy=policy, workers=more.pop("workers", 1), **more)


def rows_of(out):
    return list(manifest.read(out / "unmeasured"))


def test_a_manifest_becomes_a_verified_release_that_is_marked_not_measured(hospital, tmp_path, key, policy):
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert (outcome.status, outcome.released, outcome.quarantined) == ("not-measured", 10, {})
    result = verify(tmp_path / "out" / "unmeasured", trusted=public_key(key))
    assert result.intact, result.checks
    assert result.status == "not-measured"
    assert "proves nothing about privacy" in (tmp_path / "out" / "unmeasured" / "README.md").read_text()


def test_no_name_or_number_of_a_patient_is_anywhere_in_the_output_but_the_sealed_vault(hospital, tmp_path, key, policy):
    run(hospital.write(), tmp_path / "out", key, policy)
    assert sweep(tmp_path / "out") == []
    assert len(list((tmp_path / "out" / "vault").iterdir())) == 3


def test_findings_reach_the_release(hospital, tmp_path, key, policy):
    run(hospital.write(), tmp_path / "out", key, policy)
    lines = [json.loads(line) for path in (tmp_path / "out/unmeasured/reports").iterdir() for line in path.open()]
    assert len(lines) == 10
    for line in lines:
        assert "No pneumothorax. Small left effusion, 4 mm nodule." in line["sections"]["findings"]
    assert {tuple(row["labels"]) for row in rows_of(tmp_path / "out")} == {("Effusion", "Nodule")}


def test_films_of_a_patient_share_a_pseudonym_and_a_split(hospital, tmp_path, key, policy):
    run(hospital.write(), tmp_path / "out", key, policy)
    rows = rows_of(tmp_path / "out")
    assert len({row["patient"] for row in rows}) == 5
    assert len({(row["patient"], row["split"]) for row in rows}) == 5


def test_the_order_of_the_release_says_nothing_about_the_order_of_the_source(tmp_path, key, policy):
    hospital = Hospital(tmp_path / "export", films=40)
    run(hospital.write(), tmp_path / "out", key, policy)
    place = {key.film(row["film_id"]): n for n, row in enumerate(hospital.rows)}
    order = [place[row["release_id"]] for row in rows_of(tmp_path / "out")]
    assert abs(np.corrcoef(order, range(40))[0, 1]) < 0.5
    assert {int(p.stat().st_mtime) for p in (tmp_path / "out/unmeasured").rglob("*") if p.is_file()} == {315_532_800}


def test_the_release_does_not_depend_on_the_number_of_workers(hospital, tmp_path, key, policy):
    source = hospital.write()
    run(source, tmp_path / "one", key, policy, workers=1)
    run(source, tmp_path / "two", key, policy, workers=2)
    assert same_tree(tmp_path / "one" / "unmeasured", tmp_path / "two" / "unmeasured")


def test_workers_elsewhere_find_a_source_given_by_a_relative_path(hospital, tmp_path, key, policy, monkeypatch):
    """Workers of a cluster have a folder of their own to start from."""

    def elsewhere(work, tasks, _workers):
        (tmp_path / "elsewhere").mkdir()
        for task in list(tasks):
            monkeypatch.chdir(tmp_path / "elsewhere")
            yield task, work(task)

    monkeypatch.setitem(ENGINES._places, "elsewhere", elsewhere)
    monkeypatch.chdir(tmp_path)
    source = os.path.relpath(hospital.write())
    assert deidentify(source, "out", policy=policy, key=key, engine="elsewhere").released


def test_another_key_gives_other_pseudonyms_and_another_seed_other_noise(hospital, tmp_path, key):
    source = hospital.write()
    policy = Policy.parse(PLAIN.replace("'keep'", "'dp-pix'"))
    run(source, tmp_path / "a", key, policy)
    run(source, tmp_path / "b", Key(bytes(32)), policy)
    run(source, tmp_path / "c", key, policy, seed=1)
    ids = [{row["release_id"] for row in rows_of(tmp_path / name)} for name in "abc"]
    assert ids[0].isdisjoint(ids[1])
    assert ids[0] == ids[2]
    film = rows_of(tmp_path / "a")[0]["file_name"]
    assert (tmp_path / "a/unmeasured" / film).read_bytes() != (tmp_path / "c/unmeasured" / film).read_bytes()


def test_running_a_finished_release_again_confirms_it(hospital, tmp_path, key, policy):
    source = hospital.write()
    first = run(source, tmp_path / "out", key, policy)
    before = (tmp_path / "out/unmeasured/signature").stat().st_ino
    again = run(source, tmp_path / "out", key, policy)
    assert (again.released, again.status) == (first.released, first.status)
    assert (tmp_path / "out/unmeasured/signature").stat().st_ino == before


def test_labels_outside_the_known_sets_never_leave(hospital, tmp_path, key, policy):
    hospital.add(10, labels="Effusion|Zanthora Quibblesworth")
    run(hospital.write(), tmp_path / "out", key, policy)
    assert sweep(tmp_path / "out") == []


def test_the_terms_a_hospital_blocks_stay_in_the_hospital(hospital, tmp_path, key):
    policy = Policy.parse(PLAIN + "[report]\nblock = ['Zanthora Quibblesworth', 'MRN7741982']\n")
    assert run(hospital.write(), tmp_path / "out", key, policy).released == 10
    assert sweep(tmp_path / "out") == []
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact


def test_attributes_leave_only_if_the_policy_says_so(hospital, tmp_path, key):
    for row in hospital.rows:
        row |= {"age": "93", "sex": "F", "date": "2019-03-04"}
    source = hospital.write()
    run(source, tmp_path / "a", key, Policy.parse(PLAIN))
    assert {(r["age"], r["sex"], r["date"]) for r in rows_of(tmp_path / "a")} == {(None, None, None)}
    named = PLAIN.replace("[release]\n", "[release]\nattributes = ['age', 'sex', 'date']\n")
    run(source, tmp_path / "b", key, Policy.parse(named))
    for row in rows_of(tmp_path / "b"):
        assert (row["age"], row["sex"], row["view"], row["labels"]) == (90, "F", None, None)
        assert row["date"].year < 2019
        assert row["date"].weekday() == 0


def test_a_withheld_report_stays(hospital, tmp_path, key):
    run(hospital.write(), tmp_path / "out", key, Policy.parse(PLAIN + "[report]\nmode = 'withhold'\n"))
    assert not (tmp_path / "out/unmeasured/reports").exists()


def test_films_leave_as_dicom_if_the_policy_says_so(hospital, tmp_path, key):
    import pydicom

    policy = Policy.parse(PLAIN.replace("size = 64", "size = 64\nformat = 'dicom'"))
    run(hospital.write(), tmp_path / "out", key, policy)
    rows = rows_of(tmp_path / "out")
    data = pydicom.dcmread(tmp_path / "out/unmeasured" / rows[0]["file_name"])
    assert data.PatientID == rows[0]["patient"]
    assert data.pixel_array.shape == (64, 64)
    assert data.PatientIdentityRemoved == "YES"
    assert sweep(tmp_path / "out") == []


# -- bad input: a reason code, nothing lost, nothing leaked ------------------------------------------------------------


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:600])


def text(path: Path) -> None:
    path.write_text("Zanthora Quibblesworth")


def blank(path: Path) -> None:
    Image.new("L", (80, 80), 7).save(path)


def tiny(path: Path) -> None:
    Image.new("L", (3, 3), 7).save(path)


def colour(path: Path) -> None:
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (80, 80, 3), dtype=np.uint8)).save(path)


def bomb(path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(path)


def gone(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (empty, "image-empty"),
        (truncated, "image-unreadable"),
        (text, "image-unreadable"),
        (blank, "image-blank"),
        (tiny, "image-too-small"),
        (colour, "image-not-grey"),
        (bomb, "image-too-large"),
        (gone, "image-missing"),
    ],
)
def test_a_bad_film_is_kept_back_with_its_reason_and_the_others_leave(
    hospital, tmp_path, key, policy, capfd, damage, reason
):
    damage(hospital.root / hospital.rows[3]["image"])
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.released == 9
    assert reasons(tmp_path / "out") == outcome.quarantined == {reason: 1}
    assert sweep(tmp_path / "out") == []
    printed = "".join(capfd.readouterr())
    assert not any(word in printed for word in CANARIES)
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact


@pytest.mark.posix
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"film_id": "MRN7741982-2"}, {"id-duplicate": 2}),
        ({"film_id": "", "study_id": ""}, {"id-missing": 1}),
        ({"patient_id": ""}, {"id-missing": 1}),
        ({"study_id": "ACC5550123-2"}, {"patient-conflict": 2}),
        ({"image": "../outside.png"}, {"path-unsafe": 1}),
        ({"image": "link.png"}, {"path-unsafe": 1}),
        ({"image": ""}, {"report-without-image": 1}),
    ],
)
def test_a_bad_row_is_kept_back_with_its_reason_and_the_others_leave(hospital, tmp_path, key, policy, changes, reason):
    Image.fromarray(draw(99)).save(tmp_path / "outside.png")
    (hospital.root / "link.png").symlink_to(tmp_path / "outside.png")
    hospital.add(20, **changes)
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.quarantined == reason
    assert outcome.released == 11 - sum(reason.values())
    assert sweep(tmp_path / "out") == []


def test_the_same_film_under_two_patients_stays(tmp_path, key, policy):
    hospital = Hospital(tmp_path / "export", films=20)
    hospital.add(20)
    (hospital.root / "Quibblesworth_20.png").write_bytes((hospital.root / "Quibblesworth_0.png").read_bytes())
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.quarantined == {"film-shared-by-patients": 2}
    assert outcome.released == 19
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact


@pytest.mark.parametrize(("cell", "kept_back"), [(0, 0), (2, 3), (3, 5)])
def test_records_of_fewer_patients_than_the_policy_asks_are_kept_back_whole(tmp_path, key, policy, cell, kept_back):
    hospital = Hospital(tmp_path / "export", films=20)
    hospital.add(20, labels="Mass")
    for n in (22, 23):  # two films of one patient are no company for each other
        hospital.add(n, labels="Edema")
    for n in (24, 26):
        hospital.add(n, labels="Hernia")
    gate = policy.gate.model_copy(update={"min_cell": cell, "max_quarantined": 1.0})
    policy = policy.model_copy(update={"gate": gate})
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.quarantined == ({"record-too-rare": kept_back} if kept_back else {})
    assert outcome.released == 25 - kept_back
    folder = tmp_path / "out" / outcome.folder.name
    cells = {}
    for row in manifest.read(folder):
        cells.setdefault(manifest.record_of(row), set()).add(row["patient"])
    assert min(map(len, cells.values())) >= cell
    assert verify(folder, trusted=public_key(key)).intact


def test_a_study_without_a_report_leaves_unless_the_policy_requires_one(hospital, tmp_path, key, policy):
    hospital.rows[0]["findings"] = ""
    source = hospital.write()
    assert run(source, tmp_path / "a", key, policy).released == 10
    strict = Policy.parse(PLAIN + "[report]\nrequired = true\n")
    assert run(source, tmp_path / "b", key, strict).quarantined == {"report-missing": 1}


def test_text_that_is_not_utf8_is_kept_back(hospital, tmp_path, key, policy):
    source = hospital.write()
    raw = (source / "manifest.csv").read_bytes()
    (source / "manifest.csv").write_bytes(raw.replace(b"Small left", b"Small \xff left", 1))
    outcome = run(source, tmp_path / "out", key, policy)
    assert list(outcome.quarantined.values()) == [1]
    assert outcome.released == 9


@pytest.mark.parametrize("kind", ["sixteen-bit", "rgba", "palette", "grey-alpha"])
def test_unusual_but_sound_films_leave(hospital, tmp_path, key, policy, kind):
    grey = draw(77)
    path = hospital.root / hospital.rows[0]["image"]
    if kind == "sixteen-bit":
        Image.fromarray(grey.astype(np.uint16) * 200).save(path)
    else:
        Image.fromarray(grey).convert({"rgba": "RGBA", "palette": "P", "grey-alpha": "LA"}[kind]).save(path)
    assert run(hospital.write(), tmp_path / "out", key, policy).released == 10


def test_a_report_the_receivers_detector_would_object_to_is_kept_back(hospital, tmp_path, key, policy):
    """The first detector passes over half a date beside a hole; the second does not, and is asked before release."""
    hospital.rows[0]["findings"] = "Views of the chest were obtained on 02/010/XXXX. The lungs are clear."
    outcome = run(hospital.write(), tmp_path / "o", key, policy)
    assert outcome.quarantined == {"report-residual-phi": 1}


def test_a_report_longer_than_the_policy_allows_is_kept_back(hospital, tmp_path, key):
    hospital.rows[0]["findings"] = "No effusion. " * 100
    outcome = run(hospital.write(), tmp_path / "o", key, Policy.parse(PLAIN + "[report]\nmax_characters = 500\n"))
    assert outcome.quarantined == {"report-too-long": 1}


class Clumsy(Keep):
    """A method that cannot take one film."""

    def deidentify(self, batch, strength, rng):
        if any(study.film_id == Clumsy.victim for study in batch):
            raise RuntimeError("Zanthora Quibblesworth")
        return super().deidentify(batch, strength, rng)


def test_a_film_the_method_cannot_take_is_kept_back_alone(hospital, tmp_path, key, policy, monkeypatch, capfd):
    Clumsy.victim = key.film("MRN7741982-5")
    monkeypatch.setattr(stations, "make_method", lambda name, options, domain, native: Clumsy())
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.quarantined == {"method-failed": 1}
    assert "Zanthora" not in "".join(capfd.readouterr())


CRASH = """
import multiprocessing, os, signal, sys
from updp.pipeline import stations

read = stations.Read.__call__

def kill(self, study):
    if study.film_id.endswith("-1") and multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return read(self, study)

stations.Read.__call__ = kill
if __name__ == "__main__":
    from updp.pipeline.run import deidentify
    outcome = deidentify(sys.argv[1], sys.argv[2], policy=sys.argv[3], key=sys.argv[4], workers=2)
    print(outcome.released, outcome.quarantined)
"""


@pytest.mark.posix
def test_a_film_that_takes_its_worker_down_is_kept_back_alone(tmp_path):
    # In a process of its own, because the damage has to be there when workers start.
    source = Hospital(tmp_path / "export", films=3).without_reports().write()
    (tmp_path / "crash.py").write_text(CRASH)
    (tmp_path / "policy.toml").write_text(PLAIN)
    Key.create(tmp_path / "key")
    done = subprocess.run(
        [sys.executable, tmp_path / "crash.py", source, tmp_path / "out", tmp_path / "policy.toml",
         tmp_path / "key"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": PATHS},
    )  # fmt: skip
    assert done.stdout.strip() == "2 {'worker-died': 1}", done.stderr


# -- places ------------------------------------------------------------------------------------------------------------


def test_an_output_inside_the_source_or_around_it_is_refused(hospital, key, policy):
    source = hospital.write()
    with pytest.raises(RunError, match="inside the source"):
        run(source, source / "out", key, policy)
    with pytest.raises(RunError, match="inside the output"):
        run(source, source.parent, key, policy)


def test_an_output_that_holds_other_things_is_refused(hospital, tmp_path, key, policy):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.doc").touch()
    with pytest.raises(RunError, match="not empty"):
        run(hospital.write(), tmp_path / "out", key, policy)
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match="is a file"):
        run(hospital.root, tmp_path / "file", key, policy)


@pytest.mark.posix
def test_an_output_that_cannot_be_written_is_said_so(hospital, key, policy):
    with pytest.raises(OutputError):
        run(hospital.write(), Path("/proc/updp-out"), key, policy)


def test_an_empty_source_and_a_missing_one_are_said_so(tmp_path, key, policy):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadSource, match="empty"):
        run(tmp_path / "empty", tmp_path / "out", key, policy)
    with pytest.raises(BadSource, match="no such folder"):
        run(tmp_path / "none", tmp_path / "out", key, policy)
    assert not (tmp_path / "out").exists()


def test_a_source_of_nothing_but_bad_films_is_blocked(hospital, tmp_path, key, policy):
    for row in hospital.rows:
        empty(hospital.root / row["image"])
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.status == "blocked"
    assert outcome.folder == tmp_path / "out" / "blocked"
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()} == {"blocked", "records", "vault"}


@pytest.mark.parametrize("name", ["keep", "blur"])
def test_what_was_not_measured_is_never_called_a_release(hospital, tmp_path, key, name):
    policy = Policy.parse(PLAIN.replace("'keep'", f"'{name}'"))
    outcome = run(hospital.write(), tmp_path / "out", key, policy)
    assert outcome.folder == tmp_path / "out" / "unmeasured"
    assert not (tmp_path / "out" / "release").exists()
    assert run(hospital.root, tmp_path / "out", key, policy).folder == outcome.folder


def test_a_run_that_keeps_back_more_than_a_tenth_is_blocked_without_any_policy(hospital, tmp_path, key, policy):
    for row in hospital.rows[:2]:
        empty(hospital.root / row["image"])
    assert run(hospital.write(), tmp_path / "out", key, policy).status == "blocked"


def test_too_many_studies_kept_back_blocks_the_release(hospital, tmp_path, key):
    empty(hospital.root / hospital.rows[0]["image"])
    policy = Policy.parse(PLAIN + "[gate]\nmax_quarantined = 0.05\n")
    assert run(hospital.write(), tmp_path / "out", key, policy).status == "blocked"


def test_a_policy_that_requires_evidence_blocks_what_was_not_measured(hospital, tmp_path, key):
    policy = Policy.parse(PLAIN + "[gate]\nrequire_evidence = true\n")
    assert run(hospital.write(), tmp_path / "out", key, policy).status == "blocked"


def test_official_splits_that_tear_a_patient_apart_block_the_release(hospital, tmp_path, key, policy):
    for n, row in enumerate(hospital.rows):
        row["split"] = "train" if n % 2 else "test"
    assert run(hospital.write(), tmp_path / "out", key, policy).status == "blocked"


# -- resume ------------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def interrupted(source, out, key, policy, after):
    def stop(done, total):
        if done >= after:
            raise Stop

    with pytest.raises(Stop):
        run(source, out, key, policy, progress=stop)


def test_a_resumed_run_does_only_what_is_missing(hospital, tmp_path, key, policy, monkeypatch):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=4)
    seen = []
    before = stations.Read.__call__
    monkeypatch.setattr(stations.Read, "__call__", lambda self, study: seen.append(study) or before(self, study))
    run(source, tmp_path / "out", key, policy)
    assert len(seen) == 6
    run(source, tmp_path / "whole", key, policy)
    assert same_tree(tmp_path / "out" / "unmeasured", tmp_path / "whole" / "unmeasured")


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"key": Key(bytes(32))}, "another key"),
        ({"policy": Policy.parse(PLAIN.replace("'keep'", "'blur'"))}, "another policy"),
        ({"seed": 5}, "another --seed"),
        ({"limit": 8}, "another --limit"),
    ],
)
def test_resuming_with_other_settings_is_refused_and_says_which(hospital, tmp_path, key, policy, what, why):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=4)
    with pytest.raises(RunError, match=why):
        deidentify(source, tmp_path / "out", **{"key": key, "policy": policy, "workers": 1, **what})


def test_resuming_from_a_source_that_changed_is_refused(hospital, tmp_path, key, policy):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=4)
    hospital.add(30)
    with pytest.raises(RunError, match="source has changed"):
        run(hospital.write(), tmp_path / "out", key, policy)


def test_a_film_lost_from_a_landed_shard_is_made_again(hospital, tmp_path, key, policy):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=8)
    films = sorted((tmp_path / "out/.work/build/images").rglob("*.png"))
    films[0].unlink()
    films[1].write_bytes(b"")
    run(source, tmp_path / "out", key, policy)
    run(source, tmp_path / "whole", key, policy)
    assert same_tree(tmp_path / "out" / "unmeasured", tmp_path / "whole" / "unmeasured")


def test_a_damaged_shard_record_is_made_again(hospital, tmp_path, key, policy):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=8)
    (tmp_path / "out/.work/shards/00000.json").write_bytes(b"{")
    assert run(source, tmp_path / "out", key, policy).released == 10


def moved_to_another_patient(hospital):
    hospital.rows[0]["patient_id"] = "Zanthora-4"


def moved_to_another_study(hospital):
    hospital.rows[0]["study_id"] = "ACC5550123-99"


def corrected_report(hospital):
    hospital.rows[0]["findings"] = "Large right pneumothorax."


def corrected_label(hospital):
    hospital.rows[0]["labels"] = "Mass"


def corrected_view(hospital):
    hospital.rows[0]["view"] = "AP"


def replaced_pixels(hospital):
    Image.fromarray(draw(1234)).save(hospital.root / hospital.rows[0]["image"])


def removed_film(hospital):
    (hospital.root / hospital.rows[0]["image"]).unlink()


CHANGES = (moved_to_another_patient, moved_to_another_study, corrected_report, corrected_label, corrected_view,
           replaced_pixels, removed_film)  # fmt: skip


@pytest.mark.parametrize("finished", [False, True], ids=["killed", "finished"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_in_the_source_since_is_noticed(tmp_path, key, policy, change, finished):
    hospital = Hospital(tmp_path / "export", films=4)
    source = hospital.write()
    if finished:
        run(source, tmp_path / "out", key, policy)
    else:
        interrupted(source, tmp_path / "out", key, policy, after=4)
    change(hospital)
    hospital.write()
    with pytest.raises(RunError, match="the source has changed"):
        run(source, tmp_path / "out", key, policy)


def test_pixels_of_equal_size_and_time_are_told_apart_by_their_content(tmp_path, key, policy):
    hospital = Hospital(tmp_path / "export", films=4)
    source, film = hospital.write(), hospital.root / hospital.rows[0]["image"]
    before, times = film.read_bytes(), film.stat()
    for content in (False, True):
        run(source, tmp_path / f"out-{content}", key, policy, check_content=content)
    film.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    os.utime(film, ns=(times.st_atime_ns, times.st_mtime_ns))
    run(source, tmp_path / "out-False", key, policy)  # size and time are all it looks at
    with pytest.raises(RunError, match="the source has changed"):
        run(source, tmp_path / "out-True", key, policy, check_content=True)
    with pytest.raises(RunError, match="--check-content"):
        run(source, tmp_path / "out-True", key, policy)


def test_a_copy_of_the_source_elsewhere_is_the_same_source(tmp_path, key, policy):
    source = Hospital(tmp_path / "export", films=4).write()
    run(source, tmp_path / "out", key, policy, check_content=True)
    shutil.copytree(source, tmp_path / "copy", copy_function=shutil.copyfile)  # with the times of today
    assert run(tmp_path / "copy", tmp_path / "out", key, policy, check_content=True).released == 4


def test_what_an_abandoned_attempt_left_does_not_reach_the_release(hospital, tmp_path, key, policy):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=8)
    folder = next((tmp_path / "out/.work/build/images").iterdir())
    (folder / "stray.png").write_bytes(b"Zanthora")
    (folder.parent / "99999").mkdir()
    run(source, tmp_path / "out", key, policy)
    assert verify(tmp_path / "out" / "unmeasured", trusted=public_key(key)).intact
    assert not list((tmp_path / "out").rglob("stray.png"))


def test_what_a_killed_assembly_left_does_not_reach_the_release(hospital, tmp_path, key, policy):
    source = hospital.write()
    interrupted(source, tmp_path / "out", key, policy, after=8)
    build = tmp_path / "out/.work/build"
    (build / "evidence").mkdir()
    for name in (".README.md.4711", "README.md", "evidence/.report.html.4711", "reports/.00000.jsonl.4711"):
        (build / name).write_bytes(b"half a file")
    run(source, tmp_path / "out", key, policy)
    run(source, tmp_path / "whole", key, policy)
    assert same_tree(tmp_path / "out" / "unmeasured", tmp_path / "whole" / "unmeasured")


def test_a_run_cut_off_before_any_rename_resumes_to_the_same_release(tmp_path, key, policy, monkeypatch):
    source = Hospital(tmp_path / "export", films=5).write()
    run(source, tmp_path / "whole", key, policy)
    for cut in range(1, 100):
        calls = 0

        def cutting(real, cut=cut):
            def rename(*places):
                nonlocal calls
                calls += 1
                if calls == cut:
                    raise Stop
                return real(*places)

            return rename

        out = tmp_path / f"out-{cut}"
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", cutting(os.replace))
            patch.setattr(os, "rename", cutting(os.rename))
            try:
                run(source, out, key, policy)
            except Stop:
                pass
            else:
                break
        run(source, out, key, policy)
        assert same_tree(out / "unmeasured", tmp_path / "whole" / "unmeasured"), cut
    assert cut > 10


def test_two_runs_into_one_output_do_not_mix(hospital, tmp_path, key, policy):
    source = hospital.write()

    def second(done, total):
        with pytest.raises(RunError, match="another run"):
            run(source, tmp_path / "out", key, policy)

    run(source, tmp_path / "out", key, policy, progress=second)


SCRIPT = f"""
import sys
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.pipeline.run import deidentify
if __name__ == "__main__":
    deidentify(*sys.argv[1:], key=Key(bytes(range(32))), policy=Policy.parse({PLAIN!r}), workers=1)
"""


def start(tmp_path, source, out):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    env = {**os.environ, "PYTHONPATH": PATHS}
    command = [sys.executable, script, source, out]
    return subprocess.Popen(command, env=env, start_new_session=True, stderr=subprocess.PIPE)


@pytest.mark.posix
def test_a_run_killed_at_random_moments_and_resumed_is_byte_identical(tmp_path, key, policy):
    source = Hospital(tmp_path / "export", films=60).without_reports().write()
    began = time.monotonic()
    run(source, tmp_path / "whole", key, policy)
    took = time.monotonic() - began
    moments = random.Random(7)
    shards, kills = tmp_path / "out" / ".work" / "shards", 0
    for _ in range(4):
        landed, child = len(list(shards.glob("*.json"))), start(tmp_path, source, tmp_path / "out")
        while child.poll() is None and len(list(shards.glob("*.json"))) == landed:
            time.sleep(0.005)
        time.sleep(moments.random() * took / 15)  # anywhere in one of fifteen shards
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            kills += 1
    assert run(source, tmp_path / "out", key, policy).released == 60
    assert same_tree(tmp_path / "out" / "unmeasured", tmp_path / "whole" / "unmeasured")
    assert not (tmp_path / "out" / ".work").exists()
    assert kills


def test_a_full_disk_ends_the_run_with_a_sentence_and_freeing_room_resumes_it(
    hospital, tmp_path, key, policy, monkeypatch
):
    import errno

    source = hospital.write()
    real = Path.open

    def full(self, mode="r", *rest, **options):
        if ".work/build" in str(self) and "w" in mode:
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, mode, *rest, **options)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(OutputError, match="no room left on the disk"):
        run(source, tmp_path / "out", key, policy)
    monkeypatch.undo()
    assert run(source, tmp_path / "out", key, policy).released == 10


@pytest.mark.posix
def test_a_file_size_limit_is_an_error_of_the_output_not_of_the_study(hospital, tmp_path, key, policy):
    import resource

    source = hospital.write()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OutputError):
            run(source, tmp_path / "out", key, policy)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert run(source, tmp_path / "out", key, policy).released == 10


def test_the_survey_finds_doubled_ids_and_torn_studies_in_eight_bytes_each(hospital, key):
    from updp.sources import open_source

    hospital.add(40, film_id="MRN7741982-1")
    hospital.add(41, study_id="ACC5550123-3")
    survey = pipeline.take_survey(open_source(hospital.write()), key)
    assert survey.films == 12
    assert len(survey.duplicates) == 1
    assert len(survey.conflicts) == 1


def test_the_run_record_names_every_instruction_set_it_ran_on(tmp_path, hospital, key, policy, monkeypatch):
    from updp.pipeline import run as module

    source, record = hospital.write(), tmp_path / "out" / "run.json"
    for kernels in ("AVX2", "AVX512", "AVX512"):
        monkeypatch.setattr(module, "instruction_set", lambda torch, pin, kernels=kernels: {"numpy": kernels})
        module.deidentify(source, tmp_path / "out", key=key, policy=policy, workers=1)
    assert json.loads(record.read_bytes())["made_on"] == [{"numpy": "AVX2"}, {"numpy": "AVX512"}]


def test_films_without_labels_get_those_of_their_report_marked_as_derived(hospital, tmp_path, key, policy):
    for n, row in enumerate(hospital.rows):
        row["labels"] = "Edema" if n % 2 else ""
    source = hospital.write()
    run(source, tmp_path / "out", key, policy)
    release = tmp_path / "out/unmeasured"
    told = {(row["labels_from"], *row["labels"]) for row in rows_of(tmp_path / "out")}
    assert told == {("source", "Edema"), ("report", "Effusion", "Nodule")}
    assert "Labels of 5 of 10 films are derived" in " ".join((release / "README.md").read_text().split())
    assert json.loads((release / "evidence/evaluation.json").read_text())["tallies"]["labels_derived"] == 5
    assert "<b>5</b>with labels derived from the report" in (release / "evidence/report.html").read_text()
    assert verify(release, trusted=public_key(key)).intact
    # A release of the release still says so.
    again = run(release, tmp_path / "again", key, policy)
    assert {row["labels_from"] for row in manifest.read(again.folder)} == {"source", "report"}


def test_labels_are_not_derived_where_the_policy_says_no_or_the_report_does_not_tell(hospital, tmp_path, key):
    for row in hospital.rows:
        row["labels"] = ""
    source = hospital.write()
    run(source, tmp_path / "a", key, Policy.parse(PLAIN.replace("[release]\n", "[release]\nderive_labels = false\n")))
    assert {(row["labels"], row["labels_from"]) for row in rows_of(tmp_path / "a")} == {(None, None)}
    told = Policy.parse(PLAIN + "[report]\nsections = ['impression']\n")
    run(source, tmp_path / "b", key, told)
    assert {(row["labels"], row["labels_from"]) for row in rows_of(tmp_path / "b")} == {(None, None)}


def test_a_withheld_report_still_gives_labels(hospital, tmp_path, key):
    for row in hospital.rows:
        row["labels"] = ""
    run(hospital.write(), tmp_path / "out", key, Policy.parse(PLAIN + "[report]\nmode = 'withhold'\n"))
    told = {(row["labels_from"], row["has_report"], *row["labels"]) for row in rows_of(tmp_path / "out")}
    assert told == {("report", False, "Effusion", "Nodule")}
    assert sweep(tmp_path / "out") == []


# -- workers elsewhere -------------------------------------------------------------------------------------------------


def test_a_worker_that_rounds_otherwise_or_lacks_a_folder_stops_the_run(tmp_path, hospital, key, policy, monkeypatch):
    jobs = []

    def caught(work, tasks, workers):
        for task in tasks:
            jobs.append(task)
            yield task, work(task)

    monkeypatch.setattr(pipeline, "engine_of", lambda _name, _options: caught)
    deidentify(hospital.write(), tmp_path / "out", policy=policy, key=key)
    job, shard = jobs[0]
    assert job.kernels is None  # `keep` computes nothing that a processor may round

    (tmp_path / "out" / ".work" / "shards").mkdir(parents=True)
    other = replace(job, kernels={"numpy": "AVX2", "torch": "AVX2"})
    monkeypatch.setattr(pipeline, "instruction_set", lambda: {"numpy": "AVX512", "torch": "AVX512"})
    told = str(pipeline.process((other, shard)))
    assert "numpy AVX512, torch AVX512 and the run with numpy AVX2, torch AVX2" in told
    assert "--pin avx2" in told
    same = replace(job, kernels={"numpy": "AVX512", "torch": "AVX512"})
    assert pipeline._unfit(same) is None
    assert "source; mount it" in str(pipeline.process((replace(job, source=Elsewhere()), shard)))
    assert "output; mount it" in str(pipeline.process((replace(job, out=tmp_path / "nowhere"), shard)))


class Elsewhere:
    root = Path("/nowhere/on/this/node")


def test_an_error_of_a_worker_ends_the_run_as_a_sentence(tmp_path, hospital, key, policy, monkeypatch):
    def broken(work, tasks, workers):
        for task in tasks:
            yield task, EngineError("a worker does not find the source")

    monkeypatch.setattr(pipeline, "engine_of", lambda _name, _options: broken)
    with pytest.raises(EngineError, match="does not find"):
        deidentify(hospital.write(), tmp_path / "out", policy=policy, key=key)
