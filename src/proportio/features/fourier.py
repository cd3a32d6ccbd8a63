"""Random Fourier features: Φ(x) = √(2/D) [cos ω_jᵀz, sin ω_jᵀz], j ≤ D/2, z the standardised row (appendix D, eq. rff).

⟨Φ(x), Φ(y)⟩ approximates a radial kernel whose spectral law the frequencies ω follow, with ‖Φ(x)‖ = 1 exactly.
Every kind keeps that law for each single ω (structured: up to about 1e-3 of the kernel's value), so the kernel is
approximated without bias; they differ in the noise (docs/design/0002):

    iid         independent frequencies
    orthogonal  directions orthogonal within each group of d
    qmc         a scrambled Sobol sequence in d + 1 dimensions
    structured  diag(r)·H·diag(±1)·H·diag(±1)·H·diag(±1), H the Walsh-Hadamard transform: orthogonal in O(log d) a frequency
    cos-bias    √(2/D) cos(ωᵀz + b), the paper's second form (eq. rff2): C = √2 and never a lower variance
    auto        structured for 64 columns and more, where it is faster and as accurate; else orthogonal
"""

from __future__ import annotations

from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from proportio._compiled.fourier import fourier_features, fourier_sums
from proportio._compiled.hadamard import hadamard_features, hadamard_sums
from proportio.errors import InputError
from proportio.features.base import Array, Cells, FeatureMap, check_parts, is_count
from proportio.kernels import Gaussian, Laplace
from proportio.scaling import check_bandwidth, median_distance, moments
from proportio.sources import Floats
from proportio.storage import Arrays

Kind: TypeAlias = Literal["auto", "orthogonal", "iid", "qmc", "structured", "cos-bias"]
STRUCTURED_FROM = 64  # columns from which "auto" takes the structured kind (docs/design/0002)
KERNELS: dict[str, type[Gaussian] | type[Laplace]] = {"gaussian": Gaussian, "laplace": Laplace}


class RandomFourier(FeatureMap):
    """Φ(x) = √(2/D) [cos ω_jᵀz, sin ω_jᵀz] for j ≤ D/2, ω_j ~ the spectral law of the kernel at bandwidth σ.

    `bandwidth` is in units of the standardised columns (of the columns themselves with `standardize=False`);
    "median" takes the median distance between source rows. The phases are computed in float32 to about 1e-6.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> phi = RandomFourier(n_features=2000, bandwidth=1.0, standardize=False).fit(X)
    >>> P = phi.transform(X[:2])
    >>> exact = np.exp(-((X[0] - X[1]) ** 2).sum() / 2)
    >>> bool(abs(P[0] @ P[1] - exact) < 0.05), round(float(P[0] @ P[0]), 6)
    (True, 1.0)
    """

    def __init__(
        self,
        n_features: int = 1000,
        bandwidth: float | Literal["median"] = "median",
        *,
        kernel: Literal["gaussian", "laplace"] = "gaussian",
        kind: Kind = "auto",
        standardize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.kind = kind
        self.standardize = standardize
        self.random_state = random_state

    @property
    def _paired(self) -> bool:
        """A cosine and a sine for each frequency, so that ‖Φ(x)‖ = 1."""
        return self.kind != "cos-bias"

    def _settled(self, d: int) -> Kind:
        """The kind that "auto" stands for at d columns."""
        if self.kind != "auto":
            return self.kind
        return "structured" if d >= STRUCTURED_FROM else "orthogonal"

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        self._check_parameters()
        rng = np.random.default_rng(self.random_state)
        d = X.shape[1]
        self.center_, self.scale_ = moments(X, weights) if self.standardize else (np.zeros(d), np.ones(d))
        unit = draw(self._settled(d), KERNELS[self.kernel](1.0), d, self._n_frequencies, rng)
        bandwidth = self.bandwidth
        if isinstance(bandwidth, str) and bandwidth == "median":
            bandwidth = median_distance(X, self.scale_, rng)
        self._set(unit, bandwidth)

    def with_bandwidth(self, sigma: float) -> RandomFourier:
        """The same frequencies ω = z/σ at another σ (common random numbers), for a fitted map."""
        other = RandomFourier(**{**self.get_params(deep=False), "bandwidth": sigma})
        other.columns_, other.center_, other.scale_ = self.columns_, self.center_, self.scale_
        other._set(self.unit_, sigma)
        return other

    def _set(self, unit: Arrays, sigma: float) -> None:
        """Fix σ: frequencies in turns (ω/2π) of the centred columns, amplitude and bound."""
        self.unit_ = unit
        self.sigma_ = check_bandwidth(sigma)
        self.amplitude_ = np.full(self.n_features, np.sqrt(2 / self.n_features))
        self.bound_ = 1.0 if self._paired else float(np.sqrt(2))
        turn = 1 / (2 * np.pi * self.sigma_)
        if "signs" in unit:
            signs = unit["signs"].astype(np.float32)
            signs[0] *= np.pad(1 / self.scale_, (0, signs.shape[2] - len(self.scale_)))
            self._operator = signs, (unit["radii"] * turn / signs.shape[2] ** 1.5).astype(np.float32)  # HHᵀ = pI
        else:
            self._turns = np.ascontiguousarray((unit["omega"] / self.scale_[:, None] * turn).astype(np.float32))

    @property
    def sigma(self) -> float:
        return self.sigma_

    @property
    def _n_frequencies(self) -> int:
        return self.n_features // (2 if self._paired else 1)

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        if "signs" in self.unit_:
            return hadamard_features(X, self.center_, *self._operator, self._n_frequencies, n_jobs=n_jobs)
        pairs = fourier_features(X, self.center_, self._turns, n_jobs=n_jobs)
        return pairs if self._paired else self._shift(pairs)

    def accumulate(
        self, X: Floats, cells: Cells, weights: Array | None, sums: Array, norm2: Array, n_jobs: int | None = None
    ) -> None:
        if not self._paired:
            return super().accumulate(X, cells, weights, sums, norm2, n_jobs)
        if "signs" in self.unit_:
            sums[...] = hadamard_sums(
                X,
                self.center_,
                *self._operator,
                self._n_frequencies,
                cells,
                len(sums),
                weights,
                n_jobs=n_jobs,
                onto=sums,
            )
        else:
            sums[...] = fourier_sums(X, self.center_, self._turns, cells, len(sums), weights, n_jobs=n_jobs, onto=sums)
        if weights is None:
            norm2 += np.bincount(cells, minlength=len(norm2))
        else:
            np.add.at(norm2, cells, weights * weights)
        return None

    def _shift(self, pairs: Floats) -> Floats:
        """cos(t + b) = cos b cos t − sin b sin t."""
        f = self._n_frequencies
        b = self.unit_["bias"]
        out: Floats = pairs[:, :f] * np.cos(b) - pairs[:, f:] * np.sin(b)
        return out

    def _check_parameters(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError(f"kind={self.kind!r} is not one of {', '.join(map(repr, get_args(Kind)))}.")
        if not isinstance(self.kernel, str) or self.kernel not in KERNELS:
            raise InputError(f"kernel={self.kernel!r} has no Fourier features here: use 'gaussian' or 'laplace'.")
        if not is_count(self.n_features) or self.n_features < 2 or self.n_features % 2:
            raise InputError(
                f"n_features={self.n_features!r} must be an even number, 2 or more: a cosine and a sine a frequency."
            )

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        kind = self._settled(len(self.scale_))
        meta = {"n_features": int(self.n_features), "sigma": self.sigma_, "kernel": self.kernel, "kind": kind}
        return meta, {"center": self.center_, "scale": self.scale_, **self.unit_}

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        out = cls(meta["n_features"], meta["sigma"], kernel=meta["kernel"], kind=meta["kind"])
        out._check_parameters()
        out.center_, out.scale_ = arrays["center"], arrays["scale"]
        unit = {k: v for k, v in arrays.items() if k not in ("center", "scale")}
        d, f = meta["n_columns"], out._n_frequencies
        check_parts(arrays, {"center": (d,), "scale": (d,)}, positive=("scale",))
        if out.kind == "structured":
            blocks, p = _blocks(d, f)
            check_parts(unit, {"signs": (3, blocks, p), "radii": (blocks, p)})
        else:
            check_parts(unit, {"omega": (d, f), **({"bias": (f,)} if out.kind == "cos-bias" else {})})
        out._set(unit, check_bandwidth(meta["sigma"]))
        return out


def draw(kind: Kind, kernel: Gaussian | Laplace, d: int, count: int, rng: np.random.Generator) -> Arrays:
    """`count` frequencies of the spectral law at σ = 1: "omega" (d, count), or the factors of the structured kind."""
    if kind == "structured":
        blocks, p = _blocks(d, count)
        signs = rng.choice(np.array([-1, 1], dtype=np.int8), size=(3, blocks, p))
        return {"signs": signs, "radii": kernel.radii(rng.random((blocks, p)), p)}
    if kind == "qmc":
        from scipy.stats import qmc  # slow to import, seldom needed

        points = qmc.Sobol(d + 1, rng=rng).random(1 << max(count - 1, 0).bit_length())[:count].T
        points = np.clip(points, 1e-12, 1 - 1e-12)
        z, u = ndtri(points[:d]), points[d]
    else:
        z = _orthogonal(d, count, rng) if kind == "orthogonal" else rng.standard_normal((d, count))
        u = rng.random(count)
    omega = z / np.linalg.norm(z, axis=0) * kernel.radii(u, d)
    return {"omega": omega, "bias": rng.uniform(0, 2 * np.pi, count)} if kind == "cos-bias" else {"omega": omega}


def _blocks(d: int, count: int) -> tuple[int, int]:
    """Blocks of the structured kind, and the order p of each: 128 or more, for fewer signs do not look Gaussian."""
    p = max(128, 1 << max(d - 1, 0).bit_length())
    return -(-count // p), p


def _orthogonal(d: int, count: int, rng: np.random.Generator) -> Array:
    """Columns uniform on the sphere, orthogonal within each group of d: Q of a Gaussian matrix, R's signs undone."""
    blocks = rng.standard_normal((-(-count // d), d, d))
    q, r = np.linalg.qr(blocks)
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    out: Array = np.concatenate(list(q), axis=1)[:, :count]
    return out
