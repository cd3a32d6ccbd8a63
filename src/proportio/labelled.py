"""A few labels of the batch sharpen its estimate: prediction-powered counting, joined with matching.

    E₁ = α̃, by matching:   Cov(E₁ − ȳ) = V₁ = V − P,   P = (diag α − ααᵀ)/m, ȳ the shares of the batch's own rows
    E₂ = mean f + (1/m) Σ_L (y_r − f_r)/π_r:   Cov(E₂ − ȳ) = V₂, f(x) the posteriors of matching, π_r the chance of being labelled
    E  = E₁ + K(E₂ − E₁),   K = V₁(V₁ + V₂)⁻¹;   Cov(E − ȳ) = (I − K)V₁(I − K)ᵀ + KV₂Kᵀ, for α* and not ȳ plus P

E₂ is unbiased whatever f is, label shift or not; the nearer f comes to the labels, the fewer of them it takes. Without labels V₂ is
infinite and E is the plain estimate; with all rows labelled V₂ = 0 and E counts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, stdtrit

from proportio import display
from proportio.errors import InputError
from proportio.estimate import Array, Estimate
from proportio.gram import contrasts
from proportio.intervals import DIAMETER, check_level
from proportio.simplex import project
from proportio.sources import read_labels
from proportio.unknown import KnowsUnknown

Rows = npt.NDArray[np.int64]

PRIOR_ROWS = 5  # residuals as f expects them, added to those seen: a few labels that f foretold prove little
EXPLORE = 0.2  # of the labels to ask for, drawn from all rows alike


@dataclass(frozen=True, eq=False)
class LabelledEstimate:
    """Shares from matching and labels together, in the order of `classes`; `covariance` is that of an estimate of α*.

    `matching` and `labels` are the two estimates that were joined; `agreement` is the p-value that they estimate the same, which
    they do under label shift. `within` is the covariance for the shares of the batch's own rows.
    """

    classes: npt.NDArray[Any]
    proportions: Array
    unknown: float
    n_labelled: int
    n_target: int
    matching: Array
    labels: Array
    agreement: float
    covariance: Array
    within: Array
    dof: Array
    centre: Array

    def __repr__(self) -> str:
        limits = [(float(low), float(high)) for low, high in self.interval(display.LEVEL)]
        lines = [
            display.Line(str(k), float(a), b, None)
            for k, a, b in zip(self.classes, self.proportions, limits, strict=True)
        ]
        if self.unknown > 0:
            lines.append(display.Line("(unknown)", self.unknown, None, None))
        title = f"Estimate from {self.n_target:,} rows, {self.n_labelled:,} of them labelled"
        return display.text(title, lines, [f"matching and labels agree with p = {self.agreement:.2g}"])

    def interval(self, level: float = 0.95, *, of: Literal["population", "batch"] = "population") -> Array:
        """(n_classes, 2): limits for the shares that the batch was drawn from, or for those of its own rows."""
        check_level(level)
        if of not in ("population", "batch"):
            raise InputError(f"of={of!r} is neither 'population' nor 'batch'.")
        variance = np.diag(self.covariance if of == "population" else self.within)
        reach = stdtrit(np.maximum(self.dof, 1.0), (1 + level) / 2) * np.sqrt(np.maximum(variance, 0))
        return np.asarray(np.clip(np.stack([self.centre - reach, self.centre + reach], axis=1), 0, 1))


class UsesLabels(KnowsUnknown):
    """The methods of a quantifier that take labels of the batch."""

    soft: bool

    @abstractmethod
    def estimate(self, X: Any) -> Estimate: ...

    def sharpen(
        self,
        X: Any,
        rows: Any,
        y: Any,
        *,
        probabilities: Any = None,
        trust: Literal["both", "labels"] = "both",
    ) -> LabelledEstimate:
        """The shares of batch X, of which the rows at the positions `rows` have labels y.

        They must be a random sample of the batch, drawn uniformly or by the `probabilities` of `worth_labelling`. A label that
        is none of the classes counts as unknown (soft), or is refused (hard): mind the spelling.
        `trust="labels"` takes matching for a prediction only: right whether label shift holds or not, and wider.
        """
        est = self.estimate(X)
        return join(est, self._posteriors(X, est), rows, y, probabilities=probabilities, trust=trust)

    def worth_labelling(self, X: Any, size: int, random_state: Any = 0) -> tuple[Rows, Array]:
        """About `size` rows of batch X whose labels would tell most, and the probabilities to hand on to `sharpen`."""
        return worth_labelling(self._posteriors(X, self.estimate(X)), size, random_state)

    def _posteriors(self, X: Any, est: Estimate) -> Array:
        rows = self._rows(X)
        similarity = self._similarity(rows, self.sketch_)
        f = posteriors(similarity, est.proportions)
        if not self.soft:
            return f
        assert est.blocks is not None  # a fresh estimate has them
        return f * (1 - self._unexplained(rows, similarity, est.blocks.target))[:, None]


def join(
    est: Estimate,
    f: Array,
    rows: Any,
    y: Any,
    *,
    probabilities: Any = None,
    trust: Literal["both", "labels"] = "both",
) -> LabelledEstimate:
    """The two estimates and their best mixture; `f` are the posteriors of all rows of the batch, `rows` those labelled `y`."""
    if trust not in ("both", "labels"):
        raise InputError(f"trust={trust!r} is neither 'both' nor 'labels'.")
    m, c = f.shape
    rows = _rows(rows, m)
    onehot = _onehot(y, rows, est)
    pi = _chances(probabilities, rows, m)
    e = est.evidence
    free = np.eye(c) if est.soft else contrasts(c)
    shares = project(e.alpha, soft=est.soft)
    P = (np.diag(shares) - np.outer(shares, shares)) / m
    anything = DIAMETER**2 * e.blind @ e.blind.T  # directions that matching does not identify are for the labels alone
    V1 = _psd(free.T @ (e.covariance + anything - P) @ free)
    if len(rows) == 0:
        if trust == "labels":
            raise InputError("trust='labels' needs labels: rows is empty.")
        return _result(
            est, est.proportions, e.alpha, np.full(c, np.nan), 1.0, free @ V1 @ free.T, P, e.dof, e.alpha, 0, m
        )
    d = onehot - f[rows]
    if pi is None:
        E2 = f.mean(axis=0) + d.mean(axis=0)
        seen = (d - d.mean(axis=0)).T @ (d - d.mean(axis=0))
        S = (seen + PRIOR_ROWS * _expected(f, np.ones(m))) / (len(rows) - 1 + PRIOR_ROWS)
        V2 = (1 / len(rows) - 1 / m) * S
    else:
        E2 = f.mean(axis=0) + (d / pi[rows, None]).sum(axis=0) / m
        seen = (d * ((1 - pi) / pi**2)[rows, None]).T @ d / m**2
        V2 = (len(rows) * seen + PRIOR_ROWS * _expected(f, (1 - pi) / pi) / m) / (len(rows) + PRIOR_ROWS)
    V2 = _psd(free.T @ V2 @ free)
    gap = free.T @ (E2 - e.alpha)
    both = V1 + V2 + 1e-12 * np.eye(len(gap))
    K = np.eye(len(gap)) if trust == "labels" else np.linalg.solve(both, V1 + 1e-12 * np.eye(len(gap))).T
    centre = e.alpha + free @ (K @ gap)
    rest = np.eye(len(gap)) - K
    from_labels, from_matching = free @ K @ V2 @ K.T @ free.T, free @ rest @ V1 @ rest.T @ free.T
    agreement = float(chdtrc(len(gap), gap @ np.linalg.solve(both, gap)))
    w = np.divide(np.diag(from_labels), np.diag(from_labels + from_matching) + 1e-300)
    dof = 1 / (w**2 / (len(rows) - 1 + PRIOR_ROWS) + (1 - w) ** 2 / np.maximum(e.dof, 1.0))
    return _result(
        est, project(centre, soft=est.soft), e.alpha, E2, agreement, from_labels + from_matching, P, dof, centre, len(rows), m
    )  # fmt: skip


def worth_labelling(f: Array, size: int, random_state: Any = 0) -> tuple[Rows, Array]:
    """About `size` rows whose labels tell most, π ∝ √Σ f_i(1 − f_i), and the π of all rows, which `join` must be told."""
    m = len(f)
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or not 1 <= size <= m:
        raise InputError(f"size={size!r}: ask for at least 1 label and at most one for each of the {m} rows.")
    doubt = np.sqrt(np.maximum((f * (1 - f)).sum(axis=1), 0)) + 1e-12
    wish = (1 - EXPLORE) * doubt / doubt.sum() + EXPLORE / m
    pi = np.minimum(1.0, size * wish)
    for _ in range(50):  # what the certain rows cannot take goes to the others
        open_ = pi < 1
        room = size - float((~open_).sum())
        if not open_.any() or room <= 0 or abs(pi.sum() - size) < 1e-9 * size:
            break
        pi[open_] = np.minimum(1.0, room * wish[open_] / wish[open_].sum())
    return np.flatnonzero(np.random.default_rng(random_state).random(m) < pi).astype(np.int64), pi


def posteriors(similarity: Array, alpha: Array) -> Array:
    """f_i(x) = α̂_i μ̂_i(x)/Σ_j α̂_j μ̂_j(x), negative densities of random features taken as 0."""
    joint = np.maximum(similarity, 0) * alpha
    total = joint.sum(axis=1, keepdims=True)
    return np.asarray(
        np.divide(joint, total, out=np.tile(project(alpha, soft=False), (len(joint), 1)), where=total > 0)
    )


def _result(
    est: Estimate, shares: Array, matching: Array, labels: Array, agreement: float, within: Array, P: Array, dof: Array,
    centre: Array, n: int, m: int,
) -> LabelledEstimate:  # fmt: skip
    unknown = max(0.0, 1 - float(shares.sum())) if est.soft else 0.0
    return LabelledEstimate(
        est.classes, shares.copy(), unknown, n, m, matching.copy(), labels, agreement, within + P, within, dof, centre.copy()
    )  # fmt: skip


def _expected(f: Array, weight: Array) -> Array:
    """The mean of w (diag f − ffᵀ): the covariance of a label that f foretells."""
    return np.asarray((np.diag(weight @ f) - (f * weight[:, None]).T @ f) / len(f))


def _psd(V: Array) -> Array:
    values, vectors = np.linalg.eigh((V + V.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0)) @ vectors.T)


def _rows(rows: Any, m: int) -> Rows:
    r = np.asarray(rows)
    if r.dtype == bool and r.shape == (m,):
        r = np.flatnonzero(r)
    if r.size == 0:
        return np.zeros(0, dtype=np.int64)
    if r.ndim != 1 or r.dtype.kind not in "iu" or r.min() < 0 or r.max() >= m or len(np.unique(r)) < len(r):
        raise InputError(
            f"rows must be positions of rows of X, each once, from 0 to {m - 1} (or one truth value a row): got {rows!r:.80}."
        )
    return r.astype(np.int64)


def _onehot(y: Any, rows: Rows, est: Estimate) -> Array:
    if len(rows) == 0:
        return np.zeros((0, len(est.classes)))
    labels = read_labels(y, len(rows))
    out = np.asarray(labels[:, None] == est.classes, dtype=np.float64)
    strange = np.unique(labels[out.sum(axis=1) == 0]).tolist()
    if strange and not est.soft:
        raise InputError(
            f"labelled rows of unknown class {', '.join(map(repr, strange[:5]))}: the hard form has no room for them. "
            "Fit with soft=True, where they count as unknown."
        )
    return out


def _chances(probabilities: Any, rows: Rows, m: int) -> Array | None:
    if probabilities is None:
        return None
    pi = np.asarray(probabilities, dtype=np.float64)
    if pi.shape != (m,) or not ((pi >= 0) & (pi <= 1)).all() or (pi[rows] <= 0).any():
        raise InputError(
            f"probabilities has shape {pi.shape}: give the chance of being labelled, above 0 and at most 1, of each of {m} rows."
        )
    return np.maximum(pi, 1e-12)
