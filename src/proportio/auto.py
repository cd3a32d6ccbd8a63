"""One default for clean and contaminated batches: Φ = (√½ Typical, √½ RFF), and how much to reject by what the batch shows.

    Φ_ρ(x) = √½ (e_{f(x)} 1{p(x) > ρ},  √(2/D) [cos ωᵀz, sin ωᵀz]),   ω ~ N(0, (σ/2)⁻²I), σ by Δ_min
    ρ̂ = the largest ρ of the levels with ρ ≤ 3/2 α̂_0(ρ_min), at least ρ_min

Decisions are exact on what the classes know, Fourier features of half the paper's bandwidth see what they do not, and
rejection keeps what fits no class out of both. Rejecting more costs accuracy where the classes themselves look a little different
in the batch, and pays where much of it is unknown: so that familiar rows are given up in proportion to the strange ones there are
(docs/design/0007 has the alternatives and their numbers).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from proportio.bandwidth import choose
from proportio.estimate import Estimate
from proportio.features import RandomFourier, Stack, Typical
from proportio.features.base import CHUNK, FeatureMap
from proportio.features.typical import REJECTS
from proportio.gram import GramSystem
from proportio.methods import DFM
from proportio.quantifier import Array, Labels, Quantifier
from proportio.simplex import solve
from proportio.sketch import BlockSketch, Sketch
from proportio.sources import Floats, OnMissing

GIVEN_UP = 1.5  # familiar rows rejected for each unknown one, at most
FINER = 0.5  # of the bandwidth that Δ_min prefers: unlike it, contamination asks for a local kernel


class AutoDFM(DFM):
    """The default: accurate where all classes are known, robust where one is not; no choice to make.

    Soft matching of decisions that count only where a row is typical of its class, beside random Fourier features. All is
    learned from the reference; only the level of rejection, one of `rejects`, follows the batch.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> batch = np.concatenate([X[400:], rng.normal(size=(150, 2)) + [-4, 6]])  # a fifth from elsewhere
    >>> est = pp.AutoDFM().fit(X, y).estimate(batch)
    >>> est.proportions.round(1).tolist(), round(est.unknown, 1)
    ([0.1, 0.7], 0.2)
    """

    def __init__(
        self,
        classifier: Any = None,
        n_features: int = 1000,
        *,
        rejects: Sequence[float] = REJECTS,
        cv: int = 5,
        soft: bool = True,
        positive: bool = True,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.n_features = n_features
        self.rejects = rejects
        self.cv = cv
        self.soft = soft
        self.positive = positive
        self.on_missing = on_missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None, sample_weight: Any = None) -> Self:
        """Add a batch of labelled rows. The first trains the classifier and needs `classes`; later ones embed as a batch does."""
        Quantifier.partial_fit(self, X, y, classes, sample_weight)
        self._end_training()
        return self

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        fourier = RandomFourier(self.n_features, random_state=self.random_state)
        self.bandwidth_curve_ = choose(
            X,
            y,
            weights,
            fourier,
            criterion="delta_min",
            soft=self.soft,
            random_state=self.random_state,
            n_jobs=self.n_jobs,
        )
        fourier.set_params(bandwidth=FINER * self.bandwidth_curve_.chosen)
        typical = Typical(self.classifier, rejects=self.rejects, cv=self.cv, random_state=self.random_state)
        return Stack([typical, fourier])

    @property
    def bandwidth_(self) -> float | None:
        return self._parts()[1].sigma

    def _method_name(self) -> str:
        return "AutoDFM" if self.soft else "hard AutoDFM"

    def _parts(self) -> tuple[Typical, FeatureMap, float]:
        """The two maps, and the weight of the first."""
        stack = cast("Stack", self.features_)
        return cast("Typical", stack.maps_[0]), stack.maps_[1], float(stack.weights_[0])

    def _aligned(self, target: Sketch) -> tuple[Sketch, Sketch, Array]:
        level = self._level(target) if self.soft else 1
        if level == 1:
            return self.sketch_, target, self.gram_
        source, batch = self._at(self.sketch_, level), self._at(target, level)
        return source, batch, source.products(source)

    def _level(self, target: Sketch) -> int:
        """The position of ρ̂ among 0 and `rejects`."""
        known = float(solve(GramSystem.of(self.sketch_, target, self.gram_), soft=True).alpha.sum())
        return max(1, int(np.searchsorted(self._parts()[0].rejects, GIVEN_UP * (1 - known), side="right")))

    def _at(self, sketch: Sketch, level: int) -> BlockSketch:
        """The same sums with another ρ: its features, which are 0 or 1 a row, count in the place of the first's."""
        assert isinstance(sketch, BlockSketch)
        typical, _, weight = self._parts()
        first, chosen = typical.columns_at(1), typical.columns_at(level)
        amplitude = sketch.amplitude.copy()
        amplitude[first], amplitude[chosen] = 0, np.sqrt(weight)
        lost = sketch.sums[:, :, first].sum(axis=2) - sketch.sums[:, :, chosen].sum(axis=2)
        tally = sketch.tally
        share = np.divide(lost, tally.weight, out=np.zeros_like(lost), where=tally.weight > 0)
        norm2 = tally.norm2 - weight * tally.weight2 * share
        return replace(sketch, amplitude=amplitude, tally=replace(tally, norm2=norm2))

    def _unexplained(self, rows: Floats, similarity: Array, target: Sketch) -> Array:
        """1 − Σ α̂_i P_i(A)/Q(A) of the cell A of each row: its decision, and how typical it is of it."""
        source, batch, G = self._aligned(target)
        alpha = solve(GramSystem.of(source, batch, G), soft=True).alpha
        known, seen = alpha @ self._cells(self.sketch_), self._cells(target)[0]
        score = np.clip(1 - np.divide(known, seen, out=np.ones_like(seen), where=seen > 0), 0, 1)
        typical = self._parts()[0]
        parts = (slice(i, i + CHUNK) for i in range(0, len(rows), CHUNK))
        return np.concatenate(
            [typical.cells(np.asarray(typical._raw(rows[p], self.n_jobs), dtype=np.float64)) @ score for p in parts]
        )

    def _cells(self, sketch: Sketch) -> Array:
        """The share of each group in each cell, (groups, cells)."""
        assert isinstance(sketch, BlockSketch)
        typical = self._parts()[0]
        levels = sketch.sums.sum(axis=1)[:, : typical.dim] / sketch.tally.totals[:, None]
        return typical.cells(levels)


def quantify(X: Any, y: Any, batch: Any, **options: Any) -> Estimate:
    """The shares of the classes in `batch`, from labelled reference rows X, y: `AutoDFM(**options)` fitted and asked.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> pp.quantify(X, y, X[400:]).proportions.round(1).tolist()
    [0.2, 0.8]
    """
    return AutoDFM(**options).fit(X, y).estimate(batch)
