"""proportio: the share of each class in an unlabelled batch, from labelled reference rows.

    import proportio as pp

    model = pp.RFFM(soft=True).fit(X, y)
    est = model.estimate(X_new)
    est.classes, est.proportions, est.unknown

Names are imported when they are first used, so `import proportio` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proportio import baselines, evaluation, features
    from proportio.correction import correct
    from proportio.errors import (
        BoundError,
        EmptyClassError,
        FileError,
        InputError,
        InputTypeError,
        MismatchError,
        NotFittedError,
        ProportioError,
        ProportioWarning,
    )
    from proportio.estimate import Estimate
    from proportio.evaluation import compare
    from proportio.kmm import KMM
    from proportio.methods import BBSE, DFM, RFFM
    from proportio.models import load
    from proportio.sketch import Sketch

__version__ = "0.1.0"

_HOME = {
    "BBSE": "methods",
    "DFM": "methods",
    "KMM": "kmm",
    "RFFM": "methods",
    "compare": "evaluation",
    "correct": "correction",
    "load": "models",
    "Estimate": "estimate",
    "Sketch": "sketch",
    **dict.fromkeys(
        (
            "BoundError",
            "EmptyClassError",
            "FileError",
            "InputError",
            "InputTypeError",
            "MismatchError",
            "NotFittedError",
            "ProportioError",
            "ProportioWarning",
        ),
        "errors",
    ),
}

__all__ = [
    "BBSE",
    "DFM",
    "KMM",
    "RFFM",
    "BoundError",
    "EmptyClassError",
    "Estimate",
    "FileError",
    "InputError",
    "InputTypeError",
    "MismatchError",
    "NotFittedError",
    "ProportioError",
    "ProportioWarning",
    "Sketch",
    "baselines",
    "compare",
    "correct",
    "evaluation",
    "features",
    "load",
]


def __getattr__(name: str) -> Any:
    if name in ("baselines", "datasets", "evaluation", "features"):
        return importlib.import_module(f"proportio.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'proportio' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"proportio.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
