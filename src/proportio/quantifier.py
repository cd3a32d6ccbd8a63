"""The life of every quantifier: fit a map on labelled rows, sketch, match, answer. `methods` has the named ones.

α̂ = argmin ‖Σ α_i Φ̂_i − Φ̂(Q)‖²  over the simplex (P), or over {α ≥ 0, 1ᵀα ≤ 1} (P₂, soft)
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from proportio import intervals, storage
from proportio._compiled.threads import resolve_jobs
from proportio.blocks import Blocks
from proportio.errors import InputError, MismatchError, NotFittedError, ProportioWarning
from proportio.estimate import Diagnostics, Estimate
from proportio.evidence import Evidence
from proportio.gram import GramSystem, delta_min, lambda_min, unbiased
from proportio.labelled import UsesLabels
from proportio.simplex import Solution, solve
from proportio.sketch import Sketch, plain
from proportio.sources import (
    Columns,
    Floats,
    OnMissing,
    Rows,
    is_batches,
    read_batches,
    read_labels,
    read_rows,
    read_weights,
)

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]
Groups = npt.NDArray[np.int32]


class Quantifier(UsesLabels, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no type hints
    """Fits on labelled rows, then tells the class shares of unlabelled batches.

    After `fit`: `classes_`, `n_features_in_`, `feature_names_in_` (if the columns had names), `sketch_` (the reference,
    reduced) and `gram_` (G).
    """

    soft: bool
    positive: bool
    on_missing: OnMissing
    n_jobs: int | None

    classes_: Labels
    columns_: Columns
    sketch_: Sketch

    # -- what a concrete quantifier defines ------------------------------------------------------------------

    @abstractmethod
    def _fit_map(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> None:
        """Fit Φ on the reference."""

    @abstractmethod
    def _sketch(self, X: Floats, groups: Groups | None, weights: Array | None, start: int, onto: Any) -> Sketch:
        """Sketch rows, after those of `onto`: of the classes where `groups` gives their indices, of a batch where None."""

    @abstractmethod
    def _similarity(self, X: Floats, sketch: Sketch) -> Array:
        """⟨Φ(x), Φ̂_g⟩ for every row and group, and √k(x, x)-free: (n, groups)."""

    @abstractmethod
    def _map_state(self) -> tuple[dict[str, Any], storage.Arrays]:
        """What a file needs to rebuild Φ."""

    @abstractmethod
    def _restore_map(self, meta: dict[str, Any], arrays: storage.Arrays, supply: list[Any]) -> None:
        """Inverse of `_map_state`."""

    @property
    @abstractmethod
    def bound_(self) -> float | None:
        """C, or None where Φ declares none."""

    @property
    def bandwidth_(self) -> float | None:
        """σ, for maps and kernels that have one."""
        return None

    @property
    def _n_features_out(self) -> int | None:
        return None

    # -- fitting ---------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit on reference rows X (array or frame) with one label each; `sample_weight` counts a row several times."""
        began = time.perf_counter()
        rows, labels, weights = self._read_reference(X, y, sample_weight, None)
        self._begin(rows, labels, weights, np.unique(labels))
        self._extend(rows.values, labels, weights, start=0)
        self.sketch_.require_rows()
        self._timings = {"fit": time.perf_counter() - began}
        return self

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None, sample_weight: Any = None) -> Self:
        """Add a batch of labelled rows. The first call needs `classes`; it also fixes scaling and bandwidth."""
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InputError("the first call of partial_fit needs classes=[...]: all labels that may ever come.")
        expected = None if first else self.columns_
        rows, labels, weights = self._read_reference(X, y, sample_weight, expected)
        if first:
            self._begin(rows, labels, weights, np.unique(np.asarray(classes)))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise MismatchError(f"classes={list(classes)!r} differ from the first call's {self.classes_.tolist()!r}.")
        self._extend(rows.values, labels, weights, start=self.sketch_.n_rows if hasattr(self, "sketch_") else 0)
        return self

    def _read_reference(
        self, X: Any, y: Any, sample_weight: Any, expected: Columns | None
    ) -> tuple[Rows, Labels, Array | None]:
        rows = read_rows(X, expected=expected, on_missing=self._checked_on_missing())
        n = len(rows.values) + rows.dropped
        labels = rows.keep(read_labels(y, n))
        weights = rows.keep(read_weights(sample_weight, n))
        assert labels is not None
        return rows, labels, weights

    def _begin(self, rows: Rows, labels: Labels, weights: Array | None, classes: Labels) -> None:
        """Forget what was fitted before; learn the columns, the classes and Φ."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)
        if len(classes) < 2:
            raise InputError(
                f"the reference has one class only ({classes.tolist()[0]!r}), so its share would be 1 whatever the batch: "
                "a quantifier needs rows of 2 classes or more."
            )
        self._check_known(labels, classes)
        self._fit_map(rows.values, labels, weights, rows.columns)
        self._set_columns(rows.columns)
        self.classes_ = classes
        self._dropped = 0

    def _set_columns(self, columns: Columns) -> None:
        self.columns_ = columns
        self.n_features_in_ = columns.count
        if columns.names is not None:
            self.feature_names_in_ = np.asarray(columns.names, dtype=object)

    def _extend(self, X: Floats, labels: Labels, weights: Array | None, start: int) -> None:
        self._check_known(labels, self.classes_)
        groups = np.searchsorted(self.classes_, labels).astype(np.int32)
        self.sketch_ = self._sketch(X, groups, weights, start, getattr(self, "sketch_", None))
        self._gram: Array | None = None

    @staticmethod
    def _check_known(labels: Labels, classes: Labels) -> None:
        unseen = [plain(v) for v in np.unique(labels) if v not in classes]
        if unseen:
            raise InputError(
                f"y has labels that are not among the classes: {', '.join(map(repr, unseen[:5]))}; "
                f"the classes are {classes.tolist()!r}. Name every label in the first call's `classes`."
            )

    def _checked_on_missing(self) -> OnMissing:
        if self.on_missing not in ("raise", "drop"):
            raise InputError(f"on_missing={self.on_missing!r} is neither 'raise' nor 'drop'.")
        try:
            resolve_jobs(self.n_jobs)
        except (ValueError, TypeError) as error:
            raise InputError(
                f"n_jobs={self.n_jobs!r} must be None, -1 or a positive whole number of threads."
            ) from error
        return self.on_missing

    def _check_fitted(self) -> None:
        if not hasattr(self, "classes_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit(X, y) first.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "classes_")

    # -- answering -------------------------------------------------------------------------------------------

    @property
    def gram_(self) -> Array:
        """G = BᵀB, the inner products of the class means."""
        self._check_fitted()
        if self._gram is None:
            self._gram = self.sketch_.products(self.sketch_)
        return self._gram

    def sketch(self, X: Any, *, sample_weight: Any = None, start: int = 0) -> Sketch:
        """Reduce a batch (one table, or an iterator of tables) to its sketch; sketches of parts add up.

        `start` is the position of the first row within a larger source, if the batch is a part of one.
        """
        return self._sketch_batch(X, sample_weight, start)[0]

    def _sketch_batch(self, X: Any, sample_weight: Any, start: int) -> tuple[Sketch, int]:
        self._check_fitted()
        if sample_weight is not None and is_batches(X):
            raise InputError(
                "sample_weight goes with one table; sketch the weighted tables apart and add the sketches."
            )
        sketch: Sketch | None = None
        dropped = 0
        for rows in read_batches(X, expected=self.columns_, on_missing=self._checked_on_missing()):
            weights = rows.keep(read_weights(sample_weight, len(rows.values) + rows.dropped))
            sketch = self._sketch(rows.values, None, weights, start, sketch)
            start += len(rows.values)
            dropped += rows.dropped
        assert sketch is not None  # read_batches refuses an empty source
        return sketch, dropped

    def predict(self, X: Any) -> Array:
        """The class shares of a batch, in the order of `classes_`."""
        target = X if isinstance(X, Sketch) else self._sketch_batch(X, None, 0)[0]
        return self._match(target)[0].alpha

    def _match(self, target: Sketch) -> tuple[Solution, Diagnostics, Blocks]:
        self._check_sketch(target)
        system = GramSystem.of(self.sketch_, target, self.gram_)
        solution = solve(system, soft=self.soft, positive=self.positive)
        diagnostics = self._diagnose(system, solution)
        for message in diagnostics.warnings:
            warnings.warn(message, ProportioWarning, stacklevel=3)
        return solution, diagnostics, Blocks(self.sketch_, target, system, self.soft)

    def estimate(self, X: Any, *, sample_weight: Any = None) -> Estimate:
        """The shares of a batch: a table, an iterator of tables, or a sketch that this model made."""
        began = time.perf_counter()
        target, dropped = (X, 0) if isinstance(X, Sketch) else self._sketch_batch(X, sample_weight, 0)
        sketched = time.perf_counter()
        solution, diagnostics, blocks = self._match(target)
        done = time.perf_counter()
        evidence = Evidence.of(blocks)
        if not diagnostics.warnings:
            notes = intervals.notes(evidence, self.classes_.tolist())
            diagnostics = replace(diagnostics, warnings=tuple(notes))
        return Estimate.of(
            self.classes_,
            solution.alpha,
            source_prior=self.sketch_.tally.totals / self.sketch_.tally.totals.sum(),
            soft=self.soft,
            method=self._method_name(),
            counts=self.sketch_.tally.counts,
            n_target=target.n_rows,
            dropped=dropped,
            diagnostics=diagnostics,
            timings={**getattr(self, "_timings", {}), "sketch": sketched - began, "solve": done - sketched},
            versions=dict(_versions()),
            positive=self.positive,
            blocks=blocks,
        )._with(evidence)

    def _check_sketch(self, target: Sketch) -> None:
        self._check_fitted()
        self.sketch_.require_rows()
        if type(target) is not type(self.sketch_) or target.map_id != self.sketch_.map_id:
            raise MismatchError(
                "this sketch was made by another model (its feature map differs): make it with this model's sketch(X), "
                "or with the same saved model."
            )
        if target.groups is not None:
            raise MismatchError("this is the sketch of a labelled reference, not of a batch: make it with sketch(X).")
        target.require_rows()

    def _diagnose(self, system: GramSystem, solution: Solution) -> Diagnostics:
        geometry = lambda_min if self.soft else delta_min
        dependent = tuple(plain(self.classes_[i]) for i in solution.dependent)
        status, notes = "ok", []
        if dependent:
            names = ", ".join(map(str, dependent))
            status = (
                f"dependent classes: the features cannot tell {names} apart, so only their joint share is identified. "
                "Merge them, or use features that separate them."
            )
            notes.append(status)
        else:
            corrected = unbiased(system.G, self.sketch_.tally)
            if np.isfinite(corrected).all() and geometry(corrected) <= 0:
                status = (
                    "not separated: with these rows the classes differ no more than chance allows, so the shares are guesses. "
                    "Add reference rows, or use features that separate the classes."
                )
                notes.append(status)
        return Diagnostics(
            delta_min=delta_min(system.G),
            lambda_min=lambda_min(system.G),
            residual=float(np.sqrt(system.squared_residual(solution.alpha))),
            kkt=solution.kkt,
            bandwidth=self.bandwidth_,
            n_features=self._n_features_out,
            bound=self.bound_,
            status=status,
            dependent=dependent,
            warnings=tuple(notes),
        )

    # -- files -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model (map, reference sketch, parameters) as safetensors; `proportio.load` reads it back."""
        self._check_fitted()
        storage.write(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
        self._check_fitted()
        sketch, sketch_arrays = self.sketch_.state()
        phi, phi_arrays = self._map_state()
        meta = {
            "class": type(self).__name__,
            "params": {k: v for k, v in self.get_params(deep=False).items() if _is_json(v)},
            "classes": {"values": self.classes_.tolist(), "dtype": self.classes_.dtype.str},
            "columns": {"count": self.columns_.count, "names": self.columns_.names},
            "sketch": sketch,
            "map": phi,
        }
        arrays = {f"sketch.{k}": v for k, v in sketch_arrays.items()} | {f"map.{k}": v for k, v in phi_arrays.items()}
        return storage.pack("model", meta, arrays)

    def _method_name(self) -> str:
        return f"soft{type(self).__name__}" if self.soft else type(self).__name__


def _is_json(v: Any) -> bool:
    return v is None or isinstance(v, (bool, int, float, str))


@functools.cache
def _versions() -> Mapping[str, str]:
    return {name: version(name) for name in ("proportio", "numpy", "scikit-learn", "numba", "daqp")}
