"""Sums of kernel values over groups of rows: T[r, g] = Σ_{y in group g} w_y κ(x_r, y), in O(n_x) memory.

A block of x rows lies transposed, so that one y row meets 256 of them in whole vectors. Squared distances
are sums of squared differences (no ‖x‖² - 2xy + ‖y‖², which cancels), so κ(x, x) is exact: 1, 1 and 0.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled, float_bits, float_from_bits, inlined, multiply_add, squared_distance, unaliased
from .panels import aligned
from .threads import resolve_jobs, run

__all__ = ["KINDS", "pair_sums"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Terms: TypeAlias = tuple[int, ...]  # only its length counts, which compiled code knows from its type

KINDS = {"gaussian": 0, "laplace": 1, "distance": 2}
GAUSSIAN, LAPLACE = KINDS["gaussian"], KINDS["laplace"]
BLOCK = 256  # rows of x that meet one row of y
FOUR: Terms = (0, 0, 0, 0)
ZERO = np.float32(0.0)
RUN = 64  # values added in float32 before their sum is added in float64

LOG2_E = 1.4426950408889634
TINY_EXPONENT = np.float32(-126.0)
MAGIC = np.float32(12582912.0)  # 1.5 · 2²³: adding it rounds to an integer, held by the low bits
MAGIC_BITS = np.int32(0x4B400000)
# 2^f - 1 = f P(f) on |f| ≤ 1/2, minimax in relative error (Lawson-weighted least squares on 20001 Chebyshev
# nodes), degree 6 with coefficients rounded to float32; with P evaluated in float32 the error of 2^f is
# that of its rounding.
E1 = np.float32(0.6931471824645996)
E2 = np.float32(0.24022647738456726)
E3 = np.float32(0.055503323674201965)
E4 = np.float32(0.00961843691766262)
E5 = np.float32(0.0013398875016719103)
E6 = np.float32(0.00015353361959569156)


def pair_sums(
    X: F32,
    Y: F32,
    offsets: I64,
    kind: str,
    scale: float,
    y_weights: F64 | None = None,
    *,
    n_jobs: int | None = None,
) -> F64:
    """T[r, g] = Σ w_y κ(x_r, y) over the rows y = offsets[g], ..., offsets[g + 1] - 1 of Y, as float64.

    κ(x, y) is exp(-scale ‖x - y‖²) for "gaussian", exp(-scale ‖x - y‖) for "laplace" and ‖x - y‖ for
    "distance". Each value is a float32 (exponentials below 2⁻¹²⁶ are 0); the result is the same bits for
    every n_jobs.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {sorted(KINDS)}, got {kind!r}")
    X = np.ascontiguousarray(X, dtype=np.float32)
    Y = np.ascontiguousarray(Y, dtype=np.float32)
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    weights = np.ones(Y.shape[0], np.float32) if y_weights is None else np.asarray(y_weights, np.float32)
    if X.shape[1] != Y.shape[1] or weights.shape != (Y.shape[0],):
        raise ValueError("X and Y must have the same columns, and y_weights one entry for each row of Y")
    if offsets[0] < 0 or offsets[-1] > Y.shape[0] or np.any(np.diff(offsets) < 0):
        raise ValueError(f"offsets must ascend from 0 to at most the {Y.shape[0]} rows of Y")
    result = np.empty((offsets.size - 1, X.shape[0]))
    rate = np.float32(-scale * LOG2_E)
    d = X.shape[1]
    head: Terms = (0,) * (d if d <= 8 else d % 4 or 4)

    def task(index: int) -> None:
        rows = slice(index * BLOCK, min(X.shape[0], (index + 1) * BLOCK))
        columns = aligned((X.shape[1], BLOCK), np.float32)
        columns[:, : rows.stop - rows.start] = X[rows].T
        scratch = aligned((5, BLOCK), np.float32)
        sum_block(columns, Y, offsets, KINDS[kind], rate, weights, head, FOUR, scratch, result[:, rows])

    run(task, -(-X.shape[0] // BLOCK), resolve_jobs(n_jobs))
    return result.T


@compiled
def sum_block(
    columns: F32,
    Y: F32,
    offsets: I64,
    kind: int,
    rate: np.float32,
    weights: F32,
    head: Terms,
    tail: Terms,
    scratch: F32,
    result: F64,
) -> None:
    """The columns of `result` for one block of x rows, given as columns (d, BLOCK). Rows of y come in fours."""
    p, q, r, s, partial = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    total = np.empty(BLOCK, np.float64)
    four = np.zeros(4, np.float32)
    for group in range(offsets.size - 1):
        total[:] = 0.0
        stop = offsets[group + 1]
        for first in range(offsets[group], stop, RUN):
            partial[:] = ZERO
            for row in range(first, min(first + RUN, stop), 4):
                last = stop - 1 - row  # beyond it, the last row fills up the four and weighs nothing
                a, b, c, e = Y[row], Y[row + min(1, last)], Y[row + min(2, last)], Y[row + min(3, last)]
                for k in range(4):
                    four[k] = weights[row + k] if k <= last else ZERO
                begin_squares(columns, a, b, c, e, head, p, q, r, s)
                for k in range(len(head), columns.shape[0], len(FOUR)):
                    add_squares(columns[k:], a[k:], b[k:], c[k:], e[k:], tail, p, q, r, s)
                if kind == GAUSSIAN:
                    add_gaussian(p, q, r, s, rate, four, partial)
                elif kind == LAPLACE:
                    add_laplace(p, q, r, s, rate, four, partial)
                else:
                    add_distance(p, q, r, s, four, partial)
            add_partial(partial, total)
        for i in range(result.shape[1]):
            result[group, i] = total[i]


@inlined
def begin_squares(columns: F32, a: F32, b: F32, c: F32, e: F32, terms: Terms, p: F32, q: F32, r: F32, s: F32) -> None:
    """p, q, r, s = the first len(terms) terms of ‖x - y‖² for the rows y = a, b, c, e and every column x."""
    unaliased()
    for i in range(p.size):
        p[i] = squared_distance(a, columns, i, terms, ZERO)
        q[i] = squared_distance(b, columns, i, terms, ZERO)
        r[i] = squared_distance(c, columns, i, terms, ZERO)
        s[i] = squared_distance(e, columns, i, terms, ZERO)


@inlined
def add_squares(columns: F32, a: F32, b: F32, c: F32, e: F32, terms: Terms, p: F32, q: F32, r: F32, s: F32) -> None:
    """p, q, r, s += the first len(terms) terms of ‖x - y‖² for the rows y = a, b, c, e and every column x."""
    unaliased()
    for i in range(p.size):
        p[i] = squared_distance(a, columns, i, terms, p[i])
        q[i] = squared_distance(b, columns, i, terms, q[i])
        r[i] = squared_distance(c, columns, i, terms, r[i])
        s[i] = squared_distance(e, columns, i, terms, s[i])


@inlined
def add_gaussian(p: F32, q: F32, r: F32, s: F32, rate: np.float32, w: F32, partial: F32) -> None:
    """partial += Σ w 2^(rate · squares) over the four rows of squares."""
    unaliased()
    for i in range(partial.size):
        first = multiply_add(w[1], power_of_2(rate * q[i]), multiply_add(w[0], power_of_2(rate * p[i]), partial[i]))
        partial[i] = multiply_add(w[3], power_of_2(rate * s[i]), multiply_add(w[2], power_of_2(rate * r[i]), first))


@inlined
def add_laplace(p: F32, q: F32, r: F32, s: F32, rate: np.float32, w: F32, partial: F32) -> None:
    """partial += Σ w 2^(rate · √squares) over the four rows of squares."""
    unaliased()
    for i in range(partial.size):
        first = multiply_add(w[0], power_of_2(rate * np.sqrt(p[i])), partial[i])
        second = multiply_add(w[1], power_of_2(rate * np.sqrt(q[i])), first)
        third = multiply_add(w[2], power_of_2(rate * np.sqrt(r[i])), second)
        partial[i] = multiply_add(w[3], power_of_2(rate * np.sqrt(s[i])), third)


@inlined
def add_distance(p: F32, q: F32, r: F32, s: F32, w: F32, partial: F32) -> None:
    """partial += Σ w √squares over the four rows of squares."""
    unaliased()
    for i in range(partial.size):
        first = multiply_add(w[1], np.sqrt(q[i]), multiply_add(w[0], np.sqrt(p[i]), partial[i]))
        partial[i] = multiply_add(w[3], np.sqrt(s[i]), multiply_add(w[2], np.sqrt(r[i]), first))


@inlined
def add_partial(partial: F32, total: F64) -> None:
    """total += partial."""
    unaliased()
    for i in range(partial.size):
        total[i] += np.float64(partial[i])


@inlined
def power_of_2(x: np.float32) -> np.float32:
    """2^x for x ≤ 0, and 0 below 2⁻¹²⁶: 2^n by shifting n into the exponent, 2^(x - n) by a polynomial."""
    shifted = x + MAGIC
    f = x - (shifted - MAGIC)
    tail = multiply_add(multiply_add(multiply_add(E6, f, E5), f, E4), f, E3)
    fraction = multiply_add(multiply_add(multiply_add(tail, f, E2), f, E1), f, np.float32(1.0))
    exponent = np.int32(float_bits(shifted) - MAGIC_BITS) << np.int32(23)
    power = float_from_bits(np.int32(float_bits(fraction) + exponent))
    return power if x >= TINY_EXPONENT else np.float32(0.0)
