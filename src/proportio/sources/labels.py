"""Labels and weights of rows: one a row, none of them missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError, InputTypeError


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
