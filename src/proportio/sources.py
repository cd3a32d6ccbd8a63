"""Where rows come from: arrays and data frames in, clean float matrices out.

The boundary of the library. Everything behind it may rely on a two-dimensional float32 or float64 array,
finite throughout, with the columns that the model knows, in the model's order.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from proportio.errors import InputError, InputTypeError, MismatchError

Floats: TypeAlias = npt.NDArray[np.floating[Any]]
OnMissing: TypeAlias = Literal["raise", "drop"]

LARGEST = 1e30  # beyond it, squares and float32 overflow: a sentinel, not a measurement


@dataclass(frozen=True)
class Columns:
    """What a model knows of its input: how many columns, and their names where they had any."""

    count: int
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Rows:
    """A validated table; `kept` marks the rows that survived where incomplete rows are dropped."""

    values: Floats
    columns: Columns
    kept: npt.NDArray[np.bool_] | None = None

    @property
    def dropped(self) -> int:
        return 0 if self.kept is None else int((~self.kept).sum())

    def keep(self, per_row: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
        """The entries of a per-row array that belong to the surviving rows."""
        return per_row if per_row is None or self.kept is None else per_row[self.kept]


def read_rows(
    X: Any,
    *,
    what: str = "X",
    expected: Columns | None = None,
    on_missing: OnMissing = "raise",
    owner: str = "model",
) -> Rows:
    """Validate one table against the columns `expected` of `owner` (if any) and return it as floats."""
    rows = _read_table(X, what, expected, on_missing, owner)
    if not len(rows.values):
        raise InputError(
            f"every row of {what} has a NaN or infinity: nothing is left after dropping {rows.dropped} of {rows.dropped} rows. "
            "Fill them in, or leave out the column that is missing throughout."
        )
    return rows


def _read_table(X: Any, what: str, expected: Columns | None, on_missing: OnMissing, owner: str) -> Rows:
    values, names = _as_array(X, what)
    columns = Columns(values.shape[1], names)
    if expected is not None:
        _check_columns(columns, expected, what, owner)
    if values.shape[0] == 0:
        raise InputError(
            f"{what} has 0 sample(s) (shape={values.shape}) while a minimum of 1 is required: "
            "an empty table has no class shares. Check the filter or the file it came from."
        )
    kept = _check_finite(values, names, what, on_missing)
    return Rows(values if kept is None else values[kept], columns, kept)


def is_batches(X: Any) -> bool:
    """An iterator is a source of batches; anything else is one table."""
    return isinstance(X, Iterator)


def read_batches(X: Any, *, expected: Columns, on_missing: OnMissing, owner: str = "model") -> Iterator[Rows]:
    """One table, or every table of an iterator that has rows, validated; a batch may lose all its rows to "drop"."""
    if not is_batches(X):
        yield read_rows(X, expected=expected, on_missing=on_missing, owner=owner)
        return
    n_rows = dropped = 0
    for i, batch in enumerate(X):
        if hasattr(batch, "__len__") and len(batch) == 0:
            continue
        rows = _read_table(batch, f"batch {i}", expected, on_missing, owner)
        n_rows, dropped = n_rows + len(rows.values), dropped + rows.dropped
        yield rows
    if not n_rows:
        why = f"all {dropped} rows have a NaN or infinity" if dropped else "0 samples in all its batches"
        raise InputError(
            f"the source gave no rows: {why}. Check the filter, the path, or whether the iterator is used up."
        )


def read_labels(y: Any, n_rows: int | None, what: str = "y") -> npt.NDArray[Any]:
    """Labels as a one-dimensional array of integers, booleans or strings, none of them missing."""
    if y is None:
        raise InputError("the reference needs labels: y is None, but this estimator requires y to be passed.")
    labels = _from_sequence(y) if isinstance(y, (list, tuple)) else np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(
            f"{what} must be one column of labels, got an array of shape {labels.shape}: give one label a row, as {what}[:, k]."
        )
    if n_rows is not None and len(labels) != n_rows:
        raise InputError(
            f"{what} has {len(labels)} labels but X has {n_rows} rows: inconsistent numbers of samples. "
            "Give one label for each row of X, in the same order."
        )
    if labels.dtype.kind == "O":
        labels = _from_objects(labels, what)
    if labels.dtype.kind == "f":
        missing = int((~np.isfinite(labels)).sum())
        if missing:
            raise InputError(f"{what} contains {missing} NaN or infinity: label these rows or leave them out.")
        if (labels != np.rint(labels)).any():
            raise InputError(
                f"Unknown label type: {what} holds real numbers such as {labels[labels != np.rint(labels)][0]}. "
                "Classes are integers, booleans or strings; np.digitize makes classes of numbers."
            )
    if labels.dtype.kind == "T":
        labels = labels.astype(str)
    if labels.dtype.kind == "S":
        raise InputTypeError(
            f"Unknown label type: {what} holds bytes ({labels.dtype}), which no JSON can carry: "
            f"decode them, np.char.decode({what})."
        )
    if labels.dtype.kind not in "biufU":
        raise InputTypeError(
            f"Unknown label type: {what} has dtype {labels.dtype}; use integers, booleans or strings, "
            f"for example {what}.astype(str)."
        )
    return labels


def _from_sequence(y: Sequence[Any]) -> npt.NDArray[Any]:
    """A list as NumPy reads it, but with None, NaN and mixed types kept for `_from_objects` to see."""
    if any(isinstance(v, (str, bytes)) or v is None for v in y):
        out = np.empty(len(y), dtype=object)
        out[:] = y
        return out
    try:
        return np.asarray(y)
    except ValueError as error:  # ragged
        raise InputError(f"y must be one column of labels, got lists of different lengths ({error}).") from error


def _from_objects(labels: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    missing = sum(1 for v in labels if _is_missing(v))
    if missing:
        raise InputError(f"{what} contains {missing} missing labels (None or NaN): label these rows or leave them out.")
    kinds = {_label_type(v) for v in labels}
    if len(kinds) > 1:
        raise InputTypeError(
            f"{what} mixes labels of types {', '.join(sorted(kinds))}: use one type, for example {what}.astype(str)."
        )
    return np.asarray(list(labels)) if len(labels) else labels.astype(str)


def _label_type(v: Any) -> str:
    for name, kinds in (
        ("str", str),
        ("bool", (bool, np.bool_)),
        ("int", (int, np.integer)),
        ("float", (float, np.floating)),
    ):
        if isinstance(v, kinds):
            return name
    return type(v).__name__


def read_weights(weights: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """One finite, non-negative number a row, not all zero; None means one each."""
    if weights is None:
        return None
    w = np.asarray(weights)
    if w.dtype.kind not in "biuf":
        raise InputTypeError(f"sample_weight must be numbers, got dtype {w.dtype}: give one number a row, or None.")
    w = w.astype(np.float64)
    if w.ndim == 0:
        w = np.full(n_rows, float(w))
    if w.shape != (n_rows,):
        raise InputError(f"sample_weight has shape {w.shape} but there are {n_rows} rows: give one weight a row.")
    if not np.isfinite(w).all():
        raise InputError(
            f"sample_weight contains NaN or infinity in {int((~np.isfinite(w)).sum())} rows: give these rows a weight, or 0."
        )
    if (w < 0).any():
        raise InputError(
            f"sample_weight is negative in {int((w < 0).sum())} rows (lowest {w.min():g}): "
            "a weight counts how many rows a row stands for, so it must be zero or more."
        )
    if not w.any():
        raise InputError(
            "sample_weight is zero in every row: nothing is left to count. Give some row a weight above 0."
        )
    return w


def _is_missing(label: Any) -> bool:
    """None, NaN, and the missing values of pandas."""
    if isinstance(label, float):
        return math.isnan(label)
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def _as_array(X: Any, what: str) -> tuple[Floats, tuple[str, ...] | None]:
    try:
        frame = nw.from_native(X, pass_through=True)
    except nw.exceptions.DuplicateError as error:
        raise InputError(
            f"{what} has two columns of one name: {' '.join(str(error).split())}. Rename one of them."
        ) from error
    if isinstance(frame, nw.LazyFrame):
        raise InputTypeError(f"{what} is a lazy frame ({type(X).__name__}) without rows yet: pass {what}.collect().")
    if isinstance(frame, nw.DataFrame):
        bad = [f"{n!r} ({t})" for n, t in frame.schema.items() if not (t.is_numeric() or t == nw.Boolean)]
        if bad:
            raise InputTypeError(
                f"{what} has columns that are not numbers: {', '.join(bad[:5])}. "
                "Leave them out or encode them before fitting."
            )
        names = tuple(frame.columns)
        _check_names(frame.columns, what)
        values = np.asarray(frame.to_numpy())
        if values.dtype.kind == "O":  # nullable columns with gaps
            values = values.astype(np.float64)
        return _as_floats(values, what), names if all(isinstance(n, str) for n in names) else None
    if hasattr(X, "toarray") or hasattr(X, "tocsr"):
        raise InputTypeError(
            f"{what} is a sparse matrix; sparse input is not supported. Use {what}.toarray(), or reduce its columns first."
        )
    if isinstance(X, np.ma.MaskedArray) and np.ma.is_masked(X):
        raise InputError(
            f"{what} is a masked array with {int(np.ma.getmaskarray(X).sum())} masked entries: "
            f"fill them in, or pass {what}.filled(np.nan) with on_missing='drop'."
        )
    try:
        values = np.asarray(X)
    except ValueError as error:
        raise InputError(
            f"{what} is not a table: its rows differ in length ({error}). Give every row the same columns; "
            f"several tables go in as an iterator, iter({what})."
        ) from error
    if values.ndim == 0 and values.dtype.kind not in "biufc":
        raise InputTypeError(
            f"{what} is {type(X).__name__}, not a table of numbers: pass a 2-dimensional array or a data frame."
        )
    return _as_floats(values, what), None


def _check_names(names: list[Any], what: str) -> None:
    kinds = {type(n).__name__ for n in names}
    if len(kinds) > 1 and "str" in kinds:
        raise InputTypeError(
            f"{what} has column names of types {', '.join(sorted(kinds))}: only names that are all strings can be checked. "
            f"Convert them: {what}.columns = {what}.columns.astype(str)."
        )


def _as_floats(values: npt.NDArray[Any], what: str) -> Floats:
    if values.dtype.kind == "c":
        raise InputError(
            f"Complex data not supported: {what} has dtype {values.dtype}. Give real and imaginary parts as two columns."
        )
    if values.dtype.kind not in "biuf":
        raise InputTypeError(
            f"{what} has dtype {values.dtype}, not numbers. Convert it yourself, for example {what}.astype(float): "
            "guessing would hide a text column."
        )
    if values.ndim > 2:
        raise InputError(
            f"{what} must be a table (2 dimensions), got shape {values.shape}. "
            f"Several tables go in as an iterator, iter({what}); images as one row each, {what}.reshape(len({what}), -1)."
        )
    if values.ndim != 2:
        raise InputError(
            f"{what} must be a table (2 dimensions), got shape {values.shape}. "
            "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        )
    if values.shape[1] == 0:
        raise InputError(
            f"{what} has 0 feature(s) (shape={values.shape}) while a minimum of 1 is required: select at least one column."
        )
    if values.dtype not in (np.float32, np.float64):
        values = values.astype(np.float32 if values.dtype == np.float16 else np.float64)
    return values


def _check_columns(got: Columns, expected: Columns, what: str, owner: str) -> None:
    if expected.names is not None and got.names is not None and got.names != expected.names:
        unseen = [n for n in got.names if n not in expected.names]
        missing = [n for n in expected.names if n not in got.names]
        detail = [f"not in the reference: {', '.join(map(repr, unseen[:5]))}"] if unseen else []
        detail += [f"missing: {', '.join(map(repr, missing[:5]))}"] if missing else []
        if unseen and not missing:
            detail.append(f"all others are there: select {what}[model.feature_names_in_]")
        if not detail:
            detail = [f"the same columns in another order; select {what}[model.feature_names_in_]"]
        raise MismatchError(
            f"The feature names should match those that were passed during fit ({what}): {'; '.join(detail)}. "
            "The model knows its columns by name and order."
        )
    if got.count != expected.count:
        raise MismatchError(
            f"{what} has {got.count} features, but {owner} is expecting {expected.count} features as input"
            + (f": {', '.join(expected.names[:8])}. " if expected.names else ". ")
            + "Select the columns that it was fitted on, in the same order."
        )


def _check_finite(
    values: Floats, names: tuple[str, ...] | None, what: str, on_missing: OnMissing
) -> npt.NDArray[np.bool_] | None:
    finite: npt.NDArray[np.bool_] = (values > -LARGEST) & (values < LARGEST)  # NaN is neither
    if finite.all():
        return None
    kept: npt.NDArray[np.bool_] = np.all(finite, axis=1)
    if on_missing == "drop":
        return kept
    bad = np.flatnonzero(~finite.all(axis=0))
    first = values[:, bad[0]]
    kind = (
        "NaN" if np.isnan(first).any() else "infinity (inf)" if np.isinf(first).any() else f"values beyond ±{LARGEST:g}"
    )
    where = f"column {names[bad[0]]!r}" if names else f"column {bad[0]}"
    where += f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    raise InputError(
        f"{what} contains {kind} in {where}, {int((~kept).sum())} of {len(values)} rows (the first is row {np.argmin(kept)}). "
        "Fill them in, or set on_missing='drop' to leave out such rows and count them."
    )
