"""How far estimated shares α̂ are from true ones α, in the measures of the field.

    ae    mean |α̂ − α|                         nae   Σ|α̂ − α| / 2(1 − min α)
    rae   mean |α̂ − α|/α                       nrae  Σ|α̂ − α|/α / (c − 1 + (1 − min α)/min α)
    se    mean (α̂ − α)²                        l2    ‖α̂ − α‖₂
    kld   Σ α log(α/α̂)                         nkld  2e^kld/(1 + e^kld) − 1
    nmd   Σ_{i<c} |Σ_{j≤i} α̂_j − α_j| / (c − 1), for ordered classes

Those that divide by a share smooth both first, (α + ε)/(1 + cε) with ε = 1/(2m), m the rows of the batch, as is customary.
Shares lie along the last axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError

Array = npt.NDArray[np.float64]


def smoothed(alpha: Any, m: int) -> Array:
    """(α + ε)/(Σα + cε), ε = 1/(2m): no share is 0."""
    alpha = np.asarray(alpha, dtype=np.float64)
    epsilon = 1 / (2 * m)
    total = alpha.sum(axis=-1, keepdims=True)
    return np.asarray((np.maximum(alpha, 0) + epsilon) / (total + epsilon * alpha.shape[-1]))


def ae(true: Array, estimated: Array, m: int) -> Array:
    """The mean absolute error over the classes."""
    return np.asarray(np.abs(estimated - true).mean(axis=-1))


def nae(true: Array, estimated: Array, m: int) -> Array:
    """The absolute error over its largest possible value."""
    return np.asarray(np.abs(estimated - true).sum(axis=-1) / (2 * (1 - true.min(axis=-1))))


def rae(true: Array, estimated: Array, m: int) -> Array:
    """The mean absolute error in units of the true share, smoothed."""
    p, q = smoothed(true, m), smoothed(estimated, m)
    return np.asarray((np.abs(q - p) / p).mean(axis=-1))


def nrae(true: Array, estimated: Array, m: int) -> Array:
    """The relative error over its largest possible value, smoothed."""
    p, q = smoothed(true, m), smoothed(estimated, m)
    least = p.min(axis=-1)
    return np.asarray((np.abs(q - p) / p).sum(axis=-1) / (p.shape[-1] - 1 + (1 - least) / least))


def se(true: Array, estimated: Array, m: int) -> Array:
    """The mean squared error over the classes."""
    return np.asarray(((estimated - true) ** 2).mean(axis=-1))


def l2(true: Array, estimated: Array, m: int) -> Array:
    """The Euclidean distance: the paper's error."""
    return np.asarray(np.linalg.norm(np.asarray(estimated) - true, axis=-1))


def kld(true: Array, estimated: Array, m: int) -> Array:
    """The Kullback-Leibler divergence, smoothed."""
    p, q = smoothed(true, m), smoothed(estimated, m)
    return np.asarray((p * np.log(p / q)).sum(axis=-1))


def nkld(true: Array, estimated: Array, m: int) -> Array:
    """The Kullback-Leibler divergence brought into [0, 1)."""
    return np.asarray(np.tanh(kld(true, estimated, m) / 2))


def nmd(true: Array, estimated: Array, m: int) -> Array:
    """The earth mover's distance between ordered classes, over its largest value."""
    gaps = np.cumsum(np.asarray(estimated) - true, axis=-1)[..., :-1]
    return np.asarray(np.abs(gaps).sum(axis=-1) / gaps.shape[-1])


MEASURES: dict[str, Callable[[Array, Array, int], Array]] = {
    f.__name__: f for f in (ae, nae, rae, nrae, se, l2, kld, nkld, nmd)
}


def measure(name: str, true: Any, estimated: Any, m: int) -> Array:
    """The measure of this name; `m` rows in the batch decide the smoothing.

    >>> float(measure("ae", [0.5, 0.5], [0.4, 0.6], 100).round(12))
    0.1
    """
    if name not in MEASURES:
        raise InputError(f"measure {name!r} is not one of {', '.join(MEASURES)}.")
    p, q = np.asarray(true, dtype=np.float64), np.asarray(estimated, dtype=np.float64)
    if p.shape != q.shape:
        raise InputError(
            f"true shares have shape {p.shape} and estimated ones {q.shape}: give both for the same classes."
        )
    return MEASURES[name](p, q, m)
