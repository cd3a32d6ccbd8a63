"""Rows that come in batches: what every source offers, and how batches become validated matrices.

A source is read as often as asked, with only the columns asked for. Behind `read_batches` a fold sees matrices of a size that
suits the kernels, read one ahead by a thread while the one before is computed; memory holds a few of them, whatever the source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from proportio.errors import FileError, InputError, InputTypeError, MismatchError
from proportio.sources import arrow
from proportio.sources.labels import read_labels
from proportio.sources.tables import Columns, OnMissing, Rows, read_rows, read_table

T = TypeVar("T")

BATCH_VALUES = 1 << 22  # of a matrix of rows: 16 MB in float32
BATCH_ROWS = (1 << 13, 1 << 18)  # at least, at most: from 2¹⁷ on, a call of the kernels costs nothing beside its rows
AHEAD = 2  # batches that the reader is ahead of the kernels


class Source(ABC):
    """Rows that come in batches, as often as asked. `pp.scan` makes one of files; a class of your own may be one too.

    `name` says in messages where the rows are from. A source that `parts` divides is read by several machines.
    """

    name: str
    batch_rows: int | None = None

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Every column it has, in order."""

    @property
    def n_rows(self) -> int | None:
        """Its rows, where they are known without reading them."""
        return None

    @property
    def reading(self) -> dict[str, Any]:
        """The format and the options that read another file as this one was read, in plain JSON; a model keeps them."""
        return {}

    @abstractmethod
    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Tables (of Arrow, or anything that an estimator takes) with only these columns, in this order."""

    def parts(self) -> Iterator[tuple[Source, int | None]]:
        """Sources that together are this one, and the position of the first row of each where that is known."""
        yield self, 0

    def alone(self) -> Source:
        """The same rows, read without threads of its own."""
        return self

    def __repr__(self) -> str:
        rows = "" if self.n_rows is None else f"{self.n_rows:,} rows, "
        return f"{type(self).__name__}: {rows}{len(self.columns)} columns of {self.name}"


@dataclass(frozen=True, repr=False)
class Stream(Source):
    """What offers `__arrow_c_stream__`: a reader of record batches, the result of a query. Many can be read only once."""

    stream: Any

    @property
    def name(self) -> str:  # type: ignore[override]  # read only
        return f"the stream ({type(self.stream).__name__})"

    @property
    def columns(self) -> tuple[str, ...]:
        schema = getattr(self.stream, "schema", None)
        names = getattr(schema, "names", None) or getattr(self.stream, "columns", None)
        if names is None:
            raise InputTypeError(
                f"{self.name} does not say what columns it has before it is read: "
                "pass pyarrow.RecordBatchReader.from_stream(...) of it."
            )
        return tuple(map(str, names))

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        from pyarrow import RecordBatchReader

        reader = RecordBatchReader.from_stream(self.stream)
        return (batch if columns is None else batch.select(list(columns)) for batch in reader)


def rows_of(n_columns: int) -> int:
    """The rows of a batch, where nobody asked for another number."""
    return int(np.clip(BATCH_VALUES // max(1, n_columns), *BATCH_ROWS))


@dataclass(frozen=True, repr=False)
class Selected(Source):
    """Some columns of a source."""

    source: Source
    kept: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.kept

    @property
    def name(self) -> str:  # type: ignore[override]  # read only
        return self.source.name

    @property
    def batch_rows(self) -> int | None:  # type: ignore[override]  # read only
        return self.source.batch_rows

    @property
    def n_rows(self) -> int | None:
        return self.source.n_rows

    @property
    def reading(self) -> dict[str, Any]:
        return self.source.reading

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        return self.source.batches(self.kept if columns is None else columns)

    def parts(self) -> Iterator[tuple[Source, int | None]]:
        return ((replace(self, source=part), start) for part, start in self.source.parts())

    def alone(self) -> Source:
        return replace(self, source=self.source.alone())


def select(source: Source, columns: Sequence[str]) -> Source:
    """The same rows with these columns only."""
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    missing = [n for n in wanted if n not in source.columns]
    if not wanted:
        raise InputError(f"columns=[] leaves no column of {source.name}: name at least one.")
    if missing:
        raise MismatchError(f"{source.name} has no column {listed(missing)}: its columns are {listed(source.columns)}.")
    return Selected(source, wanted)


def as_source(X: Any) -> Source | None:
    """X as a source, or None: tables in memory and iterators of tables are none."""
    if isinstance(X, Source):
        return X
    if arrow.is_table(X) or not hasattr(X, "__arrow_c_stream__"):
        return None
    try:
        in_memory = isinstance(nw.from_native(X, pass_through=True), nw.DataFrame)
    except nw.exceptions.DuplicateError:
        in_memory = True  # a frame, to be refused as such
    return None if in_memory else Stream(X)


def is_batches(X: Any) -> bool:
    """An iterator or a source gives batches; anything else is one table."""
    return isinstance(X, Iterator) or as_source(X) is not None


def count_rows(X: Any) -> int | None:
    """The rows of X where they are known without reading it."""
    source = as_source(X)
    if source is not None:
        return source.n_rows
    return None if isinstance(X, Iterator) or not hasattr(X, "__len__") else len(X)


def read_batches(
    X: Any,
    *,
    expected: Columns,
    on_missing: OnMissing,
    owner: str = "model",
    serial: bool = False,
    partial: bool = False,
) -> Generator[Rows]:
    """One table, or every table of an iterator or source that has rows, validated; a batch may lose all its rows to "drop".

    A source is read ahead by a thread, or, if `serial`, without any; one that is `partial` may be empty.
    """
    source = as_source(X)
    if source is not None:
        batches = _matrices(source.alone() if serial else source, expected, on_missing, owner)
        read = batches if serial else ahead(batches)
        yield from read if partial else _some(read, source.name)
    elif isinstance(X, Iterator):
        yield from _some(_validated(X, expected, on_missing, owner), "the source")
    else:
        yield read_rows(X, expected=expected, on_missing=on_missing, owner=owner)


@dataclass(frozen=True)
class Labelled:
    """Rows of a reference with their labels, each label `values[codes]`; both only of the rows that were kept."""

    rows: Rows
    values: npt.NDArray[Any]
    codes: npt.NDArray[Any]

    @property
    def present(self) -> npt.NDArray[Any]:
        """The labels that these rows have."""
        return self.values[np.bincount(self.codes, minlength=len(self.values)) > 0]


def read_labelled(source: Source, label: str, *, on_missing: OnMissing, serial: bool = False) -> Generator[Labelled]:
    """The rows of a source with the labels in its column `label`; every other column is a feature."""
    if label not in source.columns:
        raise MismatchError(
            f"{source.name} has no column {label!r} to take the labels from; its columns are {listed(source.columns)}."
        )
    names = tuple(n for n in source.columns if n != label)
    expected = Columns(len(names), names)

    def batches() -> Generator[Labelled]:
        for place, table in _tables(source.alone() if serial else source, [*names, label]):
            frame = arrow.with_names(table)
            rows = read_table(frame.select(*names).to_native(), place, expected, on_missing, "this fit")
            values, codes = arrow.encoded(frame.get_column(label), f"column {label!r} of {place}")
            kept = rows.keep(codes)
            assert kept is not None
            yield Labelled(rows, _whole(read_labels(values, None, f"column {label!r} of {place}")), kept)

    read = batches() if serial else ahead(batches())
    n_rows = 0
    for batch in read:
        n_rows += len(batch.rows.values)
        yield batch
    if not n_rows:
        refuse_empty(source.name, 0)


def take_column(X: Any, label: str) -> tuple[Any, Any]:
    """A frame in memory without its column `label`, and that column."""
    frame = arrow.with_names(X)
    if label not in frame.columns:
        raise MismatchError(
            f"X has no column {label!r} to take the labels from; its columns are {listed(frame.columns)}."
        )
    return frame.drop(label).to_native(), frame.get_column(label).to_numpy()


def ahead(items: Iterator[T], depth: int = AHEAD) -> Generator[T]:
    """The same items, taken by a thread that is `depth` ahead; it ends with the iteration, however that ends."""
    end = object()
    reader = ThreadPoolExecutor(1, "proportio-reader")
    try:
        coming = deque(reader.submit(next, items, end) for _ in range(depth))
        while (item := coming.popleft().result()) is not end:
            coming.append(reader.submit(next, items, end))
            yield item  # type: ignore[misc]  # not the end
    finally:
        reader.shutdown(wait=True, cancel_futures=True)
        if hasattr(items, "close"):
            with suppress(ValueError):  # still read: the interrupt came as the thread began
                items.close()


def require_columns(columns: Sequence[str], names: Sequence[str], where: str) -> None:
    """Refuse a source without the columns that a model knows by `names`; it may have others."""
    missing = [n for n in names if n not in columns]
    if missing:
        raise MismatchError(
            f"The feature names should match those that were passed during fit ({where}): missing: "
            f"{listed(missing)}; its columns are {listed(columns)}. The model knows its columns by name."
        )


def _tables(source: Source, names: Sequence[str]) -> Generator[tuple[str, Any]]:
    """The tables of a source in pieces that suit the kernels, each with the place it is from."""
    rows = source.batch_rows or rows_of(len(names))
    first = 0
    for table in arrow.in_pieces(source.batches(names), rows):
        if len(table):
            yield f"{source.name} (rows {first:,} to {first + len(table) - 1:,})", table
        first += len(table)


def _matrices(source: Source, expected: Columns, on_missing: OnMissing, owner: str) -> Generator[Rows]:
    names = source.columns if expected.names is None else expected.names
    require_columns(source.columns, names, source.name)
    for place, table in _tables(source, names):
        yield read_table(table, place, expected, on_missing, owner)


def _validated(tables: Iterable[Any], expected: Columns, on_missing: OnMissing, owner: str) -> Generator[Rows]:
    for i, table in enumerate(tables):
        if not hasattr(table, "__len__") or len(table):
            yield read_table(table, f"batch {i}", expected, on_missing, owner)


def _some(batches: Iterator[Rows], name: str) -> Generator[Rows]:
    """The batches, of which one at least must have a row."""
    n_rows = dropped = 0
    for rows in batches:
        n_rows, dropped = n_rows + len(rows.values), dropped + rows.dropped
        yield rows
    if not n_rows:
        refuse_empty(name, dropped)


def refuse_empty(name: str, dropped: int) -> None:
    why = f"all {dropped} rows have a NaN or infinity" if dropped else "0 samples in all its batches"
    raise (InputError if name == "the source" else FileError)(
        f"{name} gave no rows: {why}. Check the filter, the path, or whether the iterator is used up."
    )


def _whole(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels that a file holds as floating-point numbers are integers: `read_labels` refuses all others."""
    return values.astype(np.int64) if values.dtype.kind == "f" else values


def listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:8])) + (", …" if len(names) > 8 else "")
