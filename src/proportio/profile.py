"""What the unknown looks like: the columns, and the ranges in them, where its rows differ most from those that classes explain.

    excess of column k over [a, b] = U_k[a, b] − E_k[a, b],   U, E: the batch's rows weighted by the score u(x), and by 1 − u(x)

u is the witness of matching (the residual's direction in feature space, read row by row); the range is the one of largest excess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ColumnContrast:
    """In `column`, a share `inside_unknown` of the unknown lies from `low` to `high`, and `inside_known` of the explained."""

    column: str
    low: float
    high: float
    inside_unknown: float
    inside_known: float

    @property
    def excess(self) -> float:
        """How much more of the unknown than of the explained lies in the range."""
        return self.inside_unknown - self.inside_known


@dataclass(frozen=True)
class UnknownProfile:
    """The columns in which the unknown stands out, most telling first.

    `share` is the mean score: near 0 there is hardly anything to describe. `rows` is the effective number, (Σu)²/Σu², of unknown
    rows, and `chance` the excess that one column in twenty has by chance.
    """

    contrasts: tuple[ColumnContrast, ...]
    share: float
    rows: float
    chance: float

    def __str__(self) -> str:
        lines = [
            f"the unknown ({self.share:.1%} of the batch by its scores, {self.rows:.0f} rows in effect) against what the classes "
            f"explain; an excess up to {self.chance:.0%} may be chance:"
        ]
        width = max(len(c.column) for c in self.contrasts)
        lines += [
            f"{c.column:<{width}}  {c.low:>10.4g} to {c.high:<10.4g}  {c.inside_unknown:4.0%} of the unknown, "
            f"{c.inside_known:4.0%} of the rest"
            for c in self.contrasts
        ]
        return "\n".join(lines)


def profile(values: npt.NDArray[np.floating], u: Array, names: Sequence[str], top: int) -> UnknownProfile:
    """The `top` columns of largest excess, of rows `values` with scores u.

    >>> values = np.column_stack([np.arange(8.0), np.tile([0.0, 1.0], 4)])
    >>> print(profile(values, np.array([0, 0, 0, 0, 0, 1, 1, 1.0]), ["a", "b"], 1).contrasts[0])
    ColumnContrast(column='a', low=5.0, high=7.0, inside_unknown=1.0, inside_known=0.0)
    """
    weights = np.stack([u / max(u.sum(), 1e-300), (1 - u) / max((1 - u).sum(), 1e-300)])
    found = sorted(
        (_contrast(column, weights, str(n)) for column, n in zip(values.T, names, strict=True)), key=lambda c: -c.excess
    )
    effective = [1 / max(float((w**2).sum()), 1e-300) for w in weights]
    chance = 1.75 * float(np.sqrt(sum(1 / n for n in effective)))  # Kuiper's statistic at 0.05
    return UnknownProfile(tuple(found[:top]), float(u.mean()), effective[0], min(chance, 1.0))


def _contrast(column: npt.NDArray[np.floating], weights: Array, name: str) -> ColumnContrast:
    """The range of largest excess: the stretch of sorted values with the largest sum of weight differences."""
    order = np.argsort(column, kind="stable")
    x = column[order]
    first = np.flatnonzero(np.append(True, x[1:] > x[:-1]))  # equal values go together
    mass = np.add.reduceat(weights[:, order], first, axis=1)
    rise = np.cumsum(mass[0] - mass[1])
    before = np.append(0.0, rise[:-1])
    lowest = np.minimum.accumulate(before)
    end = int(np.argmax(rise - lowest))
    begin = int(np.flatnonzero(before[: end + 1] == lowest[end])[-1])
    inside = mass[:, begin : end + 1].sum(axis=1)
    distinct = x[first]
    return ColumnContrast(name, float(distinct[begin]), float(distinct[end]), float(inside[0]), float(inside[1]))
