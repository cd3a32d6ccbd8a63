"""A uniform sample of the labelled rows of a source, and the rest of them: what fits a map, and what does not need to.

Each row draws a uniform number; the sample are the `size` rows of the smallest. So it depends on the seed and the order of the
rows, never on their division in batches, and one pass that holds few more rows than the sample finds it.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import InputError
from proportio.sources.base import Labelled, Source, read_labelled
from proportio.sources.tables import Columns, Floats, OnMissing, Rows

Labels = npt.NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """Rows in the order of the source, with their labels and positions; `classes`, `n_rows`, `dropped` are those of all of it."""

    rows: Rows
    labels: Labels
    positions: npt.NDArray[np.int64]
    classes: Labels
    n_rows: int
    dropped: int

    @property
    def whole(self) -> bool:
        """Nothing was left out."""
        return len(self.labels) == self.n_rows


@dataclass
class _Kept:
    """The candidates so far: never more than twice the sample and a batch."""

    keys: npt.NDArray[np.float64]
    positions: npt.NDArray[np.int64]
    values: Floats
    labels: Labels


def draw_sample(
    source: Source, label: str, size: int, seed: int, on_missing: OnMissing, *, serial: bool = False
) -> Sample:
    """`size` rows of `source` drawn uniformly, or all where there are no more; their labels are in its column `label`."""
    rng = np.random.default_rng(seed)
    kept: list[_Kept] = []
    limit, n_rows, dropped = 1.0, 0, 0
    classes: list[Labels] = []
    columns = Columns(0)
    with closing(read_labelled(source, label, on_missing=on_missing, serial=serial)) as batches:
        for batch in batches:
            columns = batch.rows.columns
            keys = rng.random(len(batch.codes))
            taken = np.flatnonzero(keys < limit)
            kept.append(_Kept(keys[taken], n_rows + taken, batch.rows.values[taken], batch.values[batch.codes[taken]]))
            classes.append(batch.present)
            n_rows, dropped = n_rows + len(keys), dropped + batch.rows.dropped
            if sum(len(k.keys) for k in kept) > 2 * size:
                kept = [_smallest(kept, size)]
                limit = float(kept[0].keys.max())
    found = _smallest(kept, size)
    return Sample(
        Rows(found.values, columns), found.labels, found.positions, np.unique(np.concatenate(classes)), n_rows, dropped
    )


def rest_of(
    source: Source, label: str, sample: Sample, on_missing: OnMissing, *, serial: bool = False
) -> Generator[Labelled]:
    """The rows that are not in the sample, in the order of the source: a second pass."""
    first = 0
    with closing(read_labelled(source, label, on_missing=on_missing, serial=serial)) as batches:
        for batch in batches:
            n = len(batch.codes)
            low, high = np.searchsorted(sample.positions, [first, first + n])
            left = np.ones(n, dtype=bool)
            left[sample.positions[low:high] - first] = False
            first += n
            if left.any():
                rows = Rows(batch.rows.values[left], batch.rows.columns)
                yield Labelled(rows, batch.values, batch.codes[left])
    if first != sample.n_rows:
        raise InputError(
            f"{source.name} gave {sample.n_rows:,} rows when it was first read and {first:,} now: fitting needs two passes over "
            "the same rows. Write them to a file, and pass pp.scan(file)."
        )


def _smallest(kept: list[_Kept], size: int) -> _Kept:
    """The rows of the `size` smallest keys, in the order of the source."""
    joined = [np.concatenate(arrays) for arrays in zip(*(vars(k).values() for k in kept), strict=True)]
    if len(joined[0]) > size:
        best = np.sort(np.argpartition(joined[0], size)[:size])
        joined = [a[best] for a in joined]
    return _Kept(*joined)
