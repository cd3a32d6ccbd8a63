"""From parts to tidy tables: one Parquet file an experiment, and CSV summaries with repetition intervals.

Rows stand in the order of the plan, so a table is the same bits whatever order its parts were computed in.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.stats import t as student

from proportio import storage
from proportio.errors import FileError
from proportio.reproduce.plan import Plan
from proportio.reproduce.runner import Task, read_part, tasks_of

SUMMARIES = {  # what stays apart, and what is averaged
    "robustness": (["noise", "contamination", "method"], ["error", "error_normalised", "error_rescaled"]),
    "hipc": (["share", "withheld", "method"], ["error", "error_normalised", "error_rescaled"]),
    "bounds": (["bound", "form", "noise", "rows"], ["error", "radius"]),
    "fourier": (["d", "n_features", "kind"], ["kernel_error", "distance_to_exact", "error"]),
    "bandwidth": (["d", "noise", "of_median"], ["error", "delta_min"]),
    "speed": (["method", "rows"], ["seconds_fit", "seconds_answer", "seconds"]),
}


def assemble(plan: Plan, out: Path, only: Sequence[str] = ()) -> dict[str, Path]:
    """Write the table of every experiment whose parts are all there; where each lies, by experiment."""
    tasks: dict[str, list[Task]] = {}
    for task in tasks_of(plan, only):
        tasks.setdefault(task.cell.experiment, []).append(task)
    written = {}
    for name, mine in tasks.items():
        missing = sum(not task.part(out).is_file() for task in mine)
        if missing:
            raise FileError(
                f"{out}: {missing} of {len(mine)} parts of {name!r} are missing: run it again to complete them."
            )
        rows = [row for task in mine for row in read_part(task.part(out))["rows"]]
        path = out / ("timings" if mine[0].cell.timed else "results") / f"{name}.parquet"
        save(pa.Table.from_pylist(rows), path)
        written[name] = path
    return written


def save(table: pa.Table, path: Path) -> None:
    """Parquet, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    storage.write(path, sink.getvalue().to_pybytes())


def load(out: str | os.PathLike[str], *folders: str) -> dict[str, pd.DataFrame]:
    """The tables of a finished run, by experiment: those under "results" and "timings", or of one of them."""
    paths = [p for folder in folders or ("results", "timings") for p in sorted((Path(out) / folder).glob("*.parquet"))]
    return {p.stem: pd.read_parquet(p) for p in paths}


def half_width(values: pd.Series[float]) -> float:
    """Half the 95% t interval of the mean over repetitions; NaN for one."""
    n = int(values.count())
    return float(student.ppf(0.975, n - 1) * values.std() / np.sqrt(n)) if n > 1 else float("nan")


def summary(table: pd.DataFrame, by: Sequence[str], value: str, *, log: bool = False) -> pd.DataFrame:
    """Mean (with `log`: geometric mean), the ends of its interval, and number of repetitions, one row a group."""
    values = table.assign(**{value: np.log(table[value])}) if log else table
    groups = values.groupby(list(by), sort=False, dropna=False)[value]
    mean, half = groups.mean(), groups.agg(half_width)
    ends = pd.DataFrame({"mean": mean, "low": mean - half, "high": mean + half})
    return ends.transform(np.exp if log else lambda x: x).assign(n=groups.count()).reset_index()


def summarise(tables: dict[str, pd.DataFrame], folder: Path) -> list[Path]:
    """One CSV an experiment: every measure with its interval, to read and to quote."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (by, values) in SUMMARIES.items():
        if name not in tables:
            continue
        parts = [summary(tables[name], by, v).assign(measure=v) for v in values]
        text = pd.concat(parts)[[*by, "measure", "mean", "low", "high", "n"]].to_csv(index=False, float_format="%.6g")
        path = folder / f"{name}.csv"
        storage.write(path, text.encode())
        written.append(path)
    return written
