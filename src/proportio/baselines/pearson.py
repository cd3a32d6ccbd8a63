"""Pearson-divergence matching (du Plessis and Sugiyama): the mixture of the classes whose density ratio to the batch is flattest.

    PE(α) = ½ ∫ (p_α/q − 1)² q,  p_α = Σ α_i p_i
    r̂ = Σ_l λ_l k_l,  λ̂ = (Ĝ + δR)⁻¹ Ĥα,   Ĝ = mean of kkᵀ over the batch,  Ĥ_i = mean of k over class i
    PE(α) + ½ ≈ λ̂ᵀĤα − ½λ̂ᵀĜλ̂ = αᵀĤᵀ(M − ½MĜM)Ĥα,  M = (Ĝ + δR)⁻¹

k_l are Gaussian kernels at rows of the batch and a constant, which R leaves free. The objective is quadratic in α: one quadratic
programme over the simplex, with its certificate. σ and δ are chosen by cross-validation of the ratio's least-squares score.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist, pdist

from proportio.baselines.base import Baseline, Problem
from proportio.baselines.convex import Minimum
from proportio.errors import InputError
from proportio.features.base import is_count
from proportio.gram import GramSystem
from proportio.quantifier import Labels
from proportio.scaling import moments
from proportio.simplex import solve
from proportio.sources import Columns, Floats, OnMissing

Array = npt.NDArray[np.float64]

WIDTHS = (0.25, 0.5, 1.0, 2.0)  # of the median distance between rows of the batch
RIDGES = (1e-3, 1e-2, 1e-1)
FOLDS = 5


class Pearson(Baseline):
    """Pearson-divergence matching of the (standardised) columns; no classifier.

    `n_centers` rows of the batch carry kernels. Intervals by `draws` bootstrap draws (0: none); what was chosen is held.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.Pearson(draws=0).fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        n_centers: int = 100,
        *,
        draws: int = 200,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        self.n_centers = n_centers
        self.draws = draws
        self.on_missing = on_missing
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not is_count(self.n_centers) or self.n_centers < 2:
            raise InputError(f"n_centers={self.n_centers!r}: give a whole number of kernels, 2 or more.")

    def _represent_source(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> tuple[Array, Any]:
        self.center_, self.scale_ = moments(X, weights)
        return self._represent(X), np.ones(len(X), dtype=bool)

    def _represent(self, X: Floats) -> Array:
        return np.asarray((X.astype(np.float64) - self.center_) / self.scale_)

    def _problem(self, Z: Array) -> Problem:
        rng = np.random.default_rng(self.random_state)
        centers = Z[np.sort(rng.permutation(len(Z))[: self.n_centers])]
        between = pdist(centers)
        median = float(np.median(between)) if len(between) and np.median(between) > 0 else 1.0
        far = [cdist(rows, centers, "sqeuclidean") for rows in (self.source_.Z, Z)]
        parts = rng.permutation(np.arange(len(Z)) % FOLDS)
        shares = self.source_.prior
        for _ in range(2):  # the score is that of a mixture: the prior's first, then the answer's
            best = min(
                (self._score(far, width * median, ridge, shares, parts), width, ridge)
                for width in WIDTHS
                for ridge in RIDGES
            )
            problem = _Flattest(kernels(far[0], best[1] * median), kernels(far[1], best[1] * median), best[2])
            shares = problem.solve(self.source_.omega, np.full(len(Z), 1 / len(Z))).alpha
        return problem

    def _score(self, far: list[Array], width: float, ridge: float, alpha: Array, parts: npt.NDArray[Any]) -> float:
        """½λ̂ᵀĜλ̂ − ĥᵀλ̂ on rows of the batch that λ̂ has not seen."""
        source, batch = (kernels(d, width) for d in far)
        h = source.T @ (self.source_.omega @ alpha)
        total = 0.0
        for part in range(FOLDS):
            seen, held = batch[parts != part], batch[parts == part]
            if len(seen) and len(held):
                ratio = held @ np.linalg.solve(gram(seen, np.full(len(seen), 1 / len(seen)), ridge)[1], h)
                total += float((ratio**2).mean()) / 2
                total -= float(h @ np.linalg.solve(gram(seen, np.full(len(seen), 1 / len(seen)), ridge)[1], h))
        return total


@dataclass(frozen=True, eq=False)
class _Flattest(Problem):
    source: Array
    batch: Array
    ridge: float

    def solve(self, omega: Array, weights: Array) -> Minimum:
        found = solve(self._system(omega, weights))
        return Minimum(found.alpha, found.kkt)

    def relaxed(self, omega: Array, weights: Array) -> Callable[[Array, Array], Array]:
        return lambda omega, weights: solve(self._system(omega, weights), positive=False).alpha

    def _system(self, omega: Array, weights: Array) -> GramSystem:
        H = self.source.T @ omega
        G, regular = gram(self.batch, weights, self.ridge)
        ratio = np.linalg.solve(regular, H)
        A = H.T @ ratio - ratio.T @ G @ ratio / 2
        return GramSystem(A + A.T, np.zeros(A.shape[0]), 0.0)


def kernels(squared: Array, width: float) -> Array:
    """Gaussian kernels at the centres, and the constant."""
    return np.column_stack([np.exp(-squared / (2 * width**2)), np.ones(len(squared))])


def gram(batch: Array, weights: Array, ridge: float) -> tuple[Array, Array]:
    """Ĝ and Ĝ + δR."""
    G = (batch.T * weights) @ batch
    R = np.eye(len(G))
    R[-1, -1] = 0
    return G, G + ridge * R
