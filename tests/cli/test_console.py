"""What commands print while they work."""

from __future__ import annotations

import io

from rich.console import Console

from updp.cli.console import Progress


def test_outside_a_terminal_the_last_line_is_printed_once():
    out = io.StringIO()
    with Progress(Console(file=out)) as bar:
        bar(0, 3)
        bar(3, 3)
        bar(3, 3)
        bar._show(3)  # as the watch does while the release is assembled
    assert [line.split(",")[0] for line in out.getvalue().splitlines()] == ["films 0/3", "films 3/3"]


def test_a_second_pass_has_a_last_line_of_its_own():
    out = io.StringIO()
    with Progress(Console(file=out)) as bar:
        bar(2, 2)
        bar(1, 2)
        bar(2, 2)
    assert out.getvalue().count("films 2/2") == 2
