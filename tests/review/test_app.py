"""The server without a browser: who gets what, what is refused, what every answer carries."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("fastapi", reason="needs the extra `review`")
from starlette.testclient import TestClient

from tests.conftest import CANARIES
from tests.review.conftest import released
from updp.core.keys import Key
from updp.pipeline.decisions import Kind, read_decisions
from updp.release.verify import verify
from updp.review.answers import Answers, BadAnswer, check_turn
from updp.review.app import Study, make_app
from updp.review.desk import Desk, NoDesk
from updp.review.sessions import LIFETIME, BadToken, Guard, Proxy

from .test_answers import answer

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


@pytest.fixture
def desk(made, key):
    found = Desk(made / "out", key, classify=False)
    found._beside()
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
    assert client(app).get("/enter/" + token, follow_redirects=False).status_code == 303
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


@pytest.mark.parametrize("path", ["/", "/desk", "/desk/wall", "/desk/films", "/desk/quarantine", "/read", "/read/plan"])
def test_without_a_session_there_is_nothing_to_see(app, path):
    answer = client(app).get(path)
    assert answer.status_code == 401
    assert "Please come in" in answer.text


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


def test_pages_have_no_inline_script_or_style(officer, desk):
    row = film_of(desk)
    for path in ("/desk", "/desk/wall", f"/desk/film/{row['release_id']}", "/desk/quarantine", "/desk/decisions"):
        text = officer.get(path).text
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|https?://", text)


def test_no_identifier_is_in_an_address_or_a_title(officer, desk):
    row = film_of(desk)
    for path in ("/desk", "/desk/wall", f"/desk/film/{row['release_id']}", "/desk/quarantine"):
        text = officer.get(path).text
        places = re.findall(r'(?:href|src|action|data-film)="([^"]*)"|<title>(.*?)</title>', text)
        assert not any(word in str(places) for word in CANARIES)


def test_another_host_name_is_refused(app):
    assert TestClient(app, base_url="http://evil.example").get("/").status_code == 421


def test_a_form_needs_the_code_of_its_session(officer, app, guard, desk):
    row = film_of(desk)
    form = {"kind": "keep back", "ref": row["ref"], "film": row["release_id"]}
    other = client(app).come_in(guard, "officer", "other")
    for code in ({}, {"code": "0" * 64}, {"code": other.code}):
        assert officer.post("/desk/decide", data=form | code).status_code == 403
    cross = officer.post("/desk/decide", data=form | {"code": officer.code}, headers={"origin": "http://evil.example"})
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


def test_the_overview_lists_the_runs_of_the_folder_with_their_verdicts(officer, made):
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


def test_the_officer_sees_before_and_after(officer, desk):
    page = officer.get(f"/desk/film/{film_of(desk)['release_id']}").text
    assert "Quibblesworth" in page  # the original report, with the name marked
    assert re.search(r'<mark class="gone"><span>[^<]*Quibblesworth', page)
    assert '<mark class="kept">effusion</mark>' in page
    left = page[page.index("<h3>Released</h3>") :]
    assert "Quibblesworth" not in left


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
    for _ in range(600):
        if not officer.get("/desk/status").json()["work"]["running"]:
            break
        time.sleep(0.1)
    state = officer.get("/desk/status").json()
    assert state["work"]["error"] == ""
    assert state["pending"] == 0
    assert desk.index.film(row["release_id"]) is None
    assert verify(released(made), accept_unknown_signer=True).intact
    assert "kept-back-by-officer" in officer.get("/desk/quarantine").text
    assert "a ring" in officer.get("/desk/decisions").text


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
    wrong = send(reader, plan, "reader 2", 1, code)  # what reader 2 sees second is not what reader 1 does
    assert wrong.status_code == 422 or plan.reader("reader 1").items[1] == plan.reader("reader 2").items[1]
    assert "another film" in send(reader, plan, "reader 1", 0, code, item=3).json()["error"]
    assert reader.post("/read/answers", content=b"{", headers={"x-form-code": code}).status_code == 422
    assert reader.get("/read/plan").json()["answers"] == {}
    assert other.get("/read/plan").json()["answers"] == {}


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
    token = replace(Guard(key, "here").proxy or Proxy("X", "y"), header="Z")  # a cookie opens nothing behind a proxy
    assert token.person("ann") is None
