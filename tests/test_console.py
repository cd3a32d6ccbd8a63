"""Progress and notes: on a terminal and after a second, and never in the way of answers."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from proportio.commands import console
from proportio.commands.console import Console, one_line

SLOW = """
from proportio.commands import console
console.PATIENCE = 0.0
with console.Console() as c, c.progress("rows") as bar:
    for k in range(5):
        bar(k + 1, 5)
        bar._bar and bar._bar.refresh()
print("answer")
"""


def test_a_bar_shows_on_a_terminal_and_leaves_the_answer_alone() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-c", SLOW], stdout=subprocess.PIPE, stderr=theirs, env=environment
    ) as process:
        answer, _ = process.communicate(timeout=60)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert answer == b"answer\n" and "rows" in shown and "5" in shown


def test_nothing_shows_elsewhere(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "PATIENCE", 0.0)
    with Console() as c, c.progress("rows") as bar:
        bar(1, 2)
        bar(2, None)
    assert capfd.readouterr() == ("", "")


def test_notes_are_for_those_who_want_them(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, verbose, lines in [(True, False, 0), (False, False, 1), (False, True, 3)]:
        with Console(quiet, verbose) as c:
            c.note("a note")
            c.detail("a detail")
        assert len(capsys.readouterr().err.splitlines()) == lines


def test_an_error_is_one_line_whatever_it_holds() -> None:
    assert one_line(ValueError("a\n  b\tc")) == "a b c"
