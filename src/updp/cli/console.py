"""What commands print: progress, tables, outcomes, checks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import typer

from updp.cli.session import add_result, log, make_console, printable

if TYPE_CHECKING:
    from rich.console import Console

    from updp.evaluation.apart import Apart
    from updp.evaluation.cohort.settings import MethodPlan
    from updp.release.assemble import Outcome
    from updp.release.gate import Check


def planned(
    methods: Sequence[str] | None, options: Sequence[str] | None, plan: Path | None = None, default: Sequence[str] = ()
) -> list[MethodPlan]:
    """The methods of a command line: those of the plan file, or those named; options are those of the only one."""
    from updp.evaluation.cohort.settings import MethodPlan, read_plan

    if plan is not None:
        if methods or options:
            raise typer.BadParameter("--plan names methods and options itself; give it alone")
        return read_plan(plan)
    names = methods or default
    if options and len(names) > 1:
        raise typer.BadParameter("--option belongs to one --method; give several methods options in a --plan file")
    return [MethodPlan(name=name, options=read_options(options or ())) for name in names]


def given_options(**options: Any) -> dict[str, Any]:
    """The options that the user gave."""
    return {name: value for name, value in options.items() if value is not None}


def apart_of(engine: str, address: str | None, workers: int | None) -> Apart | None:
    """The engine that attacks run on; None for this process."""
    from updp.evaluation.apart import Apart

    options = given_options(address=address)
    return None if engine == "local" and not options and workers in (None, 1) else Apart(engine, options, workers)


def read_options(given: Sequence[str]) -> dict[str, Any]:
    """Options written key=value; values are JSON, and text where they are not."""
    import json

    found: dict[str, Any] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not key or not sign:
            raise typer.BadParameter(f"{text!r} is not in the form key=value")
        try:
            found[key] = json.loads(value)
        except ValueError:
            found[key] = value
    return found


def open_key(path: Path | None, console: Console | None) -> Any:
    from updp.core.keys import Key, default_path

    place = path or default_path()
    key, made = Key.load_or_create(place)
    if made and console:
        console.print(f"A new secret key was made at {place} ({key.fingerprint}). Back it up; never share it.")
    return key


class Progress:
    """A bar with rate and time left on a terminal; elsewhere a line now and then.

    ``out`` is the folder of a run: films that went through the stations are counted as they do, not only when their
    shard lands.
    """

    def __init__(self, console: Console, out: Path | None = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.console, self.out = console, out
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("films", total=None, rate="")
        self.done = self.total = self.first = 0
        self.ended = False  # whether the last line was printed
        self.over = Event()

    def __enter__(self) -> Progress:
        self.start = time.monotonic()
        self.next_line = self.start
        self.bar.start()
        if self.out is not None:
            self.watch = Thread(target=self._watch, args=(self.out,), daemon=True)
            self.watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.bar.stop()

    def _watch(self, out: Path) -> None:
        from updp.pipeline.run import films_in_work

        while not self.over.wait(0.5):
            if self.total:
                self._show(self.done + films_in_work(out))

    def __call__(self, done: int, total: int) -> None:
        log.info("progress", extra={"facts": {"done": done, "films": total}})
        if not self.total:  # what had landed before does not count towards the rate
            self.start, self.first = time.monotonic(), done
        self.ended = self.ended and done == total
        self.done, self.total = done, total
        self._show(done)

    def _show(self, done: int) -> None:
        now = time.monotonic()
        rate = (done - self.first) / (now - self.start) if now > self.start else 0.0
        self.bar.update(self.task, completed=done, total=self.total, rate=f"{rate:.2g}/s" if rate > 0 else "")
        last = done == self.total == self.done
        if not self.console.is_terminal and not self.ended and (last or now >= self.next_line):
            self.ended = last
            left = f", {(self.total - done) / rate:.0f} s left" if rate > 0 and done < self.total else ""
            self.console.print(f"films {done}/{self.total}{f', {rate:.2g}/s' if rate > 0 else ''}{left}")
            self.next_line = now + 30


def megabytes(size: int) -> str:
    """A size with its unit."""
    return f"{size / 1e6:.1f} MB"


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], name: str = "rows") -> None:
    """Print a table, and add its rows to the result under ``name``."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    table = Table(*heads, box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*[escape(printable(cell)) for cell in row])
    add_result(**{name: [dict(zip(heads, row, strict=True)) for row in rows]})
    make_console().print(table)


def print_checks(console: Console, checks: tuple[Check, ...]) -> None:
    from rich.markup import escape

    from updp.core.questions import Outcome

    marks = {Outcome.NOT_ASKED: "[yellow]?[/]"}
    add_result(checks=[{"name": check.name, "outcome": str(check.outcome), "detail": check.detail} for check in checks])
    for check in checks:
        mark = "[green]✓[/]" if check.outcome.good else marks.get(check.outcome, "[red]✗[/]")
        # A detail may hold the name of a file that somebody else chose.
        console.print(f"{mark} {check.name}: {check.outcome}; {escape(printable(check.detail))}", soft_wrap=True)


def _note_quarantine(path: Path) -> None:
    """Every study that was kept back, with its reason code, in the log."""
    import json
    import logging

    if log.isEnabledFor(logging.INFO) and path.is_file():
        for line in path.read_text("utf-8").splitlines():
            log.info("kept back", extra={"facts": json.loads(line)})


def print_outcome(console: Console, outcome: Outcome) -> None:
    from updp.core.reasons import REPAIR, Reason

    _note_quarantine(outcome.folder.parent / "quarantine.jsonl")

    add_result(
        status=outcome.status,
        folder=outcome.address or str(outcome.folder),
        released=outcome.released,
        quarantined=dict(outcome.quarantined),
        skipped=outcome.skipped,
    )
    done = "released to" if outcome.status == "passed" else "written to"
    console.print(f"[bold]{outcome.released}[/] films {done} {outcome.address or outcome.folder}", soft_wrap=True)
    if outcome.skipped:
        console.print(f"{outcome.skipped} lateral films passed over")
    for code, count in outcome.quarantined.items():
        console.print(f"[yellow]{count}[/] kept back: {code} ({REPAIR[Reason(code)]})", soft_wrap=True)
    if outcome.status == "not-measured":
        console.print(
            "[yellow]Not measured:[/] no attack was run and no usefulness tested, so this is not a release yet. "
            "`updp evaluate` decides.",
            soft_wrap=True,
        )
    elif outcome.status == "blocked":
        console.print("[bold red]Blocked by the gate.[/] See evidence/report.html in that folder.")
