"""EM: the maximum-likelihood shares under label shift (Saerens), with the calibrations of Alexandari.

    α̂ = argmax over the simplex of Σ_j w_j log Σ_i (α_i/β_i) p_i(x_j)

Saerens's EM iterations climb this concave function slowly; here an interior-point method reaches its maximum with a certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from proportio.baselines import calibration as calibrations
from proportio.baselines.base import OnPosteriors, Problem, interior
from proportio.baselines.calibration import LEAST, Calibration
from proportio.baselines.convex import Minimum, likelihood, minimise
from proportio.errors import InputError
from proportio.sources import OnMissing

Array = npt.NDArray[np.float64]


class EM(OnPosteriors):
    """Maximum-likelihood label shift on (calibrated) posteriors; the most accurate where these are right.

    `calibration` is None, "temperature", "bcts", "vector" or "nbvs", fitted on the cross-fitted posteriors. `prior` are the shares
    that these posteriors assume: "labels", β̃, or "posteriors", their own mean, which suits calibrations without bias.

    Intervals: those of matching the posteriors at the estimated shares, (α_i/β_i)p_i / Σ_k (α_k/β_k)p_k, in both samples: they are
    the likelihood's own derivatives, so this is Rao's efficient one-step estimate. They hold for a classifier that is not
    calibrated too, α̂ then being off their centre.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> pp.baselines.EM(calibration="bcts").fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        calibration: Calibration | None = None,
        prior: Literal["labels", "posteriors"] = "labels",
        cv: int | Literal["split", "prefit"] = 5,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.calibration = calibration
        self.prior = prior

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.prior not in ("labels", "posteriors"):
            raise InputError(f"prior={self.prior!r} is neither 'labels' nor 'posteriors'.")

    def _learn(self) -> None:
        s = self.source_
        self.calibrator_ = None
        if self.calibration is not None:
            self.calibrator_ = calibrations.fit(s.Z, s.groups, s.weights, self.calibration)
        self._posteriors = self._calibrated(s.Z)
        mean = s.weights @ self._posteriors / s.weights.sum()
        self.prior_ = s.prior if self.prior == "labels" else mean / mean.sum()

    def _calibrated(self, Z: Array) -> Array:
        return np.maximum(Z, LEAST) if self.calibrator_ is None else self.calibrator_(Z)

    def _problem(self, Z: Array) -> Problem:
        return _Likelihood(self._posteriors / self.prior_, self._calibrated(Z) / self.prior_)


@dataclass(frozen=True, eq=False)
class _Likelihood(Problem):
    """p_i(x)/β_i of the rows of the reference and of the batch."""

    source: Array
    batch: Array

    def solve(self, omega: Array, weights: Array) -> Minimum:
        return minimise(self.batch, weights, likelihood)

    def features(self, omega: Array, weights: Array, alpha: Array) -> tuple[Array, Array]:
        return posteriors_at(self.source, alpha), posteriors_at(self.batch, alpha)


def posteriors_at(densities: Array, alpha: Array) -> Array:
    """α_i p_i(x)/Σ_k α_k p_k(x): α_i ∂/∂α_i log p_α(x), the posteriors at the shares α. As features, efficient near α."""
    joint = densities * interior(alpha)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))
