"""KDEy: kernel densities of the posteriors, one a class, mixed to explain the batch (Moreo, González and del Coz).

    p_i(z) = Σ_j ω_ji N(z; z_j, h²I)

    ml   α̂ = argmax over the simplex of Σ_j w_j log Σ_i α_i p_i(z_j), the batch's likelihood
    cs   α̂ = argmax over the simplex of ⟨p_α, q⟩ / ‖p_α‖, q the batch's kernel density: the Cauchy-Schwarz divergence

A cosine does not see lengths, so `cs` is the projection of q onto the cone of the classes' densities, a non-negative least-squares
problem, rescaled to sum to one. O(n m) kernel values are held at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.spatial.distance import cdist

from proportio.baselines.base import OnPosteriors, Problem
from proportio.baselines.convex import Minimum, likelihood, minimise
from proportio.baselines.likelihood import posteriors_at
from proportio.errors import InputError
from proportio.scaling import check_length
from proportio.sources import OnMissing

Array = npt.NDArray[np.float64]

MOST = 4e8  # kernel values: 3 GB


class KDE(OnPosteriors):
    """KDEy-ML (`divergence="ml"`) or KDEy-CS ("cs"); `bandwidth` h is a length in the simplex of posteriors.

    "ml" has its intervals as `EM` has, a reference row's own kernel left out; "cs" from `draws` bootstrap draws (0: none).

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.KDE().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        bandwidth: float = 0.1,
        divergence: Literal["ml", "cs"] = "ml",
        cv: int | Literal["split", "prefit"] = 5,
        draws: int = 200,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.bandwidth = bandwidth
        self.divergence = divergence
        self.draws = draws

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_length(self.bandwidth)
        if self.divergence not in ("ml", "cs"):
            raise InputError(f"divergence={self.divergence!r} is neither 'ml' nor 'cs'.")

    def _problem(self, Z: Array) -> Problem:
        source = self.source_.Z
        largest = len(source) * max(len(Z), len(source))
        if largest > MOST:
            raise InputError(
                f"KDE holds n × max(n, m) = {largest:,} kernel values at a time, more than {MOST:,.0f}: "
                "fit or estimate on fewer rows (a random part of them), or use DyS."
            )
        if self.divergence == "ml":
            return _Densities(source, Z, self.bandwidth)
        wider = 4 * self.bandwidth**2  # the convolution of two kernels
        within, across = (np.exp(-cdist(source, other, "sqeuclidean") / wider) for other in (source, Z))
        return _Cosine(within, across)


@dataclass(frozen=True, eq=False)
class _Densities(Problem):
    source: Array
    batch: Array
    bandwidth: float

    def solve(self, omega: Array, weights: Array) -> Minimum:
        return minimise(self._at(self.batch) @ omega, weights, likelihood)

    def features(self, omega: Array, weights: Array, alpha: Array) -> tuple[Array, Array]:
        others = self._at(self.source, alone=True) @ omega / (1 - np.minimum(omega, 0.5))
        return posteriors_at(others, alpha), posteriors_at(self._at(self.batch) @ omega, alpha)

    def _at(self, rows: Array, alone: bool = False) -> Array:
        """Kernel values of rows and reference rows, up to a factor of each row, which changes no share and no posterior."""
        distances = cdist(rows, self.source, "sqeuclidean")
        if alone:
            np.fill_diagonal(distances, np.inf)
        distances -= distances.min(axis=1, keepdims=True)
        return np.asarray(np.exp(-distances / (2 * self.bandwidth**2)))


@dataclass(frozen=True, eq=False)
class _Cosine(Problem):
    within: Array
    across: Array

    def solve(self, omega: Array, weights: Array) -> Minimum:
        return most_aligned(*self._products(omega, weights))

    def relaxed(self, omega: Array, weights: Array) -> Callable[[Array, Array], Array]:
        def solution(omega: Array, weights: Array) -> Array:
            beta = np.linalg.lstsq(*self._products(omega, weights), rcond=1e-12)[0]
            return np.asarray(beta / beta.sum())

        return solution

    def _products(self, omega: Array, weights: Array) -> tuple[Array, Array]:
        return omega.T @ self.within @ omega, omega.T @ (self.across @ weights)


def most_aligned(G: Array, t: Array) -> Minimum:
    """argmax of tᵀα/√(αᵀGα) over the simplex; the certificate is that of min ½βᵀGβ − tᵀβ over β ≥ 0, α = β/1ᵀβ.

    >>> most_aligned(np.eye(2), np.array([1.0, 3.0])).alpha.tolist()
    [0.25, 0.75]
    """
    values, vectors = np.linalg.eigh(G)
    seen = values > 1e-13 * values[-1]
    root = np.sqrt(values[seen])
    beta = nnls(root[:, None] * vectors[:, seen].T, vectors[:, seen].T @ t / root)[0]
    scale = float(np.diag(G).max())
    on = beta > 0
    if on.any():  # one exact step on the support
        beta[on] = np.maximum(np.linalg.lstsq(G[np.ix_(on, on)], t[on], rcond=1e-13)[0], 0)
    kkt = float(np.abs(beta - np.maximum(beta - (G @ beta - t) / scale, 0)).max())
    return Minimum(beta / beta.sum(), kkt)
