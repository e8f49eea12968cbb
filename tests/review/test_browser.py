"""The pages in a real Chromium: reading by keyboard, killed servers, a wall of ten thousand films, hand-outs, axe."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from tests.review.conftest import released
from updp.core.keys import Key
from updp.review.analyse import analyse, into_folder
from updp.review.answers import Answers, BadAnswer
from updp.review.plan import load_plan

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
ready = prepare(Path(out), Key(bytes(range(32))), study=Path(study), port=int(port), classify=False)
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
SCROLL_FAST = """() => new Promise((done) => {
  const wall = document.getElementById("wall");
  let n = 0;
  const step = () => { wall.scrollTop += 3000; if (n++ < 20) requestAnimationFrame(step); else done(); };
  step();
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
        browser = player.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
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
        self.child = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(root / "made" / "out"), str(root / "study"), str(port)],
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
        assert "Please answer" in page.locator("#message").inner_text()
        server.kill()
        rate(page)
        page.locator("#message").filter(has_text="not saved").wait_for()
        assert sorted(base.of("reader 1")) == list(range(10))
        assert [answer.quality for answer in base.of("reader 2").values()] == [1]
    finally:
        server.child.kill()


@pytest.fixture(scope="module")
def desk_page(chromium, server):
    page = context(chromium, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(server.officer)
    return page


def test_the_officer_compares_by_keyboard(desk_page, server):
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
    for key in ("d", "e", "f"):
        page.keyboard.press(key)
    assert page.locator("[data-mode=plain]").get_attribute("aria-checked") == "true"
    assert "W 255" in reading.inner_text()
    before, place = page.url, page.locator("#study").get_attribute("data-after")
    page.evaluate("() => { window.same = true; }")
    page.keyboard.press("n")
    page.wait_for_selector(f"body[data-shown='/desk/film/{place}']")
    assert f"/desk/film/{place}?" in page.url
    assert place in page.locator(".facts").inner_text()
    page.go_back()
    page.wait_for_selector(f"body[data-shown='{before.partition(str(server.port))[2].partition('?')[0]}']")
    assert page.evaluate("() => window.same")  # no page was loaded anew


def test_a_wall_of_ten_thousand_films_holds_only_what_is_in_sight(chromium, made_once, tmp_path):
    from updp.review.serve import prepare

    shutil.copytree(made_once, tmp_path / "made")
    ready = prepare(tmp_path / "made" / "out", Key(SECRET), classify=False)
    with closing(sqlite3.connect(tmp_path / "made/out/review/desk.sqlite3")) as base, base:
        names = [row[0] for row in base.execute("SELECT file_name FROM films")]
        base.execute("DELETE FROM films")
        base.executemany(
            "INSERT INTO films VALUES (?, ?, ?, 'p', 'PA', '|Effusion|', '', ?, '00000', 0, NULL, 0.5, NULL)",
            [(n, f"f{n}", f"q{n}", names[n % len(names)]) for n in range(10_000)],
        )
    thread = threading.Thread(target=ready.server.run, kwargs={"sockets": [ready.listening]}, daemon=True)
    thread.start()
    try:
        page = context(chromium, viewport={"width": 1280, "height": 800}).new_page()
        page.goto(ready.links[0].address)
        page.goto(ready.links[0].address.partition("/enter")[0] + "/desk/wall")
        page.wait_for_selector(".strip.here")
        assert page.locator("#count").inner_text() == "10 000 films"
        page.wait_for_load_state("networkidle")
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.evaluate(SCROLL_FAST)
        assert asked == []  # nobody sees a film that passes so fast
        page.wait_for_selector(".line:not(.blank) .strip.here")
        page.keyboard.press("End")
        page.wait_for_selector(".line:has(a[href^='/desk/film/f9999?']) .strip.here")
        assert page.locator(".tile").count() < 120
        assert page.locator("[aria-selected=true]").get_attribute("aria-posinset") == "10000"
    finally:
        ready.server.should_exit = True
        thread.join(60)


def test_axe_finds_nothing_serious_on_any_page_in_light_and_dark(desk_page, chromium, server, place, tmp_path):
    plan = load_plan(place / "study", Key(SECRET))
    seen = lambda reader, n: tuple(4 * t + 1 for t in plan.films[reader.items[n].film].truth)  # noqa: E731
    read = {
        one.name: {n: answer(plan, one.name, n, findings=seen(one, n)) for n in range(len(one.items))}
        for one in plan.readers
    }
    result = into_folder(analyse(plan, read), tmp_path)
    page, base = desk_page, f"http://127.0.0.1:{server.port}"
    page.goto(f"{base}/desk/wall")
    page.wait_for_selector(".tile[href]")
    film = page.locator(".tile[href]").first.get_attribute("href")
    kept = page.goto(f"{base}/desk/quarantine") and page.locator("tbody a").first.get_attribute("href")
    found = [
        fault
        for path in ("/desk", "/desk/wall", film, "/desk/quarantine", kept, "/desk/decisions", "/nowhere")
        for fault in faults(page, base + path)
    ]
    reader = context(chromium).new_page()
    reader.goto(server.readers[2])
    shown(reader, 0)
    found += faults(reader, f"{base}/read", ready="body[data-shown]")
    found += faults(context(chromium).new_page(), result.as_uri())
    assert found == []


def faults(page, address: str, ready: str = "main") -> list[str]:
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
