"""Φ(x) = the posterior of a classifier, or its one-hot decision (paper Prop. 1): BBSE and its soft cousin.

A classifier must not embed the rows it was trained on. `cv=k` cross-fits: each source row is embedded by the member
that did not see its fold, a batch by the mean of all members, so that both have the same expectation under label
shift. `cv="split"` trains on one half and embeds the other; `cv="prefit"` takes a classifier trained elsewhere.
"""

from __future__ import annotations

import copy
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from proportio.errors import FileError, InputError, MismatchError
from proportio.features.base import Array, FeatureMap, check_parts
from proportio.sources import Columns, Floats
from proportio.storage import Arrays

N_PROBES = 8


class Affine:
    """softmax(xᵀW + b): a (standardised) logistic regression reduced to the arrays that a file can carry."""

    def __init__(self, weights: Array, bias: Array) -> None:
        self.weights, self.bias = weights, bias

    def predict_proba(self, X: Floats) -> Array:
        scores = X @ self.weights + self.bias
        scores -= scores.max(axis=1, keepdims=True)
        p = np.exp(scores)
        out: Array = p / p.sum(axis=1, keepdims=True)
        return out


class Posterior(FeatureMap):
    """Φ(x) = P̂(y = · | x), a point of the simplex, so C = 1 (PACC as feature matching).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 50)
    >>> X = rng.normal(size=(100, 2)) + 2 * (y == "b")[:, None]
    >>> bool(np.allclose(Posterior().fit(X, y).transform(X[:3]).sum(axis=1), 1))
    True
    """

    def __init__(
        self, classifier: Any = None, *, cv: int | Literal["split", "prefit"] = 5, random_state: Any = 0
    ) -> None:
        self.classifier = classifier
        self.cv = cv
        self.random_state = random_state

    def __sklearn_clone__(self) -> Self:
        return cast("Self", cloned(self))

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        if self.cv == "prefit":
            if self.classifier is None:
                raise InputError("cv='prefit' needs a fitted classifier, got classifier=None.")
            self.members_, self.folds_ = [self.classifier], None
        else:
            if y is None:
                raise InputError("training a classifier needs labels y; or pass a fitted one with cv='prefit'.")
            self._train(X, y, weights)
        self._probe(X.mean(axis=0, dtype=np.float64), X.std(axis=0, dtype=np.float64))

    def _train(self, X: Floats, y: npt.NDArray[Any], weights: Array | None) -> None:
        self.folds_ = self._deal(y)
        self.members_ = []
        members = [-1] if self.cv == "split" else range(int(self.folds_.max()) + 1)
        for k in members:
            train = self.folds_ == k if self.cv == "split" else self.folds_ != k
            self.members_.append(self._trained(X[train], y[train], None if weights is None else weights[train]))

    def _trained(self, X: Floats, y: npt.NDArray[Any], weights: Array | None) -> Any:
        model = default_classifier() if self.classifier is None else clone(self.classifier)
        extra = {} if weights is None else {_weight_keyword(model): weights}
        return model.fit(X.astype(np.float64), y, **extra)

    def _deal(self, y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """Fold of each source row, classes spread evenly; −1 for rows that only train."""
        seed = np.random.default_rng(self.random_state).integers(2**31)
        labels, counts = np.unique(y, return_counts=True)
        folds = np.zeros(len(y), dtype=np.int64)
        if self.cv == "split":
            if counts.min() < 2:
                raise InputError(f"class {labels[counts.argmin()]!r} has 1 row: cv='split' needs 2 or more a class.")
            train, _ = next(StratifiedShuffleSplit(1, train_size=0.5, random_state=seed).split(y, y))
            folds[train] = -1
            return folds
        if isinstance(self.cv, bool) or not isinstance(self.cv, int) or self.cv < 2:
            raise InputError(f"cv={self.cv!r}: give a number of folds (2 or more), 'split' or 'prefit'.")
        if counts.min() < 2:
            raise InputError(
                f"class {labels[counts.argmin()].item()!r} has 1 row: cross-fitting needs 2 or more a class, "
                "so that every member sees every class. Add rows, or pass a fitted classifier with cv='prefit'."
            )
        splitter = StratifiedKFold(min(self.cv, int(counts.min())), shuffle=True, random_state=seed)
        for k, (_, held_out) in enumerate(splitter.split(y, y)):
            folds[held_out] = k
        return folds

    def _probe(self, mean: Array, sd: Array) -> None:
        """Synthetic rows and their features: they identify a classifier that no file can carry."""
        probes = np.random.default_rng(0).standard_normal((N_PROBES, len(mean))) * sd + mean
        self.amplitude_ = np.ones(self._predict(self.members_[0], probes[:1]).shape[1])
        self.bound_ = 1.0
        self.probes_, self.answers_ = probes, self._raw(probes, None)

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        X64 = X.astype(np.float64, copy=False)
        total = self._predict(self.members_[0], X64)
        for member in self.members_[1:]:
            total = total + self._predict(member, X64)
        return total / len(self.members_)

    def _predict(self, member: Any, X: Floats) -> Array:
        if not hasattr(member, "predict_proba"):
            raise InputError(
                f"{type(member).__name__} has no predict_proba: use OneHot (BBSE), or wrap it in CalibratedClassifierCV."
            )
        out: Array = np.asarray(member.predict_proba(_as_known(member, X)), dtype=np.float64)
        return out

    def member(self, fold: int) -> FeatureMap:
        if self.folds_ is None or len(self.members_) == 1:
            return self
        one = copy.copy(self)
        one.members_, one.folds_ = [self.members_[fold]], None
        return one

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        arrays: Arrays = {"probes": self.probes_, "answers": self.answers_}
        affine = [as_affine(m) for m in self.members_]
        for k, a in enumerate(affine):
            if a is not None:
                arrays |= {f"weights.{k}": a.weights, f"bias.{k}": a.bias}
        carried = all(a is not None for a in affine)
        return {"members": len(self.members_), "carried": carried, "needs": type(self.members_[0]).__name__}, arrays

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        out = cls(cv="prefit")
        d = meta["n_columns"]
        check_parts(arrays, {"probes": (None, d), "answers": (len(arrays["probes"]), None)})
        c = cls._n_decisions(arrays)
        if meta["carried"]:
            for k in range(meta["members"]):
                check_parts(arrays, {f"weights.{k}": (d, c), f"bias.{k}": (c,)})
            out.members_ = [Affine(arrays[f"weights.{k}"], arrays[f"bias.{k}"]) for k in range(meta["members"])]
        elif not supply:
            raise FileError(
                f"this model needs its classifier ({meta['members']} x {meta['needs']}), and no file of ours carries code: "
                "pass it as load(path, supply=classifier); of a cross-fitted one, the list model.features_.members_."
            )
        else:
            given = supply.pop(0)
            out.members_ = list(given) if isinstance(given, (list, tuple)) else [given]
        out.classifier = out.members_[0]
        out.columns_ = Columns(meta["n_columns"])
        out.probes_, out.answers_ = arrays["probes"], arrays["answers"]
        out._read(meta, arrays)
        got = out._raw(out.probes_, None)
        if got.shape != out.answers_.shape or np.abs(got - out.answers_).max() > 1e-6:
            raise MismatchError(
                "the classifier supplied answers differently from the one that this model was fitted with."
            )
        return out

    @classmethod
    def _n_decisions(cls, arrays: Arrays) -> int:
        """The classes that the members of a file know."""
        return int(arrays["answers"].shape[1])

    def _read(self, meta: dict[str, Any], arrays: Arrays) -> None:
        """What the classifier alone does not say."""
        self.amplitude_, self.bound_ = np.ones(self.answers_.shape[1]), 1.0


class OneHot(Posterior):
    """Φ(x) = e_{f(x)}, the decision of a classifier as a unit vector: C = 1 (BBSE, Prop. 1)."""

    def _predict(self, member: Any, X: Floats) -> Array:
        if isinstance(member, Affine):
            p = member.predict_proba(X)
            return np.asarray(np.eye(p.shape[1])[p.argmax(axis=1)])
        decisions = np.asarray(member.predict(_as_known(member, X)))
        classes = np.asarray(member.classes_)
        out: Array = (decisions[:, None] == classes).astype(np.float64)
        return out


def cloned(estimator: Any) -> Any:
    """A clone, but with a prefitted classifier as it is: scikit-learn's own would unfit it."""
    params = estimator.get_params(deep=False)
    kept = {"classifier"} if params["cv"] == "prefit" else set()
    return type(estimator)(**{k: v if k in kept else clone(v, safe=False) for k, v in params.items()})


def default_classifier() -> Pipeline:
    """Logistic regression of the standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def as_affine(model: Any) -> Affine | None:
    """A logistic regression, possibly after a StandardScaler, as one affine map and a softmax; None for others."""
    if isinstance(model, Affine):
        return model
    steps = [s for _, s in model.steps] if isinstance(model, Pipeline) else [model]
    if type(steps[-1]) is not LogisticRegression or any(type(s) is not StandardScaler for s in steps[:-1]):
        return None
    w, b = np.asarray(steps[-1].coef_.T), np.asarray(steps[-1].intercept_)
    if w.shape[1] == 1:  # two classes: the logistic function is the softmax of (0, z)
        w, b = np.hstack([0 * w, w]), np.append(0.0, b)
    for scaler in reversed(steps[:-1]):
        w = w if scaler.scale_ is None else w / scaler.scale_[:, None]
        b = b if scaler.mean_ is None else b - scaler.mean_ @ w
    return Affine(np.ascontiguousarray(w, dtype=np.float64), np.asarray(b, dtype=np.float64))


def _weight_keyword(model: Any) -> str:
    return f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"


def _as_known(member: Any, X: Floats) -> Any:
    """The rows as the classifier knew them: a frame where it was fitted on one."""
    names = getattr(member, "feature_names_in_", None)
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)
