"""What every quantifier does with its reference before it learns from it: read, check, and remember columns and classes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from proportio._compiled.threads import resolve_jobs
from proportio.errors import InputError, NotFittedError
from proportio.sketch import plain
from proportio.sources import Columns, OnMissing, Rows, read_labels, read_rows, read_weights

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[Any]


class Reference(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no type hints
    """An estimator whose `fit` takes labelled rows; it knows their columns and classes, and how to refuse others."""

    on_missing: OnMissing
    n_jobs: int | None

    classes_: Labels
    columns_: Columns

    def _read_reference(
        self, X: Any, y: Any, sample_weight: Any, expected: Columns | None
    ) -> tuple[Rows, Labels, Array | None]:
        rows = read_rows(X, expected=expected, on_missing=self._checked_on_missing())
        rows = replace(rows, values=np.ascontiguousarray(rows.values))  # sums round by how columns lie in memory
        n = len(rows.values) + rows.dropped
        labels = rows.keep(read_labels(y, n))
        weights = rows.keep(read_weights(sample_weight, n))
        assert labels is not None
        return rows, labels, weights

    def _forget(self) -> None:
        """Drop what an earlier fit left."""
        for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
            delattr(self, name)

    def _set_columns(self, columns: Columns) -> None:
        self.columns_ = columns
        self.n_features_in_ = columns.count
        if columns.names is not None:
            self.feature_names_in_ = np.asarray(columns.names, dtype=object)

    @staticmethod
    def _check_classes(classes: Labels) -> None:
        if len(classes) < 2:
            raise InputError(
                f"the reference has one class only ({classes.tolist()[0]!r}), so its share would be 1 whatever the batch: "
                "a quantifier needs rows of 2 classes or more."
            )

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
