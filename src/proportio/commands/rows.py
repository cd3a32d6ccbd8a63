"""`proportio explain` and `proportio correct`: what the unknown rows are, and predictions carried over to a batch's shares."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proportio.commands import reading
from proportio.commands.console import Console, Quiet, Verbose
from proportio.commands.outputs import Outputs

if TYPE_CHECKING:
    from proportio.estimate import Estimate

TABLES = (".csv", ".parquet")


def explain(
    batch: reading.Batch,
    model: Annotated[Path, typer.Option("--model", help="A model that `proportio fit` saved.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the rows with their scores to this .csv or .parquet file."),
    ] = None,
    top: Annotated[int, typer.Option("--top", min=1, help="How many columns to name.")] = 5,
    format_: reading.Format = None,
    delimiter: reading.Delimiter = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Describe what no class explains: in which columns and ranges it stands out; with -o, how unknown each row is."""
    import pyarrow as pa

    import proportio as pp
    from proportio.errors import InputError

    with Console(quiet, verbose) as console:
        _check_suffix(output)
        Outputs(output, inputs=[*batch, model])
        fitted = pp.load(model)
        source = reading.batch(batch, fitted, reading.Reading(format_, delimiter))
        names = fitted.columns_.names
        rows = reading.table(source, names if output is None else None)
        known = rows if names is None else rows.select(list(names))
        if output is not None:
            column = "unknown_score"
            if column in rows.column_names:
                raise InputError(
                    f"{source.name} has a column {column!r} already, which the scores would take: rename it."
                )
            scores = fitted.score_unknown(known)
            Outputs.write({output: _table(rows.append_column(column, pa.array(scores)), output)})
            console.note(f"{output}: {len(rows):,} rows with their scores")
        typer.echo(str(fitted.explain_unknown(known, top=top)))


def correct(
    predictions: Annotated[
        Path, typer.Argument(help="A .csv or .parquet file with a column of posteriors for each class.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The .csv or .parquet file for the corrected predictions.")
    ],
    estimate: Annotated[Path, typer.Option("--estimate", help="The JSON of the batch's estimate (estimate --json).")],
    prefix: Annotated[
        str, typer.Option("--prefix", help="What the columns are called before the class, such as p_.")
    ] = "",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Re-weight a classifier's posteriors, trained at the reference's shares, to the shares of a batch; other columns stay."""
    import numpy as np
    import pyarrow as pa

    import proportio as pp
    from proportio.errors import InputError, MismatchError
    from proportio.sources import listed, read_rows

    with Console(quiet, verbose) as console:
        _check_suffix(output)
        Outputs(output, inputs=[predictions, estimate])
        est = _estimate(estimate)
        source = pp.scan(predictions)
        columns = [f"{prefix}{k}" for k in est.classes]
        missing = [n for n in columns if n not in source.columns]
        if missing:
            raise MismatchError(
                f"{predictions} has no column {listed(missing)}: it takes one of posteriors for each class of "
                f"the estimate; its columns are {listed(source.columns)}. Is a --prefix missing?"
            )
        rows = reading.table(source, None)
        given = read_rows(rows.select(columns), what=str(predictions)).values.astype(np.float64)
        if (given < 0).any() or (np.abs(given.sum(axis=1) - 1) > 1e-3).any():
            bad = int(np.argmax((given < 0).any(axis=1) | (np.abs(given.sum(axis=1) - 1) > 1e-3)))
            raise InputError(
                f"{predictions}: the posteriors of row {bad} are not shares that sum to 1: {given[bad].tolist()}."
            )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", pp.ProportioWarning)
            corrected = pp.correct(_Given(est.classes), est).predict_proba(given)
        for warning in said:
            console.note(f"note: {warning.message}")
        for k, name in enumerate(columns):
            rows = rows.set_column(rows.column_names.index(name), name, pa.array(corrected[:, k]))
        label = f"{prefix}class"
        if label in rows.column_names:
            raise InputError(
                f"{predictions} has a column {label!r} already, which the decisions would take: rename it."
            )
        rows = rows.append_column(label, pa.array(est.classes[corrected.argmax(axis=1)].tolist()))
        Outputs.write({output: _table(rows, output)})
        console.note(f"{output}: {len(rows):,} predictions at the shares of the batch")


class _Given:
    """A classifier whose posteriors are given."""

    def __init__(self, classes: Any) -> None:
        self.classes_ = classes

    @staticmethod
    def predict_proba(posteriors: Any) -> Any:
        return posteriors


def _estimate(path: Path) -> Estimate:
    """The estimate in a JSON file: by itself, or within an answer of the command."""
    import json

    import proportio as pp
    from proportio import storage
    from proportio.errors import FileError

    text = storage.read(path)
    try:
        data = json.loads(text)
        found = data["estimate"] if isinstance(data, dict) and data.get("kind") == "answer" else data
        return pp.Estimate.from_json(json.dumps(found))
    except (FileError, ValueError, KeyError, RecursionError) as error:
        raise FileError(f"{path}: not the JSON of one estimate ({error}).") from error


def _check_suffix(output: Path | None) -> None:
    from proportio.errors import InputError

    if output is not None and output.suffix not in TABLES:
        raise InputError(f"{output}: rows are written as {' or '.join(TABLES)}: give the file one of these suffixes.")


def _table(rows: Any, output: Path) -> bytes:
    """The bytes of the file."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    if output.suffix == ".csv":
        from pyarrow import csv

        csv.write_csv(rows, sink)
    else:
        from pyarrow import parquet

        parquet.write_table(rows, sink)
    data: bytes = sink.getvalue().to_pybytes()
    return data
