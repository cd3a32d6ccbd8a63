"""Models in files: which classes they are, and how a file becomes one again. No code is ever loaded."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from proportio import storage
from proportio.auto import AutoDFM
from proportio.baselines.counting import ACC, PACC
from proportio.errors import FileError, InputError
from proportio.kmm import KMM
from proportio.methods import BBSE, DFM, RFFM
from proportio.quantifier import Quantifier
from proportio.sketch import restore as restore_sketch
from proportio.sources import Columns

NAMED: dict[str, type[Any]] = {cls.__name__: cls for cls in (DFM, RFFM, KMM, BBSE, AutoDFM, ACC, PACC)}


def load(path: str | os.PathLike[str], *, supply: Any = None) -> Quantifier:
    """The model that `save` wrote. No code is loaded: a classifier or callable that the file cannot carry is `supply`-ed.

    >>> import numpy as np, pathlib, proportio as pp, tempfile
    >>> X = np.random.default_rng(0).normal(size=(100, 2)); y = np.arange(100) % 2
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "ref.safetensors"
    >>> model = pp.RFFM(n_features=20, bandwidth=1.0).fit(X, y)
    >>> model.save(path)
    >>> bool(np.array_equal(pp.load(path).predict(X), model.predict(X)))
    True
    """
    return from_bytes(storage.read(path), where=str(path), supply=supply)


def from_bytes(data: bytes, *, where: str = "the bytes given", supply: Any = None) -> Quantifier:
    """The model whose `to_bytes` this is."""
    meta, arrays = storage.unpack(data, "model", where)
    given = [] if supply is None else list(supply) if type(supply) is list else [supply]
    try:
        cls = NAMED[meta["class"]]
        params = meta["params"]
        if cls is DFM:
            params = {**params, "features": None}
        model: Quantifier = cls(**params)
        sketch_arrays = {k.removeprefix("sketch."): v for k, v in arrays.items() if k.startswith("sketch.")}
        model.sketch_ = restore_sketch(meta["sketch"], sketch_arrays)
        model._restore_map(
            meta["map"], {k.removeprefix("map."): v for k, v in arrays.items() if k.startswith("map.")}, given
        )
        names = meta["columns"]["names"]
        model._set_columns(Columns(meta["columns"]["count"], None if names is None else tuple(names)))
        model.classes_ = np.array(meta["classes"]["values"], dtype=np.dtype(meta["classes"]["dtype"]))
        _check_whole(model)
        model.reading_ = dict(meta.get("reading", {}))
        model._gram = None
    except FileError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise FileError(f"{where}: not the contents of a model ({error!r}).") from error
    return model


def _check_whole(model: Any) -> None:
    """Refuse parts that do not fit: labels of the sketch, columns of the map, its dimension."""
    count, names, sketch = model.columns_.count, model.columns_.names, model.sketch_
    mapped = hasattr(model, "features_")  # all but exact kernels, which keep rows
    knows = model.features_.columns_.count if mapped else len(model.center_)
    fits = (model.features_.dim, model.columns_.count) if mapped else (float("inf"), sketch.rows.shape[1])
    labels = sketch.groups is not None and list(sketch.groups) == model.classes_.tolist()
    named = names is None or (len(names) == count and all(isinstance(n, str) for n in names))
    if not (labels and named and len(set(sketch.groups)) >= 2 and (knows, sketch.dim, count) == (count, *fits)):
        raise FileError("its classes, columns and feature map do not fit together: not a file that proportio wrote.")
