"""Structured random Fourier features: phases radii ∘ H(s₃ ∘ H(s₂ ∘ H(s₁ ∘ z))), O(p log p) instead of O(p²) a row.

H is the unnormalised Walsh-Hadamard matrix of order p, the next power of two ≥ d. A row is transformed in place in the
first-level cache: 128 values at a time in eight vector registers, every larger stride as butterflies between whole runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled, hadamard_128, inlined, unaliased
from .panels import aligned, featurise_panels, padded, sum_panels
from .waves import add_rows, add_weighted_rows, close_cell, write_rows

__all__ = ["hadamard_features", "hadamard_sums"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

ROWS = 8  # rows of a tile (a divisor of panels.TILE), whose phases stay in the first-level cache
RUN = 128  # values that the registers transform at a time


def hadamard_sums(
    X: NDArray[Any],
    center: F64,
    signs: F32,
    radii: F32,
    n_freq: int,
    cells: I32,
    n_cells: int,
    weights: F64 | None = None,
    *,
    n_jobs: int | None = None,
    onto: F64 | None = None,
) -> F64:
    """`onto` + Σ_{r: cells[r] = g} w_r [cos 2πt_r | sin 2πt_r] for every cell g, as (n_cells, 2 n_freq) float64.

    t_r is the first n_freq entries of radii ∘ H (s₃ ∘ H (s₂ ∘ H (s₁ ∘ (z_r, 0, ..., 0)))), block after block of
    signs = (s₁, s₂, s₃) (3, n_blocks, p) and radii (n_blocks, p); whatever scale there is, 1/2π included, is in them.
    Otherwise as `fourier.fourier_sums`.
    """
    wide_signs, wide_radii = _pad(signs, radii, X.shape[1], n_freq)
    width = padded(n_freq)
    order = signs.shape[2]

    def kernel(z: F32, cells: I32, weights: F64 | None, sums: F64) -> None:
        row, phases = _workspace(wide_signs, order, width)
        if weights is None:
            integers = aligned((2, width), np.int32)
            add_panel(z, cells, wide_signs, wide_radii, order, row, phases, integers, sums)
        else:
            add_weighted_panel(z, cells, weights, wide_signs, wide_radii, order, row, phases, sums)

    return sum_panels(kernel, X, center, cells, n_cells, weights, n_freq, n_jobs, onto, wide_signs.shape[2])


def hadamard_features(
    X: NDArray[Any], center: F64, signs: F32, radii: F32, n_freq: int, *, n_jobs: int | None = None
) -> F32:
    """[cos 2πt | sin 2πt] as (n, 2 n_freq) float32: each the very value `hadamard_sums` adds up."""
    wide_signs, wide_radii = _pad(signs, radii, X.shape[1], n_freq)
    order = signs.shape[2]

    def kernel(z: F32, features: F32) -> None:
        row, phases = _workspace(wide_signs, order, padded(n_freq))
        write_panel(z, wide_signs, wide_radii, order, row, phases, features)

    return featurise_panels(kernel, X, center, n_freq, n_jobs, wide_signs.shape[2])


def _pad(signs: F32, radii: F32, d: int, n_freq: int) -> tuple[F32, F32]:
    """signs and radii with rows of at least 128 entries; the zeros appended leave the first p phases as is."""
    _, n_blocks, order = signs.shape
    if signs.shape != (3, *radii.shape) or order & (order - 1) or not d <= order or n_freq > n_blocks * order:
        raise ValueError(
            f"signs {signs.shape} and radii {radii.shape} must be (3, n_blocks, p) and (n_blocks, p) with p a power of two "
            f"≥ {d} and n_blocks p ≥ {n_freq}"
        )
    wide = aligned((4, n_blocks, max(RUN, order)), np.float32)
    wide[:3, :, :order] = signs
    wide[3, :, :order] = radii
    return wide[:3], wide[3]


def _workspace(wide_signs: F32, order: int, width: int) -> tuple[F32, F32]:
    row = aligned((wide_signs.shape[2],), np.float32)
    phases = aligned((ROWS, max(width, wide_signs.shape[1] * order)), np.float32)
    return row, phases


@compiled
def add_panel(
    z: F32, cells: I32, signs: F32, radii: F32, order: int, row: F32, phases: F32, integers: I32, sums: F64
) -> None:
    """sums[cells[i]] += [cos | sin] of the phases of z_i for the rows of a panel sorted by cell."""
    versed, sines = integers[0], integers[1]
    count = 0
    for first in range(0, z.shape[0], ROWS):
        phase_tile(z, first, signs, radii, order, versed.size, row, phases)
        count = add_rows(phases, cells, first, count, versed, sines, sums, 0)
    if count > 0:
        close_cell(cells[cells.size - 1], count, versed, sines, sums, 0)


@compiled
def add_weighted_panel(
    z: F32, cells: I32, weights: F64, signs: F32, radii: F32, order: int, row: F32, phases: F32, sums: F64
) -> None:
    """sums[cells[i]] += weights[i] [cos | sin] of the phases of z_i for the rows of a panel."""
    width = sums.shape[2]
    for first in range(0, z.shape[0], ROWS):
        phase_tile(z, first, signs, radii, order, width, row, phases)
        add_weighted_rows(phases, cells, weights, first, width, sums, 0)


@compiled
def write_panel(z: F32, signs: F32, radii: F32, order: int, row: F32, phases: F32, features: F32) -> None:
    """features[i] = [cos | sin] of the phases of z_i for the rows of a panel."""
    width = features.shape[1] // 2
    for first in range(0, z.shape[0], ROWS):
        phase_tile(z, first, signs, radii, order, width, row, phases)
        write_rows(phases, features, first, width, 0)


@inlined
def phase_tile(z: F32, first: int, signs: F32, radii: F32, order: int, width: int, row: F32, phases: F32) -> None:
    """phases[i, :width] = the blocks of radii ∘ H (s₃ ∘ H (s₂ ∘ H (s₁ ∘ z[first + i]))) one after the other."""
    for i in range(ROWS):
        for block in range(signs.shape[1]):
            begin = block * order
            transform(z[first + i], signs[0, block], row)
            transform(row, signs[1, block], row)
            transform(row, signs[2, block], row)
            stop = min(begin + order, width)
            multiply(row, radii[block], phases[i, begin:stop])


@inlined
def transform(values: F32, factors: F32, row: F32) -> None:
    """row = H (factors ∘ values)."""
    for k in range(0, factors.size, RUN):
        hadamard_128(values, k, factors, k, row, k)
    run = RUN
    while 4 * run <= row.size:
        for k in range(0, row.size, 4 * run):
            half = k + 2 * run
            butterflies_4(
                row[k : k + run], row[k + run : half], row[half : half + run], row[half + run : half + 2 * run]
            )
        run *= 4
    if 2 * run <= row.size:
        butterflies_2(row[:run], row[run : 2 * run])


@inlined
def multiply(values: F32, factors: F32, products: F32) -> None:
    """products = values ∘ factors, as far as there are products."""
    unaliased()
    for j in range(products.size):
        products[j] = values[j] * factors[j]


@inlined
def butterflies_4(a: F32, b: F32, c: F32, e: F32) -> None:
    """(a, b, c, e) = H₄ (a, b, c, e)."""
    unaliased()
    for j in range(a.size):
        p, q, r, s = a[j] + b[j], a[j] - b[j], c[j] + e[j], c[j] - e[j]
        a[j], b[j], c[j], e[j] = p + r, q + s, p - r, q - s


@inlined
def butterflies_2(a: F32, b: F32) -> None:
    """(a, b) = (a + b, a - b)."""
    unaliased()
    for j in range(a.size):
        p, q = a[j], b[j]
        a[j], b[j] = p + q, p - q
