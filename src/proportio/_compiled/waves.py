"""Sums of cos 2πt and sin 2πt in exact fixed point: the step shared by all random Fourier features.

For a phase t in turns let r = t - rint(t), s = sin πr and k = cos πr. Then cos 2πt = 1 - 2s² and
sin 2πt = 2sk, so only s² ∈ [0, 1] and sk ∈ [-1/2, 1/2] are ever summed. A fused multiply-add onto 1
(for s²) or 3/2 (for sk) lands in [1, 2], where the bit pattern of a float32 counts units of 2⁻²³: each
value is rounded to that unit once, and from there on sums are sums of integers. They have the same bits
in every order of the rows, and sums over parts add up to the sum over the whole.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from .lowlevel import float_bits, inlined, multiply_add, round_even, unaliased

__all__ = ["add_rows", "add_weighted_rows", "close_cell", "write_rows"]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
Four: TypeAlias = tuple[np.float32, np.float32, np.float32, np.float32]

# Minimax (Lawson-weighted least squares on 20001 Chebyshev nodes of [0, 1/2]; the coefficients rounded to
# float32 one after the other, the remaining ones refitted each time). sin πr is odd of degree 9 with leading
# coefficient float32(π): |error| ≤ 7.7e-9. cos πr is even of degree 8 with value 1 at 0, its error weighted
# by sin πr because it only ever appears in the product sk: |error · sin πr| ≤ 4.1e-8.
S1 = np.float32(3.1415927410125732)
S3 = np.float32(-5.1677141189575195)
S5 = np.float32(2.55012583732605)
S7 = np.float32(-0.5985169410705566)
S9 = np.float32(0.0780201405286789)
K0 = np.float32(1.0)
K2 = np.float32(-4.934792995452881)
K4 = np.float32(4.058399200439453)
K6 = np.float32(-1.3317681550979614)
K8 = np.float32(0.21944653987884521)

ONE = np.float32(1.0)
ONE_AND_HALF = np.float32(1.5)
ONE_BITS = np.int32(0x3F800000)
ONE_AND_HALF_BITS = np.int32(0x3FC00000)
UNIT = 2.0**-22  # of cos and sin: twice the unit of s² and sk
UNIT32 = np.float32(2.0**-22)
MAX_ROWS = 255  # so many values of at most 1 in units of 2⁻²³ fit an int32


@inlined
def half_wave(phase: np.float32) -> tuple[np.float32, np.float32]:
    """(sin πr, cos πr) for r = phase - rint(phase)."""
    r = phase - round_even(phase)
    q = r * r
    s = multiply_add(multiply_add(multiply_add(multiply_add(S9, q, S7), q, S5), q, S3), q, S1) * r
    k = multiply_add(multiply_add(multiply_add(multiply_add(K8, q, K6), q, K4), q, K2), q, K0)
    return s, k


@inlined
def half_waves(a: np.float32, b: np.float32, c: np.float32, e: np.float32) -> tuple[Four, Four]:
    """`half_wave` of four phases, step by step side by side: a processor that waits for one goes on with another."""
    r = (a - round_even(a), b - round_even(b), c - round_even(c), e - round_even(e))
    q = multiply_4(r, r)
    s, k = step_4((S9, S9, S9, S9), q, S7), step_4((K8, K8, K8, K8), q, K6)
    s, k = step_4(s, q, S5), step_4(k, q, K4)
    s, k = step_4(s, q, S3), step_4(k, q, K2)
    s, k = step_4(s, q, S1), step_4(k, q, K0)
    return multiply_4(s, r), k


@inlined
def step_4(x: Four, y: Four, c: np.float32) -> Four:
    """x y + c, four times."""
    return (
        multiply_add(x[0], y[0], c),
        multiply_add(x[1], y[1], c),
        multiply_add(x[2], y[2], c),
        multiply_add(x[3], y[3], c),
    )


@inlined
def multiply_4(x: Four, y: Four) -> Four:
    """x y, four times."""
    return (x[0] * y[0], x[1] * y[1], x[2] * y[2], x[3] * y[3])


@inlined
def sum_bits(x: Four) -> np.int32:
    """The sum of the bits of four float32, modulo 2³²."""
    total: np.int32 = (float_bits(x[0]) + float_bits(x[1])) + (float_bits(x[2]) + float_bits(x[3]))
    return total


@inlined
def add_row(phases: F32, versed: I32, sines: I32) -> None:
    """versed += bits(1 + s²), sines += bits(3/2 + sk), modulo 2³², for one row of phases."""
    unaliased()
    for j in range(phases.size):
        s, k = half_wave(phases[j])
        versed[j] += float_bits(multiply_add(s, s, ONE))
        sines[j] += float_bits(multiply_add(s, k, ONE_AND_HALF))


@inlined
def add_4_rows(a: F32, b: F32, c: F32, e: F32, versed: I32, sines: I32) -> None:
    """`add_row` for four rows of phases."""
    unaliased()
    for j in range(versed.size):
        s, k = half_waves(a[j], b[j], c[j], e[j])
        versed[j] += sum_bits(step_4(s, s, ONE))
        sines[j] += sum_bits(step_4(s, k, ONE_AND_HALF))


@inlined
def flush(versed: I32, sines: I32, count: int, cosine_sums: F64, sine_sums: F64) -> None:
    """cosine_sums += Σ cos, sine_sums += Σ sin over the `count` rows accumulated; then start again from 0.

    Both are multiples of 2⁻²², so float64 adds them exactly up to 2³¹ rows.
    """
    unaliased()
    for j in range(versed.size):
        cosine_sums[j] += count - UNIT * np.int32(versed[j] - count * ONE_BITS)
        sine_sums[j] += UNIT * np.int32(sines[j] - count * ONE_AND_HALF_BITS)
        versed[j] = 0
        sines[j] = 0


@inlined
def add_weighted_row(phases: F32, weight: float, cosine_sums: F64, sine_sums: F64) -> None:
    """cosine_sums += w cos, sine_sums += w sin: the same rounded values as in the unweighted sums."""
    unaliased()
    for j in range(phases.size):
        s, k = half_wave(phases[j])
        cosine_sums[j] += weight * (1.0 - UNIT * np.int32(float_bits(multiply_add(s, s, ONE)) - ONE_BITS))
        sine_bits = float_bits(multiply_add(s, k, ONE_AND_HALF))
        sine_sums[j] += weight * (UNIT * np.int32(sine_bits - ONE_AND_HALF_BITS))


@inlined
def write_row(phases: F32, cosines: F32, sines: F32) -> None:
    """cosines = cos 2πt, sines = sin 2πt: each the very value that the sums add up."""
    unaliased()
    for j in range(cosines.size):
        s, k = half_wave(phases[j])
        cosines[j] = ONE - UNIT32 * np.float32(np.int32(float_bits(multiply_add(s, s, ONE)) - ONE_BITS))
        sine_bits = float_bits(multiply_add(s, k, ONE_AND_HALF))
        sines[j] = UNIT32 * np.float32(np.int32(sine_bits - ONE_AND_HALF_BITS))


@inlined
def add_rows(phases: F32, cells: I32, first: int, count: int, versed: I32, sines: I32, sums: F64, column: int) -> int:
    """Add rows first, first + 1, ... of a panel sorted by cell; returns how many are not flushed yet.

    phases (tile, ≥ width) holds their phases, versed and sines (width) the integer sums of the current cell,
    and sums (cells, 2, F) receives [Σ cos | Σ sin] at the frequencies column, ..., column + width - 1.
    """
    width = versed.size
    stop = min(first + phases.shape[0], cells.size)
    i = first
    while i < stop:
        if count + 4 > MAX_ROWS or (i > 0 and cells[i] != cells[i - 1]):
            close_cell(cells[i - 1], count, versed, sines, sums, column)
            count = 0
        k = i - first
        if i + 4 <= stop and cells[i + 3] == cells[i]:
            add_4_rows(
                phases[k, :width], phases[k + 1, :width], phases[k + 2, :width], phases[k + 3, :width], versed, sines
            )
            i, count = i + 4, count + 4
        else:
            add_row(phases[k, :width], versed, sines)
            i, count = i + 1, count + 1
    return count


@inlined
def close_cell(cell: int, count: int, versed: I32, sines: I32, sums: F64, column: int) -> None:
    """Flush the integer sums of `count` rows into sums[cell] at the frequencies from `column` on."""
    stop = column + versed.size
    flush(versed, sines, count, sums[cell, 0, column:stop], sums[cell, 1, column:stop])


@inlined
def add_weighted_rows(phases: F32, cells: I32, weights: F64, first: int, width: int, sums: F64, column: int) -> None:
    """Add weights[i] [cos | sin] of rows first, first + 1, ... of a panel sorted by cell to sums."""
    stop = column + width
    for i in range(first, min(first + phases.shape[0], cells.size)):
        cosine_sums, sine_sums = sums[cells[i], 0, column:stop], sums[cells[i], 1, column:stop]
        add_weighted_row(phases[i - first, :width], weights[i], cosine_sums, sine_sums)


@inlined
def write_rows(phases: F32, features: F32, first: int, width: int, column: int) -> None:
    """features (rows, 2F) = [cos | sin] for the rows from `first` and the frequencies from `column` on."""
    stop = column + width
    n_frequencies = features.shape[1] // 2
    for i in range(first, min(first + phases.shape[0], features.shape[0])):
        cosines = features[i, column:stop]
        sines = features[i, n_frequencies + column : n_frequencies + stop]
        write_row(phases[i - first, :width], cosines, sines)
