"""The judge: evidence lands in the release, which is sealed anew under the name its verdict gives it."""

import json

import numpy as np
import pytest

import updp
from tests.conftest import CANARIES, Hospital, same_tree, sweep
from tests.evaluation.fake_probes import Broken, Fixed, PixelLinkage, few, figure, passing
from updp.core.cache import default_folder, size_of
from updp.core.measurement import Measurement, find
from updp.core.policy import Policy
from updp.core.questions import Exemption, Outcome
from updp.core.storage import OutputError
from updp.domains.chest import PACK
from updp.evaluation.cohort.load import NotComparable
from updp.evaluation.evaluate import evaluate, run_probes
from updp.release.assemble import finished
from updp.release.signature import public_key


def judge(made, key, probes, **options):
    hospital, outcome = made
    return evaluate(outcome.folder, hospital.root, key=key, probes=probes, **options)


def test_a_release_that_holds_is_passed_and_sealed_anew(made, key):
    result = judge(made, key, passing())
    assert result.status == "passed"
    assert (made[1].folder.name, result.folder.name) == ("unmeasured", "release")
    assert not made[1].folder.exists()
    checked = updp.verify(result.folder, trusted=public_key(key))
    assert checked.intact
    assert checked.status == "passed"
    assert finished(result.folder.parent).status == "passed"
    assert "Status: passed" in (result.folder / "README.md").read_text()
    assert "status passed" in (result.folder / "croissant.json").read_text()


def test_a_release_that_fails_is_called_blocked(made, key):
    copies = [PixelLinkage(), *passing()[1:]]  # method "keep": every film is its own copy
    result = judge(made, key, copies)
    assert result.status == "blocked"
    assert result.folder.name == "blocked"
    assert not made[1].folder.exists()
    assert not [path for path in result.folder.parent.iterdir() if path.name.startswith(".")]
    linkage = find(result.measurements, "film linkage")
    assert linkage.value > 0.95
    assert updp.verify(result.folder, trusted=public_key(key)).status == "blocked"


def test_a_blocked_release_that_holds_after_all_becomes_a_release(made, key):
    first = judge(made, key, [PixelLinkage(), *passing()[1:]])
    hospital, _ = made
    second = evaluate(first.folder, hospital.root, key=key, probes=passing())
    assert second.folder.name == "release"
    assert not first.folder.exists()


def test_a_folder_in_the_way_is_not_overwritten(made, key):
    (made[1].folder.parent / "blocked").mkdir()
    with pytest.raises(OutputError, match="already a folder named blocked"):
        judge(made, key, [PixelLinkage()])
    assert updp.verify(made[1].folder, trusted=public_key(key)).intact


@pytest.mark.posix
def test_the_hospitals_copy_touches_nothing_and_shows_real_films(made, key, tmp_path):
    before = {p: p.read_bytes() for p in made[1].folder.rglob("*") if p.is_file()}
    result = judge(made, key, passing(), out=tmp_path / "copy")
    assert {p: p.read_bytes() for p in made[1].folder.rglob("*") if p.is_file()} == before
    page = result.report.read_text("utf-8")
    assert "real film" in page
    assert {p.name: p.stat().st_mode & 0o777 for p in (tmp_path / "copy").iterdir()} == {
        "evaluation.json": 0o600,
        "report.html": 0o600,
    }


def test_the_releases_own_report_shows_no_real_film(made, key):
    page = judge(made, key, passing()).report.read_text("utf-8")
    assert 'alt="real film"' not in page
    assert page.count('alt="released film"') == 8


def test_the_hospitals_copy_may_not_lie_inside_the_release(made, key):
    for place in (made[1].folder, made[1].folder / "evidence" / "copy"):
        with pytest.raises(NotComparable, match="may not lie inside the release"):
            judge(made, key, passing(), out=place)
        with pytest.raises(NotComparable, match="may not lie inside the release"):
            judge(made, key, passing(), cache=place)


def test_real_films_are_kept_outside_the_output_unless_the_user_says_where(made, key, tmp_path):
    result = judge(made, key, passing())
    assert result.cache == default_folder()
    assert size_of(result.cache) >= 40 * 64 * 64
    assert made[1].folder.parent not in result.cache.parents
    again = evaluate(result.folder, made[0].root, key=key, probes=passing(), cache=tmp_path / "mine")
    assert again.cache == tmp_path / "mine"


def test_a_release_for_a_recipient_is_evaluated_with_his_pseudonyms(tmp_path, key, policy):
    hospital = Hospital(tmp_path / "export", films=24)
    made = updp.deidentify(
        hospital.write(), tmp_path / "out", policy=policy, key=key, workers=1, recipient="Charité", check_content=True
    )
    assert evaluate(made.folder, hospital.root, key=key, probes=passing()).status == "passed"


def test_an_attack_that_fails_is_an_open_question_and_blocks(made, key):
    probes = [p for p in passing() if p.question != "film"] + [Broken()]
    result = judge(made, key, probes)
    assert result.status == "blocked"
    assert [m.reason for m in result.missing] == ["it failed (RuntimeError)"]


def test_too_few_patients_are_said_with_how_many_it_takes(made, key):
    result = judge(made, key, [p for p in passing() if p.question != "film"] + [few()])
    check = result.verdict.check("film")
    assert check.outcome is Outcome.UNANSWERED
    assert "too few patients: 3, at least 10 needed" in check.detail


def test_a_question_nobody_asked_is_not_measured(made, key):
    result = judge(made, key, passing()[:1])
    assert result.status == "not-measured"
    assert "Not every question" in (result.folder / "README.md").read_text()


def test_questions_that_do_not_arise_are_told(made, key):
    result = judge(made, key, [p for p in passing() if p.question != "membership"])
    assert result.status == "passed"
    assert result.verdict.check("membership").exemption is Exemption.LEARNED_NOTHING


def test_the_pack_is_the_releases_own_unless_another_is_asked_for(made, key, tmp_path, monkeypatch):
    import updp.models
    from updp.methods import METHODS, pack_of
    from updp.methods.keep import Keep
    from updp.methods.options import MethodOptions

    class OnAPack(Keep):
        class Options(MethodOptions):
            pack: str = "its default"

    monkeypatch.setitem(METHODS._places, "keep", OnAPack)
    asked = []
    load = updp.models.load_pack

    def record(name, verify=True):
        asked.extend([name] if verify else [])  # certificates look a pack up without opening it
        return load(PACK, verify)

    monkeypatch.setattr(updp.models, "load_pack", record)
    judge(made, key, passing(), out=tmp_path / "a")
    judge(made, key, passing(), out=tmp_path / "b", pack="another")
    assert asked == ["its default", "another"]
    assert pack_of("keep", {"pack": "chosen"}, "the domain's") == "chosen"
    assert pack_of("blur", {}, "the domain's") == "the domain's"


def test_a_release_without_reports_has_no_question_about_them(tmp_path, key, policy, hospital):
    for row in hospital.rows:
        row["findings"] = ""
    outcome = updp.deidentify(hospital.write(), tmp_path / "out", policy=policy, key=key, workers=1)
    result = evaluate(outcome.folder, hospital.root, key=key, probes=[p for p in passing() if p.question != "text"])
    assert result.verdict.check("text").exemption is Exemption.NO_REPORTS


def test_evidence_holds_every_measurement_and_how_it_was_made(made, key):
    result = judge(made, key, [PixelLinkage(), *passing()[1:], Broken("membership")], seed=7)
    facts = json.loads((result.folder / "evidence" / "evaluation.json").read_bytes())
    assert [Measurement.from_json(m).name for m in facts["measurements"]] == [m.name for m in result.measurements]
    about = facts["evaluation"]
    assert about["seed"] == 7
    assert about["budget"]["pairs"] == 100
    assert about["pack"]["name"] == PACK
    assert len(about["pack"]["sha256"]) == len(about["manifest_sha256"]) == 64
    assert sum(about["patients"].values()) == 20
    assert facts["counts"]["released"] == 40


def test_no_name_or_number_of_a_patient_is_in_the_evidence(made, key, tmp_path):
    probes = [PixelLinkage(), *passing()[1:], Broken("membership"), few("text")]
    judge(made, key, probes, out=tmp_path / "copy")
    judge(made, key, probes)
    assert sweep(made[1].folder.parent, skip=(".cache",)) == []
    assert sweep(tmp_path / "copy") == []
    assert sweep(made[1].folder.parent / ".cache", ("Zanthora",)) == []


def test_a_message_that_quotes_the_data_is_never_kept(made, key, caplog):
    result = judge(made, key, [Broken()])
    told = json.dumps(result.facts) + caplog.text
    assert not any(word in told for word in CANARIES)


def test_the_same_evaluation_gives_the_same_bytes(made, key, tmp_path):
    probes = [PixelLinkage(), *passing()[1:]]
    judge(made, key, probes, out=tmp_path / "a")
    judge(made, key, probes, out=tmp_path / "b")
    for name in ("evaluation.json", "report.html"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    again = judge(made, key, probes)
    state = {p.name for p in again.folder.iterdir()}
    twice = evaluate(again.folder, made[0].root, key=key, probes=probes)
    assert {p.name for p in twice.folder.iterdir()} == state
    assert same_tree(again.folder, twice.folder)


def test_a_probe_draws_the_same_numbers_whoever_runs_beside_it(made, key):
    class Draws(Fixed):
        def run(self, exhibit, pack, budget, rng, cache=None, method=None):
            value = float(rng.random())
            return [figure("drawn", value, value, value)]

    one, other = Draws("text", name="one"), Draws("text", name="other")
    alone = run_probes(None, None, None, 0, probes=[one])
    beside = run_probes(None, None, None, 0, probes=[other, one])
    assert alone[0].value == beside[1].value != beside[0].value
    assert run_probes(None, None, None, 1, probes=[one])[0].value != alone[0].value


def test_progress_names_every_probe(made, key):
    told = []
    judge(made, key, passing(), progress=lambda *args: told.append(args))
    assert [name for name, _, _ in told] == [p.name for p in passing()] + [""]
    assert told[-1][1:] == (5, 5)


def test_noise_instead_of_films_links_nothing(made, key, tmp_path):
    policy = Policy.parse("[burned_in]\nmode='off'\n[image]\nsize=64\n[method]\nname='dp-pix'\nstrength=1.0\n")
    outcome = updp.deidentify(made[0].root, tmp_path / "noise", policy=policy, key=key, workers=1)
    result = evaluate(outcome.folder, made[0].root, key=key, probes=[PixelLinkage()])
    found = find(result.measurements, "film linkage")
    assert found.value < 0.75
    assert np.isfinite(found.high)
