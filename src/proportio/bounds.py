"""How far α̂ can be from α*: radii that hold with probability ≥ 1 − δ, none larger than √2, the simplex's diameter.

    R_x = 2 + √(2 log 2x),   ε_n = C R_{c/δ}/√(min n_i),   ε_m = C R_{1/δ}/√m                        (eq. epsilons)
    Theorem 1, eq. 1     2C R_{c/δ} (‖w‖₂/√n + 1/√m) / √Δ_min,  w_i = α*_i n/n_i
    Theorem 1, eq. 2     2C R_{c/δ} (1/√(min n_i) + 1/√m) / √Δ_min
    sharp (ours)         K g(α*),  K = C(1 + √(2 log 1/δ))/√Δ_min,  g(α) = √(Σ α_i²/n_i + 1/m)
    Theorem 2            (3ε_n + ε_m + √(2ε_n) B^⊥ + B^∥) / √Δ_min
    Corollary 1          (3ε_n + ε_m + √(2 α_0 ε_n ‖Φ(Q_0)‖) + α_0 ‖Π_V̄ Φ(Q_0)‖) / √λ_min

The soft form has λ_min in the place of Δ_min throughout, and bounds α_1 … α_c, not the unknown share. Eq. 2 does not follow
from eq. 1, but both follow from Σ α_i/√n_i. With weighted rows n_i and m are effective numbers, (Σw)²/Σw².

Why the sharp form holds: Bα̂ is the projection of ψ onto the hull of the class means and Bα* lies in it, so that
√Δ_min ‖α̂ − α*‖ ≤ ‖Bα̂ − Bα*‖ ≤ ‖ψ − Bα*‖, a sum of independent centred vectors with mean length ≤ C g(α*), and one
McDiarmid step adds C g(α*) √(2 log 1/δ).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError
from proportio.gram import delta_min, lambda_min
from proportio.storage import plain

Array = npt.NDArray[np.float64]

DIAMETER = float(np.sqrt(2))


@dataclass(frozen=True)
class Bound:
    """‖α̂ − α*‖₂ ≤ `radius` with probability ≥ 1 − `delta`, under `assumption`; `float(bound)` is the radius.

    `uncapped` is the formula's value where it exceeds √2, the largest distance between any two vectors of shares; the
    bound is then `vacuous`: true, and silent.
    """

    radius: float
    uncapped: float
    delta: float
    kind: str
    assumption: str

    @property
    def vacuous(self) -> bool:
        """Whether the formula says no more than that shares are shares."""
        return self.uncapped >= DIAMETER

    def __float__(self) -> float:
        return self.radius

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, `vacuous` among them; infinity as None."""
        return {**plain(self), "vacuous": self.vacuous}


@dataclass(frozen=True, eq=False)
class Ingredients:
    """What every bound reads: the Gram matrix G, the (effective) numbers n_i and m, C, and whether the form is soft.

    >>> known = Ingredients(np.eye(2), np.array([400.0, 400.0]), 400.0, 1.0)
    >>> round(sharp(known, alpha=np.array([0.5, 0.5])).radius, 3), round(theorem1(known).radius, 3)
    (0.211, 0.992)
    """

    G: Array
    counts: Array
    m: float
    C: float
    soft: bool = False
    positive: bool = True

    @property
    def root(self) -> float:
        """√Δ_min, or √λ_min in the soft form; 0 where classes are dependent."""
        return float(np.sqrt(max(lambda_min(self.G) if self.soft else delta_min(self.G), 0.0)))

    def epsilons(self, delta: float) -> tuple[float, float]:
        """ε_n and ε_m of Theorem 2 (eq. epsilons)."""
        c = len(self.counts)
        return (
            self.C * rate(c / delta) / float(np.sqrt(self.counts.min())),
            self.C * rate(1 / delta) / float(np.sqrt(self.m)),
        )


LABEL_SHIFT = "label shift holds exactly: each class looks in the batch as in the reference"
FIXED_MAP = "the features were fixed without these rows"


def rate(x: float) -> float:
    """R_x = 2 + √(2 log 2x)."""
    return float(2 + np.sqrt(2 * np.log(2 * x)))


def theorem1(known: Ingredients, delta: float = 0.05, *, alpha: Any = None) -> Bound:
    """Theorem 1: eq. 2, which needs no α*; with `alpha` = α* given, eq. 1."""
    _check_delta(delta)
    c = len(known.counts)
    if alpha is None:
        source, kind = 1 / np.sqrt(known.counts.min()), "theorem1"
    else:
        w = _shares(alpha, c) / known.counts
        source, kind = np.linalg.norm(w) * np.sqrt(known.counts.sum()), "theorem1 eq. 1"
    value = 2 * known.C * rate(c / delta) * (source + 1 / np.sqrt(known.m))
    return _bound(value, known, delta, kind, f"{LABEL_SHIFT}; {FIXED_MAP}")


def sharp(
    known: Ingredients, delta: float = 0.05, *, alpha: Any = None, estimate: Any = None, parallel: float = 0.0
) -> Bound:
    """K g(α*), at `alpha` = α* where it is known; else what is valid without it.

    That is the smaller of K max g = K √(1/min n_i + 1/m), and, around an `estimate` α̂, of K g(α̂)/(1 − K/√(min n_i)):
    g(α*) ≤ g(α̂) + r/√(min n_i) for ‖α̂ − α*‖ = r. Plugging α̂ in for α* would not be valid. Under contamination,
    `parallel` = α_0 ‖Π Φ(Q_0)‖ (Π onto the span of the class means) is the part of the contaminant that shares can imitate.
    """
    _check_delta(delta)
    c, n_min = len(known.counts), known.counts.min()
    k = known.C * (1 + np.sqrt(2 * np.log(1 / delta)))
    if alpha is not None:
        value = k * _spread(_shares(alpha, c), known)
    else:
        value = k * np.sqrt(1 / n_min + 1 / known.m)
        room = known.root - k / np.sqrt(n_min)
        if estimate is not None and room > 0:
            around = k * _spread(_shares(estimate, c), known) + parallel
            value = min(value, around * known.root / room - parallel)
    assumption = (
        LABEL_SHIFT if not parallel else "the unknown share reaches into the span of the classes as far as stated"
    )
    return _bound(value + parallel, known, delta, "sharp", f"{assumption}; {FIXED_MAP}")


def theorem2(known: Ingredients, delta: float = 0.05, *, perpendicular: float, parallel: float) -> Bound:
    """Theorem 2, without label shift: `perpendicular` = B^⊥ = √dist(Φ(Q), hull), `parallel` = B^∥ = max ‖Φ(P_i) − Π_V Φ(Q_i)‖."""
    _check_delta(delta)
    _check_sizes(perpendicular=perpendicular, parallel=parallel)
    eps_n, eps_m = known.epsilons(delta)
    value = 3 * eps_n + eps_m + np.sqrt(2 * eps_n) * perpendicular + parallel
    return _bound(value, known, delta, "theorem2", f"the departures from label shift are as stated; {FIXED_MAP}")


def corollary(
    known: Ingredients, delta: float = 0.05, *, unknown: float, norm: float | None = None, parallel: float | None = None
) -> Bound:
    """Corollary 1: a share `unknown` = α_0 of the batch comes from Q_0, with `norm` = ‖Φ(Q_0)‖, `parallel` = ‖Π_V̄ Φ(Q_0)‖.

    Both are at most C, which is what None assumes: the worst contaminant there can be. The paper drops the factor α_0 of
    the last term.
    """
    _check_delta(delta)
    if not known.soft:
        raise InputError("Corollary 1 bounds the soft estimate: fit with soft=True, or use theorem2 for the hard one.")
    norm, parallel = known.C if norm is None else norm, known.C if parallel is None else parallel
    _check_sizes(unknown=unknown, norm=norm, parallel=parallel)
    if unknown > 1:
        raise InputError(f"unknown={unknown!r} is a share of the batch: give a number from 0 to 1.")
    eps_n, eps_m = known.epsilons(delta)
    value = 3 * eps_n + eps_m + np.sqrt(2 * unknown * eps_n * norm) + unknown * parallel
    return _bound(
        value, known, delta, "corollary", f"contaminated label shift with the contaminant as stated; {FIXED_MAP}"
    )


def _spread(alpha: Array, known: Ingredients) -> float:
    """g(α) = √(Σ α_i²/n_i + 1/m)."""
    return float(np.sqrt(np.sum(alpha**2 / known.counts) + 1 / known.m))


def _bound(value: float, known: Ingredients, delta: float, kind: str, assumption: str) -> Bound:
    root = known.root
    uncapped = float(value / root) if root > 0 else float("inf")
    return Bound(min(uncapped, DIAMETER) if known.positive else uncapped, uncapped, delta, kind, assumption)


def _shares(alpha: Any, c: int) -> Array:
    out = np.asarray(alpha, dtype=np.float64)
    if out.shape != (c,) or not np.isfinite(out).all():
        raise InputError(f"the shares have shape {out.shape}: give one finite number for each of the {c} classes.")
    return out


def _check_delta(delta: Any) -> None:
    if isinstance(delta, bool) or not isinstance(delta, (int, float, np.floating)) or not 0 < delta < 1:
        raise InputError(f"delta={delta!r} must lie between 0 and 1: it is the chance that the bound may fail.")


def _check_sizes(**sizes: float) -> None:
    for name, value in sizes.items():
        if not (np.isfinite(value) and value >= 0):
            raise InputError(f"{name}={value!r} must be a finite number, 0 or more.")
