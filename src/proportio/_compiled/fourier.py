"""Random Fourier features: Σ_r cos 2π z_r·ω_j and Σ_r sin 2π z_r·ω_j over the rows of each cell.

The rows z = float32(X - center) of a panel, sorted by cell, meet a block of frequencies at a time: a small
matrix product puts the phases of a tile of rows in the first-level cache, and `waves` adds up their cosines
and sines. No n by F array ever exists.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled, dot, inlined, unaliased
from .panels import TILE, aligned, featurise_panels, padded, sum_panels
from .waves import add_rows, add_weighted_rows, close_cell, write_rows

__all__ = ["fourier_features", "fourier_sums"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

Terms: TypeAlias = tuple[int, ...]  # only its length counts, which compiled code knows from its type

BLOCK = 256  # frequencies that a tile of rows meets at a time
ZERO = np.float32(0.0)
FOUR: Terms = (0, 0, 0, 0)


def fourier_sums(
    X: NDArray[Any],
    center: F64,
    turns: F32,
    cells: I32,
    n_cells: int,
    weights: F64 | None = None,
    *,
    n_jobs: int | None = None,
    onto: F64 | None = None,
) -> F64:
    """`onto` + Σ_{r: cells[r] = g} w_r [cos 2π z_r·turns | sin 2π z_r·turns] for every g, as (n_cells, 2F) float64.

    z = X - center is computed in float64 and rounded to float32; turns (d, F) are the frequencies divided
    by 2π. Rows with a negative cell are skipped. Without weights the sums are exact sums of values rounded
    to 2⁻²²: the same bits whatever the order of the rows, their division in chunks, and the threads. Weighted
    sums are rounded in the order of the rows: the same bits whatever the threads, and in chunks each `onto` the last.
    """
    wide, head = _pad(turns), _head(turns.shape[0])

    def kernel(z: F32, cells: I32, weights: F64 | None, sums: F64) -> None:
        scratch, integers = aligned((TILE, BLOCK), np.float32), aligned((2, BLOCK), np.int32)
        if weights is None:
            add_panel(z, cells, wide, head, scratch, integers, sums)
        else:
            add_weighted_panel(z, cells, weights, wide, head, scratch, sums)

    return sum_panels(kernel, X, center, cells, n_cells, weights, turns.shape[1], n_jobs, onto)


def fourier_features(X: NDArray[Any], center: F64, turns: F32, *, n_jobs: int | None = None) -> F32:
    """[cos 2π z·turns | sin 2π z·turns] as (n, 2F) float32: each the very value `fourier_sums` adds up."""
    wide, head = _pad(turns), _head(turns.shape[0])

    def kernel(z: F32, features: F32) -> None:
        write_panel(z, wide, head, aligned((TILE, BLOCK), np.float32), features)

    return featurise_panels(kernel, X, center, turns.shape[1], n_jobs)


def _head(d: int) -> Terms:
    """All dimensions at once where the registers hold them, else what four a pass leave over."""
    return (0,) * (d if d <= 6 else d % 4 or 4)


def _pad(turns: F32) -> F32:
    wide: F32 = aligned((turns.shape[0], padded(turns.shape[1])), np.float32)
    wide[:, : turns.shape[1]] = turns
    return wide


@compiled
def add_panel(z: F32, cells: I32, turns: F32, head: Terms, scratch: F32, integers: I32, sums: F64) -> None:
    """sums[cells[i]] += [cos | sin](2π z_i·turns) for the rows of a panel sorted by cell."""
    for column in range(0, turns.shape[1], scratch.shape[1]):
        width = min(scratch.shape[1], turns.shape[1] - column)
        versed, sines = integers[0, :width], integers[1, :width]
        count = 0
        for first in range(0, z.shape[0], scratch.shape[0]):
            phase_tile(z, first, turns, column, width, head, scratch)
            count = add_rows(scratch, cells, first, count, versed, sines, sums, column)
        if count > 0:
            close_cell(cells[cells.size - 1], count, versed, sines, sums, column)


@compiled
def add_weighted_panel(z: F32, cells: I32, weights: F64, turns: F32, head: Terms, scratch: F32, sums: F64) -> None:
    """sums[cells[i]] += weights[i] [cos | sin](2π z_i·turns) for the rows of a panel sorted by cell."""
    for column in range(0, turns.shape[1], scratch.shape[1]):
        width = min(scratch.shape[1], turns.shape[1] - column)
        for first in range(0, z.shape[0], scratch.shape[0]):
            phase_tile(z, first, turns, column, width, head, scratch)
            add_weighted_rows(scratch, cells, weights, first, width, sums, column)


@compiled
def write_panel(z: F32, turns: F32, head: Terms, scratch: F32, features: F32) -> None:
    """features[i] = [cos | sin](2π z_i·turns) for the rows of a panel; turns may have padding columns."""
    n_frequencies = features.shape[1] // 2
    for column in range(0, n_frequencies, scratch.shape[1]):
        width = min(scratch.shape[1], turns.shape[1] - column)
        written = min(width, n_frequencies - column)
        for first in range(0, z.shape[0], scratch.shape[0]):
            phase_tile(z, first, turns, column, width, head, scratch)
            write_rows(scratch, features, first, written, column)


@inlined
def phase_tile(z: F32, first: int, turns: F32, column: int, width: int, head: Terms, scratch: F32) -> None:
    """scratch[i, j] = z[first + i] · turns[:, column + j]: the terms in the order of the dimensions.

    The first pass over a tile takes the len(head) first dimensions, every further one four.
    """
    stop = column + width
    for i in range(0, scratch.shape[0], 4):
        a, b, c, e = z[first + i], z[first + i + 1], z[first + i + 2], z[first + i + 3]
        p, q, r, s = scratch[i, :width], scratch[i + 1, :width], scratch[i + 2, :width], scratch[i + 3, :width]
        set_products(a, b, c, e, turns[:, column:stop], head, p, q, r, s)
        for k in range(len(head), z.shape[1], len(FOUR)):
            add_products(a[k:], b[k:], c[k:], e[k:], turns[k:, column:stop], FOUR, p, q, r, s)


@inlined
def set_products(a: F32, b: F32, c: F32, e: F32, turns: F32, terms: Terms, p: F32, q: F32, r: F32, s: F32) -> None:
    """The rows p, q, r, s = the first len(terms) entries of the rows a, b, c, e times those rows of turns."""
    unaliased()
    for j in range(p.size):
        p[j] = dot(a, turns, j, terms, ZERO)
        q[j] = dot(b, turns, j, terms, ZERO)
        r[j] = dot(c, turns, j, terms, ZERO)
        s[j] = dot(e, turns, j, terms, ZERO)


@inlined
def add_products(a: F32, b: F32, c: F32, e: F32, turns: F32, terms: Terms, p: F32, q: F32, r: F32, s: F32) -> None:
    """The rows p, q, r, s += the first len(terms) entries of the rows a, b, c, e times those rows of turns."""
    unaliased()
    for j in range(p.size):
        p[j] = dot(a, turns, j, terms, p[j])
        q[j] = dot(b, turns, j, terms, q[j])
        r[j] = dot(c, turns, j, terms, r[j])
        s[j] = dot(e, turns, j, terms, s[j])
