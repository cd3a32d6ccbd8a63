"""min ½αᵀGα − qᵀα over the simplex (hard), {α ≥ 0, 1ᵀα ≤ 1} (soft), or without positivity; with a certificate.

The paper's (QP) prints +qᵀα; the sign here is the one that minimises ‖Bα − ψ‖². DAQP solves; the certificate is
independent of it: ‖α − Π(α − ∇f(α))‖_∞ with Π the projection onto the feasible set, 0 exactly at a minimiser.
"""

from __future__ import annotations

from dataclasses import dataclass

import daqp
import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space
from scipy.optimize import nnls

from proportio.gram import GramSystem, contrasts, smallest

Array = npt.NDArray[np.float64]

CERTIFIED = 1e-12  # a KKT residual that ends the search
TIGHT = {
    "primal_tol": 1e-13,
    "dual_tol": 1e-13,
    "eps_prox": 0,
}  # DAQP's own tolerances of 1e-6 would decide the active set
DEPENDENT = 1e-9  # Δ_min or λ_min below this share of the largest diagonal entry: not separately identified


@dataclass(frozen=True, eq=False)
class Solution:
    """Shares α, the KKT residual that certifies them, and the classes that cannot be told apart (indices)."""

    alpha: Array
    kkt: float
    dependent: tuple[int, ...]


def solve(system: GramSystem, *, soft: bool = False, positive: bool = True) -> Solution:
    """The minimiser; where it is not unique, the one of least length.

    >>> solve(GramSystem(np.eye(2), np.array([0.2, 0.2]), 0.1), soft=True).alpha.tolist()
    [0.2, 0.2]
    """
    scale = float(np.diag(system.G).max())
    if scale <= 0:  # every class embeds to 0: nothing is identified
        c = len(system.q)
        return Solution(np.full(c, 0.0 if soft else 1 / c), 0.0, tuple(range(c)))
    G, q = system.G / scale, system.q / scale
    low, direction = smallest(G, sums_to_one=not soft)
    dependent = tuple(np.flatnonzero(np.abs(direction) > 0.1 * np.abs(direction).max())) if low < DEPENDENT else ()
    alpha = _constrained(G, q, soft, regular=not dependent) if positive else _unconstrained(G, q, soft)
    return Solution(alpha, kkt_residual(G, q, alpha, soft=soft, positive=positive), tuple(map(int, dependent)))


def kkt_residual(G: Array, q: Array, alpha: Array, *, soft: bool, positive: bool = True) -> float:
    """‖α − Π(α − (Gα − q))‖_∞."""
    step = alpha - (G @ alpha - q)
    free = np.asarray(step if soft else step - (step.sum() - 1) / len(step), dtype=np.float64)
    projected = project(step, soft=soft) if positive else free
    return float(np.abs(alpha - projected).max())


def project(v: Array, *, soft: bool) -> Array:
    """The nearest point of the simplex (or of its filled form, soft), by sorting."""
    clipped = np.maximum(v, 0)
    if soft and clipped.sum() <= 1:
        return clipped
    u = np.sort(v)[::-1]
    excess = np.cumsum(u) - 1
    k = np.flatnonzero(u > excess / np.arange(1, len(v) + 1))[-1]
    out: Array = np.maximum(v - excess[k] / (k + 1), 0)
    return out


def _unconstrained(G: Array, q: Array, soft: bool) -> Array:
    """α̃ = 1/c + H(q − G1/c) with H = Q(QᵀGQ)⁺Qᵀ (sums to one), or G⁺q (soft)."""
    if soft:
        return np.asarray(np.linalg.lstsq(G, q, rcond=1e-13)[0], dtype=np.float64)
    c = len(q)
    basis = contrasts(c)
    centre = np.full(c, 1 / c)
    inner = np.linalg.lstsq(basis.T @ G @ basis, basis.T @ (q - G @ centre), rcond=1e-13)[0]
    return np.asarray(centre + basis @ inner)


def _constrained(G: Array, q: Array, soft: bool, *, regular: bool) -> Array:
    """DAQP where G is regular; the nearest point of the hull by non-negative least squares where it is not."""
    if regular and (alpha := _daqp(G, q, soft)) is not None:
        alpha = _polish(G, q, alpha, soft)
        if kkt_residual(G, q, alpha, soft=soft) <= CERTIFIED:
            return alpha
    values, vectors = np.linalg.eigh(G)
    seen = values > 1e-14 * values[-1]
    alpha = _polish(G, q, _nearest_in_hull(values[seen], vectors[:, seen], q, soft), soft)
    return alpha if regular else _least_norm(G, q, alpha, vectors[:, values > 1e-10 * values[-1]], soft)


def _daqp(G: Array, q: Array, soft: bool) -> Array | None:
    """DAQP; on the simplex 11ᵀ adds a constant, and makes G definite where Δ_min > 0. None if it cycled."""
    c = len(q)
    upper, lower = np.ones(c + 1), np.zeros(c + 1)
    sense = np.zeros(c + 1, dtype=np.int32)
    if not soft:
        G, q = G + 1, q + 1
        lower[c], sense[c] = 1, 5  # 5: an equality
    alpha, _, exitflag, _ = daqp.solve(np.ascontiguousarray(G), -q, np.ones((1, c)), upper, lower, sense, **TIGHT)
    return np.asarray(alpha) if exitflag > 0 else None


def _nearest_in_hull(values: Array, vectors: Array, q: Array, soft: bool) -> Array:
    """min ‖Rα − t‖ over the simplex, G = RᵀR, q = Rᵀt, as non-negative least squares.

    x = λα turns it into min ‖(R − t1ᵀ)x‖² + (1ᵀx − 1)², whose minimum over λ grows with ‖Rα − t‖. The soft form has
    a further column: the dummy class at 0.
    """
    R = np.sqrt(values)[:, None] * vectors.T
    t = vectors.T @ q / np.sqrt(values)
    A = np.vstack([R - t[:, None], np.ones(len(q))])
    if soft:
        A = np.column_stack([A, np.append(-t, 1.0)])
    x, _ = nnls(A, np.append(np.zeros(len(t)), 1.0), maxiter=30 * A.shape[1])
    return np.asarray(x[: len(q)] / x.sum())


def _least_norm(G: Array, q: Array, alpha: Array, seen: Array, soft: bool) -> Array:
    """Among all minimisers α + Nz the one of least length: equal shares for classes that cannot be told apart."""
    N = null_space(np.vstack([seen.T, np.ones(len(q))]))  # what neither the features nor the sum of the shares see
    if not N.shape[1]:
        return alpha
    sense = np.zeros(len(q), dtype=np.int32)
    z, _, exitflag, _ = daqp.solve(np.eye(N.shape[1]), N.T @ alpha, N, 1 - alpha, -alpha, sense, **TIGHT)
    if exitflag <= 0:
        return alpha
    flat = _polish(G, q, alpha + N @ np.asarray(z), soft)
    return flat if kkt_residual(G, q, flat, soft=soft) <= CERTIFIED else alpha


def _polish(G: Array, q: Array, alpha: Array, soft: bool) -> Array:
    """Newton steps of least length on the support that the solver found, as long as the certificate improves."""
    alpha = project(alpha, soft=soft)
    residual = kkt_residual(G, q, alpha, soft=soft)
    while residual > CERTIFIED:
        candidates = [_newton(G, q, alpha, soft, threshold) for threshold in (1e-12, 1e-9, 1e-6)]
        values = [kkt_residual(G, q, candidate, soft=soft) for candidate in candidates]
        if min(values) >= residual:
            break
        residual, alpha = min(values), candidates[int(np.argmin(values))]
    return alpha


def _newton(G: Array, q: Array, alpha: Array, soft: bool, threshold: float) -> Array:
    """From α, the step that makes the gradient flat on {α_i > threshold}."""
    on = np.flatnonzero(alpha > threshold)
    tight = not soft or alpha.sum() > 1 - threshold
    basis = contrasts(len(on)) if tight else np.eye(len(on))
    gradient = (G @ alpha - q)[on]
    out = np.where(alpha > threshold, alpha, 0)
    if basis.size:
        out[on] += basis @ np.linalg.lstsq(basis.T @ G[np.ix_(on, on)] @ basis, -basis.T @ gradient, rcond=1e-13)[0]
    return project(out, soft=soft)
