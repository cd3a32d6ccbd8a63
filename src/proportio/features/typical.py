"""Φ(x) = e_{f(x)} 1{p(x) > ρ}: a classifier's decision, counted only where x is typical of the class that it names.

    δ_i(x) = (x − μ_i)ᵀ Σ_i⁻¹ (x − μ_i),   p(x) = P_i(δ_i ≥ δ_i(x)) for i = f(x), a conformal p-value

To BBSE a row that no class knows is a decision like any other, and moves the share of the class it resembles most. Here it
embeds to 0, where the soft form keeps its dummy class: the map is as exact as its classifier on known rows and blind to the
others. A share ρ of each class is lost with them, which the reference shows and matching makes good.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.extmath import randomized_svd

from proportio.errors import InputError
from proportio.features.base import Array, FeatureMap, check_parts
from proportio.features.classifier import OneHot
from proportio.sources import Floats
from proportio.storage import Arrays

REJECTS = (0.02, 0.05, 0.1, 0.2)
POOLED = 0.02  # the least share of the pooled covariance in each class's own
RIDGE = 1e-3  # of a column's variance: columns that are constant within a class stay harmless
TRAIN_AT_MOST = 20_000  # rows that each member learns from; all rows are embedded
SHAPE_ROWS = 200  # of a class, at least, where it has them
MOST_COLUMNS = (
    100  # of which shapes are made; of more, the leading principal components, until they hold ENOUGH of the variance
)
ENOUGH = 0.95


@dataclass(frozen=True, eq=False)
class Shapes:
    """μ_i and Σ_i⁻¹ᐟ² of every class: Σ_i = (1 − λ_i) S_i + λ_i S, S pooled, λ_i = d/n_i."""

    means: Array
    roots: Array

    @classmethod
    def of(cls, X: Array, groups: npt.NDArray[np.int64], weights: Array, c: int) -> Self:
        """From labelled rows; a class without rows gets the pooled shape around the common mean."""
        d = X.shape[1]
        total = np.bincount(groups, weights, minlength=c)
        sums = np.stack([np.bincount(groups, weights * column, minlength=c) for column in X.T], axis=1)
        means: Array = sums / np.maximum(total, 1e-300)[:, None]
        means[total <= 0] = np.average(X, axis=0, weights=weights)
        scatter = np.zeros((c, d, d))
        for i in range(c):
            rows = groups == i
            centred = X[rows] - means[i]
            scatter[i] = (centred * weights[rows, None]).T @ centred
        pooled = scatter.sum(axis=0) / weights.sum()
        effective = total**2 / np.maximum(np.bincount(groups, weights**2, minlength=c), 1e-300)
        mix = np.clip(d / np.maximum(effective, 1e-300), POOLED, 1)[:, None, None]
        own = scatter / np.maximum(total, 1e-300)[:, None, None]
        ridge = RIDGE * np.diag(np.maximum(X.var(axis=0), 1e-12))
        values, vectors = np.linalg.eigh((1 - mix) * own + mix * pooled + ridge)
        return cls(means, vectors / np.sqrt(np.maximum(values, 1e-12))[:, None, :])

    def distances(self, X: Floats, classes: npt.NDArray[np.int64]) -> Array:
        """δ of each row to the class given for it."""
        out = np.empty(len(X))
        for i in np.unique(classes):
            rows = classes == i
            out[rows] = np.square((X[rows] - self.means[i]) @ self.roots[i]).sum(axis=1)
        return out


class Typical(OneHot):
    """Φ(x) = e_{f(x)} 1{p(x) > ρ} for ρ = 0 and each of `rejects`, of which the first counts and all others have amplitude 0.

    The classifier (logistic regression by default) and the shapes of the classes are cross-fitted, so that no row is judged by what
    it has taught. The other ρ are kept in the sums for who wants to reject more once the batch is known, as `AutoDFM` does.

    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 2)) + 4 * y[:, None]
    >>> phi = Typical().fit(X, y)
    >>> phi.transform(np.array([[0.0, 0.0], [4.0, 4.0], [2.0, -9.0]]))[:, phi.columns_at(1)].tolist()
    [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    """

    def __init__(
        self, classifier: Any = None, *, rejects: Sequence[float] = REJECTS, cv: int = 5, random_state: Any = 0
    ) -> None:
        self.classifier = classifier
        self.rejects = rejects
        self.cv = cv
        self.random_state = random_state

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        rejects = np.asarray(self.rejects, dtype=np.float64)
        if (
            rejects.ndim != 1
            or not len(rejects)
            or not ((rejects > 0) & (rejects < 1)).all()
            or (np.diff(rejects) <= 0).any()
        ):
            raise InputError(f"rejects={self.rejects!r}: give shares between 0 and 1, in ascending order.")
        if isinstance(self.cv, str):
            raise InputError(
                f"cv={self.cv!r}: the shapes of the classes are learned with the classifier; give a number of folds."
            )
        if y is None:
            raise InputError("training a classifier needs labels y.")
        labels, groups = np.unique(y, return_inverse=True)
        self.folds_ = self._deal(y)
        w = np.ones(len(X)) if weights is None else weights
        self.members_, self.shapes_ = [], []
        rng = np.random.default_rng(self.random_state)
        self.basis_ = _components(X[_at_most(np.arange(len(X)), groups, rng)]) if X.shape[1] > MOST_COLUMNS else None
        for k in range(int(self.folds_.max()) + 1):
            train = _at_most(np.flatnonzero(self.folds_ != k), groups, rng)
            self.members_.append(self._trained(X[train], y[train], None if weights is None else weights[train]))
            self.shapes_.append(Shapes.of(self._reduced(X[train]), groups[train], w[train], len(labels)))
        self._calibrate(X, groups, w, rejects)
        self._set(len(labels))
        self._probe(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))

    def _reduced(self, X: Floats) -> Array:
        """The columns, or coordinates in their place, that shapes are made of."""
        X64 = X.astype(np.float64, copy=False)
        return np.asarray(X64 if self.basis_ is None else X64 @ self.basis_)

    def _calibrate(self, X: Floats, groups: npt.NDArray[np.int64], w: Array, rejects: Array) -> None:
        """thresholds_[l, i], the (1 − ρ_l)-quantile of δ_i over class i, each row measured by the member that did not see it."""
        own = np.empty(len(X))
        for k, shapes in enumerate(self.shapes_):
            rows = self.folds_ == k
            own[rows] = shapes.distances(self._reduced(X[rows]), groups[rows])
        c = int(groups.max()) + 1
        quantiles = [_upper_quantiles(own[groups == i], w[groups == i], rejects) for i in range(c)]
        self.thresholds_ = _with_none(np.stack(quantiles, axis=1))

    def _set(self, c: int) -> None:
        self.amplitude_ = np.zeros(self.thresholds_.size)
        self.amplitude_[self.columns_at(1)] = 1
        self.bound_ = 1.0

    @property
    def n_classes(self) -> int:
        """c, the number of features of each ρ."""
        return int(self.thresholds_.shape[1])

    def columns_at(self, level: int) -> slice:
        """The features of one ρ: 0 for ρ = 0, then those of `rejects`."""
        return slice(self.n_classes * level, self.n_classes * (level + 1))

    def cells(self, levels: Array) -> Array:
        """From features (or their means) those of disjoint cells: decided i, and typical beyond one ρ but not the next."""
        nested = levels.reshape(len(levels), -1, self.n_classes)
        outer = np.concatenate([nested[:, 1:], np.zeros_like(nested[:, :1])], axis=1)
        return np.asarray((nested - outer).reshape(len(levels), -1))

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        X64 = X.astype(np.float64, copy=False)
        reduced = self._reduced(X)
        total = np.zeros((len(X), self.thresholds_.size))
        for member, shapes in zip(self.members_, self.shapes_, strict=True):
            decided = self._predict(member, X64).argmax(axis=1)
            near = shapes.distances(reduced, decided)
            rows, levels = np.nonzero(near[:, None] <= self.thresholds_[:, decided].T)
            total[rows, levels * self.n_classes + decided[rows]] += 1
        return total / len(self.members_)

    def member(self, fold: int) -> FeatureMap:
        one = copy.copy(self)
        one.members_, one.shapes_, one.folds_ = [self.members_[fold]], [self.shapes_[fold]], None
        return one

    def _probe(self, mean: Array, sd: Array) -> None:
        self.probes_ = np.random.default_rng(0).standard_normal((8, len(mean))) * sd + mean
        self.answers_ = self._raw(self.probes_, None)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        meta, arrays = super()._state()
        shapes = {f"means.{k}": s.means for k, s in enumerate(self.shapes_)}
        roots = {f"roots.{k}": s.roots for k, s in enumerate(self.shapes_)}
        basis = {} if self.basis_ is None else {"basis": self.basis_}
        return {**meta, "rejects": list(map(float, self.rejects))}, {
            **arrays,
            **basis,
            **shapes,
            **roots,
            "thresholds": self.thresholds_[1:],
        }

    @classmethod
    def _n_decisions(cls, arrays: Arrays) -> int:
        return int(arrays["thresholds"].shape[1])

    def _read(self, meta: dict[str, Any], arrays: Arrays) -> None:
        self.rejects, self.cv = tuple(meta["rejects"]), 5
        levels, c, d = len(self.rejects), arrays["thresholds"].shape[-1], meta["n_columns"]
        self.basis_ = arrays.get("basis")
        if self.basis_ is not None:
            check_parts(arrays, {"basis": (d, None)})
            d = self.basis_.shape[1]
        parts = {f"means.{k}": (c, d) for k in range(meta["members"])}
        roots = {f"roots.{k}": (c, d, d) for k in range(meta["members"])}
        check_parts(arrays, {"thresholds": (levels, c), **parts, **roots})
        self.shapes_ = [Shapes(arrays[f"means.{k}"], arrays[f"roots.{k}"]) for k in range(meta["members"])]
        self.thresholds_ = _with_none(arrays["thresholds"])
        self._set(c)


def _components(X: Floats) -> Array:
    """The leading principal axes of the standardised columns, as coordinates of the columns themselves."""
    sd = np.maximum(X.std(axis=0, dtype=np.float64), 1e-12)
    centred = (X - X.mean(axis=0, dtype=np.float64)) / sd
    _, lengths, axes = randomized_svd(centred, min(MOST_COLUMNS, *centred.shape), random_state=0)
    held = np.cumsum(lengths**2) / np.square(centred).sum()
    return np.asarray(axes[: int(np.searchsorted(held, ENOUGH)) + 1].T / sd[:, None])


def _with_none(thresholds: Array) -> Array:
    """Thresholds after those of ρ = 0, which nothing exceeds."""
    return np.vstack([np.full(thresholds.shape[1], np.inf), thresholds])


def _at_most(
    rows: npt.NDArray[np.int64], groups: npt.NDArray[np.int64], rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """About TRAIN_AT_MOST rows in the proportions that they come in, but of each class at least SHAPE_ROWS where it has them."""
    if len(rows) <= TRAIN_AT_MOST:
        return rows
    kept = []
    for i in np.unique(groups[rows]):
        mine = rows[groups[rows] == i]
        quota = max(round(len(mine) * TRAIN_AT_MOST / len(rows)), min(len(mine), SHAPE_ROWS))
        kept.append(rng.choice(mine, quota, replace=False))
    return np.sort(np.concatenate(kept))


def _upper_quantiles(values: Array, weights: Array, rejects: Array) -> Array:
    """The values that a share ρ of the weight exceeds."""
    order = np.argsort(values)
    above = 1 - np.cumsum(weights[order]) / weights.sum()
    return np.asarray(values[order][[int(np.argmax(above <= r + 1e-12)) for r in rejects]])
