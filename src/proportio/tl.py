"""Class shares for scanpy: `estimate(adata, reference, labels_key="cell_type")`, with results where its tools leave theirs.

adata.uns[key_added]                  params, shares (one line for each sample and class), samples (one line each)
adata.obs[f"{key_added}_unknown"]     1 − Σ α̂_i μ̂_i(x)/μ̂_Q(x) of each cell within its sample, in [0, 1]
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError, InputTypeError, MismatchError
from proportio.estimate import Estimate
from proportio.methods import RFFM
from proportio.quantifier import Quantifier
from proportio.sources import Floats, listed

__all__ = ["estimate"]

ALL = "all"  # the one sample where no key tells samples apart


def estimate(
    adata: Any,
    reference: Any,
    *,
    labels_key: str | None = None,
    sample_key: str | None = None,
    key_added: str = "proportio",
    use_rep: str | None = None,
    layer: str | None = None,
    copy: bool = False,
    level: float = 0.95,
    **options: Any,
) -> Any:
    """Estimate the share of each class of `reference` in every sample of `adata`; returns None, or with `copy` the copy.

    `reference` is an AnnData with the labels in `obs[labels_key]` (it may be `adata` itself: the cells that have a label), or a
    model that was fitted before on the same variables. `sample_key` names the column of `adata.obs` that tells samples
    apart. The rows are X, a `layer`, or `obsm[use_rep]` of both; genes are matched by name. `options` are those of `RFFM`,
    which is soft unless told.
    """
    if not hasattr(adata, "obs") or not hasattr(adata, "uns"):
        raise InputTypeError(
            f"adata is {type(adata).__name__}, not an AnnData: arrays and frames go to RFFM(...).estimate."
        )
    if layer is not None and use_rep is not None:
        raise InputError(
            f"layer={layer!r} and use_rep={use_rep!r} exclude each other: a layer has genes, obsm its own columns."
        )
    adata = adata.copy() if copy else adata
    if isinstance(reference, Quantifier):
        if options or labels_key is not None:
            raise InputError(
                "reference is a fitted model, so that labels_key and options have nothing to say: leave them out."
            )
        model, names = reference, reference.columns_.names
    else:
        names = _names(reference, use_rep)
        model = _fitted(reference, labels_key, use_rep, layer, options)
    rows = _rows(adata, use_rep, layer, names, "adata")
    samples = _samples(adata, sample_key)
    found: dict[str, Estimate] = {}
    scores = np.full(len(rows), np.nan)
    for name, mine in samples.items():
        found[name] = model.estimate(rows[mine])
        scores[mine] = model.score_unknown(rows[mine])
    params = {"labels_key": labels_key, "sample_key": sample_key, "use_rep": use_rep, "layer": layer, "level": level}
    kept = {k: v for k, v in {**params, **options, "method": type(model).__name__}.items() if v is not None}
    adata.uns[key_added] = {"params": kept, "shares": _shares(found, level), "samples": _verdicts(found)}
    adata.obs[f"{key_added}_unknown"] = scores
    return adata if copy else None


def _fitted(
    reference: Any, labels_key: str | None, use_rep: str | None, layer: str | None, options: dict[str, Any]
) -> Quantifier:
    if labels_key is None:
        raise InputError("labels_key is missing: which column of reference.obs has the classes?")
    labels = _column(reference, labels_key, "reference")
    known = labels.notna().to_numpy()
    if not known.any():
        raise InputError(f"reference.obs[{labels_key!r}] has no label at all: give a reference with labelled cells.")
    rows = _rows(reference, use_rep, layer, None, "reference")[known]
    model = RFFM(**{"soft": True, **options})
    return model.fit(
        rows, labels[known].astype(str).to_numpy(dtype=str) if labels.dtype == "category" else labels[known].to_numpy()
    )


def _column(adata: Any, key: str, what: str) -> Any:
    if key not in adata.obs:
        raise MismatchError(f"{what}.obs has no column {key!r}; it has {listed(list(adata.obs.columns))}.")
    return adata.obs[key]


def _names(adata: Any, use_rep: str | None) -> tuple[str, ...] | None:
    """The genes, by which two data sets are matched; a representation has none."""
    return None if use_rep is not None else tuple(map(str, adata.var_names))


def _rows(adata: Any, use_rep: str | None, layer: str | None, names: tuple[str, ...] | None, what: str) -> Floats:
    """The dense matrix, its columns those of `names` in their order."""
    if use_rep is not None:
        if use_rep not in adata.obsm:
            raise MismatchError(f"{what}.obsm has no {use_rep!r}; it has {listed(list(adata.obsm)) or 'nothing'}.")
        found = adata.obsm[use_rep]
    else:
        if layer is not None and layer not in adata.layers:
            raise MismatchError(f"{what} has no layer {layer!r}; it has {listed(list(adata.layers)) or 'none'}.")
        found = adata.X if layer is None else adata.layers[layer]
        if names is not None and tuple(adata.var_names) != names:
            missing = [n for n in names if n not in adata.var_names]
            if missing:
                raise MismatchError(f"{what} lacks {len(missing)} genes of the reference, such as {listed(missing)}.")
            found = found[:, adata.var_names.get_indexer(list(names))]
    if found is None:
        raise InputError(f"{what}.X is empty: name a layer, or use_rep.")
    dense = found.toarray() if hasattr(found, "toarray") else np.asarray(found)
    return np.ascontiguousarray(dense if dense.dtype in (np.float32, np.float64) else dense.astype(np.float32))


def _samples(adata: Any, key: str | None) -> dict[str, npt.NDArray[np.intp]]:
    if key is None:
        return {ALL: np.arange(adata.n_obs)}
    column = _column(adata, key, "adata")
    if column.isna().any():
        raise InputError(
            f"adata.obs[{key!r}] is missing in {int(column.isna().sum())} cells, which belong to no sample: "
            "fill them in."
        )
    groups: dict[Hashable, npt.NDArray[np.intp]] = dict(column.groupby(column, observed=True).indices)
    return {str(name): np.sort(mine) for name, mine in groups.items()}


def _shares(found: dict[str, Estimate], level: float) -> Any:
    import pandas as pd

    lines = [
        (sample, line.name, line.share, *(line.limits or (np.nan, np.nan)), line.prior or 0.0)
        for sample, est in found.items()
        for line in est._lines(level)
    ]
    return pd.DataFrame(lines, columns=["sample", "class", "share", "low", "high", "source_share"])


def _verdicts(found: dict[str, Estimate]) -> Any:
    import pandas as pd

    tests = {sample: est.label_shift_test() for sample, est in found.items()}
    return pd.DataFrame(
        {
            "sample": list(found),
            "cells": [est.n_target for est in found.values()],
            "verdict": [t.verdict for t in tests.values()],
            "pvalue": [t.pvalue for t in tests.values()],
            "effect_size": [t.effect_size for t in tests.values()],
            "status": [est.diagnostics.status for est in found.values()],
        }
    )
