"""From how many rows each bound says anything: the least n = n_i = m with a radius below √2, by bisection on the formula."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from proportio.bounds import DIAMETER, Bound, Ingredients, sharp, theorem1, theorem2
from study_worlds import centres

DELTA = 0.05
SIGMA = 1.5

INTRO = """The least n = n_i = m at which each radius falls below √2 (δ = 0.05, α* = 1 : 2 : … : c, C = 1, hard form), computed from
the formulas with the Gram matrix of the populations above under the Gaussian kernel, σ = 1.5, and, for a classifier that is never
wrong (G = I), the least that any features need. *Sharp, from the data* is the radius around α̂ = α*; Theorem 2 is taken where label
shift holds, B^⊥ = B^∥ = 0."""

FORMULAS: dict[str, Callable[[Ingredients, np.ndarray], Bound]] = {
    "sharp at α*": lambda known, alpha: sharp(known, DELTA, alpha=alpha),
    "sharp, from the data": lambda known, alpha: sharp(known, DELTA, estimate=alpha),
    "Theorem 1, eq. 1": lambda known, alpha: theorem1(known, DELTA, alpha=alpha),
    "Theorem 1, eq. 2": lambda known, alpha: theorem1(known, DELTA),
    "Theorem 2": lambda known, alpha: theorem2(known, DELTA, perpendicular=0.0, parallel=0.0),
}


def population_gram(mu: np.ndarray) -> np.ndarray:
    """⟨Φ(N(a, I)), Φ(N(b, I))⟩ = (σ²/v)^{d/2} exp(−‖a − b‖²/2v), v = σ² + 2."""
    v = SIGMA**2 + 2
    squares = np.square(mu[:, None] - mu).sum(axis=2)
    return np.asarray((SIGMA**2 / v) ** (mu.shape[1] / 2) * np.exp(-squares / (2 * v)))


def least_rows(G: np.ndarray, formula: Callable[[Ingredients, np.ndarray], Bound]) -> int:
    """The n from which on the bound is not vacuous."""
    c = len(G)
    alpha = np.arange(1.0, c + 1) / (c * (c + 1) / 2)

    def vacuous(n: int) -> bool:
        return formula(Ingredients(G, np.full(c, float(n)), float(n), 1.0), alpha).uncapped >= DIAMETER

    high = 2
    while vacuous(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if vacuous(middle) else (low, middle)
    return high


def report(rows: Sequence[dict[str, Any]]) -> str:
    """When each bound begins to speak, then radii in each world."""
    lines = ["| features | c | " + " | ".join(FORMULAS) + " |", "|" + "---|" * (2 + len(FORMULAS))]
    for name, gram in (("Gaussian kernel", lambda c: population_gram(centres(c))), ("never wrong", np.eye)):
        for c in (2, 5, 20):
            found = [f"{least_rows(gram(c), formula):,}" for formula in FORMULAS.values()]
            lines.append(f"| {name} | {c} | " + " | ".join(found) + " |")
    lines += [
        "",
        "Errors and radii in the simulated worlds: means over replications (the radii at δ = 0.05), and the least ratio of "
        "Theorem 1 (eq. 1) to the sharp radius at α*.",
        "",
        "| method | c | n_i | m | shares | error | sharp | Theorem 1 (eq. 2) | ratio | R |",
        "|" + "---|" * 10,
    ]
    for r in rows:
        around, first, error = r["radius"]
        world = (
            f"{'soft ' if r['form'] == 'soft' else ''}{r['method']} | {r['c']} | {r['n']:,} | {r['m']:,} | {r['where']}"
        )
        lines.append(f"| {world} | {error:.3f} | {around:.2f} | {first:.2f} | {r['ratio']:.2f} | {r['reps']:,} |")
    return "\n".join(lines)
