"""Does label shift explain the batch? And did the shares move at all?

    T = ‖r‖², r = ψ − Bα̃;    S_r = (I − P) [Cov ψ + Σ α̃_i² Cov Φ̂_i] (I − P)
    null law: gamma with mean tr S_r, variance 2 tr S_r² and third cumulant 8 tr S_r³              (label shift)
    D² = (α̃ − β̃)ᵀ V⁺ (α̃ − β̃), by Hotelling's law                                                (drift of the shares)

tr S_r comes from the rows' own products (unbiased), tr S_r² and tr S_r³ from the products of *different* blocks: the square of a
block's own product would count its fourth moment, and the plain tr Ŝ_r² is too large by (tr S_r)²/ν (docs/design/0004).

α̃ are shares that sum to one, in the soft form too: label shift is the claim that such shares explain the batch, and rows that
embed to 0, which the soft form leaves unknown without a residual, contradict it.

What no such test can see: a change that lies within the span of the classes. If the new rows embed to a mixture of the
classes, the residual stays 0 and the shares absorb them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

import numpy as np
from scipy.special import fdtrc, gammaincc, gammainccinv, ndtri

from proportio.blocks import Array, Blocks, Single, projected, within
from proportio.bootstrap import DRAWS, multipliers, residuals
from proportio.errors import InputError
from proportio.evidence import Evidence
from proportio.intervals import distance2
from proportio.storage import plain

EXPLAINED = "label shift explains this batch"
SOMETHING_ELSE = "something else is in it"
TOO_LITTLE = "too little data to tell"
UNSEEN = (
    "A shift within the span of the classes, one that some mixture of them imitates, is undetectable by any such test."
)


@dataclass(frozen=True, eq=False)
class Residual:
    """What the test reads: T, tr S_r, 2 tr S_r², the skewness, r̂ᵀS_r r̂ and ‖Φ(Q)‖²; it travels with an `Estimate`."""

    T: float
    mean: float
    variance: float
    skewness: float
    along: float
    norm2: float

    @classmethod
    def of(cls, blocks: Blocks, evidence: Evidence) -> Self:
        """From the Gram matrix of the block factors: O(((c + 1)K)² D)."""
        blocks, evidence = under_label_shift(blocks, evidence)
        alpha, H = matched(evidence, blocks)
        X, c, weight = blocks.along, blocks.c, np.append(alpha, 1.0)
        mean = float(weight**2 @ blocks.beyond(H)) if evidence.basis.size else 0.0
        r = (X[c] - alpha @ X[:c]) * weight[blocks.group]
        factors = projected(blocks, H, weight) if mean > 0 else np.zeros((0, 0), dtype=np.float32)
        return cls(
            T=blocks.system.squared_residual(alpha),
            mean=mean,
            variance=2 * squared_trace(factors, blocks) if mean > 0 else 0.0,
            skewness=skewness(factors),
            along=float(r @ r),
            norm2=max(blocks.system.s - float(blocks.noise[c]), 0.0),
        )

    def to_dict(self) -> dict[str, float]:
        """Plain numbers; `from_dict` is the inverse."""
        return {f.name: float(getattr(self, f.name)) for f in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        return cls(**{f.name: float(data[f.name]) for f in fields(cls)})


def under_label_shift(blocks: Blocks, evidence: Evidence) -> tuple[Blocks, Evidence]:
    """What the test reads: of the soft form, the blocks and α̃ of shares that sum to one."""
    return (blocks.summing, Evidence.of(blocks.summing)) if blocks.soft else (blocks, evidence)


def matched(evidence: Evidence, blocks: Blocks) -> tuple[Array, Array]:
    """α̃ and H, fitted along the blind directions too (with G): what they could explain is not held against the batch."""
    N, G = evidence.blind, evidence.G
    inside = N @ np.linalg.pinv(N.T @ G @ N, rcond=1e-9, hermitian=True) @ N.T
    return evidence.alpha + inside @ (blocks.system.q - G @ evidence.alpha), evidence.H + inside


def squared_trace(factors: Single, blocks: Blocks) -> float:
    """tr S_r²: between groups as it is; within a group from pairs of different blocks, freed of what their common mean shares."""
    total, between = 0.0, _inner(factors, factors)
    for g in range(blocks.c + 1):
        cells = blocks.of_group(g)
        own = factors[cells, cells].astype(np.float64)
        between -= float((own**2).sum())
        total += within(own, blocks.shares[cells])
    return total + max(between, 0.0)  # a difference in float32 where there is nothing between


def skewness(factors: Single) -> float:
    """8 tr S³/(2 tr S²)^{3/2}, both from products of different blocks."""
    off = factors / np.float32(np.abs(factors).max(initial=0) or 1)  # cubes of small numbers would vanish
    np.fill_diagonal(off, 0)
    second = _inner(off, off)
    return 8 * _inner(off @ off.T, off) / (2 * second) ** 1.5 if second > 0 else 0.0


def _inner(A: Single, B: Single) -> float:
    """Σ A_nm B_nm, rows summed in float32 and their sums in float64."""
    return float(np.einsum("nm,nm->n", A, B).sum(dtype=np.float64))


@dataclass(frozen=True)
class LabelShiftTest:
    """Label shift (each class looks in the batch as in the reference) against anything else; `verdict` says it in words.

    `effect_size` is the part of the batch's embedding that no mixture of classes explains, relative to its length, freed of
    noise; `upper` its upper confidence limit; `detectable` the smallest one that this much data would have shown with power 0.8.
    `pvalue` is that of no effect at all, `pvalue_beyond` that of an effect up to `tolerance`. NaN where the features leave
    no residual to test.
    """

    statistic: float
    expected: float
    pvalue: float
    effect_size: float
    upper: float
    detectable: float
    tolerance: float
    pvalue_beyond: float
    level: float
    method: str
    verdict: str
    explanation: str

    def __str__(self) -> str:
        return f"{self.verdict} (p = {self.pvalue:.2g}, effect {self.effect_size:.2g})\n{self.explanation}"

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values; NaN and infinity as None."""
        return plain(self)


def label_shift_test(
    residual: Residual,
    *,
    level: float = 0.05,
    tolerance: float = 0.1,
    null: Array | None = None,
) -> LabelShiftTest:
    """The test from the numbers of `Residual`; `null` are draws of the centred statistic (bootstrap), else the gamma law."""
    _check_size(level)
    if not (np.isfinite(tolerance) and tolerance >= 0):
        raise InputError(f"tolerance={tolerance!r} must be 0 or more: the effect size that you would let pass.")
    T, mean, sd, norm = residual.T, residual.mean, float(np.sqrt(residual.variance)), float(np.sqrt(residual.norm2))
    method = "gamma" if null is None else "bootstrap"
    if not (mean > 0 and sd > 0 and norm > 0):
        nan = float("nan")
        return LabelShiftTest(
            T, mean, nan, nan, nan, nan, tolerance, nan, level, method, TOO_LITTLE,
            "The features have no more dimensions than the classes span (or a class is too small to show its noise), so that every "
            "batch is explained exactly: use features of higher dimension, such as RFFM, to test label shift.",
        )  # fmt: skip
    if null is None:
        pvalue = _tail((T - mean) / sd, residual.skewness)
        critical = sd * _quantile(level, residual.skewness)
    else:
        pvalue = float((1 + np.sum(null >= T - mean)) / (1 + len(null)))
        critical = float(np.quantile(null, 1 - level))
    cross = 4 * max(residual.along - residual.variance / 2, 0.0)
    effect = float(np.sqrt(max(T - mean, 0.0))) / norm
    typical = 4 * residual.variance / 2 / mean
    detectable = _solve(critical, sd, typical, ndtri(0.8)) / norm
    excess = max(T - mean, 0.0)
    upper = _solve(excess, sd, max(cross / max(excess, sd), typical), ndtri(1 - level)) / norm
    beyond = _tail((T - mean - (tolerance * norm) ** 2) / float(np.sqrt(sd**2 + cross)), residual.skewness)
    verdict = EXPLAINED if upper <= tolerance else SOMETHING_ELSE if pvalue < level else TOO_LITTLE
    words = {
        EXPLAINED: f"What no mixture of the classes explains is below {upper:.2g} of the batch's embedding, within the "
        f"tolerance of {tolerance:g}{', though more than chance' if pvalue < level else ''}.",
        SOMETHING_ELSE: f"About {effect:.2g} of the batch's embedding fits no mixture of the classes (p = {pvalue:.2g}): "
        "a class that the reference lacks, or one that looks different in the batch.",
        TOO_LITTLE: f"No departure is seen, but one below {detectable:.2g} of the batch's embedding would hardly have "
        f"been, and {tolerance:g} is the tolerance. More rows would tell.",
    }[verdict]
    return LabelShiftTest(
        T, mean, pvalue, effect, upper, detectable, tolerance, beyond, level, method, verdict, f"{words} {UNSEEN}"
    )


def bootstrap_null(blocks: Blocks, evidence: Evidence, draws: int = DRAWS, random_state: Any = 0) -> Array:
    """Draws of T − tr S_r under label shift."""
    blocks, evidence = under_label_shift(blocks, evidence)
    alpha, H = matched(evidence, blocks)
    return residuals(projected(blocks, H, np.append(alpha, 1.0)), multipliers(blocks, draws, random_state))


def _check_size(level: Any) -> None:
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise InputError(
            f"level={level!r} must lie between 0 and 1: 0.05 lets the test reject 5 times in 100 without cause."
        )


def _shape(skewness: float) -> float:
    return 4 / max(skewness, 0.01) ** 2


def _tail(z: float, skewness: float) -> float:
    """P(Z ≥ z) of a standardised gamma variable with this skewness."""
    a = _shape(skewness)
    return float(gammaincc(a, max(a + np.sqrt(a) * z, 0.0)))


def _quantile(level: float, skewness: float) -> float:
    """The z with P(Z ≥ z) = level."""
    a = _shape(skewness)
    return float((gammainccinv(a, level) - a) / np.sqrt(a))


def _solve(excess: float, sd: float, rate: float, z: float) -> float:
    """δ with δ² − z √(sd² + rate δ²) = excess: where T, of mean excess over tr S_r + δ², has that quantile."""
    b = 2 * excess + z * z * rate
    square = (b + np.sqrt(max(b * b - 4 * (excess * excess - z * z * sd * sd), 0.0))) / 2
    return float(np.sqrt(max(square, 0.0)))


@dataclass(frozen=True)
class DriftTest:
    """Did the shares move from those of the reference? `distance` is half the sum of |α̃_i − β̃_i|; NaN: nothing identified."""

    statistic: float
    dimension: int
    pvalue: float
    distance: float
    assumption: str
    verdict: str

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values; NaN and infinity as None."""
        return plain(self)


def drift_test(
    evidence: Evidence, prior: Array, *, source: Literal["fixed", "sampled"] = "fixed", level: float = 0.05
) -> DriftTest:
    """H₀: α* = β. `fixed`: β are the shares β̃ of these reference rows; `sampled`: of the population they were drawn from."""
    _check_size(level)
    if source not in ("fixed", "sampled"):
        raise InputError(f"source={source!r} is neither 'fixed' nor 'sampled'.")
    V = evidence.covariance
    assumption = "the shares of the reference rows themselves are the null, as chosen"
    if source == "sampled":
        V = V + (np.diag(prior) - np.outer(prior, prior)) / evidence.counts.sum()
        assumption = "the reference rows are a random sample of a population, whose shares are the null"
    p = evidence.rank
    difference = evidence.alpha - prior
    room = evidence.dof_region - p + 1
    if not p or room < 1:
        nan = float("nan")
        return DriftTest(nan, p, nan, nan, assumption, TOO_LITTLE)
    statistic = distance2(evidence, difference, V)
    pvalue = 0.0 if np.isinf(statistic) else float(fdtrc(p, room, statistic * room / (evidence.dof_region * p)))
    verdict = "the shares moved" if pvalue < level else "no move of the shares that this batch could show"
    return DriftTest(statistic, p, pvalue, float(np.abs(difference).sum() / 2), assumption, verdict)
