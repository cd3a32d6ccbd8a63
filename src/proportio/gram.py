"""The Gram system (G, q, s): G = BᵀB, q = Bᵀψ, s = ‖ψ‖², all that the optimiser needs, and its geometry.

‖Bα − ψ‖² = αᵀGα − 2qᵀα + s
Δ_min = min uᵀGu over ‖u‖ = 1, 1ᵀu = 0 (appendix C);   λ_min = the smallest eigenvalue of G
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from proportio.sketch import Sketch
from proportio.tally import Tally

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GramSystem:
    """Inner products of the class means with each other (G), with the target mean (q), and of it with itself (s).

    >>> GramSystem(np.eye(2), np.array([0.3, 0.7]), 0.58).squared_residual(np.array([0.3, 0.7]))
    0.0
    """

    G: Array
    q: Array
    s: float

    @classmethod
    def of(cls, source: Sketch, target: Sketch, G: Array | None = None) -> GramSystem:
        """The system of two sketches; `G` where the source's is already known."""
        return cls(
            source.products(source) if G is None else G,
            source.products(target)[:, 0],
            float(target.products(target)[0, 0]),
        )

    def squared_residual(self, alpha: Array) -> float:
        """‖Bα − ψ‖², from (G, q, s); never below 0."""
        return max(float(alpha @ self.G @ alpha - 2 * self.q @ alpha + self.s), 0.0)


@functools.lru_cache(maxsize=8)
def contrasts(c: int) -> Array:
    """Q (c × c−1): an orthonormal basis of 1^⊥, by Helmert's construction."""
    q = np.tril(np.ones((c, c - 1)), -1)[:, ::-1] * 0.0
    for k in range(1, c):
        q[:k, k - 1] = 1
        q[k, k - 1] = -k
        q[:, k - 1] /= np.sqrt(k * (k + 1))
    q.flags.writeable = False
    return q


def smallest(G: Array, *, sums_to_one: bool) -> tuple[float, Array]:
    """Δ_min (with `sums_to_one`) or λ_min of G, and the direction u that attains it."""
    basis = contrasts(len(G)) if sums_to_one else np.eye(len(G))
    values, vectors = np.linalg.eigh(basis.T @ G @ basis)
    return float(values[0]), basis @ vectors[:, 0]


def delta_min(G: Array) -> float:
    """Δ_min = min uᵀGu over ‖u‖ = 1, 1ᵀu = 0: how far each class is from mixtures of the others.

    >>> round(delta_min(np.eye(3)), 12), delta_min(np.ones((2, 2)))
    (1.0, 0.0)
    """
    return smallest(G, sums_to_one=True)[0]


def lambda_min(G: Array) -> float:
    """λ_min, the smallest eigenvalue of G: the same for the soft form, whose dummy class embeds to 0."""
    return smallest(G, sums_to_one=False)[0]


def unbiased(G: Array, tally: Tally) -> Array:
    """G^U: the diagonal without each row's product with itself, (W²G_ii − Σw²k(x,x)) / (W² − Σw²).

    Without weights this is (n_i G_ii − mean k(x,x)) / (n_i − 1). A class of one row has none: NaN.
    """
    w_sq, w2 = tally.totals**2, tally.weight2.sum(axis=1)
    room = w_sq - w2
    single = room <= 1e-9 * w_sq
    out = G.copy()
    diagonal = (w_sq * np.diag(G) - tally.norm2.sum(axis=1)) / np.where(single, np.nan, room)
    np.fill_diagonal(out, diagonal)
    return out
