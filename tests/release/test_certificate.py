import datetime as dt
import json
from dataclasses import replace

import pytest

from updp.core.keys import Key
from updp.core.measurement import Measurement
from updp.core.policy import GatePolicy, MethodPolicy, Policy
from updp.core.questions import Kind, Outcome
from updp.release import certificate
from updp.release.certificate import Certificate, Fault, Subject
from updp.release.gate import judge
from updp.release.signature import public_key

TODAY = dt.date(2026, 11, 17)
BLUR = MethodPolicy(name="blur", strength=0.5)


def measured(metric, value, low, high, question):
    return Measurement(metric, value, low, high, 600, 0.5, "higher", question=question)


def made(subject=None, **changes):
    found = (
        measured("diagnostic skill kept", 0.97, 0.95, 0.99, "utility"),
        measured("strongest membership", 0.51, 0.50, 0.54, "membership"),
    )
    cohort = {"films": 2000, "patients": 600, "views": {"PA": 0.7, "AP": 0.3}, "findings": {}, "ages": {}}
    return Certificate(**({"subject": subject or Subject.of(BLUR), "made": TODAY, "cohort": cohort,
                           "measurements": found} | changes))  # fmt: skip


@pytest.fixture
def signer():
    return Key(bytes(range(32)))


@pytest.fixture
def signed(tmp_path, signer):
    """Writes a certificate and gives a policy that names and trusts it."""

    def write(one, *, trust=True, method=BLUR, **gate):
        path = tmp_path / "certificate.json"
        certificate.write(path, one, signer)
        trusted = (public_key(signer),) if trust else ()
        return Policy(method=method, gate=GatePolicy(certificates=(str(path),), certifiers=trusted, **gate)), path

    return write


def faults(policy):
    return [proof.detail for proof in certificate.find(policy, TODAY).proofs if not proof.held]


def test_a_certificate_that_matches_answers_the_questions_it_measured(signed):
    policy, _ = signed(made())
    found = certificate.find(policy, TODAY)
    assert {proof.question for proof in found.proofs} == {"utility", "membership"}
    assert all(proof.held and proof.kind is Kind.CERTIFIED for proof in found.proofs)
    assert len(found.signed) == 1
    verdict = judge(policy.gate, released=40, quarantined=0, disjoint=True, proofs=found.proofs)
    check = verdict.check("utility")
    assert (check.outcome, check.kind) == (Outcome.HELD, Kind.CERTIFIED)
    assert "certified on 2000 films of 600 patients, 2026-11-17" in check.detail


def test_a_certificate_beyond_the_bound_of_the_policy_does_not_answer(signed):
    low = measured("diagnostic skill kept", 0.5, 0.4, 0.6, "utility")
    policy, _ = signed(made(measurements=(low,)))
    found = certificate.find(policy, TODAY)
    verdict = judge(policy.gate, released=40, quarantined=0, disjoint=True, proofs=found.proofs)
    assert verdict.check("utility").outcome is not Outcome.HELD


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"method": "pixelate"}, Fault.METHOD),
        ({"strength": 0.25}, Fault.STRENGTH),
        ({"options": {"sigma": 3}}, Fault.OPTIONS),
        ({"packs": {"pack": "0" * 64}}, Fault.PACK),
        ({"version": "0.0.0"}, Fault.VERSION),
        ({"domain": "face"}, Fault.DOMAIN),
    ],
)
def test_a_certificate_of_anything_else_blocks_with_the_reason(signed, change, fault):
    policy, _ = signed(made(replace(Subject.of(BLUR), **change)))
    assert [detail for detail in faults(policy) if fault.value in detail]
    verdict = judge(
        policy.gate, released=40, quarantined=0, disjoint=True, proofs=certificate.find(policy, TODAY).proofs
    )
    assert verdict.status == "blocked"


def test_an_unknown_signer_is_not_believed(signed):
    policy, _ = signed(made(), trust=False)
    assert [detail for detail in faults(policy) if Fault.UNKNOWN_SIGNER.value in detail]


@pytest.mark.parametrize("field", ["measurements", "cohort", "made", "subject"])
def test_no_part_of_a_certificate_can_be_altered(signed, field):
    policy, path = signed(made())
    whole = json.loads(path.read_text())
    other = made(
        replace(Subject.of(BLUR), strength=0.4),
        made=TODAY - dt.timedelta(days=1),
        cohort={"films": 1, "patients": 1, "views": {}, "findings": {}, "ages": {}},
        measurements=(measured("diagnostic skill kept", 1.0, 1.0, 1.0, "utility"),),
    )
    whole["certificate"][field] = other.to_json()[field]
    path.write_text(json.dumps(whole))
    assert [detail for detail in faults(policy) if Fault.ALTERED.value in detail]


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"certificate": {"format": "x"}}'])
def test_what_is_no_certificate_is_said_to_be_none(signed, raw):
    policy, path = signed(made())
    path.write_bytes(raw)
    assert [detail for detail in faults(policy) if Fault.UNREADABLE.value in detail]


@pytest.mark.parametrize("wrong", [None, 1, "text", [], ["text"], [1], {}, {"a": 1}])
@pytest.mark.parametrize("field", ["format", "subject", "made", "cohort", "measurements"])
def test_a_certificate_of_the_wrong_shape_is_a_fault_and_no_crash(signed, field, wrong):
    policy, path = signed(made())
    whole = json.loads(path.read_text())
    whole["certificate"][field] = wrong
    path.write_text(json.dumps(whole))
    assert faults(policy)


def test_a_certificate_nested_without_end_is_a_fault_and_no_crash(signed):
    policy, path = signed(made())
    path.write_text('{"certificate": ' + "[" * 100_000)
    assert faults(policy)


def test_a_missing_file_is_a_fault_and_no_crash(signed):
    policy, path = signed(made())
    path.unlink()
    assert faults(policy)


@pytest.mark.parametrize(("days", "good"), [(None, True), (30, True), (29, False)])
def test_a_policy_may_let_certificates_expire(signed, days, good):
    policy, _ = signed(made(made=TODAY - dt.timedelta(days=30)), certificate_days=days)
    expired = [detail for detail in faults(policy) if Fault.EXPIRED.value in detail]
    assert bool(expired) is not good


def test_a_policy_that_accepts_no_certificates_reads_none(signed):
    policy, _ = signed(made(), accept=(Kind.MEASURED,))
    assert certificate.find(policy, TODAY) == certificate.Found()


def test_further_blocked_words_of_a_hospital_leave_the_certificate_valid():
    plain = Subject.of(MethodPolicy(name="updp", strength=1.0))
    blocked = Subject.of(MethodPolicy(name="updp", strength=1.0, options={"block": ["Miller"]}))
    assert plain.fault(blocked) is None
    assert plain.fault(Subject.of(MethodPolicy(name="updp", strength=1.0, options={"allow": ["x"]}))) is Fault.OPTIONS


def test_paths_of_certificates_stay_in_the_hospital(signed):
    policy, path = signed(made())
    assert str(path) not in policy.public().to_toml()


def test_where_a_release_is_unlike_the_cohort_is_said():
    cohort = {"views": {"PA": 0.9, "AP": 0.1}, "findings": {"Effusion": 0.2}}
    release = {"views": {"PA": 0.3, "AP": 0.7}, "findings": {"Effusion": 0.25}}
    said = certificate.differences(cohort, release)
    assert said == [
        "views AP: 70% of this release, 10% of the cohort",
        "views PA: 30% of this release, 90% of the cohort",
    ]


@pytest.fixture
def ships(tmp_path, signer, monkeypatch):
    """A package that brings one certificate and its signer."""
    folder = tmp_path / "certificates"
    folder.mkdir()
    certificate.write(folder / "blur.json", made(), signer)
    (folder / "signers.txt").write_text(public_key(signer) + "\n")
    monkeypatch.setattr(certificate, "shipped", lambda: folder)
    return folder


def test_a_certificate_of_the_package_counts_where_it_matches_and_is_passed_over_where_it_does_not(ships):
    assert {proof.question for proof in certificate.find(Policy(method=BLUR), TODAY).proofs} == {
        "utility",
        "membership",
    }
    assert certificate.find(Policy(method=MethodPolicy(name="blur", strength=0.4)), TODAY) == certificate.Found()


def test_a_hospital_may_shut_out_the_certificates_of_the_package(ships):
    policy = Policy(method=BLUR, gate=GatePolicy(shipped_certificates=False))
    assert certificate.find(policy, TODAY) == certificate.Found()


def test_a_signer_of_the_package_is_trusted_for_nothing_that_did_not_come_with_it(ships, signed):
    policy, _ = signed(made(), trust=False)
    assert [detail for detail in faults(policy) if Fault.UNKNOWN_SIGNER.value in detail]


def test_a_certificate_put_beside_those_of_the_package_needs_one_of_its_signers(ships):
    (ships / "blur.json").unlink()
    certificate.write(ships / "other.json", made(), Key(bytes(32)))
    assert certificate.find(Policy(method=BLUR), TODAY) == certificate.Found()


def test_an_option_newer_than_certificates_is_stated_only_where_it_is_chosen():
    usual = Subject.of(MethodPolicy(name="updp", strength=1.0))
    chosen = Subject.of(MethodPolicy(name="updp", strength=1.0, options={"iterations": 2}))
    assert "iterations" not in usual.options
    assert usual.fault(chosen) is Fault.OPTIONS


def test_the_default_method_ships_with_a_certificate_that_matches():
    subject, trusted = Subject.of(Policy().method), certificate.shipped_signers()
    checked = [
        certificate.check(f.read_bytes(), subject, trusted, Policy(), TODAY) for f in certificate.shipped_files()
    ]
    matching = [one for one in checked if isinstance(one, Certificate)]
    assert matching, "make it again: python performance/regenerate.py --only certificate-updp-1 --install"
    assert any(m.measured and m.metric == "diagnostic skill kept" for one in matching for m in one.measurements)
