"""Panels: a few thousand rows at a time, centred in float64, rounded to float32 and sorted by cell.

Sorting the rows of a panel by cell (a counting sort, a few nanoseconds a row) is what makes hundreds of
cells as cheap as one: the accumulators of a single cell stay in the first-level cache.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled
from .threads import resolve_jobs, run

__all__ = ["TILE", "aligned", "featurise_panels", "padded", "sum_panels"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

TILE = 16  # rows whose phases are computed together; panels are zero-padded to whole tiles
PANEL_ROWS = 65536
PANEL_VALUES = 1 << 20  # at most 4 MB of float32 a panel
ROWS_A_CELL = 256  # or four times as many, for sums of so many rows are read and written once in a panel
BUFFER_BYTES = 256 << 20  # for the private sums of all threads together

SumKernel = Callable[[F32, I32, "F64 | None", F64], None]
FeatureKernel = Callable[[F32, F32], None]


def sum_panels(
    kernel: SumKernel,
    X: NDArray[Any],
    center: F64,
    cells: I32,
    n_cells: int,
    weights: F64 | None,
    n_frequencies: int,
    n_jobs: int | None,
    onto: F64 | None,
    columns: int = 0,
) -> F64:
    """`onto` + the (n_cells, 2F) sums [cos | sin]: kernel(z, cells, weights, sums) adds the rows z of one sorted panel.

    z has at least `columns` columns, the additional ones zero. Unweighted sums are exact: threads take panels as they
    come, each with sums of its own. Weighted ones are rounded: each thread takes the cells of its own and adds their rows
    in order, so that neither the threads nor the panels nor the division in calls changes a bit.
    """
    n = X.shape[0]
    cells = np.ascontiguousarray(cells, dtype=np.int32)
    center = np.ascontiguousarray(center, dtype=np.float64)
    if cells.shape != (n,) or (weights is not None and weights.shape != (n,)):
        raise ValueError(f"cells and weights must have one entry for each of the {n} rows")
    if n and int(cells.max()) >= n_cells:
        raise ValueError(f"cells must be less than n_cells = {n_cells}")
    width = padded(n_frequencies)
    jobs = max(1, min(resolve_jobs(n_jobs), BUFFER_BYTES // max(1, 16 * n_cells * width)))
    step = _panel_rows(n, X.shape[1], jobs, n_cells)
    total = np.zeros((n_cells, 2, width))
    if onto is not None:
        total[:, :, :n_frequencies] = onto.reshape(n_cells, 2, n_frequencies)

    def add_panel(start: int, sums: F64, weights: F64 | None, owner: int = 0, owners: int = 1) -> None:
        rows = slice(start, min(n, start + step))
        places, kept = places_by_cell(cells[rows], n_cells, owner, owners)
        z = _centered(X[rows], center, places, kept, columns)
        kernel(
            z, _moved(cells[rows], places, kept), None if weights is None else _moved(weights[rows], places, kept), sums
        )

    if weights is None:
        free = [total]
        made: list[F64] = []

        def task(index: int) -> None:
            try:
                sums = free.pop()
            except IndexError:
                sums = np.zeros_like(total)
                made.append(sums)
            add_panel(index * step, sums, None)
            free.append(sums)

        run(task, -(-n // step), jobs)
        for sums in made:
            total += sums
    else:
        each = np.ascontiguousarray(weights, dtype=np.float64)

        def add_owned(start: int, index: int) -> None:
            add_panel(start, total, each, index, owners)

        owners = max(1, min(jobs, n_cells))
        for start in range(0, n, step):
            run(partial(add_owned, start), owners, owners)
    return np.ascontiguousarray(total[:, :, :n_frequencies]).reshape(n_cells, 2 * n_frequencies)


def featurise_panels(
    kernel: FeatureKernel,
    X: NDArray[Any],
    center: F64,
    n_frequencies: int,
    n_jobs: int | None,
    columns: int = 0,
) -> F32:
    """(n, 2F) features [cos | sin]: kernel(z, features) writes those of the rows z of one panel."""
    n = X.shape[0]
    center = np.ascontiguousarray(center, dtype=np.float64)
    features = np.empty((n, 2 * n_frequencies), dtype=np.float32)
    jobs = resolve_jobs(n_jobs)
    step = min(4096, _panel_rows(n, X.shape[1], jobs))

    def task(index: int) -> None:
        rows = slice(index * step, min(n, (index + 1) * step))
        count = rows.stop - rows.start
        kernel(_centered(X[rows], center, np.arange(count), count, columns), features[rows])

    run(task, -(-n // step), jobs)
    return features


def padded(n_frequencies: int) -> int:
    """The next multiple of 16 frequencies: whole vectors, whole cache lines."""
    return -(-max(1, n_frequencies) // 16) * 16


def aligned(shape: tuple[int, ...], dtype: type[np.generic]) -> NDArray[Any]:
    """Zeros that begin on a cache line, so that no 512-bit load straddles two."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    buffer = np.zeros(size + 64, dtype=np.uint8)
    offset = -buffer.ctypes.data % 64
    return buffer[offset : offset + size].view(dtype).reshape(shape)


def _panel_rows(n: int, d: int, jobs: int, n_cells: int = 0) -> int:
    """Rows of a panel: as many as the cache likes, but several panels for each thread; more where there are many cells."""
    by_size = min(PANEL_ROWS, PANEL_VALUES // max(1, d), -(-n // (4 * jobs)))
    by_cells = min(ROWS_A_CELL * n_cells, 4 * PANEL_VALUES // max(1, d), -(-n // jobs))
    return max(256, by_size, by_cells)


def _centered(X: NDArray[Any], center: F64, places: I64, kept: int, columns: int) -> F32:
    """float32(X - center), each row at its place, zero-padded to whole tiles of rows and at least `columns` columns."""
    if X.dtype != np.float32:
        X = np.asarray(X, dtype=np.float64)
    z: F32 = aligned((-(-kept // TILE) * TILE, max(columns, X.shape[1])), np.float32)
    subtract_center(np.ascontiguousarray(X), center, places, z)
    return z


def _moved(values: NDArray[Any], places: I64, kept: int) -> NDArray[Any]:
    """Each value at its place."""
    out = np.empty(kept, values.dtype)
    move(values, places, out)
    return out


@compiled
def subtract_center(X: NDArray[Any], center: F64, places: I64, z: F32) -> None:
    """z[places[r]] = float32(float64(X[r]) - center): the rows are read in order, for they may come from far."""
    for row in range(places.size):
        place = places[row]
        if place >= 0:
            for k in range(X.shape[1]):
                z[place, k] = np.float32(np.float64(X[row, k]) - center[k])


@compiled
def move(values: NDArray[Any], places: I64, out: NDArray[Any]) -> None:
    """out[places[r]] = values[r] where there is a place."""
    for row in range(places.size):
        if places[row] >= 0:
            out[places[row]] = values[row]


@compiled
def places_by_cell(cells: I32, n_cells: int, owner: int, owners: int) -> tuple[I64, int]:
    """Where each row goes when those with cells[r] ≥ 0 and cells[r] % owners == owner are sorted by cell (a counting
    sort, stable); -1 for the others; and how many go anywhere."""
    begin = np.zeros(n_cells + 1, np.int64)
    for cell in cells:
        if cell >= 0 and (owners == 1 or cell % owners == owner):
            begin[cell + 1] += 1
    for cell in range(n_cells):
        begin[cell + 1] += begin[cell]
    kept = begin[n_cells]
    places = np.full(cells.size, -1, np.int64)
    for row in range(cells.size):
        cell = cells[row]
        if cell >= 0 and (owners == 1 or cell % owners == owner):
            places[row] = begin[cell]
            begin[cell] += 1
    return places, kept
