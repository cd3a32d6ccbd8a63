"""Maps made of maps: concatenation `Stack`, composition `Chain`, and any callable as `Function`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from proportio.errors import FileError, InputError
from proportio.features.base import Array, FeatureMap, check_parts, prefixed, restore, under
from proportio.sources import Columns, Floats
from proportio.storage import Arrays


class Stack(FeatureMap):
    """Φ(x) = (√w_1 Φ_1(x), …, √w_K Φ_K(x)) with Σ w_k = 1, so that C² = Σ w_k C_k² (at most 1 where each C_k is)."""

    def __init__(self, maps: Sequence[FeatureMap], weights: Sequence[float] | None = None) -> None:
        self.maps = maps
        self.weights = weights

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        if not self.maps:
            raise InputError("Stack needs at least one map.")
        w = np.full(len(self.maps), 1 / len(self.maps)) if self.weights is None else np.asarray(self.weights, float)
        if w.shape != (len(self.maps),) or not (w > 0).all():
            raise InputError(
                f"Stack has {len(self.maps)} maps: give as many weights, each above 0; got {self.weights!r}."
            )
        self._set([clone(m).fit_rows(X, y, weights, self.columns_) for m in self.maps], w / w.sum())
        split = [i for i, m in enumerate(self.maps_) if m.folds_ is not None]
        if split:
            folds = np.stack([self.maps_[i].folds_ for i in split], axis=1)  # type: ignore[misc]  # chosen above
            self._members, self.folds_ = np.unique(folds, axis=0, return_inverse=True)
            self._split = split
            self.folds_[(folds < 0).any(axis=1)] = -1

    def _set(self, maps: list[FeatureMap], weights: Array) -> None:
        self.maps_, self.weights_ = maps, weights
        self.amplitude_ = np.concatenate([np.sqrt(w) * m.amplitude_ for m, w in zip(maps, weights, strict=True)])
        bounds = [m.bound_ for m in maps]
        known = [b for b in bounds if b is not None]
        self.bound_ = float(np.sqrt(weights @ np.square(known))) if len(known) == len(bounds) else None

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        return np.concatenate([m._raw(X, n_jobs) for m in self.maps_], axis=1)

    def member(self, fold: int) -> FeatureMap:
        if self.folds_ is None:
            return self
        maps = list(self.maps_)
        for i, k in zip(self._split, self._members[fold], strict=True):
            maps[i] = maps[i].member(int(k))
        return _like(self, Stack(self.maps, self.weights), maps, self.weights_)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        metas, arrays = [], {"stack_weights": self.weights_}
        for i, m in enumerate(self.maps_):
            meta, part = m.state()
            metas.append(meta)
            arrays |= prefixed(str(i), part)
        return {"maps": metas}, arrays

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        maps = [restore(m, under(str(i), arrays), supply) for i, m in enumerate(meta["maps"])]
        check_parts(arrays, {"stack_weights": (len(maps),)})
        if any(m.columns_.count != meta["n_columns"] for m in maps):
            raise FileError("the maps of a stack do not read the same columns: not a file that proportio wrote.")
        out = cls(maps, arrays["stack_weights"].tolist())
        out._set(maps, arrays["stack_weights"])
        return out


class Chain(FeatureMap):
    """Φ(x) = Φ_2(Φ_1(x)): for example random Fourier features of cross-fitted posteriors."""

    def __init__(self, first: FeatureMap, second: FeatureMap) -> None:
        self.first = first
        self.second = second

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        first = clone(self.first).fit_rows(X, y, weights, self.columns_)
        rows, used = X, np.ones(len(X), dtype=bool)
        if first.folds_ is None:
            inner = first.embed(rows)
        else:
            used = first.folds_ >= 0
            inner = np.empty((len(X), first.dim))
            for k in range(int(first.folds_.max()) + 1):
                inner[first.folds_ == k] = first.member(k).embed(X[first.folds_ == k])
        second = clone(self.second).fit_rows(
            inner[used], None if y is None else y[used], None if weights is None else weights[used]
        )
        if second.folds_ is not None:
            raise InputError("in a Chain only the first map may be cross-fitted or split.")
        self._set(first, second)
        self.folds_ = first.folds_

    def _set(self, first: FeatureMap, second: FeatureMap) -> None:
        self.first_, self.second_ = first, second
        self.amplitude_, self.bound_ = second.amplitude_, second.bound_

    @property
    def sigma(self) -> float | None:
        return self.second_.sigma

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        return self.second_._raw(self.first_.embed(X, n_jobs), n_jobs)

    def member(self, fold: int) -> FeatureMap:
        return (
            self
            if self.folds_ is None
            else _like(self, Chain(self.first, self.second), self.first_.member(fold), self.second_)
        )

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        (m1, a1), (m2, a2) = self.first_.state(), self.second_.state()
        return {"first": m1, "second": m2}, prefixed("first", a1) | prefixed("second", a2)

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        first = restore(meta["first"], under("first", arrays), supply)
        second = restore(meta["second"], under("second", arrays), supply)
        if (first.columns_.count, second.columns_.count) != (meta["n_columns"], first.dim):
            raise FileError(
                "the second map of a chain does not read what the first gives: not a file that proportio wrote."
            )
        out = cls(first, second)
        out._set(first, second)
        return out


class Function(FeatureMap):
    """Φ = any callable from a block of rows to a block of features; `bound` is its C where you can vouch for one.

    >>> import numpy as np
    >>> Function(np.tanh, bound=2.0).fit(np.zeros((1, 3))).transform(np.zeros((2, 3))).shape
    (2, 3)
    """

    def __init__(self, function: Callable[[Any], Any], bound: float | None = None) -> None:
        self.function = function
        self.bound = bound

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        if not callable(self.function):
            raise InputError(f"features={self.function!r} is neither a feature map of proportio nor a callable.")
        mean, sd = X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64)
        self.probes_ = np.random.default_rng(0).standard_normal((4, X.shape[1])) * sd + mean
        self.answers_ = np.asarray(self._raw(self.probes_, None), dtype=np.float64)
        self.amplitude_, self.bound_ = np.ones(self.answers_.shape[1]), self.bound

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        out = np.asarray(self.function(X))
        if out.ndim != 2 or len(out) != len(X) or out.dtype.kind not in "biuf":
            raise InputError(
                f"the feature callable returned {out.dtype} of shape {out.shape} for {len(X)} rows: "
                "it must return one row of numbers a row."
            )
        if not np.isfinite(out).all():
            raise InputError("the feature callable returned NaN or infinity.")
        return out if out.dtype in (np.float32, np.float64) else out.astype(np.float64)

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return {"needs": name, "bound": self.bound}, {"probes": self.probes_, "answers": self.answers_}

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        if not supply:
            raise FileError(
                f"this model needs its feature callable ({meta['needs']}), and no file of ours carries code: "
                "pass it as load(path, supply=callable)."
            )
        out = cls(supply.pop(0), meta["bound"])
        out.columns_ = Columns(meta["n_columns"])
        out.probes_, out.answers_ = arrays["probes"], arrays["answers"]
        out.amplitude_, out.bound_ = np.ones(out.answers_.shape[1]), meta["bound"]
        got = out._raw(out.probes_, None)
        if got.shape != out.answers_.shape or np.abs(got - out.answers_).max() > 1e-6:
            raise FileError("the callable supplied answers differently from the one that this model was fitted with.")
        return out


def _like(whole: FeatureMap, part: Any, *fitted: Any) -> FeatureMap:
    """One member of a composed map."""
    part._set(*fitted)
    part.columns_ = whole.columns_
    result: FeatureMap = part
    return result
