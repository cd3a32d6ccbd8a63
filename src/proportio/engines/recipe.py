"""What makes the same sketch of a part anywhere: Φ, the seed of the blocks, the columns, what becomes of missing values.

A recipe travels as safetensors, numbers and JSON, wherever Φ can; a Φ with a classifier or callable of the user's is pickled.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio import storage
from proportio.engines.local import Part, fold
from proportio.errors import FileError, InputError
from proportio.features.base import FeatureMap, restore
from proportio.sketch import BlockSketch, sketch_rows
from proportio.sources import Columns, Floats, OnMissing, Source
from proportio.sources.arrow import as_frame

STRIDE = 1 << 40  # positions between parts of unknown length: no part has more rows


@dataclass(frozen=True)
class Recipe:
    """A fitted map and all else that a sketch depends on, beside the rows and their positions.

    Each row is dealt to a block by a hash of its position and content. Parts of known length begin where they begin in the
    whole, and the blocks are those of one pass; the others begin `STRIDE` apart. Any positions do, as long as no two rows
    share one: the hash then deals every row independently and evenly. Which block a row is in changes error bars within
    their own noise; the sums over all blocks, and so the shares, do not depend on it. (Where rows are dropped, one pass
    counts positions without them, so that the blocks of parts differ from its own though they begin where they should.)
    """

    features: FeatureMap
    seed: int
    map_id: str
    columns: Columns
    on_missing: OnMissing

    def part(self, rows: Source, start: int, n_jobs: int | None) -> Part:
        """The sketch of a part of a whole, which may be empty."""

        def add(X: Floats, weights: npt.NDArray[np.float64] | None, start: int, onto: Any) -> BlockSketch:
            return sketch_rows(
                self.features,
                X,
                weights=weights,
                start=start,
                seed=self.seed,
                n_jobs=n_jobs,
                map_id=self.map_id,
                onto=onto,
            )

        return fold(
            add, rows, columns=self.columns, on_missing=self.on_missing, start=start, n_jobs=n_jobs, partial=True
        )

    def to_bytes(self) -> bytes:
        """Without code: refused where Φ needs a classifier or a callable that no file may carry."""
        meta, arrays = self.features.state()
        restore(meta, arrays, [])
        body = {"map": meta, "seed": self.seed, "map_id": self.map_id, "on_missing": self.on_missing}
        return storage.pack("recipe", body, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> Recipe:
        """Inverse of `to_bytes`."""
        meta, arrays = storage.unpack(data, "recipe")
        features = restore(meta["map"], arrays, [])
        return cls(features, meta["seed"], meta["map_id"], features.columns_, meta["on_missing"])

    def __reduce__(self) -> tuple[Any, ...]:
        try:
            return Recipe.from_bytes, (self.to_bytes(),)
        except (FileError, InputError):
            features = copy.copy(self.features)
            features.folds_ = None  # of the rows of the reference: large, and of no use to a batch
            return Recipe, (features, *(getattr(self, f.name) for f in fields(self)[1:]))


@dataclass(frozen=True, repr=False)
class Partition(Source):
    """The tables of one partition, as an engine hands them to its worker; read once. Arrays have the columns they have."""

    name: str
    tables: Iterable[Any]
    names: tuple[str, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        for table in self.tables:
            frame = as_frame(table)
            yield table if frame is None else frame.select(*(columns or self.names)).to_native()
