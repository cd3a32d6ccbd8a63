"""Histograms of the columns (HDx) or of the posteriors (HDy, DyS) matched by a convex divergence.

    α̂ = argmin over the simplex of the mean over columns k of D(t_k ‖ H_kα),  H_k the classes' histograms of column k

    HDx, HDy    D = ½Σ(√t − √p)², the squared Hellinger distance (González-Castro); DyS: Topsøe by default (Maletzke)

With `bins="sweep"`, as in the original, the answer is the median over 10, 20 … 110 bins, put back on the simplex; its error bars
are those of 10 bins, since many nearly empty ones bias it. For two classes one posterior is the other's complement, and one will
do; for more, the mean over the classes' posteriors is matched. Squared distances keep the problem convex for any number of
columns: the original HDx averages distances that are not squared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from proportio.baselines.base import Baseline, OnPosteriors, Problem
from proportio.baselines.convex import Minimum, hellinger, topsoe
from proportio.baselines.mixture import Mixture
from proportio.errors import InputError
from proportio.features.base import is_count
from proportio.quantifier import Labels
from proportio.simplex import project
from proportio.sources import Columns, Floats, OnMissing

Array = npt.NDArray[np.float64]
Bins = int | Literal["sweep"]

SWEEP = tuple(range(10, 111, 10))
DIVERGENCES = {"hellinger": hellinger, "topsoe": topsoe}


def bin_numbers(bins: Any) -> tuple[int, ...]:
    """The numbers of bins to try."""
    if isinstance(bins, str) and bins == "sweep":
        return SWEEP
    if not is_count(bins) or bins < 2:
        raise InputError(
            f"bins={bins!r}: give a whole number of bins, 2 or more, or 'sweep' (the median over 10 to 110)."
        )
    return (int(bins),)


def indicators(Z: Array, low: Array, high: Array, bins: int) -> sparse.csr_matrix:
    """1/d at the bin of each of d columns, equal widths from low to high; what lies outside falls in the end bins."""
    n, d = Z.shape
    width = np.where(high > low, high - low, 1.0)
    cell = np.clip(np.floor((Z - low) / width * bins), 0, bins - 1).astype(np.int64)
    where = (cell + np.arange(d) * bins).ravel()
    return sparse.csr_matrix((np.full(n * d, 1 / d), where, np.arange(n + 1) * d), shape=(n, d * bins))


@dataclass(frozen=True, eq=False)
class _Median(Problem):
    """The median of several problems' shares, put back on the simplex."""

    parts: Sequence[Problem]

    def solve(self, omega: Array, weights: Array) -> Minimum:
        found = [part.solve(omega, weights) for part in self.parts]
        middle = np.median([f.alpha for f in found], axis=0)
        return Minimum(project(middle, soft=False), max(f.kkt for f in found))

    def features(self, omega: Array, weights: Array, alpha: Array) -> tuple[Array, Array] | None:
        """Of the first part, the fewest bins: χ² of nearly empty ones is biased."""
        return self.parts[0].features(omega, weights, alpha)


def _matched(source: Array, batch: Array, low: Array, high: Array, bins: Bins, divergence: str) -> Problem:
    parts = [
        Mixture(indicators(source, low, high, b), indicators(batch, low, high, b), DIVERGENCES[divergence])
        for b in bin_numbers(bins)
    ]
    return parts[0] if len(parts) == 1 else _Median(parts)


class HDx(Baseline):
    """Hellinger distance of the columns' histograms; no classifier.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.HDx().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(self, bins: Bins = "sweep", *, on_missing: OnMissing = "raise", random_state: Any = 0) -> None:
        self.bins = bins
        self.on_missing = on_missing
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        bin_numbers(self.bins)

    def _represent_source(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> tuple[Array, Any]:
        return self._represent(X), np.ones(len(X), dtype=bool)

    def _represent(self, X: Floats) -> Array:
        return X.astype(np.float64)

    def _learn(self) -> None:
        self.low_, self.high_ = self.source_.Z.min(axis=0), self.source_.Z.max(axis=0)

    def _problem(self, Z: Array) -> Problem:
        return _matched(self.source_.Z, Z, self.low_, self.high_, self.bins, "hellinger")


class DyS(OnPosteriors):
    """Distribution matching of the posteriors' histograms; `divergence` is "topsoe" or "hellinger" (squared).

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.DyS().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        bins: Bins = 8,
        divergence: Literal["topsoe", "hellinger"] = "topsoe",
        cv: int | Literal["split", "prefit"] = 5,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.bins = bins
        self.divergence = divergence

    def _check_parameters(self) -> None:
        super()._check_parameters()
        bin_numbers(self.bins)
        if self.divergence not in DIVERGENCES:
            raise InputError(f"divergence={self.divergence!r} is neither 'topsoe' nor 'hellinger'.")

    def _problem(self, Z: Array) -> Problem:
        source, batch = informative(self.source_.Z), informative(Z)
        low, high = np.zeros(source.shape[1]), np.ones(source.shape[1])
        return _matched(source, batch, low, high, self.bins, self.divergence)


class HDy(DyS):
    """Hellinger distance of the posteriors' histograms, the median over 10, 20 … 110 bins.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.HDy().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        bins: Bins = "sweep",
        divergence: Literal["topsoe", "hellinger"] = "hellinger",
        cv: int | Literal["split", "prefit"] = 5,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            classifier, bins=bins, divergence=divergence, cv=cv, on_missing=on_missing, random_state=random_state
        )


def informative(Z: Array) -> Array:
    """All posteriors; of two classes the second, whose complement the first is."""
    return Z[:, 1:] if Z.shape[1] == 2 else Z
