"""`proportio sketch` and `proportio merge`: rows reduced where they are, and the parts put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from proportio.commands import reading
from proportio.commands.console import Console, Quiet, Verbose
from proportio.commands.outputs import Outputs

SketchPath = Annotated[Path, typer.Option("--output", "-o", help="The file for the sketch, such as batch.safetensors.")]


def sketch(
    batch: reading.Batch,
    model: Annotated[Path, typer.Option("--model", help="A model that `proportio fit` saved.")],
    output: SketchPath,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Reduce a batch to its sketch, which merges with others and is all that `proportio estimate` needs."""
    import proportio as pp

    with Console(quiet, verbose) as console:
        Outputs(output, inputs=[*batch, model])
        fitted = pp.load(model)
        source = reading.batch(batch, fitted, reading.Reading(format_, delimiter))
        console.detail(f"reading {source!r}")
        with console.progress("rows") as bar:
            made = fitted.sketch(source, progress=bar)
        data = made.to_bytes()
        Outputs.write({output: data})
        console.note(f"{output}: {made.n_rows:,} rows in {len(data):,} bytes")


def merge(
    sketches: Annotated[list[Path], typer.Argument(help="Sketches that the same model made.")],
    output: SketchPath,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Merge sketches of parts into the sketch of the whole."""
    from proportio.sketch import Sketch

    with Console(quiet, verbose) as console:
        Outputs(output, inputs=sketches)
        whole = Sketch.merge(map(reading.load_sketch, sketches))
        Outputs.write({output: whole.to_bytes()})
        console.note(f"{output}: {whole.n_rows:,} rows of {len(sketches)} sketches")
