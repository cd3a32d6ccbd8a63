"""Intervals and regions for the shares α*: built around the unconstrained α̃, then intersected with the simplex.

    interval   α̃_i ± t_{ν_i} √V_ii, ν_i the degrees of freedom of the blocks (Satterthwaite)
    region     {α : (α − α̃)ᵀV⁺(α − α̃) ≤ νp/(ν − p + 1) F_{p, ν−p+1}} ∩ {α ≥ 0, 1ᵀα = 1 (soft: ≤ 1)}   (Hotelling)

Neither is built around α̂: on the boundary the law of the constrained estimate is no longer normal and its bootstrap is
inconsistent, while α̃ knows no boundary. Directions that the features do not identify may hold any share that the simplex allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from scipy.special import fdtri, ndtri, stdtrit

from proportio.blocks import Array
from proportio.errors import InputError
from proportio.evidence import Evidence

What: TypeAlias = Literal["proportions", "unknown", "weights"]

DIAMETER = float(np.sqrt(2))
SLACK = 1e-9
FEW = 12  # degrees of freedom wanted; half of them where each class has ENOUGH_ROWS
ENOUGH_ROWS = 300  # from here on coverage was seen to be right everywhere
FEW_ROWS = 50  # below, the expansion that V rests on is too short


def check_level(level: Any) -> float:
    """A confidence level strictly between 0 and 1."""
    if isinstance(level, bool) or not isinstance(level, (int, float, np.floating)) or not 0 < level < 1:
        raise InputError(f"level={level!r} must lie between 0 and 1: 0.95 covers the truth 95 times in 100.")
    return float(level)


def t_quantile(dof: Array | float, level: float) -> Array:
    """The two-sided quantile of Student's t."""
    return np.asarray(stdtrit(np.maximum(dof, 1.0), (1 + level) / 2))


def hotelling(dof: float, p: int, level: float) -> float:
    """The quantile of Hotelling's T² with p dimensions, νp/(ν − p + 1) F_{p, ν−p+1}; infinite where ν < p."""
    room = dof - p + 1
    if p == 0:  # no noise at all
        return 0.0
    return float(dof * p / room * fdtri(p, room, level)) if room >= 1 else float("inf")


def interval(
    evidence: Evidence, level: float = 0.95, *, simultaneous: bool = False, draws: Array | None = None
) -> Array:
    """(c, 2): for each class on its own, or for all of them at once (the narrower of Bonferroni and Scheffé).

    Simultaneous limits are also tightened by each other: what the other classes must have at least, this one cannot have.
    With bootstrap `draws` of α̃*, quantiles of |α̃* − α̃| take the place of t √V.
    """
    check_level(level)
    spread, p = np.sqrt(np.diag(evidence.covariance)), evidence.rank
    if draws is not None:
        reach = _drawn(np.abs(draws - evidence.alpha), spread, level, simultaneous) * student(evidence.dof, level)
    elif simultaneous:
        scheffe = np.sqrt(hotelling(evidence.dof_region, p, level)) if p else np.inf
        reach = np.minimum(t_quantile(evidence.dof, 1 - (1 - level) / evidence.c), scheffe) * spread
    else:
        reach = t_quantile(evidence.dof, level) * spread
    limits = _limits(evidence.alpha, reach + _blind(evidence))
    return _tightened(limits, evidence.soft) if simultaneous else limits


def unknown_interval(evidence: Evidence, level: float = 0.95, *, draws: Array | None = None) -> Array:
    """(2,): the share that no class explains, 1 − 1ᵀα, if it embeds at right angles to the classes; 0 in the hard form."""
    check_level(level)
    if not evidence.soft:
        return np.zeros(2)
    centre = np.array([1 - evidence.alpha.sum()])
    if draws is None:
        reach = t_quantile(evidence.dof_unknown, level) * np.sqrt(max(evidence.covariance.sum(), 0.0))
    else:
        reach = np.quantile(np.abs(1 - draws.sum(axis=1) - centre), level) * student(evidence.dof_unknown, level)
    return np.asarray(_limits(centre, reach + np.abs(evidence.blind.sum(axis=0)).sum() * DIAMETER)[0])


def student(dof: Array | float, level: float) -> Array:
    """t quantile over normal quantile: multipliers are drawn as if the blocks' covariance were known."""
    return np.asarray(t_quantile(dof, level) / ndtri((1 + level) / 2))


def _drawn(deviations: Array, spread: Array, level: float, simultaneous: bool) -> Array:
    if not simultaneous:
        return np.asarray(np.quantile(deviations, level, axis=0))
    scaled = deviations / np.where(spread > 0, spread, np.inf)
    return np.asarray(np.quantile(scaled.max(axis=1), level) * spread)


def _limits(centre: Array, reach: Array) -> Array:
    return np.clip(np.stack([centre - reach, centre + reach], axis=-1), 0, 1)


def _blind(evidence: Evidence) -> Array:
    """How far the unidentified directions can move each share."""
    return np.asarray(np.abs(evidence.blind).sum(axis=1) * DIAMETER)


def _tightened(limits: Array, soft: bool) -> Array:
    """The smallest box around (box ∩ constraint set)."""
    low, high = limits.T.copy()
    rest_low = low.sum() - low
    top = np.minimum(high, 1 - rest_low)
    bottom = low if soft else np.maximum(low, 1 - (high.sum() - high))
    return np.asarray(np.clip(np.stack([bottom, np.maximum(top, bottom)], axis=1), 0, 1))


@dataclass(frozen=True, eq=False)
class Region:
    """A set that holds all of α* at once with probability `level`: an ellipsoid, cut by the simplex.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> region = pp.RFFM(n_features=100, bandwidth=2.0).fit(X, y).estimate(X[400:]).region(0.95)
    >>> region.contains([1 / 6, 5 / 6]), region.contains([0.5, 0.5]), region.contains([-0.1, 1.1])
    (True, False, False)
    """

    evidence: Evidence
    level: float

    @property
    def kind(self) -> str:
        """ "ellipsoid"; "box" where there are too few blocks for it; "everything" where nothing is identified."""
        if not self.evidence.basis.size:
            return "everything"
        return "ellipsoid" if np.isfinite(self._critical) else "box"

    @property
    def _critical(self) -> float:
        return hotelling(self.evidence.dof_region, self.evidence.rank, self.level)

    def contains(self, alpha: Any) -> bool:
        """Whether these shares (in the order of the classes; soft: without the unknown one) are in the region."""
        shares = np.asarray(alpha, dtype=np.float64)
        if shares.shape != (self.evidence.c,) or not np.isfinite(shares).all():
            raise InputError(
                f"alpha has shape {shares.shape}: give one finite share for each of the {self.evidence.c} classes."
            )
        total = shares.sum()
        if shares.min() < -SLACK or total > 1 + SLACK or (not self.evidence.soft and total < 1 - SLACK):
            return False
        if self.kind == "everything":
            return True
        if self.kind == "box":
            limits = interval(self.evidence, self.level, simultaneous=True)
            return bool(((shares >= limits[:, 0] - SLACK) & (shares <= limits[:, 1] + SLACK)).all())
        return distance2(self.evidence, shares - self.evidence.alpha, self.evidence.covariance) <= self._critical


def distance2(evidence: Evidence, difference: Array, covariance: Array) -> float:
    """dᵀV⁺d within the identified directions; infinite where d leaves the range of V."""
    L = evidence.basis
    values, vectors = np.linalg.eigh(L.T @ covariance @ L)
    z = vectors.T @ (L.T @ difference)
    real = values > 1e-12 * max(values.max(initial=0.0), 1e-12)
    if np.abs(z[~real]).max(initial=0.0) > 1e-6:
        return float("inf")
    return float(np.sum(z[real] ** 2 / values[real]))


def notes(evidence: Evidence, classes: list[Any]) -> list[str]:
    """What may keep intervals from their level, or wide; empty where nothing does (the rule: docs/design/0004)."""
    if not evidence.basis.size and min(evidence.counts.min(), evidence.m) < 4:
        return [
            f"too few rows for any interval: the smallest class has {evidence.counts.min():.0f} and the batch {evidence.m:.0f}, "
            "and the noise of one row cannot be told. Intervals are as wide as the simplex; add rows."
        ]
    out = []
    lost = [str(classes[i]) for i in np.flatnonzero(_blind(evidence) > 0.5)]
    if lost:
        out.append(
            f"not separated beyond noise: {', '.join(lost[:5])}{' ...' if len(lost) > 5 else ''}. Their intervals are as wide "
            "as the simplex allows; add reference rows, or use features that separate them."
        )
    rows, fewest = float(evidence.counts.min()), float(min(evidence.dof.min(), evidence.dof_region))
    wanted = FEW if rows < ENOUGH_ROWS else FEW / 2
    if evidence.basis.size and rows < FEW_ROWS:
        out.append(
            f"few rows: the smallest class has {rows:.0f}, and intervals want {FEW_ROWS}. They are on the wide side, the more so "
            "the more classes there are, but may cover less than their level near shares of 0 or 1. Add rows to small classes."
        )
    elif evidence.basis.size and fewest < wanted:
        out.append(
            f"few rows carry the noise ({fewest:.0f} degrees of freedom, where {wanted:.0f} are wanted): intervals and regions may "
            "cover some points less than their level. Add rows to the smallest classes, or a larger batch."
        )
    return out
