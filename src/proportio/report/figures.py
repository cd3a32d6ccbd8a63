"""The figures of a report, each on a given matplotlib axis: shares, the bandwidth curve, samples, errors, Bland and Altman's.

plot_shares      bars of α̂_i, their intervals, a tick where β̃_i stands
plot_error       α̂_i against α*_i;    bland_altman   α̂_i − α*_i against their mean, with the mean difference ± 1.96 sd
"""

from __future__ import annotations

import io
import re
import warnings
import zlib
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from proportio.bandwidth import BandwidthCurve
from proportio.estimate import Estimate
from proportio.palette import BLACK, BLUE, GREEN, GREY, LOOK, ORANGE, RED
from proportio.report.truth import Array, Estimates, estimated, named, pairs, true_shares
from proportio.report.words import clipped, verdict

MOST = 24  # classes that one axis has room for
CROWD = 600  # points from which an axis is drawn as pixels, so that the file stays small
VARIABLES = {BLACK: "currentColor", BLUE: "var(--share)", ORANGE: "var(--interval)", RED: "var(--alarm)",
             GREEN: "var(--truth)", GREY: "var(--muted)"}  # fmt: skip


def plot_shares(est: Estimate, ax: Axes | None = None, *, truth: Any = None) -> Axes:
    """The share of each class with its 95% interval, beside the reference's share and the true one where it is given."""
    ax = _axis(ax)
    lines = est._lines()
    kept = np.arange(len(lines))
    if len(lines) > MOST:
        kept = np.sort(np.argsort([-line.share for line in lines], kind="stable")[:MOST])
        ax.set_title(f"the {MOST} largest of {len(lines)} classes", color=GREY)
    shown, y = [lines[i] for i in kept], np.arange(len(kept))
    ax.barh(y, [line.share for line in shown], height=0.62, color=BLUE, label="share")
    ranged = [(k, *line.limits) for k, line in enumerate(shown) if line.limits]
    if ranged:
        k, low, high = np.transpose(ranged)
        ax.hlines(k, low, high, color=ORANGE, linewidth=2.2, label="95% interval", zorder=3)
    prior = [(k, line.prior) for k, line in enumerate(shown) if line.prior is not None]
    ax.plot([p for _, p in prior], [k for k, _ in prior], "|", color=BLACK, markersize=12, label="reference")
    if truth is not None:
        ax.plot(true_shares(truth, est)[kept], y, "x", color=GREEN, markersize=6, label="truth", zorder=4)
    ax.set_yticks(y, [clipped(line.name, 24) for line in shown], parse_math=False)
    ax.invert_yaxis()
    ax.set_xlim(0, None)
    _percent(ax.xaxis)
    ax.set_xlabel("share of the batch")
    ax.legend(loc="best")
    return ax


def plot_bandwidth(curve: BandwidthCurve, ax: Axes | None = None) -> Axes:
    """The criterion over the bandwidths that were tried, one thin line a draw of the frequencies, and the one chosen."""
    ax = _axis(ax)
    ax.plot(curve.sigmas, curve.values.T, color=GREY, linewidth=0.7)
    ax.plot(curve.sigmas, curve.mean, "o-", color=BLUE, label="mean of the draws")
    ax.axvline(curve.chosen, color=ORANGE, linestyle="--", label=f"chosen, {curve.chosen:.3g}")
    ax.set_xscale("log")
    if np.nanmin(curve.values, initial=np.inf) > 0:
        ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if axis.get_scale() == "log" else MaxNLocator(5))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("bandwidth σ")
    ax.set_ylabel("l2 error to expect" if curve.criterion == "error" else "Δ_min, unbiased")
    ax.legend()
    return ax


def plot_samples(estimates: Estimates, of: Any = None, ax: Axes | None = None) -> Axes:
    """The share of class `of` (None: the first; "(unknown)") in every sample, with intervals; crosses mark broken label shift."""
    ax = _axis(ax)
    found = named(estimates)
    first = next(iter(found.values()))
    names = [line.name for line in first._lines()]
    i = names.index(str(of)) if of is not None else 0
    x, shares = np.arange(len(found)), np.array([estimated(est)[i] for est in found.values()])
    ranges = [est._limits() for est in found.values()]
    limits = np.array([(np.nan, np.nan) if r is None else r[i] for r in ranges])
    prior = first.source_prior[i] if i < len(first.classes) else None
    gap = np.full(len(x), np.nan)
    ax.plot(
        np.stack([x, x, gap], 1).ravel(),
        np.column_stack([limits, gap]).ravel(),
        color=ORANGE,
        linewidth=1.6 if len(x) <= 40 else 0.8,
    )
    broken = np.array([(verdict(est) or ("", None))[0] == "alarm" for est in found.values()])
    size = 4.5 if len(x) <= 40 else 2.2
    ax.plot(x[~broken], shares[~broken], "o", color=BLUE, markersize=size)
    ax.plot(x[broken], shares[broken], "X", color=RED, markersize=size + 1.5)
    if prior is not None:
        ax.axhline(prior, color=BLACK, linewidth=0.8, linestyle="--")
    top = np.nanmax([*shares, *limits[:, 1], prior or 0.0])
    ax.set_ylim(0, min(1.02, 1.08 * top) or 1)
    ax.set_xlim(-0.6, len(x) - 0.4)
    _percent(ax.yaxis)
    ax.set_title(clipped(names[i], 30), parse_math=False, loc="left")
    labels = list(found) if len(found) <= 12 else []
    ax.set_xticks(x[: len(labels)], [clipped(n, 14) for n in labels], rotation=45, ha="right", parse_math=False)
    return ax


def plot_error(truth: Any, estimates: Estimates, ax: Axes | None = None) -> Axes:
    """Estimated against true shares, one point a class and sample; on the diagonal they agree."""
    ax = _axis(ax)
    true, found = _stacked(pairs(truth, estimates))
    top = 1.05 * max(true.max(), found.max())
    ax.plot([0, top], [0, top], color=GREY, linewidth=0.8, label="agreement")
    if isinstance(estimates, Estimate) and (limits := estimates._limits()) is not None:
        ax.vlines(true, limits[:, 0], limits[:, 1], color=ORANGE, linewidth=1.6, label="95% interval")
    _points(ax, true, found)
    ax.set_aspect("equal", adjustable="box")
    ax.set(xlabel="true share", ylabel="estimated share", xlim=(-0.02 * top, top), ylim=(-0.02 * top, None))
    _percent(ax.xaxis, ax.yaxis)
    ax.legend(loc="upper left")
    return ax


def bland_altman(truth: Any, estimates: Estimates, ax: Axes | None = None) -> Axes:
    """Estimate minus truth against their mean, with the mean difference and the limits of agreement (± 1.96 sd)."""
    ax = _axis(ax)
    true, found = _stacked(pairs(truth, estimates))
    difference = found - true
    mean, reach = float(difference.mean()), 1.96 * float(difference.std(ddof=1)) if len(difference) > 1 else 0.0
    ax.axhline(mean, color=BLACK, linewidth=1, label=f"mean {round(mean, 4) + 0.0:+.2%}")
    ax.axhline(mean - reach, color=RED, linestyle="--", linewidth=1, label=f"± 1.96 sd, {reach:.2%}")
    ax.axhline(mean + reach, color=RED, linestyle="--", linewidth=1)
    _points(ax, (true + found) / 2, difference)
    ax.set(xlabel="mean of estimated and true share", ylabel="estimated − true")
    _percent(ax.xaxis, ax.yaxis)
    ax.margins(y=0.25)
    ax.legend(loc="best")
    return ax


def svg(draw: Any, *args: Any, width: float = 4.6, height: float = 2.9, **more: Any) -> str:
    """The figure that `draw(*args, ax=ax)` makes, as inline SVG whose colours follow the page's variables."""
    with mpl.rc_context({**LOOK, "axes.unicode_minus": True, "grid.color": GREY}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the page's own font draws it
        figure = Figure(figsize=(width, height), layout="constrained")
        ax = figure.subplots()
        draw(*args, ax=ax, **more)
        ax.set_axisbelow(True)
        ax.grid(axis="y", linewidth=0.3, alpha=0.6)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return inline(out.getvalue(), f"{draw.__name__}-{more.get('of', '')}")


def inline(text: str, name: str) -> str:
    """matplotlib's SVG for a page: no prologue, short numbers, ids of its own, styles written once, colours as CSS variables."""
    own = f"f{zlib.crc32(name.encode()):x}"
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<defs>\s*</defs>", "", text, flags=re.DOTALL)
    text = re.sub(
        r"<svg [^>]*?viewBox=\"([^\"]*)\"[^>]*>",
        r'<svg viewBox="\1" aria-hidden="true" focusable="false">',
        text,
        count=1,
    )
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r'(\bid="|xlink:href="#|url\(#)', rf"\g<1>{own}", text).replace("xlink:href", "href")
    text = re.sub(r"<[^>]*>", lambda tag: _shorter(tag[0]), text)
    text = re.sub(r'<g([^>]*)>\s*((?:<use [^>]*? style="[^"]*"/>\s*)+)</g>', _hoisted, text)
    for colour, variable in VARIABLES.items():
        text = re.sub(re.escape(colour), variable, text, flags=re.IGNORECASE)
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    return re.sub(r"\s*\n\s*", "\n", text).strip()


def _shorter(tag: str) -> str:
    """A tag with its coordinates to two decimals; one that holds pixels is left alone."""
    return tag if "base64" in tag else re.sub(r"\d+\.\d{3,}", lambda v: f"{float(v[0]):.2f}", tag)


def _hoisted(group: re.Match[str]) -> str:
    """A group of markers with the style that they share on the group."""
    styles = set(re.findall(r'style="([^"]*)"', group[2]))
    if len(styles) > 1:
        return group[0]
    return f'<g{group[1]} style="{styles.pop()}">{re.sub(r" style=.[^>]*?./>", "/>", group[2])}</g>'


def _stacked(found: Sequence[tuple[Estimate, Array]]) -> tuple[Array, Array]:
    return np.concatenate([t for _, t in found]), np.concatenate([estimated(est) for est, _ in found])


def _points(ax: Axes, x: Array, y: Array) -> None:
    ax.plot(
        x, y, "o", color=BLUE, markersize=4 if len(x) <= 200 else 2, alpha=0.75, linestyle="", rasterized=len(x) > CROWD
    )


def _percent(*axes: Axis) -> None:
    for axis in axes:
        axis.set_major_locator(MaxNLocator(6))
        axis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.6g}%".replace("-", "−")))


def _axis(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]
