"""The command `proportio`: parse, call the library, print. Answers go to stdout, everything else to stderr.

Exit codes: 0 done, 1 a gate failed, 2 bad usage or input, 130 interrupted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from proportio.commands import doctor, estimating, fitting, merging, rows, watching
from proportio.commands.console import Guarded, failure

EXPERIMENTS = "They are: noises, robustness, hipc, bounds, fourier, bandwidth, speed."

app = typer.Typer(
    name="proportio",
    cls=Guarded,
    help="The share of each class in an unlabelled batch, from labelled reference rows.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from proportio import __version__

        typer.echo(f"proportio {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The share of each class in an unlabelled batch, from labelled reference rows."""


for command in (
    fitting.fit,
    estimating.estimate,
    estimating.check,
    merging.sketch,
    merging.merge,
    rows.explain,
    rows.correct,
    watching.monitor,
    doctor.doctor,
):
    app.command()(command)


@app.command()
def demo(
    withhold: Annotated[int, typer.Option(min=0, max=9, help="The digit that the reference has never seen.")] = 4,
) -> None:
    """Estimate the shares of handwritten digits, one of which the reference has never seen."""
    from proportio.demo import lines

    for line in lines(withhold):
        typer.echo(line)


@app.command()
def reproduce(
    out: Annotated[
        Path, typer.Argument(help="The folder for results, tables and figures; an interrupted run resumes.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, dimensions and rows: minutes.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help=f"One experiment alone; repeat for more. {EXPERIMENTS}")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; one a processor unless told.")] = None,
    hipc: Annotated[Path | None, typer.Option(help="The directory of your copy of the HIPC cells.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless every claim of the paper holds.")] = False,
) -> None:
    """Run the experiments of the paper; which of its claims came out goes to stderr, the files written to stdout."""
    from proportio import reproduce as paper

    if hipc is None and "hipc" in (only or ()):
        raise typer.BadParameter("the experiment hipc needs the directory of your copy of the cells: --hipc DIRECTORY.")
    if hipc is None:
        typer.echo("without --hipc DIRECTORY the experiment on cells is left out", err=True)
    plan = (paper.quick if quick else paper.full)(None if hipc is None else str(hipc))
    try:
        outcome = paper.run(plan, out, only=only or (), jobs=jobs, report=lambda line: typer.echo(line, err=True))
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command resumes where it stopped", err=True)
        raise typer.Exit(130) from None
    for v in outcome.verdicts:
        typer.echo(f"{v.verdict:<8}{v.place}: {v.words}: {v.measured}", err=True)
    typer.echo(json.dumps(outcome.to_dict(), indent=1, ensure_ascii=False))
    if check and any(v.verdict != "holds" for v in outcome.verdicts if not v.ours):
        raise typer.Exit(1)


def main() -> None:
    """Run the command and exit with its code."""
    try:
        app()
    except Exception as error:
        code = failure(error)
        if code is None:
            raise
        sys.exit(code)


if __name__ == "__main__":
    main()
