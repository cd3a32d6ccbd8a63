"""The fold on a Dask cluster: a task a partition, then a tree of merges. A lost worker's tasks run again and give the same.

Takes Dask DataFrames, lists of delayed tables, and sources, whose files (row groups, of Parquet) are spread over workers that
must see the same paths. Without a cluster, Dask's own threads do the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from proportio.engines.local import Part
from proportio.engines.recipe import STRIDE, Partition, Recipe
from proportio.errors import InputError
from proportio.sketch import Sketch
from proportio.sources import Source
from proportio.sources.arrow import as_frame
from proportio.sources.base import require_columns

BRANCHES = 8  # sketches that one task merges


def fold(recipe: Recipe, X: Any, *, start: int, n_jobs: int | None) -> Part:
    """The sketch of everything, from sketches of the partitions; a task has one thread, unless the model has `n_jobs`."""
    try:
        from dask import compute, delayed
    except ImportError as error:
        raise InputError("the engine 'dask' needs Dask: pip install 'proportio[dask]'.") from error
    shared = delayed(recipe, traverse=False)
    jobs = 1 if n_jobs is None else n_jobs
    partition, merge = delayed(_partition), delayed(_merge)
    level = [
        partition(shared, rows, f"partition {i}", start + (i * STRIDE if known is None else known), jobs)
        for i, (rows, known) in enumerate(_partitions(recipe, X, delayed))
    ]
    if not level:
        raise InputError("the list of delayed tables is empty: give one table or more.")
    while len(level) > 1:
        level = [merge(level[i : i + BRANCHES]) for i in range(0, len(level), BRANCHES)]
    (part,) = compute(level[0])
    return part  # type: ignore[no-any-return]  # Dask has no type hints


def _partitions(recipe: Recipe, X: Any, delayed: Any) -> Iterator[tuple[Any, int | None]]:
    """The partitions, delayed, with their positions where these are known."""
    if isinstance(X, Source):
        for part, start in X.parts():
            yield delayed(part, traverse=False), start
    elif hasattr(X, "to_delayed"):
        if recipe.columns.names is not None:
            require_columns(tuple(map(str, X.columns)), recipe.columns.names, "the Dask DataFrame")
            X = X[list(recipe.columns.names)]
        yield from ((table, None) for table in X.to_delayed())
    else:
        yield from ((table, None) for table in X)


def _partition(recipe: Recipe, rows: Any, name: str, start: int, n_jobs: int) -> Part:
    if not isinstance(rows, Source):
        frame = as_frame(rows)
        names = recipe.columns.names or tuple(map(str, range(recipe.columns.count)))
        rows = Partition(name, [rows], names if frame is None else tuple(frame.columns))
    return recipe.part(rows, start, n_jobs)


def _merge(parts: Sequence[Part]) -> Part:
    known = [p.sketch for p in parts if p.sketch is not None]
    return Part(Sketch.merge(known) if known else None, sum(p.dropped for p in parts))
