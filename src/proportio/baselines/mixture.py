"""Mixtures of the classes matched to a batch by a convex divergence, and what each row adds to the answer.

    A_bi = Σ_j ω_ji a_b(x_j),  t_b = Σ_j w_j a_b(x_j),  α̂ = argmin Σ_b φ(t_b, (Aα)_b)
    α̃ = α̂ − H⁺∇f(α̂)
    u_Q(x) = −H⁺ Aᵀ[φ_pt a(x)],    u_i(x) = −H⁺ (e_i ⟨φ_p, a(x)⟩ + α_i Aᵀ[φ_pp a(x)])

With φ = ½(t − p)² these are the estimator and the influences of DFM (MATHS: g_Q and g_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.baselines.base import Influence, Problem
from proportio.baselines.convex import Divergence, Minimum, minimise
from proportio.gram import contrasts

Array = npt.NDArray[np.float64]

IDENTIFIED = 1e-9  # a direction whose curvature is below this share of the largest is not identified


@dataclass(frozen=True, eq=False)
class Mixture(Problem):
    """`source` (n, B) and `batch` (m, B) hold a(x) of every row; `batch=None` where the terms are the batch's rows."""

    source: Any
    batch: Any
    phi: Divergence

    def solve(self, omega: Array, weights: Array) -> Minimum:
        """The minimiser on the simplex, certified."""
        A, t = self._sides(omega, weights)
        return minimise(A, t, self.phi)

    def _sides(self, omega: Array, weights: Array) -> tuple[Array, Array]:
        t = weights if self.batch is None else np.asarray(self.batch.T @ weights)
        return np.asarray(self.source.T @ omega), t

    def influence(self, omega: Array, weights: Array, alpha: Array) -> Influence:
        """The sandwich: the inverse curvature of f times the influence of each row on its gradient."""
        A, t = self._sides(omega, weights)
        p = A @ alpha
        terms = self.phi(t, p)
        live = (p > 0) & np.isfinite(terms.slope) & np.isfinite(terms.curvature) & np.isfinite(terms.cross)
        slope, curvature, cross = (np.where(live, x, 0.0) for x in terms[1:])
        inverse, blind = inverse_curvature((A.T * curvature) @ A)
        own = np.asarray(self.source @ slope)
        pull = np.asarray(self.source @ (curvature[:, None] * A))
        group = omega.argmax(axis=1)
        moved = alpha[group, None] * pull
        moved[np.arange(len(group)), group] += own
        push = cross[:, None] * A
        batch = push if self.batch is None else np.asarray(self.batch @ push)
        return Influence(alpha - inverse @ (A.T @ slope), -moved @ inverse, -batch @ inverse, blind)


def inverse_curvature(H: Array) -> tuple[Array, Array]:
    """Q(QᵀHQ)⁺Qᵀ along the simplex, and the directions that no curvature identifies."""
    Q = contrasts(len(H))
    values, vectors = np.linalg.eigh(Q.T @ H @ Q)
    seen = values > IDENTIFIED * max(float(values[-1]), 1e-300)
    L = Q @ vectors
    return np.asarray((L[:, seen] / values[seen]) @ L[:, seen].T), np.ascontiguousarray(L[:, ~seen])
