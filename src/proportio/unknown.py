"""What no class explains: a score for each row, a share certified from below, and rows flagged at a false-discovery rate.

    score        1 − Σ α̂_i μ̂_i(x)/μ̂_Q(x) in [0, 1],  μ̂_i(x) = ⟨Φ(x), Φ̂_i⟩ a smoothed density
    at least     α_0 ≥ (Q(A) − max_i P_i(A))/(1 − max_i P_i(A)) for any region A fixed beforehand     (Clopper-Pearson limits)
    flagged      p(x) = max_i p_i(x), p_i(x) = (1 + #{j of class i : μ̂_i(x_j) ≤ μ̂_i(x)})/(1 + n_i), by Benjamini and Hochberg

The last two need labelled rows that the model was not fitted on (`calibration`): on its own reference rows a model finds
everything familiar. No upper limit below 1 is ever certified: the unknown may look like a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from proportio.errors import InputError
from proportio.gram import GramSystem
from proportio.profile import UnknownProfile, profile
from proportio.simplex import solve
from proportio.sketch import Sketch
from proportio.sources import Columns, Floats, read_labels, read_rows

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class UnknownAtLeast:
    """α_0 ≥ `share` with probability ≥ 1 − `delta`, if each class looks in the batch as in the calibration rows.

    Of the batch's rows a share of at least `inside` lies where the score exceeds `threshold`, of each class at most `at_most`.
    """

    share: float
    delta: float
    inside: float
    at_most: float
    threshold: float
    rows: int

    def __float__(self) -> float:
        return self.share


@dataclass(frozen=True, eq=False)
class Flags:
    """`flags`: rows that no class explains, of which at most a share `fdr` is expected to be wrong; `pvalues` of all rows."""

    flags: npt.NDArray[np.bool_]
    pvalues: Array
    fdr: float


class KnowsUnknown(ABC):
    """The methods of a quantifier that speak of rows."""

    classes_: npt.NDArray[Any]
    columns_: Columns
    sketch_: Sketch

    @property
    @abstractmethod
    def gram_(self) -> Array: ...

    @abstractmethod
    def _check_fitted(self) -> None: ...

    @abstractmethod
    def _check_sketch(self, target: Sketch) -> None: ...

    @abstractmethod
    def _sketch(self, X: Floats, groups: Any, weights: Array | None, start: int, onto: Any) -> Sketch: ...

    @abstractmethod
    def _similarity(self, X: Floats, sketch: Sketch) -> Array: ...

    def score_unknown(self, X: Any) -> Array:
        """For each row of a batch, 1 − Σ α̂_i μ̂_i(x)/μ̂_Q(x) in [0, 1]: how little the classes explain it.

        μ̂_i(x) = ⟨Φ(x), Φ̂_i⟩ and μ̂_Q(x) = ⟨Φ(x), Φ̂(Q)⟩ are smoothed densities, and α̂ the soft shares of the same batch.
        """
        self._check_fitted()
        rows = read_rows(X, expected=self.columns_, on_missing="raise").values
        return self._scores(rows, rows)[0]

    def explain_unknown(self, X: Any, top: int = 5) -> UnknownProfile:
        """What the unknown of a batch looks like: the columns and ranges in which it differs most from what the classes explain."""
        if isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1:
            raise InputError(f"top={top!r}: ask for one column or more.")
        rows = self._rows(X)
        names = self.columns_.names or [f"column {k}" for k in range(self.columns_.count)]
        u = self._scores(rows, rows)[0]
        if not u.any():
            raise InputError("the classes explain every row of this batch: there is nothing unknown to describe.")
        return profile(rows, u, names, int(top))

    def unknown_at_least(
        self, X: Any, calibration: tuple[Any, Any], delta: float = 0.05, random_state: Any = 0
    ) -> UnknownAtLeast:
        """A lower limit of the unknown share of a batch, certified by labelled `calibration` rows (Xc, yc) not fitted on.

        One half of the batch and of the calibration rows chooses the region A (where the score is high), the other counts.
        """
        _check_chance(delta, "delta")
        rows, (known, labels) = self._rows(X), self._calibration(calibration)
        rng = np.random.default_rng(random_state)
        first, hold = rng.random(len(rows)) < 0.5, _halves(labels, rng)
        if first.all() or not first.any():
            raise InputError(
                f"X has {len(rows)} rows: one half chooses a region and the other counts, so give 20 or more."
            )
        scores, calibrated = self._scores(rows[first], rows, known)
        threshold = max(
            np.unique(
                [
                    *np.quantile(scores[first], np.linspace(0.02, 0.98, 49)),
                    *np.quantile(calibrated[hold], (0.9, 0.95, 0.98, 0.99, 1.0)),  # right above the known rows
                ]
            ),
            key=lambda t: _at_least(scores[first] > t, calibrated[hold] > t, labels[hold], delta)[0],
        )
        share, inside, at_most = _at_least(
            scores[~first] > threshold, calibrated[~hold] > threshold, labels[~hold], delta
        )
        return UnknownAtLeast(share, float(delta), inside, at_most, float(threshold), int((~first).sum()))

    def flag_unknown(self, X: Any, calibration: tuple[Any, Any], fdr: float = 0.1) -> Flags:
        """Rows that fit none of the classes, at false-discovery rate `fdr`, by labelled `calibration` rows not fitted on.

        A class of n_i calibration rows gives no p-value below 1/(n_i + 1): about 10/fdr rows a class are needed to flag a tenth.
        """
        _check_chance(fdr, "fdr")
        rows, (known, labels) = self._rows(X), self._calibration(calibration)
        ours, theirs = self._similarity(rows, self.sketch_), self._similarity(known, self.sketch_)
        p = np.zeros(len(rows))
        for i in range(len(self.classes_)):
            own = np.sort(theirs[labels == i, i])
            p = np.maximum(p, (1 + np.searchsorted(own, ours[:, i], side="right")) / (1 + len(own)))
        return Flags(_benjamini_hochberg(p, fdr), p, float(fdr))

    def _rows(self, X: Any) -> Floats:
        self._check_fitted()
        return read_rows(X, expected=self.columns_, on_missing="raise").values

    def _calibration(self, calibration: Any) -> tuple[Floats, npt.NDArray[np.int64]]:
        if not isinstance(calibration, tuple) or len(calibration) != 2:
            raise InputError("calibration must be a pair (Xc, yc): labelled rows that the model was not fitted on.")
        rows = self._rows(calibration[0])
        labels = read_labels(calibration[1], len(rows))
        unseen = [v for v in np.unique(labels).tolist() if v not in self.classes_]
        missing = [v for v in self.classes_.tolist() if (labels == v).sum() < 2]
        if unseen or missing:
            what = "have unknown labels" if unseen else "lack 2 rows of class"
            raise InputError(
                f"the calibration rows {what} {', '.join(map(repr, (unseen or missing)[:5]))}: give rows of every class of the "
                f"model, {self.classes_.tolist()!r}."
            )
        return rows, np.searchsorted(self.classes_, labels).astype(np.int64)

    def _scores(self, batch: Floats, *asked: Floats) -> list[Array]:
        """The scores of rows, by the shares and the density of a batch."""
        target = self._sketch(batch, None, None, 0, None)
        self._check_sketch(target)
        return [self._unexplained(r, self._similarity(r, self.sketch_), target) for r in asked]

    def _unexplained(self, rows: Floats, similarity: Array, target: Sketch) -> Array:
        """The scores of rows by a batch's sketch; `similarity` is theirs with the classes."""
        alpha = solve(GramSystem.of(self.sketch_, target, self.gram_), soft=True).alpha
        alone = float(target.tally.norm2.sum()) / target.tally.totals[0] ** 2  # a row's product with itself, over m
        present = np.maximum(self._similarity(rows, target)[:, 0], alone)
        return np.asarray(np.clip(1 - similarity @ alpha / present, 0, 1))


def clopper_pearson(k: int, n: int, delta: float, *, upper: bool) -> float:
    """The exact one-sided limit of a probability of which k of n trials came true.

    >>> round(clopper_pearson(0, 100, 0.05, upper=True), 4), clopper_pearson(0, 100, 0.05, upper=False)
    (0.0295, 0.0)
    """
    if upper:
        return 1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - delta))
    return 0.0 if k == 0 else float(betaincinv(k, n - k + 1, delta))


def _at_least(
    batch: npt.NDArray[np.bool_], known: npt.NDArray[np.bool_], labels: npt.NDArray[np.int64], delta: float
) -> tuple[float, float, float]:
    """The certified share, and the limits of Q(A) and of max_i P_i(A) that it is made of: δ/2 for the batch, δ/2c a class."""
    inside = clopper_pearson(int(batch.sum()), len(batch), delta / 2, upper=False)
    counts, c = np.bincount(labels), labels.max() + 1
    hits = np.bincount(labels[known], minlength=c)
    at_most = max(
        clopper_pearson(int(k), int(n), delta / (2 * c), upper=True) for k, n in zip(hits, counts, strict=True)
    )
    return max(0.0, (inside - at_most) / (1 - at_most)) if at_most < 1 else 0.0, inside, at_most


def _halves(labels: npt.NDArray[np.int64], rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """Half of each class."""
    half = np.zeros(len(labels), dtype=bool)
    for i in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == i))
        half[mine[: len(mine) // 2]] = True
    return half


def _benjamini_hochberg(p: Array, fdr: float) -> npt.NDArray[np.bool_]:
    order = np.sort(p)
    below = np.flatnonzero(order <= fdr * np.arange(1, len(p) + 1) / len(p))
    return np.asarray(p <= order[below[-1]] if len(below) else np.zeros(len(p), dtype=bool))


def _check_chance(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.floating)) or not 0 < value < 1:
        raise InputError(f"{name}={value!r} must lie between 0 and 1.")
