"""min Σ_b φ(t_b, p_b) with p = Aα, over the simplex: convex divergences between a batch and the mixtures of the classes.

    squared Hellinger   φ = ½(√t − √p)²                          φ_p = ½(1 − √(t/p))
    Topsøe              φ = t log 2t/(t+p) + p log 2p/(t+p)      φ_p = log 2p/(t+p)
    likelihood          φ = −t log p                             φ_p = −t/p
    smoothed W₁         φ = w √((t − p)² + ε²)                   φ_p = w (p − t)/√((t − p)² + ε²)

A primal-dual interior-point method in c dimensions; shares below their multiplier are then exact zeros. The certificate is
independent of it: ‖α − Π(α − ∇f(α))‖_∞, 0 exactly at a minimiser.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from proportio.simplex import project

Array = npt.NDArray[np.float64]

CERTIFIED = 1e-10
MOST_STEPS = 200
FLAT = 1e12  # a slope beyond this leaves no digits for the others
ROUNDING = 1e-13  # relative to the objective
SHORTEST = 1e-12  # a step this short has met the limits of rounding


class Terms(NamedTuple):
    """φ, ∂φ/∂p and ∂²φ/∂p² of every term."""

    value: Array
    slope: Array
    curvature: Array


Divergence: TypeAlias = Callable[[Array, Array], Terms]


@dataclass(frozen=True, eq=False)
class Minimum:
    """Shares, and the certificate that no others have a smaller objective."""

    alpha: Array
    kkt: float


def hellinger(t: Array, p: Array) -> Terms:
    """½(√t − √p)²: half the squared distance of the square roots."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(t > 0, np.sqrt(t / p), 0.0)
        curvature = np.where(t > 0, ratio / (4 * p), 0.0)
    return Terms((np.sqrt(t) - np.sqrt(p)) ** 2 / 2, (1 - ratio) / 2, curvature)


def topsoe(t: Array, p: Array) -> Terms:
    """Twice the Jensen-Shannon divergence."""
    both = t + p
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(t > 0, t * np.log(2 * t / both), 0.0) + np.where(p > 0, p * np.log(2 * p / both), 0.0)
        slope = np.where(both > 0, np.log(2 * p / both), np.log(2))
        curvature = np.where(t > 0, t / (p * both), 0.0)
    return Terms(value, slope, curvature)


def likelihood(t: Array, p: Array) -> Terms:
    """−t log p: its minimum is the maximum-likelihood mixture."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(t > 0, -t * np.log(p), 0.0)
        slope = np.where(t > 0, -t / p, 0.0)
        return Terms(value, slope, np.where(t > 0, t / p**2, 0.0))


@dataclass(frozen=True, eq=False)
class SmoothedAbsolute:
    """w √((t − p)² + ε²): between w|t − p| and that plus wε."""

    widths: Array
    epsilon: float

    def __call__(self, t: Array, p: Array) -> Terms:
        length = np.sqrt((p - t) ** 2 + self.epsilon**2)
        curvature = self.widths * self.epsilon**2 / length**3
        return Terms(self.widths * length, self.widths * (p - t) / length, curvature)


def minimise(A: Array, t: Array, phi: Divergence, start: Array | None = None) -> Minimum:
    """The shares whose mixture Aα is nearest to t.

    >>> A = np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> minimise(A, A @ [0.3, 0.7], hellinger).alpha.round(9).tolist()
    [0.3, 0.7]
    """
    seen = A.max(axis=1) > 0  # where no class has mass no share changes anything
    if isinstance(phi, SmoothedAbsolute):
        phi = SmoothedAbsolute(phi.widths[seen], phi.epsilon)
    f = _Objective(A[seen], t[seen], phi, 1 / max(float(t[seen].sum()), 1e-300))
    c = A.shape[1]
    alpha = np.full(c, 1 / c) if start is None else 0.9 * start + 0.1 / c
    here = f(alpha)
    z = np.maximum(here.gradient - here.gradient.min(), 0.1)
    best = Minimum(alpha, residual(alpha, here.gradient))
    for _ in range(MOST_STEPS):
        mu = 0.1 * min(float(alpha @ z) / c, 1.0)
        step = _newton(here, alpha, z, mu)
        dz = mu / alpha - z - z / alpha * step
        size, z = _inside(alpha, step), z + _inside(z, dz) * dz
        goal, slope = here.value - mu * np.log(alpha).sum(), float((here.gradient - mu / alpha) @ step)
        while size > SHORTEST:
            candidate = alpha + size * step
            there = f(candidate)
            rise = there.value - mu * np.log(candidate).sum() - goal
            if rise <= 1e-4 * size * slope + ROUNDING * max(1.0, abs(goal)):
                break
            size /= 2
        else:
            break
        alpha, here = candidate / candidate.sum(), there
        zeroed = np.where(alpha > z, alpha, 0.0)
        for shares in (alpha, zeroed / zeroed.sum()) if zeroed.any() else (alpha,):
            certificate = residual(shares, f(shares).gradient)
            if certificate < best.kkt:
                best = Minimum(shares, certificate)
        if best.kkt <= CERTIFIED or mu < 1e-18:
            break
    return best


class _Point(NamedTuple):
    value: float
    gradient: Array
    hessian: Array


@dataclass(frozen=True, eq=False)
class _Objective:
    """f, ∇f and ∇²f at α."""

    A: Array
    t: Array
    phi: Divergence
    scale: float

    def __call__(self, alpha: Array) -> _Point:
        terms = self.phi(self.t, self.A @ alpha)
        with np.errstate(invalid="ignore", over="ignore"):
            value = self.scale * float(terms.value.sum())
            gradient = self.scale * (self.A.T @ terms.slope)
            return _Point(value, gradient, self.scale * (self.A.T * terms.curvature) @ self.A)


def _newton(here: _Point, alpha: Array, z: Array, mu: float) -> Array:
    """The direction d with 1ᵀd = 0 of (H + Z/α)d = −(∇f − μ/α) + λ1, in the coordinates d/α where it is well scaled."""
    c = len(alpha)
    system = np.zeros((c + 1, c + 1))
    system[:c, :c] = alpha[:, None] * here.hessian * alpha + np.diag(z * alpha)
    system[:c, c] = system[c, :c] = alpha
    right = np.append(mu - alpha * here.gradient, 0.0)
    return np.asarray(alpha * np.linalg.lstsq(system, right, rcond=None)[0][:c])


def _inside(x: Array, step: Array) -> float:
    """The longest part of a step, 1 at most, that leaves every x above 0."""
    shrinks = step < 0
    return min(1.0, 0.995 * float((-x[shrinks] / step[shrinks]).min())) if shrinks.any() else 1.0


def residual(alpha: Array, gradient: Array) -> float:
    """‖α − Π(α − ∇f(α))‖_∞."""
    if not np.isfinite(gradient).all() or np.abs(gradient).max() > FLAT:
        return float("inf")
    return float(np.abs(alpha - project(alpha - gradient, soft=False)).max())
