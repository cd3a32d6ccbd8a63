"""Φ(x) = one-hot bins of every column, over √d: marginal histograms as a feature map, with C = 1."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError
from proportio.features.base import Array, FeatureMap, check_parts, is_count
from proportio.sources import Floats
from proportio.storage import Arrays


class Histogram(FeatureMap):
    """Φ(x) = d^{-1/2} (1{x_k in bin b})_{k,b}: `bins` per column, of equal mass or equal width.

    >>> import numpy as np
    >>> Histogram(bins=2).fit(np.array([[0.0], [1.0], [2.0], [3.0]])).transform(np.array([[0.5], [9.0]])).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def __init__(self, bins: int = 16, *, strategy: Literal["quantile", "uniform"] = "quantile") -> None:
        self.bins = bins
        self.strategy = strategy

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        if not is_count(self.bins) or self.bins < 2:
            raise InputError(f"bins={self.bins!r} must be a whole number, 2 or more: the bins of each column.")
        inner = np.linspace(0, 1, self.bins + 1)[1:-1]
        w = np.ones(len(X)) if weights is None else weights
        if self.strategy == "quantile":
            edges = np.stack([quantiles(column, w, inner) for column in X.T])
        elif self.strategy == "uniform":
            low, high = X[w > 0].min(axis=0), X[w > 0].max(axis=0)
            edges = low[:, None] + (high - low)[:, None] * inner
        else:
            raise InputError(f"strategy={self.strategy!r} is neither 'quantile' nor 'uniform'.")
        self._set(edges.astype(np.float64))

    def _set(self, edges: Array) -> None:
        self.edges_ = edges
        self.amplitude_ = np.full(edges.shape[0] * (edges.shape[1] + 1), edges.shape[0] ** -0.5)
        self.bound_ = 1.0

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        d, bins = self.edges_.shape[0], self.edges_.shape[1] + 1
        out = np.zeros((len(X), d * bins), dtype=np.float32)
        rows = np.arange(len(X))
        for k in range(d):
            out[rows, k * bins + np.searchsorted(self.edges_[k], X[:, k], side="right")] = 1
        return out

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        return {"strategy": self.strategy}, {"edges": self.edges_}

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        check_parts(arrays, {"edges": (meta["n_columns"], None)})
        out = cls(bins=arrays["edges"].shape[1] + 1, strategy=meta["strategy"])
        out._set(arrays["edges"])
        return out


def quantiles(x: Floats, w: Array, levels: Array) -> Floats:
    """The smallest value of x below or at which a share `levels` of the weight lies: a row of weight 2 is two rows."""
    order = np.argsort(x, kind="stable")
    mass = np.cumsum(w[order])
    out: Floats = x[order[np.searchsorted(mass, levels * mass[-1])]]
    return out
