"""What the command reads: a reference with its labels, and batches as the model's reference was read.

The label may be the file each row is in (`--label file`: one population a file), and so may the sample (`--by file`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from proportio.quantifier import Quantifier
    from proportio.sketch import Sketch
    from proportio.sources import Source

FILE = "file"
SKETCH = ".safetensors"
FILES = "How files are read"  # a section of the help

Reference = Annotated[
    list[Path],
    typer.Argument(help="Labelled rows: files, patterns or directories of CSV, Parquet, Arrow, FCS or h5ad."),
]
Batch = Annotated[
    list[Path], typer.Argument(help="The rows in question: files, patterns, directories, or sketches of them.")
]
Label = Annotated[
    str, typer.Option("--label", "-l", help="The column of labels, or 'file': the name of each row's file.")
]
Features = Annotated[
    list[str] | None,
    typer.Option("--features", "-f", help="The columns to use, A,B,C; repeat for more. All but the label unless told."),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", rich_help_panel=FILES, help="csv, parquet, arrow, fcs or h5ad, if the suffix does not tell."
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", rich_help_panel=FILES, help="What separates the cells of a CSV file; a comma unless told."
    ),
]
Compensation = Annotated[
    str | None,
    typer.Option(
        "--compensation",
        rich_help_panel=FILES,
        help="FCS: none, file (the matrix in each file), or a CSV file with a matrix.",
    ),
]
Transform = Annotated[
    str | None, typer.Option("--transform", rich_help_panel=FILES, help="FCS: none, arcsinh:150 or logicle:T,W,M,A.")
]
Layer = Annotated[str | None, typer.Option("--layer", rich_help_panel=FILES, help="h5ad: a layer in the place of X.")]
UseRep = Annotated[
    str | None, typer.Option("--use-rep", rich_help_panel=FILES, help="h5ad: a representation in obsm, such as X_pca.")
]


@dataclass(frozen=True)
class Reading:
    """How files are read: the options that were given, None where they were not."""

    format: str | None = None
    delimiter: str | None = None
    compensation: str | None = None
    transform: str | None = None
    layer: str | None = None
    use_rep: str | None = None

    @property
    def kept(self) -> dict[str, Any]:
        """Those that a model keeps, so that a batch need not repeat them."""
        named = {k: getattr(self, k) for k in ("compensation", "transform", "layer", "use_rep")}
        return {k: v for k, v in named.items() if v is not None}

    def scan(self, paths: Sequence[Path], kept: Mapping[str, Any], along: Sequence[str] = ()) -> Source:
        """The files as a source, with the columns `along` that are no features."""
        from proportio.sources import scan

        options = {k: v for k, v in kept.items() if k != "format"}
        if self.delimiter is not None:
            options["delimiter"] = self.delimiter
        if along and (self.format or files(paths, self)[0].suffix.removeprefix(".")).lower() in ("fcs", "h5ad"):
            options["along"] = list(along)
        return scan(list(paths), format=self.format, **options)


def split(names: Sequence[str] | None) -> list[str] | None:
    """A,B,C of one or more options as a list."""
    return None if not names else [n.strip() for one in names for n in one.split(",") if n.strip()]


def reference(paths: Sequence[Path], label: str, features: Sequence[str] | None, how: Reading) -> tuple[Source, str]:
    """The labelled rows, and the column that the labels are in."""
    from proportio.errors import InputError
    from proportio.sources import Joined, select

    chosen = split(features)
    if chosen is not None and label in chosen:
        raise InputError(
            f"--features names {label!r}, which is the label: a label cannot explain itself. Leave it out."
        )
    if label == FILE:
        source: Source = Joined({k: how.scan([p], how.kept) for k, p in by_file(paths, how).items()}, FILE)
    else:
        source = how.scan(paths, how.kept, [label])
    return (source if chosen is None else select(source, [*chosen, label])), label


def batch(paths: Sequence[Path], model: Quantifier, how: Reading, along: Sequence[str] = ()) -> Source:
    """Rows of a batch, read as the reference of the model was."""
    return how.scan(paths, kept_by(model, paths, how), along)


def kept_by(model: Quantifier, paths: Sequence[Path], how: Reading) -> dict[str, Any]:
    """The options that the model keeps; files of another format cannot be read so."""
    from proportio.errors import InputError, MismatchError

    kept: dict[str, Any] = dict(getattr(model, "reading_", None) or {})
    if how.kept:
        raise InputError(
            f"--{next(iter(how.kept)).replace('_', '-')} goes with the reference: the model keeps how its reference was read, "
            "and reads every batch so. Leave it out, or fit anew."
        )
    declared = {k: v for k, v in kept.items() if k != "format" and v not in (None, "none")}
    other = [p for p in files(paths, how) if declared and (how.format or p.suffix[1:]).lower() != kept["format"]]
    if other:
        raise MismatchError(
            f"{other[0]}: the reference of this model was read from {kept['format']} files with {', '.join(declared)}, which no "
            "other format knows: give the batch in that format, or fit on a reference in this one."
        )
    return kept if declared else {}


def files(paths: Sequence[Path], how: Reading) -> list[Path]:
    """The files that paths, patterns and directories stand for."""
    from proportio.sources import expand

    return [file for path in paths for file in expand(path, None if how.format is None else f".{how.format}")]


def by_file(paths: Sequence[Path], how: Reading) -> dict[str, Path]:
    """Every file by a name: its own, and its whole path where two have the same."""
    found = files(paths, how)
    names = [p.stem for p in found]
    return {p.stem if names.count(p.stem) == 1 else str(p): p for p in found}


def sketches(paths: Sequence[Path]) -> bool:
    """Whether the paths are sketches; rows and sketches do not go together."""
    from proportio.errors import InputError

    are = {p.suffix == SKETCH for p in paths}
    if len(are) > 1:
        raise InputError(
            "rows and sketches in one command: sketch the rows first (proportio sketch), or estimate them apart."
        )
    return are.pop()


def load_sketch(path: Path) -> Sketch:
    """A sketch from its file."""
    from proportio.sketch import Sketch

    return Sketch.load(path)


def table(source: Source, columns: Sequence[str] | None) -> Any:
    """All rows of a source in one Arrow table."""
    import pyarrow as pa

    from proportio.errors import InputError

    parts = [pa.Table.from_batches([t]) if isinstance(t, pa.RecordBatch) else t for t in source.batches(columns)]
    if not sum(map(len, parts)):
        raise InputError(f"{source.name} gave no rows: there is nothing to read. Check the filter and the path.")
    return pa.concat_tables(parts)


def grouped(source: Source, column: str, model: Quantifier, progress: Any) -> Iterator[tuple[str, Sketch, int]]:
    """Each value of a column, the sketch of its rows, and how many of them were dropped: one pass, whatever their order."""
    import numpy as np

    from proportio.errors import InputError, MismatchError
    from proportio.sources import arrow, listed

    if column not in source.columns:
        raise MismatchError(
            f"{source.name} has no column {column!r} to tell the samples by; its columns are {listed(source.columns)}."
        )
    names = model.columns_.names or tuple(n for n in source.columns if n != column)
    found: dict[Any, tuple[Sketch, int]] = {}
    read = 0
    for table in source.batches([*names, column]):
        frame = arrow.with_names(table)
        values, codes = arrow.encoded(frame.get_column(column), f"column {column!r} of {source.name}")
        for k in np.unique(codes):
            rows = frame.filter((codes == k).tolist()).select(*names)
            before, start = found.get(values[k], (None, 0))
            part = model.sketch(rows.to_native(), start=0 if before is None else before.n_rows)
            found[values[k]] = (part if before is None else before + part, start + len(rows))
        read += len(frame)
        progress(read, source.n_rows)
    if not found:
        raise InputError(f"{source.name} gave no rows: there are no samples to estimate.")
    return ((str(name), sketch, n - sketch.n_rows) for name, (sketch, n) in found.items())
