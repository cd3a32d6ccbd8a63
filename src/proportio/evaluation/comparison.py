"""`compare`: methods side by side on the same rows and the same batches, and what the differences are worth.

A split fits every method on one part of the rows (without the withheld class, if there is one) and draws batches from the other.
Every method sees the same split and the same batches, so differences are paired.
"""

from __future__ import annotations

import copy
import itertools
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2, rankdata, studentized_range
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.utils.parallel import Parallel, delayed

from proportio.errors import InputError, ProportioError
from proportio.evaluation.measures import MEASURES
from proportio.evaluation.protocols import Batch, Protocol, Uniform

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[np.float64]
Row = dict[str, Any]


def compare(
    methods: Mapping[str, Any] | Sequence[Any],
    X: Any,
    y: Any,
    *,
    protocol: Protocol | None = None,
    splits: int = 1,
    test_size: float = 0.5,
    level: float | None = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """A tidy frame, one row a method and batch: its measures, what was varied, the seconds, and whether its intervals cover.

    `methods` are estimators with `fit(X, y)` and `predict(X)`, ours, QuaPy's (`evaluation.quapy.from_quapy`) or yours, by name.
    `true` and `estimated` are the shares themselves.
    Those with `estimate` are asked for intervals at `level` (None: not asked): `covered` is the share of the classes whose interval
    holds the truth, `width` their mean width. A method that fails has its error in `error` and NaN elsewhere.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 300)
    >>> X = rng.normal(size=(600, 2)) + 3 * y[:, None]
    >>> batches = pp.evaluation.Uniform(size=100, repetitions=5)
    >>> frame = pp.compare({"CC": pp.baselines.CC(), "PACC": pp.baselines.PACC()}, X, y, protocol=batches)
    >>> frame.groupby("method")["ae"].mean().round(1).to_dict()
    {'CC': 0.0, 'PACC': 0.0}
    """
    import pandas as pd

    named = dict(methods) if isinstance(methods, Mapping) else {type(m).__name__: m for m in methods}
    if not named or len(named) != len(methods):
        raise InputError(
            "methods: give at least one, and a name each where two are of one class: {'EM': ..., 'EM, bcts': ...}."
        )
    labels = np.asarray(y)
    drawn = [draw(X, labels, protocol or Uniform(), s, test_size, random_state) for s in range(splits)]
    rows = Parallel(n_jobs=n_jobs)(
        delayed(run_method)(name, method, X, labels, *drawn[s], s, level)
        for s in range(splits)
        for name, method in named.items()
    )
    return pd.DataFrame(list(itertools.chain.from_iterable(rows)))


def draw(
    X: Any, y: Any, protocol: Protocol, split: int, test_size: float, random_state: int
) -> tuple[npt.NDArray[np.int64], list[Batch]]:
    """The rows of the reference, and batches of the others (rows of X, not of the pool)."""
    seed = np.random.SeedSequence([random_state, split])
    rng = np.random.default_rng(seed)
    reference, pool = train_test_split(
        np.arange(len(y)), test_size=test_size, stratify=y, random_state=int(rng.integers(2**31))
    )
    if protocol.withheld is not None:
        reference = reference[y[reference] != protocol.withheld]
    values = np.asarray(X)[pool]
    batches = [Batch(pool[b.rows], b.shares, b.level) for b in protocol.batches(values, y[pool], rng)]
    return np.sort(reference), batches


def rows_of(X: Any, where: Any) -> Any:
    """Rows of an array or a frame."""
    return X.iloc[where] if hasattr(X, "iloc") else X[where]


def run_method(
    name: str, method: Any, X: Any, y: Any, reference: Any, batches: list[Batch], split: int, level: float | None
) -> list[Row]:
    """One method on one split: a row a batch."""
    try:
        model = clone(method) if hasattr(method, "get_params") else copy.deepcopy(method)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows_of(X, reference), y[reference])
        fitted, failure = time.perf_counter() - began, ""
    except (ValueError, TypeError, ArithmeticError, AssertionError, RuntimeError) as error:
        fitted, failure = float("nan"), f"{type(error).__name__}: {error}"
    out = []
    for i, batch in enumerate(batches):
        row: Row = {
            "method": name,
            "split": split,
            "repetition": i,
            "level": batch.level,
            "unknown": batch.unknown,
            "true": tuple(batch.shares.tolist()),
        }
        answer = {"error": failure} if failure else score(model, rows_of(X, batch.rows), batch.shares, level)
        out.append({**row, "seconds_fit": fitted, **answer})
    return out


def score(model: Any, X: Any, true: Array, level: float | None) -> Row:
    """The measures of one batch; NaN and the message where the method failed."""
    nothing = dict.fromkeys([*MEASURES, "unknown_estimate", "seconds", "covered", "width"], float("nan"))
    began = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est = model.estimate(X) if level is not None and hasattr(model, "estimate") else None
            shares = np.asarray(model.predict(X) if est is None else est.proportions, dtype=np.float64)
    except (ValueError, TypeError, ArithmeticError, AssertionError, RuntimeError) as error:
        return {**nothing, "error": f"{type(error).__name__}: {error}"}
    row: Row = {**nothing, "seconds": time.perf_counter() - began, "error": ""}
    row |= {k: float(f(true, shares, len(X))) for k, f in MEASURES.items()}
    row["estimated"] = tuple(shares.tolist())
    row["unknown_estimate"] = max(0.0, 1 - float(shares.sum()))
    if est is not None and level is not None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                limits = est.interval(level)
        except ProportioError:
            return row
        held = (limits[:, 0] <= true + 1e-9) & (true <= limits[:, 1] + 1e-9)
        row |= {"covered": float(held.mean()), "width": float(np.diff(limits, axis=1).mean())}
    return row


def paired(
    frame: pd.DataFrame, measure: str = "ae", *, against: str, draws: int = 2000, random_state: int = 0
) -> pd.DataFrame:
    """Mean difference of every method from `against`, with its 95% bootstrap interval over repetitions (splits resampled first)."""
    import pandas as pd

    table = _wide(frame, measure)
    if against not in table:
        raise InputError(f"against={against!r} is not among the methods {', '.join(table.columns)}.")
    rng = np.random.default_rng(random_state)
    difference = table.sub(table[against], axis=0)
    groups = [g.to_numpy() for _, g in difference.groupby(level="split")]
    means = np.empty((draws, difference.shape[1]))
    for b in range(draws):
        chosen = [groups[i] for i in rng.integers(len(groups), size=len(groups))]
        means[b] = np.concatenate([g[rng.integers(len(g), size=len(g))] for g in chosen]).mean(axis=0)
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    out = pd.DataFrame({"difference": difference.mean(), "low": low, "high": high}).drop(index=against)
    return out.rename_axis("method").reset_index()


def ranks(table: pd.DataFrame) -> tuple[dict[str, float], float, float]:
    """Mean rank of each column over the rows (data sets), Friedman's p-value, and Nemenyi's critical difference at 5%.

    >>> import pandas as pd
    >>> mean, p, cd = ranks(pd.DataFrame({"a": [0.1] * 10, "b": [0.2] * 10, "c": [0.3] * 10}))
    >>> mean, round(p, 5), round(cd, 3)
    ({'a': 1.0, 'b': 2.0, 'c': 3.0}, 5e-05, 1.048)
    """
    n, k = table.shape
    if n < 2 or k < 2:
        raise InputError(f"ranks need 2 data sets and 2 methods or more, got {n} and {k}.")
    each = np.apply_along_axis(rankdata, 1, table.to_numpy(dtype=np.float64))
    mean = each.mean(axis=0)
    statistic = 12 * n / (k * (k + 1)) * float(((mean - (k + 1) / 2) ** 2).sum())
    critical = float(studentized_range.ppf(0.95, k, np.inf)) / np.sqrt(2) * np.sqrt(k * (k + 1) / (6 * n))
    return dict(zip(table.columns, mean.tolist(), strict=True)), float(chi2.sf(statistic, k - 1)), float(critical)


def _wide(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row a batch, one column a method; batches on which some method failed are left out of all."""
    return frame.pivot(index=["split", "repetition"], columns="method", values=measure).dropna()
