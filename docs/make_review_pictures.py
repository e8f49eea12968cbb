"""Make the pictures of the review page from the virtual hospital: python docs/make_review_pictures.py DEMO

DEMO is a folder with ``hospital``, ``run`` and ``key``, as `updp demo --out DEMO` leaves it. Needs the extra `review`,
Playwright and Debian's chromium. The result is that of 120 invented patients and simulated readers, and the picture
says so. With ``--check FOLDER`` every page is drawn at 1280 and 2560 pixels, light and dark, for people to look at.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from updp.core.keys import Key
from updp.release.assemble import finished
from updp.review.analyse import Analysis, analyse, into_folder, load_answers
from updp.review.answers import Answers
from updp.review.design import VERSIONS, arranged, design
from updp.review.plan import Plan, PlannedFilm, Reader
from updp.review.serve import Review, prepare
from updp.review.simulate import simulate

PICTURES = Path(__file__).parent / "pictures"
PATIENTS, FINDINGS = 120, ("Cardiomegaly", "Effusion", "Nodule", "Pneumothorax")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

#: Scroll to a part of the page beside the films.
TO = """title => [...document.querySelectorAll("h2")].find(one => one.textContent === title).scrollIntoView()"""


def studied(run: Path, hospital: Path, key: Key, out: Path) -> None:
    """A study of the demonstration's release, to be read."""
    ended = finished(run)
    assert ended is not None
    design(ended.folder, hospital, out, key=key, films=16, days=0)


def simulated(key: Key, out: Path) -> Analysis:
    """A study of 120 invented patients. Simulated readers answer from the plan alone, so it needs no films."""
    out.mkdir()
    truths = (key.rng("pictures", "truth").random((PATIENTS, len(FINDINGS))) < 0.3).astype(int)
    names = [(f"original {n}", f"released {n}") for n in range(PATIENTS)]
    films = {
        name: PlannedFilm(str(n), version, tuple(map(int, truths[n])), "")
        for n, pair in enumerate(names)
        for name, version in zip(pair, VERSIONS, strict=True)
    }
    orders = arranged(names, [int(t.sum()) for t in truths], 3, PATIENTS // 2, PATIENTS // 10, key, 0)
    readers = tuple(Reader(f"simulated reader {n}", items) for n, items in enumerate(orders, start=1))
    plan = Plan("blinded-crossover", "", FINDINGS, PATIENTS // 2, 14, True, films, readers)
    simulate(plan, Answers(out, plan), key)
    return analyse(plan, load_answers(plan, out))


def settled(page: Page) -> None:
    """Wait for films and thumbnails that are on their way."""
    page.wait_for_load_state("networkidle")
    page.wait_for_function("() => !document.querySelector('.line:not(.blank) .strip:not(.here)')")
    page.wait_for_timeout(500)


def theme(page: Page, name: str) -> None:
    page.evaluate("name => { document.documentElement.dataset.theme = name; }", name)


def pages(page: Page, ready: Review, result: Path) -> dict[str, str]:
    """The addresses of the pages by name."""
    base = ready.links[0].address.partition("/enter")[0]
    page.goto(ready.links[0].address)
    page.goto(f"{base}/desk/wall?order=nearest")
    page.wait_for_selector(".strip.here")
    film = page.locator(".tile[href]").first.get_attribute("href")
    page.goto(f"{base}/desk/quarantine")
    kept = page.locator("tbody a").first.get_attribute("href")
    return {
        "desk": f"{base}/desk",
        "wall": f"{base}/desk/wall?order=nearest",
        "film": f"{base}{film}",
        "quarantine": f"{base}/desk/quarantine",
        "study": f"{base}{kept}",
        "decisions": f"{base}/desk/decisions",
        "error": f"{base}/nowhere",
        "result": result.as_uri(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path)
    parser.add_argument("--check", type=Path, help="Draw every page in two sizes and two themes here.")
    given = parser.parse_args()
    key = Key.load(given.demo / "key")
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch) / "run"
        shutil.copytree(given.demo / "run", run)
        read = Path(scratch) / "study"
        studied(run, given.demo / "hospital", key, read)
        result = into_folder(simulated(key, Path(scratch) / "simulated"), Path(scratch) / "result")
        ready = prepare(run, key, study=read, source=given.demo / "hospital")
        assert ready.desk is not None
        ready.desk._beside()  # whatever runs beside the server is done before a picture is taken
        threading.Thread(target=ready.server.run, kwargs={"sockets": [ready.listening]}, daemon=True).start()
        with sync_playwright() as player:
            browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            desk = browser.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
            reader = browser.new_context(viewport={"width": 1280, "height": 800})
            for context in (desk, reader):
                context.set_default_timeout(300_000)
            page, reading = desk.new_page(), reader.new_page()
            places = pages(page, ready, result)
            reading.goto(ready.links[1].address)
            reading.wait_for_selector("body[data-shown='0']")
            if given.check:
                given.check.mkdir(parents=True, exist_ok=True)
                for width, height in ((1280, 800), (2560, 1440)):
                    for one in (page, reading):
                        one.set_viewport_size({"width": width, "height": height})
                    for name, place in places.items():
                        page.goto(place)
                        for shade in ("light", "dark"):
                            if name == "result":
                                page.emulate_media(color_scheme=shade)
                            theme(page, shade)
                            settled(page)
                            page.screenshot(path=given.check / f"{name}-{width}-{shade}.png")
                            for part in ("Decide", "Report", "Header") if name == "film" else ():
                                page.evaluate(TO, part)
                                page.screenshot(path=given.check / f"{part.lower()}-{width}-{shade}.png")
                    for shade in ("light", "dark"):
                        theme(reading, shade)
                        settled(reading)
                        reading.screenshot(path=given.check / f"read-{width}-{shade}.png")
            else:
                for name in ("desk", "wall", "film", "result"):
                    page.goto(places[name])
                    settled(page)
                    page.screenshot(path=PICTURES / f"review-{name}.png")
                for key_name in ("2", "4", "1"):
                    reading.keyboard.press(key_name)
                settled(reading)
                reading.screenshot(path=PICTURES / "review-read.png")
            browser.close()
        ready.server.should_exit = True


if __name__ == "__main__":
    main()
