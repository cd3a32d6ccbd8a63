"""The speed statement of the paper (§4.1): two sets of 5·10⁶ rows, d = 5, by Fourier features and by exact pair sums.

A random Fourier sketch costs O(D(n + m)), exact matching O(n(n + m)): the latter is timed at sizes that end, and
extrapolated by its square law where figures and tables say so. These rows are times: they never repeat to the bit.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from proportio.reproduce.cells import Cell, Experiment, Method, Row
from proportio.reproduce.describe import rng_of

CLASSES = 5


def two_sets(
    seed: int, n: int, d: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Labelled rows and as many rows of a batch, float32, from one mixture of five unit Gaussians."""
    rng = rng_of(seed, "speed", n, d)
    means = rng.uniform(-3, 3, (CLASSES, d)).astype(np.float32)
    y = rng.integers(0, CLASSES, n)
    X, batch = (rng.standard_normal((n, d), dtype=np.float32) for _ in range(2))
    X += means[y]
    batch += means[rng.integers(0, CLASSES, n)]
    return X, y, batch


@dataclass(frozen=True)
class SpeedCell(Cell):
    """One method at one size: fit on n rows, answer about n rows, on all processors, `repeats` times over."""

    method: Method
    n: int
    d: int
    repeats: int
    experiment: str = "speed"
    timed: ClassVar[bool] = True

    @property
    def label(self) -> str:
        return f"{self.method.name}, {self.n:,} rows twice"

    def rows(self, seed: int) -> list[Row]:
        self.method.fitted(*two_sets(seed, 2_000, self.d)[:2], 0, None).predict(np.zeros((10, self.d)))  # compiles
        X, y, batch = two_sets(seed, self.n, self.d)
        out: list[Row] = []
        for k in range(self.repeats):
            began = time.perf_counter()
            model = self.method.fitted(X, y, 0, None)
            fitted = time.perf_counter()
            model.predict(batch)
            done = time.perf_counter()
            out.append(
                {
                    "method": self.method.name,
                    "rows": self.n,
                    "d": self.d,
                    "repeat": k,
                    "seconds_fit": fitted - began,
                    "seconds_answer": done - fitted,
                    "seconds": done - began,
                }
            )
        return out


@dataclass(frozen=True)
class Speed(Experiment):
    """`fast` at the paper's size (and below), `exact` at sizes from which the square law is extrapolated."""

    fast: tuple[Method, ...]
    exact: tuple[Method, ...]
    sizes: tuple[int, ...] = (50_000, 500_000, 5_000_000)
    exact_sizes: tuple[int, ...] = (20_000, 40_000, 80_000)
    d: int = 5
    repeats: int = 5
    name: str = "speed"

    def cells(self) -> list[Cell]:
        out: list[Cell] = [SpeedCell(m, n, self.d, self.repeats, self.name) for m in self.fast for n in self.sizes]
        out += [SpeedCell(m, n, self.d, self.repeats, self.name) for m in self.exact for n in self.exact_sizes]
        return out
