"""Sums of distances on a line, by sorting: T[a, b] = Σ_{x in a} Σ_{y in b} w_x w_y |x − y| in O(n log n + n · cells).

With the weight W and the weighted sum V of the values below x, Σ_y w_y |x − y| = x (2W − W_all) − (2V − V_all).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled

__all__ = ["line_sums"]

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def line_sums(
    x: NDArray[Any],
    x_cells: I64,
    x_weights: F64,
    n_x_cells: int,
    y: NDArray[Any],
    y_cells: I64,
    y_weights: F64,
    n_y_cells: int,
) -> F64:
    """T (n_x_cells, n_y_cells) in float64."""
    out = np.zeros((n_x_cells, n_y_cells))
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    slope, level = np.zeros(n_y_cells), np.zeros(n_y_cells)
    np.subtract.at(slope, y_cells, y_weights)
    np.add.at(level, y_cells, y_weights * y)
    sweep(x, np.argsort(x), x_cells, x_weights, y, np.argsort(y), y_cells, y_weights, slope, level, out)
    return out


@compiled
def sweep(
    x: F64,
    x_order: I64,
    x_cells: I64,
    x_weights: F64,
    y: F64,
    y_order: I64,
    y_cells: I64,
    y_weights: F64,
    slope: F64,
    level: F64,
    out: F64,
) -> None:
    """Go up the line: x slope + level is Σ w_y |x − y| for each cell of y; a y that is passed turns its term round."""
    passed = 0
    for i in x_order:
        while passed < y_order.size and y[y_order[passed]] <= x[i]:
            j = y_order[passed]
            slope[y_cells[j]] += 2 * y_weights[j]
            level[y_cells[j]] -= 2 * y_weights[j] * y[j]
            passed += 1
        sums = out[x_cells[i]]
        for b in range(slope.size):
            sums[b] += x_weights[i] * (x[i] * slope[b] + level[b])
