"""The bounds of the paper's §3 on simulated data, each beside the error that it bounds.

The features are fixed without the rows, as the theorems ask, and the embeddings of the classes are known in closed form,
E cos(ωᵀx + b) = exp(−ωᵀΣω/2) cos(ωᵀμ + b), so that B^⊥ and B^∥ of Theorem 2 are those of the distributions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proportio.bounds import Bound, Ingredients, corollary, sharp, theorem1, theorem2
from proportio.gram import GramSystem
from proportio.methods import RFFM
from proportio.reproduce.cells import Array, Cell, Experiment, Noise, Row
from proportio.reproduce.describe import rng_of, seed_of
from proportio.reproduce.worlds import Mixture, apportion, gaussians
from proportio.simplex import solve
from proportio.sketch import BlockSketch

PRIOR = np.array([0.4, 0.3, 0.15, 0.1, 0.05])  # source shares: one class is rare
AT_LARGE = 200_000  # rows that stand for Q_0


def embeddings(world: Mixture, model: RFFM) -> Array:
    """Φ(P_i) in closed form under the model's frequencies, (D, c)."""
    phi = model.features_
    omega = phi.unit_["omega"] / phi.sigma_
    phase = world.means @ omega
    decay = np.exp(-np.square(np.einsum("cij,if->cjf", world.factors, omega)).sum(axis=1) / 2)
    out: Array = np.concatenate([decay * np.cos(phase), decay * np.sin(phase)], axis=1).T * np.sqrt(2 / phi.dim)
    return out


def departures(P: Array, shares: Array, Q0: Array, level: float) -> tuple[float, float, float]:
    """B^⊥ and B^∥ of Theorem 2, with Q_i = (1 − α_0)P_i + α_0 Q_0, and ‖Π_V̄ Φ(Q_0)‖ of the Corollary."""
    Q = (1 - level) * P @ shares + level * Q0
    nearest = solve(GramSystem(P.T @ P, P.T @ Q, float(Q @ Q))).alpha
    across, _ = np.linalg.qr(P[:, 1:] - P[:, :1])
    inside = P[:, 0] + across @ (across.T @ (Q0 - P[:, 0]))  # Π_V Φ(Q_0)
    span, _ = np.linalg.qr(P)
    return (
        float(np.sqrt(np.linalg.norm(Q - P @ nearest))),
        float(level * max(np.linalg.norm(P[:, i] - inside) for i in range(P.shape[1]))),
        float(np.linalg.norm(span.T @ Q0)),
    )


def _mean(model: RFFM, rows: Array) -> Array:
    """Φ̂ of a set of rows."""
    sketch = model.sketch(rows)
    assert isinstance(sketch, BlockSketch)
    return sketch.means()[:, 0]


@dataclass(frozen=True)
class BoundsCell(Cell):
    """One world with n source and n batch rows: every bound, hard and soft, clean and contaminated."""

    n: int
    repetition: int
    noises: tuple[Noise, ...]
    level: float
    d: int
    bandwidth: float
    delta: float
    experiment: str = "bounds"

    @property
    def label(self) -> str:
        return f"{self.n:,} rows, repetition {self.repetition}"

    def rows(self, seed: int) -> list[Row]:
        rng = rng_of(seed, "bounds", self.n, self.repetition, self.d)
        world = gaussians(rng, len(PRIOR), self.d)
        X, y = world.rows(rng, apportion(PRIOR, self.n))
        clean, _ = world.rows(rng, rng.multinomial(self.n, world.shares))
        state = seed_of(seed, "map")
        models = {
            soft: RFFM(500, self.bandwidth, soft, standardize=False, random_state=state, n_jobs=1).fit(X, y)
            for soft in (False, True)
        }
        out = [row for soft, model in models.items() for row in self._clean(model, soft, clean, world.shares)]
        for noise in self.noises:
            spoiled = rng.binomial(self.n, self.level)
            batch = np.concatenate([clean[rng.permutation(self.n)[spoiled:]], noise.rows(rng, spoiled, world, X)])
            own = rng_of(seed, "noise at large", noise, self.n, self.repetition)
            Q0 = _mean(models[True], noise.rows(own, AT_LARGE, world, X))
            out += self._contaminated(models, noise.name, batch, world, Q0)
        return out

    def _clean(self, model: RFFM, soft: bool, batch: Array, true: Array) -> list[Row]:
        alpha = model.predict(batch)
        known = self._known(model, len(batch), soft)
        found = {
            "Theorem 1, eq. 1": theorem1(known, self.delta, alpha=true),
            "Theorem 1, eq. 2": theorem1(known, self.delta),
            "sharp, α* known": sharp(known, self.delta, alpha=true),
            "sharp, from the data": sharp(known, self.delta, estimate=alpha),
        }
        return [self._row(name, soft, "none", alpha, true, b) for name, b in found.items()]

    def _contaminated(self, models: dict[bool, RFFM], noise: str, batch: Array, world: Mixture, Q0: Array) -> list[Row]:
        hard, soft = models[False], models[True]
        P = embeddings(world, hard)
        perpendicular, parallel, reach = departures(P, world.shares, Q0, self.level)
        second = theorem2(
            self._known(hard, len(batch), False), self.delta, perpendicular=perpendicular, parallel=parallel
        )
        known = self._known(soft, len(batch), True)
        third = corollary(known, self.delta, unknown=self.level, norm=float(np.linalg.norm(Q0)), parallel=reach)
        kept = (1 - self.level) * world.shares
        fourth = sharp(known, self.delta, alpha=kept, parallel=self.level * reach)
        answer = soft.predict(batch)
        return [
            self._row("Theorem 2", False, noise, hard.predict(batch), world.shares, second),
            self._row("Corollary 1", True, noise, answer, kept, third),
            self._row("sharp, contaminated", True, noise, answer, kept, fourth),
        ]

    @staticmethod
    def _known(model: RFFM, m: int, soft: bool) -> Ingredients:
        return Ingredients(model.gram_, model.sketch_.tally.effective, m, 1.0, soft)

    def _row(self, bound: str, soft: bool, noise: str, alpha: Array, true: Array, radius: Bound) -> Row:
        return {
            "bound": bound,
            "form": "soft" if soft else "hard",
            "noise": noise,
            "rows": self.n,
            "repetition": self.repetition,
            "error": float(np.linalg.norm(alpha - true)),
            "radius": radius.uncapped,
            "vacuous": radius.vacuous,
        }


@dataclass(frozen=True)
class Bounds(Experiment):
    """Bound against error while n = m grows; the source is unbalanced, the batch anything."""

    noises: tuple[Noise, ...]
    sizes: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    repetitions: int = 20
    level: float = 0.1
    d: int = 2
    bandwidth: float = 2.0
    delta: float = 0.05
    name: str = "bounds"

    def cells(self) -> list[Cell]:
        return [
            BoundsCell(n, r, self.noises, self.level, self.d, self.bandwidth, self.delta, self.name)
            for r in range(self.repetitions)
            for n in self.sizes
        ]
