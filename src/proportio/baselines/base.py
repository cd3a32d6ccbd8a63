"""The life of the related methods: fit on labelled rows, reduce rows to a representation, solve, and tell the noise.

A method is a representation (a classifier's cross-fitted posteriors or decisions, or the columns themselves) and a `Problem`: given
the weights ω of the reference rows, which sum to one in each class, and those of the batch, it has a solution α̂. Error bars:

    features    near the truth every smooth divergence is ‖Bα − ψ‖² for some feature map (χ² for histograms, the posteriors at α̂
                for a likelihood), so they are those of DFM with these features: α̃ and V from block sums, nothing drawn
    bootstrap   V = Cov α̃* over rows drawn again within each class and within the batch, where it is not smooth

Both are free of α ≥ 0, so that they hold on the boundary too, but for Wasserstein's. The classifier is
held fixed: it is never fitted again.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from proportio import intervals
from proportio.baselines.convex import Minimum
from proportio.blocks import Blocks
from proportio.errors import InputError
from proportio.estimate import Diagnostics, Estimate
from proportio.evidence import Evidence
from proportio.features import Function
from proportio.features.base import FeatureMap, is_count
from proportio.features.classifier import Posterior, cloned
from proportio.gram import GramSystem
from proportio.quantifier import versions
from proportio.reference import Labels, Reference
from proportio.sketch import sketch_rows
from proportio.sources import Columns, Floats, OnMissing, is_batches, read_batches, read_weights

Array = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int32]

SOLVED = 1e-6  # a certificate above this is a status, not rounding


@dataclass(frozen=True, eq=False)
class Source:
    """The represented reference: rows Z, the class index of each, its weight; `omega` are the weights within its class."""

    Z: Array
    groups: Groups
    weights: Array
    c: int

    @property
    def omega(self) -> Array:
        """(n, c): ω_j in the column of its class, 0 elsewhere; every column sums to one."""
        out = np.zeros((len(self.Z), self.c))
        out[np.arange(len(self.Z)), self.groups] = self.weights
        return np.asarray(out / out.sum(axis=0))

    @property
    def prior(self) -> Array:
        """β̃."""
        totals = np.bincount(self.groups, self.weights, self.c)
        return np.asarray(totals / totals.sum())

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """n_i."""
        return np.bincount(self.groups, minlength=self.c)


class Problem(ABC):
    """One batch to be explained by one reference."""

    @abstractmethod
    def solve(self, omega: Array, weights: Array) -> Minimum:
        """α̂ for reference weights ω (n, c) and batch weights (m,), each summing to one."""

    def relaxed(self, omega: Array, weights: Array) -> Callable[[Array, Array], Array]:
        """What a bootstrap repeats: where it can, the solution free of α ≥ 0, what was chosen from these weights held.

        On the boundary the bootstrap of a constrained estimate is inconsistent; that of a free one is not.
        """
        return lambda omega, weights: self.solve(omega, weights).alpha

    def features(self, omega: Array, weights: Array, alpha: Array) -> tuple[Array, Array] | None:
        """Φ of the rows of both samples with which DFM is this problem's linearisation near α; None: bootstrap."""
        return None


class Baseline(Reference, ABC):
    """A related method of the field, with the estimators' API; after `fit`: `classes_`, `n_features_in_`, `source_`."""

    random_state: Any
    n_jobs = None
    draws: int = 0

    source_: Source

    @abstractmethod
    def _represent_source(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> tuple[Array, Any]:
        """The representation of the reference rows, and which of them it has (a mask)."""

    @abstractmethod
    def _represent(self, X: Floats) -> Array:
        """The representation of a batch."""

    @abstractmethod
    def _problem(self, Z: Array) -> Problem:
        """The problem of one represented batch."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit on reference rows X (array or frame) with one label each; `sample_weight` counts a row several times."""
        began = time.perf_counter()
        rows, labels, weights = self._read_reference(X, y, sample_weight, None)
        self._forget()
        classes = np.unique(labels)
        self._check_classes(classes)
        self._check_parameters()
        self._set_columns(rows.columns)
        self.classes_ = classes
        Z, used = self._represent_source(rows.values, labels, weights, rows.columns)
        groups = np.searchsorted(classes, labels).astype(np.int32)
        w = np.ones(len(labels)) if weights is None else weights
        used = used & (w > 0)
        self._check_rows(np.bincount(groups[used], minlength=len(classes)))
        self.source_ = Source(Z[used], groups[used], w[used], len(classes))
        self._learn()
        self._fit_seconds = time.perf_counter() - began
        return self

    def _learn(self) -> None:
        """What else is learnt from the represented reference."""

    def _check_parameters(self) -> None:
        if not is_count(self.draws) or self.draws < 0 or 0 < self.draws < 20:
            raise InputError(f"draws={self.draws!r}: give 0 for no intervals, or 20 bootstrap draws or more.")

    def _check_rows(self, counts: npt.NDArray[Any]) -> None:
        if not counts.all():
            k = self.classes_[int(np.argmin(counts))].item()
            raise InputError(f"class {k!r} has no row of weight above 0: add rows, or leave the class out.")

    def predict(self, X: Any) -> Array:
        """The class shares of a batch, in the order of `classes_`."""
        Z, weights, _ = self._read_batch(X, None)
        return self._problem(Z).solve(self.source_.omega, weights / weights.sum()).alpha

    def estimate(self, X: Any, *, sample_weight: Any = None) -> Estimate:
        """The shares of a batch: a table, or an iterator of tables."""
        began = time.perf_counter()
        Z, weights, dropped = self._read_batch(X, sample_weight)
        read = time.perf_counter()
        source, problem = self.source_, self._problem(Z)
        found = problem.solve(source.omega, weights / weights.sum())
        solved = time.perf_counter()
        blocks, evidence = self._noise(problem, weights, found.alpha)
        done = time.perf_counter()
        notes = [] if evidence is None else intervals.notes(evidence, self.classes_.tolist())
        status = "ok"
        if not found.kkt <= SOLVED:
            status = (
                f"not solved: the certificate of the optimum is {found.kkt:.1g}, where {SOLVED:g} is wanted. Add rows."
            )
        nan = float("nan")
        return Estimate.of(
            self.classes_,
            found.alpha,
            source_prior=source.prior,
            method=type(self).__name__,
            counts=source.counts,
            n_target=len(Z),
            dropped=dropped,
            diagnostics=Diagnostics(nan, nan, nan, found.kkt, None, Z.shape[1], None, status, warnings=tuple(notes)),
            timings={
                "fit": self._fit_seconds,
                "represent": read - began,
                "solve": solved - read,
                "noise": done - solved,
            },
            versions=versions(),
            blocks=blocks,
        )._with(evidence)

    def _read_batch(self, X: Any, sample_weight: Any) -> tuple[Array, Array, int]:
        self._check_fitted()
        if sample_weight is not None and is_batches(X):
            raise InputError("sample_weight goes with one table: join the tables and their weights.")
        parts, weights, dropped = [], [], 0
        for rows in read_batches(X, expected=self.columns_, on_missing=self._checked_on_missing()):
            given = rows.keep(read_weights(sample_weight, len(rows.values) + rows.dropped))
            dropped += rows.dropped
            if len(rows.values):
                parts.append(self._represent(rows.values))
                weights.append(np.ones(len(rows.values)) if given is None else given)
        return np.concatenate(parts), np.concatenate(weights), dropped

    # -- the noise -------------------------------------------------------------------------------------------

    def _noise(self, problem: Problem, weights: Array, alpha: Array) -> tuple[Blocks | None, Evidence | None]:
        omega, w = self.source_.omega, weights / weights.sum()
        known = problem.features(omega, w, alpha)
        if known is not None:
            blocks = self._blocks(*known, weights)
            return blocks, Evidence.of(blocks)
        if not self.draws:
            return None, None
        rng = np.random.default_rng(self.random_state)
        solution = problem.relaxed(omega, w)
        drawn = np.array([solution(*self._again(rng, omega, w)) for _ in range(self.draws)])
        rows = [*(1 / (omega**2).sum(axis=0)), 1 / float((w**2).sum())]
        return None, Evidence.of_draws(solution(omega, w), drawn, rows)

    def _blocks(self, source: Array, batch: Array, weights: Array) -> Blocks:
        """The block sums of DFM with these features."""
        known = self.source_
        phi = Function(_itself).fit_rows(source, None, None)
        labels = self.classes_.tolist()
        reference = sketch_rows(
            phi, source, known.groups, labels, weights=_unless_ones(known.weights), map_id="linearised"
        )
        target = sketch_rows(phi, batch, weights=_unless_ones(weights), map_id="linearised")
        return Blocks(reference, target, GramSystem.of(reference, target), soft=False)

    def _again(self, rng: np.random.Generator, omega: Array, weights: Array) -> tuple[Array, Array]:
        """Weights of rows drawn again with replacement, within each class and within the batch."""
        times = np.empty(len(omega))
        for k, n in enumerate(self.source_.counts):
            times[self.source_.groups == k] = rng.multinomial(n, np.full(n, 1 / n))
        again = omega * times[:, None]
        m = len(weights)
        batch = weights * rng.multinomial(m, np.full(m, 1 / m))
        if not batch.any():  # only rows of weight 0 were drawn
            batch = weights
        return again / again.sum(axis=0), batch / batch.sum()


class OnPosteriors(Baseline):
    """A method that sees a row through a classifier's posterior.

    The classifier (logistic regression by default) is cross-fitted so that it never represents its training rows; a batch is
    represented by the mean of the members. `cv="split"` trains on one half; `cv="prefit"` takes one trained elsewhere.
    """

    _features: type[Posterior] = Posterior

    def __init__(
        self,
        classifier: Any = None,
        *,
        cv: int | Literal["split", "prefit"] = 5,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        self.classifier = classifier
        self.cv = cv
        self.on_missing = on_missing
        self.random_state = random_state

    def __sklearn_clone__(self) -> Self:
        return cast("Self", cloned(self))

    def _represent_source(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> tuple[Array, Any]:
        phi = self._features(self.classifier, cv=self.cv, random_state=self.random_state)
        self.features_ = phi.fit_rows(X, y, weights, columns)
        Z, used = cross_embedded(phi, X)
        if Z.shape[1] != len(self.classes_):
            raise InputError(
                f"the classifier knows {Z.shape[1]} classes and y has {len(self.classes_)}: fit both on the same labels."
            )
        return Z, used

    def _represent(self, X: Floats) -> Array:
        return self.features_.embed(X)


def cross_embedded(phi: FeatureMap, X: Floats) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Φ of the rows that the map was fitted on, each by the member that did not see it; and which rows have one."""
    if phi.folds_ is None:
        return phi.embed(X), np.ones(len(X), dtype=bool)
    used = phi.folds_ >= 0
    Z = np.zeros((len(X), phi.dim))
    for k in range(int(phi.folds_.max()) + 1):
        rows = phi.folds_ == k
        Z[rows] = phi.member(k).embed(X[rows])
    return Z, used


def interior(alpha: Array) -> Array:
    """A tenth of the way to equal shares: where a linearisation is about it must give every class some mass."""
    return np.asarray(0.9 * alpha + 0.1 / len(alpha))


def _itself(rows: Any) -> Any:
    return rows


def _unless_ones(weights: Array) -> Array | None:
    return None if (weights == 1).all() else weights
