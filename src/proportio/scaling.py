"""Location, scale and typical distance of the reference rows: fitted on the source, stored, never refitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from proportio.errors import InputError
from proportio.sources import Floats

SHORTEST = 1e-75  # beyond it, and its inverse, squares and their products overflow

Array = npt.NDArray[np.float64]


def moments(X: Floats, weights: Array | None) -> tuple[Array, Array]:
    """Weighted mean and standard deviation of each column; a constant column gets scale 1."""
    step = max(1, (1 << 20) // X.shape[1])
    parts = [slice(i, i + step) for i in range(0, len(X), step)]

    def mean_of(values: Callable[[Array], Array]) -> Array:
        total: Array = np.zeros(X.shape[1])
        for part in parts:
            rows = values(X[part].astype(np.float64))
            total += rows.sum(axis=0) if weights is None else weights[part] @ rows
        return total / (len(X) if weights is None else weights.sum())

    mean = mean_of(lambda rows: rows)
    sd = np.sqrt(mean_of(lambda rows: np.square(rows - mean)))
    tiny = 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return mean, np.where(sd > tiny, sd, 1.0)


def median_distance(X: Floats, scale: Array, rng: np.random.Generator, at_most: int = 1000) -> float:
    """The median distance between (a sample of) rows, in units of `scale`; 1 where more than half coincide."""
    rows = X if len(X) <= at_most else X[np.sort(rng.choice(len(X), at_most, replace=False))]
    distances = pdist(np.asarray(rows, dtype=np.float64) / scale) if len(rows) > 1 else np.zeros(1)
    median = float(np.median(distances))
    return median if median > 0 else float(distances.max()) or 1.0


def check_length(value: Any, name: str = "bandwidth", remedy: str = "") -> float:
    """A finite length above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InputError(
            f"{name}={value!r} is not a number: give a finite number above 0, in standard deviations of the columns{remedy}."
        )
    if not SHORTEST < value < 1 / SHORTEST:
        raise InputError(
            f"{name}={value!r} must be finite and above 0 ({SHORTEST:g} to {1 / SHORTEST:g}): "
            f"it is a length, in standard deviations of the columns{remedy}."
        )
    return float(value)


def check_bandwidth(value: Any) -> float:
    """A finite bandwidth above 0."""
    return check_length(value, remedy="; bandwidth='median' takes their median distance")
