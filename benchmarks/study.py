"""Coverage, size, power and violations by simulation: `python benchmarks/study.py [--only TEXT] [--reps 2000] [--all]`.

Each cell is one world (method, form, classes, rows, shares), simulated `reps` times with everything drawn anew: reference rows,
batch labels, batch rows. Cells are independent; a finished one is kept in `.study/` and not run again, so the study can be
stopped and resumed. Tables go to docs/studies/uncertainty.md, each with its replications and Monte Carlo error.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit
from scipy.stats import kstest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import proportio as pp
from proportio.bounds import Ingredients, sharp, theorem1
from proportio.evidence import influences

HERE = Path(__file__).resolve().parents[1]
KEPT, REPORT = HERE / ".study", HERE / "docs" / "studies" / "uncertainty.md"


@dataclass(frozen=True)
class Cell:
    """One world."""

    table: str
    method: str
    soft: bool
    c: int
    n: int
    m: int
    where: str = "inside"
    contamination: str = "none"

    @property
    def name(self) -> str:
        form = "soft" if self.soft else "hard"
        return f"{self.table}-{self.method}-{form}-c{self.c}-n{self.n}-m{self.m}-{self.where}-{self.contamination}"


def alpha_of(cell: Cell) -> np.ndarray:
    """The true shares: 1 : 2 : … : c inside; one class only; two classes only; the first class absent."""
    ramp = np.arange(1.0, cell.c + 1)
    if cell.where == "vertex":
        ramp[:-1] = 0
    elif cell.where == "edge":
        ramp[:-2] = 0
    elif cell.where == "absent":
        ramp[0] = 0
    return np.asarray(ramp / ramp.sum())


def centres(c: int) -> np.ndarray:
    """Class means: a row of corners in three dimensions, six for many classes; spread 1, nearest distance about 2.5."""
    if c == 2:
        return np.array([[0.0, 0, 0], [2.0, 0, 0]])
    d = 3 if c <= 5 else 6
    return np.random.default_rng(8).permutation(np.array(np.meshgrid(*[[0, 1]] * d)).reshape(d, -1).T)[:c] * 2.5


def rows_of(labels: np.ndarray, mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.asarray(mu[labels] + rng.standard_normal((len(labels), mu.shape[1])))


def contaminate(Z: np.ndarray, cell: Cell, mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the batch becomes something else: a narrow class amid the others, or an unseen mixture of two of them."""
    if cell.contamination == "none":
        return Z
    hit = rng.random(len(Z)) < 0.1
    k = int(hit.sum())
    if cell.contamination == "middle":
        Z[hit] = mu.mean(axis=0) + 0.5 * rng.standard_normal((k, mu.shape[1]))
    elif cell.contamination == "far":
        Z[hit] = mu.mean(axis=0) + 8 + rng.standard_normal((k, mu.shape[1]))
    else:  # "span": rows of the first and second class in equal parts
        Z[hit] = rows_of(rng.integers(0, 2, k), mu, rng)
    return Z


def maker(cell: Cell, mu: np.ndarray) -> Callable[[], Any]:
    """An unfitted model whose features do not depend on the rows to come."""
    if cell.method == "RFFM":
        return lambda: pp.RFFM(100, 1.5, cell.soft, standardize=False, n_jobs=1)
    if cell.method == "KMM":
        return lambda: pp.KMM("gaussian", 1.5, cell.soft, standardize=False, n_jobs=1)
    if cell.method == "Energy":
        return lambda: pp.KMM("energy", soft=cell.soft, standardize=False, n_jobs=1)
    if cell.method == "crossfit":
        return lambda: pp.BBSE(soft=cell.soft, n_jobs=1)
    y = np.repeat(np.arange(cell.c), 1000)
    f = LogisticRegression(max_iter=300).fit(rows_of(y, mu, np.random.default_rng(99)), y)
    if cell.method == "posterior":
        return lambda: pp.DFM(pp.features.Posterior(FrozenEstimator(f), cv="prefit"), soft=cell.soft, n_jobs=1)
    return lambda: pp.BBSE(f, soft=cell.soft, cv="prefit", n_jobs=1)


def run(cell: Cell, reps: int) -> dict[str, Any]:
    """All replications of one world, reduced to the numbers of its row."""
    mu, alpha = centres(cell.c), alpha_of(cell)
    make, y = maker(cell, mu), np.repeat(np.arange(cell.c), cell.n)
    truth = 0.9 * alpha if cell.soft and cell.contamination != "none" else alpha  # the hard form has no unknown share
    out: dict[str, list[Any]] = {}
    for rep in range(reps):
        rng = np.random.default_rng([rep, cell.c, cell.n, cell.m])
        X, labels = rows_of(y, mu, rng), rng.choice(cell.c, cell.m, p=alpha)
        Z = contaminate(rows_of(labels, mu, rng), cell, mu, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            est = make().fit(X, y).estimate(Z)
            seen = measure(est, truth, cell, rep)
        for key, value in seen.items():
            out.setdefault(key, []).append(value)
    return reduce({k: np.array(v) for k, v in out.items()}, truth)


def measure(est: pp.Estimate, alpha: np.ndarray, cell: Cell, rep: int) -> dict[str, Any]:
    """What one replication shows."""
    e = est.evidence
    U = influences(est.blocks, e.H, e.alpha)  # type: ignore[arg-type]
    target_only = np.sqrt(np.square(U[:, est.blocks.starts[-1] :]).sum(axis=1))  # type: ignore[union-attr]
    one = est.interval(0.95)
    unclipped = stdtrit(np.maximum(e.dof, 1), 0.975) * np.sqrt(np.diag(e.covariance))
    both = est.interval(0.95, simultaneous=True)
    test = est.label_shift_test()
    seen = {
        "covered": (one[:, 0] <= alpha) & (alpha <= one[:, 1]),
        "target only": np.abs(e.alpha - alpha) <= 1.96 * target_only,
        "simultaneous": bool(((both[:, 0] <= alpha) & (alpha <= both[:, 1])).all()),
        "region": est.region(0.95).contains(alpha),
        "half": unclipped,
        "free": e.alpha,
        "shares": est.proportions,
        "inside": (one[:, 0] <= est.proportions) & (est.proportions <= one[:, 1]),
        "p": test.pvalue,
        "verdict": test.verdict,
        "effect": test.effect_size,
        "detectable": test.detectable,
        "noted": bool(est.diagnostics.warnings),
        "drift": est.drift_test().pvalue,
        "dof": min(float(e.dof.min()), e.dof_region),
    }
    if cell.soft and cell.contamination != "none":
        low, high = est.interval(0.95, of="unknown")
        seen["unknown"] = low <= 0.1 <= high
    if cell.table == "bootstrap":
        boot = est.interval(0.95, method="bootstrap", random_state=rep)
        seen["boot"] = (boot[:, 0] <= alpha) & (alpha <= boot[:, 1])
        seen["boot p"] = est.label_shift_test(method="bootstrap", random_state=rep).pvalue
    if est.diagnostics.bound is not None:
        error = float(np.linalg.norm(est.proportions - alpha))
        known = Ingredients(e.G, e.counts, e.m, est.diagnostics.bound, est.soft)
        for delta in (0.05, 0.5):
            seen[f"bounds {delta}"] = [
                error > b.uncapped
                for b in (sharp(known, delta, alpha=alpha), est.bound(delta), theorem1(known, delta, alpha=alpha))
            ]
        seen["ratio"] = theorem1(known, alpha=alpha).uncapped / sharp(known, alpha=alpha).uncapped
        seen["radius"] = [est.bound().uncapped, est.bound(kind="theorem1").uncapped, error]
    return seen


def reduce(o: dict[str, np.ndarray], alpha: np.ndarray) -> dict[str, Any]:
    """Means over replications."""
    reps = len(o["p"])
    sd = o["free"].std(axis=0, ddof=1)
    p = o["p"][np.isfinite(o["p"].astype(float))].astype(float)
    row: dict[str, Any] = {
        "reps": reps,
        "coverage": o["covered"].mean(),
        "worst": o["covered"].mean(axis=0).min(),
        "target only": o["target only"].mean(),
        "simultaneous": o["simultaneous"].mean(),
        "region": o["region"].mean(),
        "width": float(np.mean(o["half"].mean(axis=0) / 1.96 / np.where(sd > 0, sd, np.nan))),
        "bias": float(np.abs((o["free"].mean(axis=0) - alpha) / np.where(sd > 0, sd, np.nan)).max()),
        "rmse free": float(np.sqrt(np.square(o["free"] - alpha).sum(axis=1).mean())),
        "rmse shares": float(np.sqrt(np.square(o["shares"] - alpha).sum(axis=1).mean())),
        "shares in interval": o["inside"].mean(),
        "rejected": float((p < 0.05).mean()) if len(p) else None,
        "ks": float(kstest(p, "uniform").pvalue) if len(p) else None,
        "ks distance": float(kstest(p, "uniform").statistic) if len(p) else None,
        "effect": float(np.median(o["effect"])) if len(p) else None,
        "detectable": float(np.median(o["detectable"])) if len(p) else None,
        "noted": o["noted"].mean(),
        "drift": float((o["drift"] < 0.05).mean()),
        "dof": float(np.median(o["dof"])),
        "verdicts": {str(v): float((o["verdict"] == v).mean()) for v in np.unique(o["verdict"])},
    }
    if "unknown" in o:
        row["unknown"] = o["unknown"].mean()
    if "boot" in o:
        row["boot"], row["boot rejected"] = o["boot"].mean(), float((o["boot p"] < 0.05).mean())
    if "ratio" in o:
        row |= {f"bounds {d}": o[f"bounds {d}"].mean(axis=0).tolist() for d in (0.05, 0.5)}
        row |= {"ratio": o["ratio"].mean(), "radius": o["radius"].mean(axis=0).tolist()}
    return {k: float(v) if isinstance(v, np.floating) else v for k, v in row.items()}


# -- which worlds --------------------------------------------------------------------------------------------------


def cells(everything: bool) -> Iterator[Cell]:
    """The selection that fits in a quarter of an hour on one core; with `everything`, the full grid."""
    forms = (False, True)
    if everything:
        for method in ("RFFM", "KMM", "BBSE"):
            for soft in forms:
                for c in (2, 5, 20):
                    for n in (30, 300, 5000):
                        for m in (200, 2000, 20_000):
                            yield Cell("coverage", method, soft, c, n, m)
    for soft in forms:
        for c, n, m in ((2, 30, 200), (2, 300, 2000), (2, 30, 20_000), (5, 30, 200), (5, 300, 2000), (5, 300, 20_000)):
            yield Cell("coverage", "RFFM", soft, c, n, m)
        yield Cell("coverage", "RFFM", soft, 20, 30, 2000)
        yield Cell("coverage", "RFFM", soft, 20, 300, 2000)
        yield Cell("coverage", "RFFM", soft, 2, 5000, 20_000)
        yield Cell("coverage", "RFFM", soft, 20, 5000, 20_000)
        for c, n, m in ((2, 30, 200), (5, 30, 2000), (5, 300, 2000)):
            yield Cell("coverage", "KMM", soft, c, n, m)
        for c, n, m in ((2, 30, 200), (2, 300, 2000), (5, 30, 200), (5, 300, 2000), (20, 300, 2000), (2, 5000, 20_000)):
            yield Cell("coverage", "BBSE", soft, c, n, m)
        for where in ("vertex", "edge", "absent"):
            yield Cell("edges", "RFFM", soft, 5, 300, 2000, where)
            yield Cell("edges", "BBSE", soft, 5, 300, 2000, where)
        yield Cell("edges", "RFFM", soft, 5, 30, 200, "vertex")
        yield Cell("edges", "KMM", soft, 5, 30, 200, "vertex")
        yield Cell("edges", "BBSE", soft, 5, 30, 200, "vertex")
        yield Cell("bootstrap", "RFFM", soft, 3, 60, 400)
        for kind in ("middle", "far", "span"):
            yield Cell("power", "RFFM", soft, 5, 500, 2000, "inside", kind)
    yield Cell("coverage", "Energy", False, 5, 30, 200)
    yield Cell("coverage", "posterior", False, 5, 300, 2000)
    yield Cell("coverage", "crossfit", False, 2, 300, 2000)


# -- tables --------------------------------------------------------------------------------------------------------

HEAD = """# Error bars, tests and bounds by simulation

Written by `python benchmarks/study.py`, which draws every replication anew: reference rows, batch labels, batch rows. Classes are
normal with unit spread, at the corners of a cube of edge 2.5 (c = 2: at distance 2); true shares inside the simplex are
1 : 2 : … : c. RFFM has 100 features, σ = 1.5; BBSE a logistic regression trained elsewhere, unless it is cross-fitted. A proportion
over R replications has a Monte Carlo error of √(p(1 − p)/R): 0.005 at 0.95 and R = 2,000.
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
TEST = (
    ("rejected", "rejected at 0.05"),
    ("ks distance", "KS distance"),
    ("ks", "KS p"),
    ("effect", "effect"),
    ("detectable", "detectable"),
)


def table(rows: list[dict[str, Any]], columns: tuple[tuple[str, str], ...]) -> str:
    """One line a world."""
    names = ["method", "c", "n_i", "m", "shares", *(title for _, title in columns), "R"]
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for r in rows:
        world = [("soft " if r["soft"] else "") + r["method"], r["c"], f"{r['n']:,}", f"{r['m']:,}", r["where"]]
        values = ["" if r.get(key) is None else f"{r[key]:.3f}" for key, _ in columns]
        lines.append("| " + " | ".join(map(str, [*world, *values, f"{r['reps']:,}"])) + " |")
    return "\n".join(lines)


def report(kept: Path) -> str:
    """The page of all finished worlds."""
    rows = [json.loads(f.read_text()) for f in sorted(kept.glob("*.json"))]
    rows.sort(key=lambda r: (r["method"], r["soft"], r["c"], r["n"], r["m"], r["where"]))
    free = [r for r in rows if r["contamination"] == "none"]
    parts = [
        HEAD,
        "## Coverage of nominal 0.95 inside the simplex\n\n*Width* is the half-width over 1.96 times the empirical spread of α̃; "
        "*noted* how often the estimate warns of few rows or classes that are not separated.\n",
        table([r for r in free if r["where"] == "inside"], COVERAGE),
        "\n## Coverage on the boundary\n\nvertex: one class only; edge: two; absent: one class missing.\n",
        table([r for r in free if r["where"] != "inside"], COVERAGE),
        "\n## Label-shift test where label shift holds\n\nKS: distance of the p-values from the uniform law, and its own p.\n",
        table([r for r in free if r["rejected"] is not None], TEST),
        "\n## Label-shift test where a tenth of the batch is something else\n\nmiddle: a narrow class amid the others; far: "
        "a class away from all; span: half first, half second class, which is undetectable: the shares absorb it. Coverage is "
        "that of the true shares (in the soft form 0.9 of the known ones) and of 0.1 by the interval of the unknown share.\n",
        table(
            [{**r, "where": r["contamination"]} for r in rows if r["contamination"] != "none"],
            (*TEST[:1], *TEST[3:], ("coverage", "classes"), ("worst", "worst class"), ("unknown", "unknown share")),
        ),
        "\n## Multiplier bootstrap beside the formulas\n",
        table(
            [r for r in rows if "boot" in r],
            (
                ("coverage", "classes"),
                ("boot", "bootstrap"),
                ("rejected", "rejected"),
                ("boot rejected", "bootstrap rejected"),
            ),
        ),
        "\n## Bounds\n\nThe largest share, over all worlds without contamination, of errors beyond the uncapped radius; the mean "
        "radii; how much smaller the sharp radius at α* is than Theorem 1 (eq. 1).\n",
        bounds_table([r for r in free if "ratio" in r]),
    ]
    return "\n".join(parts) + "\n"


def bounds_table(rows: list[dict[str, Any]]) -> str:
    """Violations over all worlds, then radii in each."""
    worst = {d: np.max([r[f"bounds {d}"] for r in rows], axis=0) for d in (0.05, 0.5)}
    lines = ["| δ | sharp at α* | sharp | Theorem 1 |", "|---|---|---|---|"]
    lines += [f"| {d} | " + " | ".join(f"{v:.4f}" for v in worst[d]) + " |" for d in worst]
    lines += [
        "",
        "| method | c | n_i | m | shares | error | sharp | Theorem 1 (eq. 2) | ratio at α* |",
        "|" + "---|" * 9,
    ]
    for r in rows:
        sharp_radius, first, error = r["radius"]
        world = f"{'soft ' if r['soft'] else ''}{r['method']} | {r['c']} | {r['n']:,} | {r['m']:,} | {r['where']}"
        lines.append(f"| {world} | {error:.3f} | {sharp_radius:.2f} | {first:.2f} | {r['ratio']:.2f} |")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cells whose name contains this")
    parser.add_argument("--reps", type=int, default=2000)
    parser.add_argument("--all", action="store_true", help="the full grid: days of KMM on one core")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--report", type=Path, default=REPORT)
    args = parser.parse_args(argv)
    args.kept.mkdir(exist_ok=True)
    chosen = [cell for cell in dict.fromkeys(cells(args.all)) if args.only in cell.name]
    for k, cell in enumerate(chosen):
        kept = args.kept / f"{cell.name}-r{args.reps}.json"
        if not kept.exists():
            began = time.perf_counter()
            row = {**vars(cell), **run(cell, args.reps)}
            kept.write_text(json.dumps(row))
            print(
                f"[{k + 1}/{len(chosen)}] {cell.name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True
            )
    if args.report.parent.exists() or args.report == REPORT:
        args.report.parent.mkdir(parents=True, exist_ok=True)
        args.report.write_text(report(args.kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
