"""Simulated worlds (paper §4.2): c Gaussians N(μ_i, Σ_i) in Rᵈ, and contaminations Q_0 of the batch.

    Q = Σ α*_i N(μ_i, Σ_i) + α_0 Q_0

The paper does not say how its Gaussians are drawn. Here μ_i is uniform in a cube, redrawn until all pairs are `apart`, and Σ_i
has random axes with variances between ½ and 1½: classes that a linear rule confuses seldom, as the paper wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]

TRIES = 10_000


@dataclass(frozen=True, eq=False)
class Mixture:
    """Means (c, d), factors L_i with Σ_i = L_i L_iᵀ (c, d, d), and the clean batch's shares (c,)."""

    means: Array
    factors: Array
    shares: Array

    @property
    def centre(self) -> Array:
        """The mean of the class means."""
        out: Array = self.means.mean(axis=0)
        return out

    def rows(self, rng: np.random.Generator, counts: Sequence[int] | Labels) -> tuple[Array, Labels]:
        """So many rows of each class, in the order of the classes."""
        y = np.repeat(np.arange(len(self.means)), counts)
        z = rng.standard_normal((len(y), self.means.shape[1]))
        return self.means[y] + np.einsum("nij,nj->ni", self.factors[y], z), y


def gaussians(rng: np.random.Generator, c: int, d: int, *, cube: float = 6.0, apart: float = 4.0) -> Mixture:
    """A mixture of c Gaussians; the batch's shares are uniform on the simplex.

    >>> world = gaussians(np.random.default_rng(0), 5, 2)
    >>> X, y = world.rows(np.random.default_rng(1), [10] * 5)
    >>> X.shape, float(world.shares.sum().round(12))
    ((50, 2), 1.0)
    """
    for _ in range(TRIES):
        means = rng.uniform(-cube, cube, (c, d))
        gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(c, 1)]
        if gaps.min() >= apart:
            break
    else:
        raise InputError(
            f"{c} means at least {apart:g} apart were not found in a cube of side {2 * cube:g} in {d} dimensions after "
            f"{TRIES} draws: widen the cube, or bring the classes nearer."
        )
    axes, _ = np.linalg.qr(rng.standard_normal((c, d, d)))
    factors = axes * np.sqrt(rng.uniform(0.5, 1.5, (c, 1, d)))
    return Mixture(means, factors, rng.dirichlet(np.ones(c)))


def apportion(shares: Array, total: int) -> Labels:
    """Whole numbers with the given sum, each within one of its share of it (largest remainders).

    >>> apportion(np.array([0.5, 0.26, 0.24]), 10).tolist()
    [5, 3, 2]
    """
    exact = shares / shares.sum() * total
    counts: Labels = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: total - counts.sum()]] += 1
    return counts


# -- contaminations: functions (rng, size, world, source rows, parameters) → rows ------------------------------


def background(rng: np.random.Generator, size: int, world: Mixture, source: Array) -> Array:
    """Q_0 uniform over the range of the data: the box of the source rows."""
    return rng.uniform(source.min(axis=0), source.max(axis=0), (size, source.shape[1]))


def far(rng: np.random.Generator, size: int, world: Mixture, source: Array, *, reach: float = 2.5) -> Array:
    """Q_0 = N(μ, I) in a random direction, `reach` times as far from the centre as the farthest class mean."""
    direction = rng.standard_normal(source.shape[1])
    radius = np.linalg.norm(world.means - world.centre, axis=1).max()
    mean = world.centre + reach * radius * direction / np.linalg.norm(direction)
    out: Array = mean + rng.standard_normal((size, source.shape[1]))
    return out


def middle(rng: np.random.Generator, size: int, world: Mixture, source: Array) -> Array:
    """Q_0 = N(μ, I) with μ the mean of the class means: in the middle of the others."""
    out: Array = world.centre + rng.standard_normal((size, source.shape[1]))
    return out
