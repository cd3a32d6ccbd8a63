"""`proportio demo`: handwritten digits, one of them unknown to the reference, the others in new shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits

from proportio.auto import AutoDFM
from proportio.estimate import Estimate
from proportio.methods import BBSE, RFFM

WITHHELD_SHARE = 0.2


@dataclass(frozen=True)
class Batch:
    """Labelled reference rows without the withheld digit, and a batch in which it appears."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[np.int64]
    X_new: npt.NDArray[np.float64]
    y_new: npt.NDArray[np.int64]
    withheld: int

    def share(self, digit: int) -> float:
        return float((self.y_new == digit).mean())


def digits(withheld: int = 4, *, seed: int = 0, size: int = 1000) -> Batch:
    """Half of scikit-learn's digits as reference; the batch is drawn from the other half, small digits more often."""
    rng = np.random.default_rng(seed)
    data: Any = load_digits()
    order = rng.permutation(len(data.target))
    first, second = np.array_split(order, 2)
    first = first[data.target[first] != withheld]
    shares = np.where(np.arange(10) == withheld, 0.0, np.arange(10, 0, -1.0))
    shares *= (1 - WITHHELD_SHARE) / shares.sum()
    shares[withheld] = WITHHELD_SHARE
    labels = data.target[second]
    chance = shares[labels] / np.bincount(labels, minlength=10)[labels]
    drawn = rng.choice(second, size, p=chance / chance.sum())
    return Batch(data.data[first], data.target[first], data.data[drawn], data.target[drawn], withheld)


def estimates(batch: Batch) -> dict[str, Estimate]:
    """Three methods of the paper, and the default beside them."""
    models = {"RFFM": RFFM(), "softRFFM": RFFM(soft=True), "softBBSE+": BBSE(soft=True), "AutoDFM": AutoDFM()}
    return {name: m.fit(batch.X, batch.y).estimate(batch.X_new) for name, m in models.items()}


def lines(withheld: int = 4) -> Iterator[str]:
    """The demo's report, line by line."""
    batch = digits(withheld)
    unseen = batch.share(withheld)
    yield f"Reference: {len(batch.y)} labelled digits, without a single {withheld}."
    yield f"Batch: {len(batch.y_new)} unlabelled digits in other shares, {unseen:.0%} of them a {withheld}."
    yield ""
    found = estimates(batch)
    first = next(iter(found.values()))
    true = np.array([batch.share(k) for k in first.classes])
    error = {name: float(np.linalg.norm(e.proportions - true)) for name, e in found.items()}
    yield f"{'digit':>9}{'reference':>11}{'true':>8}" + "".join(f"{name:>11}" for name in found)
    for i, k in enumerate(first.classes):
        shares = "".join(f"{e.proportions[i]:>11.3f}" for e in found.values())
        yield f"{k:>9}{first.source_prior[i]:>11.3f}{true[i]:>8.3f}{shares}"
    unknown = "".join(f"{e.unknown:>11.3f}" if e.soft else f"{'-':>11}" for e in found.values())
    yield f"{'unknown':>9}{'':>11}{unseen:>8.3f}{unknown}"
    yield f"{'l2 error':>9}{'':>19}" + "".join(f"{e:>11.3f}" for e in error.values())
    yield ""
    best = min(error, key=error.__getitem__)
    yield (
        f"{best} comes nearest to the true shares (l2 error {error[best]:.3f}). Of the {unseen:.0%} that no reference digit "
        f"explains, AutoDFM leaves {found['AutoDFM'].unknown:.0%} unexplained, softRFFM {found['softRFFM'].unknown:.0%}, "
        f"softBBSE+ {found['softBBSE+'].unknown:.0%}; "
        "RFFM has to hand all of it to the known digits."
    )
    if withheld != 8:
        yield "Some digits hide better among the others: try --withhold 8."
