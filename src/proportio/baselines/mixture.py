"""Mixtures of the classes matched to a batch by a convex divergence of their histograms.

    A_bi = Σ_j ω_ji a_b(x_j),  t_b = Σ_j w_j a_b(x_j),  α̂ = argmin Σ_b φ(t_b, (Aα)_b)

Near t = p every such divergence is Σ_b (t_b − p_b)²/p_b up to a factor: distribution feature matching with Φ_b(x) = a_b(x)/√p_b.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from proportio.baselines.base import Problem, interior
from proportio.baselines.convex import Divergence, Minimum, minimise

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture(Problem):
    """`source` (n, B) and `batch` (m, B) hold a(x) of every row."""

    source: sparse.csr_matrix
    batch: sparse.csr_matrix
    phi: Divergence

    def solve(self, omega: Array, weights: Array) -> Minimum:
        """The minimiser on the simplex, certified."""
        return minimise(np.asarray(self.source.T @ omega), np.asarray(self.batch.T @ weights), self.phi)

    def features(self, omega: Array, weights: Array, alpha: Array) -> tuple[Array, Array]:
        """a(x)/√p, p the mixture; bins that no class reaches say nothing."""
        p = np.asarray(self.source.T @ omega) @ interior(alpha)
        scale = sparse.diags(np.divide(1, np.sqrt(p), out=np.zeros_like(p), where=p > 0))
        return (self.source @ scale).toarray(), (self.batch @ scale).toarray()
