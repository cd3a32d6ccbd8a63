"""Choosing σ from the labelled reference alone, by what it does to the estimate.

    error      √tr V at equal shares, V = H (Σ α_i² C_i/n_i + C_Q/n) H, with C_i the covariance of BᵀΦ in class i and
               H the inverse of the unbiased Gram matrix G^U (on 1^⊥ in the hard form): the l2 error to expect
    delta_min  Δ_min of G^U, to be maximised: the paper's criterion (after Theorem 1) without its bias

The V-statistic G keeps each row's product with itself: as σ → 0 it tends to diag(1/n_i), Δ_min stays above 0 and α̂ slides
to the source shares. G^U tends to 0 instead, and a σ where it is not definite is refused. The frequencies are ω = z/σ with
the same z across the grid, so that the curve compares bandwidths and not draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError
from proportio.features.fourier import RandomFourier
from proportio.gram import contrasts, delta_min, unbiased
from proportio.scaling import median_distance
from proportio.sketch import sketch_rows
from proportio.sources import Floats

Array = npt.NDArray[np.float64]
Criterion: TypeAlias = Literal["error", "delta_min"]

AT_MOST = 10_000  # rows looked at, shared evenly between the classes
DRAWS = 3
CHUNK = 4096


@dataclass(frozen=True, eq=False)
class BandwidthCurve:
    """The criterion over the grid, one row a draw of the frequencies; `chosen` is the σ taken. NaN: refused."""

    criterion: Criterion
    sigmas: Array
    values: Array
    chosen: float

    @property
    def mean(self) -> Array:
        """The curve that was optimised: the mean over draws, NaN where any draw refused."""
        out: Array = self.values.mean(axis=0)
        return out


def choose(
    X: Floats,
    y: npt.NDArray[Any],
    weights: Array | None,
    template: RandomFourier,
    *,
    criterion: Criterion = "error",
    soft: bool = False,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> BandwidthCurve:
    """Evaluate the criterion on a log grid around the median distance and take its best σ."""
    if criterion not in ("error", "delta_min"):
        raise InputError(f"criterion={criterion!r} is neither 'error' nor 'delta_min'.")
    rng = np.random.default_rng(random_state)
    labels, indices = np.unique(y, return_inverse=True)
    groups = indices.astype(np.int32)
    counts = np.bincount(groups, minlength=len(labels)).astype(np.float64)
    rows = _sample(groups, counts, rng)
    X, groups = X[rows], groups[rows]
    weights = None if weights is None else weights[rows]
    base = RandomFourier(**{**template.get_params(deep=False), "bandwidth": 1.0, "random_state": rng})
    values = []
    for _ in range(DRAWS):
        phi = base.fit_rows(X, None, weights)
        median = median_distance(X, phi.scale_, np.random.default_rng(0))
        sigmas = np.geomspace(median / 16, median * 4, 17)
        values.append(
            [_value(phi.with_bandwidth(s), X, groups, labels, weights, counts, criterion, soft, n_jobs) for s in sigmas]
        )
    table = np.asarray(values)
    mean = table.mean(axis=0)
    score = -mean if criterion == "error" else mean
    usable = np.isfinite(score)
    if not usable.any():  # too few rows to tell any bandwidth from chance
        return BandwidthCurve(criterion, sigmas, table, float(median))
    return BandwidthCurve(criterion, sigmas, table, float(sigmas[np.argmax(np.where(usable, score, -np.inf))]))


def _value(
    phi: RandomFourier,
    X: Floats,
    groups: npt.NDArray[np.int32],
    labels: npt.NDArray[Any],
    weights: Array | None,
    counts: Array,
    criterion: Criterion,
    soft: bool,
    n_jobs: int | None,
) -> float:
    sketch = sketch_rows(phi, X, groups, labels.tolist(), weights=weights, n_jobs=n_jobs, map_id="")
    B = sketch.means()
    G = unbiased(B.T @ B, sketch.tally)
    if not np.isfinite(G).all():  # a class of one row says nothing about itself
        np.fill_diagonal(G, np.where(np.isfinite(np.diag(G)), np.diag(G), np.nanmax(np.diag(G), initial=0.0)))
    if criterion == "delta_min":
        value = delta_min(G)
        return value if value > 0 else np.nan
    return predicted_error(G, _products(phi, X, groups, B, sketch.tally.totals, weights, n_jobs), groups, counts, soft)


def predicted_error(G: Array, T: Array, groups: npt.NDArray[np.int32], counts: Array, soft: bool) -> float:
    """√tr V at equal shares; T holds BᵀΦ(x) row by row (each row left out of its own class's mean). NaN: G not definite."""
    c = len(G)
    basis = np.eye(c) if soft else contrasts(c)
    inner = basis.T @ G @ basis
    if np.linalg.eigvalsh(inner)[0] <= 0:
        return float("nan")
    H = basis @ np.linalg.inv(inner) @ basis.T
    alpha = np.full(c, 1 / c)
    within = np.zeros((c, c, c))
    for i in range(c):
        mine = T[groups == i]
        if len(mine) > 1:
            within[i] = np.cov(mine.T)
    spread = G - (G @ alpha)[:, None]
    S = np.einsum("i,ijk->jk", alpha**2 / counts, within)
    S += (np.einsum("i,ijk->jk", alpha, within) + (spread * alpha) @ spread.T) / counts.sum()
    return float(np.sqrt(np.trace(H @ S @ H)))


def _products(
    phi: RandomFourier,
    X: Floats,
    groups: npt.NDArray[np.int32],
    B: Array,
    totals: Array,
    weights: Array | None,
    n_jobs: int | None,
) -> Array:
    """⟨Φ(x), Φ̂_j⟩ of every row and class, the row itself left out of its own class."""
    scaled = (phi.amplitude_[:, None] * B).astype(np.float32)
    T = np.concatenate([phi._raw(X[i : i + CHUNK], n_jobs) @ scaled for i in range(0, len(X), CHUNK)]).astype(
        np.float64
    )
    rows = np.arange(len(X))
    w = np.ones(len(X)) if weights is None else weights
    own, total = T[rows, groups], totals[groups]
    rest = total - w
    T[rows, groups] = np.divide(total * own - w, rest, out=own.copy(), where=rest > 1e-9 * total)
    return T


def _sample(groups: npt.NDArray[np.int32], counts: Array, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """At most AT_MOST rows, the small classes whole and the large ones cut to the same size."""
    if len(groups) <= AT_MOST:
        return np.arange(len(groups))
    cap, ascending = AT_MOST, np.sort(counts)
    for k, n in enumerate(ascending):  # water-filling
        cap = (AT_MOST - ascending[:k].sum()) / (len(counts) - k)
        if n > cap:
            break
    kept = []
    for i, n in enumerate(counts):
        rows = np.flatnonzero(groups == i)
        kept.append(rows if n <= cap else rng.choice(rows, max(int(cap), 2), replace=False))
    return np.sort(np.concatenate(kept))
