"""What random Fourier features cost in accuracy: against D, the kind of frequency, and the exact kernel (§4.1, appendix D).

At one bandwidth, over draws of the frequencies: the kernel's error |⟨Φ(x), Φ(y)⟩ − k(x, y)|, and how far the shares move
from those of the exact kernel, ‖α̂_D − α̂_∞‖₂.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proportio.features import RandomFourier
from proportio.features.fourier import Kind
from proportio.kernels import Gaussian
from proportio.kmm import KMM
from proportio.methods import RFFM
from proportio.reproduce.cells import Cell, Experiment, Row
from proportio.reproduce.describe import rng_of, seed_of
from proportio.reproduce.worlds import apportion, gaussians

PAIRS = 500


@dataclass(frozen=True)
class FourierCell(Cell):
    """One kind and one D, over `draws` of the frequencies."""

    kind: Kind
    n_features: int
    d: int
    draws: int
    rows_a_class: int
    experiment: str = "fourier"

    @property
    def label(self) -> str:
        return f"{self.kind}, D = {self.n_features}, d = {self.d}"

    def rows(self, seed: int) -> list[Row]:
        rng = rng_of(seed, "fourier", self.d, self.rows_a_class)
        world = gaussians(rng, 5, self.d, cube=3.0, apart=2.0)
        X, y = world.rows(rng, [self.rows_a_class] * 5)
        batch, _ = world.rows(rng, apportion(world.shares, 5 * self.rows_a_class))
        sigma = RandomFourier(2).fit(X).sigma_ / 2
        exact = KMM("gaussian", sigma, n_jobs=1).fit(X, y)
        answer = exact.predict(batch)
        kept = rng.choice(len(X), (2, PAIRS))
        Z = (X - exact.center_) / exact.scale_
        kernel = np.diag(Gaussian(sigma).value(Z[kept[0]], Z[kept[1]]))
        out: list[Row] = []
        for k in range(self.draws):
            state = seed_of(seed, "frequencies", self.kind, self.n_features, self.d, k)
            model = RFFM(self.n_features, sigma, kind=self.kind, random_state=state, n_jobs=1).fit(X, y)
            alpha = model.predict(batch)
            features = model.features_.embed(X, 1)
            approximate = (features[kept[0]] * features[kept[1]]).sum(axis=1)
            out.append(
                {
                    "kind": self.kind,
                    "n_features": self.n_features,
                    "d": self.d,
                    "draw": k,
                    "kernel_error": float(np.sqrt(np.mean(np.square(approximate - kernel)))),
                    "distance_to_exact": float(np.linalg.norm(alpha - answer)),
                    "error": float(np.linalg.norm(alpha - world.shares)),
                    "error_exact": float(np.linalg.norm(answer - world.shares)),
                }
            )
        return out


@dataclass(frozen=True)
class Fourier(Experiment):
    """Every kind at every D."""

    kinds: tuple[Kind, ...] = ("iid", "orthogonal", "qmc", "structured", "cos-bias")
    n_features: tuple[int, ...] = (16, 64, 256, 1024, 4096)
    dims: tuple[int, ...] = (2, 5, 10)
    draws: int = 20
    rows_a_class: int = 1_000
    name: str = "fourier"

    def cells(self) -> list[Cell]:
        return [
            FourierCell(k, D, d, self.draws, self.rows_a_class, self.name)
            for d in self.dims
            for D in self.n_features
            for k in self.kinds
        ]
