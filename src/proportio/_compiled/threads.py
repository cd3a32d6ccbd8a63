"""Threads over compiled kernels that release the interpreter lock.

Numba's own thread pools break under ``fork`` and when called from several Python threads at once, so the
kernels here are plain sequential functions and the parallelism is a ``ThreadPoolExecutor`` around them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

__all__ = ["resolve_jobs", "run"]


def resolve_jobs(n_jobs: int | None) -> int:
    """Number of threads: None = the processors we may use, at most NUMBA_NUM_THREADS; -1 = all of them."""
    if n_jobs is None:
        limit = os.environ.get("NUMBA_NUM_THREADS")
        return min(_available(), max(1, int(limit))) if limit else _available()
    if n_jobs == -1:
        return _available()
    if n_jobs >= 1:
        return int(n_jobs)
    raise ValueError(f"n_jobs must be None, -1 or a positive integer, got {n_jobs!r}")


def run(task: Callable[[int], object], n_tasks: int, n_jobs: int) -> None:
    """Run task(0), ..., task(n_tasks - 1) on n_jobs threads; the first failure cancels what has not begun.

    With one job everything runs in the calling thread. An exception, a KeyboardInterrupt included, is
    raised as soon as the tasks already running have ended, so tasks should be short (milliseconds).
    """
    if n_jobs == 1 or n_tasks <= 1:
        for index in range(n_tasks):
            task(index)
        return
    executor = ThreadPoolExecutor(min(n_jobs, n_tasks))
    try:
        for future in [executor.submit(task, index) for index in range(n_tasks)]:
            future.result()
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _available() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
