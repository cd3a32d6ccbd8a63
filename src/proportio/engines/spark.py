"""The fold on Spark: every partition is sketched where it is, and the driver merges the sketches.

Takes Spark DataFrames, by `mapInArrow`, and sources, whose files (row groups, of Parquet) are spread over executors that must see
the same paths: no row then passes through Java, which takes more time than sketching it. A task has as many threads as
Spark gave it processors (`spark.task.cpus`, 1 unless set), unless the model has `n_jobs`. proportio must be installed on
the executors. Of many partitions, executors merge the sketches before the driver does.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

from proportio.engines.local import Part
from proportio.engines.recipe import STRIDE, Partition, Recipe
from proportio.errors import InputError
from proportio.sketch import Sketch
from proportio.sources import Source
from proportio.sources.base import require_columns

SCHEMA = "sketch binary, dropped long"
MANY = 64  # partitions whose sketches the driver takes one by one

Packed = tuple[bytes | None, int]


def fold(recipe: Recipe, X: Any, *, start: int, n_jobs: int | None) -> Part:
    """The sketch of a Spark DataFrame, or of a source read by the executors of the active session."""
    if isinstance(X, Source):
        return _total(_read_there(recipe, X, start, n_jobs))
    names = recipe.columns.names or tuple(X.columns)
    require_columns(tuple(X.columns), names, "the Spark DataFrame")

    def sketch_partition(batches: Iterator[Any]) -> Iterator[Any]:
        from proportio.engines.spark import partition

        return partition(recipe, batches, names, start, n_jobs)

    quoted = ["`" + n.replace("`", "``") + "`" for n in names]
    plain = [f"c{k}" for k in range(len(names))]  # mapInArrow takes a dot in a name for a field of a structure
    parts = X.select(*quoted).toDF(*plain).mapInArrow(sketch_partition, SCHEMA)
    if not hasattr(parts, "rdd"):  # Spark Connect
        return sum((_unpacked(tuple(row)) for row in parts.collect()), Part(None, 0))
    return _total(parts.rdd.map(tuple))


def _read_there(recipe: Recipe, source: Source, start: int, n_jobs: int | None) -> Any:
    """The sketches of the parts of a source."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise InputError(
            "the engine 'spark' reads files in the active Spark session, and there is none: start it first, "
            "SparkSession.builder.getOrCreate(), or leave engine out."
        )
    parts = [
        (pickle.dumps(part), start + (i * STRIDE if known is None else known))
        for i, (part, known) in enumerate(source.parts())
    ]

    def sketch_part(part: tuple[bytes, int]) -> Packed:
        from proportio.engines.spark import _packed, threads

        return _packed(recipe.part(pickle.loads(part[0]), part[1], threads(n_jobs)))

    return session.sparkContext.parallelize(parts, len(parts)).map(sketch_part)


def _total(rdd: Any) -> Part:
    if rdd.getNumPartitions() > MANY:
        return _unpacked(rdd.treeReduce(_merge))
    return sum(map(_unpacked, rdd.collect()), Part(None, 0))


def partition(
    recipe: Recipe, batches: Iterator[Any], names: tuple[str, ...], start: int, n_jobs: int | None
) -> Iterator[Any]:
    """On an executor: the sketch of one partition as a batch of one row."""
    import pyarrow as pa
    from pyspark import TaskContext

    task = TaskContext.get()
    i = task.partitionId() if task is not None else 0
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    part = recipe.part(Partition(f"partition {i}", named, names), start + i * STRIDE, threads(n_jobs))
    sketch, dropped = _packed(part)
    yield pa.RecordBatch.from_arrays(
        [pa.array([sketch], pa.binary()), pa.array([dropped], pa.int64())], ["sketch", "dropped"]
    )


def threads(n_jobs: int | None) -> int:
    """On an executor: the threads that a task may have."""
    from pyspark import TaskContext

    task = TaskContext.get()
    given = task.cpus() if task is not None else 1
    return n_jobs or min(given, int(os.environ.get("NUMBA_NUM_THREADS", given)))


def _packed(part: Part) -> Packed:
    return None if part.sketch is None else part.sketch.to_bytes(), part.dropped


def _unpacked(packed: Any) -> Part:
    sketch, dropped = packed
    return Part(None if sketch is None else Sketch.from_bytes(bytes(sketch)), dropped)


def _merge(a: Packed, b: Packed) -> Packed:
    return _packed(_unpacked(a) + _unpacked(b))
