"""The block factors of two sketches: what the scatter of blocks tells of the noise of every mean, by inner products alone.

    F_gk = (S_gk/W_g − p_gk Φ̂_g)/√(1 − Σ_k p_gk²),  p_gk = W_gk/W_g:      Σ_k F_gk F_gkᵀ estimates S_g = Cov Φ̂_g
    v_g = tr S_g,  v°_g = tr (I − P) S_g,  P the projector onto the span of BQ (hard) or B (soft)

Groups g are the c classes, then the batch; N is the number of all cells. Nothing here asks whether Φ is finite.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.gram import GramSystem, contrasts, unbiased
from proportio.sketch import BlockSketch, Sketch

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The block factors of a reference and a batch, by their inner products. Groups are the c classes, then the batch."""

    source: Sketch
    target: Sketch
    system: GramSystem
    soft: bool

    @property
    def c(self) -> int:
        """The number of classes."""
        return len(self.system.q)

    @functools.cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first cell of each group."""
        return np.arange(self.c + 1) * self.source.n_blocks

    @functools.cached_property
    def group(self) -> npt.NDArray[np.int64]:
        """The group of each cell."""
        return np.repeat(np.arange(self.c + 1), [*[self.source.n_blocks] * self.c, self.target.n_blocks])

    def of_group(self, g: int) -> slice:
        """The cells of one group."""
        return slice(self.starts[g], self.starts[g + 1] if g < self.c else None)

    @functools.cached_property
    def shares(self) -> Array:
        """p_gk of each cell."""
        return np.concatenate([(s.tally.weight / s.tally.totals[:, None]).ravel() for s in (self.source, self.target)])

    @functools.cached_property
    def dof(self) -> Array:
        """1/Σ_k p_gk² − 1, the degrees of freedom of each group's covariance; 0 where all its rows are in one block."""
        dof = 1 / np.add.reduceat(self.shares**2, self.starts) - 1
        return np.where(dof < 1e-9, 0.0, dof)

    @functools.cached_property
    def noise(self) -> Array:
        """v_g = tr Cov Φ̂_g from the rows' own products: what G and s have on the diagonal beyond their unbiased forms."""
        parts = ((self.system.G, self.source.tally), (np.array([[self.system.s]]), self.target.tally))
        bias = np.concatenate([np.diag(G) - np.diag(unbiased(G, tally)) for G, tally in parts])
        return np.asarray(np.where(np.isfinite(bias), np.maximum(bias, 0), 0.0))

    @functools.cached_property
    def _means_by_cell(self) -> Array:
        """⟨Φ̂_a, S_n⟩/W_g of every group mean and cell, (c + 1, N)."""
        both = (self.source, self.target)
        rows = [np.hstack([a.mean_products(b).reshape(a.n_groups, -1) for b in both]) for a in both]
        return np.asarray(np.vstack(rows) / self._totals)

    @functools.cached_property
    def along(self) -> Array:
        """⟨Φ̂_a, F_n⟩ of every group mean and cell, (c + 1, N)."""
        return self._centred(self._means_by_cell)

    @functools.cached_property
    def lengths(self) -> Array:
        """‖F_n‖² of every cell."""
        norms = np.concatenate([s.block_norms().ravel() for s in (self.source, self.target)]) / self._totals**2
        own = self._means_by_cell[self.group, np.arange(len(self.group))]
        means = np.append(np.diag(self.system.G), self.system.s)[self.group]
        p = self.shares
        return np.asarray(np.maximum(norms - 2 * p * own + p * p * means, 0) / self._room)

    @functools.cached_property
    def gram(self) -> Single:
        """⟨F_n, F_m⟩ of all cells, (N, N), to six digits, which is more than squares of noise are known to."""
        if isinstance(self.source, BlockSketch) and isinstance(self.target, BlockSketch):
            F = np.empty((len(self.group), self.source.sums.shape[2]), dtype=np.float32)
            for g, S in enumerate((*self.source.sums, *self.target.sums)):
                cells = self.of_group(g)
                scale = self.source.amplitude / (self._totals[cells][0] * np.sqrt(self._room[cells][0]))
                F[cells] = (S - self.shares[cells, None] * S.sum(axis=0)) * scale
            return np.asarray(F @ F.T)
        n, k = int(self.starts[-1]), self.target.n_blocks
        cross = self.source.block_products(self.target).reshape(n, k)
        own = self.source.block_products(self.source).reshape(n, n)
        batch = self.target.block_products(self.target).reshape(k, k)
        raw = np.block([[own, cross], [cross.T, batch]]) / self._totals / self._totals[:, None]
        out = self._centred(self._centred(raw).T)
        return np.asarray((out + out.T) / 2, dtype=np.float32)

    @functools.cached_property
    def _totals(self) -> Array:
        """W_g of each cell's group."""
        return np.append(self.source.tally.totals, self.target.tally.totals)[self.group]

    @functools.cached_property
    def _room(self) -> Array:
        """1 − Σ_k p_gk² of each cell's group; 1 where nothing can be told."""
        room = self.dof / (self.dof + 1)
        return np.where(room > 0, room, 1.0)[self.group]

    def _centred(self, raw: Array) -> Array:
        """Products with S_n/W_g, one column a cell, as products with F_n."""
        return np.asarray((raw - self.shares * self.summed(raw)[:, self.group]) / np.sqrt(self._room))

    @functools.cached_property
    def residual_noise(self) -> Array:
        """v°_g = tr (I − P) Cov Φ̂_g: the part of each mean's noise that no shares can imitate."""
        free = np.eye(self.c) if self.soft else contrasts(self.c)
        return self.beyond(free @ np.linalg.pinv(free.T @ self.system.G @ free, rcond=1e-9, hermitian=True) @ free.T)

    def beyond(self, H: Array) -> Array:
        """v_g without its part along the classes, which is the share tr HBᵀCov(Φ̂_g)B / tr Cov Φ̂_g that the blocks show."""
        X = self.along[: self.c]
        whole = self.summed(self.lengths)
        inside = np.divide(self.summed((X * (H @ X)).sum(axis=0)), whole, out=np.ones_like(whole), where=whole > 0)
        return np.where(inside < 1 - 1e-9, (1 - inside) * self.noise, 0.0)

    @property
    def spread_of_a_row(self) -> float:
        """Mean ‖Φ(x)‖²/D: the variance along any direction of a row that might fall anywhere; 0 for exact kernels."""
        tally = self.source.tally
        return float(tally.norm2.sum() / tally.weight2.sum() / self.source.dim)

    @functools.cached_property
    def summing(self) -> Blocks:
        """The same for shares that sum to one; the products that both forms share are computed once."""
        if not self.soft:
            return self
        self.gram, self.along, self.lengths  # noqa: B018  # remembered
        out = replace(self, soft=False)
        of_the_form = ("soft", "residual_noise", "coarse")
        out.__dict__.update({name: v for name, v in self.__dict__.items() if name not in of_the_form})
        return out

    @functools.cached_property
    def coarse(self) -> Blocks:
        """The same in fewer blocks; itself where its sketches have few."""
        source, target = self.source.coarse, self.target.coarse
        same = source is self.source and target is self.target
        return self if same else Blocks(source, target, self.system, self.soft)

    def summed(self, values: npt.NDArray[Any]) -> Array:
        """Sums over the cells of each group, along the last axis."""
        return np.asarray(np.add.reduceat(values, self.starts, axis=-1))


def projected(blocks: Blocks, H: Array, weight: Array) -> Single:
    """⟨(I − P)F_n, (I − P)F_m⟩ w_g w_h of all cells, P = BHBᵀ, with a weight for each class and for the batch."""
    X, w = blocks.along[: blocks.c], weight[blocks.group].astype(np.float32)
    out = blocks.gram - X.T.astype(np.float32) @ (H @ X).astype(np.float32)
    out *= w
    out *= w[:, None]
    return out


def within(factors: Array, p: Array) -> float:
    """tr S_g² from Γ of one group: E Γ_kl² = M_kl² (tr S)² + (M_kl² + M_kk M_ll) tr S², M = (diag p − ppᵀ)/(1 − Σp²)."""
    own, room = np.diag(factors), 1 - np.sum(p * p)
    if room < 1e-9:  # all rows in one block
        return 0.0
    m = p * (1 - p) / room
    off = float((factors**2).sum() - (own**2).sum())
    shared = float(np.sum(p * p) ** 2 - np.sum(p**4)) / room**2  # Σ M_kl² of different blocks
    apart = float(m.sum() ** 2 - (m**2).sum()) + shared
    return max((off - shared * float(own.sum()) ** 2) / apart, 0.0)
