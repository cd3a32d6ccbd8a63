"""One table: an array, a data frame or an Arrow table in, a clean float matrix out.

The boundary of the library. Everything behind it may rely on a two-dimensional float32 or float64 array,
finite throughout, with the columns that the model knows, in the model's order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt

from proportio.errors import InputError, InputTypeError, MismatchError
from proportio.sources import arrow

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
    rows = read_table(X, what, expected, on_missing, owner)
    if not len(rows.values):
        raise InputError(
            f"every row of {what} has a NaN or infinity: nothing is left after dropping {rows.dropped} of {rows.dropped} rows. "
            "Fill them in, or leave out the column that is missing throughout."
        )
    return rows


def read_table(X: Any, what: str, expected: Columns | None, on_missing: OnMissing, owner: str) -> Rows:
    """`read_rows`, for a table that may lose all its rows to "drop"."""
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


def _as_array(X: Any, what: str) -> tuple[Floats, tuple[str, ...] | None]:
    if arrow.is_table(X):
        names = tuple(X.schema.names)
        twice = [n for n in dict.fromkeys(names) if names.count(n) > 1]
        if twice:
            raise InputError(f"{what} has two columns of one name: {twice[0]!r}. Rename one of them.")
        return _as_floats(arrow.as_matrix(X, what), what), names
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
    if values.max() < LARGEST and values.min() > -LARGEST:  # neither is true of NaN, and neither makes a copy
        return None
    finite: npt.NDArray[np.bool_] = (values > -LARGEST) & (values < LARGEST)
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
