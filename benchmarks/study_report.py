"""docs/studies/uncertainty.md and its figure, from the parts of the study that have run; each row with its replications."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kstest

import study_bounds
import study_unknown
import study_worlds
from parts import gathered

NOMINAL, BAND = 0.95, 0.015

HEAD = """# Error bars, tests and bounds by simulation

Written by `python benchmarks/study.py`, which draws every replication anew: reference rows, batch labels, batch rows. Classes are
normal with unit spread, at the corners of a cube of edge 2.5 (c = 2: at distance 2); true shares inside the simplex are
1 : 2 : … : c. RFFM has 100 features, σ = 1.5, as KMM; BBSE a logistic regression trained elsewhere, unless it is cross-fitted. One
reference and its fit serve the batches of all sizes and both forms. R is the number of replications behind a row; a proportion
has a Monte Carlo error of √(p(1 − p)/R): 0.005 at 0.95 and R = 2,000, 0.010 at R = 500.
"""

COVERAGE = (
    ("coverage", "classes"),
    ("worst", "worst class"),
    ("simultaneous", "all at once"),
    ("region", "region"),
    ("target only", "batch's noise alone"),
    ("width", "width"),
    ("shares in interval", "holds α̂"),
    ("noted", "noted"),
)
OF_THE_TEST = ("rejected", "else", "effect", "detectable", "boot rejected")  # the same in the soft form: shown once
TEST = (
    ("rejected", "rejected at 0.05"),
    ("ks distance", "KS distance"),
    ("ks", "KS p"),
    ("effect", "effect"),
    ("detectable", "detectable"),
)

Row = dict[str, Any]


def world_rows(kept: Path, families: Sequence[study_worlds.Family]) -> list[Row]:
    """One row for each family, size and form that has run."""
    rows = []
    for f in families:
        seen = gathered(kept / f.name)
        for m in f.ms if seen else ():
            for form in study_worlds.FORMS:
                prefix = f"{form}-{m}-"
                own = {k.removeprefix(prefix): v for k, v in seen.items() if k.startswith(prefix)}
                world = {"table": f.table, "method": f.method, "c": f.c, "n": f.n, "where": f.where}
                row = reduced(own, study_worlds.truth(f, form))
                rows.append({**world, "m": m, "form": form, "contamination": f.contamination, **row})
    order = {"RFFM": 0, "KMM": 1, "BBSE": 2}
    return sorted(rows, key=lambda r: (order.get(r["method"], 3), r["c"], r["n"], r["m"], r["where"], r["form"]))


def reduced(o: dict[str, np.ndarray], alpha: np.ndarray) -> Row:
    """Means over replications."""
    sd = o["free"].std(axis=0, ddof=1)
    spread = np.where(sd > 0, sd, np.nan)
    p = o["p"][np.isfinite(o["p"])]
    row: Row = {
        "reps": len(o["p"]),
        "coverage": o["covered"].mean(),
        "worst": o["covered"].mean(axis=0).min(),
        "target only": o["target only"].mean(),
        "simultaneous": o["simultaneous"].mean(),
        "region": o["region"].mean(),
        "width": np.nanmean(o["half"].mean(axis=0) / 1.96 / spread),
        "shares in interval": o["inside"].mean(),
        "rejected": (p < 0.05).mean() if len(p) else None,
        "ks": kstest(p, "uniform").pvalue if len(p) else None,
        "ks distance": kstest(p, "uniform").statistic if len(p) else None,
        "effect": np.median(o["effect"]) if len(p) else None,
        "detectable": np.median(o["detectable"]) if len(p) else None,
        "noted": o["noted"].mean(),
        "else": (o["verdict"] == "something else is in it").mean(),
    }
    if "unknown" in o:
        row["unknown"] = o["unknown"].mean()
    if "boot" in o:
        row |= {"boot": o["boot"].mean(), "boot rejected": (o["boot p"] < 0.05).mean()}
    if "ratio" in o:
        row |= {f"bounds {d}": o[f"bounds {d}"].sum(axis=0) for d in (0.05, 0.5)}
        row |= {"ratio": o["ratio"].min(), "radius": o["radius"].mean(axis=0)}
    return row


def table(rows: Iterable[Row], columns: Sequence[tuple[str, str]]) -> str:
    """One line a world."""
    names = ["method", "c", "n_i", "m", "shares", *(title for _, title in columns), "R"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for r in rows:
        world = [
            ("soft " if r["form"] == "soft" else "") + r["method"],
            r["c"],
            f"{r['n']:,}",
            f"{r['m']:,}",
            r["where"],
        ]
        values = ["" if r.get(key) is None else f"{r[key]:.3f}" for key, _ in columns]
        lines.append("| " + " | ".join(map(str, [*world, *values, f"{r['reps']:,}"])) + " |")
    return "\n".join(lines)


# -- in short --------------------------------------------------------------------------------------------------------


def span(rows: Sequence[Row], key: str) -> str:
    values = [r[key] for r in rows if r.get(key) is not None]
    return f"{min(values):.3f} to {max(values):.3f}" if values else "not run yet"


def within(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """How many of the rows lie in the band, three Monte Carlo errors allowed for."""
    if not rows:
        return "none run yet"
    inside = [
        all(abs(r[k] - NOMINAL) <= BAND + 3 * np.sqrt(NOMINAL * (1 - NOMINAL) / r["reps"]) for k in keys) for r in rows
    ]
    strictly = [all(abs(r[k] - NOMINAL) <= BAND for k in keys) for r in rows]
    return f"{sum(strictly)} of {len(rows)} (with three Monte Carlo errors more: {sum(inside)})"


def in_short(rows: Sequence[Row]) -> str:
    """The claims, each with the numbers of all worlds that it speaks of."""
    free = [r for r in rows if r["contamination"] == "none"]
    inner, edge = ([r for r in free if (r["where"] == "inside") == flag] for flag in (True, False))
    few, many = ([r for r in inner if (r["n"] < 50) == flag] for flag in (True, False))
    crowded, plenty = [r for r in few if r["c"] == 20], [r for r in many if r["n"] >= 300]
    edge_few, edge_many = ([r for r in edge if (r["n"] < 50) == flag] for flag in (True, False))
    tested = [r for r in free if r["rejected"] is not None]
    uniform = sum(r["ks"] > 0.01 for r in tested)
    bounded = [r for r in free if "ratio" in r]
    broken = {d: sum((r[f"bounds {d}"] for r in bounded), start=np.zeros(3)) for d in (0.05, 0.5)}
    beaten = "; ".join(
        f"at δ = {d} sharp at α* {v[0]:.0f}, sharp {v[1]:.0f}, Theorem 1 {v[2]:.0f}" for d, v in broken.items()
    )
    ratio = min((r["ratio"] for r in bounded), default=float("nan"))
    lines = [
        f"Inside the simplex, 50 rows a class or more, classes covered 0.95 ± {BAND}: {within(many, ['coverage'])}, "
        f"{span(many, 'coverage')}; regions: {within(many, ['region'])}, {span(many, 'region')}.",
        f"With 30 rows a class: {within(few, ['coverage'])}, {span(few, 'coverage')} (c = 20: {span(crowded, 'coverage')}); "
        f"regions {within(few, ['region'])}, {span(few, 'region')}.",
        f"The estimate says so (*noted*) in {span(few, 'noted')} of these runs, and in {span(plenty, 'noted')} of those with "
        "300 rows or more.",
        f"On the boundary, 300 rows a class: classes {span(edge_many, 'coverage')}, worst class {span(edge_many, 'worst')}, "
        f"region {span(edge_many, 'region')}; 30 rows: {span(edge_few, 'coverage')}, {span(edge_few, 'worst')}, "
        f"{span(edge_few, 'region')}.",
        f"With the batch's noise alone: {span(free, 'target only')}.",
        f"Half-widths over 1.96 times the empirical spread of α̃: {span(many, 'width')} inside with 50 rows or more, "
        f"{span(few, 'width')} with 30; on the boundary {span(edge_many, 'width')} and {span(edge_few, 'width')}.",
        f"The label-shift test rejects at 0.05, where label shift holds: {span(tested, 'rejected')}; Kolmogorov-Smirnov "
        f"p > 0.01 in {uniform} of {len(tested)} worlds. Ten per cent amid the classes: "
        f"{span([r for r in rows if r['contamination'] == 'middle'], 'rejected')}.",
        f"Bounds beaten by the error, of {sum(r['reps'] for r in bounded):,} runs: {beaten}. The sharp radius at α* is at least "
        f"{ratio:.2f} times smaller than Theorem 1 (eq. 1).",
    ]
    return "## In short\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


# -- the page --------------------------------------------------------------------------------------------------------


def write(kept: Path, pages: Path, families: Sequence[study_worlds.Family]) -> None:
    """The page and its figure."""
    rows = world_rows(kept, families)
    free = [r for r in rows if r["contamination"] == "none"]
    rows = [{**r, **(dict.fromkeys(OF_THE_TEST) if r["form"] == "soft" else {})} for r in rows]
    other = [{**r, "where": r["contamination"]} for r in rows if r["contamination"] != "none"]
    sections: list[tuple[str, str, Callable[[], str]]] = [
        (
            "Coverage of nominal 0.95 inside the simplex",
            "*Width* is the half-width over 1.96 times the empirical spread of α̃; *noted* how often the estimate warns of few "
            "rows or of classes that are not separated.\n\n![coverage against the rows of a class](coverage.png)",
            lambda: table([r for r in free if r["where"] == "inside"], COVERAGE),
        ),
        (
            "Coverage on the boundary",
            "vertex: one class only; edge: two; absent: one class missing.",
            lambda: table([r for r in free if r["where"] != "inside"], COVERAGE),
        ),
        (
            "Label-shift test where label shift holds",
            "The test is that of shares that sum to one, the same for both forms. KS: distance of the p-values from the uniform "
            "law, and its own p.",
            lambda: table([r for r in free if r["form"] == "hard" and r["rejected"] is not None], TEST),
        ),
        (
            "Label-shift test where a tenth of the batch is something else",
            "middle: a narrow class amid the others; far: a class away from all; span: half first, half second class, which is "
            "undetectable: the shares absorb it. Coverage is that of the true shares (in the soft form 0.9 of the known ones) and "
            "of 0.1 by the interval of the unknown share.",
            lambda: table(
                other,
                (*TEST[:1], ("else", "*something else*"), *TEST[3:], *COVERAGE[:2], ("unknown", "unknown share")),
            ),
        ),
        (
            "Multiplier bootstrap beside the formulas",
            "",
            lambda: table(
                [r for r in rows if "boot" in r],
                (*COVERAGE[:1], ("boot", "bootstrap"), *TEST[:1], ("boot rejected", "bootstrap rejected")),
            ),
        ),
        ("The unknown share", study_unknown.INTRO, lambda: study_unknown.report(kept)),
        ("Bounds", study_bounds.INTRO, lambda: study_bounds.report([r for r in free if "ratio" in r])),
    ]
    pages.mkdir(parents=True, exist_ok=True)
    parts = [HEAD, in_short(rows)] + [f"\n## {title}\n\n{text}\n\n{body()}" for title, text, body in sections]
    (pages / "uncertainty.md").write_text("\n".join(parts) + "\n")
    inside = [r for r in free if r["where"] == "inside" and r["table"] == "coverage"]
    if inside:
        figure(inside, pages)


def figure(rows: Sequence[Row], pages: Path) -> None:
    """Coverage against n_i: methods by columns, numbers of classes by rows; two-sided intervals and the batch's noise alone."""
    import matplotlib as mpl

    from proportio.reproduce.figures import grid, legend
    from proportio.reproduce.style import BLUE, GREEN, LOOK, ORANGE

    methods, classes = ("RFFM", "KMM", "BBSE"), (2, 5, 20)
    colours = dict(zip(study_worlds.SIZES, (ORANGE, GREEN, BLUE), strict=True))
    with mpl.rc_context(LOOK):
        fig, axes = grid(len(classes), len(methods), 6.2, sharex=True, sharey=True)
        for row, c in zip(axes, classes, strict=True):
            for ax, method in zip(row, methods, strict=True):
                ax.axhspan(NOMINAL - BAND, NOMINAL + BAND, color="0.9", lw=0)
                ax.set_title(f"{method}, c = {c}")
                for k, (m, colour) in enumerate(colours.items()):
                    mine = [r for r in rows if (r["method"], r["c"], r["m"]) == (method, c, m)]
                    for form, marker, beside in (
                        ("hard", "o", 1.16 ** (2 * k - 2.5)),
                        ("soft", "^", 1.16 ** (2 * k - 1.5)),
                    ):
                        line = sorted(
                            (r["n"], r["coverage"], r["target only"], r["reps"]) for r in mine if r["form"] == form
                        )
                        if not line:
                            continue
                        n, covered, alone, reps = np.array(line).T
                        error = 1.96 * np.sqrt(covered * (1 - covered) / reps)
                        name = f"{form}, m = {m:,}"
                        ax.errorbar(
                            n * beside, covered, error, color=colour, marker=marker, ls="", lw=1, ms=3, label=name
                        )
                        if form == "hard":
                            ax.plot(
                                n, alone, "x:", color=colour, lw=1, ms=3, label=f"the batch's noise alone, m = {m:,}"
                            )
                ax.set_xscale("log")
                ax.set_xticks([30, 300, 5000], ["30", "300", "5,000"])
                ax.minorticks_off()
                ax.set_ylim(0.5, 1.0)
        for ax in axes[-1]:
            ax.set_xlabel("rows a class, n_i")
        for row in axes:
            row[0].set_ylabel("coverage, nominal 0.95")
        fullest = max((ax for row in axes for ax in row), key=lambda ax: len(ax.get_legend_handles_labels()[1]))
        legend(fig, fullest, 3)
        for kind in ("png", "svg"):
            fig.savefig(pages / f"coverage.{kind}", dpi=150, metadata={"Date": None} if kind == "svg" else None)
