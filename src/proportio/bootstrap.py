"""The multiplier bootstrap over blocks: Φ̂*_g = Φ̂_g + Σ_k ξ_gk F_gk with ξ ~ N(0, 1), all from the inner products of factors.

    shares     α̃* solves the matching of (G° + noise, q + noise): it sees how H itself moves, which the sandwich V does not
    residual   T* = Σ_{n ≠ m} ξ_n ξ_m ⟨(I − P)F_n, (I − P)F_m⟩, the centred null law of the label-shift statistic

A second way to the same answers, independent of the normal and gamma approximations; the same numbers for the same seed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from proportio.blocks import Array, Blocks, Single
from proportio.errors import InputError
from proportio.evidence import Evidence

DRAWS = 1000


def multipliers(blocks: Blocks, draws: int, random_state: Any) -> Array:
    """ξ, one row a draw."""
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 20:
        raise InputError(f"draws={draws!r}: a bootstrap needs a whole number of draws, 20 or more (1000 by default).")
    return np.asarray(np.random.default_rng(random_state).standard_normal((int(draws), len(blocks.group))))


def shares(blocks: Blocks, evidence: Evidence, draws: int = DRAWS, random_state: Any = 0) -> Array:
    """α̃* of each draw, (draws, c)."""
    xi = multipliers(blocks, draws, random_state)
    c = blocks.c
    linear = np.stack([xi[:, s] @ blocks.along[:, s].T for s in map(blocks.of_group, range(c + 1))], axis=1)
    M = linear + linear.transpose(0, 2, 1)  # ⟨δ_a, Φ̂_b⟩ + ⟨Φ̂_a, δ_b⟩
    for a in range(c + 1):
        ahead = xi[:, blocks.of_group(a)] @ blocks.gram[blocks.of_group(a), blocks.starts[a] :]
        products = np.add.reduceat(ahead * xi[:, blocks.starts[a] :], blocks.starts[a:] - blocks.starts[a], axis=1)
        M[:, a, a:] += products
        M[:, a + 1 :, a] += products[:, 1:]
    G = blocks.system.G - 2 * np.diag(blocks.residual_noise[:c]) + M[:, :c, :c]
    q = blocks.system.q + M[:, :c, c]
    L = evidence.basis
    centre = np.full(c, 0.0 if evidence.soft else 1 / c)
    inner = np.linalg.solve(L.T @ G @ L, ((q - G @ centre) @ L)[:, :, None])[:, :, 0]
    return np.asarray(centre + inner @ L.T)


def residuals(factors: Single, xi: Array) -> Array:
    """T* of each draw from the inner products of the projected factors, (draws,)."""
    off = factors - np.diag(np.diag(factors))
    return np.asarray(((xi @ off) * xi).sum(axis=1))
