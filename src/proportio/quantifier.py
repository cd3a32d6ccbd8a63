"""The life of every quantifier: fit a map on labelled rows, sketch, match, answer. `methods` has the named ones.

α̂ = argmin ‖Σ α_i Φ̂_i − Φ̂(Q)‖²  over the simplex (P), or over {α ≥ 0, 1ᵀα ≤ 1} (P₂, soft)
"""

from __future__ import annotations

import functools
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from proportio import engines, intervals, storage
from proportio.engines import Engine, Progress, Recipe
from proportio.errors import MismatchError, NotFittedError, ProportioWarning
from proportio.estimate import Diagnostics, Estimate
from proportio.evidence import Blocks, Evidence
from proportio.fitting import Fits, Groups, Labels
from proportio.gram import GramSystem, delta_min, lambda_min, unbiased
from proportio.labelled import UsesLabels
from proportio.simplex import Solution, solve
from proportio.sketch import Sketch, plain
from proportio.sources import Columns, Floats

Array = npt.NDArray[np.float64]

__all__ = ["Array", "Groups", "Labels", "Quantifier"]


class Quantifier(UsesLabels, Fits, BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn has no type hints
    """Fits on labelled rows, then tells the class shares of unlabelled batches.

    After `fit`: `classes_`, `n_features_in_`, `feature_names_in_` (if the columns had names), `sketch_` (the reference,
    reduced) and `gram_` (G).
    """

    soft: bool
    positive: bool

    classes_: Labels
    columns_: Columns
    sketch_: Sketch

    # -- what a concrete quantifier defines ------------------------------------------------------------------

    @abstractmethod
    def _similarity(self, X: Floats, sketch: Sketch) -> Array:
        """⟨Φ(x), Φ̂_g⟩ for every row and group, and √k(x, x)-free: (n, groups)."""

    @abstractmethod
    def _map_state(self) -> tuple[dict[str, Any], storage.Arrays]:
        """What a file needs to rebuild Φ."""

    @abstractmethod
    def _restore_map(self, meta: dict[str, Any], arrays: storage.Arrays, supply: list[Any]) -> None:
        """Inverse of `_map_state`."""

    @abstractmethod
    def _recipe(self) -> Recipe:
        """What makes the same sketches elsewhere."""

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

    def sketch(
        self,
        X: Any,
        *,
        sample_weight: Any = None,
        start: int = 0,
        progress: Progress | None = None,
        engine: Engine = "auto",
    ) -> Sketch:
        """Reduce a batch (a table, an iterator of tables, a source) to its sketch; sketches of parts add up.

        A Dask or Spark DataFrame, or a list of delayed tables, is reduced where its rows are, and `engine="dask"` or
        `"spark"` has a cluster read the files of a source. `start` is the position of the first row within a larger source, if
        the batch is a part of one. `progress(done, total)` is called with the rows done and all of them (None if unknown), a
        batch at a time; of Dask and Spark, which have displays of their own, once at the end.
        """
        return self._reduce(X, sample_weight, start, progress, engine)[0]

    def _reduce(
        self,
        X: Any,
        sample_weight: Any = None,
        start: int = 0,
        progress: Progress | None = None,
        engine: Engine = "auto",
    ) -> tuple[Sketch, int]:
        """A batch as its sketch, and how many of its rows were dropped."""
        self._check_fitted()
        part = engines.reduce(
            lambda X, weights, start, onto: self._sketch(X, None, weights, start, onto),
            self._recipe,
            X,
            engine=engine,
            columns=self.columns_,
            on_missing=self._checked_on_missing(),
            sample_weight=sample_weight,
            start=start,
            n_jobs=self.n_jobs,
            progress=progress,
        )
        assert part.sketch is not None  # an empty source is refused
        return part.sketch, part.dropped

    def predict(self, X: Any) -> Array:
        """The class shares of a batch, in the order of `classes_`."""
        target = X if isinstance(X, Sketch) else self._reduce(X)[0]
        return self._match(target)[0].alpha

    def _match(self, target: Sketch) -> tuple[Solution, Diagnostics, Blocks]:
        self._check_sketch(target)
        system = GramSystem.of(self.sketch_, target, self.gram_)
        solution = solve(system, soft=self.soft, positive=self.positive)
        diagnostics = self._diagnose(system, solution)
        for message in diagnostics.warnings:
            warnings.warn(message, ProportioWarning, stacklevel=3)
        return solution, diagnostics, Blocks(self.sketch_, target, system, self.soft)

    def estimate(
        self, X: Any, *, sample_weight: Any = None, progress: Progress | None = None, engine: Engine = "auto"
    ) -> Estimate:
        """The shares of a batch: all that `sketch` takes, or a sketch that this model made.

        `progress` and `engine` are those of `sketch`.
        """
        began = time.perf_counter()
        target, dropped = (X, 0) if isinstance(X, Sketch) else self._reduce(X, sample_weight, 0, progress, engine)
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
            "reading": getattr(self, "reading_", {}),
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
