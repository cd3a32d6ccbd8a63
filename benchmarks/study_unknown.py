"""What the unknown share is worth, on the paper's three noises (far, background, middle) and where its bias is known exactly.

certificate   P(certified share > α_0) ≤ δ = 0.05
flags         mean of false flags over flags ≤ 0.1, and the share of the unknown rows that is flagged
bias          E α̂_0 − α_0 → −α_0 1ᵀG⁻¹κ, κ_i = ⟨Φ_i, Φ(Q_0)⟩, while the soft solution is interior
              ⟨Φ(N(a, A)), Φ(N(b, B))⟩ = det(I + (A + B)/σ²)^(−1/2) exp(−½ (a − b)ᵀ(σ²I + A + B)⁻¹(a − b))
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import proportio as pp
from parts import Replication, Simulated, gathered
from proportio.reproduce.worlds import Array, Mixture, background, far, gaussians, middle

NOISES = {"far": far, "background": background, "middle": middle}
CLASSES, DIMENSIONS = 5, 5
ROWS, BATCH = 300, 2000
DELTA, FDR = 0.05, 0.1


def batch(
    rng: np.random.Generator, world: Mixture, kind: str, share: float, m: int, source: Array
) -> tuple[Array, Any]:
    """m rows of which each is unknown with chance `share`; with which ones are."""
    other = rng.random(m) < share
    Z = world.rows(rng, rng.multinomial(m, world.shares))[0][rng.permutation(m)]
    Z[other] = NOISES[kind](rng, int(other.sum()), world, source)
    return Z, other


@dataclass(frozen=True)
class Noise(Simulated):
    """Certificate and flags: a world, a reference, calibration rows and a batch, all drawn anew."""

    kind: str
    share: float
    calibration: int

    @property
    def name(self) -> str:
        return f"unknown-{self.kind}-a{self.share}-k{self.calibration}"

    @property
    def work(self) -> float:
        return 0.03 + 4e-6 * CLASSES * self.calibration

    def prepared(self) -> Replication:
        return self.replication

    def replication(self, rep: int) -> dict[str, Any]:
        rng = np.random.default_rng([rep, 31])
        world = gaussians(rng, CLASSES, DIMENSIONS)
        X, y = world.rows(rng, [ROWS] * CLASSES)
        known = world.rows(rng, [self.calibration] * CLASSES)
        Z, other = batch(rng, world, self.kind, self.share, BATCH, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            model = pp.RFFM(500, 2.0, True, standardize=False, n_jobs=1).fit(X, y)
            least = model.unknown_at_least(Z, known, DELTA, random_state=rep)
            flags = model.flag_unknown(Z, known, fdr=FDR).flags
        return {
            "certified": least.share,
            "invalid": least.share > self.share,
            "false": (flags & ~other).sum() / max(flags.sum(), 1),
            "found": flags[other].mean() if other.any() else np.nan,
        }


def noises() -> list[Noise]:
    return [Noise(kind, share, k) for kind in NOISES for share in (0.1, 0.3) for k in (300, 3000)]


def product(a: Array, A: Array, b: Array, B: Array, sigma: float) -> float:
    """⟨Φ(N(a, A)), Φ(N(b, B))⟩ for the Gaussian kernel."""
    V = np.eye(len(a)) + (A + B) / sigma**2
    return float(np.exp(-0.5 * (a - b) @ np.linalg.solve(sigma**2 * V, a - b)) / np.sqrt(np.linalg.det(V)))


@dataclass(frozen=True)
class Bias(Simulated):
    """α̂_0 of many rows against its formula, where Q_0 = N(mean, I) lies near enough to the classes to be mistaken for them."""

    share: float
    mean: tuple[float, float]
    rows: int = 4000
    m: int = 20_000
    sigma: float = 1.5

    @property
    def name(self) -> str:
        return f"bias-a{self.share}-at{'_'.join(f'{x:g}' for x in self.mean)}-n{self.rows}-m{self.m}"

    @property
    def work(self) -> float:
        return 0.4 * (self.m / 20_000) ** 2

    @property
    def world(self) -> Mixture:
        means = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.5]])
        return Mixture(means, np.array([np.eye(2), 0.8 * np.eye(2), np.diag([1.1, 0.7])]), np.array([0.3, 0.4, 0.3]))

    @property
    def predicted(self) -> float:
        """−α_0 1ᵀG⁻¹κ."""
        world, mean = self.world, np.array(self.mean)
        spreads = world.factors @ world.factors.transpose(0, 2, 1)
        both = list(zip(world.means, spreads, strict=True))
        G = np.array([[product(a, A, b, B, self.sigma) for b, B in both] for a, A in both])
        kappa = np.array([product(a, A, mean, np.eye(2), self.sigma) for a, A in both])
        return float(-self.share * np.linalg.solve(G, kappa).sum())

    def prepared(self) -> Replication:
        return self.replication

    def replication(self, rep: int) -> dict[str, Any]:
        rng, world = np.random.default_rng([rep, 32]), self.world
        X, y = world.rows(rng, [self.rows] * 3)
        Z = world.rows(rng, rng.multinomial(self.m, world.shares))[0][rng.permutation(self.m)]
        other = rng.random(self.m) < self.share
        Z[other] = np.array(self.mean) + rng.standard_normal((int(other.sum()), 2))
        model = pp.KMM("gaussian", self.sigma, soft=True, standardize=False, n_jobs=1).fit(X, y)
        shares = model.predict(Z)
        interior = bool(shares.min() > 1e-9 and shares.sum() < 1 - 1e-9)
        return {"bias": 1 - shares.sum() - self.share, "interior": interior}


def biases() -> list[Bias]:
    return [Bias(0.1, (4.0, 4.0)), Bias(0.2, (4.0, 4.0)), Bias(0.2, (-2.5, -2.5)), Bias(0.3, (1.5, 5.5))]


INTRO = """Worlds as in the reproduction: five Gaussians in five dimensions, drawn anew each time, 300 reference rows a class, a
batch of 2,000, and the paper's three noises; RFFM with 500 features, σ = 2. *Invalid*: the certified share (δ = 0.05) exceeds the
true one. *False* is the mean share of false flags among those raised at a false-discovery rate of 0.1, *found* the share of the
unknown rows that is flagged."""


def report(kept: Path) -> str:
    """Certificates and flags, then the bias."""
    lines = [
        "| noise | α_0 | calibration rows a class | invalid | certified, mean | false | found | R |",
        "|" + "---|" * 8,
    ]
    for f in noises():
        o = gathered(kept / f.name)
        if o:
            values = (o["invalid"].mean(), o["certified"].mean(), o["false"].mean(), np.nanmean(o["found"]))
            numbers = " | ".join(f"{v:.3f}" for v in values)
            lines.append(f"| {f.kind} | {f.share} | {f.calibration:,} | {numbers} | {len(o['false']):,} |")
    lines += [
        "",
        "α̂_0 of 4,000 rows a class and a batch of 20,000, KMM with the Gaussian kernel, against the bias −α_0 1ᵀG⁻¹κ of the "
        "populations (closed form); *interior*: how often the solution has no share at 0.",
        "",
        "| α_0 | Q_0 at | bias by the formula | bias seen | ratio | its Monte Carlo error | interior | R |",
        "|" + "---|" * 8,
    ]
    for b in biases():
        o = gathered(kept / b.name)
        if o:
            mean, error = o["bias"].mean(), o["bias"].std(ddof=1) / np.sqrt(len(o["bias"]))
            ratio = f"{mean / b.predicted:.3f} | {error / abs(b.predicted):.3f} | {o['interior'].mean():.3f}"
            where = ", ".join(f"{x:g}" for x in b.mean)
            lines.append(f"| {b.share} | ({where}) | {b.predicted:.5f} | {mean:.5f} | {ratio} | {len(o['bias']):,} |")
    return "\n".join(lines)
