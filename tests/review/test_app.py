"""The server without a browser: who gets what, what is refused, what every answer carries."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import shutil
import threading
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="needs the extra `review`")
from starlette.testclient import TestClient

import updp
from tests.conftest import CANARIES, PLAIN, Hospital
from tests.review.conftest import released, wait_until
from tests.sources.exports import write_dicom
from updp.core.keys import Key
from updp.core.policy import Policy
from updp.pipeline.decisions import Kind, read_decisions
from updp.release import manifest
from updp.release.gate import Check
from updp.release.verify import verify
from updp.review.answers import Answers, BadAnswer, check_turn
from updp.review.app import Study, make_app
from updp.review.desk import Desk, NoDesk
from updp.review.sessions import LIFETIME, BadProxy, BadToken, Guard, Proxy

from .test_answers import answer
from .test_design import NATIVE

HOST = "127.0.0.1:8000"


class Browser(TestClient):
    """A client with a session."""

    def come_in(self, guard: Guard, role: str, name: str) -> Browser:
        assert self.get("/enter/" + guard.token(role, name), follow_redirects=False).status_code == 303
        return self

    @property
    def code(self) -> str:
        found = re.search(r'name="form-code" content="(\w+)"', self.get("/").text)
        assert found
        return found[1]


def client(app) -> Browser:
    return Browser(app, base_url=f"http://{HOST}", raise_server_exceptions=False)


@pytest.fixture
def guard(key):
    return Guard(key, "here")


@pytest.fixture(scope="module")
def opened_once(made_once, tmp_path_factory):
    """A desk whose release is checked and whose films are measured, and the folder it is on."""
    root = shutil.copytree(made_once, tmp_path_factory.mktemp("opened") / "made")
    desk = Desk(root / "out", Key(bytes(range(32))), classify=False)
    desk._beside()
    return root, desk.verification


@pytest.fixture
def made(opened_once, tmp_path):
    """A copy of that folder, which a test may change."""
    return shutil.copytree(opened_once[0], tmp_path / "made")


@pytest.fixture
def desk(made, opened_once, key):
    found = Desk(made / "out", key, classify=False)
    found.verification = opened_once[1]
    return found


@pytest.fixture
def app(guard, desk, study, plan):
    return make_app(guard, {HOST}, desk, Study(study, plan, Answers(study, plan)))


@pytest.fixture
def officer(app, guard):
    return client(app).come_in(guard, "officer", "officer")


@pytest.fixture
def reader(app, guard):
    return client(app).come_in(guard, "reader", "reader 1")


def film_of(desk: Desk) -> dict:
    name = desk.index.films(desk_choice())[1][0]["release_id"]
    row = desk.index.film(name)
    assert row is not None
    return row


def desk_choice(**given):
    from updp.review.index import Choice

    return Choice(**given)


def test_a_token_opens_one_session(app, guard):
    token = guard.token("officer", "officer")
    entered = client(app).get("/enter/" + token, follow_redirects=False)
    assert entered.status_code == 303
    cookie = entered.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/"} < set(cookie.split("; "))
    for wrong in (token, "guess"):
        again = client(app).get("/enter/" + wrong)
        assert again.status_code == 403
        assert "used before" in again.text
        assert "set-cookie" not in again.headers


def test_a_session_ends_by_time_and_by_leaving_and_outlives_the_server(key):
    now = [1000.0]
    guard = Guard(key, "here", clock=lambda: now[0])
    _, cookie = guard.enter(guard.token("reader", "reader 1"))
    assert Guard(key, "here", clock=lambda: now[0]).who(cookie, {}) is not None
    assert Guard(key, "elsewhere").who(cookie, {}) is None
    assert Guard(Key(bytes(32)), "here").who(cookie, {}) is None
    other = Guard(key, "elsewhere")  # its cookie reaches this server too, and has another name
    assert other.cookie != guard.cookie
    for bad in (None, "", "x", "a.b", cookie[:-1], "." + cookie, cookie.replace(".", "..")):
        assert guard.who(bad, {}) is None
    person = guard.who(cookie, {})
    assert person is not None
    guard.leave(person)
    assert guard.who(cookie, {}) is None
    _, cookie = guard.enter(guard.token("reader", "reader 1"))
    now[0] += LIFETIME + 1
    assert guard.who(cookie, {}) is None
    with pytest.raises(BadToken):
        guard.enter("")


@pytest.mark.posix
def test_a_session_that_was_left_stays_so_after_a_restart(key, tmp_path):
    guard = Guard(key, "here", ended=tmp_path / "left")
    _, cookie = guard.enter(guard.token("officer", "officer"))
    again = Guard(key, "here", ended=tmp_path / "left").who(cookie, {})
    assert again is not None
    guard.leave(again)
    assert Guard(key, "here", ended=tmp_path / "left").who(cookie, {}) is None
    assert ((tmp_path / "left").stat().st_mode & 0o777) == 0o600


@pytest.mark.parametrize("path", ["/", "/desk", "/desk/wall", "/desk/films", "/desk/quarantine", "/read", "/read/plan"])
def test_without_a_session_there_is_nothing_to_see(app, path):
    answer = client(app).get(path)
    assert answer.status_code == 401
    assert "Open the page with your link" in answer.text


def test_a_reader_sees_no_original_and_an_officer_no_study(officer, reader, desk):
    row = film_of(desk)
    for path in ("/desk", "/desk/wall", f"/desk/film/{row['release_id']}/original.png", "/desk/decisions"):
        assert reader.get(path).status_code == 403
    assert officer.get("/read").status_code == 403
    assert officer.get("/read/plan").status_code == 403


def test_every_answer_says_that_nothing_is_kept_or_fetched_elsewhere(officer, desk):
    row = film_of(desk)
    for path in ("/desk", "/nowhere", f"/desk/strip/{row['release_id']}", "/static/review.css"):
        headers = officer.get(path).headers
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"  # under no-referrer our own forms come from "null"


def test_pages_have_no_inline_script_or_style(officer, desk):
    row = film_of(desk)
    for path in ("/desk", "/desk/wall", f"/desk/film/{row['release_id']}", "/desk/quarantine", "/desk/decisions"):
        text = officer.get(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://", text)


def test_no_identifier_is_in_an_address_or_a_title(officer, desk):
    row = film_of(desk)
    kept = desk.index.quarantine()[0]["ref"]
    for path in ("/desk", "/desk/wall", f"/desk/film/{row['release_id']}", "/desk/quarantine", f"/desk/study/{kept}"):
        text = officer.get(path).text
        places = re.findall(r'(?:href|src|action|data-film)="([^"]*)"|<title>(.*?)</title>', text)
        assert not any(word in str(places) for word in CANARIES)


def test_another_host_name_is_refused(app):
    assert TestClient(app, base_url="http://evil.example").get("/").status_code == 421


def test_a_form_needs_the_code_of_its_session(officer, app, guard, desk):
    row = film_of(desk)
    form = {"kind": "keep back", "ref": row["ref"], "film": row["release_id"]}
    other = client(app).come_in(guard, "officer", "other")
    for code in ({}, {"code": "0" * 64}, {"code": "é"}, {"code": other.code}):
        assert officer.post("/desk/decide", data=form | code).status_code == 403
    for origin in ("http://evil.example", "null"):
        cross = officer.post("/desk/decide", data=form | {"code": officer.code}, headers={"origin": origin})
        assert cross.status_code == 403
    assert client(app).post("/desk/decide", data=form).status_code == 401
    assert officer.post("/desk/decide", content=b"x" * 70_000).status_code == 413
    assert not read_decisions(desk.out, desk.key).lines


@pytest.mark.parametrize(
    ("path", "status"),
    [("/nowhere", 404), ("/desk/film/none", 404), ("/desk/strip/none,no", 404), ("/desk/study/none", 404),
     ("/static/..%2fapp.py", 404), ("/static/none.css", 404), ("/desk/films?offset=x", 422), ("/leave", 405)],
)  # fmt: skip
def test_there_is_a_page_for_every_error(officer, path, status):
    answer = officer.get(path)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert re.search(r"<h1>[A-Z][^<]+</h1><p>[A-Z]", answer.text)
    assert "Back to the start" in answer.text


def test_a_fault_of_the_server_shows_no_detail(officer, desk, monkeypatch):
    monkeypatch.setattr(desk.index, "films", lambda *_: (_ for _ in ()).throw(KeyError(CANARIES[0])))
    answer = officer.get("/desk/wall")
    assert answer.status_code == 500
    assert CANARIES[0] not in answer.text
    assert "Something went wrong" in answer.text


def test_no_identifier_reaches_a_log(officer, desk, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    row = film_of(desk)
    kept = desk.index.quarantine()[0]["ref"]
    for path in ("/desk", f"/desk/film/{row['release_id']}", f"/desk/study/{kept}", "/desk/study/" + CANARIES[0]):
        officer.get(path)
    monkeypatch.setattr(desk.index, "films", lambda *_: (_ for _ in ()).throw(KeyError(CANARIES[0])))
    assert officer.get("/desk/wall").status_code == 500
    own = [line for line in caplog.records if not line.name.startswith("httpx")]  # the browser's, not the server's
    assert "KeyError" in str([line.getMessage() for line in own])
    assert not any(word in line.getMessage() for line in own for word in CANARIES)


@pytest.mark.parametrize("offset", [10**30, -(10**30), 2**63])
def test_beyond_the_last_film_there_are_none(officer, offset):
    answer = officer.get(f"/desk/films?offset={offset}&limit={10**30}")
    assert answer.status_code == 200
    assert len(answer.json()["rows"]) == (40 if offset < 0 else 0)


def test_a_form_without_a_length_is_cut(officer):
    def parts():
        for _ in range(20):
            yield b"x" * 10_000

    assert officer.post("/desk/decide", content=parts()).status_code == 413


def test_the_report_opens_from_the_desk_and_runs_no_script(officer, reader, desk):
    assert 'href="/desk/report"' in officer.get("/desk").text
    page = officer.get("/desk/report")
    assert page.content == (desk.folder / "evidence" / "report.html").read_bytes()
    assert page.headers["content-security-policy"].startswith("sandbox; default-src 'none'; style-src")
    assert "script-src" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert reader.get("/desk/report").status_code == 403


def test_the_wall_says_what_was_decided(officer, desk):
    row = film_of(desk)
    form = {"code": officer.code, "kind": "keep back", "ref": row["ref"], "film": row["release_id"], "words": "a ring"}
    told = lambda: {tile[0]: tile[5] for tile in officer.get("/desk/films").json()["rows"] if tile[5]}  # noqa: E731
    assert told() == {}
    officer.post("/desk/decide", data=form)
    assert told() == {row["release_id"]: "keep back"}
    officer.post("/desk/decide", data=form | {"kind": "withdraw"})
    assert told() == {}
    kept = desk.index.quarantine()[0]["ref"]
    for kind, shown in (("keep back", 1), ("withdraw", 0)):
        officer.post("/desk/decide", data={"code": officer.code, "kind": kind, "ref": kept})
        assert officer.get("/desk/quarantine").text.count("pill wait") == shown


def test_a_decision_keeps_the_place_on_the_wall(officer, desk):
    choice = {"finding": "Effusion", "order": "nearest"}
    rows = officer.get("/desk/films", params=choice).json()["rows"]
    name, after = rows[3][0], rows[4][0]
    page = officer.get(f"/desk/film/{name}", params=choice).text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.partition("<textarea")[0]))
    form = {field: value.replace("&amp;", "&") for field, value in form.items()}
    shown = officer.post("/desk/decide", data=form | {"kind": "keep back", "words": "a ring"})
    assert f'data-after="{after}"' in shown.text
    assert "It takes effect when" in shown.text
    assert dict(shown.url.params) == choice
    form["query"] = "order=nearest&x=\r\nset-cookie: a=b&view=%0d%0a"
    again = officer.post("/desk/decide", data=form | {"kind": "withdraw"}, follow_redirects=False)
    assert again.headers["location"] == f"/desk/film/{name}?view=%0D%0A&order=nearest"


def test_an_order_stays_while_films_are_measured(officer, desk):
    with closing(desk.index._open()) as base, base:
        base.execute("UPDATE films SET likeness = NULL WHERE place >= 8")
    films = lambda query: [row[0] for row in officer.get(f"/desk/films?{query}").json()["rows"]]  # noqa: E731
    wall = officer.get("/desk/wall?order=nearest").text
    (query,) = re.findall(r'data-query="([^"]*)"', wall)
    query = query.replace("&amp;", "&")
    before = films(query)
    assert "the first 8 films" in wall
    page = officer.get(f"/desk/film/{before[3]}?{query}").text
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.partition("<textarea")[0]))
    desk._beside()
    assert films(query) == before
    form = {field: value.replace("&amp;", "&") for field, value in form.items()}
    shown = officer.post("/desk/decide", data=form | {"words": "a ring"})
    assert re.search('data-after="([^"]*)"', shown.text)[1] == before[4]
    anew = re.search('href="([^"]*)">put all 40', officer.get(f"/desk/wall?{query}").text)[1].replace("&amp;", "&")
    assert f'data-query="{anew.partition("?")[2]}"' in officer.get(anew).text
    assert films("order=nearest") == films(anew.partition("?")[2]) != before
    assert films("order=nearest&upto=1x") == films("order=nearest")


def test_an_order_stays_when_films_were_made_anew(officer, desk):
    rows = [row["release_id"] for row in desk.index.films(desk_choice())[1]]
    with closing(desk.index._open()) as base, base:  # as after a decision: this film is another one now
        base.execute("UPDATE films SET likeness = NULL WHERE release_id = ?", (rows[5],))
    for asked in ("order=nearest", "order=nearest&upto=8", "order=nearest&upto=40"):
        assert 'upto=5"' in officer.get(f"/desk/wall?{asked}").text
    assert 'upto=3"' in officer.get("/desk/wall?order=nearest&upto=3").text


def test_what_was_begun_before_the_release_was_made_anew_is_not_taken_for_the_new_one(desk, made, monkeypatch):
    begun, made_anew = threading.Event(), threading.Event()

    def old(failed=desk.verification):
        begun.set()
        assert made_anew.wait(300)
        return replace(failed, checks=(Check("films", "failed", "another film"),))

    desk.verification = None
    with monkeypatch.context() as patched:
        patched.setattr(desk, "_verify", old)
        first = threading.Thread(target=desk._beside)
        first.start()
        assert begun.wait(300)
    desk.apply()
    wait_until(lambda: not desk.work.running)
    made_anew.set()
    first.join(300)
    assert desk.verification.intact


def test_measuring_that_was_begun_before_the_release_was_made_anew_says_and_writes_nothing(desk, monkeypatch):
    begun, made_anew, likeness = threading.Event(), threading.Event(), desk._likeness

    def slow(ref, film):
        if not begun.is_set():
            begun.set()
            assert made_anew.wait(300)
            raise KeyError(ref)
        return likeness(ref, film)

    with closing(desk.index._open()) as base, base:
        base.execute("UPDATE films SET likeness = NULL")
    monkeypatch.setattr(desk, "_likeness", slow)
    first = threading.Thread(target=desk._beside)
    first.start()
    assert begun.wait(300)
    desk.apply()
    wait_until(lambda: not desk.work.running)
    made_anew.set()
    first.join(300)
    assert desk.looking.error == ""
    wait_until(lambda: desk.index.counts()["measured"] == 40)


def test_a_thumbnail_of_a_film_that_is_made_anew_is_drawn_again(desk, monkeypatch):
    (name,) = [row["release_id"] for row in desk.index.films(desk_choice())[1]][:1]
    drawn = []
    monkeypatch.setattr(desk, "_released_image", lambda file, mode: drawn.append(file) or Image.new("L", (8, 8)))
    for _ in range(2):
        desk.strip([name])
    assert len(drawn) == 1
    desk._turn += 1
    desk.strip([name])
    assert len(drawn) == 2


def test_while_originals_are_looked_for_pages_say_so(officer, made, key, app, guard):
    desk = Desk(made / "out", key, classify=False)  # nothing was looked for yet
    new = client(make_app(guard, {HOST}, desk)).come_in(guard, "officer", "officer")
    with closing(desk.index._open()) as base, base:
        base.execute("DELETE FROM originals")
        base.execute("DELETE FROM about WHERE name = 'originals'")
    path = f"/desk/film/{film_of(desk)['release_id']}"
    assert new.get("/desk/status").json()["seeking"]
    assert "still being looked for" in new.get(path).text
    assert "original.png" not in new.get(path).text
    desk.looking.error = "unexpected OSError"  # shown until the next start
    assert not new.get("/desk/status").json()["seeking"]
    assert "not all found" in new.get(path).text
    desk._beside()
    assert not new.get("/desk/status").json()["seeking"]
    assert "original.png" in new.get(path).text


def test_while_the_release_is_made_anew_pages_say_so(officer, desk, made):
    folder = released(made)
    folder.rename(made / "aside")
    desk.work.running = True
    for path in ("/desk", "/desk/films", f"/desk/film/{film_of(desk)['release_id']}/released.png"):
        answer = officer.get(path)
        assert answer.status_code == (200 if path == "/desk/films" else 503)
        assert path == "/desk/films" or "being made anew; wait a moment" in answer.text
    assert "is being made anew" in officer.get("/desk/decisions").text
    assert officer.get("/desk/status").json()["work"]["running"]
    desk.work.running = False
    assert "Run <code>updp deidentify</code>" in officer.get("/desk/decisions").text
    assert "did not end" in officer.get("/desk").text


def test_what_could_not_be_read_beside_the_server_is_said(officer, desk, monkeypatch):
    with closing(desk.index._open()) as base, base:
        base.execute("UPDATE films SET likeness = NULL")
    monkeypatch.setattr(desk.source, "load", lambda study: (_ for _ in ()).throw(KeyError(CANARIES[0])))
    desk._beside()
    for path in ("/desk", "/desk/wall"):
        assert "unexpected KeyError" in officer.get(path).text
        assert CANARIES[0] not in officer.get(path).text


def test_a_search_for_originals_that_was_stopped_begins_again(made, key):
    shutil.rmtree(made / "out" / "review")
    desk = Desk(made / "out", key, classify=False)
    desk.stop()
    desk._beside()
    assert not desk.index.has_originals()
    desk = Desk(made / "out", key, classify=False)
    desk._beside()
    assert desk.index.has_originals()
    assert desk.index.counts()["measured"] == 40


def test_a_quarantine_list_that_is_cut_says_so(officer, desk):
    reason = desk.index.quarantine()[0]["reason"]
    with closing(desk.index._open()) as base, base:
        base.executemany("INSERT INTO quarantine VALUES (?, 'read', ?, 1)", [(f"q{n}", reason) for n in range(2000)])
    page = officer.get(f"/desk/quarantine?reason={reason}").text
    assert "the first 2000 of 2001" in page
    assert page.count("/desk/study/") == 2000


def test_the_overview_lists_the_runs_of_the_folder_with_their_verdicts(officer, made, monkeypatch):
    assert "Releases in this folder" not in officer.get("/desk").text
    other = made / "later"
    shutil.copytree(made / "out", other)
    evidence = released(made).relative_to(made / "out") / "evidence" / "evaluation.json"
    facts = json.loads((other / evidence).read_bytes())
    facts["gate"]["status"] = "blocked"
    (other / evidence).write_text(json.dumps(facts))
    shutil.copytree(other, made / "of another hospital")
    (made / "of another hospital" / "run.json").write_text('{"key": "k0"}')
    page = officer.get("/desk").text
    table = page[page.index("Releases in this folder") :]
    rows = re.findall(r"<code>([^<]+)</code>.*?pill \w+\">([^<]+)<", table)
    assert rows == [("later", "Blocked"), ("out", "Not measured")]
    monkeypatch.setattr(type(made), "iterdir", lambda self: (_ for _ in ()).throw(PermissionError()))
    assert officer.get("/desk").status_code == 200


def test_the_officer_sees_before_and_after(officer, desk):
    page = officer.get(f"/desk/film/{film_of(desk)['release_id']}").text
    assert "Quibblesworth" in page  # the original report, with the name marked
    assert re.search(r'<mark class="gone"><span>[^<]*Quibblesworth[^<]*</span><small>staff</small></mark>', page)
    assert '<mark class="kept">effusion</mark>' in page
    left = page[page.index("<h3>Released</h3>") :]
    assert "Quibblesworth" not in left
    assert '<mark class="stands">' in left  # nobody takes the name in its place for the patient's


def test_films_are_filtered_and_ordered(desk):
    count = lambda **given: desk.index.films(desk_choice(**given))[0]  # noqa: E731
    assert count() == 40
    assert count(finding="Effusion") == 20
    assert count(finding="none") == 10
    assert count(view="PA") == 40
    assert count(view="AP") == 0
    near = [row["likeness"] for row in desk.index.films(desk_choice(order="nearest"))[1]]
    assert near == sorted(near, reverse=True)
    assert near[0] > 0.5
    ids = [row["release_id"] for row in desk.index.films(desk_choice())[1]]
    desk.index.measured({ids[5]: (0.1, 0.3), ids[2]: (0.2, 0.1)})
    unsure = [row["release_id"] for row in desk.index.films(desk_choice(order="unsure"))[1]]
    assert unsure == [ids[2], ids[5], *(one for one in ids if one not in (ids[2], ids[5]))]
    with closing(desk.index._open()) as base, base:
        base.execute("UPDATE films SET decided = 'rerolls 2' WHERE release_id = ?", (ids[7],))
    assert [row["release_id"] for row in desk.index.films(desk_choice(decided="rerolls 2"))[1]] == [ids[7]]
    assert ("rerolls 2", 1) in desk.index.choices()["decided"]
    assert desk.index.choices()["finding"] == [("Effusion", 20), ("Nodule", 20), ("none", 10)]


def test_films_of_the_wall_come_in_strips_in_the_order_asked(officer, desk):
    names = [row["release_id"] for row in desk.index.films(desk_choice())[1]][:3]
    (released := desk.folder / desk.index.file_names(names)[names[2]]).write_bytes(b"no film")
    strip = [np.asarray(Image.open(io.BytesIO(officer.get(f"/desk/strip/{one}").content)), float) for one in names]
    assert [part.shape for part in strip] == [(192, 192)] * 3
    both = officer.get(f"/desk/strip/{names[1]},{names[2]},{names[0]}")
    assert both.headers["content-type"] == "image/jpeg"
    found = np.asarray(Image.open(io.BytesIO(both.content)), float)
    for place, n in enumerate((1, 2, 0)):
        assert np.abs(found[:, 192 * place : 192 * (place + 1)] - strip[n]).mean() < 3
    assert strip[2].max() == 0, released  # a film that cannot be read leaves its place black
    smaller = Image.open(io.BytesIO(officer.get(f"/desk/strip/{names[0]},{names[1]}?side=100&gap=10").content))
    assert smaller.size == (220, 100)
    assert np.asarray(smaller, float)[:, 106:114].mean() < 20  # between two films
    assert np.asarray(smaller, float)[:, 5:105].mean() > 20
    assert Image.open(io.BytesIO(officer.get(f"/desk/strip/{names[0]}?side=99999").content)).size == (512, 512)


def test_neighbours_follow_the_choice(desk):
    choice = desk_choice(finding="Effusion", order="nearest")
    names = [row["release_id"] for row in desk.index.films(choice)[1]]
    assert desk.index.neighbours(names[0], choice) == (None, names[1])
    assert desk.index.neighbours(names[-1], choice) == (names[-2], None)
    assert desk.index.neighbours("none", choice) == (None, None)


def test_a_decision_is_logged_applied_and_the_release_verifies(officer, desk, made):
    row = film_of(desk)
    form = {"code": officer.code, "kind": "keep back", "ref": row["ref"], "film": row["release_id"], "words": "a ring"}
    assert "Decided: keep back" in officer.post("/desk/decide", data=form).text
    assert officer.get("/desk/status").json()["pending"] == 1
    officer.post("/desk/apply", data={"code": officer.code})
    wait_until(lambda: not officer.get("/desk/status").json()["work"]["running"])
    state = officer.get("/desk/status").json()
    assert state["work"]["error"] == ""
    assert state["pending"] == 0
    assert desk.index.film(row["release_id"]) is None
    assert desk.index.counts()["measured"] == 39  # of films that stay as they are; their originals are found again
    wait_until(lambda: not officer.get("/desk/status").json()["seeking"])
    assert desk.index.original(film_of(desk)["ref"]) is not None
    assert verify(released(made), accept_unknown_signer=True).intact
    assert "kept-back-by-officer" in officer.get("/desk/quarantine").text
    assert "a ring" in officer.get("/desk/decisions").text
    assert "The release has it" in officer.get(f"/desk/study/{row['ref']}").text


def test_every_kind_of_decision_is_taken_on_the_page_and_applied_together(key, guard, tmp_path):
    hospital = Hospital(tmp_path / "export", films=6)
    hospital.add(6, findings="Das Herz ist normal groß. Kein Pleuraerguss. Keine Stauung der Lunge.")
    hospital.write()
    policy = Policy.parse(PLAIN.replace("'keep'", "'pixelate'") + "[gate]\nmax_quarantined = 1.0\n")
    before = updp.deidentify(hospital.root, tmp_path / "out", policy=policy, key=key, workers=1).folder
    desk = Desk(tmp_path / "out", key, classify=False)
    officer = client(make_app(guard, {HOST}, desk)).come_in(guard, "officer", "officer")
    (kept,) = desk.index.quarantine()
    rows = {row["release_id"]: row for row in desk.index.films(desk_choice())[1]}
    withheld, redone, told = list(rows)[:3]

    def decided(ref: str, film: str = "", **form: str):
        return officer.post("/desk/decide", data={"code": officer.code, "ref": ref, "film": film} | form)

    assert "Release it without its report" in officer.get(f"/desk/study/{kept['ref']}").text
    assert decided(kept["ref"], kind="release as is").status_code == 409  # a reason is written first
    assert decided(kept["ref"], kind="release as is", words="read by a colleague").status_code == 200
    assert decided(rows[withheld]["ref"], withheld, kind="keep back", words="a ring").status_code == 200
    assert decided(rows[redone]["ref"], redone, kind="redo", strength="0.2").status_code == 200
    assert decided(rows[told]["ref"], told, kind="PHI found", text="nodule").status_code == 200
    pictures = {name: desk.released_png(name) for name in rows}
    officer.post("/desk/apply", data={"code": officer.code})
    wait_until(lambda: not officer.get("/desk/status").json()["work"]["running"])
    assert desk.work.error == ""
    left = {row["release_id"]: row for row in manifest.read(desk.folder)}
    assert left.keys() == rows.keys() - {withheld} | {key.film("MRN7741982-6")}
    assert not left[key.film("MRN7741982-6")]["has_report"]
    assert json.loads(left[redone]["decided"])["review"] == "redone"
    assert {name for name in left.keys() & rows.keys() if desk.released_png(name) != pictures[name]} == {redone}
    assert "nodule" not in "".join(path.read_text() for path in (desk.folder / "reports").glob("*.jsonl")).lower()
    assert verify(desk.folder, accept_unknown_signer=True).intact
    assert officer.get("/desk/decisions").text.count('<th scope="row">') == 4
    assert before == desk.folder


def test_the_header_of_a_film_stands_before_and_after(key, guard, tmp_path):
    write_dicom(tmp_path / "export" / "0.dcm", InstitutionName=CANARIES[0])
    updp.deidentify(tmp_path / "export", tmp_path / "out", policy=Policy.parse(NATIVE), key=key, workers=1)
    desk = Desk(tmp_path / "out", key, classify=False)
    desk._beside()
    officer = client(make_app(guard, {HOST}, desk)).come_in(guard, "officer", "officer")
    page = officer.get(f"/desk/film/{film_of(desk)['release_id']}").text
    rows = dict(re.findall(r'<th scope="row">([^<]+)</th>(.*?)</tr>', page))
    assert rows["Institution Name"] == f'<td>{CANARIES[0]}</td><td><span class="gone-word">removed</span></td>'
    assert rows["Modality"] == "<td>CR</td><td>CR</td>"
    assert "YES" in rows["Patient Identity Removed"]
    assert "added" in rows["Patient Identity Removed"]


@pytest.mark.parametrize(
    ("change", "status"),
    [({"ref": "qnone"}, 404), ({"kind": "burn"}, 409), ({"kind": "redo"}, 409), ({"kind": "redo", "seed": "x"}, 409),
     ({"kind": "redo", "strength": "7"}, 409), ({"kind": "release as is", "words": "because"}, 409),
     ({"kind": "PHI found", "text": ""}, 409)],
)  # fmt: skip
def test_wrong_decisions_are_explained_and_not_logged(officer, desk, change, status):
    row = film_of(desk)
    form = {"code": officer.code, "kind": "keep back", "ref": row["ref"], "film": row["release_id"]} | change
    answer = officer.post("/desk/decide", data=form)
    assert answer.status_code == status
    assert not desk.decisions.lines


def test_what_cannot_leave_cannot_be_released_as_is(officer, desk):
    ref = desk.index.quarantine()[0]["ref"]
    assert "cannot be overruled" in officer.get(f"/desk/study/{ref}").text
    form = {"code": officer.code, "kind": "release as is", "ref": ref, "words": "I want it"}
    assert officer.post("/desk/decide", data=form).status_code == 409


def test_a_string_found_counts_the_studies_that_have_it(officer, desk):
    row = film_of(desk)
    form = {"code": officer.code, "kind": "PHI found", "ref": row["ref"], "film": row["release_id"], "text": "nodule"}
    assert officer.post("/desk/decide", data=form).status_code == 200
    line = desk.decisions.lines[-1]
    assert line.kind is Kind.PHI
    assert len(line.affected) == 39
    kept = (desk.out / "review" / "policy.toml").read_text()
    assert '"nodule"' in kept


def test_a_release_that_was_altered_says_so(made, key, app, guard):
    film = next((released(made) / "images").rglob("*.png"))
    film.write_bytes(film.read_bytes() + b"x")
    desk = Desk(made / "out", key, classify=False)
    desk._beside()
    page = client(make_app(guard, {HOST}, desk)).come_in(guard, "officer", "officer").get("/desk").text
    assert "Do not send this release" in page
    assert "altered" in page


def test_no_run_and_another_key_are_refused(made, tmp_path):
    with pytest.raises(NoDesk, match="no finished release"):
        Desk(tmp_path, Key(bytes(range(32))))
    with pytest.raises(NoDesk, match="another key"):
        Desk(made / "out", Key(bytes(32)))


# -- readers ---------------------------------------------------------------------------------------------------------


def send(reader: Browser, plan, name: str, place: int, code: str, **changes):
    body = answer(plan, name, place).to_json() | changes
    headers = {"x-form-code": code, "accept": "application/json"}
    return reader.post("/read/answers", content=json.dumps(body), headers=headers)


def test_answers_are_kept_and_come_back(reader, plan):
    code = reader.code
    for n in range(3):
        assert send(reader, plan, "reader 1", n, code).json() == {"saved": n}
    assert send(reader, plan, "reader 1", 0, code, quality=1).status_code == 200
    back = reader.get("/read/plan").json()
    assert sorted(back["answers"]) == ["0", "1", "2"]
    assert back["answers"]["0"]["quality"] == 1
    assert "key" not in back


def test_answers_of_others_and_of_films_not_in_the_plan_are_refused(reader, app, guard, plan):
    code = reader.code
    other = client(app).come_in(guard, "reader", "reader 2")
    assert send(reader, plan, "reader 1", 0, other.code).status_code == 403
    assert send(reader, plan, "reader 1", 0, code, film="xnone").status_code == 422
    both = zip(plan.reader("reader 1").items, plan.reader("reader 2").items, strict=True)
    apart = next(n for n, (own, others) in enumerate(both) if own.film != others.film)
    assert send(reader, plan, "reader 2", apart, code).status_code == 422
    assert "another film" in send(reader, plan, "reader 1", 0, code, item=3).json()["error"]
    assert reader.post("/read/answers", content=b"{", headers={"x-form-code": code}).status_code == 422
    assert reader.get("/read/plan").json()["answers"] == {}
    assert other.get("/read/plan").json()["answers"] == {}


@pytest.mark.parametrize("body", [b"[" * 60_000, b'{"item": ' + b"9" * 5000 + b"}", b"\xff", b"null"])
def test_what_is_no_answer_is_refused(reader, body):
    headers = {"x-form-code": reader.code, "accept": "application/json"}
    refused = reader.post("/read/answers", content=body, headers=headers)
    assert (refused.status_code, refused.json()) == (422, {"error": "this is not an answer"})


def test_the_time_of_an_answer_is_the_servers(reader, plan):
    assert send(reader, plan, "reader 1", 0, reader.code, at="2000-01-01T00:00:00+00:00").status_code == 200
    at = dt.datetime.fromisoformat(reader.get("/read/plan").json()["answers"]["0"]["at"])
    assert abs(dt.datetime.now(dt.UTC) - at) < dt.timedelta(hours=1)


def test_answers_of_a_session_that_has_ended_stay(reader, plan):
    last = next(n for n, item in enumerate(plan.reader("reader 1").items) if item.session == 2) - 1
    given = {n: answer(plan, "reader 1", n) for n in range(last + 1)}
    now = dt.datetime.now(dt.UTC)
    check_turn(given[last], given, plan, "reader 1", now)
    given[last + 1] = answer(plan, "reader 1", last + 1)
    with pytest.raises(BadAnswer, match="session of this film has ended"):
        check_turn(given[last], given, plan, "reader 1", now)
    check_turn(given[last + 1], given, plan, "reader 1", now)


def test_a_full_disk_is_explained_to_the_reader_and_loses_nothing(key, guard, study, plan):
    answers = Answers(study, plan)
    reader = client(make_app(guard, {HOST}, None, Study(study, plan, answers))).come_in(guard, "reader", "reader 1")
    code = reader.code
    assert send(reader, plan, "reader 1", 0, code).status_code == 200
    opened = answers._open

    def full():
        made = opened()
        made.execute(f"PRAGMA max_page_count = {made.execute('PRAGMA page_count').fetchone()[0]}")
        return made

    answers._open = full
    place = 1
    while (refused := send(reader, plan, "reader 1", place, code)).status_code == 200:
        place += 1
    assert (refused.status_code, "disk full" in refused.json()["error"]) == (507, True)
    del answers._open
    assert send(reader, plan, "reader 1", place, code).status_code == 200
    assert sorted(answers.of("reader 1")) == list(range(place + 1))


def test_films_are_read_in_the_order_of_the_plan_and_sessions_lie_apart(reader, plan, study, app, guard):
    code = reader.code
    wrong = send(reader, plan, "reader 1", 1, code)
    assert (wrong.status_code, "in the order" in wrong.json()["error"]) == (422, True)
    last = next(n for n, item in enumerate(plan.reader("reader 1").items) if item.session == 2) - 1
    moment = dt.datetime.now(dt.UTC).isoformat()
    given = [answer(plan, "reader 1", n, at=moment) for n in range(last + 1)]
    now, later = (dt.datetime.now(dt.UTC) + dt.timedelta(days=days) for days in (0, 15))
    slow = replace(plan, days=14)
    turn = answer(plan, "reader 1", last + 1)
    with pytest.raises(BadAnswer, match="opens 14 days after"):
        check_turn(turn, dict(enumerate(given)), slow, "reader 1", now)
    check_turn(turn, dict(enumerate(given)), slow, "reader 1", later)
    check_turn(turn, dict(enumerate(given)), plan, "reader 1", now)
    check_turn(given[0], dict(enumerate(given)), slow, "reader 1", now)  # answered again


def test_films_of_the_plan_are_shown_and_no_others(reader, plan):
    name = plan.reader("reader 1").items[0].film
    assert reader.get(f"/read/film/{name}").headers["content-type"] == "image/png"
    assert reader.get("/read/film/none").status_code == 404


def test_nothing_a_reader_gets_tells_originals_from_released(reader):
    text = reader.get("/read/plan").text + reader.get("/read").text
    assert "released" not in text
    assert "original" not in text


# -- behind a proxy --------------------------------------------------------------------------------------------------


def test_behind_a_proxy_only_the_named_header_counts(key, desk, tmp_path):
    path = tmp_path / "proxy.toml"
    path.write_text(
        'header = "X-Hospital-User"\nhost = "review.hospital"\nofficers = ["ann"]\n[readers]\nbob = "reader 1"\n'
    )
    guard = Guard(key, "here", Proxy.load(path))
    app = make_app(guard, {"review.hospital"}, desk)
    browser = TestClient(app, base_url="http://review.hospital", raise_server_exceptions=False)
    assert browser.get("/desk").status_code == 401
    for header in ("X-Forwarded-User", "Remote-User", "X-Forwarded-For"):
        assert browser.get("/desk", headers={header: "ann"}).status_code == 401
    assert browser.get("/desk", headers={"X-Hospital-User": "ann"}).status_code == 200
    assert browser.get("/desk", headers={"X-Hospital-User": "bob"}).status_code == 403
    assert browser.get("/desk", headers={"X-Hospital-User": "eve"}).status_code == 401
    _, cookie = guard.enter(guard.token("officer", "ann"))
    browser.cookies.set(guard.cookie, cookie)
    assert browser.get("/desk").status_code == 401  # a cookie opens nothing behind a proxy
    twice = [("X-Hospital-User", "ann"), ("x-hospital-user", "eve")]  # a proxy that adds to what the client sent
    assert browser.get("/desk", headers=twice).status_code == 401
    assert "Leave" not in browser.get("/desk", headers={"X-Hospital-User": "ann"}).text  # it is the proxy's to end


@pytest.mark.parametrize(
    ("text", "why"),
    [('officers = "ann"', "officers and .readers. say who"), ('readers = ["bob"]', "officers and .readers. say who"),
     ('officers = ["ann"]\n[readers]\nann = "reader 1"', "cannot be a reader")],
)  # fmt: skip
def test_a_file_of_a_proxy_that_says_something_else_is_refused(tmp_path, text, why):
    path = tmp_path / "proxy.toml"
    path.write_text(f'header = "X-Hospital-User"\nhost = "review.hospital"\n{text}\n')
    with pytest.raises(BadProxy, match=why):
        Proxy.load(path)


def test_behind_a_proxy_no_link_is_made_and_readers_are_those_of_the_plan(made, study, key):
    from updp.review.serve import prepare

    proxy = Proxy("X-Hospital-User", "review.hospital", frozenset({"ann"}), {"bob": "reader 1"})
    ready = prepare(made / "out", key, study=study, proxy=proxy, classify=False)
    ready.listening.close()
    assert ready.links == ()
    with pytest.raises(BadProxy, match="no reader of a name"):
        prepare(made / "out", key, study=study, proxy=replace(proxy, readers={"bob": "reader 9"}), classify=False)
