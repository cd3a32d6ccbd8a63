"""Posteriors that every library is handed alike, so that only what it makes of them can differ."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

RNG = np.random.default_rng(4)
PRIOR = np.array([0.3, 0.5, 0.2])
GROUPS = np.repeat([0, 1, 2], [90, 150, 60])
MIXED = RNG.choice(3, 200, p=[0.6, 0.1, 0.3])


class Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose rows are their own posteriors."""

    def __init__(self, n_classes: int = 3) -> None:
        self.n_classes = n_classes

    @property
    def classes_(self) -> Any:
        return np.arange(self.n_classes)

    def fit(self, X: Any, y: Any) -> Given:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:
        return X / X.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


def _posteriors(groups: Any) -> Any:
    scores = RNG.normal(size=(len(groups), 3)) + 1.5 * np.eye(3)[groups] + np.log(PRIOR)
    e = np.exp(scores)
    return e / e.sum(axis=1, keepdims=True)


SOURCE, BATCH = _posteriors(GROUPS), _posteriors(MIXED)
TWO = GROUPS < 2
SOURCE2, GROUPS2 = SOURCE[TWO][:, :2] / SOURCE[TWO][:, :2].sum(axis=1, keepdims=True), GROUPS[TWO]
BATCH2 = BATCH[:, :2] / BATCH[:, :2].sum(axis=1, keepdims=True)


def fitted(kind: Callable[..., Any], **params: Any) -> Any:
    """Ours, on the posteriors of three classes."""
    return kind(Given(), cv="prefit", **params).fit(SOURCE, GROUPS)


def ours(kind: Callable[..., Any], **params: Any) -> Any:
    """Our shares of three classes."""
    return fitted(kind, **params).predict(BATCH)


def ours2(kind: Callable[..., Any], **params: Any) -> Any:
    """Our shares of two classes."""
    return kind(Given(2), cv="prefit", **params).fit(SOURCE2, GROUPS2).predict(BATCH2)


__all__ = ["BATCH", "BATCH2", "GROUPS", "GROUPS2", "SOURCE", "SOURCE2", "Given", "fitted", "ours", "ours2"]
