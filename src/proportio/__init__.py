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
    from proportio import baselines, evaluation, features, tl
    from proportio.auto import AutoDFM, quantify
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
    from proportio.monitor import Monitor
    from proportio.sketch import Sketch
    from proportio.sources import Source, scan

__version__ = "0.1.0"

_HOME = {
    "AutoDFM": "auto",
    "BBSE": "methods",
    "DFM": "methods",
    "KMM": "kmm",
    "RFFM": "methods",
    "compare": "evaluation",
    "correct": "correction",
    "load": "models",
    "quantify": "auto",
    "Monitor": "monitor",
    "Source": "sources",
    "scan": "sources",
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
    "AutoDFM",
    "BoundError",
    "EmptyClassError",
    "Estimate",
    "FileError",
    "InputError",
    "InputTypeError",
    "MismatchError",
    "Monitor",
    "NotFittedError",
    "ProportioError",
    "ProportioWarning",
    "Sketch",
    "Source",
    "baselines",
    "compare",
    "correct",
    "evaluation",
    "features",
    "load",
    "quantify",
    "scan",
    "tl",
]


def __getattr__(name: str) -> Any:
    if name in ("baselines", "datasets", "evaluation", "features", "tl"):
        return importlib.import_module(f"proportio.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'proportio' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"proportio.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
