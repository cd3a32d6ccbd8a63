"""The robustness figure of the paper (§4.2, Gaussian mixture): error against the contamination, for three noises.

c = 5 Gaussians, 10,000 clean rows, a share ε of the batch from Q_0, dimensions 2 to 10, 20 repetitions of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from proportio.reproduce.cells import Array, Cell, Experiment, Method, Noise, Row, errors, predicted
from proportio.reproduce.describe import rng_of, seed_of
from proportio.reproduce.worlds import Labels, Mixture, apportion, gaussians


@dataclass(frozen=True)
class Sizes:
    """Classes, source rows a class, and clean rows of the batch."""

    classes: int = 5
    source_rows: int = 2_000
    clean_rows: int = 10_000


SIZES = Sizes()  # the paper's


@dataclass(frozen=True, eq=False)
class Drawn:
    """One repetition: the world, its labelled source, and the clean rows of its batch. The same for every method."""

    world: Mixture
    X: Array
    y: Labels
    clean: Array
    shares: Array

    def batches(
        self, noise: Noise, levels: tuple[float, ...], rng: np.random.Generator
    ) -> Iterator[tuple[float, Array]]:
        """For each ε the clean rows with ε/(1 − ε) as many of the noise; a higher ε keeps the rows of a lower one."""
        m = len(self.clean)
        sizes = [round(m * e / (1 - e)) for e in levels]
        extra = noise.rows(rng, max(sizes), self.world, self.X)
        for e, size in zip(levels, sizes, strict=True):
            yield e, np.concatenate([self.clean, extra[:size]])


def drawn(seed: int, d: int, repetition: int, sizes: Sizes) -> Drawn:
    """The data of one repetition."""
    rng = rng_of(seed, "world", d, repetition, sizes)
    world = gaussians(rng, sizes.classes, d)
    X, y = world.rows(rng, [sizes.source_rows] * sizes.classes)
    counts = apportion(world.shares, sizes.clean_rows)
    return Drawn(world, X, y, world.rows(rng, counts)[0], counts / counts.sum())


@dataclass(frozen=True)
class RobustnessCell(Cell):
    """One method in one repetition: fitted once, asked about every noise and level."""

    method: Method
    d: int
    repetition: int
    levels: tuple[float, ...]
    noises: tuple[Noise, ...]
    sizes: Sizes
    experiment: str = "robustness"

    @property
    def label(self) -> str:
        return f"{self.method.name}, d = {self.d}, repetition {self.repetition}"

    def rows(self, seed: int) -> list[Row]:
        data = drawn(seed, self.d, self.repetition, self.sizes)
        model = self.method.fitted(data.X, data.y, seed_of(seed, "method", self.d, self.repetition))
        out: list[Row] = []
        for noise in self.noises:
            rng = rng_of(seed, "noise", noise, self.d, self.repetition, self.sizes)
            for level, batch in data.batches(noise, self.levels, rng):
                alpha, warned = predicted(model, batch)
                out.append(
                    {
                        "method": self.method.name,
                        "noise": noise.name,
                        "d": self.d,
                        "repetition": self.repetition,
                        "contamination": level,
                        **errors(alpha, data.shares * len(data.clean) / len(batch)),
                        "bandwidth": getattr(model, "bandwidth_", None),
                        "warned": warned,
                    }
                )
        return out


@dataclass(frozen=True)
class Robustness(Experiment):
    """The paper's methods in every dimension; `companions` in `companion_dims` only."""

    methods: tuple[Method, ...]
    noises: tuple[Noise, ...]
    companions: tuple[Method, ...] = ()
    dims: tuple[int, ...] = tuple(range(2, 11))
    companion_dims: tuple[int, ...] = (2, 5, 10)
    repetitions: int = 20
    levels: tuple[float, ...] = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
    sizes: Sizes = SIZES
    name: str = "robustness"

    def cells(self) -> list[Cell]:
        every = [(m, d) for m in self.methods for d in self.dims]
        every += [(m, d) for m in self.companions for d in self.companion_dims]
        return [
            RobustnessCell(m, d, r, self.levels, self.noises, self.sizes, self.name)
            for r in range(self.repetitions)
            for m, d in every
        ]


@dataclass(frozen=True)
class PictureCell(Cell):
    """Rows to look at: the clean batch and each noise in two dimensions."""

    noise: Noise
    level: float
    shown: int
    sizes: Sizes
    experiment: str = "noises"

    @property
    def label(self) -> str:
        return f"{self.noise.name}, {self.level:.0%}"

    def rows(self, seed: int) -> list[Row]:
        data = drawn(seed, 2, 0, self.sizes)
        rng = rng_of(seed, "noise", self.noise, 2, 0, self.sizes)
        ((_, batch),) = data.batches(self.noise, (self.level,), rng)
        known = len(data.clean)
        labels = np.repeat(np.arange(1, self.sizes.classes + 1), apportion(data.shares, known))
        labels = np.concatenate([labels, np.zeros(len(batch) - known, dtype=np.int64)])
        kept = np.sort(rng_of(seed, "shown", self.noise).choice(len(batch), self.shown, replace=False))
        return [
            {
                "noise": self.noise.name,
                "contamination": self.level,
                "class": int(labels[i]),
                "x1": float(batch[i, 0]),
                "x2": float(batch[i, 1]),
            }
            for i in kept
        ]


@dataclass(frozen=True)
class Pictures(Experiment):
    """The appendix figure: the three noises at several levels, one world in two dimensions."""

    noises: tuple[Noise, ...]
    levels: tuple[float, ...] = (0.1, 0.2, 0.3)
    shown: int = 1_000
    sizes: Sizes = SIZES
    name: str = "noises"

    def cells(self) -> list[Cell]:
        return [PictureCell(n, e, self.shown, self.sizes, self.name) for n in self.noises for e in self.levels]
