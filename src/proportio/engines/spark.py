"""The fold on Spark: `mapInArrow` sketches every partition where it is, and the driver merges the sketches.

A task has as many threads as Spark gave it processors (`spark.task.cpus`, 1 unless set), unless the model has `n_jobs`.
proportio must be installed on the executors. Of many partitions, executors merge the sketches before the driver does.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from typing import Any

from proportio.engines.local import Part
from proportio.engines.recipe import STRIDE, Partition, Recipe
from proportio.sketch import Sketch
from proportio.sources.base import require_columns

SCHEMA = "sketch binary, dropped long"
MANY = 64  # partitions whose sketches the driver takes one by one

Packed = tuple[bytes | None, int]


def fold(recipe: Recipe, X: Any, *, start: int, n_jobs: int | None) -> Part:
    """The sketch of a Spark DataFrame."""
    names = recipe.columns.names or tuple(X.columns)
    require_columns(tuple(X.columns), names, "the Spark DataFrame")
    data = pickle.dumps(recipe)

    def sketch_partition(batches: Iterator[Any]) -> Iterator[Any]:
        from proportio.engines.spark import partition

        return partition(data, batches, names, start, n_jobs)

    quoted = ["`" + n.replace("`", "``") + "`" for n in names]
    parts = X.select(*quoted).mapInArrow(sketch_partition, SCHEMA)
    rdd = getattr(parts, "rdd", None)  # Spark Connect has none
    if rdd is not None and rdd.getNumPartitions() > MANY:
        return _unpacked(rdd.map(tuple).treeReduce(_merge))
    part = Part(None, 0)
    for row in parts.collect():
        part += _unpacked(tuple(row))
    return part


def partition(
    data: bytes, batches: Iterator[Any], names: tuple[str, ...], start: int, n_jobs: int | None
) -> Iterator[Any]:
    """On an executor: the sketch of one partition as a batch of one row."""
    import pyarrow as pa
    from pyspark import TaskContext

    task = TaskContext.get()
    i = task.partitionId() if task is not None else 0
    jobs = n_jobs or min(task.cpus() if task is not None else 1, int(os.environ.get("NUMBA_NUM_THREADS", "1024")))
    recipe: Recipe = pickle.loads(data)
    part = recipe.part(Partition(f"partition {i}", batches, names), start + i * STRIDE, jobs)
    sketch, dropped = _packed(part)
    yield pa.RecordBatch.from_arrays(
        [pa.array([sketch], pa.binary()), pa.array([dropped], pa.int64())], ["sketch", "dropped"]
    )


def _packed(part: Part) -> Packed:
    return None if part.sketch is None else part.sketch.to_bytes(), part.dropped


def _unpacked(packed: Any) -> Part:
    sketch, dropped = packed
    return Part(None if sketch is None else Sketch.from_bytes(bytes(sketch)), dropped)


def _merge(a: Packed, b: Packed) -> Packed:
    return _packed(_unpacked(a) + _unpacked(b))
