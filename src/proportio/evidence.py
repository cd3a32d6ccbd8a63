"""What two sketches say about the noise of an estimate: the numbers that every error bar is made of.

    G° = G − diag(v°), F and v° those of the blocks
    α̃ = a + H(q − G°a):  a = 1/c, H = Q(QᵀG°Q)⁻¹Qᵀ (hard);  a = 0, H = G°⁻¹ (soft)
    u_Qk = H BᵀF_Qk,  u_ik = H(e_i ⟨F_ik, r⟩ − α̃_i BᵀF_ik),  r = ψ − Bα̃
    V = V̂(V̂ + V₂)⁻¹V̂ + 2 (k̄/D) (1/m² + Σ α̃_i²/n_i²) RHR estimates Cov α̃:  V̂ = Σ u uᵀ, R = I − 11ᵀ/c, k̄ the mean of ‖Φ(x)‖²

G itself has the rows' products with themselves on its diagonal, v_i too much, which pulls α̃ by −H diag(v°) α*: half a
standard error for 30 rows a class, several in the soft form. Without it α̃ is centred on α* (docs/design/0004). Where the
map has no more dimensions than there are classes P = I: then G° = G, and α̃ = M⁻¹Y for BBSE. V̂ counts the products of two
means' noises, V₂, twice, as every jackknife does (Efron and Stein). The last term, two rows anywhere, is for rare events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from proportio.blocks import Array, Blocks, projected, within
from proportio.gram import contrasts

IDENTIFIED = 0.25  # a direction whose eigenvalue of G° is below this share of the noise v along it is not identified
SYMMETRIC = ("G", "covariance", "H")
UNSEEN_ROWS = 2  # added to the noise of each mean, as Agresti and Coull add two successes: decisions that did not occur might have


@dataclass(frozen=True, eq=False)
class Evidence:
    """The unconstrained estimate α̃ and its noise: all that intervals, regions and bounds read; it travels with an `Estimate`.

    `basis` spans the directions of the feasible set that the features identify, `blind` the others. `dof` are the
    degrees of freedom of each class's variance, `dof_unknown` and `dof_region` those of the unknown share and of V as a whole.
    """

    soft: bool
    G: Array
    counts: Array
    m: float
    alpha: Array
    covariance: Array
    H: Array
    basis: Array
    blind: Array
    dof: Array
    dof_unknown: float
    dof_region: float

    @classmethod
    def of(cls, blocks: Blocks) -> Self:
        """Read the blocks once: O((c + 1)² K D)."""
        system, c = blocks.system, blocks.c
        G = system.G - np.diag(blocks.residual_noise[:c])
        directions, values, seen = _identified(blocks, G)
        L = np.ascontiguousarray(directions[:, seen])
        H = _halves(L / values[seen] @ L.T)
        centre = np.full(c, 0.0 if blocks.soft else 1 / c)
        alpha = centre + H @ (system.q - G @ centre)
        U = influences(blocks, H, alpha)
        plain = U @ U.T
        V, least = once(plain, twice(blocks.coarse, H, alpha)) if L.size else (plain, 1.0)
        sources = float(np.sum((alpha / blocks.source.tally.effective) ** 2))
        moved = H - H.mean(axis=0)  # an unseen row moves mass between the classes
        moved = moved - moved.mean(axis=1)[:, None]
        unseen = UNSEEN_ROWS * blocks.spread_of_a_row * (1 / blocks.target.tally.effective[0] ** 2 + sources) * moved
        return cls(
            soft=blocks.soft,
            G=system.G,
            counts=blocks.source.tally.effective,
            m=float(blocks.target.tally.effective[0]),
            alpha=alpha,
            covariance=_halves(V + unseen),
            H=H,
            basis=_feasible(c, blocks.soft) if seen.all() else L,
            blind=np.ascontiguousarray(directions[:, ~seen]),
            dof=satterthwaite(blocks, U) * _kept(np.diag(V), np.diag(plain)) ** 2,
            dof_unknown=float(satterthwaite(blocks, U.sum(axis=0)) * _kept(V.sum(), plain.sum()) ** 2),
            dof_region=_dof_region(blocks, L.T @ U) * least**2,
        )

    @classmethod
    def of_draws(cls, alpha: Array, draws: Array, rows: Sequence[float]) -> Self:
        """Where there are no block sums: V is the covariance of bootstrap `draws` (B, c) of α̃.

        `rows` are the effective numbers of each class and of the batch. There is no Gram matrix: bounds and the label-shift test
        need the block sums.
        """
        c, dof = len(alpha), float(len(draws) - 1)
        return cls(
            soft=False,
            G=np.zeros((c, c)),
            counts=np.asarray(rows[:c], dtype=np.float64),
            m=float(rows[c]),
            alpha=alpha,
            covariance=np.cov(draws.T),
            H=np.zeros((c, c)),
            basis=contrasts(c),
            blind=np.empty((c, 0)),
            dof=np.full(c, dof),
            dof_unknown=dof,
            dof_region=dof,
        )

    @property
    def c(self) -> int:
        """The number of classes."""
        return len(self.alpha)

    @property
    def rank(self) -> int:
        """The dimension of V within the identified directions: less than theirs where decisions always sum to one."""
        values = np.linalg.eigvalsh(self.basis.T @ self.covariance @ self.basis)
        return int((values > 1e-12 * values.max(initial=0.0)).sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, symmetric matrices as lower triangles, and no basis where all is identified; see `from_dict`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values |= {name: [row[: i + 1] for i, row in enumerate(values[name])] for name in SYMMETRIC}
        if not self.blind.size:
            values["basis"] = None
        return {k: _plain(v) for k, v in values.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`; of whole matrices, which schema 1 had, too."""
        c = len(data["alpha"])
        values: dict[str, Any] = {}
        for f in fields(cls):
            v = data[f.name]
            values[f.name] = (
                _symmetric(v, c)
                if f.name in SYMMETRIC
                else np.asarray(v, dtype=np.float64)
                if isinstance(v, list)
                else v
            )
        if values["basis"] is None:
            values["basis"] = _feasible(c, values["soft"])
        for name in ("basis", "blind"):
            values[name] = values[name].reshape(c, -1) if values[name].size else np.empty((c, 0))
        if not _of_classes(values, c):
            raise ValueError(f"its evidence is not that of {c} classes")
        return cls(**values)


def _feasible(c: int, soft: bool) -> Array:
    """A basis of the directions in which shares may move."""
    return np.eye(c) if soft else contrasts(c)


def _of_classes(values: Mapping[str, Any], c: int) -> bool:
    """Whether everything is finite, and has the shape that c classes give it."""
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("m", "dof_unknown", "dof_region"), ())
    shapes |= dict.fromkeys(("counts", "alpha", "dof"), (c,)) | dict.fromkeys(SYMMETRIC, (c, c))
    shaped = all(np.shape(values[name]) == shape for name, shape in shapes.items())
    return shaped and all(np.isfinite(v).all() for v in values.values())


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _halves(matrix: Array) -> Array:
    """(M + Mᵀ)/2: symmetric to the last bit, as its lower triangle is read back."""
    return np.asarray((matrix + matrix.T) / 2)


def _symmetric(rows: Any, c: int) -> Array:
    """The matrix of a lower triangle, or of a whole one by its lower half."""
    if len(rows) != c:
        raise ValueError(f"{len(rows)} rows of a matrix of {c}")
    out = np.zeros((c, c))
    for i, row in enumerate(rows):
        out[i, : i + 1] = out[: i + 1, i] = row[: i + 1]
    return out


def influences(blocks: Blocks, H: Array, alpha: Array) -> Array:
    """u_n of every cell, (c, N)."""
    c, group, n = blocks.c, blocks.group, int(blocks.starts[-1])
    X = blocks.along
    inner = X[:c] * np.append(-alpha, 1.0)[group]
    inner[group[:n], np.arange(n)] += (X[c] - alpha @ X[:c])[:n]
    return np.asarray(H @ inner)


def twice(blocks: Blocks, H: Array, alpha: Array) -> Array:
    """V₂ = H [diag(Tw²) + wwᵀ∘T] H, T_gh = tr (I − P)S_g(I − P)S_h, w = (−α̃, 1): the noise that U Uᵀ counts twice."""
    c, weight = blocks.c, np.append(-alpha, 1.0)
    factors = projected(blocks, H, np.ones(c + 1))
    T = blocks.summed(blocks.summed(factors**2).T).astype(np.float64)
    for g in range(c + 1):
        cells = blocks.of_group(g)
        T[g, g] = within(factors[cells, cells].astype(np.float64), blocks.shares[cells])
    inner = np.diag((T @ weight**2)[:c]) + np.outer(weight, weight)[:c, :c] * T[:c, :c]
    return np.asarray(H @ inner @ H)


def once(V: Array, V2: Array) -> tuple[Array, float]:
    """V(V + V₂)⁻¹V, which is V − V₂ where V₂ is small and never indefinite, and the least share of V that is left."""
    values, vectors = np.linalg.eigh(V)
    real = values > 1e-12 * values.max(initial=0.0)
    if not real.any():
        return V, 1.0
    root, inverse = vectors[:, real] * np.sqrt(values[real]), vectors[:, real] / np.sqrt(values[real])
    kept = np.linalg.inv(np.eye(int(real.sum())) + inverse.T @ V2 @ inverse)
    out = root @ kept @ root.T
    return (out + out.T) / 2, float(np.linalg.eigvalsh(kept)[0])


def satterthwaite(blocks: Blocks, u: Array) -> Array:
    """Degrees of freedom ν = 2v²/Var v̂ of the variance v = Σ u_n² along the last axis, a sum over groups v_g.

    Var v̂_g is 2v_g²/ν_g for normal block sums, or Σ_k u_gk⁴ − v_g²/K_g if that is more: where all noise comes from x rare events
    (decisions of a good classifier), it leaves ν = 2x, not 63.
    """
    v = blocks.summed(u**2)
    dof = np.where(blocks.dof > 0, blocks.dof, np.inf)
    spread = np.maximum(2 * v**2 / dof, blocks.summed(u**4) - v**2 / (dof + 1)).sum(axis=-1)
    total = 2 * v.sum(axis=-1) ** 2
    return np.asarray(np.divide(total, spread, out=np.full(np.shape(total), blocks.dof.sum()), where=spread > 0))


def _kept(after: Any, before: Any) -> Array:
    """The share of variances that is left; what is subtracted takes degrees of freedom away, as its square."""
    return np.asarray(np.divide(after, before, out=np.ones(np.shape(before)), where=before > 1e-300))


def _identified(blocks: Blocks, G: Array) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Eigenvectors of G° within the feasible set, its eigenvalues, and which of them stand out of the noise."""
    free = _feasible(blocks.c, blocks.soft)
    values, vectors = np.linalg.eigh(free.T @ G @ free)
    directions = free @ vectors
    noise = (directions**2 * blocks.noise[: blocks.c, None]).sum(axis=0)
    seen = values > np.maximum(IDENTIFIED * noise, 1e-9 * np.diag(blocks.system.G).max())
    if (blocks.dof <= 0).any():  # a class or a batch whose noise cannot be told
        seen[:] = False
    return directions, values, seen


def _dof_region(blocks: Blocks, Y: Array) -> float:
    """(p + p²) / Σ_g Var W_g, W_g = V_g V⁺, of Krishnamoorthy and Yu (2004); Y are the influences in coordinates.

    Var W_g is [tr W_g² + (tr W_g)²]/ν_g for normal block sums, or Σ_k ‖z_gk‖⁴ − tr W_g²/K_g of the whitened z if that is more.
    """
    values, vectors = np.linalg.eigh(Y @ Y.T)
    real = values > 1e-12 * values.max(initial=0.0)
    if not real.any() or (blocks.dof <= 0).any():
        return float(blocks.dof.sum())
    Z = (vectors[:, real] / np.sqrt(values[real])).T @ Y
    p, spread = int(real.sum()), 0.0
    for g, dof in enumerate(blocks.dof):
        z = Z[:, blocks.of_group(g)]
        inner = z.T @ z  # tr W_g² and tr W_g are those of the small matrix
        squares, lengths = float((inner**2).sum()), np.diag(inner)
        spread += max((squares + lengths.sum() ** 2) / dof, float((lengths**2).sum()) - squares / (dof + 1))
    return float((p + p * p) / spread)
