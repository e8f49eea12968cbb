"""The pages in a real Chromium: reading by keyboard, killed servers, a wall of ten thousand films, hand-outs, axe."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.review.conftest import FILMS, released, wait_until
from updp.core.keys import Key
from updp.release.verify import verify
from updp.review.analyse import analyse, into_folder
from updp.review.answers import Answers, BadAnswer
from updp.review.index import Choice, Index
from updp.review.plan import load_plan, save_plan
from updp.review.serve import Review, prepare

from .test_answers import answer

CHROMIUM = shutil.which("chromium")
AXE = Path(sys.prefix) / "axe" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
SECRET = bytes(range(32))
#: Milliseconds until a page that does not answer fails its test.
PATIENCE = 300_000
SERVER = """
import sys
from pathlib import Path
from updp.core.keys import Key
from updp.review.serve import prepare
out, study, port = sys.argv[1:]
ready = prepare(Path(out), Key(bytes(range(32))), study=Path(study) if study else None, port=int(port), classify=False)
print(ready.listening.getsockname()[1], *(link.address for link in ready.links), flush=True)
ready.run()
"""


#: Answers to every film of a hand-out but the last, as its page keeps them.
ALL_BUT_ONE = """() => {
  const { plan, reader, items, findings } = window.updpStudy, at = new Date(0).toISOString();
  const same = { findings: findings.map(() => 1), quality: 3, origin: "real", at, milliseconds: 1 };
  const all = items.slice(0, -1).map(({ film }, item) => ({ item, film, ...same }));
  localStorage.setItem(`updp ${plan} ${reader}`, JSON.stringify(all));
}"""
#: Whether every row that the wall has made shows its films: then nothing more is asked for.
FILLED = "() => !document.querySelector('.line.blank, .strip:not(.here)')"
#: Whether a reader sees no film: only 0, and 255 of what is not transparent.
BLACK = """() => {
  const film = document.getElementById("film").getContext("2d");
  return new Set(film.getImageData(0, 0, 300, 150).data).size === 2;
}"""
#: Until two frames are drawn.
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
SCROLL = """() => new Promise((done) => {
  const wall = document.getElementById("wall");
  wall.addEventListener("scroll", done, { once: true });
  wall.scrollTop += 3000;
})"""


def _lacks() -> str | None:
    if CHROMIUM is None:
        return "needs Debian's chromium"
    try:
        import fastapi  # noqa: F401
        import playwright  # noqa: F401
    except ImportError:
        return "needs the extras `review` and `dev`"
    return None if AXE.is_file() else f"needs axe-core at {AXE}; `make test` puts it there"


if lacks := _lacks():
    if os.environ.get("UPDP_CI"):
        pytest.fail(f"the browser tests cannot run: {lacks}", pytrace=False)
    pytest.skip(lacks, allow_module_level=True)


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def place(made_once, planned_once, tmp_path_factory):
    """A copy of release and study for this module."""
    root = tmp_path_factory.mktemp("browser")
    shutil.copytree(made_once, root / "made")
    shutil.copytree(planned_once, root / "study")
    return root


class Server:
    """`updp review` in a process of its own, which can be killed."""

    def __init__(self, root: Path, port: int = 0) -> None:
        study = str(root / "study") if (root / "study").exists() else ""
        self.child = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(root / "made" / "out"), study, str(port)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.child.stdout is not None
        port_text, *links = self.child.stdout.readline().split()
        self.port, (self.officer, *self.readers) = int(port_text), links

    def kill(self) -> None:
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


@pytest.fixture(scope="module")
def server(place):
    made = Server(place)
    yield made
    made.child.kill()
    made.child.wait()


@contextmanager
def served(ready: Review):
    """A server in this process, until the block ends."""
    thread = threading.Thread(target=ready.server.run, kwargs={"sockets": [ready.listening]}, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ready.server.should_exit = True
        thread.join(60)


def context(chromium, **options):
    """A window of its own, which waits as long as a busy machine needs."""
    made = chromium.new_context(**options)
    made.set_default_timeout(PATIENCE)
    return made


def shown(page, item: int) -> None:
    page.wait_for_selector(f"body[data-shown='{item}']")


def saved(page, item: int) -> None:
    """The next film shows while an answer is on its way: wait until it has arrived."""
    page.wait_for_selector(f"body[data-saved='{item}']")


def rate(page, *, quality: str = "4", findings: int = 2) -> None:
    """Answer the film on screen with the keyboard alone."""
    for _ in range(findings):
        page.keyboard.press("2")
    page.keyboard.press(quality)
    page.keyboard.press("r")
    page.keyboard.press("Enter")


@pytest.mark.posix
def test_ten_films_by_keyboard_through_a_closed_browser_and_a_killed_server(chromium, place):
    server = Server(place)
    plan = load_plan(place / "study", Key(SECRET))
    base = Answers(place / "study", plan)
    first, second = context(chromium), context(chromium)
    page, other = first.new_page(), second.new_page()
    page.goto(server.readers[0])
    other.goto(server.readers[1])
    for n in range(5):
        shown(page, n)
        rate(page)
    shown(page, 5)
    shown(other, 0)
    rate(other, quality="1")  # a second reader at the same time
    shown(other, 1)
    saved(other, 0)
    page.keyboard.press("Backspace")  # undo: the film before, with what was answered
    shown(page, 4)
    assert page.locator("#quality input:checked").get_attribute("value") == "4"
    rate(page, quality="2")
    shown(page, 5)
    saved(page, 4)
    assert base.of("reader 1")[4].quality == 2
    kept = first.storage_state()
    first.close()
    server.kill()
    server = Server(place, server.port)
    try:
        page = context(chromium, storage_state=kept).new_page()
        page.goto(f"http://127.0.0.1:{server.port}/read")  # the session goes on, and so does the film
        for n in range(5, 10):
            shown(page, n)
            rate(page)
        shown(page, 10)
        saved(page, 9)
        assert page.locator("#place").inner_text() == f"Film 11 of {len(plan.readers[0].items)} · session 1"
        page.keyboard.press("Enter")  # nothing is rated yet
        page.locator("#message").filter(has_text="Please answer").wait_for()
        server.kill()
        rate(page)
        page.locator("#message").filter(has_text="not saved").wait_for()
        assert sorted(base.of("reader 1")) == list(range(10))
        assert [answer.quality for answer in base.of("reader 2").values()] == [1]
    finally:
        server.child.kill()


def test_an_answer_taken_back_while_it_is_saved_shows_its_film_again(chromium, study, plan):
    last = len(plan.reader("reader 1").items) - 1
    Answers(study, plan).add("reader 1", [answer(plan, "reader 1", n) for n in range(last)])
    ready = prepare(None, Key(SECRET), study=study)
    with served(ready):
        page, held = context(chromium).new_page(), []
        page.route("**/read/answers", lambda route: held.append(route))
        page.goto(ready.links[0].address)
        shown(page, last)
        rate(page)
        page.locator("#place").filter(has_text=f"All {last + 1} films are read").wait_for()
        page.keyboard.press("Backspace")
        shown(page, last)
        for one in held:
            one.continue_()
        saved(page, last)
        page.evaluate(FRAMES)
        assert page.locator("#finished").is_hidden()
        assert page.locator("#film").is_visible()
        page.unroute("**/read/answers")
        rate(page, quality="1")
        page.locator("#finished").wait_for()
        assert Answers(study, plan).of("reader 1")[last].quality == 1


def test_between_two_sessions_the_page_says_when_the_next_one_opens(chromium, study, plan):
    slow = replace(plan, days=14)
    save_plan(slow, study, Key(SECRET))
    items, now = slow.reader("reader 1").items, dt.datetime.now(dt.UTC).isoformat()
    last = next(n for n, item in enumerate(items) if item.session == 2) - 1
    Answers(study, slow).add("reader 1", [answer(slow, "reader 1", n, at=now) for n in range(last)])
    ready = prepare(None, Key(SECRET), study=study)
    with served(ready):
        page = context(chromium).new_page()
        page.goto(ready.links[0].address)
        shown(page, last)
        rate(page)
        page.locator("#finished").filter(has_text="Session 2 opens in 14 days").wait_for()
        page.reload()
        page.locator("#finished").filter(has_text="Session 2 opens in 14 days").wait_for()
        assert page.locator("#film").is_hidden()
        page.keyboard.press("Backspace")  # the last film of this session may be answered again
        shown(page, last)


def test_nobody_answers_for_a_film_that_is_not_in_sight(chromium, server, place):
    plan = load_plan(place / "study", Key(SECRET))
    base = Answers(place / "study", plan)
    begun = len(base.of("reader 2"))
    first, second = plan.reader("reader 2").items[begun : begun + 2]
    page = context(chromium).new_page()
    page.route(f"**/read/film/{second.film}", lambda route: route.abort())
    page.goto(server.readers[1])
    shown(page, begun)
    rate(page)
    message = page.locator("#message").filter(has_text="cannot be shown: the server cannot be reached")
    message.wait_for()
    saved(page, begun)
    for _ in range(2):
        rate(page)
        message.wait_for()
    page.wait_for_function(BLACK)
    assert len(base.of("reader 2")) == begun + 1
    page.unroute(f"**/read/film/{second.film}")
    page.keyboard.press("Enter")
    shown(page, begun + 1)
    rate(page)
    shown(page, begun + 2)
    saved(page, begun + 1)
    assert [base.of("reader 2")[n].film for n in (begun, begun + 1)] == [first.film, second.film]


@pytest.fixture(scope="module")
def desk_page(chromium, server):
    page = context(chromium, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(server.officer)
    return page


def test_the_officer_compares_by_keyboard(desk_page, server, place):
    index = Index(place / "made" / "out" / "review" / "desk.sqlite3", Key(SECRET))
    wait_until(lambda: index.counts()["measured"] == FILMS)  # then its original is found, too
    page = desk_page
    page.goto(f"http://127.0.0.1:{server.port}/desk/wall")
    page.wait_for_selector(".strip.here")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("canvas[data-shown] >> nth=1")
    reading = page.locator("#reading")
    page.keyboard.press("+")
    page.locator("#reading").filter(has_text="125 %").wait_for()
    page.keyboard.press("]")
    page.locator("#reading").filter(has_text="L 136").wait_for()
    both = page.evaluate(PIXELS)
    page.get_by_label("Released film").focus()
    page.keyboard.press("ArrowRight")
    drawn(page, both)  # one is moved, both follow
    for key in ("d", "e", "f"):
        page.keyboard.press(key)
    assert page.locator("[data-mode=plain]").get_attribute("aria-checked") == "true"
    assert "W 255" in reading.inner_text()
    before, after = page.url, page.locator("#study").get_attribute("data-after")
    page.evaluate("() => { window.same = true; }")
    page.keyboard.press("n")
    page.wait_for_selector(f"body[data-shown='/desk/film/{after}']")
    assert f"/desk/film/{after}?" in page.url
    assert after in page.locator(".facts").inner_text()
    page.go_back()
    page.wait_for_selector(f"body[data-shown='{before.partition(str(server.port))[2].partition('?')[0]}']")
    assert page.evaluate("() => window.same")  # no page was loaded anew


def test_films_are_filtered_by_keyboard(desk_page, server):
    page = desk_page
    page.goto(f"http://127.0.0.1:{server.port}/desk/wall")
    page.wait_for_selector(".strip.here")
    for count, finding in ((20, "Effusion"), (20, "Nodule"), (10, "none")):
        page.locator("[name=finding]").press("ArrowDown")
        page.wait_for_url(f"**/desk/wall?finding={finding}&*")
        page.locator("#count").filter(has_text=f"{count} films").wait_for()
        page.wait_for_selector("[name=finding]:focus")  # the next arrow key goes on from here
    page.locator("[name=order]").select_option("nearest")
    page.wait_for_url("**/desk/wall?finding=none&*order=nearest*")
    page.wait_for_selector(".tile[href*='finding=none'][href*='order=nearest']")
    page.locator("[name=finding]").press("Home")
    page.wait_for_url("**/desk/wall?finding=&*")


def test_of_two_films_asked_for_at_once_the_last_one_shows(desk_page, server, place):
    index = Index(place / "made" / "out" / "review" / "desk.sqlite3", Key(SECRET))
    wait_until(lambda: index.counts()["measured"] == FILMS)
    first, second = (row["release_id"] for row in index.films(Choice())[1][:2])
    page, held = desk_page, []
    page.route(f"**/desk/film/{second}?*", lambda route: held.append(route))
    page.goto(f"http://127.0.0.1:{server.port}/desk/film/{first}?order=release")
    page.wait_for_selector(f"body[data-shown='/desk/film/{first}']")
    page.keyboard.press("n")
    page.wait_for_url(f"**/desk/film/{second}?*")
    page.evaluate("() => { delete document.body.dataset.shown; }")
    page.go_back()  # before the other one has come
    page.wait_for_selector(f"body[data-shown='/desk/film/{first}']")
    with (
        page.expect_response(f"**/desk/film/{second}/original.png"),
        page.expect_response(f"**/desk/film/{second}/released.png"),
    ):
        for one in held:
            one.continue_()
    page.evaluate(FRAMES)
    assert first in page.locator(".facts").inner_text()
    page.unroute(f"**/desk/film/{second}?*")


def test_a_film_waits_for_its_original_and_keeps_what_was_typed(desk_page, server, place):
    path = place / "made" / "out" / "review" / "desk.sqlite3"
    index = Index(path, Key(SECRET))
    wait_until(lambda: index.counts()["measured"] == FILMS)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("ALTER TABLE originals RENAME TO found")
        base.execute("CREATE TABLE originals (ref TEXT PRIMARY KEY, sealed BLOB)")
        base.execute("DELETE FROM about WHERE name = 'originals'")
    page, other = desk_page, desk_page.context.new_page()
    for one in (page, other):
        one.goto(f"http://127.0.0.1:{server.port}/desk/film/{index.films(Choice())[1][0]['release_id']}")
        one.get_by_text("still being looked for").wait_for()
    other.locator("summary", has_text="Keep back").click()
    other.get_by_label("Why").fill("a ring")
    other.get_by_label("Why").press("End")
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("DROP TABLE originals")
        base.execute("ALTER TABLE found RENAME TO originals")
        base.execute("INSERT INTO about VALUES ('originals', 'kept')")
    for one in (page, other):
        one.wait_for_selector("canvas[data-shown] >> nth=1")
    other.keyboard.type(" on it")  # the field is open and has the focus as before
    assert other.get_by_label("Why").input_value() == "a ring on it"
    other.close()


def test_the_officer_keeps_a_film_back_and_makes_the_release_anew(chromium, made):
    server = Server(made.parent)
    try:
        page = context(chromium).new_page()
        page.goto(server.officer)
        base = f"http://127.0.0.1:{server.port}"
        page.goto(base + "/desk/wall?order=nearest")
        page.wait_for_selector(".tile[href]")
        page.goto(base + page.locator(".tile[href]").nth(3).get_attribute("href"))
        film, after = page.locator(".facts code").first.inner_text(), page.locator("#study").get_attribute("data-after")
        index = Index(made / "out" / "review" / "desk.sqlite3", Key(SECRET))
        wait_until(lambda: index.counts()["measured"] == FILMS)  # the order stays what it was on the page
        page.locator("summary", has_text="Keep back").click()
        page.get_by_label("Why").fill("a ring")
        page.get_by_role("button", name="Keep back").click()
        page.get_by_text("Decided: keep back").wait_for()
        assert page.locator("#study").get_attribute("data-after") == after  # the place on the wall is kept
        page.goto(base + "/desk/decisions")
        page.get_by_role("button", name="Make the release anew").click()
        page.get_by_text("it verifies").wait_for()  # the page loads itself again
        page.goto(f"{base}/desk/film/{film}")
        assert page.locator("h1").inner_text() == "Not here"
        assert verify(released(made), accept_unknown_signer=True).intact
        page.get_by_role("button", name="Leave").click()
        page.get_by_role("heading", name="Signed off").wait_for()
        page.goto(base + "/desk")
        assert "Open the page with your link" in page.locator("h1").inner_text()
    finally:
        server.kill()


PIXELS = "() => [...document.querySelectorAll('canvas[data-film]')].map((canvas) => canvas.toDataURL())"


def drawn(page, before: list[str], *, changed: tuple[bool, bool] = (True, True)) -> list[str]:
    """The pixels of both films, once those of the last have changed."""
    page.wait_for_function(f"before => JSON.stringify(({PIXELS})()) !== JSON.stringify(before)", arg=before)
    page.evaluate(FRAMES)
    now = page.evaluate(PIXELS)
    assert tuple(old != new for old, new in zip(before, now, strict=True)) == changed
    return now


def test_both_films_follow_the_mouse_and_every_view_draws_another_picture(desk_page, server):
    page = desk_page
    page.goto(f"http://127.0.0.1:{server.port}/desk/wall")
    page.wait_for_selector(".tile[href]")
    page.goto(f"http://127.0.0.1:{server.port}{page.locator('.tile[href]').first.get_attribute('href')}")
    page.wait_for_selector("canvas[data-shown] >> nth=1")  # originals may still be looked for
    page.wait_for_selector("body[data-shown]")
    plain = drawn(page, ["", ""])
    page.keyboard.press("d")
    difference = drawn(page, plain, changed=(False, True))  # drawn on the released film, beside the original
    page.keyboard.press("e")
    edges = drawn(page, difference)
    page.keyboard.press("f")
    assert drawn(page, edges) == plain
    box = page.locator("canvas[data-film]").first.bounding_box()
    x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 3
    page.mouse.move(x, y)
    page.mouse.wheel(0, -400)
    zoomed = drawn(page, plain)
    page.mouse.down()
    page.mouse.move(x + 40, y + 30)
    page.mouse.up()
    moved = drawn(page, zoomed)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(x + 100, y + 60)
    page.mouse.up()
    page.keyboard.up("Shift")
    drawn(page, moved)
    assert page.locator("#reading").inner_text() == "W 315 · L 158 · 272 %"
    page.keyboard.press("0")
    page.wait_for_function(f"plain => JSON.stringify(({PIXELS})()) === JSON.stringify(plain)", arg=plain)


def test_films_are_dark_unless_somebody_chooses_light_and_other_pages_follow_the_system(chromium, desk_page, server):
    base, session = f"http://127.0.0.1:{server.port}", desk_page.context.storage_state()
    theme = "() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]"
    light, dark = ["light", "rgb(242, 244, 246)"], ["dark", "rgb(10, 13, 16)"]
    page = context(chromium, color_scheme="light", storage_state=session).new_page()
    page.goto(f"{base}/desk")
    assert page.evaluate(theme) == light
    page.goto(f"{base}/desk/wall")
    assert page.evaluate(theme) == dark
    page.locator("#theme").click()
    page.reload()
    assert page.evaluate(theme) == light
    page.emulate_media(color_scheme="dark")
    page.goto(f"{base}/desk")
    assert page.evaluate(theme) == dark
    reader = context(chromium, color_scheme="light").new_page()
    reader.goto(server.readers[0])
    assert reader.evaluate(theme) == dark


def test_a_wall_of_ten_thousand_films_holds_only_what_is_in_sight(chromium, made_once, tmp_path):
    shutil.copytree(made_once, tmp_path / "made")
    ready = prepare(tmp_path / "made" / "out", Key(SECRET), classify=False)
    with closing(sqlite3.connect(tmp_path / "made/out/review/desk.sqlite3")) as base, base:
        names = [row[0] for row in base.execute("SELECT file_name FROM films")]
        base.execute("DELETE FROM films")
        base.executemany(
            "INSERT INTO films VALUES (?, ?, ?, 'p', 'PA', '|Effusion|', '', ?, '00000', 0, NULL, 0.5, NULL)",
            [(n, f"f{n}", f"q{n}", names[n % len(names)]) for n in range(10_000)],
        )
    with served(ready):
        page = context(chromium, viewport={"width": 1280, "height": 800}).new_page()
        page.clock.install()  # how fast a scroll is does not depend on how busy the machine is
        page.goto(ready.links[0].address)
        page.goto(ready.links[0].address.partition("/enter")[0] + "/desk/wall")
        page.wait_for_selector(".strip.here")
        assert page.locator("#count").inner_text() == "10 000 films"
        page.wait_for_function(FILLED)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.pause_at(dt.datetime.now() + dt.timedelta(hours=1))
        for _ in range(20):
            page.evaluate(SCROLL)
            page.clock.run_for(16)
        assert asked == []  # nobody sees a film that passes so fast
        page.clock.resume()
        page.wait_for_selector(".line:not(.blank) .strip.here")
        page.keyboard.press("End")
        page.wait_for_selector(".line:has(a[href^='/desk/film/f9999?']) .strip.here")
        assert page.locator(".tile").count() < 120
        assert page.locator("[aria-selected=true]").get_attribute("aria-posinset") == "10000"


def test_axe_finds_nothing_serious_on_any_page_in_light_and_dark(desk_page, chromium, server, place, tmp_path):
    plan = load_plan(place / "study", Key(SECRET))
    seen = lambda reader, n: tuple(4 * t + 1 for t in plan.films[reader.items[n].film].truth)  # noqa: E731
    read = {
        one.name: {n: answer(plan, one.name, n, findings=seen(one, n)) for n in range(len(one.items))}
        for one in plan.readers
    }
    result = into_folder(analyse(plan, read), tmp_path)
    index = Index(place / "made" / "out" / "review" / "desk.sqlite3", Key(SECRET))
    wait_until(lambda: index.counts()["measured"] == FILMS)  # a page whose original is found later is drawn again
    page, base = desk_page, f"http://127.0.0.1:{server.port}"
    page.goto(f"{base}/desk/wall")
    page.wait_for_selector(".tile[href]")
    film = page.locator(".tile[href]").first.get_attribute("href")
    kept = page.goto(f"{base}/desk/quarantine") and page.locator("tbody a").first.get_attribute("href")
    places = {
        "/desk": "#intact:not([data-waiting])",
        "/desk/wall": ".strip.here",
        film: "canvas[data-shown] >> nth=1",
        "/desk/quarantine": "tbody",
        kept: "h1",
        "/desk/decisions": "#apply:not(:has([data-waiting]))",
        "/nowhere": "h1",
    }
    found = [fault for path, ready in places.items() for fault in faults(page, base + path, ready)]
    reader = context(chromium).new_page()
    reader.goto(server.readers[2])
    shown(reader, 0)
    found += faults(reader, f"{base}/read", ready="body[data-shown]")
    found += faults(context(chromium).new_page(), result.as_uri())
    assert found == []


def faults(page, address: str, ready: str = "h1") -> list[str]:
    """Serious and critical findings of axe at an address, in both themes; and what is wider than the window."""
    page.goto(address)
    page.wait_for_selector(ready)
    page.evaluate(AXE.read_text())
    out = []
    for width in (2560, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        if (wide := page.evaluate("() => document.documentElement.scrollWidth")) > width:
            out.append(f"{address} is {wide} pixels wide in a window of {width}")
    for theme in ("dark", "light"):
        page.emulate_media(color_scheme=theme)
        page.evaluate("theme => { document.documentElement.dataset.theme = theme; }", theme)
        result = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        out += [
            f"{address} {theme} {v['id']}: {v['nodes'][0]['html'][:200]}"
            for v in result["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    return out


def test_a_hand_out_works_as_a_file_and_its_answers_come_back(chromium, place, tmp_path):
    from updp.review.pack import pack

    key = Key(SECRET)
    plan = load_plan(place / "study", key)
    (folder,) = pack(place / "study", tmp_path, key, "reader 3")
    page = context(chromium, accept_downloads=True).new_page()
    page.goto((folder / "index.html").as_uri())
    for n in range(3):
        shown(page, n)
        page.keyboard.press("}")
        page.locator("#reading").filter(has_text="W 271 · L 128 · 100 %").wait_for()  # the next film begins anew
        rate(page, quality=str(n + 1))
    shown(page, 3)
    page.reload()  # the browser keeps what was answered
    shown(page, 3)
    with page.expect_download() as saved:
        page.locator("#save").click()
    path = tmp_path / "answers.json"
    saved.value.save_as(path)
    base = Answers(place / "study", plan)
    assert base.collect(path, key) == ("reader 3", 3)
    assert [answer.quality for answer in base.of("reader 3").values()] == [1, 2, 3]
    page.evaluate(ALL_BUT_ONE)
    page.reload()
    last = len(plan.reader("reader 3").items) - 1
    shown(page, last)
    rate(page, quality="5")
    page.locator("#finished").filter(has_text="the last film").wait_for()
    page.keyboard.press("Backspace")  # undo works there too
    shown(page, last)
    assert page.locator("#quality input:checked").get_attribute("value") == "5"
    assert page.locator("#finished").is_hidden()
    assert faults(page, page.url, ready="#finished") == []
    data = json.loads(path.read_text())
    data["answers"][0]["quality"] = 5
    path.write_text(json.dumps(data))
    with pytest.raises(BadAnswer, match="altered"):
        base.collect(path, key)


def test_a_hand_out_needs_no_network_and_tells_nothing(place, tmp_path):
    from updp.review.pack import pack

    (folder,) = pack(place / "study", tmp_path, Key(SECRET), "reader 1")
    text = "".join(path.read_text() for path in folder.iterdir() if path.is_file())
    assert "http://" not in text
    assert "https://" not in text
    assert "released" not in (folder / "study.js").read_text()
    assert released(place / "made").is_dir()
