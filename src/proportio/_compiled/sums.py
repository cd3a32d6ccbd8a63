"""Sums of materialised features by cell, and the dealing of rows to blocks by a hash of their content."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lowlevel import compiled, double_bits

__all__ = ["cell_sums", "deal"]

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]

MASK = 0xFFFFFFFFFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)  # the multipliers of the SplitMix64 finaliser
MIX_2 = np.uint64(0x94D049BB133111EB)
S27, S30, S31, S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
DEAL_CHUNK = 65536


def cell_sums(F: NDArray[Any], cells: I32, n_cells: int, weights: F64 | None = None) -> F64:
    """Σ_{r: cells[r] = g} w_r F[r] for every cell g, as (n_cells, D) float64; negative cells are skipped."""
    n = F.shape[0]
    cells = np.ascontiguousarray(cells, dtype=np.int32)
    weights = np.ones(1) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    if cells.shape != (n,) or weights.shape not in ((n,), (1,)):
        raise ValueError(f"cells and weights must have one entry for each of the {n} rows")
    if n and int(cells.max()) >= n_cells:
        raise ValueError(f"cells must be less than n_cells = {n_cells}")
    sums = np.zeros((n_cells, F.shape[1]))
    add_features(F, cells, weights, sums)
    return sums


def deal(X: NDArray[Any], start: int, seed: int, n_blocks: int) -> I32:
    """Block ⌊n_blocks · hash(seed, start + r, X[r]) / 2⁶⁴⌋ of every row r.

    A row's block depends on its position and content only, so deal(X)[k:] == deal(X[k:], start=k). Values
    are hashed as float64 with -0.0 as 0.0: equal float32 and float64 inputs are dealt alike.
    """
    if X.dtype not in (np.float32, np.float64):
        X = np.asarray(X, dtype=np.float64)
    blocks = np.empty(X.shape[0], dtype=np.int32)
    key = np.uint64((seed * GOLDEN + GOLDEN) & MASK)
    for first in range(0, X.shape[0], DEAL_CHUNK):
        rows = slice(first, first + DEAL_CHUNK)
        deal_rows(np.ascontiguousarray(X[rows]), np.uint64(start + first), key, np.uint64(n_blocks), blocks[rows])
    return blocks


@compiled
def add_features(F: NDArray[Any], cells: I32, weights: F64, sums: F64) -> None:
    """sums[cells[r]] += weights[r] F[r], or weights[0] F[r] if there is only one weight."""
    for r in range(F.shape[0]):
        cell = cells[r]
        if cell >= 0:
            weight = weights[r] if weights.size > 1 else weights[0]
            for j in range(F.shape[1]):
                sums[cell, j] += weight * np.float64(F[r, j])


@compiled
def deal_rows(X: NDArray[Any], start: np.uint64, key: np.uint64, n_blocks: np.uint64, blocks: I32) -> None:
    """blocks[r] = high 32 bits of the hash of (start + r, key, X[r]), times n_blocks, over 2³²."""
    for r in range(X.shape[0]):
        h = mixed((start + np.uint64(r)) ^ key)
        for k in range(X.shape[1]):
            h = (h ^ double_bits(np.float64(X[r, k]) + 0.0)) * MIX_1
            h ^= h >> S32
        blocks[r] = np.int32(((mixed(h) >> S32) * n_blocks) >> S32)


@compiled
def mixed(h: np.uint64) -> np.uint64:
    """The SplitMix64 finaliser: a bijection of 64 bits in which every input bit sways every output bit."""
    h = (h ^ (h >> S30)) * MIX_1
    h = (h ^ (h >> S27)) * MIX_2
    return h ^ (h >> S31)
