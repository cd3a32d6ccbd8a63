"""Coverage, size, power and violations by simulation: `python benchmarks/study.py [--only TEXT] [--reps 2000] [--minutes N]`.

A *family* is a method, a number of classes and of rows a class, and a world. Each replication draws the reference anew, fits once, and
meets one batch of each size m; every batch is matched in both forms, hard and soft. Parts of a family are kept in `.study/`, written
whole or not at all, and not run again: the study can be stopped at any moment and resumed. Cheap families come first.
`--report` writes docs/studies/uncertainty.md and its figures from what is there, with the replications behind each row.
"""

from __future__ import annotations

import argparse
import copy
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import proportio as pp
from proportio.bounds import Ingredients, sharp, theorem1
from proportio.evidence import influences

HERE = Path(__file__).resolve().parents[1]
KEPT, PAGES = HERE / ".study", HERE / "docs" / "studies"
SIZES = (200, 2000, 20_000)
FORMS = ("hard", "soft")
SECONDS_A_PART = 10  # of a free core, about; what a kill can lose
ROUND = 500  # replications that every family gets before any gets more


@dataclass(frozen=True)
class Family:
    """One kind of reference, and the batches that it meets."""

    table: str
    method: str
    c: int
    n: int
    ms: tuple[int, ...]
    where: str = "inside"
    contamination: str = "none"

    @property
    def name(self) -> str:
        sizes = "+".join(map(str, self.ms))
        return f"{self.table}-{self.method}-c{self.c}-n{self.n}-m{sizes}-{self.where}-{self.contamination}"

    @property
    def work(self) -> float:
        """Seconds of one replication, roughly: for the order, and for the size of a part."""
        rows, batches = self.c * self.n, sum(self.ms)
        work = 1e-6 * (rows + batches) + len(self.ms) * (0.006 + 0.001 * self.c)
        if self.method in ("KMM", "Energy"):
            work += 3e-10 * (0.6 * rows**2 + rows * batches + sum(m**2 for m in self.ms))
        return work * (20 if self.table == "bootstrap" else 3 if self.method in ("crossfit", "posterior") else 1)

    @property
    def part(self) -> int:
        """Replications of one part."""
        return next(k for k in (250, 100, 50, 20, 10, 5, 1) if k * self.work <= SECONDS_A_PART or k == 1)

    def to_do(self, reps: int) -> Iterator[tuple[int, int]]:
        """The first and last replication of each part."""
        return ((a, min(a + self.part, reps)) for a in range(0, reps, self.part))


def families() -> list[Family]:
    """The full grid, then boundaries, contaminations and the bootstrap; cheap ones first."""
    out = [
        Family("coverage", method, c, n, SIZES)
        for method in ("RFFM", "BBSE", "KMM")
        for c in (2, 5, 20)
        for n in (30, 300, 5000)
    ]
    for method in ("RFFM", "BBSE", "KMM"):
        out += [
            Family("edges", method, 5, n, m, where)
            for where in ("vertex", "edge", "absent")
            for n, m in ((30, (200, 2000)), (300, (2000,)))
        ]
    out += [Family("power", "RFFM", 5, 500, (2000,), contamination=kind) for kind in ("middle", "far", "span")]
    out += [Family("bootstrap", "RFFM", 3, 60, (400,)), Family("coverage", "Energy", 5, 30, (200,))]
    out += [Family("coverage", "posterior", 5, 300, (2000,)), Family("coverage", "crossfit", 2, 300, (2000,))]
    return sorted(out, key=lambda f: (f.work, f.name))


# -- worlds ----------------------------------------------------------------------------------------------------------


def alpha_of(family: Family) -> np.ndarray:
    """The true shares: 1 : 2 : … : c inside; one class only; two classes only; the first class absent."""
    ramp = np.arange(1.0, family.c + 1)
    if family.where == "vertex":
        ramp[:-1] = 0
    elif family.where == "edge":
        ramp[:-2] = 0
    elif family.where == "absent":
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


def contaminate(Z: np.ndarray, kind: str, mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A tenth of the batch becomes something else: a narrow class amid the others, or an unseen mixture of two of them."""
    if kind == "none":
        return Z
    hit = rng.random(len(Z)) < 0.1
    k = int(hit.sum())
    if kind == "middle":
        Z[hit] = mu.mean(axis=0) + 0.5 * rng.standard_normal((k, mu.shape[1]))
    elif kind == "far":
        Z[hit] = mu.mean(axis=0) + 8 + rng.standard_normal((k, mu.shape[1]))
    else:  # "span": rows of the first and second class in equal parts
        Z[hit] = rows_of(rng.integers(0, 2, k), mu, rng)
    return Z


def maker(family: Family, mu: np.ndarray) -> Callable[[], Any]:
    """An unfitted model whose features do not depend on the rows to come."""
    if family.method == "RFFM":
        return lambda: pp.RFFM(100, 1.5, standardize=False, n_jobs=1)
    if family.method == "KMM":
        return lambda: pp.KMM("gaussian", 1.5, standardize=False, n_jobs=1)
    if family.method == "Energy":
        return lambda: pp.KMM("energy", standardize=False, n_jobs=1)
    if family.method == "crossfit":
        return lambda: pp.BBSE(n_jobs=1)
    y = np.repeat(np.arange(family.c), 1000)
    f = LogisticRegression(max_iter=300).fit(rows_of(y, mu, np.random.default_rng(99)), y)
    if family.method == "posterior":
        return lambda: pp.DFM(pp.features.Posterior(FrozenEstimator(f), cv="prefit"), n_jobs=1)
    return lambda: pp.BBSE(f, cv="prefit", n_jobs=1)


# -- one replication -------------------------------------------------------------------------------------------------


def replication(family: Family, make: Callable[[], Any], rep: int) -> dict[str, Any]:
    """What one reference and its batches show, under "form-m-name"."""
    mu, alpha = centres(family.c), alpha_of(family)
    rng = np.random.default_rng([rep, family.c, family.n])
    y = np.repeat(np.arange(family.c), family.n)
    hard = make().fit(rows_of(y, mu, rng), y)
    soft = copy.copy(hard).set_params(soft=True)  # the same features and sketch, matched with room for an unknown share
    out = {}
    for m in family.ms:
        Z = contaminate(rows_of(rng.choice(family.c, m, p=alpha), mu, rng), family.contamination, mu, rng)
        sketch = hard.sketch(Z)
        for form, model in zip(FORMS, (hard, soft), strict=True):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen = measure(model.estimate(sketch), truth(family, form), family, rep)
            out |= {f"{form}-{m}-{key}": value for key, value in seen.items()}
    return out


def truth(family: Family, form: str) -> np.ndarray:
    """The shares that an interval should hold: the hard form has no room for an unknown one."""
    return alpha_of(family) * (0.9 if form == "soft" and family.contamination != "none" else 1)


def measure(est: pp.Estimate, alpha: np.ndarray, family: Family, rep: int) -> dict[str, Any]:
    """What one estimate shows."""
    e = est.evidence
    U = influences(est.blocks, e.H, e.alpha)  # type: ignore[arg-type]
    target_only = np.sqrt(np.square(U[:, est.blocks.starts[-1] :]).sum(axis=1))  # type: ignore[union-attr]
    one, both = est.interval(0.95), est.interval(0.95, simultaneous=True)
    test, notes = est.label_shift_test(), " ".join(est.diagnostics.warnings)
    seen = {
        "covered": (one[:, 0] <= alpha) & (alpha <= one[:, 1]),
        "target only": np.abs(e.alpha - alpha) <= 1.96 * target_only,
        "simultaneous": bool(((both[:, 0] <= alpha) & (alpha <= both[:, 1])).all()),
        "region": est.region(0.95).contains(alpha),
        "half": stdtrit(np.maximum(e.dof, 1), 0.975) * np.sqrt(np.diag(e.covariance)),
        "free": e.alpha,
        "shares": est.proportions,
        "inside": (one[:, 0] <= est.proportions) & (est.proportions <= one[:, 1]),
        "p": test.pvalue,
        "verdict": test.verdict,
        "effect": test.effect_size,
        "detectable": test.detectable,
        "noted": bool(notes),
        "drift": est.drift_test().pvalue,
    }
    if est.soft and family.contamination != "none":
        low, high = est.interval(0.95, of="unknown")
        seen["unknown"] = low <= 0.1 <= high
    if family.table == "bootstrap":
        boot = est.interval(0.95, method="bootstrap", random_state=rep)
        seen["boot"] = (boot[:, 0] <= alpha) & (alpha <= boot[:, 1])
        seen["boot p"] = est.label_shift_test(method="bootstrap", random_state=rep).pvalue
    if est.diagnostics.bound is not None:
        error = float(np.linalg.norm(est.proportions - alpha))
        known = Ingredients(e.G, e.counts, e.m, est.diagnostics.bound, est.soft)
        for delta in (0.05, 0.5):
            radii = (sharp(known, delta, alpha=alpha), est.bound(delta), theorem1(known, delta, alpha=alpha))
            seen[f"bounds {delta}"] = [error > b.uncapped for b in radii]
        seen["ratio"] = theorem1(known, alpha=alpha).uncapped / sharp(known, alpha=alpha).uncapped
        seen["radius"] = [est.bound().uncapped, est.bound(kind="theorem1").uncapped, error]
    return seen


# -- keeping and resuming --------------------------------------------------------------------------------------------


def run_part(family: Family, make: Callable[[], Any], first: int, last: int, path: Path) -> None:
    """Replications `first` to `last` − 1, into one file."""
    kept: dict[str, list[Any]] = {}
    for rep in range(first, last):
        for key, value in replication(family, make, rep).items():
            kept.setdefault(key, []).append(value)
    held = io.BytesIO()
    np.savez_compressed(held, allow_pickle=False, **{k: np.array(v) for k, v in kept.items()})
    beside = path.with_suffix(".part")
    beside.write_bytes(held.getvalue())
    os.replace(beside, path)


def gathered(folder: Path) -> dict[str, np.ndarray]:
    """All parts of a family, one row a replication."""
    parts = [np.load(f) for f in sorted(folder.glob("*.npz"))]
    return {key: np.concatenate([p[key] for p in parts]) for key in parts[0].files} if parts else {}


def simulate(chosen: list[Family], kept: Path, reps: int, minutes: float) -> None:
    """Run what is missing; a line a part, with the time that is left."""
    parts = [(f, a, b, kept / f.name / f"{a:05d}-{b:05d}.npz") for f in chosen for a, b in f.to_do(reps)]
    missing = [part for part in sorted(parts, key=lambda p: (p[0].work > 1, p[1] // ROUND)) if not part[3].exists()]
    began, spent, foreseen = time.perf_counter(), 0.0, 0.0
    left = sum((b - a) * f.work for f, a, b, _ in missing)
    current, make = None, None
    for f, a, b, path in missing:
        if time.perf_counter() - began > 60 * minutes:
            break
        if f is not current:
            current, make = f, maker(f, centres(f.c))
        path.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        assert make is not None
        run_part(f, make, a, b, path)
        took = time.perf_counter() - started
        spent, foreseen, left = spent + took, foreseen + (b - a) * f.work, left - (b - a) * f.work
        print(
            f"{f.name}: {b:,} of {reps:,}, {1000 * took / (b - a):.0f} ms each; "
            f"about {left * spent / foreseen / 60:.0f} min left",
            file=sys.stderr,
            flush=True,
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="families whose name contains this")
    parser.add_argument("--reps", type=int, default=2000)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start no further part after this long")
    parser.add_argument("--report", action="store_true", help="run nothing, write the page from what is kept")
    parser.add_argument("--kept", type=Path, default=KEPT)
    parser.add_argument("--pages", type=Path, default=PAGES)
    args = parser.parse_args(argv)
    if not args.report:
        simulate([f for f in families() if args.only in f.name], args.kept, args.reps, args.minutes)
    from study_report import write  # beside this file

    write(args.kept, args.pages)
    return 0


if __name__ == "__main__":
    sys.exit(main())
