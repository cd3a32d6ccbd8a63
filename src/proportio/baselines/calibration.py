"""Calibration of posteriors on rows the classifier was not trained on: p ↦ softmax(scores(z)), by maximum likelihood.

    z_k = log p_k − mean_j log p_j         the logits, as far as posteriors tell them
    temperature    s · z                   one scale s = 1/T
    bcts           s · z + b               and a bias for each class (bias-corrected temperature scaling)
    vector         s_k · z_k + b_k         a scale and a bias for each class
    nbvs           s_k · z_k               a scale for each class (no-bias vector scaling)

Each is linear in its parameters, so the log-loss is convex: Newton's method, with the largest entry of the gradient as certificate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax, softmax

from proportio.errors import InputError

Array = npt.NDArray[np.float64]
Calibration: TypeAlias = Literal["temperature", "vector", "bcts", "nbvs"]

LEAST = 1e-12  # posteriors are taken to be at least this: a tree's zeros have no logarithm
CERTIFIED = 1e-10
MOST_STEPS = 100


@dataclass(frozen=True, eq=False)
class Calibrator:
    """The fitted map: scores = scale · z + bias; `gradient` certifies the fit."""

    scale: Array
    bias: Array
    gradient: float

    def __call__(self, p: Array) -> Array:
        """Calibrated posteriors, one row each."""
        return np.asarray(softmax(logits(p) * self.scale + self.bias, axis=1))


def logits(p: Array) -> Array:
    """log p less its mean over the classes."""
    logs = np.log(np.maximum(p, LEAST))
    return np.asarray(logs - logs.mean(axis=1, keepdims=True))


def fit(p: Array, groups: npt.NDArray[np.integer], weights: Array, kind: Calibration) -> Calibrator:
    """The calibrator of least log-loss on posteriors p (n, c) of rows of the classes `groups`."""
    if kind not in get_args(Calibration):
        names = ", ".join(map(repr, get_args(Calibration)))
        raise InputError(f"calibration={kind!r} is not {names} or None.")
    n, c = p.shape
    logs, w = logits(p), weights / weights.sum()
    scales = np.ones((1, c)) if kind in ("temperature", "bcts") else np.eye(c)
    biases = np.eye(c)[1:] if kind in ("vector", "bcts") else np.empty((0, c))
    k = len(scales)
    theta = np.concatenate([np.ones(k), np.zeros(len(biases))])
    true = np.eye(c)[groups]

    def loss(at: Array) -> tuple[float, Array]:
        scores = logs * (at[:k] @ scales) + at[k:] @ biases
        return -float(w @ (log_softmax(scores, axis=1) * true).sum(axis=1)), scores

    value, scores = loss(theta)
    certificate = np.inf
    for _ in range(MOST_STEPS):
        q = np.asarray(softmax(scores, axis=1))
        error = w[:, None] * (q - true)
        gradient = np.concatenate([scales @ (error * logs).sum(axis=0), biases @ error.sum(axis=0)])
        certificate = float(np.abs(gradient).max())
        if certificate <= CERTIFIED:
            break
        D = np.concatenate([logs[:, None, :] * scales, np.broadcast_to(biases, (n, *biases.shape))], axis=1)
        mean = (D * q[:, None, :]).sum(axis=2)
        H = np.einsum("n,nac,nbc->ab", w, D * q[:, None, :], D, optimize=True) - (mean * w[:, None]).T @ mean
        step = np.linalg.lstsq(H, -gradient, rcond=1e-12)[0]
        size = 1.0
        while size > 1e-10:
            lower, moved = loss(theta + size * step)
            if lower <= value + 1e-4 * size * float(gradient @ step) + 1e-15:
                break
            size /= 2
        else:
            break
        theta, value, scores = theta + size * step, lower, moved
    return Calibrator(theta[:k] @ scales, theta[k:] @ biases, certificate)
