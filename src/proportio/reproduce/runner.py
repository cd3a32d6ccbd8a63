"""Run a plan: in parallel, and resumable at any instant.

    OUT/parts/<experiment>/<key>.json    the rows of one cell, written whole or not at all; present: never computed again
    OUT/results/<experiment>.parquet     all of them, in sorted order: the same bits however the run went
    OUT/timings/…                        what depends on the machine: measured times, seconds and memory of each cell

Cells run in fresh processes, one thread each; those that measure time run afterwards, alone, on all processors.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from proportio import __version__, storage
from proportio.errors import FileError, InputError
from proportio.reproduce.cells import Cell, Row, Value
from proportio.reproduce.describe import canonical, key_of
from proportio.reproduce.plan import Plan

Report = Callable[[str], None]


@dataclass(frozen=True)
class Task:
    """A cell, the seed, and the name of its part."""

    cell: Cell
    seed: int

    @property
    def key(self) -> str:
        """A digest of all that its rows depend on."""
        return key_of(type(self.cell), self.cell, self.seed, __version__)[:20]

    def part(self, out: Path) -> Path:
        """Where its rows are kept."""
        return out / ("timings" if self.cell.timed else "") / "parts" / self.cell.experiment / f"{self.key}.json"

    def work(self) -> tuple[list[Row], float, float]:
        """Its rows, the seconds it took, and the peak memory (MB) of its process so far."""
        began = time.perf_counter()
        rows = [{k: _finite(v) for k, v in row.items()} for row in self.cell.rows(self.seed)]
        return rows, time.perf_counter() - began, peak_mb()


Results = Generator[tuple[Task, tuple[list[Row], float, float]], None, None]


def tasks_of(plan: Plan, only: Sequence[str] = ()) -> list[Task]:
    """Every task of the plan, or of the experiments named in `only`."""
    names = [e.name for e in plan.experiments]
    unknown = [name for name in only if name not in names]
    if unknown:
        raise InputError(f"the plan has no experiment {unknown[0]!r}: it has {', '.join(names)}.")
    return [Task(c, plan.seed) for e in plan.experiments if not only or e.name in only for c in e.cells()]


def compute(plan: Plan, out: Path, *, only: Sequence[str] = (), jobs: int = 1, report: Report = lambda _: None) -> None:
    """Compute every part that is not there yet."""
    tasks = tasks_of(plan, only)
    for folder in dict.fromkeys([*(t.part(out).parent for t in tasks), out / "timings" / "seconds"]):
        _make(folder)
    missing = [t for t in tasks if not _complete(t.part(out), t.key)]
    if len(missing) < len(tasks):
        report(f"{len(tasks) - len(missing)} of {len(tasks)} tasks are there already")
    together, alone = [t for t in missing if not t.cell.timed], [t for t in missing if t.cell.timed]
    began = time.perf_counter()
    done = 0
    for stream in (_parallel(together, jobs), _sequential(alone)):
        with contextlib.closing(stream):
            for task, (rows, seconds, peak) in stream:
                _keep(task, rows, seconds, peak, out)
                done += 1
                left = (time.perf_counter() - began) / done * (len(missing) - done)
                report(
                    f"[{done}/{len(missing)}, {_clock(left)} left] {task.cell.experiment}: {task.cell.label} ({seconds:.1f} s)"
                )


def _keep(task: Task, rows: list[Row], seconds: float, peak: float, out: Path) -> None:
    """The measurements first: a part that is there has them."""
    spent = {"experiment": task.cell.experiment, "label": task.cell.label, "seconds": seconds, "peak_mb": peak}
    _write(out / "timings" / "seconds" / f"{task.key}.json", {**spent, "process": os.getpid()})
    _write(task.part(out), {"key": task.key, "cell": canonical(task.cell), "seed": task.seed, "rows": rows})


def _sequential(tasks: list[Task]) -> Results:
    for task in tasks:
        yield task, task.work()


def _parallel(tasks: list[Task], jobs: int) -> Results:
    """Results as they come; whatever ends the iteration early ends the processes too."""
    if jobs == 1 or len(tasks) <= 1:
        with threadpool_limits(1):
            yield from _sequential(tasks)
        return
    before = set(multiprocessing.active_children())
    executor = ProcessPoolExecutor(min(jobs, len(tasks)), multiprocessing.get_context("spawn"), _begin_worker)
    try:
        futures = {executor.submit(task.work): task for task in tasks}
        for future in as_completed(futures):
            task = futures.pop(future)
            yield task, future.result()
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """One thread a process; Ctrl-C is the parent's to handle; no process outlives its parent, even one killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def peak_mb() -> float:
    """The most memory this process has held, in MB; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0.0
    import resource  # POSIX only

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _finite(value: Value) -> Value:
    """JSON and Parquet know what is missing, not what is infinite."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


# -- parts on disk -------------------------------------------------------------------------------------------


def read_part(path: Path) -> dict[str, Any]:
    """The contents of one part."""
    try:
        data: dict[str, Any] = json.loads(storage.read(path))
    except ValueError as error:
        raise FileError(f"{path}: not a part that proportio wrote ({error}). Delete it and run again.") from error
    return data


def _complete(path: Path, key: str) -> bool:
    return path.is_file() and read_part(path).get("key") == key


def _write(path: Path, data: dict[str, Any]) -> None:
    storage.write(path, json.dumps(data, allow_nan=False, ensure_ascii=False, sort_keys=True).encode())


def _make(folder: Path) -> None:
    """The folder, without what a killed run may have left half-written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(".*.json.*"):
            left.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{folder}: cannot be made ({error.strerror or error}).") from error


def _clock(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
