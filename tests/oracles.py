"""Slow and obvious computations that the tests compare the library with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]


def objective(G: F64, q: F64, alpha: F64) -> float:
    return float(0.5 * alpha @ G @ alpha - q @ alpha)


def supports(c: int) -> Iterator[list[int]]:
    for k in range(1, c + 1):
        for chosen in combinations(range(c), k):
            yield list(chosen)


def equality_solution(G: F64, q: F64) -> F64:
    """The minimiser of ½αᵀGα − qᵀα subject to 1ᵀα = 1 alone, from its KKT system."""
    c = len(q)
    system = np.block([[G, np.ones((c, 1))], [np.ones((1, c)), np.zeros((1, 1))]])
    return np.asarray(np.linalg.lstsq(system, np.append(q, 1.0), rcond=None)[0][:c])


def enumerate_active_sets(G: F64, q: F64, soft: bool) -> F64:
    """The best of the stationary points of all faces of the simplex (soft: also of the filled simplex)."""
    c = len(q)
    best, best_value = np.zeros(c), 0.0 if soft else np.inf
    for on in supports(c):
        part, target = G[np.ix_(on, on)], q[on]
        candidates = [equality_solution(part, target)]
        if soft:
            candidates.append(np.linalg.lstsq(part, target, rcond=None)[0])
        for inner in candidates:
            if inner.min() < -1e-12 or inner.sum() > 1 + 1e-9:
                continue
            alpha = np.zeros(c)
            alpha[on] = inner
            if objective(G, q, alpha) < best_value:
                best, best_value = alpha, objective(G, q, alpha)
    return best


def gap(G: F64, q: F64, alpha: F64, soft: bool) -> float:
    """The Frank-Wolfe gap max over feasible β of ∇fᵀ(α − β): an upper bound on f(α) − min f, 0 at a minimiser."""
    gradient = G @ alpha - q
    lowest = min(gradient.min(), 0.0) if soft else gradient.min()
    return float(gradient @ alpha - lowest)


def infeasibility(alpha: F64, soft: bool) -> float:
    """How far α is from {α ≥ 0, 1ᵀα = 1} (soft: ≤ 1)."""
    excess = alpha.sum() - 1
    return float(max(-alpha.min(), excess if soft else abs(excess), 0.0))


def projected_gradient(G: F64, q: F64, steps: int = 20_000) -> F64:
    """The minimiser over the simplex, by accelerated projected gradient (projection by bisection)."""
    alpha = momentum = np.full(len(q), 1 / len(q))
    rate = 1 / np.linalg.eigvalsh(G)[-1]
    t = 1.0
    for _ in range(steps):
        new = _bisected(momentum - rate * (G @ momentum - q))
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        momentum, alpha, t = new + (t - 1) / t_new * (new - alpha), new, t_new
    return alpha


def _bisected(v: F64) -> F64:
    """The projection onto the simplex, max(v − τ, 0) with τ found by bisection."""
    low, high = v.min() - 1, v.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(v - middle, 0).sum() > 1 else (low, middle)
    return np.asarray(np.maximum(v - low, 0))


def unbiased_by_pairs(features: F64, y: I64, weights: F64, c: int) -> F64:
    """Σ w_a w_b ⟨Φ_a, Φ_b⟩ / Σ w_a w_b over the pairs a ≠ b of classes i and j."""
    out = np.empty((c, c))
    for i in range(c):
        for j in range(c):
            total = mass = 0.0
            for a in np.flatnonzero(y == i):
                for b in np.flatnonzero(y == j):
                    if a != b:
                        total += weights[a] * weights[b] * float(features[a] @ features[b])
                        mass += weights[a] * weights[b]
            out[i, j] = total / mass if mass else np.nan
    return out


def class_means(features: F64, y: I64, c: int, weights: F64 | None = None) -> F64:
    """B = [Φ̂_1 … Φ̂_c], (D, c)."""
    w = np.ones(len(y)) if weights is None else weights
    return np.stack([np.average(features[y == i], axis=0, weights=w[y == i]) for i in range(c)], axis=1)


def gaussian_means(a: F64, s2: float, b: F64, t2: float, sigma: float) -> float:
    """⟨Φ(N(a, s²I)), Φ(N(b, t²I))⟩ of the Gaussian kernel = (σ²/v)^{d/2} exp(−‖a−b‖²/2v), v = σ² + s² + t²."""
    v = sigma**2 + s2 + t2
    return float((sigma**2 / v) ** (len(a) / 2) * np.exp(-((a - b) @ (a - b)) / (2 * v)))


def gaussian_gram(centres: F64, s2: float, sigma: float) -> F64:
    return np.array([[gaussian_means(a, s2, b, s2, sigma) for b in centres] for a in centres])
