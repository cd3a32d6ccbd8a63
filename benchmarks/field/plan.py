"""The study as a plan: a part for every data set, scenario, method, classifier and split, run and resumed as the paper's are.

label shift      shares uniform on the simplex
contamination    one class, another each split, withheld from the reference, makes up 5, 15 and 30% of the batch
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.field.methods import WITH_CLASSIFIER, WITHOUT
from benchmarks.field.sets import BY_NAME, SETS

from proportio.evaluation import Contamination, Protocol, Uniform
from proportio.evaluation.comparison import draw, run_method
from proportio.reproduce.cells import Cell, Experiment, Method, Row
from proportio.reproduce.describe import rng_of, seed_of
from proportio.reproduce.plan import Plan

SCENARIOS = ("label shift", "contamination")
SHARES = (0.05, 0.15, 0.3)
TEST_SIZE = 0.5


@dataclass(frozen=True)
class Sizes:
    """Rows of the reference at most, rows a batch, batches of each kind, splits."""

    reference: int
    batch: int
    batches: int
    splits: int


@dataclass(frozen=True)
class Trial(Cell):
    """One method on one split of one data set, every batch of one scenario."""

    dataset: str
    scenario: str
    method: Method
    classifier: str
    split: int
    sizes: Sizes
    cache: str = field(metadata={"described": False})
    experiment: str = "field"

    @property
    def label(self) -> str:
        """The cell in a few words, for the progress line."""
        return f"{self.dataset}, {self.scenario}, {self.method.name} ({self.classifier}), split {self.split}"

    def rows(self, seed: int) -> list[Row]:
        """A row a batch; the split and the batches depend on the data set, the scenario and the seed alone."""
        X, y = BY_NAME[self.dataset].load(Path(self.cache))
        known = {"data set": self.dataset, "scenario": self.scenario, "split": self.split}
        protocol = self._protocol(y, seed)
        reference, batches = draw(X, y, protocol, self.split, TEST_SIZE, seed_of(seed, self.dataset, self.scenario))
        if len(reference) > self.sizes.reference:
            rng = rng_of(seed, "reference", known)
            reference = np.sort(_thinned(y, reference, self.sizes.reference, rng))
        model = self._model(seed_of(seed, known))
        scored = run_method(self.method.name, model, X, y, reference, batches, self.split, 0.95)
        told = {"data set": self.dataset, "scenario": self.scenario, "classifier": self.classifier}
        return [{**told, **{k: v for k, v in row.items() if k not in ("true", "estimated")}} for row in scored]

    def _protocol(self, y: Any, seed: int) -> Protocol:
        s = self.sizes
        if self.scenario == "label shift":
            return Uniform(s.batch, s.batches)
        classes = rng_of(seed, "withheld", self.dataset).permutation(np.unique(y))
        return Contamination(s.batch, s.batches, withheld=classes[self.split % len(classes)], shares=SHARES)

    def _model(self, random_state: int) -> Any:
        params = dict(self.method.params)
        if self.classifier != "none":
            params["classifier"] = self.classifier
        return self.method.make(random_state=random_state, **params)


def _thinned(y: Any, rows: Any, size: int, rng: np.random.Generator) -> Any:
    """`size` of the rows, at least 30 of each class that has them, the shares of the classes otherwise kept."""
    parts = []
    for label in np.unique(y[rows]):
        mine = rows[y[rows] == label]
        n = min(len(mine), max(30, round(size * len(mine) / len(rows))))
        parts.append(rng.choice(mine, n, replace=False))
    return np.concatenate(parts)


@dataclass(frozen=True)
class Field(Experiment):
    """Every method on every data set."""

    cache: str = field(metadata={"described": False})
    sizes: Sizes
    datasets: tuple[str, ...]
    classifiers: tuple[str, ...] = ("plain",)
    methods: tuple[Method, ...] = (*WITH_CLASSIFIER, *WITHOUT)
    name: str = "field"

    def cells(self) -> list[Cell]:
        """Data sets first: a run that is stopped has finished some of them."""
        cells: list[Cell] = []
        for dataset in self.datasets:
            y = BY_NAME[dataset].load(Path(self.cache))[1]
            for scenario in SCENARIOS if len(np.unique(y)) > 2 else SCENARIOS[:1]:
                for split in range(self.sizes.splits):
                    for method in self.methods:
                        used = self.classifiers if method in WITH_CLASSIFIER else ("none",)
                        cells += [Trial(dataset, scenario, method, c, split, self.sizes, self.cache) for c in used]
        return cells


NAMES = tuple(s.name for s in SETS)


def quick(cache: str, datasets: tuple[str, ...] = NAMES) -> Plan:
    """One split, small batches, the plain classifier."""
    return Plan("quick", (Field(cache, Sizes(1000, 250, 6, 1), datasets),))


def full(cache: str, datasets: tuple[str, ...] = NAMES) -> Plan:
    """Five splits, the plain and the tuned classifier."""
    return Plan("full", (Field(cache, Sizes(3000, 500, 20, 5), datasets, ("plain", "tuned")),))


def tiny(cache: str) -> Plan:
    """For the smoke test: scikit-learn's digits and a handful of methods."""
    chosen = tuple(m for m in (*WITH_CLASSIFIER, *WITHOUT) if m.name in ("CC", "EM", "PACC", "HDx", "softRFFM"))
    return Plan("tiny", (Field(cache, Sizes(400, 80, 2, 1), ("digits",), methods=chosen),))
