"""p'(i|x) = w_i p(i|x) / Σ_j w_j p(j|x), w_i = α̂_i/β_i: a classifier's posteriors carried over to the shares of a batch.

Under label shift this is Bayes' rule with the new shares, exactly, if p are the posteriors at the shares β of the training
rows: it is as good as the classifier is calibrated. With an unknown share, u(x) says how little the known classes explain row x:
(1 − u) p' for them, u for the unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from proportio.errors import InputError, InputTypeError, MismatchError, NotFittedError, ProportioWarning
from proportio.estimate import Array, Estimate
from proportio.shift import SOMETHING_ELSE


class Corrected(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type hints
    """A fitted classifier whose posteriors and decisions are those of a batch's shares; made by `proportio.correct`."""

    def __init__(
        self,
        classifier: Any,
        weights: Sequence[float],
        *,
        unknown: Callable[[Any], Any] | None = None,
        unknown_label: Any = None,
    ) -> None:
        self.classifier = classifier
        self.weights = weights
        self.unknown = unknown
        self.unknown_label = unknown_label

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classifier's classes, and the unknown's label after them where there is one."""
        known = np.asarray(self.classifier.classes_)
        return known if self.unknown is None else np.append(known, self.unknown_label)

    @property
    def n_features_in_(self) -> int:
        """The columns that the classifier knows."""
        return int(self.classifier.n_features_in_)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is left to fit: the classifier and the weights are given."""
        return self

    def predict_proba(self, X: Any) -> Array:
        """The corrected posteriors, in the order of `classes_`."""
        plain = np.asarray(self.classifier.predict_proba(X), dtype=np.float64)
        p = plain * np.asarray(self.weights)
        total = p.sum(axis=1, keepdims=True)
        p = np.divide(p, total, out=plain, where=total > 0)  # a row that only classes of share 0 explain stays as it is
        if self.unknown is None:
            return np.asarray(p)
        u = np.asarray(self.unknown(X), dtype=np.float64)
        if u.shape != (len(p),) or not ((u >= 0) & (u <= 1)).all():
            raise InputError(
                f"unknown(X) returned shape {u.shape} for {len(p)} rows: it must return one number from 0 to 1 a row."
            )
        out: Array = np.column_stack([(1 - u)[:, None] * p, u])
        return out

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable class of each row; `unknown_label` where none of them is more probable than the unknown."""
        labels: npt.NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return labels


def correct(
    classifier: Any,
    est: Estimate,
    *,
    trained_on: Sequence[float] | None = None,
    unknown: Callable[[Any], Any] | None = None,
    unknown_label: Any = None,
) -> Corrected:
    """A classifier for the batch of `est`: its posteriors re-weighted from the shares it was trained at to those estimated.

    `trained_on` are the shares of the classifier's training rows, in the order of its classes (default: those of the
    reference). Where the label-shift test says that something else is in the batch, this warns: weights mend shares, not classes
    that look different. To abstain on what no class explains, give `unknown`, a function of a batch's rows such as
    `model.score_unknown`, and `unknown_label`, the label of such rows.

    >>> import numpy as np, proportio as pp
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + y[:, None]
    >>> batch, truth = X[450:], y[450:]  # one in eleven is a 0
    >>> classifier, est = LogisticRegression().fit(X, y), pp.RFFM(n_features=200).fit(X, y).estimate(batch)
    >>> bool(pp.correct(classifier, est).score(batch, truth) > classifier.score(batch, truth) + 0.05)
    True
    """
    if not isinstance(est, Estimate):
        raise InputTypeError(f"est is a {type(est).__name__}: pass the answer of model.estimate(X).")
    if hasattr(classifier, "predict_proba") and not hasattr(classifier, "classes_"):
        raise NotFittedError(f"{type(classifier).__name__} is not fitted yet: call its fit(X, y) first.")
    if not hasattr(classifier, "predict_proba"):
        raise InputError(
            f"{type(classifier).__name__} has no posteriors to correct: pass a fitted classifier with predict_proba, "
            "for example CalibratedClassifierCV around this one."
        )
    known = np.asarray(classifier.classes_).tolist()
    if set(known) != set(est.classes.tolist()):
        raise MismatchError(
            f"the classifier knows the classes {known!r} and the estimate {est.classes.tolist()!r}: "
            "both must come from a reference with the same labels."
        )
    order = [est.classes.tolist().index(k) for k in known]
    prior = est.source_prior[order] if trained_on is None else np.asarray(trained_on, dtype=np.float64)
    if prior.shape != (len(known),) or not np.isfinite(prior).all() or prior.min() <= 0:
        raise InputError(f"trained_on={trained_on!r}: give a share above 0 for each of the classes {known!r}.")
    if est.proportions.max() <= 0:
        raise InputError("the estimate gives every class a share of 0: no decision can follow from it.")
    if (unknown is None) != (unknown_label is None):
        raise InputError(
            "to abstain, give both unknown=model.score_unknown and unknown_label=..., the label of rows that no class explains."
        )
    if unknown_label is not None and (unknown_label in known or np.append(known, unknown_label).tolist()[:-1] != known):
        raise InputError(
            f"unknown_label={unknown_label!r} must be a new label of the same type as the classes {known[:5]!r}."
        )
    if unknown is None and est.testable and est.label_shift_test().verdict == SOMETHING_ELSE:
        warnings.warn(
            "something else is in this batch than new shares of the known classes (est.label_shift_test()). Weights mend shares, "
            "not classes that look different, and may cost accuracy: check on some labelled rows, or give unknown to abstain.",
            ProportioWarning,
            stacklevel=2,
        )
    weights = (np.maximum(est.proportions[order], 0) / prior).tolist()
    return Corrected(classifier, weights, unknown=unknown, unknown_label=unknown_label)
