"""Every figure as SVG and PNG: means with 95% intervals over repetitions, drawn from the tables alone."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from proportio import storage
from proportio.reproduce.style import BLACK, BLUE, GREEN, GREY, LOOK, ORANGE, PURPLE, RED, SKY, style_of
from proportio.reproduce.tables import summary

Shared = bool | Literal["row", "col"]

HARD_LIMIT = "least for shares that sum to one"


def grid(
    rows: int, columns: int, height: float, width: float = 7.0, *, sharex: Shared = False, sharey: Shared = False
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of so many panels."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, sharex=sharex, sharey=sharey)
    return figure, [list(row) for row in axes]


def line(ax: Axes, means: pd.DataFrame, x: str, name: str, label: str | None = None, order: Sequence[str] = ()) -> None:
    """A mean with its interval as a band."""
    look = style_of(name, order)
    ax.plot(means[x], means["mean"], label=label or name, **look)  # type: ignore[arg-type]
    ax.fill_between(means[x], means["low"], means["high"], color=look["color"], alpha=0.15, linewidth=0)


def legend(figure: Figure, ax: Axes, columns: int = 5) -> None:
    """One legend under all panels."""
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=columns)


def noises(table: pd.DataFrame) -> Figure:
    """The appendix figure: rows of the batch, the contaminant in black."""
    kinds, levels = table["noise"].unique(), sorted(table["contamination"].unique())
    figure, axes = grid(len(kinds), len(levels), 2.0 * len(kinds), sharex="row", sharey="row")
    colours = [BLUE, ORANGE, GREEN, PURPLE, SKY, RED]
    for row, kind in zip(axes, kinds, strict=True):
        for ax, level in zip(row, levels, strict=True):
            part = table[(table["noise"] == kind) & (table["contamination"] == level)]
            for k in sorted(part["class"].unique(), reverse=True):
                mine = part[part["class"] == k]
                colour, name = (BLACK, "contamination") if k == 0 else (colours[(k - 1) % 6], f"class {k}")
                ax.scatter(mine["x1"], mine["x2"], s=2, color=colour, label=name, linewidths=0, rasterized=True)
            ax.set_title(f"{kind}, {level:.0%} of the batch")
        row[0].set_ylabel("second coordinate")
    for ax in axes[-1]:
        ax.set_xlabel("first coordinate")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=6, markerscale=3)
    return figure


PAPER = ("RFFM", "softRFFM", "softEnergy", "softBBSE+")
MEASURES = {"error": "l2 error of the shares", "error_rescaled": "l2 error among the known classes"}


def everywhere(table: pd.DataFrame) -> list[str]:
    """The methods that ran in every dimension: the paper's, and whichever a plan adds."""
    ran = table.groupby("method", sort=False)["d"].nunique()
    return list(ran[ran == ran.max()].index)


def robustness(table: pd.DataFrame) -> Figure:
    """The paper's figure: error against contamination, over all dimensions; below, shares among the known classes."""
    methods = everywhere(table)
    rows = table[table["method"].isin(methods)]
    means = {m: summary(rows, ["noise", "method", "contamination"], m) for m in MEASURES}
    kinds = table["noise"].unique()
    figure, axes = grid(2, len(kinds), 4.6, sharex=True, sharey="row")
    levels = np.array(sorted(table["contamination"].unique()))
    for row, (measure, words) in zip(axes, MEASURES.items(), strict=True):
        for ax, kind in zip(row, kinds, strict=True):
            for method in methods:
                found = means[measure]
                found = found[(found["noise"] == kind) & (found["method"] == method)]
                line(ax, found, "contamination", method, order=methods)
            if measure == "error":
                ax.plot(levels, levels / np.sqrt(5), color=GREY, linewidth=0.8, linestyle=":", label=HARD_LIMIT)
                ax.set_title(kind)
        row[0].set_ylabel(words)
    for ax in axes[-1]:
        ax.set_xlabel("contamination of the batch, ε")
    legend(figure, axes[0][0])
    return figure


def dimension(table: pd.DataFrame) -> Figure:
    """The same at the highest contamination, against the dimension."""
    level = table["contamination"].max()
    methods = everywhere(table)
    rows = table[table["method"].isin(methods) & (table["contamination"] == level)]
    means = summary(rows, ["noise", "method", "d"], "error")
    kinds = table["noise"].unique()
    figure, axes = grid(1, len(kinds), 2.6, sharey=True)
    for ax, kind in zip(axes[0], kinds, strict=True):
        for method in methods:
            found = means[(means["noise"] == kind) & (means["method"] == method)].sort_values("d")
            line(ax, found, "d", method, order=methods)
        ax.axhline(level / np.sqrt(5), color=GREY, linewidth=0.8, linestyle=":", label=HARD_LIMIT)
        ax.set_title(f"{kind}, ε = {level:g}")
        ax.set_xlabel("dimension")
    axes[0][0].set_ylim(bottom=0)
    axes[0][0].set_ylabel(MEASURES["error"])
    legend(figure, axes[0][0])
    return figure


def companions(table: pd.DataFrame) -> Figure:
    """Every method side by side at the highest contamination, in the dimensions that all of them ran in."""
    ran = table.groupby("d")["method"].nunique()
    rows = table[
        table["d"].isin(ran[ran == ran.max()].index) & (table["contamination"] == table["contamination"].max())
    ]
    names, kinds = list(rows["method"].unique())[::-1], rows["noise"].unique()
    figure, axes = grid(1, len(kinds), 0.2 * len(names) + 1, sharey=True, sharex=True)
    for ax, kind in zip(axes[0], kinds, strict=True):
        found = summary(rows[rows["noise"] == kind], ["method"], "error").set_index("method").loc[names]
        for y, (name, r) in enumerate(found.iterrows()):
            look = style_of(str(name), names)
            ax.plot([r["low"], r["high"]], [y, y], color=look["color"], linewidth=2, alpha=0.5)
            ax.plot(r["mean"], y, color=look["color"], marker=look["marker"], markersize=5)
        ax.axvline(rows["contamination"].max() / np.sqrt(5), color=GREY, linewidth=0.8, linestyle=":")
        ax.set_title(f"{kind}, ε = {rows['contamination'].max():g}")
        ax.set_xlabel(MEASURES["error"])
        ax.grid(axis="y", linewidth=0.3)
    axes[0][0].set_xlim(0, 1.05 * summary(rows, ["noise", "method"], "error")["high"].max())
    axes[0][0].set_yticks(range(len(names)), names)
    return figure


def hipc(table: pd.DataFrame) -> Figure:
    """The paper's figure: error where a class is withheld, classes sorted by share; below, the companions."""
    known = table.sort_values("share", kind="stable")[["withheld", "share"]].drop_duplicates()
    labels = ["none" if w == "none" else f"{w}, {s:.1%}" for w, s in known.itertuples(index=False)]
    place = {w: i for i, w in enumerate(known["withheld"])}
    figure, axes = grid(2, 1, 6.2, sharex=True)
    others = [m for m in table["method"].unique() if m not in PAPER]
    for (ax,), wanted in zip(axes, (PAPER, ["softRFFM", *others]), strict=True):
        methods = [m for m in wanted if m in set(table["method"])]
        for k, method in enumerate(methods):
            found = summary(table[table["method"] == method], ["withheld"], "error")
            shift = (k - (len(methods) - 1) / 2) * 0.1
            x = [place[w] + shift for w in found["withheld"]]
            look = {**style_of(method, others), "linestyle": "none"}
            half = found["high"] - found["mean"]
            ax.errorbar(x, found["mean"], half, label=method, elinewidth=0.8, **look)  # type: ignore[arg-type]
        ax.set_ylabel(MEASURES["error"])
        ax.set_ylim(bottom=0)
        ax.grid(axis="y", linewidth=0.3)
        if methods:
            ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    axes[1][0].set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    axes[1][0].set_xlabel("class that is missing from the source, and its share")
    return figure


def speed(table: pd.DataFrame) -> Figure:
    """Seconds against rows; exact matching extrapolated by its square law."""
    figure, ((ax,),) = grid(1, 1, 3.0)
    for method, rows in table.groupby("method", sort=False):
        found = summary(rows, ["rows"], "seconds", log=True).sort_values("rows")
        line(ax, found, "rows", str(method))
        n, s = found["rows"].iloc[-1], found["mean"].iloc[-1]
        if str(method).startswith("exact"):
            ax.plot([n, 5e6], [s, s * (5e6 / n) ** 2], color=BLACK, linestyle=":", label=f"{method}, extrapolated")
    ax.set(xscale="log", yscale="log")
    for seconds, words in ((1, "1 second"), (60, "1 minute"), (3600, "1 hour")):
        ax.axhline(seconds, color=GREY, linewidth=0.5)
        ax.text(table["rows"].min(), seconds * 1.1, words, color=GREY, fontsize=7)
    ax.set_xlabel("rows of the source, and as many of the batch")
    ax.set_ylabel("seconds, fit and answer")
    figure.legend(loc="outside right upper")
    return figure


def bounds(table: pd.DataFrame) -> Figure:
    """Each bound and the error that it bounds, against the number of rows."""
    parts = [("hard", "none"), ("hard", "far class"), ("soft", "far class"), ("soft", "middle class")]
    there = set(zip(table["form"], table["noise"], strict=True))
    parts = [part for part in parts if part in there]
    figure, axes = grid(1, len(parts), 2.9, sharey=True)
    seen: dict[str, Artist] = {}
    for ax, (form, noise) in zip(axes[0], parts, strict=True):
        rows = table[(table["form"] == form) & (table["noise"] == noise)]
        for bound, mine in rows.groupby("bound", sort=False):
            line(ax, summary(mine, ["rows"], "radius").sort_values("rows"), "rows", str(bound))
        line(ax, summary(rows, ["rows"], "error").sort_values("rows"), "rows", "error")
        ax.set(xscale="log", yscale="log", xlabel="rows, n = m")
        ax.axhline(np.sqrt(2), color=GREY, linewidth=0.8, linestyle=":", label="√2, the diameter: vacuous above")
        ax.set_title(f"{form}, {'no noise' if noise == 'none' else noise}")
        seen |= dict(zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    axes[0][0].set_ylabel("l2 distance of the shares")
    figure.legend(list(seen.values()), list(seen), loc="outside lower center", ncols=3)
    return figure


def fourier(table: pd.DataFrame) -> Figure:
    """Errors of random Fourier features against their number, by kind of frequency."""
    dims = sorted(table["d"].unique())
    figure, axes = grid(2, len(dims), 4.4, sharex=True, sharey="row")
    words = {
        "kernel_error": "error of the kernel (rms)",
        "distance_to_exact": "l2 distance of the shares\nfrom exact matching",
    }
    for row, (measure, label) in zip(axes, words.items(), strict=True):
        for ax, d in zip(row, dims, strict=True):
            for kind, rows in table[table["d"] == d].groupby("kind", sort=False):
                line(ax, summary(rows, ["n_features"], measure), "n_features", str(kind))
            ax.set(xscale="log", yscale="log")
            if measure == "kernel_error":
                ax.set_title(f"dimension {d}")
        row[0].set_ylabel(label)
    for ax in axes[-1]:
        ax.set_xlabel("features, D")
    legend(figure, axes[0][0])
    return figure


def bandwidth(table: pd.DataFrame) -> Figure:
    """Error of softRFFM and Δ_min against σ, and what each criterion chooses."""
    dims = sorted(table["d"].unique())
    figure, axes = grid(2, len(dims), 4.4, sharex=True, sharey="row")
    flags = {"chosen_by_paper": (BLACK, r"$\Delta_{\min}$", 0.97), "chosen_by_error": (ORANGE, "predicted error", 0.9)}
    for k, d in enumerate(dims):
        rows = table[table["d"] == d]
        for noise, mine in rows.groupby("noise", sort=False):
            name = "no contamination" if noise == "none" else str(noise)
            line(axes[0][k], summary(mine, ["of_median"], "error", log=True), "of_median", str(noise), name)
        clean = rows[rows["noise"] == "none"]
        line(axes[1][k], summary(clean, ["of_median"], "delta_min"), "of_median", "softRFFM", r"$\Delta_{\min}$")
        for flag, (colour, words, height) in flags.items():
            chosen = clean[clean[flag]]["of_median"].unique()
            for ax in (axes[0][k], axes[1][k]):
                at = np.full(len(chosen), height)
                ax.plot(
                    chosen,
                    at,
                    "|",
                    color=colour,
                    transform=ax.get_xaxis_transform(),
                    markersize=9,
                    label=f"σ chosen by {words}",
                )
        axes[0][k].set(xscale="log", yscale="log", title=f"dimension {d}")
        axes[1][k].set_xlabel("σ over the median distance")
    axes[0][0].set_ylabel("l2 error of softRFFM\n(geometric mean)")
    axes[1][0].set_ylabel(r"$\Delta_{\min}$")
    legend(figure, axes[0][0], 3)
    return figure


FIGURES: dict[str, tuple[str, Callable[[pd.DataFrame], Figure]]] = {
    "noises": ("noises", noises),
    "robustness": ("robustness", robustness),
    "dimension": ("robustness", dimension),
    "companions": ("robustness", companions),
    "hipc": ("hipc", hipc),
    "speed": ("speed", speed),
    "bounds": ("bounds", bounds),
    "fourier": ("fourier", fourier),
    "bandwidth": ("bandwidth", bandwidth),
}


def draw(tables: dict[str, pd.DataFrame], out: Path) -> list[Path]:
    """Every figure whose table is there, as SVG and PNG."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (needs, make) in FIGURES.items():
        if needs not in tables:
            continue
        with mpl.rc_context(LOOK):
            figure = make(tables[needs])
            for kind, extra in (("svg", {"Date": None}), ("png", {"Software": None})):
                data = io.BytesIO()
                figure.savefig(data, format=kind, dpi=100, metadata=extra)
                storage.write(out / f"{name}.{kind}", data.getvalue())
                written.append(out / f"{name}.{kind}")
    return written
