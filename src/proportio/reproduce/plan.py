"""The paper as a plan: every experiment with its methods, noises and grid. Copy one and change it to add your own.

    from dataclasses import replace
    from proportio.reproduce import Method, full, run

    grid = full().experiments[1]
    mine = Method("mine", MyQuantifier, {"depth": 3})          # anything with fit(X, y) and predict(X)
    run(replace(full(), experiments=(replace(grid, companions=(mine,)),)), "out")

What was computed before, under the same description, is not computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from proportio.features import FeatureMap, Posterior
from proportio.gram import delta_min
from proportio.kernels import Energy, Kernel
from proportio.kmm import KMM
from proportio.methods import BBSE, DFM, RFFM
from proportio.quantifier import Array, Labels
from proportio.reproduce.bounds import Bounds
from proportio.reproduce.cells import Experiment, Method, Noise
from proportio.reproduce.fourier import Fourier
from proportio.reproduce.hipc import Hipc
from proportio.reproduce.robustness import Pictures, Robustness, Sizes
from proportio.reproduce.sigma import Sigma
from proportio.reproduce.speed import Speed
from proportio.reproduce.worlds import background, far, middle
from proportio.sources import Floats

DELTA_MIN = {"criterion": "delta_min"}  # the paper's choice of σ


@dataclass(frozen=True)
class Plan:
    """Experiments and the seed that all their random numbers follow from."""

    name: str
    experiments: tuple[Experiment, ...]
    seed: int = 0


def soft_posterior(random_state: int = 0, n_jobs: int | None = None) -> DFM:
    """Soft matching of cross-fitted posteriors."""
    return DFM(Posterior(), soft=True, random_state=random_state, n_jobs=n_jobs)


class LiteralRFFM(RFFM):
    """softRFFM with σ where Δ_min of the empirical Gram matrix itself is largest, each row's product with itself included.

    The paper's criterion to the letter; `criterion="delta_min"` leaves these products out (they favour small σ).
    """

    def __init__(self, random_state: int = 0, n_jobs: int | None = None) -> None:
        super().__init__(soft=True, criterion="delta_min", random_state=random_state, n_jobs=n_jobs)

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        phi = super()._template(X, y, weights)
        fixed = {"random_state": self.random_state, "n_jobs": self.n_jobs}
        sigmas = self.bandwidth_curve_.sigmas.tolist()
        values = [delta_min(RFFM(bandwidth=sigma, **fixed).fit(X, y).gram_) for sigma in sigmas]
        phi.set_params(bandwidth=sigmas[int(np.argmax(values))])
        return phi


def tree(random_state: int = 0, n_jobs: int | None = None) -> BBSE:
    """softBBSE+ with a decision tree."""
    return BBSE(DecisionTreeClassifier(min_samples_leaf=5, random_state=0), soft=True, random_state=random_state)


def naive_bayes(random_state: int = 0, n_jobs: int | None = None) -> BBSE:
    """softBBSE+ with Gaussian naive Bayes."""
    return BBSE(GaussianNB(), soft=True, random_state=random_state)


class CornerEnergy(KMM):
    """softEnergy with its origin, the point where the dummy class sits, at the corner of the data instead of their mean."""

    def _settle(self, X: Floats, y: Labels, weights: Array | None, mean: Array) -> Kernel:
        corner = (X.min(axis=0) - self.center_) / self.scale_
        return Energy(tuple(corner.tolist()))


NOISES = (Noise("background", background), Noise("far class", far), Noise("middle class", middle))

PAPER = (
    Method("RFFM", RFFM, DELTA_MIN),
    Method("softRFFM", RFFM, {**DELTA_MIN, "soft": True}),
    Method("softEnergy", KMM, {"kernel": "energy", "approx": "exact", "soft": True}),
    Method("softBBSE+", BBSE, {"soft": True}),
)

HALVED = Method("softRFFM, σ/2", RFFM, {**DELTA_MIN, "soft": True}, factor=0.5)

LITERAL = Method("softRFFM, σ by V", LiteralRFFM)
POSTERIORS = Method("soft posteriors", soft_posterior)

COMPANIONS = (
    Method("exact softKMM", KMM, {**DELTA_MIN, "kernel": "gaussian", "soft": True}),
    POSTERIORS,
    HALVED,
    LITERAL,
    Method("softRFFM, σ by error", RFFM, {"criterion": "error", "soft": True}),
    Method("softEnergy, corner", CornerEnergy, {"kernel": "energy", "approx": "exact", "soft": True}),
    *(
        Method(f"softRFFM, {kind}", RFFM, {**DELTA_MIN, "soft": True, "kind": kind})
        for kind in ("iid", "qmc", "structured", "cos-bias")
    ),
    *(Method(f"softRFFM, D = {D}", RFFM, {**DELTA_MIN, "soft": True, "n_features": D}) for D in (100, 300, 4000)),
)

CELLS = (
    POSTERIORS,
    HALVED,
    LITERAL,
    Method("softBBSE+, tree", tree),
    Method("softBBSE+, naive Bayes", naive_bayes),
    Method("softEnergy, raw columns", KMM, {"kernel": "energy", "approx": "exact", "soft": True, "standardize": False}),
)

FIXED = Method("RFFM", RFFM, {"bandwidth": 1.0})
CHOSEN = Method("RFFM, σ chosen", RFFM, DELTA_MIN)
PAIRWISE = Method("exact KMM", KMM, {"kernel": "gaussian", "bandwidth": 1.0})


def full(hipc: str | None = None) -> Plan:
    """The paper's sizes; `hipc` is the directory of the cells, without which that figure is left out."""
    cytometry = Hipc((*PAPER, *CELLS), hipc or "")
    grid = Robustness(PAPER, NOISES, COMPANIONS)
    experiments = (
        Pictures(NOISES),
        grid,
        *([cytometry] if hipc else []),
        Bounds(NOISES),
        Fourier(),
        Sigma(NOISES),
        Speed((FIXED, CHOSEN), (PAIRWISE,)),
    )
    return Plan("full", experiments)


def quick(hipc: str | None = None) -> Plan:
    """The same experiments in minutes: fewer repetitions, dimensions and rows."""
    smaller: dict[str, dict[str, object]] = {
        "robustness": {"dims": (2, 5, 10), "repetitions": 5, "companion_dims": (5,)},
        "hipc": {"at_most": 10_000},
        "bounds": {"sizes": (1_000, 10_000, 100_000), "repetitions": 5},
        "fourier": {"n_features": (16, 64, 256, 1024), "draws": 10, "rows_a_class": 400},
        "bandwidth": {"repetitions": 3},
        "speed": {"sizes": (50_000, 500_000), "exact_sizes": (10_000, 20_000), "repeats": 3},
    }
    plan = full(hipc)
    return Plan("quick", tuple(replace(e, **smaller.get(e.name, {})) for e in plan.experiments))  # type: ignore[type-var]


__all__ = ["COMPANIONS", "NOISES", "PAPER", "Plan", "Sizes", "full", "quick"]
