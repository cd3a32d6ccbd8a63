"""The reference, reduced: Φ is fitted on labelled rows, then S_i = Σ_{y_r = i} w_r Φ(x_r) for every class i.

A source larger than memory is read twice. A uniform sample of `SAMPLE` rows fits Φ exactly as a table of these rows would; then
every other row is added to the sketch. A smaller source is its own sample, and gives the model that its rows in memory give.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from proportio._compiled.threads import resolve_jobs
from proportio.engines import engine_of, here
from proportio.errors import InputError, MismatchError
from proportio.reference import Array, Labels, Reference
from proportio.sketch import Sketch
from proportio.sources import (
    Columns,
    Floats,
    Rows,
    Source,
    as_source,
    draw_sample,
    rest_of,
    take_column,
)

Groups = npt.NDArray[np.int32]

SAMPLE = 200_000  # rows of a source that fit Φ: the scale and σ to a fifth of a percent, a classifier in seconds


class Fits(Reference, ABC):
    """The methods of a quantifier that learn."""

    random_state: Any
    sketch_: Sketch
    reading_: dict[str, Any]

    @abstractmethod
    def _fit_map(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> None:
        """Fit Φ on the reference."""

    @abstractmethod
    def _sketch(self, X: Floats, groups: Groups | None, weights: Array | None, start: int, onto: Any) -> Sketch:
        """Sketch rows, after those of `onto`: of the classes where `groups` gives their indices, of a batch where None."""

    def _end_training(self) -> None:  # most maps have nothing to end
        """Rows that come from here on did not train Φ, whichever of its members embeds them."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit on reference rows X (array or frame) with one label each; `sample_weight` counts a row several times.

        A text for y names the column of X that holds the labels; then X may be a source, `fit(pp.scan(files), "label")`, whose
        other columns are the features. Of more than 200,000 rows a uniform sample, the same for the same `random_state`, fits
        Φ (scaling, bandwidth, classifier), and the source is read again for the sums of all rows. A cross-fitted classifier
        embeds the rows of the sample by the member that did not see them, as ever, and the others, which none has seen, as it
        embeds a batch.
        """
        began = time.perf_counter()
        X = here(X)
        if engine_of(X) != "local":
            raise InputError(
                f"fit takes rows that this machine can read, not {type(X).__name__}: fit on a sample of them in memory, or on "
                "their files, fit(pp.scan(files), 'label'). Batches are sketched where they are."
            )
        source = as_source(X)
        if source is not None:
            self._fit_source(source, y, sample_weight)
        else:
            if isinstance(y, str):
                X, y = take_column(X, y)
            rows, labels, weights = self._read_reference(X, y, sample_weight, None)
            self._begin(rows, labels, weights, np.unique(labels))
            self._extend(rows.values, self._groups(labels), weights, start=0)
        self.sketch_.require_rows()
        self._timings = {"fit": time.perf_counter() - began}
        return self

    def _fit_source(self, source: Source, label: Any, sample_weight: Any) -> None:
        if not isinstance(label, str):
            raise InputError(
                f"y is {type(label).__name__}, but the labels of {source.name} come with its rows: name their column, "
                f"fit(source, y='...'); its columns are {', '.join(map(repr, source.columns[:8]))}."
            )
        if sample_weight is not None:
            raise InputError("sample_weight goes with tables in memory: pass them one by one to partial_fit.")
        on_missing = self._checked_on_missing()
        serial = resolve_jobs(self.n_jobs) == 1
        seed = int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else 0
        sample = draw_sample(source, label, SAMPLE, seed, on_missing, serial=serial)
        self._begin(sample.rows, sample.labels, None, sample.classes)
        self.reading_ = source.reading
        self._extend(sample.rows.values, self._groups(sample.labels), None, start=0)
        if sample.whole:
            return
        self._end_training()
        start = len(sample.labels)
        with closing(rest_of(source, label, sample, on_missing, serial=serial)) as rest:
            for batch in rest:
                self._check_known(batch.present, self.classes_)
                groups = np.searchsorted(self.classes_, batch.values).astype(np.int32)[batch.codes]
                self._extend(batch.rows.values, groups, None, start)
                start += len(groups)

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None, sample_weight: Any = None) -> Self:
        """Add a batch of labelled rows. The first call needs `classes`; it also fixes scaling and bandwidth."""
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise InputError("the first call of partial_fit needs classes=[...]: all labels that may ever come.")
        expected = None if first else self.columns_
        rows, labels, weights = self._read_reference(X, y, sample_weight, expected)
        if first:
            self._begin(rows, labels, weights, np.unique(np.asarray(classes)))
        elif classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise MismatchError(f"classes={list(classes)!r} differ from the first call's {self.classes_.tolist()!r}.")
        start = self.sketch_.n_rows if hasattr(self, "sketch_") else 0
        self._extend(rows.values, self._groups(labels), weights, start)
        return self

    def _begin(self, rows: Rows, labels: Labels, weights: Array | None, classes: Labels) -> None:
        """Forget what was fitted before; learn the columns, the classes and Φ."""
        self._forget()
        self._check_classes(classes)
        self._check_known(labels, classes)
        self._fit_map(rows.values, labels, weights, rows.columns)
        self._set_columns(rows.columns)
        self.classes_ = classes
        self._dropped = 0

    def _extend(self, X: Floats, groups: Groups, weights: Array | None, start: int) -> None:
        """Add rows of the classes whose indices are `groups` to the sketch."""
        self.sketch_ = self._sketch(X, groups, weights, start, getattr(self, "sketch_", None))
        self._gram: Array | None = None

    def _groups(self, labels: Labels) -> Groups:
        """The index of each label among the classes."""
        self._check_known(labels, self.classes_)
        return np.searchsorted(self.classes_, labels).astype(np.int32)
