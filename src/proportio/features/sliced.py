"""The Energy kernel by directions: Φ(x) = (a_j (cos ω_jᵀz − 1), a_j sin ω_jᵀz), z = x − x₀ standardised, with Φ(x₀) = 0.

    ‖z‖ = c_d E_θ |θᵀz|, θ uniform on the sphere, c_d = √π Γ((d+1)/2)/Γ(d/2);   |t| = (2/π) ∫₀^∞ (1 − cos rt)/r² dr

so that ‖x−x₀‖ + ‖y−x₀‖ − ‖x−y‖ is the mean of ⟨Φ(x), Φ(y)⟩ over ω = rθ, with r = ρ tan(πu/2), u uniform, and
a² = c_d (ρ² + r²)/(ρ r² P): P directions, each with a length of its own, O(P) a row, whatever law of r is behind it. ρ is
the reciprocal of the columns' typical standard deviation.

The lengths are stratified. The directions of one stratum are a randomly turned set of lines that integrates
polynomials on the sphere up to degree 5 nearly exactly, or orthogonal lines where the strata are too small for it
(docs/design/0006). Second differences between neighbouring strata give the standard error of everything that is linear in
the kernel.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from proportio._compiled.fourier import fourier_features, fourier_sums
from proportio.errors import FileError, InputError
from proportio.features.base import Array, Cells, FeatureMap, check_parts, is_count
from proportio.kernels import Energy
from proportio.scaling import check_length, moments
from proportio.sources import Floats
from proportio.storage import Arrays

STRATA = 32  # of the lengths: with that many, neighbours are alike
FEWEST, MOST = 512, 8192  # directions that a tolerance may ask for: 0.5 to 8 MB a class of 64 blocks
PILOTS, PILOT, PILOT_ROWS = 4, 1024, 16384
MARGIN = 1.2  # for the standard error is itself an estimate, known to about a fifth
ROWS = 65536  # rows whose norms are computed at a time


class SlicedEnergy(FeatureMap):
    """⟨Φ(x), Φ(y)⟩ ≈ ‖x−x₀‖ + ‖y−x₀‖ − ‖x−y‖ without bias, by `n_directions` one-dimensional kernels.

    "auto" takes as many directions as bring the standard error of the Gram matrix of the classes to `tolerance`,
    relative to what tells the classes apart (512 to 8192, by a pilot run). `origin` x₀ ("mean": that of the source) is in units of
    the columns, `radius` in units of the standardised ones.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> P = SlicedEnergy(2000, standardize=False).fit(X).transform(X[:2])
    >>> x, y = X[:2] - X.mean(axis=0)
    >>> exact = np.linalg.norm(x) + np.linalg.norm(y) - np.linalg.norm(x - y)
    >>> bool(abs(P[0] @ P[1] - exact) < 0.05)
    True
    """

    def __init__(
        self,
        n_directions: int | Literal["auto"] = "auto",
        *,
        tolerance: float = 0.01,
        origin: Literal["mean"] | Sequence[float] = "mean",
        radius: float | None = None,
        standardize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.n_directions = n_directions
        self.tolerance = tolerance
        self.origin = origin
        self.radius = radius
        self.standardize = standardize
        self.random_state = random_state

    def _fit(self, X: Floats, y: npt.NDArray[Any] | None, weights: Array | None) -> None:
        rng = np.random.default_rng(self.random_state)
        d = X.shape[1]
        mean, sd = moments(X, weights)
        scale = sd if self.standardize else np.ones(d)
        center = origin_of(self.origin, mean)
        radius = None if self.radius is None else check_length(self.radius, "radius")
        self._rho = float(np.sqrt(d / np.square(sd / scale).sum()))
        if self.n_directions == "auto":
            if y is None:
                raise InputError("n_directions='auto' is read off labelled rows: give y, or a number of directions.")
            count = self._enough(X, y, weights, center, scale, rng)
        elif is_count(self.n_directions) and self.n_directions >= 2:
            count = int(self.n_directions)
        else:
            raise InputError(f"n_directions={self.n_directions!r} is neither 'auto' nor a whole number, 2 or more.")
        self._set(*draw(d, count, self._rho, rng), center, scale, radius)

    def _enough(
        self,
        X: Floats,
        y: npt.NDArray[Any],
        weights: Array | None,
        center: Array,
        scale: Array,
        rng: np.random.Generator,
    ) -> int:
        """Directions for `tolerance`, from the error of a pilot: it falls as 1/√P or up to 1/P, and the slower is taken."""
        tolerance = check_length(self.tolerance, "tolerance", ", here in parts of the classes' contrasts")
        pilot = np.sort(rng.choice(len(X), min(len(X), PILOT_ROWS), replace=False))
        labels, cells = np.unique(y[pilot], return_inverse=True)
        w = None if weights is None else weights[pilot]
        totals = np.bincount(cells, weights=w).astype(np.float64)
        errors = []
        for _ in range(PILOTS):
            self._set(*draw(X.shape[1], PILOT, self._rho, rng), center, scale, None)
            sums, norm2 = np.zeros((len(labels), self.dim)), np.zeros(len(labels))
            self.accumulate(X[pilot], cells.astype(np.int32), w, sums, norm2, n_jobs=1)
            errors.append(self.gram_error((sums[totals > 0] / totals[totals > 0, None] * self.amplitude_).T))
        ratio = MARGIN * float(np.sqrt(np.mean(np.square(errors)))) / tolerance
        return int(np.clip(PILOT * max(ratio, ratio**2), FEWEST, MOST))

    def _set(self, omega: Array, per_stratum: int, center: Array, scale: Array, radius: float | None) -> None:
        d, count = omega.shape
        self.omega_, self.per_stratum_ = omega, per_stratum
        self.center_, self.scale_, self.radius_ = center, scale, radius
        r2 = np.square(omega).sum(axis=0)
        weight = sphere_constant(d) * (self._rho**2 + r2) / (self._rho * r2 * count)
        self.amplitude_ = np.tile(np.sqrt(weight), 2)
        reach = None if radius is None else np.minimum(4.0, r2 * radius**2)  # ≥ |exp(iωᵀz) − 1|²
        self.bound_ = None if reach is None else float(np.sqrt(weight @ reach))
        self._kernel = Energy((0.0,) * d, radius)
        self._turns = np.ascontiguousarray((omega / scale[:, None] / (2 * np.pi)).astype(np.float32))

    def _raw(self, X: Floats, n_jobs: int | None) -> Floats:
        out = fourier_features(X, self.center_, self._turns, n_jobs=n_jobs)
        out[:, : self.omega_.shape[1]] -= 1
        return out

    def accumulate(
        self, X: Floats, cells: Cells, weights: Array | None, sums: Array, norm2: Array, n_jobs: int | None = None
    ) -> None:
        total = fourier_sums(X, self.center_, self._turns, cells, len(sums), weights, n_jobs=n_jobs, onto=sums)
        total[:, : self.omega_.shape[1]] -= np.bincount(cells, weights=weights, minlength=len(sums))[:, None]
        sums[...] = total
        for start in range(0, len(X), ROWS):
            part = slice(start, start + ROWS)
            lengths = self._kernel.diagonal((X[part] - self.center_) / self.scale_)
            np.add.at(norm2, cells[part], lengths if weights is None else lengths * weights[part] ** 2)

    def standard_errors(self, contributions: Array) -> Array:
        """The standard error of Σ_j contributions[j] (D, ...), each a term of something linear in the kernel."""
        waves = contributions[: len(contributions) // 2] + contributions[len(contributions) // 2 :]
        strata = np.add.reduceat(waves, np.arange(0, len(waves), self.per_stratum_))
        out: Array = np.sqrt(np.square(curvatures(strata)).sum(axis=0))
        return out

    def gram_error(self, means: Array) -> float:
        """Standard error of PGP relative to PGP, P = I − 11ᵀ/c (Frobenius norms); `means` are B, (D, classes)."""
        contrasts = means - means.mean(axis=1, keepdims=True)
        size = float(np.linalg.norm(contrasts.T @ contrasts))
        waves = contrasts.reshape(2, -1, self.per_stratum_, means.shape[1])
        grams = np.einsum("wski,wskj->sij", waves, waves, optimize=True)
        return float(np.linalg.norm(curvatures(grams))) / size if size else 0.0

    def _state(self) -> tuple[dict[str, Any], Arrays]:
        meta = {"per_stratum": self.per_stratum_, "rho": self._rho, "radius": self.radius_}
        return meta, {"omega": self.omega_, "center": self.center_, "scale": self.scale_}

    @classmethod
    def _restore(cls, meta: dict[str, Any], arrays: Arrays, supply: list[Any]) -> Self:
        d, omega, per_stratum = meta["n_columns"], arrays["omega"], meta["per_stratum"]
        check_parts(arrays, {"omega": (d, None), "center": (d,), "scale": (d,)}, positive=("scale",))
        if not is_count(per_stratum) or per_stratum < 1 or omega.shape[1] % per_stratum or not omega.any(axis=0).all():
            raise FileError(
                f"{omega.shape[1]} directions in strata of {per_stratum!r} are not what proportio draws: not a file that it wrote."
            )
        radius = None if meta["radius"] is None else check_length(meta["radius"], "radius")
        out = cls(omega.shape[1], origin=arrays["center"].tolist(), radius=radius)
        out._rho = check_length(meta["rho"], "rho")
        out._set(omega, per_stratum, arrays["center"], arrays["scale"], radius)
        return out


def curvatures(strata: Array) -> Array:
    """(v_{k−1} − 2v_k + v_{k+1})/√6 of the parts v_k of a sum, scaled so that their squares add up to its variance.

    Each stratum has a random turn and length of its own; what neighbours have in common, a trend in the length, cancels.
    """
    out: Array = (strata[:-2] - 2 * strata[1:-1] + strata[2:]) * np.sqrt(len(strata) / (6 * (len(strata) - 2)))
    return out


def origin_of(origin: Any, mean: Array) -> Array:
    """x₀ in units of the columns."""
    if isinstance(origin, str) and origin != "mean":
        raise InputError(f"origin={origin!r}: give 'mean' or one number a column.")
    out = mean if isinstance(origin, str) else np.asarray(origin, dtype=np.float64)
    if out.shape != mean.shape or not np.isfinite(out).all():
        raise InputError(f"origin has shape {out.shape}: give one finite number for each of {len(mean)} columns.")
    return out


def sphere_constant(d: int) -> float:
    """c_d = √π Γ((d+1)/2)/Γ(d/2), with c_d E|θᵀz| = ‖z‖."""
    return math.sqrt(math.pi) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))


def draw(d: int, count: int, rho: float, rng: np.random.Generator) -> tuple[Array, int]:
    """About `count` frequencies (d, P), stratum by stratum, and how many a stratum has."""
    per_stratum = d * min((d + 2) // 2, count // STRATA // d) or max(1, min(d, 2 * count // STRATA))
    strata = max(4, round(count / per_stratum))
    u = (np.arange(strata) + rng.random(strata)) / strata
    q, r = np.linalg.qr(rng.standard_normal((strata, d, min(d, per_stratum))))
    turned = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]
    if per_stratum > d:
        turned = turned @ lines(d, per_stratum)
    omega = turned * (rho * np.tan(np.pi / 2 * u))[:, None, None]
    return np.ascontiguousarray(omega.transpose(1, 0, 2).reshape(d, -1)), per_stratum


@functools.cache
def lines(d: int, count: int) -> Array:
    """More than d unit vectors (d, count), as columns, by descent on Σ P₂(v·w) + P₄(v·w).

    P₂ and P₄ are the Gegenbauer polynomials of the sphere: the sums vanish where the lines integrate every
    polynomial up to degree 5 exactly (a spherical design).
    """
    V = np.random.default_rng(0).standard_normal((count, d))
    V /= np.linalg.norm(V, axis=1, keepdims=True)
    step, last = 0.5, np.inf
    for _ in range(300):
        T = V @ V.T
        p2, p4 = (d * T**2 - 1) / (d - 1), ((d + 2) * (d + 4) * T**4 - 6 * (d + 2) * T**2 + 3) / (d * d - 1)
        value = float(p2.mean() + p4.mean())
        step *= 0.7 if value > last else 1.0
        last = value
        slope = (4 * d / (d - 1)) * T + (4 * (d + 2) * (d + 4) * T**3 - 12 * (d + 2) * T) / (d * d - 1)
        pull = slope @ V
        pull -= (pull * V).sum(axis=1, keepdims=True) * V
        V -= step * pull / max(float(np.linalg.norm(pull, axis=1).max()), 4.0 * d)
        V /= np.linalg.norm(V, axis=1, keepdims=True)
    return np.ascontiguousarray(V.T)
