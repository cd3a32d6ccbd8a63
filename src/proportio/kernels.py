"""The kernels k(x, y) = ⟨Φ(x), Φ(y)⟩: value, spectral law, exact pair sums, bound.

Gaussian exp(−‖x−y‖²/2σ²), Laplace exp(−‖x−y‖/σ), Energy ‖x−x₀‖ + ‖y−x₀‖ − ‖x−y‖, or any callable.
Norms are Euclidean throughout, so every kernel here is invariant under rotation. `sigma` is in units of the
rows that the kernel is given, which a model standardises first.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from scipy.special import betaincinv, chdtri

from proportio.errors import InputError
from proportio.sources import Floats

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The cell of each row, of `count` cells, and its weight."""

    of: npt.NDArray[np.int64]
    weights: Array
    count: int

    @classmethod
    def between(cls, offsets: npt.NDArray[np.int64], weights: Array) -> Cells:
        """Cells of rows that lie cell after cell, from `offsets` to `offsets`."""
        return cls(np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)), weights, len(offsets) - 1)

    def sums(self, values: Array) -> Array:
        """The sum of a value of each row over every cell."""
        return np.bincount(self.of, weights=values, minlength=self.count).astype(np.float64)


class Kernel(ABC):
    """A positive semi-definite function of two rows."""

    name: ClassVar[str]
    non_negative: ClassVar[bool] = True
    pair_cost: ClassVar[
        tuple[float, float]
    ]  # nanoseconds of one thread for a pair of rows, and for each of its columns

    def seconds(self, pairs: float, d: int, threads: int) -> float:
        """What so many pair sums take on a server core of 2024 with 512-bit vectors; elsewhere up to a few times as much."""
        base, column = self.pair_cost
        return pairs * (base + column * d) * 1e-9 / threads

    @abstractmethod
    def value(self, X: Floats, Y: Floats) -> Array:
        """The matrix k(x_i, y_j) in float64: the definition, and the oracle of everything faster."""

    @abstractmethod
    def pair_sums(self, X: Floats, Y: Floats, offsets: npt.NDArray[np.int64], w: Array, n_jobs: int) -> Array:
        """T[r, g] = Σ w_y k(x_r, y) over the rows y of group g, rows offsets[g]:offsets[g+1] of Y."""

    @abstractmethod
    def diagonal(self, X: Floats) -> Array:
        """k(x, x) of every row."""

    @property
    @abstractmethod
    def bound(self) -> float | None:
        """C with √k(x, x) ≤ C for every x, or None."""


class _Radial(Kernel):
    """k(x, y) = φ(‖x − y‖/σ) with φ(0) = 1: bounded by C = 1, and with a spectral law (Bochner)."""

    sigma: float

    @abstractmethod
    def radii(self, u: Array, d: int) -> Array:
        """Lengths ‖ω‖ of the frequencies, as quantiles at u ∈ (0, 1) of the spectral law in d dimensions."""

    @abstractmethod
    def _compiled(self) -> tuple[str, float]:
        """Kind and scale of the fused pair sums."""

    def diagonal(self, X: Floats) -> Array:
        return np.ones(len(X))

    @property
    def bound(self) -> float:
        return 1.0

    def pair_sums(self, X: Floats, Y: Floats, offsets: npt.NDArray[np.int64], w: Array, n_jobs: int) -> Array:
        from proportio._compiled.pairs import pair_sums

        kind, scale = self._compiled()
        return pair_sums(X, Y, offsets, kind, scale, w, n_jobs=n_jobs)


@dataclass(frozen=True)
class Gaussian(_Radial):
    """k(x, y) = exp(−‖x−y‖²/2σ²), the paper's kernel (§4.1); its frequencies are N(0, σ⁻²I).

    >>> round(float(Gaussian(1.0).value(np.zeros((1, 2)), np.ones((1, 2)))[0, 0]), 12) == round(math.exp(-1), 12)
    True
    """

    sigma: float
    name: ClassVar[str] = "gaussian"
    pair_cost: ClassVar[tuple[float, float]] = (0.13, 0.010)

    def value(self, X: Floats, Y: Floats) -> Array:
        return np.exp(-cdist(X, Y, "sqeuclidean") / (2 * self.sigma**2))

    def radii(self, u: Array, d: int) -> Array:
        return np.sqrt(chdtri(d, 1 - u)) / self.sigma

    def _compiled(self) -> tuple[str, float]:
        return "gaussian", 1 / (2 * self.sigma**2)


@dataclass(frozen=True)
class Laplace(_Radial):
    """k(x, y) = exp(−‖x−y‖/σ); its frequencies follow the multivariate Cauchy law.

    A Gaussian vector over an independent |N(0, 1)|: the squared length is d·F with F ~ F(d, 1).
    """

    sigma: float
    name: ClassVar[str] = "laplace"
    pair_cost: ClassVar[tuple[float, float]] = (0.17, 0.010)

    def value(self, X: Floats, Y: Floats) -> Array:
        return np.exp(-cdist(X, Y) / self.sigma)

    def radii(self, u: Array, d: int) -> Array:
        # ‖ω‖² = χ²_d/χ²_1, so b = ‖ω‖²/(1 + ‖ω‖²) ~ Beta(d/2, 1/2); 1 − b is computed directly to keep the tail.
        rest = betaincinv(0.5, d / 2, 1 - u)
        return np.sqrt((1 - rest) / rest) / self.sigma

    def _compiled(self) -> tuple[str, float]:
        return "laplace", 1 / self.sigma


@dataclass(frozen=True)
class Energy(Kernel):
    """k(x, y) = ‖x−x₀‖ + ‖y−x₀‖ − ‖x−y‖, the Energy kernel (§2.1) with its origin x₀ made explicit.

    Φ(x₀) = 0: in soft matching the dummy class is a point mass at x₀. The kernel is unbounded; declare `radius` R
    (‖x−x₀‖ ≤ R for every row there can ever be) to get C = √(2R). Pair sums of one column take a sort, not all pairs.
    """

    origin: tuple[float, ...]
    radius: float | None = None
    name: ClassVar[str] = "energy"
    pair_cost: ClassVar[tuple[float, float]] = (0.09, 0.011)
    non_negative: ClassVar[bool] = True  # by the triangle inequality

    def _norms(self, X: Floats) -> Array:
        out: Array = np.linalg.norm(X.astype(np.float64) - np.asarray(self.origin), axis=1)
        if self.radius is not None and (out > self.radius * (1 + 1e-6)).any():
            raise InputError(
                f"a row lies {out.max():g} from the Energy kernel's origin, beyond the declared radius {self.radius:g}: "
                "the bound C = √(2R) would be false. Declare a larger radius, or none."
            )
        return out

    def value(self, X: Floats, Y: Floats) -> Array:
        return self._norms(X)[:, None] + self._norms(Y) - cdist(X, Y)

    def line_table(self, X: Floats, x: Cells, Y: Floats, y: Cells) -> Array:
        """T[a, b] = Σ w_x w_y k(x, y) between the cells of two sets of rows of one column, by sorting."""
        from proportio._compiled.line import line_sums

        out = -line_sums(X[:, 0], x.of, x.weights, x.count, Y[:, 0], y.of, y.weights, y.count)
        out += x.sums(x.weights * self._norms(X))[:, None] * y.sums(y.weights)
        out += x.sums(x.weights)[:, None] * y.sums(y.weights * self._norms(Y))
        return out

    def pair_sums(self, X: Floats, Y: Floats, offsets: npt.NDArray[np.int64], w: Array, n_jobs: int) -> Array:
        from proportio._compiled.pairs import pair_sums

        if X.shape[1] == 1:
            used = slice(offsets[0], offsets[-1])
            alone = Cells(np.arange(len(X)), np.ones(len(X)), len(X))
            return self.line_table(X, alone, Y[used], Cells.between(offsets, w[used]))
        out = pair_sums(X, Y, offsets, "distance", 1.0, w, n_jobs=n_jobs)
        norms, totals, norm_sums = self._norms(X), _segment_sums(w, offsets), _segment_sums(w * self._norms(Y), offsets)
        for group, total, norm_sum in zip(out.T, totals, norm_sums, strict=True):
            np.subtract(norms * total + norm_sum, group, out=group)
        return out

    def diagonal(self, X: Floats) -> Array:
        return 2 * self._norms(X)

    @property
    def bound(self) -> float | None:
        return None if self.radius is None else math.sqrt(2 * self.radius)


@dataclass(frozen=True)
class Custom(Kernel):
    """Any callable k(X, Y) → matrix of kernel values, evaluated block by block; `c` is its bound C where known."""

    function: Callable[[Any, Any], Any]
    c: float | None = None
    name: ClassVar[str] = "callable"
    pair_cost: ClassVar[tuple[float, float]] = (20.0, 1.0)
    non_negative: ClassVar[bool] = False
    block: ClassVar[int] = 1024

    def value(self, X: Floats, Y: Floats) -> Array:
        k = np.asarray(self.function(X, Y), dtype=np.float64)
        if k.shape != (len(X), len(Y)):
            raise InputError(
                f"the kernel callable returned shape {k.shape} for {len(X)} and {len(Y)} rows: it must return one value a pair."
            )
        if not np.isfinite(k).all():
            raise InputError("the kernel callable returned NaN or infinity.")
        return k

    def pair_sums(self, X: Floats, Y: Floats, offsets: npt.NDArray[np.int64], w: Array, n_jobs: int) -> Array:
        out = np.zeros((len(X), len(offsets) - 1))
        for a in range(0, len(X), self.block):
            rows = slice(a, a + self.block)
            for b in range(0, len(Y), self.block):
                part = slice(b, b + self.block)
                k = self.value(X[rows], Y[part]) * w[part]
                out[rows] += _segment_sums(k.T, np.clip(offsets - b, 0, k.shape[1])).T
        return out

    def diagonal(self, X: Floats) -> Array:
        return np.array([self.value(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(len(X))])

    @property
    def bound(self) -> float | None:
        return self.c


def _segment_sums(values: Array, offsets: npt.NDArray[np.int64]) -> Array:
    """Σ of values[offsets[g]:offsets[g+1]] along the first axis; empty segments give 0."""
    running = np.concatenate([np.zeros((1, *values.shape[1:])), np.cumsum(values, axis=0)])
    out: Array = running[offsets[1:]] - running[offsets[:-1]]
    return out
