"""Kernel mean matching: DFM in the space of a kernel, by exact pair sums, or the Energy kernel's by directions (§2.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from proportio import storage
from proportio.bandwidth import Criterion, choose
from proportio.engines import Engine, Progress, Recipe
from proportio.errors import InputError
from proportio.estimate import Estimate
from proportio.exact import RowSketch, keep_rows, kernel_state, restore_kernel, standardized
from proportio.features.base import check_parts, check_seed
from proportio.features.base import restore as restore_features
from proportio.features.fourier import KERNELS, RandomFourier
from proportio.features.sliced import SlicedEnergy, origin_of
from proportio.kernels import Custom, Energy, Kernel
from proportio.quantifier import Array, Groups, Labels, Quantifier
from proportio.scaling import check_length, moments
from proportio.sketch import BlockSketch, Sketch, sketch_rows
from proportio.sources import Columns, Floats, OnMissing

CHEAP = 1.0  # seconds of pair sums on two threads up to which "auto" takes them


class KMM(Quantifier):
    """Kernel mean matching: DFM in the space of a kernel (§2.1), by exact pair sums, O(n(n + m)).

    `kernel` is "gaussian", "laplace", "energy" or any callable k(X, Y) → matrix. The Energy kernel's `origin` is where the
    soft form puts its dummy class ("mean": the mean of the reference); declare `radius` to bound it, in units of the
    standardised rows. With pair sums the model keeps the reference rows: use `RFFM` to ship kilobytes instead.

    `approx="sliced"` takes the Energy kernel by random directions (`features.SlicedEnergy`): linear in the rows, and a sketch of
    sums instead of rows. `tolerance` is the standard error of the Gram matrix, relative to what tells the classes apart,
    that the number of directions is chosen for; `est.diagnostics` has what was reached. "auto" is sliced where exact sums for a
    batch as large as the (first) reference would take more than a second, and exact otherwise; what it chose is `approx_`.
    One column is always exact, by sorting.

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
        approx: Literal["auto", "exact", "sliced"] = "auto",
        tolerance: float = 0.01,
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
        self.approx = approx
        self.tolerance = tolerance
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
        self.approx_ = self._chosen(len(X), d)
        if self.approx_ == "exact":
            self._name()
        else:
            self._set_features(
                SlicedEnergy(
                    tolerance=self.tolerance,
                    origin=self.origin,
                    radius=self.radius,
                    standardize=self.standardize,
                    random_state=self.random_state,
                ).fit_rows(X, y, weights, columns)
            )

    def _chosen(self, n: int, d: int) -> str:
        """Exact or sliced: the same on every machine."""
        if self.approx not in ("auto", "exact", "sliced"):
            raise InputError(f"approx={self.approx!r} is not 'auto', 'exact' or 'sliced'.")
        if not isinstance(self.kernel_, Energy):
            if self.approx == "sliced":
                raise InputError(
                    f"approx='sliced' is a form of the Energy kernel, not of {self.kernel!r}: "
                    "RFFM approximates 'gaussian' and 'laplace'."
                )
            return "exact"
        costly = self.kernel_.seconds(2.0 * n * n, d, threads=2) > CHEAP  # G and s by halves, q whole
        return "sliced" if d > 1 and (self.approx == "sliced" or (self.approx == "auto" and costly)) else "exact"

    def _set_features(self, phi: SlicedEnergy) -> None:
        self.features_ = phi
        self._map_id = phi.identity()

    def _settle(self, X: Floats, y: Labels, weights: Array | None, mean: Array) -> Kernel:
        """The kernel with its parameters fixed by the reference."""
        if callable(self.kernel):
            return Custom(self.kernel)
        if self.kernel == "energy":
            origin = origin_of(self.origin, mean)
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
        labels = None if groups is None else self.classes_.tolist()
        if self.approx_ == "sliced":
            return sketch_rows(
                self.features_,
                X,
                groups,
                labels,
                weights=weights,
                start=start,
                seed=self._seed,
                n_jobs=self.n_jobs,
                map_id=self._map_id,
                onto=onto,
            )
        part = keep_rows(
            self.kernel_,
            X,
            self.center_,
            self.scale_,
            groups,
            labels,
            weights=weights,
            start=start,
            seed=self._seed,
            n_jobs=self.n_jobs,
            map_id=self._map_id,
        )
        return part if onto is None else onto + part

    def estimate(
        self, X: Any, *, sample_weight: Any = None, progress: Progress | None = None, engine: Engine = "auto"
    ) -> Estimate:
        """The shares of a batch: all that `sketch` takes, or a sketch that this model made."""
        est = super().estimate(X, sample_weight=sample_weight, progress=progress, engine=engine)
        if self.approx_ == "exact":
            return est
        assert est.blocks is not None
        source, target = est.blocks.source, est.blocks.target
        assert isinstance(source, BlockSketch)
        assert isinstance(target, BlockSketch)
        evidence, B = est.evidence, source.means()
        residual = target.means()[:, 0] - B @ evidence.alpha  # α̃ moves by H times what moves Bᵀ(ψ − Bα̃)
        return replace(
            est,
            diagnostics=replace(
                est.diagnostics,
                gram_error=self.features_.gram_error(B),
                share_errors=tuple(self.features_.standard_errors((B * residual[:, None]) @ evidence.H).tolist()),
            ),
        )._with(evidence)

    def _recipe(self) -> Recipe:
        if self.approx_ == "sliced":
            return Recipe(self.features_, self._seed, self._map_id, self.columns_, self.on_missing)
        raise InputError(
            "KMM keeps the rows, so that every worker would send back all of its rows: use RFFM (or kernel='energy' with "
            "approx='sliced'), whose sketches have the size of its features, or bring a sample of the rows here."
        )

    def _similarity(self, X: Floats, sketch: Sketch) -> Array:
        if isinstance(sketch, BlockSketch):
            return self.features_.project(X, sketch.means(), self.n_jobs)
        assert isinstance(sketch, RowSketch)
        return sketch.similarity(standardized(X, self.center_, self.scale_))

    @property
    def bound_(self) -> float | None:
        return self.kernel_.bound if self.approx_ == "exact" else self.features_.bound_

    @property
    def bandwidth_(self) -> float | None:
        return getattr(self.kernel_, "sigma", None)

    @property
    def _n_features_out(self) -> int | None:
        return None if self.approx_ == "exact" else self.features_.dim

    def _method_name(self) -> str:
        return super()._method_name() + ("" if self.approx_ == "exact" else " (sliced)")

    def _map_state(self) -> tuple[dict[str, Any], storage.Arrays]:
        meta, arrays = ({}, {}) if self.approx_ == "exact" else self.features_.state()
        meta = {"kernel": kernel_state(self.kernel_), "seed": self._seed, "features": meta}
        return meta, {**arrays, "center_": self.center_, "scale_": self.scale_}

    def _restore_map(self, meta: dict[str, Any], arrays: storage.Arrays, supply: list[Any]) -> None:
        self._seed = check_seed(meta["seed"])
        own = {name: arrays.pop(name) for name in ("center_", "scale_")}
        check_parts(own, {"center_": (None,), "scale_": own["center_"].shape}, positive=("scale_",))
        self.center_, self.scale_ = own["center_"], own["scale_"]
        self.kernel_ = restore_kernel(meta["kernel"])
        self.approx_ = "sliced" if meta["features"] else "exact"
        if meta["features"]:
            phi = restore_features(meta["features"], arrays, supply)
            assert isinstance(phi, SlicedEnergy)
            self.features_ = phi
        self._map_id = self.sketch_.map_id
