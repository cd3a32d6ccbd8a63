"""Figures of a comparison: error by shift, the diagonal of shares, and the critical-difference diagram."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from proportio.errors import InputError
from proportio.evaluation.comparison import ranks
from proportio.palette import BLACK, BLUE, GREEN, GREY, LOOK, ORANGE, PURPLE, RED, SKY

if TYPE_CHECKING:
    import pandas as pd

COLOURS = (BLACK, BLUE, ORANGE, GREEN, RED, PURPLE, SKY, GREY)
MARKERS = "os^Dv<>P*X"
DASHES = ("-", "--", "-.", ":")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise InputError("figures need matplotlib: pip install matplotlib.") from error
    return pyplot


def look_of(order: list[str]) -> dict[str, dict[str, Any]]:
    """Colour, marker and dashes of every method, no two alike up to some hundred."""
    return {
        name: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[(i + i // len(COLOURS)) % len(MARKERS)],
            "linestyle": DASHES[i // len(COLOURS) % len(DASHES)],
        }
        for i, name in enumerate(order)
    }


def _axes(ax: Any, width: float = 5.0, height: float = 3.4) -> Any:
    pyplot = _pyplot()
    pyplot.rcParams.update(LOOK)
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1] if ax is None else ax


def error_by_shift(
    frame: pd.DataFrame, measure: str = "ae", *, bins: int = 6, by: str = "level", ax: Any = None
) -> Any:
    """The mean of a measure against what was varied, with two standard errors, one line a method; returns the axes."""
    ax = _axes(ax)
    order = list(dict.fromkeys(frame["method"]))
    looks = look_of(order)
    values = frame[by].to_numpy(dtype=np.float64)
    distinct = np.unique(values)
    if len(distinct) > bins:
        edges = np.quantile(values, np.linspace(0, 1, bins + 1))
        cell = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, bins - 1)
    else:
        cell = np.searchsorted(distinct, values)
    for i, name in enumerate(order):
        mine = frame[(frame["method"] == name).to_numpy()].assign(at=values[frame["method"] == name])
        groups = mine.groupby(cell[frame["method"] == name])
        mean, error = groups[measure].mean(), groups[measure].sem().fillna(0)
        span = float(np.ptp(values)) or 1.0
        x = groups["at"].mean() + (i - len(order) / 2) * 0.004 * span  # beside each other, not over
        ax.errorbar(x, mean, 2 * error, label=name, elinewidth=0.7, **looks[name])
    withheld = by == "level" and bool((frame["unknown"] > 0).any())
    ax.set_xlabel("share of the withheld class" if withheld else "shift" if by == "level" else by)
    ax.set_ylabel(measure)
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=7, ncols=1, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def diagonal(frame: pd.DataFrame, *, of: int = 0, bins: int = 10, ax: Any = None) -> Any:
    """The mean estimated share of class `of` against its true share, with its standard deviation; right is the diagonal."""
    ax = _axes(ax, 4.4, 3.4)
    order = list(dict.fromkeys(frame["method"]))
    looks = look_of(order)
    ax.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
    for name in order:
        mine = frame[(frame["method"] == name) & (frame["error"] == "")]
        true = np.array([shares[of] for shares in mine["true"]])
        estimated = np.array([shares[of] for shares in mine["estimated"]])
        cell = np.minimum((true * bins).astype(int), bins - 1)
        filled = np.unique(cell)
        x, y, s = (
            np.array([f(v[cell == k]) for k in filled])
            for f, v in ((np.mean, true), (np.mean, estimated), (np.std, estimated))
        )
        ax.plot(x, y, label=name, **looks[name])
        ax.fill_between(x, y - s, y + s, color=looks[name]["color"], alpha=0.12, linewidth=0)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.set_xlabel("true share")
    ax.set_ylabel("estimated share")
    ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return ax


def critical_difference(table: pd.DataFrame, *, ax: Any = None) -> Any:
    """Mean ranks of the columns over the rows (data sets), best on the left; bars join what Nemenyi's test cannot tell apart."""
    mean, pvalue, critical = ranks(table)
    order = sorted(mean, key=lambda name: mean[name])
    k = len(order)
    half = (k + 1) // 2
    ax = _axes(ax, 6.6, 0.9 + 0.2 * half + 0.25)
    low, high = 1.0, float(k)
    room = 0.28 * (high - low)
    ax.set_xlim(low - room, high + room)
    ax.axis("off")
    ax.plot([low, high], [0, 0], color=BLACK, linewidth=0.9)
    for r in range(1, k + 1):
        ax.plot([r, r], [0, 0.15], color=BLACK, linewidth=0.9)
        ax.text(r, 0.25, str(r), ha="center", va="bottom", fontsize=7)
    joined = _cliques([mean[name] for name in order], critical)
    for depth, (i, j) in enumerate(joined):
        y = -0.25 - 0.22 * depth
        ax.plot(
            [mean[order[i]] - 0.03, mean[order[j]] + 0.03], [y, y], color=BLACK, linewidth=2.2, solid_capstyle="butt"
        )
    below = -0.4 - 0.22 * len(joined)
    for i, name in enumerate(order):
        left = i < half
        y = below - 0.42 * (i if left else k - 1 - i)
        edge = low - 0.02 * room if left else high + 0.02 * room
        ax.plot([mean[name], mean[name], edge], [0, y, y], color=GREY, linewidth=0.7)
        label = f"{name}  {mean[name]:.1f}" if left else f"{mean[name]:.1f}  {name}"
        ax.text(edge - (0.05 if left else -0.05), y, label, ha="right" if left else "left", va="center", fontsize=7.5)
    ax.plot([low, low + critical], [1.0, 1.0], color=RED, linewidth=1.6)
    ax.text(
        low + critical / 2, 1.1, f"critical difference {critical:.2f}", ha="center", va="bottom", fontsize=7, color=RED
    )
    ax.text(high, 1.0, f"Friedman p = {pvalue:.2g}, {len(table)} data sets", ha="right", va="center", fontsize=7)
    ax.set_ylim(below - 0.42 * half, 1.6)
    return ax


def _cliques(sorted_ranks: list[float], critical: float) -> list[tuple[int, int]]:
    """The longest stretches of methods within one critical difference."""
    out: list[tuple[int, int]] = []
    for i, first in enumerate(sorted_ranks):
        j = max(n for n, r in enumerate(sorted_ranks) if r - first <= critical)
        if j > i and (not out or j > out[-1][1]):
            out.append((i, j))
    return out


def save(ax: Any, path: Any) -> None:
    """Write the figure of these axes, SVG or PNG by its name, and close it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure = ax.get_figure()
        figure.savefig(path, dpi=150, metadata={"Date": None} if str(path).endswith(".svg") else None)
        _pyplot().close(figure)
