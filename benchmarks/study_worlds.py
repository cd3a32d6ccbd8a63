"""The worlds of the study: a reference, batches of several sizes in both forms, and what one replication of them shows.

A *family* is a method, a number of classes and of rows a class, and a world. Each replication draws the reference anew, fits
once, and meets one batch of each size m; every batch is matched in both forms, hard and soft.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import proportio as pp
from parts import Replication, Simulated
from proportio.bounds import Ingredients, sharp, theorem1
from proportio.evidence import influences

SIZES = (200, 2000, 20_000)
FORMS = ("hard", "soft")


@dataclass(frozen=True)
class Family(Simulated):
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

    def prepared(self) -> Replication:
        make = maker(self, centres(self.c))
        return lambda rep: replication(self, make, rep)


def families() -> list[Family]:
    """The full grid, boundaries, contaminations, and the bootstrap."""
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
    return out


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
