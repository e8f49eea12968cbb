"""Waiting threads sleep in a program of ours; inside another program one thread is used."""

from __future__ import annotations

from updp.core.threads import PASSIVE, threads, wait_passively


def test_two_threads_are_used_only_where_waiting_threads_sleep(monkeypatch):
    for name in PASSIVE:
        monkeypatch.setenv(name, "")  # else what the call sets stays after the test
        monkeypatch.delenv(name)
    assert threads() == 1
    wait_passively()
    assert threads() == 2


def test_what_the_user_has_set_stays(monkeypatch):
    for name in PASSIVE:
        monkeypatch.setenv(name, "mine")
    wait_passively()
    assert threads() == 1
