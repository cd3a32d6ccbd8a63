"""How much the bandwidth matters, and what the paper's criterion chooses (§4.1: σ "is optimised using the criterion").

Over the grid that `bandwidth.choose` looks at: the error of softRFFM, clean and contaminated; Δ_min of the V-statistic,
as the paper maximises it; Δ_min of the unbiased Gram matrix and the predicted error, as this library does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proportio.gram import delta_min, lambda_min
from proportio.methods import RFFM
from proportio.reproduce.cells import Cell, Experiment, Noise, Row, errors, predicted
from proportio.reproduce.describe import rng_of, seed_of
from proportio.reproduce.robustness import SIZES, Sizes, drawn

CLEAN = "none"


@dataclass(frozen=True)
class SigmaCell(Cell):
    """One repetition: every σ of the grid, every noise at one level."""

    d: int
    repetition: int
    noises: tuple[Noise, ...]
    level: float
    sizes: Sizes
    experiment: str = "bandwidth"

    @property
    def label(self) -> str:
        return f"d = {self.d}, repetition {self.repetition}"

    def rows(self, seed: int) -> list[Row]:
        data = drawn(seed, self.d, self.repetition, self.sizes)
        state = seed_of(seed, "method", self.d, self.repetition)
        curves = {
            criterion: RFFM(criterion=criterion, soft=True, random_state=state, n_jobs=1)
            .fit(data.X, data.y)
            .bandwidth_curve_
            for criterion in ("delta_min", "error")
        }
        batches = [(CLEAN, data.clean)]
        for noise in self.noises:
            rng = rng_of(seed, "noise", noise, self.d, self.repetition, self.sizes)
            batches += [(noise.name, batch) for _, batch in data.batches(noise, (self.level,), rng)]
        out: list[Row] = []
        sigmas = curves["delta_min"].sigmas
        models = [RFFM(bandwidth=float(s), soft=True, random_state=state, n_jobs=1).fit(data.X, data.y) for s in sigmas]
        biased = [delta_min(m.gram_) for m in models]
        for k, model in enumerate(models):
            for name, batch in batches:
                alpha, warned = predicted(model, batch)
                out.append(
                    {
                        "d": self.d,
                        "repetition": self.repetition,
                        "noise": name,
                        "bandwidth": float(sigmas[k]),
                        "of_median": float(2.0 ** (-4 + 6 * k / (len(sigmas) - 1))),
                        **errors(alpha, data.shares * len(data.clean) / len(batch)),
                        "delta_min": biased[k],
                        "lambda_min": lambda_min(model.gram_),
                        "chosen_by_paper": bool(k == int(np.argmax(biased))),
                        "chosen_by_delta_min": bool(sigmas[k] == curves["delta_min"].chosen),
                        "chosen_by_error": bool(sigmas[k] == curves["error"].chosen),
                        "warned": warned,
                    }
                )
        return out


@dataclass(frozen=True)
class Sigma(Experiment):
    """The grid of σ, in units of the median distance, in some dimensions."""

    noises: tuple[Noise, ...]
    dims: tuple[int, ...] = (2, 5, 10)
    repetitions: int = 20
    level: float = 0.2
    sizes: Sizes = SIZES
    name: str = "bandwidth"

    def cells(self) -> list[Cell]:
        return [
            SigmaCell(d, r, self.noises, self.level, self.sizes, self.name)
            for r in range(self.repetitions)
            for d in self.dims
        ]
