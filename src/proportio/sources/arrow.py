"""Arrow columns in, one float matrix out: each value is written once, straight to its place.

pyarrow is imported when the first file or Arrow table comes, never before.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from proportio.errors import InputError, InputTypeError


def is_table(X: Any) -> bool:
    """A Table or RecordBatch of pyarrow."""
    pa = sys.modules.get("pyarrow")
    return pa is not None and isinstance(X, (pa.Table, pa.RecordBatch))


def as_matrix(table: Any, what: str) -> npt.NDArray[Any]:
    """The columns of an Arrow table side by side, nulls as NaN, in the type that NumPy promotes theirs to.

    >>> import pyarrow as pa
    >>> as_matrix(pa.table({"a": pa.array([1.5, None], pa.float32()), "b": [True, False]}), "X").tolist()
    [[1.5, 1.0], [nan, 0.0]]
    """
    columns = _numeric(table, what)
    parts = [[_values(chunk) for chunk in chunks] for chunks in columns]
    dtype = np.result_type(np.float32, *{p.dtype for chunks in parts for p in chunks})
    out = np.empty((table.num_rows, len(columns)), dtype)
    for k, chunks in enumerate(parts):
        first = 0
        for values in chunks:
            out[first : first + len(values), k] = values
            first += len(values)
    return out


def _numeric(table: Any, what: str) -> list[list[Any]]:
    """The chunks of every column, or an error that names those that hold no numbers."""
    import pyarrow as pa

    types = pa.types
    bad = []
    for name, kind in zip(table.schema.names, table.schema.types, strict=True):
        value = kind.value_type if types.is_dictionary(kind) else kind
        numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        if not any(fits(value) for fits in numbers):
            bad.append(f"{name!r} ({kind})")
    if bad:
        raise InputTypeError(
            f"{what} has columns that are not numbers: {', '.join(bad[:5])}. Leave them out (of files: "
            "scan(..., columns=[...])) or encode them before fitting."
        )
    return [getattr(column, "chunks", None) or [column] for column in table.columns if table.num_rows]


def _values(chunk: Any) -> npt.NDArray[Any]:
    """The numbers of one chunk, without a copy where Arrow holds them as NumPy does."""
    types = sys.modules["pyarrow"].types
    if types.is_dictionary(chunk.type):
        chunk = chunk.dictionary_decode()
    if types.is_boolean(chunk.type) and not chunk.null_count:
        chunk = chunk.cast("uint8")
    elif not (types.is_integer(chunk.type) or types.is_floating(chunk.type)):
        chunk = chunk.cast("float64")
    return np.asarray(chunk.to_numpy(zero_copy_only=False))


def in_pieces(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """The same rows in Arrow tables of `rows` rows each, the last of fewer; anything else than Arrow as it comes."""
    held: list[Any] = []
    count = 0
    for table in tables:
        if not is_table(table):
            yield table
            continue
        pa = sys.modules["pyarrow"]
        rest = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
        while count + len(rest) >= rows:
            yield pa.concat_tables([*held, rest.slice(0, rows - count)], promote_options="permissive")
            rest, held, count = rest.slice(rows - count), [], 0
        if len(rest):
            held, count = [*held, rest], count + len(rest)
    if held:
        yield sys.modules["pyarrow"].concat_tables(held, promote_options="permissive")


def as_frame(table: Any) -> nw.DataFrame[Any] | None:
    """A table whose columns have names, as one of narwhals; None for an array."""
    if is_table(table):
        pa = sys.modules["pyarrow"]
        table = table if isinstance(table, pa.Table) else pa.Table.from_batches([table])
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None


def with_names(table: Any) -> nw.DataFrame[Any]:
    """A table of which one column is the labels."""
    frame = as_frame(table)
    if frame is None:
        raise InputTypeError(
            f"{type(table).__name__} has no columns with names, of which one could be the labels: use a data frame."
        )
    return frame


def encoded(column: nw.Series[Any], what: str) -> tuple[list[Any], npt.NDArray[Any]]:
    """The distinct values of a column and each row's place among them; text is hashed once, not compared row by row."""
    import pyarrow as pa
    import pyarrow.compute

    array = column.to_arrow()
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    missing = pa.compute.is_null(array, nan_is_null=True).sum().as_py()
    if missing:
        raise InputError(f"{what} contains {missing} missing labels: label these rows or leave them out.")
    array = array.dictionary_encode()
    return array.dictionary.to_pylist(), array.indices.to_numpy()
