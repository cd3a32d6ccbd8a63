"""`proportio monitor`: every file that comes into a directory is a batch of a stream; its state survives a kill at any moment.

A file counts once: its name is kept in the state, which is written, whole or not at all, after each batch and before the next.
"""

from __future__ import annotations

import json as json_
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from proportio.commands import reading
from proportio.commands.console import Console, Quiet, Verbose
from proportio.commands.outputs import Outputs

if TYPE_CHECKING:
    from proportio.monitor import Monitor, MonitorStep

SETTLED = 2.0  # seconds without a change after which a file is taken to be whole, while more may come
MOST = 10_000  # file names that a state remembers


class Alarm(StrEnum):
    """What a monitor can raise."""

    drift = "drift"
    shift = "shift"


def monitor(
    directory: Annotated[Path, typer.Argument(help="Where batches arrive as files, or their sketches.")],
    model: Annotated[Path, typer.Option("--model", help="A model that `proportio fit` saved.")],
    state: Annotated[Path, typer.Option("--state", help="The file of the monitor's state; made if it is not there.")],
    every: Annotated[
        float | None, typer.Option("--every", min=0.1, help="Look again every so many seconds, for ever.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
    prometheus: Annotated[
        Path | None,
        typer.Option("--prometheus", help="Write the last step for the node exporter's textfile collector."),
    ] = None,
    level: Annotated[
        float, typer.Option("--level", help="How likely a false alarm may be, over the whole stream.")
    ] = 0.05,
    json: Annotated[bool, typer.Option("--json", help="Print every batch as a line of JSON.")] = False,
    fail_on: Annotated[
        list[Alarm] | None, typer.Option("--fail-on", help="Exit with 1 once this alarm is raised.")
    ] = None,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Watch a directory of batches: shares over time, and alarms that hold over the whole stream."""
    import proportio as pp
    from proportio.errors import InputError

    with Console(quiet, verbose) as console:
        if once == (every is not None):
            raise InputError("give either --once or --every SECONDS.")
        if not directory.is_dir():
            raise InputError(f"{directory}: not a directory; name the one where batches arrive as files.")
        Outputs(state, prometheus, inputs=[model])
        fitted = pp.load(model)
        watch = pp.Monitor.load(state, fitted) if state.exists() else pp.Monitor(fitted, level=level)
        console.detail(f"{watch.batches} batches so far")
        how = reading.Reading(format_, delimiter)
        try:
            while True:
                waiting = _arrived(directory, watch, how, settled=every is not None)
                for path in waiting:
                    step = _add(watch, path, directory, how)
                    watch.save(state)
                    if prometheus is not None:
                        watch.write_prometheus(prometheus)
                    typer.echo(json_.dumps(step.to_dict(), ensure_ascii=False) if json else _line(step, watch))
                    if {_named(kind) for kind in step.alarms} & {alarm.value for alarm in fail_on or ()}:
                        raise typer.Exit(1)
                if every is None:
                    break
                time.sleep(every)
        except KeyboardInterrupt:
            typer.echo(f"proportio: interrupted: the same command goes on from {state}", err=True)
            raise typer.Exit(130) from None
        if not watch.batches:
            console.note(f"{directory}: no batch yet")


def _arrived(directory: Path, watch: Monitor, how: reading.Reading, *, settled: bool) -> list[Path]:
    """The files not added yet, by name; those still written to are left for the next look."""
    from proportio.errors import FileError, InputError

    try:
        found = reading.files([directory], how)
    except FileError:  # nothing there yet
        found = []
    found = sorted({*found, *directory.rglob(f"*{reading.SKETCH}")})
    if len(found) > MOST:
        raise InputError(
            f"{directory}: {len(found):,} files, and a state remembers {MOST:,}: move those that were added elsewhere."
        )
    new = [p for p in found if str(p.relative_to(directory)) not in watch]
    return [p for p in new if not settled or time.time() - p.stat().st_mtime > SETTLED]


def _add(watch: Monitor, path: Path, directory: Path, how: reading.Reading) -> MonitorStep:
    name = str(path.relative_to(directory))
    if path.suffix == reading.SKETCH:
        return watch.update(reading.load_sketch(path), batch_id=name)
    return watch.update(reading.batch([path], watch.model, how), batch_id=name)


def _named(kind: str) -> str:
    return kind.removeprefix("label_")


def _line(step: MonitorStep, watch: Monitor) -> str:
    """A batch for people."""
    shares = "  ".join(f"{k} {p:.3f}" for k, p in zip(watch.model.classes_, step.proportions, strict=True))
    alarms = "".join(f"  ALARM {_named(kind)} since batch {step.since[kind]}" for kind in step.alarms)
    unknown = f"  unknown {step.unknown:.3f}" if watch.model.soft else ""
    return f"{step.batch}  {step.batch_id}  {step.rows:,} rows  {shares}{unknown}{alarms}"
