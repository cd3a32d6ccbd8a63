"""What a monitor looks at: a few directions in feature space, fixed before the stream, and what the reference expects of them.

    f_j(x) = (⟨w_j, Φ(x)⟩ + ‖w_j‖C)/(2‖w_j‖C) in [0, 1];   under label shift  E_Q f_j = Σ α_i E_i f_j  for all j at once
    ρ = min over α in the simplex of max_j dist(m_j, [Σ α_i l_ij, Σ α_i u_ij])/r_j      (a linear programme)

The w_j are B G⁺ (each tells one class's share), their sum (which a batch must meet with 1 if nothing unknown is among its rows),
and the principal directions of the rows' scatter at right angles to the class means. They are chosen on every fourth block of
the reference; [l_ij, u_ij] holds E_i f_j by the other blocks. m_j ± r_j is what the stream says of E_Q f_j: ρ > 1 means that no
shares explain it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.special import stdtrit

from proportio.betting import Bet, on_blocks, on_rows
from proportio.errors import BoundError, InputError, MismatchError
from proportio.sketch import BlockSketch, Sketch

Array = npt.NDArray[np.float64]
Source: TypeAlias = Literal["sampled", "fixed"]
Noise: TypeAlias = Literal["t", "hoeffding"]

ACROSS = 4  # directions at right angles to the class means
FAINT = 1e-4  # eigenvalues of G below this share of the largest tell no shares


@dataclass(frozen=True, eq=False)
class Functionals:
    """W (D, J) with ‖w_j‖C in `reach`; l and u (c, J); the interval `low`, `high` (J,) of the reference as a whole; β̃."""

    W: Array
    reach: Array
    l: Array
    u: Array
    low: Array
    high: Array
    prior: Array

    @classmethod
    def of(cls, sketch: Any, bound: float | None, level: float, source: Source, noise: Noise) -> Self:
        """From a reference: all its intervals hold together with probability ≥ 1 − `level`."""
        if not isinstance(sketch, BlockSketch) or bound is None:
            raise BoundError(
                "a monitor reads features of finite dimension with a bound C, and this model's are not: use RFFM or BBSE, or "
                "declare the bound, DFM(Function(f, bound=C))."
            )
        tally = sketch.tally
        choosing = np.arange(sketch.n_blocks) % 4 == 0
        filled = tally.weight > 0
        enough = (filled & choosing).any(axis=1) & ((filled & ~choosing).sum(axis=1) > 1)
        thin = [str(g) for g, well in zip(sketch.groups or (), enough, strict=True) if not well]
        if thin:
            raise InputError(
                f"class {', '.join(thin[:5])} has too few rows in the reference for a monitor, which chooses directions on a "
                "quarter of them and measures on the others: give 20 or more."
            )
        W = _directions(sketch, choosing)
        reach = np.linalg.norm(W, axis=0) * bound
        sums = (sketch.sums[:, ~choosing] * sketch.amplitude) @ W  # (class, block, functional)
        w = tally.weight[:, ~choosing]
        p = w / w.sum(axis=1, keepdims=True)
        blocks = (np.divide(sums, w[..., None], out=np.zeros_like(sums), where=w[..., None] > 0) + reach) / (2 * reach)
        mean = np.einsum("ik,ikj->ij", p, blocks)
        c, J = mean.shape
        delta = level / ((c + 1) * J)
        prior = tally.totals / tally.totals.sum()
        whole = prior @ mean
        n = tally.effective
        between = (prior @ mean**2 - whole**2) / n.sum() if source == "sampled" else np.zeros(J)
        if noise == "t":
            room = 1 - (p**2).sum(axis=1)
            variance = np.einsum("ik,ikj->ij", p**2, (blocks - mean[:, None]) ** 2) / room[:, None]
            dof = room / (1 - room)
            radius = stdtrit(dof, 1 - delta / 2)[:, None] * np.sqrt(variance)
            around = stdtrit(dof.min(), 1 - delta / 2) * np.sqrt(prior**2 @ variance + between)
        else:
            rows = w.sum(axis=1) ** 2 / tally.weight2[:, ~choosing].sum(axis=1)
            price = np.log(2 / delta) / 2
            radius = np.tile(np.sqrt(price / rows)[:, None], J)
            around = np.sqrt(price * (np.sum(prior**2 / rows) + (source == "sampled") / n.sum())) * np.ones(J)
        return cls(
            W,
            reach,
            l=np.clip(mean - radius, 0, 1),
            u=np.clip(mean + radius, 0, 1),
            low=np.clip(whole - around, 0, 1),
            high=np.clip(whole + around, 0, 1),
            prior=prior,
        )

    def of_rows(self, features: Array, guess: Array) -> Bet:
        """The bet on rows with these Φ(x)."""
        return on_rows(np.clip((features @ self.W + self.reach) / (2 * self.reach), 0, 1), guess)

    def of_sketch(self, sketch: Sketch, guess: Array) -> Bet:
        """The bet on a batch of which only the block sums are known."""
        assert isinstance(sketch, BlockSketch)
        rows = sketch.tally.rows[0]
        if not np.array_equal(rows, sketch.tally.weight[0]):
            raise MismatchError("a monitor counts rows, and this batch has weights: sketch it without sample_weight.")
        sums = (sketch.sums[0] * sketch.amplitude) @ self.W
        means = np.divide(sums, rows[:, None], out=np.zeros_like(sums), where=rows[:, None] > 0)
        return on_blocks(np.clip((means + self.reach) / (2 * self.reach), 0, 1), rows, guess)

    def moved(self, mean: Array, radius: Array) -> Array:
        """How far the stream is from the reference as a whole, from each starting time; above 1: drift."""
        return np.asarray((np.maximum(mean - self.high, self.low - mean) / radius).max(axis=1))

    def misfit(self, alpha: Array, mean: Array, radius: Array) -> Array:
        """How far the stream is from these shares of the classes, from each starting time; above 1: they do not explain it."""
        return np.asarray((np.maximum(mean - alpha @ self.u, alpha @ self.l - mean) / radius).max(axis=-1))

    def best(self, mean: Array, radius: Array) -> tuple[float, Array]:
        """ρ and the shares that reach it."""
        c = len(self.l)
        found = linprog(
            np.append(np.zeros(c), 1.0),
            A_ub=np.block([[self.l.T, -radius[:, None]], [-self.u.T, -radius[:, None]]]),
            b_ub=np.append(mean, -mean),
            A_eq=np.append(np.ones(c), 0.0)[None],
            b_eq=np.ones(1),
            bounds=[(0, 1)] * c + [(None, None)],
            method="highs",
        )
        alpha = np.maximum(np.asarray(found.x)[:c], 0)
        alpha = alpha / alpha.sum()
        return float(self.misfit(alpha, mean, radius)), alpha

    def state(self) -> dict[str, Array]:
        """All arrays, for a file."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _directions(sketch: BlockSketch, choosing: npt.NDArray[np.bool_]) -> Array:
    """W from the blocks set apart for choosing."""
    sums, w = sketch.sums[:, choosing] * sketch.amplitude, sketch.tally.weight[:, choosing]
    B = (sums.sum(axis=1) / w.sum(axis=1)[:, None]).T
    inverse = np.linalg.pinv(B.T @ B, rcond=FAINT, hermitian=True)
    duals = B @ inverse
    scatter = (sums - w[..., None] * B.T[:, None]) / np.sqrt(np.maximum(w, 1))[..., None]
    scatter = scatter.reshape(-1, B.shape[0])
    scatter = scatter - (scatter @ B) @ np.linalg.pinv(B.T @ B, hermitian=True) @ B.T
    _, size, across = np.linalg.svd(scatter, full_matrices=False)
    across = across[:ACROSS][size[:ACROSS] > 1e-6 * np.linalg.norm(B)]
    W = np.column_stack([duals, duals.sum(axis=1), across.T])
    return np.ascontiguousarray(W[:, np.linalg.norm(W, axis=0) > 1e-9])
