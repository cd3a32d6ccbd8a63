"""The numbers behind a report as JSON: all of an estimate where that is small, else shares, limits and verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from proportio.estimate import Estimate
from proportio.report.words import drift, label_shift

SCHEMA = 1
DIGITS = 6
SMALL = 250_000  # characters of one estimate that a report carries whole


def embedded(estimates: Mapping[str, Estimate], most: int) -> dict[str, Any]:
    """The JSON of a report: `estimate` whole for a small one, else `samples` in brief, at most `most` samples and classes."""
    if len(estimates) == 1:
        (name, est), *_ = estimates.items()
        c = len(est.classes)
        if 30 * c * c < SMALL and len(whole := est.to_json()) < SMALL:
            return {"schema": SCHEMA, "kind": "report", "sample": name, "estimate": json.loads(whole)}
    first = next(iter(estimates.values()))
    size = np.mean([est.proportions for est in estimates.values()], axis=0)
    kept = np.sort(np.argsort(-size, kind="stable")[: max(most, 5)])
    chosen = list(estimates.items())[:most]
    while len(chosen) * len(kept) > SMALL // 12 and len(kept) > 5:
        kept = kept[: len(kept) // 2] if len(kept) > 10 else kept[:5]
    return {
        "schema": SCHEMA,
        "kind": "report",
        "classes": [first.classes.tolist()[i] for i in kept],
        "source_prior": _short(first.source_prior[kept]),
        "left_out": {"samples": len(estimates) - len(chosen), "classes": len(first.classes) - len(kept)},
        "samples": [{"name": name, **brief(est, kept)} for name, est in chosen],
    }


def brief(est: Estimate, kept: Any = slice(None)) -> dict[str, Any]:
    """Shares, limits and verdicts of one estimate, to six decimals."""
    limits = est._limits()
    shift, moved = label_shift(est), drift(est)
    return {
        "method": est.method,
        "n_target": est.n_target,
        "dropped": est.dropped,
        "proportions": _short(est.proportions[kept]),
        "low": None if limits is None else _short(limits[: len(est.classes), 0][kept]),
        "high": None if limits is None else _short(limits[: len(est.classes), 1][kept]),
        "unknown": round(est.unknown, DIGITS),
        "unknown_limits": _short(limits[-1]) if est.soft and limits is not None else None,
        "label_shift": None if shift is None else {k: shift.to_dict()[k] for k in ("verdict", "pvalue", "effect_size")},
        "drift": None if moved is None else {k: moved.to_dict()[k] for k in ("verdict", "pvalue", "distance")},
        "status": est.diagnostics.status[:500],
        "warnings": [note[:500] for note in est.diagnostics.warnings[:5]],
    }


def script(data: Mapping[str, Any]) -> str:
    r"""JSON that no text within can end: <, > and & are written as escapes.

    >>> script({"class": "</script>"})
    '{"class": "\\u003c/script\\u003e"}'
    """
    text = json.dumps(data, allow_nan=False, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _short(values: Any) -> list[float]:
    return [round(float(v), DIGITS) for v in values]
