"""Estimates with names, and true shares brought into the order of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError
from proportio.estimate import Estimate

Array = npt.NDArray[np.float64]
Estimates = Mapping[str, Estimate] | Estimate


def named(estimates: Estimates) -> dict[str, Estimate]:
    """One estimate or many as a dictionary; all must be of the same classes."""
    if isinstance(estimates, Estimate):
        return {"batch": estimates}
    out = {str(name): est for name, est in estimates.items()}
    if not out:
        raise InputError("there is no estimate to show: give one or more.")
    first = next(iter(out.values()))
    for name, est in out.items():
        if est.classes.tolist() != first.classes.tolist() or est.soft != first.soft:
            raise InputError(
                f"{name!r} has other classes (or another form) than the estimates before it: {est.classes.tolist()!r:.80} and "
                f"{first.classes.tolist()!r:.80}. Show estimates of one model together."
            )
    return out


def true_shares(truth: Any, est: Estimate) -> Array:
    """The true shares in the order of the classes, the unknown share last in the soft form.

    `truth` is a share for each class (and, last, the unknown) or a mapping by label, in which what is no class is unknown.
    """
    c = len(est.classes)
    if isinstance(truth, Mapping):
        given = {str(k): float(v) for k, v in truth.items()}
        shares = [given.pop(str(k), 0.0) for k in est.classes]
        shares.append(sum(given.values()))
    else:
        shares = np.asarray(truth, dtype=np.float64).ravel().tolist()
        if len(shares) == c:
            shares.append(max(0.0, 1 - sum(shares)))
    if len(shares) != c + 1 or not np.isfinite(shares).all() or min(shares) < 0 or max(shares) > 1:
        raise InputError(
            f"truth={truth!r:.80} is not a share between 0 and 1 for each of the {c} classes (and, last, the unknown): "
            "give them in the order of est.classes, or by label."
        )
    return np.asarray(shares if est.soft else shares[:c])


def pairs(truth: Any, estimates: Estimates) -> list[tuple[Estimate, Array]]:
    """Each estimate with its true shares; those of many samples come as a mapping by sample."""
    if isinstance(estimates, Estimate):
        return [(estimates, true_shares(truth, estimates))]
    found = named(estimates)
    known = {str(k): v for k, v in truth.items()} if isinstance(truth, Mapping) else {}
    out = [(est, true_shares(known[name], est)) for name, est in found.items() if name in known]
    if not out:
        raise InputError(f"truth names none of the samples {', '.join(list(found)[:5])}: give {{sample: shares}}.")
    return out


def estimated(est: Estimate) -> Array:
    """The shares, the unknown last in the soft form."""
    return np.append(est.proportions, est.unknown) if est.soft else est.proportions
