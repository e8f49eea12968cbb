import datetime as dt
import os
import pickle
import stat
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from updp.core.keys import SHIFT_WEEKS, BadKey, Key
from updp.core.record import BENCHMARK_KEY, split_of

KEY = Key(bytes(range(32)))
OTHER = Key(bytes(32))


@pytest.mark.posix
def test_a_new_key_is_readable_by_its_owner_only_and_loads_again(tmp_path):
    made = Key.create(tmp_path / "sub" / "key")
    assert stat.S_IMODE(os.stat(tmp_path / "sub" / "key").st_mode) == 0o600
    assert Key.load(tmp_path / "sub" / "key") == made


def test_a_given_secret_is_the_key(tmp_path):
    assert Key.create(tmp_path / "key", bytes(32)) == OTHER == Key.load(tmp_path / "key")
    with pytest.raises(BadKey, match="32 bytes"):
        Key.create(tmp_path / "short", b"short")
    assert not (tmp_path / "short").exists()


def test_a_key_is_never_overwritten(tmp_path):
    Key.create(tmp_path / "key")
    with pytest.raises(BadKey, match="never overwritten"):
        Key.create(tmp_path / "key")


def test_a_key_that_cannot_be_written_whole_is_not_there(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="space"):
            Key.create(tmp_path / "key")
    assert list(tmp_path.iterdir()) == []
    made, new = Key.load_or_create(tmp_path / "key")
    assert new
    assert Key.load(tmp_path / "key") == made


def test_where_modes_say_nothing_a_key_is_not_refused_for_its_mode(tmp_path, monkeypatch):
    made = Key.create(tmp_path / "key")
    os.chmod(tmp_path / "key", 0o666)
    monkeypatch.setattr("updp.core.keys.os", SimpleNamespace(name="nt"))
    assert Key.load(tmp_path / "key") == made


def test_two_recipients_share_no_pseudonym_shift_or_stream_and_the_hospital_stays_the_same():
    one, two = KEY.for_recipient("Charité"), KEY.for_recipient("Mayo")
    for use, parts in (("patient", "p"), ("study", "ps"), ("film", "f"), ("uid", "1"), ("seed", "x")):
        assert len({getattr(key, use)(*parts) for key in (one, two, KEY)}) == 3
    assert len({key.digest("surrogate", "Smith") for key in (one, two, KEY)}) == 3
    assert [one.shift(str(n)) for n in range(40)] != [two.shift(str(n)) for n in range(40)]
    assert one.ref("f") == two.ref("f") == KEY.ref("f")
    assert one.fingerprint == two.fingerprint == KEY.fingerprint
    assert one.vault_key() == two.vault_key() == KEY.vault_key()
    assert one.signer().private_bytes_raw() == KEY.signer().private_bytes_raw()
    assert one != two
    assert pickle.loads(pickle.dumps(one)) == one == KEY.for_recipient("Charité") == two.for_recipient("Charité")
    assert KEY.for_recipient(None) == KEY.for_recipient("") == KEY


@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_others_may_read_is_refused_with_the_command_that_repairs_it(tmp_path, mode):
    Key.create(tmp_path / "key")
    os.chmod(tmp_path / "key", mode)
    with pytest.raises(BadKey, match="chmod 600"):
        Key.load(tmp_path / "key")


@pytest.mark.posix
@pytest.mark.parametrize("text", ["", "hello", "updp-key-1:", "updp-key-1:AAAA", "updp-key-1:@@@@", "updp-key-2:AAAA"])
def test_a_damaged_key_file_is_refused_without_showing_it(tmp_path, text):
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(BadKey) as caught:
        Key.load(path)
    assert "@@@@" not in str(caught.value)


def test_a_missing_key_file_is_named(tmp_path):
    with pytest.raises(BadKey, match="no key file"):
        Key.load(tmp_path / "none")


def test_neither_repr_nor_fingerprint_shows_the_secret():
    assert bytes(range(32)).hex() not in repr(KEY)
    assert KEY.fingerprint in repr(KEY)
    assert KEY.fingerprint != OTHER.fingerprint


@given(st.text(), st.text())
def test_pseudonyms_agree_exactly_when_ids_do(a, b):
    assert (KEY.patient(a) == KEY.patient(b)) == (a == b)
    assert (KEY.film(a) == KEY.film(b)) == (a == b)
    assert KEY.patient(a) != OTHER.patient(a)


@given(st.text(), st.text(), st.text())
def test_parts_of_a_digest_do_not_run_together(a, b, c):
    assert KEY.digest("use", a + b, c) != KEY.digest("use", a, b + c) or not b


def test_the_same_id_has_unrelated_names_in_different_uses():
    assert len({KEY.patient("7")[1:], KEY.film("7")[1:16], KEY.ref("7")[1:], KEY.study("7", "7")[1:]}) == 4


@given(st.text())
def test_shifts_go_back_whole_weeks_within_the_stated_range(patient):
    shift = KEY.shift(patient)
    assert shift.days % 7 == 0
    assert SHIFT_WEEKS[0] <= -shift.days // 7 <= SHIFT_WEEKS[1]
    day = dt.date(2019, 3, 4)
    assert (day + shift).weekday() == day.weekday()


@given(st.text())
def test_uids_are_valid_dicom_uids(uid):
    made = KEY.uid(uid)
    assert len(made) <= 64
    assert all(part == "0" or not part.startswith("0") for part in made.split("."))


def test_random_streams_depend_on_their_name_and_on_nothing_else():
    first = KEY.rng("film", "a").random(4)
    KEY.rng("film", "b").random(100)
    assert (KEY.rng("film", "a").random(4) == first).all()
    assert (KEY.rng("film", "b").random(4) != first).any()


def test_a_key_survives_the_way_to_a_worker_process():
    assert pickle.loads(pickle.dumps(KEY)) == KEY


def test_splits_keep_a_patient_together_and_have_the_stated_shares():
    splits = [split_of(str(n), BENCHMARK_KEY) for n in range(20_000)]
    assert splits[:3] == [split_of(str(n), BENCHMARK_KEY) for n in range(3)]
    assert splits.count("train") / 20_000 == pytest.approx(0.7, abs=0.02)
    assert splits.count("val") / 20_000 == pytest.approx(0.1, abs=0.01)
