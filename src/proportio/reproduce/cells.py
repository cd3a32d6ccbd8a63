"""What is run, in its own words: a method, a noise, and the cell of an experiment's grid, each a frozen dataclass.

A cell knows how to compute its rows, as a pure function of its fields and the plan's seed. To add a method, a noise or an
experiment is to write one more of these; nothing else has to know.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from proportio.errors import ProportioWarning

Array = npt.NDArray[np.float64]
Value = str | int | float | bool | None
Row = dict[str, Value]


@dataclass(frozen=True)
class Method:
    """An estimator with `fit(X, y)` and `predict(X)`, under the name that tables and figures show.

    `make(**params)` builds it; where it knows them it is also given `random_state` and `n_jobs`. With `factor` ≠ 1 the bandwidth
    that it chose is multiplied and the model fitted again.
    """

    name: str
    make: Callable[..., Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    factor: float = 1.0

    def fitted(self, X: Any, y: Any, random_state: int, n_jobs: int | None = 1) -> Any:
        """The model on these rows."""
        known = inspect.signature(self.make).parameters
        free = {"random_state": random_state, "n_jobs": n_jobs}
        params = {**{k: v for k, v in free.items() if k in known}, **self.params}
        model = self.make(**params).fit(X, y)
        if self.factor == 1:
            return model
        return self.make(**{**params, "bandwidth": model.bandwidth_ * self.factor}).fit(X, y)


@dataclass(frozen=True)
class Noise:
    """A contamination Q_0: `draw(rng, size, world, source rows, **params)` gives its rows."""

    name: str
    draw: Callable[..., Array]
    params: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, rng: np.random.Generator, size: int, world: Any, source: Array) -> Array:
        """`size` rows of the contaminant."""
        return self.draw(rng, size, world, source, **self.params)


class Cell(ABC):
    """One task, concretely a frozen dataclass: its fields are its whole description, `rows` its result.

    `experiment` names the table that the rows go to. `timed` rows are measured times: kept apart, and run alone.
    """

    experiment: str
    timed: ClassVar[bool] = False

    @abstractmethod
    def rows(self, seed: int) -> list[Row]:
        """The rows of this cell: the same bits whenever and wherever it runs."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The cell in a few words, for the progress line."""


class Experiment(ABC):
    """A grid of cells; concrete ones are frozen dataclasses."""

    name: str

    @abstractmethod
    def cells(self) -> list[Cell]:
        """Every cell of the grid."""


def predicted(model: Any, X: Any) -> tuple[Array, bool]:
    """The shares of a batch, and whether the model warned that they are guesses."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        alpha = np.asarray(model.predict(X), dtype=np.float64)
    return alpha, any(issubclass(w.category, ProportioWarning) for w in caught)


def errors(alpha: Array, true: Array) -> Row:
    """‖α̂ − α*‖₂, and against α*/(1 − α_0), which a hard estimator estimates at best; `true` sums to 1 − α_0.

    `error_normalised` takes α̂ as it is, `error_rescaled` the shares among the known classes, α̂/1ᵀα̂.

    >>> errors(np.array([0.5, 0.5]), np.array([0.4, 0.4]))["error_normalised"]
    0.0
    """
    known = float(alpha.sum())
    return {
        "error": float(np.linalg.norm(alpha - true)),
        "error_normalised": float(np.linalg.norm(alpha - true / true.sum())),
        "error_rescaled": float(np.linalg.norm((alpha / known if known > 0 else alpha) - true / true.sum())),
        "unknown_estimate": max(0.0, 1 - known),
    }
