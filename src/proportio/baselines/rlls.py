"""RLLS: importance weights by regularised least squares (Azizzadenesheli et al.), the shrunken cousin of BBSE.

    ŵ = argmin over w ≥ 0 of ‖Cw − q̂‖ + ρ‖w − 1‖,   C_ij = P̂(decision i, class j),  q̂ the batch's mean decision
    α̂ = ŵβ̃ / Σ ŵβ̃

The norms are not squared. Along the path of the squared problem ½‖Cw − q̂‖² + ½μ‖w − 1‖², a non-negative least-squares problem each,
the slope μ‖w − 1‖/‖Cw − q̂‖ of the (convex) frontier of the two norms only grows; the answer is where it is ρ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, nnls

from proportio.baselines.base import OnPosteriors, Problem
from proportio.baselines.convex import Minimum
from proportio.errors import InputError
from proportio.scaling import check_length
from proportio.sources import OnMissing

Array = npt.NDArray[np.float64]

PATH = (-14.0, 3.0)  # log₁₀ μ
HIGHEST = 8.0  # beyond it w − 1 is lost in rounding
NOTHING = 1e-10  # a norm below this is 0: there it has many slopes


class RLLS(OnPosteriors):
    """Regularised label-shift weights; `scale` multiplies the theory's ρ (0.01: the authors' choice), at confidence 1 − `delta`.

    `decisions` are "soft" (posteriors) or "hard". Intervals by `draws` bootstrap draws (0: none).

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.RLLS(draws=0).fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        decisions: Literal["soft", "hard"] = "soft",
        scale: float = 0.01,
        delta: float = 0.05,
        cv: int | Literal["split", "prefit"] = 5,
        draws: int = 200,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.decisions = decisions
        self.scale = scale
        self.delta = delta
        self.draws = draws

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_length(self.scale, "scale")
        if not isinstance(self.delta, float) or not 0 < self.delta < 1:
            raise InputError(
                f"delta={self.delta!r} must lie between 0 and 1: the chance that the theory's ρ is too small."
            )
        if self.decisions not in ("soft", "hard"):
            raise InputError(f"decisions={self.decisions!r} is neither 'soft' nor 'hard'.")

    def _problem(self, Z: Array) -> Problem:
        n, c = self.source_.Z.shape
        level = np.log(2 * c / self.delta)
        rho = self.scale * 3 * (2 * level / (3 * n) + np.sqrt(2 * level / n))
        source, batch = self.source_.Z, Z
        if self.decisions == "hard":
            source, batch = (np.eye(c)[P.argmax(axis=1)] for P in (source, batch))
        return _Regularised(source, batch, self.source_.prior, rho)


@dataclass(frozen=True, eq=False)
class _Regularised(Problem):
    source: Array
    batch: Array
    prior: Array
    rho: float

    def solve(self, omega: Array, weights: Array) -> Minimum:
        w, _, kkt = solve(self.source.T @ (omega * self.prior), weights @ self.batch, self.rho)
        return Minimum(w * self.prior / (w @ self.prior), kkt)

    def relaxed(self, omega: Array, weights: Array) -> Callable[[Array, Array], Array]:
        mu = solve(self.source.T @ (omega * self.prior), weights @ self.batch, self.rho)[1]

        def solution(omega: Array, weights: Array) -> Array:
            C = self.source.T @ (omega * self.prior)
            w = np.linalg.lstsq(C.T @ C + mu * np.eye(len(C)), C.T @ (weights @ self.batch) + mu, rcond=1e-12)[0]
            return np.asarray(w * self.prior / (w @ self.prior))

        return solution


def solve(C: Array, q: Array, rho: float) -> tuple[Array, float, float]:
    """argmin over w ≥ 0 of ‖Cw − q‖ + ρ‖w − 1‖, its μ, and its certificate ‖w − (w − ∂f)₊‖_∞ for the best subgradient ∂f found."""
    c = C.shape[1]

    def along(log_mu: float) -> Array:
        root = 10 ** (log_mu / 2)
        return np.asarray(nnls(np.vstack([C, root * np.eye(c)]), np.append(q, np.full(c, root)))[0])

    def excess(log_mu: float) -> float:
        w = along(log_mu)
        return float(10**log_mu * np.linalg.norm(w - 1) - rho * np.linalg.norm(C @ w - q))

    low, high = PATH
    fit = C.sum(axis=1) - q
    if np.linalg.norm(C.T @ fit) <= rho * np.linalg.norm(fit):  # no direction away from 1 is worth its length
        log_mu, w = high, np.ones(c)
    else:
        while excess(high) <= 0 and high < HIGHEST:
            high += 1
        log_mu = low if excess(low) >= 0 else float(brentq(excess, low, high, xtol=1e-13))
        w = along(log_mu)
    return w, 10**log_mu, _certificate(C, q, rho, w)


def _certificate(C: Array, q: Array, rho: float, w: Array) -> float:
    """Where a norm is 0 its subgradients fill a ball: the one that balances the rest is taken, or the nearest in the ball."""
    fit, away = C @ w - q, w - 1
    size, distance = float(np.linalg.norm(fit)), float(np.linalg.norm(away))
    if size > NOTHING and distance > NOTHING:
        gradient = C.T @ fit / size + rho * away / distance
    elif distance > NOTHING:
        u = np.linalg.lstsq(C.T, -rho * away / distance, rcond=None)[0]
        gradient = C.T @ (u / max(1.0, float(np.linalg.norm(u)))) + rho * away / distance
    else:
        pull = C.T @ fit / size if size > NOTHING else np.zeros(len(w))
        gradient = pull * max(0.0, 1 - rho / max(float(np.linalg.norm(pull)), 1e-300))
    return float(np.abs(w - np.maximum(w - gradient, 0)).max())
