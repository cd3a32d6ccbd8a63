"""docs/field-study.md and its figures, from the table of a run: nothing in them is typed.

Intervals are 95% bootstrap intervals over data sets: what other sets like these would give.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from benchmarks.field.sets import BY_NAME

from proportio import __version__, storage
from proportio.errors import InputError
from proportio.evaluation import plots, ranks

mpl.use("Agg")
DRAWS = 2000


def write(table: pd.DataFrame, skipped: dict[str, str], plan: Any, docs: Path, cache: Path) -> Path:
    """The page and its figures under `docs`."""
    figures = docs / "field-study"
    figures.mkdir(parents=True, exist_ok=True)
    experiment = plan.experiments[0]
    named = table.assign(
        method=[
            m if c in ("plain", "none") else f"{m} [{c}]"
            for m, c in zip(table["method"], table["classifier"], strict=True)
        ]
    )
    shift, dirty = named[named["scenario"] == "label shift"], named[named["scenario"] == "contamination"]
    parts = [
        "# The field study",
        _introduction(plan),
        "## Label shift",
        "Shares uniform on the simplex. `ae` is the mean absolute error of a share, `rae` the relative one.",
        _scoreboard(shift, ("ae", "rae"), "ae"),
    ]
    parts += _ranked(shift, "ae", figures / "ranks-label-shift.svg", "Mean ranks under label shift")
    if len(dirty):
        parts += [
            "## Contamination by a class never seen",
            "A class withheld from the reference makes up 5, 15 and 30% of the batch. The error is l2, against the true shares of "
            "the known classes, which sum to one less that share. The intervals assume label shift, which fails here.",
            _contaminated(dirty),
        ]
        parts += _ranked(dirty, "l2", figures / "ranks-contamination.svg", "Mean ranks under contamination")
        best = list(_by_set(dirty, "l2").mean().nsmallest(8).index)
        shown = dirty[dirty["method"].isin(best)]
        plots.save(plots.error_by_shift(shown, "l2"), figures / "contamination.svg")
        parts.append(
            "![Error by the share of the withheld class, the eight best methods](field-study/contamination.svg)"
        )
    parts += ["## Every data set", "`ae` under label shift; the least of each row in bold.", _every_set(shift, "ae")]
    if len(dirty):
        parts += ["`l2` under contamination, the mean of the three shares.", _every_set(dirty, "l2")]
    parts += ["## The data", _data(experiment.datasets, skipped, cache), *_failures(named)]
    path = docs / "field-study.md"
    storage.write(path, ("\n\n".join(parts) + "\n").encode())
    return path


def _introduction(plan: Any) -> str:
    s = plan.experiments[0].sizes
    used = plan.experiments[0].classifiers
    tuned = " [tuned] is the best by log-loss of logistic regression at four penalties and gradient boosting."
    made = f"Written by `python -m benchmarks.field --{plan.name}` (proportio {__version__}) from its results; nothing is typed."
    drawn = (
        f"Each data set is split in halves, {'once' if s.splits == 1 else f'{s.splits} times'}: up to {s.reference:,} rows of one "
        f"are the reference, and batches of {s.batch} rows come from the other, {s.batches} of each kind a split. The "
        f"classifier is logistic regression of standardised columns, cross-fitted in 5 folds.{tuned if 'tuned' in used else ''}"
    )
    read = (
        "Intervals in brackets are 95% bootstrap intervals over data sets. Coverage is the share of batches and classes whose "
        "nominal 95% interval holds the true share; a dash where a method was not asked for intervals. Seconds are those of one "
        "thread on a machine that ran other work: read them for their order of magnitude."
    )
    return "\n\n".join([made, drawn, read])


def _by_set(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Mean of a measure, one row a data set, one column a method; sets where some method has nothing are left out."""
    wide = frame.groupby(["data set", "method"], sort=False)[measure].mean().unstack("method")
    return wide[list(dict.fromkeys(frame["method"]))].dropna()


def _over_sets(values: Any) -> str:
    """The mean over data sets with its interval."""
    v = np.asarray(values, dtype=np.float64)
    v = v[np.isfinite(v)]
    if not len(v):
        return "–"
    drawn = np.random.default_rng(0).choice(v, (DRAWS, len(v))).mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{v.mean():.3f} [{low:.3f}, {high:.3f}]"


def _markdown(rows: list[dict[str, str]]) -> str:
    heads = list(rows[0])
    numbers = [rows[0][h][:1] in "0123456789*–" for h in heads]
    lines = [f"| {' | '.join(heads)} |", "|" + "|".join("---:" if number else "---" for number in numbers) + "|"]
    return "\n".join([*lines, *(f"| {' | '.join(row[h] for h in heads)} |" for row in rows)])


def _mean_or_dash(values: Any, spec: str = ".3f") -> str:
    mean = float(pd.Series(values).mean())
    return format(mean, spec) if np.isfinite(mean) else "–"


def _scoreboard(frame: pd.DataFrame, measures: tuple[str, ...], first: str) -> str:
    wide = _by_set(frame, first)
    rank = wide.rank(axis=1)
    rows = []
    for name in wide.mean().sort_values().index:
        mine = frame[frame["method"] == name]
        sets = mine.groupby("data set")
        rows.append(
            {
                "method": str(name),
                **{m: _over_sets(sets[m].mean()) for m in measures},
                "mean rank": _over_sets(rank[name]),
                "coverage": _mean_or_dash(sets["covered"].mean()),
                "width": _mean_or_dash(sets["width"].mean()),
                "fit, s": _mean_or_dash(sets["seconds_fit"].first()),
                "batch, s": _mean_or_dash(mine["seconds"]),
            }
        )
    return _markdown(rows)


def _contaminated(frame: pd.DataFrame) -> str:
    wide = _by_set(frame, "l2")
    rank = wide.rank(axis=1)
    rows = []
    for name in wide.mean().sort_values().index:
        mine = frame[frame["method"] == name]
        at = {
            f"l2 at {level:.0%}": _over_sets(part.groupby("data set")["l2"].mean())
            for level, part in mine.groupby("level")
        }
        covered = mine.groupby("data set")["covered"].mean()
        rows.append(
            {"method": str(name), **at, "mean rank": _over_sets(rank[name]), "coverage": _mean_or_dash(covered)}
        )
    return _markdown(rows)


def _ranked(frame: pd.DataFrame, measure: str, path: Path, caption: str) -> list[str]:
    """The critical-difference diagram, where there are data sets enough for one."""
    table = _by_set(frame, measure)
    try:
        _, pvalue, critical = ranks(table)
    except InputError:
        return []
    plots.save(plots.critical_difference(table), path)
    told = f"Friedman's test that all methods are alike: p = {pvalue:.1g}. Nemenyi's critical difference at 5%: {critical:.2f}."
    return [f"![{caption}]({path.parent.name}/{path.name})", told]


def _every_set(frame: pd.DataFrame, measure: str) -> str:
    wide = _by_set(frame, measure)
    rows = []
    for method in wide.columns:
        told = {str(name): f"{value:.3f}" for name, value in wide[method].items()}
        best = {str(name) for name in wide.index if wide.loc[name, method] == wide.loc[name].min()}
        rows.append({"method": str(method), **{name: f"**{v}**" if name in best else v for name, v in told.items()}})
    return _markdown(rows)


def _data(datasets: tuple[str, ...], skipped: dict[str, str], cache: Path) -> str:
    rows = []
    for name in datasets:
        told = BY_NAME[name]
        X, y = told.load(cache)
        size = {"rows": f"{len(X):,}", "columns": str(X.shape[1]), "classes": str(len(np.unique(y)))}
        rows.append({"data set": name, **size, "from": told.carrier, "by": told.how, "licence": told.licence})
    lines = [_markdown(rows)]
    lines += [f"- {name}: skipped, {why}" for name, why in skipped.items()]
    return "\n".join(lines[:1]) + ("\n\n" + "\n".join(lines[1:]) if skipped else "")


def _failures(frame: pd.DataFrame) -> list[str]:
    """Methods that gave no answer, with their own words."""
    failed = frame[frame["error"] != ""]
    if not len(failed):
        return []
    told = failed.groupby(["method", "data set", "scenario"])["error"].agg(["size", "first"]).reset_index()
    lines = [f"- {m}, {d}, {sc}: {n} batches, {why}" for m, d, sc, n, why in told.itertuples(index=False)]
    return ["## What failed", "These batches are left out of the method's means.", "\n".join(lines)]
