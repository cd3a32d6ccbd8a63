"""What is counted beside the sums of a sketch: n, Σw, Σw², Σw²‖Φ(x)‖² of every class and block."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tally:
    """What is counted in each cell (class × block): rows, Σw, Σw², Σw²‖Φ(x)‖². Tallies of parts add up."""

    rows: Array
    weight: Array
    weight2: Array
    norm2: Array

    @classmethod
    def of(
        cls,
        cells: npt.NDArray[np.int32],
        shape: tuple[int, int],
        weights: Array | None,
        norm2: Array,
        onto: Tally | None = None,
    ) -> Tally:
        """The counts of rows in `cells`, added row by row to those of `onto`; `norm2` is given whole."""
        rows = np.bincount(cells, minlength=shape[0] * shape[1]).astype(np.float64).reshape(shape)
        if weights is None:
            kept = (rows, rows, rows) if onto is None else (onto.rows + rows, onto.weight + rows, onto.weight2 + rows)
            return cls(*kept, norm2.reshape(shape))
        before = np.zeros((2, *shape)) if onto is None else np.stack([onto.weight, onto.weight2])
        for total, w in zip(before, (weights, weights * weights), strict=True):
            np.add.at(total.reshape(-1), cells, w)
        return cls(rows if onto is None else onto.rows + rows, before[0], before[1], norm2.reshape(shape))

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(self.stacked(), other.stacked(), strict=True)))

    def stacked(self) -> Array:
        return np.stack([self.rows, self.weight, self.weight2, self.norm2])

    def merged(self, blocks: int) -> Tally:
        """With neighbouring blocks added up, so that `blocks` of them are left."""
        return Tally(*(a.reshape(len(a), blocks, -1).sum(axis=2) for a in self.stacked()))

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """n_i: rows of each class."""
        out: npt.NDArray[np.int64] = np.rint(self.rows.sum(axis=1)).astype(np.int64)
        return out

    @property
    def totals(self) -> Array:
        """Σw of each class."""
        out: Array = self.weight.sum(axis=1)
        return out

    @property
    def effective(self) -> Array:
        """(Σw)²/Σw², the number of equally weighted rows that are worth as much; n_i without weights."""
        w2 = self.weight2.sum(axis=1)
        return np.asarray(np.divide(self.totals**2, w2, out=np.zeros_like(w2), where=w2 > 0))
