"""Kernel mean matching: DFM in the space of a kernel, by exact pair sums (§2.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from proportio import storage
from proportio.bandwidth import Criterion, choose
from proportio.engines import Recipe
from proportio.errors import InputError
from proportio.exact import RowSketch, keep_rows, kernel_state, restore_kernel, standardized
from proportio.features.base import check_parts, check_seed
from proportio.features.fourier import KERNELS, RandomFourier
from proportio.kernels import Custom, Energy, Kernel
from proportio.quantifier import Array, Groups, Labels, Quantifier
from proportio.scaling import check_length, moments
from proportio.sketch import Sketch
from proportio.sources import Columns, Floats, OnMissing


class KMM(Quantifier):
    """Kernel mean matching by exact pair sums, O(n(n + m)): DFM in the space of a kernel (§2.1).

    `kernel` is "gaussian", "laplace", "energy" or any callable k(X, Y) → matrix. The Energy kernel's `origin` is where the
    soft form puts its dummy class ("mean": the mean of the reference); declare `radius` to bound it, in units of the
    standardised rows. The model keeps the reference rows: use `RFFM` to ship kilobytes instead.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 2)) + 3 * y[:, None]
    >>> pp.KMM(kernel="energy").fit(X, y).predict(X[150:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        kernel: Literal["gaussian", "laplace", "energy"] | Callable[[Any, Any], Any] = "gaussian",
        bandwidth: float | Literal["auto", "median"] = "auto",
        soft: bool = False,
        *,
        criterion: Criterion = "error",
        origin: Literal["mean"] | Sequence[float] = "mean",
        radius: float | None = None,
        standardize: bool = True,
        positive: bool = True,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.soft = soft
        self.criterion = criterion
        self.origin = origin
        self.radius = radius
        self.standardize = standardize
        self.positive = positive
        self.on_missing = on_missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_map(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> None:
        self._seed = int(np.random.default_rng(self.random_state).integers(2**62))
        d = X.shape[1]
        mean, sd = moments(X, weights)
        self.center_, self.scale_ = (mean, sd) if self.standardize else (np.zeros(d), np.ones(d))
        self.kernel_ = self._settle(X, y, weights, mean)
        self._name()

    def _settle(self, X: Floats, y: Labels, weights: Array | None, mean: Array) -> Kernel:
        """The kernel with its parameters fixed by the reference."""
        if callable(self.kernel):
            return Custom(self.kernel)
        if self.kernel == "energy":
            origin = mean if isinstance(self.origin, str) else np.asarray(self.origin, dtype=np.float64)
            if isinstance(self.origin, str) and self.origin != "mean":
                raise InputError(f"origin={self.origin!r}: give 'mean' or one number a column.")
            if origin.shape != (X.shape[1],) or not np.isfinite(origin).all():
                raise InputError(
                    f"origin has shape {origin.shape}: give one finite number for each of {X.shape[1]} columns."
                )
            if self.radius is not None:
                check_length(self.radius, "radius")
            return Energy(tuple(((origin - self.center_) / self.scale_).tolist()), self.radius)
        if self.kernel not in KERNELS:
            raise InputError(f"kernel={self.kernel!r} is not 'gaussian', 'laplace', 'energy' or a callable.")
        phi = RandomFourier(
            bandwidth="median" if self.bandwidth == "auto" else self.bandwidth,
            kernel=self.kernel,
            standardize=self.standardize,
            random_state=self.random_state,
        )
        if self.bandwidth == "auto":
            self.bandwidth_curve_ = choose(
                X,
                y,
                weights,
                phi,
                criterion=self.criterion,
                soft=self.soft,
                random_state=self.random_state,
                n_jobs=self.n_jobs,
            )
            return KERNELS[self.kernel](self.bandwidth_curve_.chosen)
        return KERNELS[self.kernel](phi.fit_rows(X, None, weights).sigma_)

    def _name(self) -> None:
        spec = {"callable": repr(self.kernel_)} if isinstance(self.kernel_, Custom) else kernel_state(self.kernel_)
        self._map_id = storage.digest(spec, {"center": self.center_, "scale": self.scale_})[:16]

    def _sketch(self, X: Floats, groups: Groups | None, weights: Array | None, start: int, onto: Any) -> Sketch:
        part = keep_rows(
            self.kernel_,
            X,
            self.center_,
            self.scale_,
            groups,
            None if groups is None else self.classes_.tolist(),
            weights=weights,
            start=start,
            seed=self._seed,
            n_jobs=self.n_jobs,
            map_id=self._map_id,
        )
        return part if onto is None else onto + part

    def _recipe(self) -> Recipe:
        raise InputError(
            "KMM keeps the rows, so that every worker would send back all of its rows: use RFFM, whose sketches have the size of "
            "its features, or bring a sample of the rows here."
        )

    def _similarity(self, X: Floats, sketch: Sketch) -> Array:
        assert isinstance(sketch, RowSketch)
        return sketch.similarity(standardized(X, self.center_, self.scale_))

    @property
    def bound_(self) -> float | None:
        return self.kernel_.bound

    @property
    def bandwidth_(self) -> float | None:
        return getattr(self.kernel_, "sigma", None)

    def _map_state(self) -> tuple[dict[str, Any], storage.Arrays]:
        return {"kernel": kernel_state(self.kernel_), "seed": self._seed}, {
            "center": self.center_,
            "scale": self.scale_,
        }

    def _restore_map(self, meta: dict[str, Any], arrays: storage.Arrays, supply: list[Any]) -> None:
        self._seed = check_seed(meta["seed"])
        check_parts(arrays, {"center": (None,), "scale": arrays["center"].shape}, positive=("scale",))
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.kernel_ = restore_kernel(meta["kernel"])
        self._map_id = self.sketch_.map_id
