"""Past memory and past one process: rows from Parquet against rows in memory, Dask and Spark against one process.

    python benchmarks/scale.py             # 10⁸ rows × 5 float32: 2.0 GB in a temporary folder, about 5 minutes
    python benchmarks/scale.py --rows 1e7  # a tenth of it

Every number is of this run on this machine. Each candidate first runs once without being timed (compilation, the start of
workers and sessions); then all take turns and the best of three counts. The pass over the large file is timed once with its
pages dropped from the system's cache, so that they come from the disk, and once from the cache. The rows are normal deviates,
which no compression shrinks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import proportio as pp
from proportio._compiled.threads import resolve_jobs

COLUMNS = ["x0", "x1", "x2", "x3", "x4"]
FILE_ROWS = 10_000_000
GROUP_ROWS = 1 << 20
IN_MEMORY = 20_000_000  # rows of the memory-resident candidate, 400 MB
ENGINE_ROWS = 20_000_000
REPEATS = 3


def fitted() -> Any:
    """The model of all candidates: D = 1,000, five classes."""
    rng = np.random.default_rng(0)
    y = np.arange(50_000) % 5
    X = rng.normal(size=(len(y), 5)).astype(np.float32) + y[:, None].astype(np.float32)
    return pp.RFFM(n_features=1000, bandwidth=1.0).fit(pa.table(dict(zip(COLUMNS, X.T, strict=True))), y)


def rows_of(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal((n, 5), dtype=np.float32) + np.float32(2)


def write(folder: Path, n: int) -> None:
    """`n` rows as Parquet files of at most FILE_ROWS, written a row group at a time."""
    folder.mkdir()
    schema = pa.schema([(name, pa.float32()) for name in COLUMNS])
    for first in range(0, n, FILE_ROWS):
        with pq.ParquetWriter(folder / f"part-{first // FILE_ROWS:03d}.parquet", schema) as writer:
            for start in range(first, min(n, first + FILE_ROWS), GROUP_ROWS):
                X = rows_of(min(GROUP_ROWS, n - start, first + FILE_ROWS - start), start)
                writer.write_table(pa.table([np.ascontiguousarray(x) for x in X.T], schema=schema))


def forget(folder: Path) -> None:
    """Drop the files from the system's page cache, where the system knows how."""
    for path in folder.glob("*.parquet"):
        with path.open("rb") as f:
            os.fsync(f.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(task: Callable[[], Any]) -> float:
    began = time.perf_counter()
    task()
    return time.perf_counter() - began


def best_of(
    candidates: dict[str, Callable[[], Any]], before: dict[str, Callable[[], Any]] | None = None
) -> dict[str, float]:
    """The best wall time of each candidate, in turns, after one round that does not count."""
    times = dict.fromkeys(candidates, np.inf)
    for k in range(REPEATS + 1):
        for name, task in candidates.items():
            took = timed(task)
            if k:
                times[name] = min(times[name], took)
    return times


def peak() -> float:
    """Peak resident memory of this process in MB (NaN where there is no /proc)."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), float("nan"))


def one_pass(folder: str) -> None:
    """In a process of its own: one pass over the files from the disk, one from the cache, and the peak of everything."""
    model, source = fitted(), pp.scan(folder)
    model.sketch(pp.scan(next(Path(folder).glob("*.parquet")), batch_rows=1 << 17))
    forget(Path(folder))
    cold = timed(lambda: model.sketch(source))
    sketches: list[Any] = []
    warm = timed(lambda: sketches.append(model.sketch(source)))
    print(json.dumps({"cold": cold, "warm": warm, "peak": peak(), "rows": sketches[0].n_rows}))


def from_disk(folder: Path, n: int) -> None:
    """Rows a second from Parquet against rows a second from memory."""
    model = fitted()
    count = min(n, IN_MEMORY)
    X = np.concatenate([rows_of(min(GROUP_ROWS, count - i), i) for i in range(0, count, GROUP_ROWS)])
    memory = count / best_of({"memory": partial(model.sketch, X)})["memory"]
    del X
    done = subprocess.run([sys.executable, __file__, "--pass", str(folder)], capture_output=True, text=True, check=True)
    got = json.loads(done.stdout)
    assert got["rows"] == n
    print(f"{'in memory':<34}{memory / 1e6:>8.1f} M rows/s", flush=True)
    for name, took in (("Parquet, from the disk", got["cold"]), ("Parquet, from the page cache", got["warm"])):
        rate = n / took
        print(f"{name:<34}{rate / 1e6:>8.1f} M rows/s  x{rate / memory:.2f} of memory (aim: 0.60)", flush=True)
    print(f"{'peak resident memory':<34}{got['peak']:>8.0f} MB        (aim: below 1000)", flush=True)


def engines(folder: Path, n: int) -> None:
    """One process on all processors against as many Dask workers, and a Spark session with as many processors."""
    model, source, workers = fitted(), pp.scan(folder), resolve_jobs(None)
    candidates: dict[str, Callable[[], Any]] = {"local": lambda: model.sketch(source)}
    reference = model.sketch(source)
    stop: list[Callable[[], Any]] = []
    try:
        from distributed import Client, LocalCluster

        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None)
        client = Client(cluster)
        stop += [client.close, cluster.close]
        candidates["dask"] = lambda: model.sketch(source, engine="dask")
    except ImportError:
        print("dask is not installed: left out.")
    if shutil.which("java") is None:
        print("Java is not installed: Spark is left out.")
    else:
        frame = spark(folder, workers, stop)
        candidates["spark"] = lambda: model.sketch(source, engine="spark")
        candidates["spark DataFrame"] = lambda: model.sketch(frame)
    try:
        for name, task in candidates.items():
            difference = np.abs(task().sums.sum(axis=1) - reference.sums.sum(axis=1)).max()
            assert difference == 0, (name, difference)
        times = best_of(candidates)
    finally:
        for close in stop:
            close()
    needed = {"dask": "aim: 0.70", "spark": "aim: 0.50", "spark DataFrame": "its rows pass through Java"}
    for name, took in times.items():
        ratio = "" if name == "local" else f"  x{times['local'] / took:.2f} of local ({needed[name]})"
        print(f"{name + f', {workers} processors':<34}{n / took / 1e6:>8.1f} M rows/s{ratio}", flush=True)


def spark(folder: Path, workers: int, stop: list[Callable[[], Any]]) -> Any:
    """The files as a DataFrame of a new session."""
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(f"local[{workers}]").config("spark.ui.enabled", "false")  # type: ignore[attr-defined]
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    session = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", str(1 << 17)).getOrCreate()
    stop.append(session.stop)
    return session.read.parquet(str(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=lambda s: int(float(s)), default=100_000_000, help="rows of the file of part one"
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--pass", dest="folder_to_pass", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder_to_pass:
        one_pass(args.folder_to_pass)
        return
    rows = 30_000 if args.small else args.rows
    engine_rows = min(rows, ENGINE_ROWS)
    print(f"{platform.processor() or platform.machine()}, {resolve_jobs(None)} threads, pyarrow {pa.__version__}")
    with tempfile.TemporaryDirectory(dir=args.folder) as made:
        took = timed(lambda: write(Path(made) / "rows", rows))
        size = sum(p.stat().st_size for p in Path(made).rglob("*.parquet"))
        print(f"wrote {rows:,} rows x 5 float32, {size / 1e9:.2f} GB of Parquet, in {took:.0f} s", flush=True)
        from_disk(Path(made) / "rows", rows)
        if engine_rows < rows:
            shutil.rmtree(Path(made) / "rows")
            write(Path(made) / "rows", engine_rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engines(Path(made) / "rows", engine_rows)


if __name__ == "__main__":
    main()
