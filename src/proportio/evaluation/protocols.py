"""Batches with known shares, drawn from labelled rows: how the field puts quantifiers to the test.

    Grid            shares on a grid of the simplex (artificial prevalence)
    Uniform         shares uniform on the simplex (Kraemer's gaps of sorted uniforms)
    Natural         rows drawn at random: the shares move by chance alone
    Contamination   a class that the reference never saw makes up given shares; the others are uniform on the simplex
    CovariateShift  within each class rows are drawn in proportion to exp(s · uᵀz), u a random direction: label shift fails

A protocol is told rows and labels and gives batches: indices into the rows, and the true shares of the known classes. Rows are
drawn without replacement where a class has enough, as QuaPy does.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows of the pool, the shares of the known classes among them (Σ < 1 with something unknown), and what was varied."""

    rows: Indices
    shares: Array
    level: float

    @property
    def unknown(self) -> float:
        """α_0, the share of the rows that no known class explains."""
        return max(0.0, 1 - float(self.shares.sum()))


@dataclass(frozen=True)
class Protocol(ABC):
    """`size` rows a batch, `repetitions` batches of each kind."""

    size: int = 500
    repetitions: int = 100

    withheld = None

    def batches(self, X: Any, y: Any, rng: np.random.Generator) -> Iterator[Batch]:
        """Batches of the rows X with labels y; shares in the order of the sorted known classes."""
        labels = np.asarray(y)
        if self.size < 1 or self.repetitions < 1:
            raise InputError(f"size={self.size}, repetitions={self.repetitions}: both must be 1 or more.")
        known = (
            [k for k in np.unique(labels) if k != self.withheld] if self.withheld is not None else [*np.unique(labels)]
        )
        yield from self._draw(X, labels, known, rng)

    @abstractmethod
    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        """Batches for the known classes."""

    def _mixed(self, y: Any, known: list[Any], shares: Array, rng: np.random.Generator, level: float) -> Batch:
        rows = sample(y, known, shares, self.size, rng)
        return Batch(rows, realised(y[rows], known), level)


@dataclass(frozen=True)
class Uniform(Protocol):
    """Shares uniform on the simplex; `level` is half the l1 distance from the pool's shares."""

    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        for _ in range(self.repetitions):
            shares = simplex_point(len(known), rng)
            yield self._mixed(y, known, shares, rng, shift_of(y, known, shares))


@dataclass(frozen=True)
class Grid(Protocol):
    """Every point of the simplex with coordinates k/(points − 1), each `repetitions` times."""

    points: int = 11

    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        steps = self.points - 1
        for cut in itertools.combinations(range(steps + len(known) - 1), len(known) - 1):
            shares = np.diff([-1, *cut, steps + len(known) - 1]) - 1.0
            for _ in range(self.repetitions):
                yield self._mixed(y, known, shares / steps, rng, shift_of(y, known, shares / steps))


@dataclass(frozen=True)
class Natural(Protocol):
    """Rows at random."""

    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        for _ in range(self.repetitions):
            rows = rng.choice(len(y), self.size, replace=self.size > len(y))
            shares = realised(y[rows], known)
            yield Batch(rows, shares, shift_of(y, known, shares))


@dataclass(frozen=True)
class Contamination(Protocol):
    """`withheld` makes up each of `shares` of a batch and is not in the reference; `level` is that share."""

    withheld: Any = None
    shares: tuple[float, ...] = (0.05, 0.15, 0.3)

    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        if self.withheld is None or self.withheld not in y:
            labels = np.unique(y).tolist()
            raise InputError(
                f"withheld={self.withheld!r} is not among the labels {labels!r}: name the class to withhold."
            )
        for level in self.shares:
            if not 0 <= level < 1:
                raise InputError(f"a contaminated share of {level!r} must be at least 0 and below 1.")
            for _ in range(self.repetitions):
                mixed = np.append((1 - level) * simplex_point(len(known), rng), level)
                rows = sample(y, [*known, self.withheld], mixed, self.size, rng)
                yield Batch(rows, realised(y[rows], known), level)


@dataclass(frozen=True)
class CovariateShift(Protocol):
    """Uniform shares, and within each class a tilt of `strength` standard deviations along a random direction; `level` is it."""

    strengths: tuple[float, ...] = (0.0, 0.5, 1.0)

    def _draw(self, X: Any, y: Any, known: list[Any], rng: np.random.Generator) -> Iterator[Batch]:
        values = np.asarray(X, dtype=np.float64)
        spread = values.std(axis=0)
        Z = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        for strength in self.strengths:
            for _ in range(self.repetitions):
                along = rng.standard_normal(Z.shape[1])
                score = Z @ (along / np.linalg.norm(along))
                odds = np.exp(strength * (score - score.max()))
                rows = sample(y, known, simplex_point(len(known), rng), self.size, rng, odds)
                yield Batch(rows, realised(y[rows], known), strength)


def simplex_point(c: int, rng: np.random.Generator) -> Array:
    """A uniform point of the simplex: the gaps between sorted uniforms."""
    return np.diff(np.concatenate([[0.0], np.sort(rng.random(c - 1)), [1.0]]))


def sample(
    y: Any, classes: list[Any], shares: Array, size: int, rng: np.random.Generator, odds: Array | None = None
) -> Indices:
    """`size` rows whose labels have (nearly) these shares; within a class, in proportion to `odds` and then with replacement."""
    counts = np.floor(shares * size).astype(np.int64)
    left = size - counts.sum()
    counts[np.argsort(counts - shares * size, kind="stable")[:left]] += 1
    parts = []
    for label, n in zip(classes, counts, strict=True):
        of_class = np.flatnonzero(y == label)
        if n and not len(of_class):
            raise InputError(
                f"the pool has no row of class {label!r} to draw {n} from: keep more rows for the batches."
            )
        p = None if odds is None else odds[of_class] / odds[of_class].sum()
        parts.append(rng.choice(of_class, n, replace=p is not None or n > len(of_class), p=p) if n else of_class[:0])
    return rng.permutation(np.concatenate(parts))


def realised(labels: Any, known: list[Any]) -> Array:
    """The shares of the known classes among all these rows."""
    return np.array([np.mean(labels == k) for k in known])


def shift_of(y: Any, known: list[Any], shares: Array) -> float:
    """½‖α − β‖₁ against the pool's shares of the known classes."""
    base = realised(y, known)
    return float(np.abs(shares - base / base.sum()).sum() / 2)
