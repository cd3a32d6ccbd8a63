"""Both ways between proportio and QuaPy: a quantifier of ours in its protocols and model selection, one of its own in `compare`.

    GridSearchQ(to_quapy(pp.RFFM()), {"bandwidth": [0.5, 1.0]}, protocol=UPP(...)).fit(X, y)
    pp.compare({"theirs": from_quapy(EMQ()), "ours": pp.baselines.EM()}, X, y)

QuaPy is imported when one of the two is called: pip install quapy.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from proportio.errors import InputError, NotFittedError

Array = npt.NDArray[np.float64]


def to_quapy(model: Any) -> Any:
    """A QuaPy quantifier that is this model: `predict` gives shares that sum to one, `set_params` are the model's own."""
    try:
        from quapy.method.base import BaseQuantifier
    except ImportError as error:
        raise InputError("to_quapy needs QuaPy: pip install quapy.") from error

    class Proportio(BaseQuantifier):  # type: ignore[misc]  # QuaPy has no type hints
        """QuaPy protocols expect shares of the known classes alone: those of a soft model are rescaled."""

        def __init__(self, model: Any) -> None:
            self.model = model

        def fit(self, X: Any, y: Any) -> Self:
            self.model.fit(X, y)
            return self

        def predict(self, X: Any) -> Array:
            shares = np.maximum(self.model.predict(X), 0)
            total = shares.sum()
            return np.asarray(shares / total if total > 0 else np.full(len(shares), 1 / len(shares)))

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            return dict(self.model.get_params(deep))

        def set_params(self, **params: Any) -> Self:
            self.model.set_params(**params)
            return self

        def __sklearn_clone__(self) -> Self:
            return type(self)(clone(self.model))

        @property
        def classes_(self) -> Any:
            return self.model.classes_

    return Proportio(model)


class from_quapy:  # noqa: N801  # read as a function: from_quapy(EMQ())
    """A quantifier of QuaPy with labels of any kind: encoded as whole numbers, which QuaPy uses as columns.

    After `fit`, `classes_`; `predict` gives the shares in their order.
    """

    def __init__(self, quantifier: Any) -> None:
        self.quantifier = quantifier

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a copy of the quantifier."""
        self.classes_, codes = np.unique(np.asarray(y), return_inverse=True)
        self._fitted = copy.deepcopy(self.quantifier).fit(np.asarray(X), codes)
        return self

    def predict(self, X: Any) -> Array:
        """The class shares of a batch, in the order of `classes_`."""
        if not hasattr(self, "_fitted"):
            raise NotFittedError("this from_quapy is not fitted yet: call fit(X, y) first.")
        return np.asarray(self._fitted.predict(np.asarray(X)), dtype=np.float64)
