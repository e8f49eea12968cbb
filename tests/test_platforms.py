"""The package imports where POSIX is not, and tests that need POSIX say so."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Modules of the standard library that only POSIX systems have.
ONLY_POSIX = {"crypt", "fcntl", "grp", "nis", "posix", "pty", "pwd", "resource", "spwd", "syslog", "termios", "tty"}
#: Functions that only POSIX systems have, or that do something else elsewhere.
NEEDS_POSIX = re.compile(r"os\.(mkfifo|killpg|fork|getuid)\b|\.symlink_to\(|signal\.SIG(KILL|XFSZ)|0o[0-7]00\b")


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("part", ["src", "tests"])
def test_no_module_needs_posix_to_be_imported(part):
    found = []
    for path in sorted((ROOT / part).rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        if part == "tests":  # a test that is skipped may import what it likes
            tree.body = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        found += [f"{path.relative_to(ROOT)}: {name}" for name in imported(tree) if name in ONLY_POSIX]
    assert found == []


def test_the_source_calls_nothing_that_only_posix_has():
    calls = re.compile(r"os\.(mkfifo|killpg|fork|getuid|geteuid|sched_\w+)\b|signal\.SIG(KILL|XFSZ|HUP)")
    assert [path.name for path in sorted((ROOT / "src").rglob("*.py")) if calls.search(path.read_text("utf-8"))] == []


def test_tests_that_need_posix_say_so():
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text("utf-8")
        if path != Path(__file__) and NEEDS_POSIX.search(text) and "mark.posix" not in text:
            silent.append(path.relative_to(ROOT).as_posix())
    assert silent == []
