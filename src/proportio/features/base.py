"""Φ : Rᵈ → Rᴰ with ‖Φ(x)‖ ≤ C: what every feature map offers (paper §2, assumption A₂).

A map is fitted on the reference alone and never refitted on a batch. It is written Φ = amplitude ∘ φ, so that
sums of the raw φ can be kept exactly and scaled when they are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from proportio._compiled.sums import add_features
from proportio.errors import FileError, InputError, NotFittedError
from proportio.sources import Columns, Floats, read_labels, read_rows, read_weights
from proportio.storage import Arrays, digest

Array = npt.NDArray[np.float64]
Cells = npt.NDArray[np.int32]

CHUNK = 8192  # rows materialised at a time by maps without a fused kernel
REGISTRY: dict[str, type[FeatureMap]] = {}


class FeatureMap(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no type hints
    """A feature map; fitted attributes are `columns_`, `amplitude_` (D,) and `bound_` (C, or None).

    Rows of the source may have to be embedded by different members of one map (cross-fitting): `folds_` then gives
    each source row's member, −1 for rows that only trained the map.
    """

    columns_: Columns
    amplitude_: Array
    bound_: float | None
    folds_: npt.NDArray[np.int64] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        REGISTRY[cls.__name__] = cls

    # -- what a concrete map defines -------------------------------------------------------------------------

    @abstractmethod
    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        """Learn the map from validated source rows; set `amplitude_` and `bound_`."""

    @abstractmethod
    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        """φ(x) of validated rows, one row each."""

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], Arrays]:
        """All that φ depends on, as JSON and arrays."""

    @classmethod
    @abstractmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        """Inverse of `_state`; takes from `supply` what no file may carry."""

    # -- what every map then offers --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on the labelled reference rows."""
        rows = read_rows(X)
        labels = None if y is None else read_labels(y, len(rows.values))
        return self.fit_rows(rows.values, labels, read_weights(sample_weight, len(rows.values)), rows.columns)

    def fit_rows(
        self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None, columns: Columns | None = None
    ) -> Self:
        """`fit` on rows that are already validated."""
        self.columns_ = columns or Columns(X.shape[1])
        self._fit(X, y, weights)
        return self

    def transform(self, X: Any) -> Array:
        """Φ(x), one row each."""
        self.check_fitted()
        rows = read_rows(X, expected=self.columns_, owner=type(self).__name__)
        return self.embed(rows.values)

    def embed(self, X: Floats, n_jobs: int | None = None) -> Array:
        """Φ(x) of rows that are already validated."""
        out: Array = self._raw(X, n_jobs) * self.amplitude_
        return out

    def project(self, X: Floats, B: Array, n_jobs: int | None = None) -> Array:
        """BᵀΦ(x) of validated rows, one row each, a few thousand at a time."""
        return np.concatenate([self.embed(X[i : i + CHUNK], n_jobs) @ B for i in range(0, len(X), CHUNK)])

    def accumulate(
        self, X: Floats, cells: Cells, weights: Array | None, sums: Array, norm2: Array, n_jobs: int | None = None
    ) -> None:
        """sums[cell] += Σ w φ(x) and norm2[cell] += Σ w²‖Φ(x)‖², row by row in the order given."""
        for start in range(0, len(X), CHUNK):
            part = slice(start, start + CHUNK)
            raw = np.ascontiguousarray(self._raw(X[part], n_jobs))
            w = None if weights is None else weights[part]
            add_features(raw, cells[part], np.ones(1) if w is None else w, sums)
            lengths = np.square(raw * self.amplitude_).sum(axis=1)
            self._check_bound(lengths)
            np.add.at(norm2, cells[part], lengths if w is None else lengths * w * w)

    def member(self, fold: int) -> FeatureMap:
        """The map that embeds the source rows of one fold."""
        return self

    @property
    def dim(self) -> int:
        return len(self.amplitude_)

    @property
    def n_features_in_(self) -> int:
        return self.columns_.count

    @property
    def sigma(self) -> float | None:
        """The bandwidth, for maps that have one."""
        return None

    def check_fitted(self) -> None:
        if not hasattr(self, "amplitude_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(X, y) first.")

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """JSON and arrays from which `restore` rebuilds the map; equal states are equal maps."""
        meta, arrays = self._state()
        names = None if self.columns_.names is None else list(self.columns_.names)
        return {"class": type(self).__name__, "n_columns": self.columns_.count, "columns": names, **meta}, arrays

    def identity(self) -> str:
        """A short digest of the state: sketches merge only where it agrees."""
        return digest(*self.state())[:16]

    def _check_bound(self, lengths: Array) -> None:
        if self.bound_ is not None and lengths.size and lengths.max() > self.bound_**2 * (1 + 1e-6):
            raise InputError(
                f"{type(self).__name__} declares ‖Φ(x)‖ ≤ {self.bound_:g} but a row has norm {lengths.max() ** 0.5:g}: "
                "the error bounds would be false. Declare a larger bound, or None."
            )


def restore(meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> FeatureMap:
    """The map whose `state` this is."""
    fitted = REGISTRY[meta["class"]]._restore(meta, arrays, supply)
    names = meta["columns"]
    if not is_count(meta["n_columns"]) or (names is not None and len(names) != meta["n_columns"]):
        raise FileError(f"the map has {meta['n_columns']!r} columns: not a file that proportio wrote.")
    fitted.columns_ = Columns(meta["n_columns"], None if names is None else tuple(names))
    return fitted


def is_count(value: Any) -> bool:
    """A whole number, of Python or NumPy."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


LARGEST = 1e75  # of what a file may hold: four of them multiply without overflow


def check_seed(seed: Any) -> int:
    """The seed of a file."""
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise FileError(f"the seed {seed!r} is none: not a file that proportio wrote.")
    return seed


def check_parts(arrays: Arrays, shapes: dict[str, tuple[int | None, ...]], positive: tuple[str, ...] = ()) -> None:
    """Refuse arrays of a file that are missing, of other shapes (None: any length), or not finite or not `positive` numbers."""
    for name, shape in shapes.items():
        a = arrays[name]
        if a.ndim != len(shape) or any(k is not None and k != n for k, n in zip(shape, a.shape, strict=True)):
            raise FileError(
                f"the array {name!r} has shape {a.shape} where {shape} was expected: not a file that proportio wrote."
            )
        if a.dtype.kind not in "biuf" or not (np.abs(a.astype(np.float64)) < LARGEST).all():
            raise FileError(
                f"the array {name!r} does not hold numbers below {LARGEST:g}: not a file that proportio wrote."
            )
        if name in positive and not (a > 0).all():
            raise FileError(f"the array {name!r} holds numbers that are not above 0: not a file that proportio wrote.")


def prefixed(prefix: str, arrays: Arrays) -> Arrays:
    """The arrays of a part, named under the whole."""
    return {f"{prefix}.{name}": a for name, a in arrays.items()}


def under(prefix: str, arrays: Arrays) -> Arrays:
    """Inverse of `prefixed`."""
    return {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
