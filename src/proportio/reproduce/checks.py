"""The questions that claims put to the results: each reads a table and answers (holds, what was measured)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from proportio.reproduce.tables import half_width

Check = Callable[[pd.DataFrame], tuple[bool, str]]

FOUR = ("RFFM", "softRFFM", "softEnergy", "softBBSE+")
OTHERS = ("RFFM", "softEnergy", "softBBSE+")
NOISES = ("background", "far class", "middle class")
CLASSES = 5


# -- the robustness figure ---------------------------------------------------------------------------------


def _at(table: pd.DataFrame, noise: str, method: str, level: float | None = None) -> pd.Series[float]:
    """Errors of a method under one noise (at the highest level unless told), by world."""
    level = table["contamination"].max() if level is None else level
    rows = table[(table["noise"] == noise) & (table["method"] == method) & (table["contamination"] == level)]
    return rows.set_index(["d", "repetition"])["error"]


def _least(table: pd.DataFrame) -> float:
    """ε/√c at the highest ε: shares that sum to one are at least so far from shares that sum to 1 − ε."""
    return float(table["contamination"].max() / np.sqrt(CLASSES))


def _list(values: dict[str, float]) -> str:
    return ", ".join(f"{k} {v:.3f}" for k, v in values.items())


def clean_is_easy(t: pd.DataFrame) -> tuple[bool, str]:
    rows = t[(t["contamination"] == 0) & t["method"].isin(FOUR)]
    means = {m: float(rows.loc[rows["method"] == m, "error"].mean()) for m in FOUR}
    return max(means.values()) <= 0.02, f"mean errors {_list(means)}"


def soft_does_not_hurt(t: pd.DataFrame) -> tuple[bool, str]:
    gap = _at(t, "background", "softRFFM", 0) - _at(t, "background", "RFFM", 0)
    return gap.mean() <= 0.002, f"softRFFM − RFFM at ε = 0: {gap.mean():+.4f} ± {half_width(gap):.4f}"


def errors_grow(t: pd.DataFrame) -> tuple[bool, str]:
    means = t[t["method"].isin(FOUR)].groupby(["noise", "method", "contamination"])["error"].mean().unstack()
    steps = means.diff(axis=1).iloc[:, 1:]
    return bool(
        (steps > 0).all(axis=None)
    ), f"{int((steps > 0).to_numpy().sum())} of {steps.size} steps in ε raise the mean error"


def best_under(noise: str) -> Check:
    def check(t: pd.DataFrame) -> tuple[bool, str]:
        lows = []
        for level in sorted(set(t["contamination"]) - {0.0}):
            for other in OTHERS:
                gap = _at(t, noise, other, level) - _at(t, noise, "softRFFM", level)
                lows.append(gap.mean() - half_width(gap))
        means = {m: _at(t, noise, m).mean() for m in FOUR}
        won = sum(low > 0 for low in lows)
        return won == len(lows), (
            f"at ε = {t['contamination'].max():g}: {_list(means)}; better at 95% (paired) in {won} of {len(lows)} comparisons"
        )

    return check


def background_stays_small(t: pd.DataFrame) -> tuple[bool, str]:
    means = {m: _at(t, "background", m).mean() for m in FOUR}
    worst = max(means, key=lambda m: means[m])
    return round(means[worst], 1) <= 0.1, (
        f"worst {worst} {means[worst]:.3f}; no estimator whose shares sum to one can stay below ε/√c = {_least(t):.3f}"
    )


def none_robust_in_the_middle(t: pd.DataFrame) -> tuple[bool, str]:
    means = {m: _at(t, "middle class", m).mean() for m in FOUR}
    return min(means.values()) >= 0.9 * _least(
        t
    ), f"at ε = {t['contamination'].max():g}: {_list(means)} (ε/√c = {_least(t):.3f})"


def not_robust(method: str) -> Check:
    def check(t: pd.DataFrame) -> tuple[bool, str]:
        means = {noise: _at(t, noise, method).mean() for noise in NOISES}
        return min(means.values()) >= 0.9 * _least(
            t
        ), f"at ε = {t['contamination'].max():g}: {_list(means)} (ε/√c = {_least(t):.3f})"

    return check


def features_do_as_the_kernel(t: pd.DataFrame) -> tuple[bool, str]:
    gaps = {}
    for noise in NOISES:
        gap = (_at(t, noise, "softRFFM") - _at(t, noise, "exact softKMM")).dropna()
        gaps[noise] = float(gap.mean())
    return max(map(abs, gaps.values())) <= 0.02, "softRFFM − exact at the highest ε: " + ", ".join(
        f"{k} {v:+.3f}" for k, v in gaps.items()
    )


def energy_is_saved_by_its_origin(t: pd.DataFrame) -> tuple[bool, str]:
    mean = _at(t, "middle class", "softEnergy, corner").mean()
    centred = _at(t, "middle class", "softEnergy").mean()
    return mean >= 0.9 * _least(
        t
    ) > centred, f"origin at the mean of the source {centred:.3f}, at a corner of the data {mean:.3f}"


# -- the HIPC figure ---------------------------------------------------------------------------------------


def _cells(t: pd.DataFrame, method: str) -> pd.Series[float]:
    return t[t["method"] == method].set_index(["withheld", "share", "source", "target"])["error"]


def _large(errors: pd.Series[float], at_least: float) -> pd.Series[float]:
    share = errors.index.get_level_values("share")
    return errors[(share >= at_least) & (share > 0)]


def cells_best(winner: str, at_least: float = 0.0) -> Check:
    """Whether `winner` has the least mean error over the withheld classes of at least this share."""

    def check(t: pd.DataFrame) -> tuple[bool, str]:
        means = {m: float(_large(_cells(t, m), at_least).mean()) for m in (winner, *OTHERS)}
        which = f"{at_least:.0%} and more" if at_least else "any share"
        return min(means, key=lambda m: means[m]) == winner, f"mean error, classes of {which} withheld: {_list(means)}"

    return check


def cells_worth_more(winner: str) -> Check:
    def check(t: pd.DataFrame) -> tuple[bool, str]:
        found = {}
        for other in OTHERS:
            gap = (_cells(t, other) - _cells(t, winner)).groupby("share").mean()
            found[other] = float(np.corrcoef(gap.index.to_numpy(dtype=float), gap)[0, 1])
        told = ", ".join(f"over {k} {v:+.2f}" for k, v in found.items())
        return min(found.values()) > 0.5, f"correlation of the advantage with the withheld share: {told}"

    return check


# -- speed, bounds, features, bandwidth ----------------------------------------------------------------------


def smaller_is_better(t: pd.DataFrame) -> tuple[bool, str]:
    told = []
    for noise in ("none", "background", "middle class"):
        rows = t[t["noise"] == noise]
        middle = rows[rows["chosen_by_paper"]]["of_median"].median()
        best = rows.loc[rows.groupby(["d", "repetition"])["error"].idxmin(), "of_median"].median()
        told.append((noise, best / middle))
    factors = dict(told)
    return max(factors["background"], factors["middle class"]) < 0.75, "best σ over the σ of Δ_min (medians): " + _list(
        factors
    )


def paper_size(t: pd.DataFrame, method: str) -> tuple[float, int]:
    """Median seconds at 5·10⁶ rows twice, and the rows from which a square law (exact) extrapolates them."""
    mine = t[t["method"] == method]
    n = int(mine["rows"].max())
    power = 2 if method.startswith("exact") else 1
    return float(mine.loc[mine["rows"] == n, "seconds"].median() * (5_000_000 / n) ** power), n


def _timed(t: pd.DataFrame, method: str) -> str:
    seconds, n = paper_size(t, method)
    how = "measured" if n == 5_000_000 else f"extrapolated from {n:,} rows"
    return f"{method} {seconds:,.1f} s ({how})"


def under_a_second(t: pd.DataFrame) -> tuple[bool, str]:
    return paper_size(t, "RFFM")[
        0
    ] < 1, f"two sets of 5·10⁶ rows, without a GPU: {_timed(t, 'RFFM')}, {_timed(t, 'RFFM, σ chosen')}"


def faster_than_exact(t: pd.DataFrame) -> tuple[bool, str]:
    ratio = paper_size(t, "exact KMM")[0] / paper_size(t, "RFFM")[0]
    return ratio > 120, f"{ratio:,.0f} times faster: {_timed(t, 'exact KMM')}"


def held(*names: str) -> Check:
    def check(t: pd.DataFrame) -> tuple[bool, str]:
        rows = t[t["bound"].isin(names)].dropna(subset=["radius"])
        kept = int((rows["error"] <= rows["radius"]).sum())
        last = rows[rows["rows"] == rows["rows"].max()]
        factor = (last["radius"] / last["error"]).median()
        return kept >= 0.95 * len(rows), (
            f"held {kept} times of {len(rows)}; median bound/error {factor:.0f} at n = m = {last['rows'].max():,}"
        )

    return check


def eq1_below_eq2(t: pd.DataFrame) -> tuple[bool, str]:
    wide = t.pivot_table(index=["form", "rows", "repetition"], columns="bound", values="radius")
    above = (wide["Theorem 1, eq. 1"] > wide["Theorem 1, eq. 2"]).mean()
    return (
        above == 0,
        f"eq. 1 exceeds eq. 2 in {above:.0%} of the runs (source shares .4 .3 .15 .1 .05, batch shares uniform on the simplex)",
    )


def sharp_below_theorem1(t: pd.DataFrame) -> tuple[bool, str]:
    wide = t.pivot_table(index=["form", "rows", "repetition"], columns="bound", values="radius")
    best = wide[["Theorem 1, eq. 1", "Theorem 1, eq. 2"]].min(axis=1)
    known, data = wide["sharp, α* known"] / best, (wide["sharp, from the data"] / wide["Theorem 1, eq. 2"]).dropna()
    return bool((known < 1).all() and (data < 1).all()), (
        f"α* known: {known.median():.2f} of the smaller of eq. 1 and eq. 2; from the data: {data.median():.2f} of eq. 2 (medians)"
    )


def root_rate(t: pd.DataFrame) -> tuple[bool, str]:
    slopes = {}
    for kind, rows in t[(t["kind"] != "qmc") & (t["n_features"] >= 64)].groupby("kind"):
        means = rows.groupby("n_features")["kernel_error"].mean()
        slopes[str(kind)] = float(np.polyfit(np.log(means.index.to_numpy(dtype=float)), np.log(means), 1)[0])
    return all(abs(s + 0.5) < 0.07 for s in slopes.values()), "slopes in D of the kernel's error: " + _list(slopes)


def bias_never_better(t: pd.DataFrame) -> tuple[bool, str]:
    means = t.groupby(["d", "n_features", "kind"])["kernel_error"].mean().unstack()
    ratio = means["cos-bias"] / means["iid"]
    return bool(
        ratio.min() > 0.97
    ), f"its error over that of pairs (iid): {ratio.min():.2f} to {ratio.max():.2f}, mean {ratio.mean():.2f}"


def kinds_compared(t: pd.DataFrame) -> tuple[bool, str]:
    least = int(t["n_features"].median())
    means = t[t["n_features"] >= least].groupby(["d", "n_features", "kind"])["kernel_error"].mean().unstack()
    ratio = means.div(means["iid"], axis=0).mean()
    found = {k: float(ratio[k]) for k in ("orthogonal", "qmc", "structured")}
    return max(found.values()) <= 1, f"error over that of iid from D = {least}: {_list(found)}"


def chosen_well(flag: str, noise: str) -> Check:
    """Whether the mean error at the chosen σ is at most twice that at the best (and 0.005)."""

    def check(t: pd.DataFrame) -> tuple[bool, str]:
        rows = t[t["noise"] == noise]
        best = rows.groupby(["d", "repetition"])["error"].min().mean()
        chosen = rows[rows[flag]]
        mean, where = chosen["error"].mean(), chosen["of_median"].median()
        told = f"error {mean:.3f} at the chosen σ (in the median {where:.2f} of the median distance)"
        return mean <= 2 * best + 0.005, f"{told}, {best:.3f} at the best σ of each world"

    return check
