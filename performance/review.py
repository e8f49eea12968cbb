"""How fast the review page is: first page, next film, frames of the wall, memory of the server.

    python performance/review.py --films 10000

Makes a release of so many small invented films (method ``pixelate``), opens the desk in Chromium, and prints: seconds
from the request of the overview and of the wall to the first picture; what scrolling the wall of all films costs, at
several speeds; milliseconds from the key press to the pixels of the next film (of the comparison, and of a reader
study); and the memory of the server with a tenth of the films and with all of them. ``--folder`` keeps the releases for
the next call.

Frames per second depend on what else the machine does. So every speed is also scrolled frame by frame, each frame as
far as 1/60 s takes, however long it lasts, and the processor time of each thread is read from a trace of Chromium: a
frame fits into 1/60 s where no thread needs more than 16.7 ms for it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from updp.core.keys import Key
from updp.core.policy import Policy
from updp.pipeline.run import deidentify
from updp.release.assemble import finished
from updp.review.design import design

SECRET = bytes(range(32))
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
SERVER = """
import sys
from pathlib import Path
from updp.core.keys import Key
from updp.review.serve import prepare
out, study = map(Path, sys.argv[1:])
ready = prepare(out, Key(bytes(range(32))), study=study, source=out.parent / "export", classify=False)
if not ready.desk.index.has_originals():
    ready.desk.index.keep_originals(ready.desk._studies(0))
ready.desk.verification = ready.desk._verify()
print(*(link.address for link in ready.links), flush=True)
ready.server.run(sockets=[ready.listening])
"""
#: Scroll for four seconds at so many pixels per millisecond; 0: from end to end.
SCROLL = """(pace) => new Promise((done) => {
  const wall = document.getElementById("wall"), end = wall.scrollHeight - wall.clientHeight, frames = [];
  const begin = performance.now(), lasts = 4000, way = Math.min(end, pace ? pace * lasts : end);
  const step = (now) => {
    frames.push(now);
    wall.scrollTop = way * Math.min(1, (now - begin) / lasts);
    if (now - begin < lasts) requestAnimationFrame(step); else done(frames);
  };
  requestAnimationFrame(step);
})"""
#: Scroll so many pixels in each of so many frames, from the middle of the wall.
STEPS = """([way, count]) => new Promise((done) => {
  const wall = document.getElementById("wall"), from = (wall.scrollHeight - wall.clientHeight) / 3;
  let n = 0;
  const step = () => {
    wall.scrollTop = from + way * n;
    if (n++ < count) requestAnimationFrame(step); else done();
  };
  requestAnimationFrame(step);
})"""
#: Speeds of the wall, in pixels per millisecond: rows pass at 5 to 60 a second.
PACES = (1, 2, 4, 6.5, 12)
FRAMES = 90


#: Milliseconds between two marks of a page.
BETWEEN = "names => { const [a, b] = names.map((n) => performance.getEntriesByName(n)[0].startTime); return b - a; }"


def export(root: Path, films: int) -> Path:
    """A manifest of films that differ, two per patient."""
    root.mkdir(parents=True)
    rng = np.random.default_rng(0)
    with (root / "manifest.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["film_id", "study_id", "patient_id", "image", "view", "labels"])
        for n in range(films):
            coarse = Image.fromarray(rng.integers(20, 230, (6, 6), dtype=np.uint8)).resize(
                (128, 128), Image.Resampling.BICUBIC
            )
            coarse.save(root / f"{n}.png")
            table.writerow([n, n, n // 2, f"{n}.png", "PA", ("Effusion", "Nodule", "No Finding")[n % 3]])
    return root


def made(root: Path, films: int) -> tuple[Path, Path]:
    """A release of so many films and a study of it, unless they are there."""
    if (root / "study" / "plan.json").is_file():
        for path in (root / "study").glob("answers.sqlite3*"):  # readers begin anew
            path.unlink()
        return root / "out", root / "study"
    policy = Policy.model_validate(
        {"burned_in": {"mode": "off"}, "method": {"name": "pixelate"}, "image": {"size": 128},
         "report": {"mode": "withhold"}, "release": {"shard_size": 500}}
    )  # fmt: skip
    source, key = export(root / "export", films), Key(SECRET)
    deidentify(source, root / "out", policy=policy, key=key, workers=1)
    ended = finished(root / "out")
    assert ended is not None
    design(ended.folder, source, root / "study", key=key, films=40, days=0)
    return root / "out", root / "study"


def busy(pid: int) -> float:
    """Seconds of processor that a process has used: a figure that other work on the machine does not change."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reached(frames: Any) -> str:
    """Frames per second on this machine with its load."""
    return (
        f"{1000 / frames.mean():.1f} frames per second at load {os.getloadavg()[0]:.1f}, 95 % of frames within "
        f"{np.quantile(frames, 0.95):.1f} ms"
    )


def needed(trace: bytes) -> str:
    """Processor time of a frame: of the page's main thread while it makes one, and of the busiest other threads."""
    events = json.loads(trace)["traceEvents"]
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    made, tasks = defaultdict[int, list[float]](list), Counter[str]()
    for event in events:
        name, used = threads.get((event["pid"], event["tid"]), ""), event.get("tdur", 0) / 1000
        if name == "CrRendererMain" and event["name"] == "ProxyMain::BeginMainFrame":
            made[event["pid"]].append(used)
        elif event["name"] in ("ThreadControllerImpl::RunTask", "ThreadPool_RunTask"):
            tasks[name] += used / FRAMES
    frames = max(made.values(), key=sum)  # other processes show pages of the browser itself
    others = {"Compositor": "compositor", "VizCompositorThread": "display", "ThreadPoolForegroundWorker": "raster"}
    rest = ", ".join(f"{words} {tasks[name]:.1f}" for name, words in others.items())
    return (
        f"main thread {np.mean(frames):.1f} ms for a frame (95 % within {np.quantile(frames, 0.95):.1f}), "
        f"{tasks['CrRendererMain']:.1f} with all between frames; {rest} ms"
    )


def memory(pid: int) -> float:
    """Resident memory of a process, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


class Served:
    """The server on a release in a process of its own, and a page of Chromium with an officer's session."""

    def __init__(self, browser: Any, root: Path, films: int) -> None:
        out, study = made(root, films)
        begin = time.perf_counter()
        command = [sys.executable, "-c", SERVER, str(out), str(study)]
        self.child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout is not None
        officer, self.reader, *_ = self.child.stdout.readline().split()
        print(f"{films} films: release checked and server ready after {time.perf_counter() - begin:.2f} s", flush=True)
        self.browser, self.films, self.base = browser, films, officer.partition("/enter")[0]
        self.page = self.tab()
        self.page.goto(officer)

    def tab(self) -> Any:
        made = self.browser.new_context(viewport={"width": 1280, "height": 800})
        made.set_default_timeout(300_000)  # a machine that does other work is slow, and still measured
        return made.new_page()

    def wall(self) -> None:
        self.page.goto(self.base + "/desk/wall")
        self.page.wait_for_selector(".strip.here")


def pages(served: Served) -> None:
    """Seconds from a request to the first content of a page."""
    page, films = served.page, served.films
    for name, path, ready in (("overview", "/desk", ".numbers"), ("wall", "/desk/wall", ".strip.here")):
        times, worked = [], busy(served.child.pid)
        for _ in range(5):
            begin = time.perf_counter()
            page.goto(served.base + path, wait_until="commit")
            page.wait_for_selector(ready)
            times.append(time.perf_counter() - begin)
        worked = (busy(served.child.pid) - worked) / 5
        print(
            f"{films} films: {name} {np.median(times):.3f} s (median of 5, largest {max(times):.3f} s), "
            f"{1000 * worked:.0f} ms of the server's processor",
            flush=True,
        )


def wall(served: Served) -> None:
    """Frames per second, and processor time of a frame, while the wall scrolls."""
    page, films = served.page, served.films
    served.wall()
    frames = np.diff(page.evaluate(SCROLL, 0))
    print(f"{films} films: wall scrolled from end to end in 4 s: {reached(frames)}", flush=True)
    for pace in PACES:
        served.wall()
        page.wait_for_timeout(500)
        frames = np.diff(page.evaluate(SCROLL, pace))
        page.wait_for_timeout(500)
        served.browser.start_tracing(page=page, categories=["toplevel", "cc", "devtools.timeline"])
        worked = busy(served.child.pid)
        page.evaluate(STEPS, [pace * 1000 / 60, FRAMES])
        worked = 1000 * (busy(served.child.pid) - worked) / FRAMES
        print(
            f"{films} films: wall scrolled at {1000 * pace:.0f} pixels per second: {reached(frames)}; "
            f"{needed(served.browser.stop_tracing())}, server {worked:.1f} ms; {page.locator('.tile').count()} tiles",
            flush=True,
        )


def films(served: Served) -> None:
    """Milliseconds from the key press to the pixels of the next film."""
    page = served.page
    served.wall()
    page.keyboard.press("Enter")
    waits = []
    for _ in range(20):
        page.wait_for_selector("body[data-shown]")
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)  # an officer looks at a film before the next
        place = "/desk/film/" + page.locator("#study").get_attribute("data-after")
        page.keyboard.press("n")
        page.wait_for_selector(f"body[data-shown='{place}']")
        waits.append(page.evaluate(BETWEEN, [f"asked {place}", f"shown {place}"]))
    print(
        f"next film beside its original: {np.median(waits):.0f} ms from key to pixels (median of 20, largest "
        f"{max(waits):.0f} ms)",
        flush=True,
    )
    page = served.tab()
    page.goto(served.reader)
    waits = []
    for n in range(20):
        page.wait_for_selector(f"body[data-shown='{n}']")
        for key in (*("2" * page.locator("fieldset[id^=finding]").count()), "4", "r", "Enter"):
            page.keyboard.press(key)
        page.wait_for_selector(f"body[data-shown='{n + 1}']")
        waits.append(page.evaluate(BETWEEN, [f"asked-{n + 1}", f"shown-{n + 1}"]))
    print(f"next film of a study: {np.median(waits):.0f} ms (median of 20, largest {max(waits):.0f} ms)", flush=True)


PARTS = {"pages": pages, "wall": wall, "films": films}


def measured(browser: Any, root: Path, count: int, parts: Sequence[str]) -> float:
    """Print every part; returns the memory of the server."""
    served = Served(browser, root, count)
    try:
        for part in parts:
            PARTS[part](served)
        used = memory(served.child.pid)
        print(f"{count} films: server uses {used:.0f} MiB", flush=True)
        return used
    finally:
        served.child.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--films", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="Keep the releases here, and use those that are there.")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="What to measure.")
    given = parser.parse_args()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with sync_playwright() as player, tempfile.TemporaryDirectory() as scratch:
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        root = given.folder or Path(scratch)
        few = measured(browser, root / "few", given.films // 10, given.parts)
        many = measured(browser, root / "many", given.films, given.parts)
        print(f"memory: {many - few:+.0f} MiB for ten times the films")
        browser.close()


if __name__ == "__main__":
    main()
