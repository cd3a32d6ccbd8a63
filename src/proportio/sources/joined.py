"""Sources one after the other, with a column that says which one each row is from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proportio.errors import InputError, MismatchError
from proportio.sources.base import Source


class Joined(Source):
    """The rows of several sources; `column` holds the name that each source has in `parts`."""

    def __init__(self, parts: Mapping[str, Source], column: str) -> None:
        self._parts, self.column = dict(parts), column
        first, *others = self._parts.values()
        self.name = first.name if not others else f"{first.name} and {len(others)} more"
        self._columns = tuple(n for n in first.columns if all(n in other.columns for other in others))
        if not self._columns:
            raise MismatchError(f"{self.name}: these have no column in common: read each kind apart.")
        if column in self._columns:
            raise InputError(
                f"{self.name}: has a column {column!r} already, which the names of the files would take: rename it."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self._columns, self.column)

    @property
    def n_rows(self) -> int | None:
        counts = [p.n_rows for p in self._parts.values()]
        return None if None in counts else sum(n for n in counts if n is not None)

    @property
    def reading(self) -> dict[str, Any]:
        return next(iter(self._parts.values())).reading

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow as pa

        names = list(self.columns if columns is None else columns)
        wanted = [n for n in names if n != self.column]
        for name, part in self._parts.items():
            for table in part.batches(wanted or self._columns[:1]):
                whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
                yield whole.append_column(self.column, pa.array([name] * len(whole))).select(names)
