"""What the default is worth: `python benchmarks/default.py [DIRECTORY]` writes docs/studies/default.md.

DIRECTORY is your copy of the HIPC cells; without it their table is left as it is. Errors are ‖α̂ − α*‖₂ of the known classes.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import proportio as pp
from proportio.reproduce.describe import rng_of
from proportio.reproduce.document import fill
from proportio.reproduce.plan import NOISES
from proportio.reproduce.robustness import Sizes, drawn
from proportio.simplex import project

REPORT = Path(__file__).resolve().parents[1] / "docs" / "studies" / "default.md"
Table = list[list[str]]

METHODS: dict[str, Callable[[], Any]] = {
    "EM, logistic regression": pp.baselines.EM,
    "softBBSE+": lambda: pp.BBSE(soft=True),
    "softRFFM, Δ_min": lambda: pp.RFFM(soft=True, criterion="delta_min"),
    "AutoDFM": pp.AutoDFM,
}
WITHHELD_FROM = 0.03  # the share of a population from which withholding it is worth a column


def markdown(head: list[str], rows: Table) -> str:
    """A table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])


def cells(directory: Path) -> str:
    """Each patient as the reference of each other, all populations known and each of the larger ones withheld."""
    patients = pp.datasets.load_hipc(directory)
    names, counts = np.unique(np.concatenate([t.y for t in patients.values()]), return_counts=True)
    shares = dict(zip(names.tolist(), counts / counts.sum(), strict=True))
    withheld: list[str | None] = [
        None,
        *sorted((k for k in shares if shares[k] > WITHHELD_FROM), key=shares.__getitem__),
    ]
    rows = []
    for method, make in METHODS.items():
        errors: dict[str | None, list[float]] = {k: [] for k in withheld}
        for (a, source), k in itertools.product(patients.items(), withheld):
            keep = source.y != k
            model = make().fit(source.X[keep], source.y[keep])
            for b, batch in patients.items():
                if a != b:
                    true = np.array([(batch.y == c).mean() for c in model.classes_])
                    errors[k].append(float(np.linalg.norm(model.predict(batch.X) - true)))
        means = [float(np.mean(e)) for e in errors.values()]
        rows.append([method, *(f"{e:.3f}" for e in means), f"{np.mean(means):.3f}"])
        print(*rows[-1], flush=True)
    head = ["method", *("none" if k is None else f"{k} {shares[k]:.2f}" for k in withheld), "mean"]
    return markdown(head, rows)


def gaussians(repetitions: int) -> str:
    """The paper's mixtures and noises: mean errors, and the paired difference to softRFFM with its 95% interval."""
    dims, levels = (2, 5, 10), (0.0, 0.1, 0.2, 0.3)
    found: dict[tuple[str, float], list[tuple[float, float]]] = {}
    for d, r in itertools.product(dims, range(repetitions)):
        data = drawn(1, d, r, Sizes())
        models = [make().fit(data.X, data.y) for make in (METHODS["AutoDFM"], METHODS["softRFFM, Δ_min"])]
        for noise in NOISES:
            rng = rng_of(1, "noise", noise, d, r)
            for level, batch in data.batches(noise, levels, rng):
                true = data.shares * len(data.clean) / len(batch)
                ours, theirs = (float(np.linalg.norm(m.predict(batch) - true)) for m in models)
                found.setdefault((f"{noise.name}, d = {d}", level), []).append((ours, theirs))
    rows = []
    for name in dict.fromkeys(n for n, _ in found):
        line = [name]
        for level in levels:
            ours, theirs = np.array(found[name, level]).T
            gap = ours - theirs
            reach = 1.96 * gap.std(ddof=1) / np.sqrt(len(gap))
            line.append(f"{ours.mean():.4f} ({gap.mean():+.4f} ± {reach:.4f})")
        rows.append(line)
    return markdown([f"noise ({repetitions} repetitions)", *(f"ε = {e:g}" for e in levels)], rows)


def worlds(repetitions: int) -> Iterator[list[str]]:
    """Clean Gaussian mixtures: error against maximum likelihood with the densities known, and coverage."""
    for c, d, apart in ((3, 2, 2.0), (3, 2, 3.0), (5, 5, 2.5), (2, 3, 1.5), (5, 2, 3.0)):
        means = np.random.default_rng([c, d]).normal(size=(c, d))
        means *= apart / np.mean([np.linalg.norm(a - b) for a, b in itertools.combinations(means, 2)])
        squares: dict[str, list[float]] = {"ours": [], "likelihood": []}
        held, rejected = [], []
        for r in range(repetitions):
            rng = np.random.default_rng([c, d, r])
            y = np.repeat(np.arange(c), 5_000)
            model = pp.AutoDFM().fit(means[y] + rng.normal(size=(len(y), d)), y)
            alpha = rng.dirichlet(np.ones(c))
            Z = means[rng.choice(c, 2_000, p=alpha)] + rng.normal(size=(2_000, d))
            est = model.estimate(Z)
            low, high = est.interval().T
            held += ((low <= alpha) & (alpha <= high)).tolist()
            rejected.append(est.label_shift_test().pvalue < 0.05)
            squares["ours"].append(float(np.sum((est.proportions - alpha) ** 2)))
            squares["likelihood"].append(float(np.sum((likelihood(Z, means) - alpha) ** 2)))
        ratio = np.sqrt(np.mean(squares["ours"]) / np.mean(squares["likelihood"]))
        yield [
            f"{c}, {d}, {apart:g}",
            f"{ratio:.2f}",
            f"{np.mean(held):.3f}",
            f"{np.mean(rejected):.3f}",
            f"{repetitions}",
        ]


def likelihood(Z: npt.NDArray[Any], means: npt.NDArray[Any], steps: int = 2_000) -> npt.NDArray[Any]:
    """The shares that maximise the likelihood of the known densities, by EM."""
    density = np.exp(-0.5 * np.square(Z[:, None] - means).sum(axis=2))
    alpha = np.full(len(means), 1 / len(means))
    for _ in range(steps):
        joint = density * alpha
        new = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
        if np.abs(new - alpha).max() < 1e-9:
            break
        alpha = new
    return project(alpha, soft=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", help="your copy of the HIPC cells")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--report", type=Path, default=REPORT)
    args = parser.parse_args()
    warnings.simplefilter("ignore", pp.ProportioWarning)
    head = ["classes, columns, distance", "error over likelihood's", "coverage", "test rejects", "replications"]
    tables: dict[str, Callable[[], str]] = {
        "cells": lambda: cells(args.directory),
        "gaussians": lambda: gaussians(args.repetitions),
        "worlds": lambda: markdown(head, list(worlds(2 * args.repetitions))),
    }
    for name, made in tables.items():
        if name != "cells" or args.directory is not None:
            args.report.write_text(fill(args.report.read_text(), {name: made() + "\n"}))


if __name__ == "__main__":
    main()
