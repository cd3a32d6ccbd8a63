"""Wasserstein matching: the mixture of the classes' posteriors nearest to the batch's in the earth mover's distance.

    columns   mean over posteriors k of W₁(t_k, Σ α_i p_ik) = ∫ |T_k(u) − Σ α_i F_ik(u)| du, by distribution functions
    joint     W₁ of the posteriors as points of the simplex, Euclidean cost, by optimal transport (POT)

Both are convex and piecewise linear in α. `columns` is solved with |x| smoothed to √(x² + ε²), then exactly: near that answer all
differences but the smallest keep their sign, and what is left is a small linear programme. `joint` is solved by cutting planes: the
potentials of a transport at α bound the distance from below everywhere; its certificate is the gap to that bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from proportio.baselines.base import OnPosteriors, Problem
from proportio.baselines.convex import Minimum, SmoothedAbsolute, minimise, residual
from proportio.baselines.histograms import informative
from proportio.errors import InputError
from proportio.simplex import project
from proportio.sources import OnMissing

Array = npt.NDArray[np.float64]

ROUGH = 1e-3  # for bootstrap draws: far below their noise
REACHES = (1e-3, 3e-3, 1e-2, 3e-2)  # of the box around the smoothed answer
LOOSE = 1e-8
MOST_CUTS = 300
GAP = 1e-9


class Wasserstein(OnPosteriors):
    """Earth mover's distance of posteriors: column by column, or `joint=True` (needs POT; cubic in the rows: some hundreds).

    Intervals by `draws` bootstrap draws (0: none).

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.Wasserstein(draws=0).fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        joint: bool = False,
        cv: int | Literal["split", "prefit"] = 5,
        draws: int = 100,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.joint = joint
        self.draws = draws

    def _problem(self, Z: Array) -> Problem:
        if self.joint:
            return _Joint(cdist(self.source_.Z, Z))
        return _Columns.of(informative(self.source_.Z), informative(Z))


@dataclass(frozen=True, eq=False)
class _Columns(Problem):
    """Where each row stands in the order of each column, and the distances between neighbours there."""

    orders: tuple[npt.NDArray[np.int64], ...]
    widths: Array
    n: int

    @classmethod
    def of(cls, source: Array, batch: Array) -> _Columns:
        both = np.vstack([source, batch])
        orders = tuple(np.argsort(column, kind="stable") for column in both.T)
        widths = [np.diff(column[order]) / both.shape[1] for column, order in zip(both.T, orders, strict=True)]
        return cls(orders, np.concatenate(widths), len(source))

    def distributions(self, omega: Array, weights: Array) -> tuple[Array, Array]:
        """F (knots, c) and T (knots,) between the knots of all columns."""
        masses = np.zeros((self.n + len(weights), omega.shape[1] + 1))
        masses[: self.n, :-1], masses[self.n :, -1] = omega, weights
        F = np.concatenate([np.cumsum(masses[order], axis=0)[:-1] for order in self.orders])
        return F[:, :-1], F[:, -1]

    def solve(self, omega: Array, weights: Array) -> Minimum:
        F, T = self.distributions(omega, weights)
        wide = self.widths > 0
        near = minimise(F[wide], T[wide], SmoothedAbsolute(self.widths[wide], ROUGH))
        return least_absolute(F[wide], T[wide], self.widths[wide], near)

    def relaxed(self, omega: Array, weights: Array) -> Callable[[Array, Array], Array]:
        wide = self.widths > 0
        rough = SmoothedAbsolute(self.widths[wide], ROUGH)

        def solution(omega: Array, weights: Array) -> Array:
            F, T = self.distributions(omega, weights)
            return minimise(F[wide], T[wide], rough).alpha

        return solution


def least_absolute(F: Array, T: Array, widths: Array, near: Minimum) -> Minimum:
    """argmin over the simplex of Σ w|Fα − T|, from an α that is nearly it.

    Within a box around α the signs of all large differences are settled; an optimum inside the box is one everywhere. Its
    certificate is ‖α − Π(α − g)‖_∞ with the subgradient g that the programme's multipliers give.
    """
    alpha, c = near.alpha, F.shape[1]
    spread = F.max(axis=1) - F.min(axis=1)
    for reach in REACHES:
        gap = F @ alpha - T
        open_ = (
            np.abs(gap) <= c * reach * spread / 2
        )  # the most that a move within the box and the simplex can change it
        A, t, w = F[open_], T[open_], widths[open_]
        settled = (widths * np.sign(gap))[~open_] @ F[~open_]
        k = len(t)
        found = linprog(
            np.concatenate([settled, w]),
            A_ub=np.block([[A, -np.eye(k)], [-A, -np.eye(k)]]) if k else None,
            b_ub=np.append(t, -t) if k else None,
            A_eq=np.append(np.ones(c), np.zeros(k))[None],
            b_eq=[1.0],
            bounds=[(max(0.0, a - reach), min(1.0, a + reach)) for a in alpha] + [(0, None)] * k,
        )
        if found.status != 0:
            break
        best = project(np.asarray(found.x, dtype=np.float64)[:c], soft=False)
        pull = np.asarray(found.ineqlin.marginals)
        gradient = settled + (A.T @ (pull[k:] - pull[:k]) if k else 0.0)
        kkt = residual(best, gradient)
        if kkt <= near.kkt + LOOSE:
            return Minimum(best, kkt)
        alpha = best
    return near


@dataclass(frozen=True, eq=False)
class _Joint(Problem):
    cost: Array

    def solve(self, omega: Array, weights: Array) -> Minimum:
        """Kelley's cutting planes."""
        emd2 = transport()
        c = omega.shape[1]
        alpha, best, value = np.full(c, 1 / c), np.full(c, 1 / c), np.inf
        cuts: list[Array] = []
        bound = -np.inf
        for _ in range(MOST_CUTS):
            mass = omega @ alpha
            distance, log = emd2(mass / mass.sum(), weights, self.cost, return_matrix=False, log=True)[:2]
            u = np.asarray(log["u"])
            u = np.where(
                mass > 0, u, (self.cost - np.asarray(log["v"])).min(axis=1)
            )  # rows without mass: the tightest potential
            slope = omega.T @ u
            cuts.append(np.append(slope, float(distance) - slope @ alpha))
            if distance < value:
                best, value = alpha, float(distance)
            plane = np.array(cuts)
            lower = linprog(
                np.append(np.zeros(c), 1.0),
                A_ub=np.column_stack([plane[:, :c], -np.ones(len(plane))]),
                b_ub=-plane[:, c],
                A_eq=np.append(np.ones(c), 0.0)[None],
                b_eq=[1.0],
                bounds=[(0, 1)] * c + [(None, None)],
            )
            found = np.asarray(lower.x)
            bound = float(found[c])
            alpha = np.maximum(found[:c], 0) / np.maximum(found[:c], 0).sum()
            if value - bound <= GAP:
                break
        return Minimum(best, max(value - bound, 0.0))


def transport() -> Any:
    """POT's exact optimal transport."""
    try:
        from ot import emd2
    except ImportError as error:
        raise InputError("joint=True needs POT: pip install 'proportio[transport]' (or pip install pot).") from error
    return emd2
