"""The HIPC figure of the paper (§4.2, cytometry): one class after the other is missing from the source, not from the batch.

Each patient in turn is the source, the other patients of the laboratory are batches; the true shares are those of the hand gates.
Any labelled samples will do: give `load`, a function from a path to {name: Cells}.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from proportio.datasets import Cells, load_hipc
from proportio.reproduce.cells import Cell, Experiment, Method, Row, errors, predicted
from proportio.reproduce.describe import rng_of, seed_of

NOTHING = "none"


Loader = Callable[[str], dict[int, Cells]]


@functools.lru_cache(maxsize=1)
def loaded(load: Loader, path: str) -> dict[int, Cells]:
    """The patients, kept between the tasks of one process."""
    return load(path)


def some(cells: Cells, at_most: int | None, rng: np.random.Generator) -> Cells:
    """At most so many of the cells, at random; all where None."""
    if at_most is None or len(cells.y) <= at_most:
        return cells
    kept = np.sort(rng.choice(len(cells.y), at_most, replace=False))
    return Cells(cells.X[kept], cells.y[kept])


@dataclass(frozen=True)
class HipcCell(Cell):
    """One method, one patient as source, one class withheld from it; every other patient as a batch."""

    method: Method
    source: int
    withheld: str
    at_most: int | None
    load: Loader
    path: str = field(metadata={"described": False})  # where a copy lies is not what it is
    experiment: str = "hipc"

    @property
    def label(self) -> str:
        return f"{self.method.name}, patient {self.source}, without {self.withheld}"

    def rows(self, seed: int) -> list[Row]:
        everyone = loaded(self.load, self.path)
        sampled = {p: some(c, self.at_most, rng_of(seed, "hipc rows", p, self.at_most)) for p, c in everyone.items()}
        source = sampled[self.source]
        kept = source.y != self.withheld
        model = self.method.fitted(
            source.X[kept], source.y[kept], seed_of(seed, "hipc method", self.source, self.withheld)
        )
        classes = np.unique(source.y[kept])
        out: list[Row] = []
        for p, batch in sampled.items():
            if p == self.source:
                continue
            true = np.array([np.mean(batch.y == k) for k in classes])
            alpha, warned = predicted(model, batch.X)
            out.append(
                {
                    "method": self.method.name,
                    "withheld": self.withheld,
                    "share": float(np.mean([c.shares.get(self.withheld, 0.0) for c in everyone.values()])),
                    "source": self.source,
                    "target": p,
                    "contamination": float(np.mean(batch.y == self.withheld)),
                    **errors(alpha, true),
                    "bandwidth": getattr(model, "bandwidth_", None),
                    "warned": warned,
                }
            )
        return out


@dataclass(frozen=True)
class Hipc(Experiment):
    """All classes, then each class withheld; `path` is the user's own copy of the cells."""

    methods: tuple[Method, ...]
    path: str = field(default="", metadata={"described": False})
    at_most: int | None = None
    withheld: tuple[str, ...] | None = None
    load: Loader = load_hipc
    name: str = "hipc"

    def cells(self) -> list[Cell]:
        found = loaded(self.load, self.path)
        classes = sorted(set().union(*(c.shares for c in found.values()))) if self.withheld is None else self.withheld
        return [
            HipcCell(m, p, k, self.at_most, self.load, self.path, self.name)
            for k in (NOTHING, *classes)
            for p in found
            for m in self.methods
        ]
