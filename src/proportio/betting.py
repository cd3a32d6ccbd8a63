"""Intervals for a running mean that hold at every time at once, from when on a stream is read: capital that no fair bet multiplies.

    W_t(λ) = exp(±λ (S_t − N_t μ̄_t) − P_t(λ)),   E W_t ≤ 1 at any stopping time;   S_t the sum of N_t rows X in [0, 1]
    P grows by ψ(λ)(X − X̂)² a row, ψ(v) = −log(1 − v) − v                          (Fan's inequality: empirical Bernstein);
    where only the mean X̄ of a block of n rows is known, by ψ(λn)(X̄ − X̂)² or, if λn is too large for it, by nλ²/8   (Hoeffding)
    |S_t/N_t − μ̄_t| ≤ min_k [log(2/(δ p_k)) + P_t(λ_k)]/(λ_k N_t)  for all t, with probability ≥ 1 − δ,  Σ p_k = 1   (Ville)

X̂ is any guess made before the batch. μ̄_t is the mean over rows of what was to be expected of each, given the past, which may
change from batch to batch. The bets λ_k are the same for every functional, so that the averages of all of them belong to the
same rows. A stream is read from many starting times, start s at level δ w_s with Σ w_s = 1; of old starts a dyadic few are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

BETS = 0.9 * 2.0 ** -np.arange(20.0)  # from a few rows to 10¹⁰
LARGEST = 0.98  # λn up to which Fan's inequality is used
FINENESS = 2  # 2² starting times are kept in each octave of age


@dataclass(frozen=True, eq=False)
class Bet:
    """What a batch adds to S (J,), N and P (J, k); parts of a batch add up."""

    total: Array
    rows: float
    paid: Array

    def __add__(self, other: Bet) -> Bet:
        return Bet(self.total + other.total, self.rows + other.rows, self.paid + other.paid)


def on_rows(values: Array, guess: Array) -> Bet:
    """The bet on rows with known values (rows, J), against a `guess` (J,) made before.

    >>> on_rows(np.full((8, 1), 0.5), np.array([0.5])).paid.max()
    np.float64(0.0)
    """
    price = -np.log1p(-BETS) - BETS
    return Bet(values.sum(axis=0), float(len(values)), np.multiply.outer(((values - guess) ** 2).sum(axis=0), price))


def on_blocks(means: Array, rows: Array, guess: Array) -> Bet:
    """The bet on blocks of so many `rows` of which the `means` (blocks, J) alone are known: the larger the blocks, the wider."""
    full = rows > 0
    means, rows = means[full], rows[full]
    bets = rows[:, None] * BETS
    small = bets <= LARGEST
    v = np.where(small, bets, 0.0)
    hoeffding = np.where(small, 0.0, rows[:, None] * BETS**2 / 8).sum(axis=0)
    paid = ((means - guess) ** 2).T @ (-np.log1p(-v) - v) + hoeffding
    return Bet(rows @ means, float(rows.sum()), paid)


def weight(start: npt.NDArray[np.int64]) -> Array:
    """w_s = 1/2 for the whole stream and 1/(2s(s + 1)) for what follows batch s: they sum to one."""
    s = np.asarray(start, dtype=np.float64)
    return np.where(s == 0, 0.5, 0.5 / np.maximum(s * (s + 1), 1))


def kept(start: npt.NDArray[np.int64], now: int) -> npt.NDArray[np.bool_]:
    """Starting times still followed after `now` batches: multiples of a power of two that grows with age; 0 always is."""
    age = np.maximum(now - start, 1)
    step = 1 << np.maximum(np.log2(age).astype(np.int64) - FINENESS, 0)
    return np.asarray(start % step == 0)


@dataclass
class Capital:
    """The sums S, N and P of every followed starting time, for J functionals with values in [0, 1]."""

    functionals: int
    batches: int = 0
    start: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    total: Array = field(init=False)
    rows: Array = field(init=False)
    paid: Array = field(init=False)

    def __post_init__(self) -> None:
        self.total = np.zeros((0, self.functionals))
        self.rows = np.zeros(0)
        self.paid = np.zeros((0, self.functionals, len(BETS)))

    def add(self, bet: Bet) -> None:
        """One batch."""
        self.start = np.append(self.start, self.batches)
        self.batches += 1
        keep = kept(self.start, self.batches)
        one = (1, self.functionals)
        self.total = (np.concatenate([self.total, np.zeros(one)]) + bet.total)[keep]
        self.rows = (np.append(self.rows, 0.0) + bet.rows)[keep]
        self.paid = (np.concatenate([self.paid, np.zeros((*one, len(BETS)))]) + bet.paid)[keep]
        self.start = self.start[keep]

    @property
    def mean(self) -> Array:
        """S/N from each starting time, (starts, J)."""
        return np.asarray(self.total / self.rows[:, None])

    def radius(self, delta: float) -> Array:
        """Half the width of every interval, (starts, J): all of them hold, at all times, with probability ≥ 1 − δ."""
        price = np.log(2 * len(BETS) * self.functionals / (delta * weight(self.start)))
        return np.asarray(((price[:, None, None] + self.paid) / BETS).min(axis=2) / self.rows[:, None])
