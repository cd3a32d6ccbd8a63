"""Counting decisions, and correcting the count: CC, ACC and PACC.

    CC     α̂ = Ŷ, the shares of the classifier's decisions in the batch
    ACC    α̂ = argmin over the simplex of ‖Mα − Ŷ‖², M_ij = P̂(decision i | class j): BBSE+ under the field's name (Proposition 1)
    PACC   the same with mean posteriors in the place of decisions: DFM(Posterior())

ACC and PACC are distribution feature matching, so they have all that it has: exact intervals, bounds, the label-shift test, files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from proportio.baselines.base import OnPosteriors, Problem
from proportio.baselines.convex import Minimum
from proportio.features import OneHot, Posterior
from proportio.features.base import FeatureMap
from proportio.methods import BBSE
from proportio.quantifier import Labels
from proportio.sources import Floats, OnMissing

Array = npt.NDArray[np.float64]


class CC(OnPosteriors):
    """Classify and count: the shares of a classifier's decisions. Wrong as soon as the shares change; the baseline to beat.

    Its intervals, by `draws` bootstrap draws, are those of the share of decisions, not of the share of the class.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat(["a", "b"], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * (y == "b")[:, None]
    >>> pp.baselines.CC().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    _features = OneHot

    def __init__(
        self,
        classifier: Any = None,
        *,
        cv: int | Literal["split", "prefit"] = 5,
        draws: int = 200,
        on_missing: OnMissing = "raise",
        random_state: Any = 0,
    ) -> None:
        super().__init__(classifier, cv=cv, on_missing=on_missing, random_state=random_state)
        self.draws = draws

    def _problem(self, Z: Array) -> Problem:
        return _Count(Z)


@dataclass(frozen=True, eq=False)
class _Count(Problem):
    decisions: Array

    def solve(self, omega: Array, weights: Array) -> Minimum:
        return Minimum(weights @ self.decisions, 0.0)


class ACC(BBSE):
    """Adjusted count (Forman): `pp.BBSE`, whose name in the field this is; `positive=True` keeps the shares on the simplex.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> bool((pp.baselines.ACC().fit(X, y).predict(X[400:]) == pp.BBSE().fit(X, y).predict(X[400:])).all())
    True
    """


class PACC(BBSE):
    """Probabilistic adjusted count (Bella): the same with posteriors for decisions, `pp.DFM(Posterior())`.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 500)
    >>> X = rng.normal(size=(1000, 2)) + 3 * y[:, None]
    >>> pp.baselines.PACC().fit(X, y).predict(X[400:]).round(1).tolist()
    [0.2, 0.8]
    """

    def _template(self, X: Floats, y: Labels, weights: Array | None) -> FeatureMap:
        return Posterior(self.classifier, cv=self.cv, random_state=self.random_state)
