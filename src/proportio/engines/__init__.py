"""Engines: one fold over `sketch` and `merge` of parts, on the threads of this machine, on Dask or on Spark.

The engine follows from what the rows come in, by the names of its types: neither Dask nor Spark is imported to find out.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

from proportio.engines.local import Add, Part, Progress, fold
from proportio.engines.recipe import Recipe
from proportio.errors import InputError
from proportio.sources import Columns, OnMissing, as_source

__all__ = ["Engine", "Part", "Progress", "Recipe", "engine_of", "reduce"]

Engine: TypeAlias = Literal["auto", "local", "dask", "spark"]


def reduce(
    add: Add,
    recipe: Callable[[], Recipe],
    X: Any,
    *,
    engine: Engine,
    columns: Columns,
    on_missing: OnMissing,
    sample_weight: Any,
    start: int,
    n_jobs: int | None,
    progress: Progress | None,
) -> Part:
    """The sketch of X, by `add` where its rows come here, by a `recipe` where they stay."""
    where = _settled(X, engine)
    if where == "local":
        return fold(
            add,
            X,
            columns=columns,
            on_missing=on_missing,
            sample_weight=sample_weight,
            start=start,
            n_jobs=n_jobs,
            progress=progress,
        )
    if sample_weight is not None:
        raise InputError(f"sample_weight goes with tables in memory, not with the engine {where!r}: leave it out.")
    there = importlib.import_module(f"proportio.engines.{where}")
    rows = as_source(X) if engine_of(X) == "local" else X
    part: Part = there.fold(recipe(), rows, start=start, n_jobs=n_jobs)
    part = part.whole(f"the {type(X).__name__}")
    if progress is not None and part.sketch is not None:
        done = part.sketch.n_rows + part.dropped
        progress(done, done)
    return part


def engine_of(X: Any) -> Engine:
    """Where the rows of X are."""
    if _from(X, "dask") and hasattr(X, "to_delayed"):
        return "dask"
    if isinstance(X, (list, tuple)) and X and _from(X[0], "dask") and hasattr(X[0], "dask"):
        return "dask"
    return "spark" if _from(X, "pyspark") and hasattr(X, "mapInArrow") else "local"


def _settled(X: Any, engine: Engine) -> Engine:
    """The engine for X, which has to be its own unless X is a source."""
    if engine not in get_args(Engine):
        raise InputError(f"engine={engine!r} is not one of {', '.join(map(repr, get_args(Engine)))}.")
    own = engine_of(X)
    if engine in ("auto", own) or (own == "local" and engine in ("dask", "spark") and as_source(X) is not None):
        return own if engine == "auto" else engine
    raise InputError(
        f"engine={engine!r} cannot take {type(X).__name__}: 'dask' takes Dask DataFrames, lists of delayed tables and sources "
        "(pp.scan), 'spark' takes Spark DataFrames and sources, 'local' everything else. Leave engine out."
    )


def _from(X: Any, library: str) -> bool:
    return any(kind.__module__.split(".")[0] == library for kind in type(X).__mro__)
