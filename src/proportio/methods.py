"""DFM with any feature map, and its named cases RFFM (random Fourier features) and BBSE (a classifier's decisions)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, cast

import numpy as np
from sklearn.base import clone

from proportio import storage
from proportio.bandwidth import Criterion, choose
from proportio.engines import Recipe
from proportio.errors import InputError
from proportio.features import Function, OneHot, RandomFourier
from proportio.features.base import FeatureMap, check_seed
from proportio.features.base import restore as restore_map
from proportio.features.classifier import cloned
from proportio.features.fourier import Kind
from proportio.quantifier import Array, Groups, Labels, Quantifier
from proportio.sketch import BlockSketch, Sketch, sketch_rows
from proportio.sources import Columns, Floats, OnMissing


class DFM(Quantifier):
    """α̂ = argmin ‖Σ α_i Φ̂_i − Φ̂(Q)‖² for any feature map Φ (problem P; P₂ with `soft=True`).

    `features` is a map of `proportio.features` or any callable from rows to features. `soft` leaves room for an unknown
    share; `positive=False` drops α ≥ 0.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> model = pp.DFM(pp.features.Histogram(bins=8)).fit(X, y)
    >>> model.predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        features: FeatureMap | Callable[[Any], Any],
        *,
        soft: bool = False,
        positive: bool = True,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.soft = soft
        self.positive = positive
        self.on_missing = on_missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        """The map to fit, its hyperparameters settled."""
        return clone(self.features) if isinstance(self.features, FeatureMap) else Function(self.features)

    def _fit_map(self, X: Floats, y: Labels, weights: Array | None, columns: Columns) -> None:
        self._seed = int(np.random.default_rng(self.random_state).integers(2**62))
        self._set_map(self._template(X, y, weights).fit_rows(X, y, weights, columns))

    def _set_map(self, phi: FeatureMap) -> None:
        self.features_ = phi
        self._map_id = phi.identity()

    def _end_training(self) -> None:
        self.features_.folds_ = None

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None, sample_weight: Any = None) -> Self:
        """Add a batch of labelled rows. The first call needs `classes`; it also fixes scaling and bandwidth."""
        settled = getattr(self.features, "cv", "prefit") if hasattr(self, "features") else "prefit"
        if settled != "prefit":
            raise InputError(
                "a classifier cannot be cross-fitted on a stream: train it first and pass it with cv='prefit'."
            )
        return super().partial_fit(X, y, classes, sample_weight)

    def _sketch(self, X: Floats, groups: Groups | None, weights: Array | None, start: int, onto: Any) -> Sketch:
        return sketch_rows(
            self.features_,
            X,
            groups,
            None if groups is None else self.classes_.tolist(),
            weights=weights,
            start=start,
            seed=self._seed,
            n_jobs=self.n_jobs,
            map_id=self._map_id,
            onto=onto,
        )

    def _recipe(self) -> Recipe:
        return Recipe(self.features_, self._seed, self._map_id, self.columns_, self.on_missing)

    def _similarity(self, X: Floats, sketch: Sketch) -> Array:
        assert isinstance(sketch, BlockSketch)
        return self.features_.project(X, sketch.means(), self.n_jobs)

    @property
    def bound_(self) -> float | None:
        return self.features_.bound_

    @property
    def bandwidth_(self) -> float | None:
        return self.features_.sigma

    @property
    def _n_features_out(self) -> int:
        return self.features_.dim

    def _map_state(self) -> tuple[dict[str, Any], storage.Arrays]:
        meta, arrays = self.features_.state()
        return {**meta, "seed": self._seed}, arrays

    def _restore_map(self, meta: dict[str, Any], arrays: storage.Arrays, supply: list[Any]) -> None:
        self._seed = check_seed(meta["seed"])
        self.features_ = restore_map(meta, arrays, supply)
        self._map_id = self.sketch_.map_id
        if type(self) is DFM:
            self.features = self.features_


class RFFM(DFM):
    """Random Fourier feature matching: DFM with Φ(x) = √(2/D) [cos ωᵀz, sin ωᵀz] (the paper's §4.1).

    `soft=False` is the paper's RFFM, `soft=True` its softRFFM. `bandwidth="auto"` chooses σ by `criterion`: "error" (the
    predicted l2 error) or "delta_min" (the paper's); the curve is kept as `bandwidth_curve_`.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> est = pp.RFFM(n_features=200).fit(X, y).estimate(X[400:])
    >>> dict(zip(est.classes.tolist(), est.proportions.round(1).tolist()))
    {'a': 0.2, 'b': 0.8}
    """

    def __init__(
        self,
        n_features: int = 1000,
        bandwidth: float | Literal["auto", "median"] = "auto",
        soft: bool = False,
        *,
        criterion: Criterion = "error",
        kernel: Literal["gaussian", "laplace"] = "gaussian",
        kind: Kind = "auto",
        standardize: bool = True,
        positive: bool = True,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_features = n_features
        self.bandwidth = bandwidth
        self.soft = soft
        self.criterion = criterion
        self.kernel = kernel
        self.kind = kind
        self.standardize = standardize
        self.positive = positive
        self.on_missing = on_missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        phi = RandomFourier(
            self.n_features,
            "median" if self.bandwidth == "auto" else self.bandwidth,
            kernel=self.kernel,
            kind=self.kind,
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
            phi.set_params(bandwidth=self.bandwidth_curve_.chosen)
        return phi


class BBSE(DFM):
    """Black-box shift estimation: DFM with Φ(x) = the one-hot decision of a classifier (Proposition 1).

    `positive=True` is the paper's BBSE+, `positive=False` the original M⁻¹Y, `soft=True` softBBSE+. The classifier
    (logistic regression by default) is cross-fitted so that it never embeds its training rows; see `cv`. Decisions sum to
    one whatever the row: next to nothing is ever left unknown, and no residual to test label shift with.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.BBSE().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def __init__(
        self,
        classifier: Any = None,
        *,
        positive: bool = True,
        soft: bool = False,
        cv: int | Literal["split", "prefit"] = 5,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.classifier = classifier
        self.positive = positive
        self.soft = soft
        self.cv = cv
        self.on_missing = on_missing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def __sklearn_clone__(self) -> Self:
        return cast("Self", cloned(self))

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        return OneHot(self.classifier, cv=self.cv, random_state=self.random_state)

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None, sample_weight: Any = None) -> Self:
        """Add a batch of labelled rows; needs a classifier trained elsewhere (`cv="prefit"`)."""
        if self.cv != "prefit":
            raise InputError(
                "a classifier cannot be cross-fitted on a stream: train it first and pass it with cv='prefit'."
            )
        return super().partial_fit(X, y, classes, sample_weight)
