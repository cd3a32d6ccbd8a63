"""What the command says beside its answers: errors of one line, notes, and progress; all of it on stderr.

Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 130 interrupted.
"""

from __future__ import annotations

import sys
import time
import warnings
from types import TracebackType
from typing import Annotated, Any, Self

import typer
from typer.core import TyperGroup

PATIENCE = 1.0  # seconds before progress shows

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Errors only: no progress, no notes.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is read, and how long it takes.")]


def one_line(error: BaseException) -> str:
    """A message as one line, whatever the library below put in it."""
    return " ".join(str(error).split())


def failure(error: BaseException) -> int | None:
    """The exit code of an error that the user can mend, said on stderr; None for any other, which is ours."""
    if isinstance(error, KeyboardInterrupt):
        typer.echo("proportio: interrupted: nothing was written", err=True)
        return 130
    errors = sys.modules.get("proportio.errors")  # what never loaded raised nothing; it is slow to load
    if (errors is not None and isinstance(error, errors.ProportioError)) or isinstance(error, ImportError):
        typer.echo(f"proportio: {one_line(error)}", err=True)
        return 2
    return None


class Guarded(TyperGroup):
    """Commands whose errors are one line on stderr and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (Exception, KeyboardInterrupt) as error:
            code = failure(error)
            if code is None:
                raise
            raise typer.Exit(code) from None


class Console:
    """Notes and progress of one command. The library's warnings are left to the answers, which carry the same words."""

    def __init__(self, quiet: bool = False, verbose: bool = False) -> None:
        if quiet and verbose:
            from proportio.errors import InputError

            raise InputError("--quiet and --verbose exclude each other: leave one of them out.")
        self.quiet, self.verbose = quiet, verbose
        self._began = time.perf_counter()
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> Self:
        from proportio.errors import ProportioWarning

        self._warnings.__enter__()
        warnings.simplefilter("ignore", ProportioWarning)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._warnings.__exit__(kind, error, trace)
        if error is None:
            self.detail(f"done in {time.perf_counter() - self._began:.2f} s")

    def note(self, text: str) -> None:
        """One line, unless quiet."""
        if not self.quiet:
            typer.echo(f"proportio: {text}", err=True)

    def detail(self, text: str) -> None:
        """One line, if verbose."""
        if self.verbose:
            typer.echo(f"proportio: {text}", err=True)

    def progress(self, what: str) -> Progress:
        """A bar on a terminal, after a second; nothing elsewhere."""
        return Progress(what, shown=not self.quiet and sys.stderr.isatty())


class Progress:
    """`bar(done, total)`: what a fold over batches calls; `total` is None where it is not known."""

    def __init__(self, what: str, *, shown: bool) -> None:
        self.what, self.shown = what, shown
        self._began = time.perf_counter()
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int | None = None) -> None:
        """So much is done, of so much."""
        if not self.shown or time.perf_counter() - self._began < PATIENCE:
            return
        if self._bar is None:
            from rich.console import Console as Terminal
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:,.0f}"),
                TimeRemainingColumn(),
            )
            self._bar = Bar(*columns, console=Terminal(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self.what, total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
