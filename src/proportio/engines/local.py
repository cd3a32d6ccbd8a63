"""The fold on this machine: S = Σ over batches, each sketched by the threads of the kernels while the next is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from proportio._compiled.threads import resolve_jobs
from proportio.errors import InputError
from proportio.sketch import Sketch
from proportio.sources import Columns, Floats, OnMissing, count_rows, is_batches, read_batches, read_weights
from proportio.sources.base import refuse_empty

Array = npt.NDArray[np.float64]
Progress: TypeAlias = Callable[[int, int | None], object]


class Add(Protocol):
    """The sketch `onto` of the rows before, and of these rows, the first of which is at position `start`."""

    def __call__(self, X: Floats, weights: Array | None, start: int, onto: Any) -> Sketch: ...


@dataclass(frozen=True)
class Part:
    """The sketch of some rows, None where none was kept, and how many were dropped. Parts add up."""

    sketch: Sketch | None
    dropped: int

    def whole(self, name: str) -> Part:
        """Itself, if it has rows."""
        if self.sketch is None:
            refuse_empty(name, self.dropped)
        return self

    def __add__(self, other: Part) -> Part:
        known = [s for s in (self.sketch, other.sketch) if s is not None]
        return Part(Sketch.merge(known) if known else None, self.dropped + other.dropped)


def fold(
    add: Add,
    X: Any,
    *,
    columns: Columns,
    on_missing: OnMissing,
    sample_weight: Any = None,
    start: int = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    partial: bool = False,
) -> Part:
    """A table, an iterator of tables or a source, reduced: `progress(done, total)` hears of every batch, total None if unknown.

    A `partial` source, a part of a whole, may have no rows.
    """
    if sample_weight is not None and is_batches(X):
        raise InputError("sample_weight goes with one table; sketch the weighted tables apart and add the sketches.")
    sketch: Sketch | None = None
    done = dropped = 0
    total = count_rows(X) if progress is not None else None
    serial = resolve_jobs(n_jobs) == 1
    with closing(read_batches(X, expected=columns, on_missing=on_missing, serial=serial, partial=partial)) as batches:
        for rows in batches:
            weights = rows.keep(read_weights(sample_weight, len(rows.values) + rows.dropped))
            if len(rows.values):
                sketch = add(rows.values, weights, start, sketch)
            start += len(rows.values)
            dropped += rows.dropped
            done += len(rows.values) + rows.dropped
            if progress is not None:
                progress(done, total)
    return Part(sketch, dropped)
