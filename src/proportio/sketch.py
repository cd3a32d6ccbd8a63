"""The sketch of a data set: for each class and block, S = Σ w Φ(x), with n, Σw, Σw² and Σw²‖Φ(x)‖².

Sketches of parts add up to the sketch of the whole (a commutative monoid). Rows are dealt to the K blocks of their
class by a hash of position and content, so that no order in the file biases the blocks; from the scatter of the
blocks come the covariances of every linear functional of Φ after the rows are gone (docs/design/0001).
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from proportio import storage
from proportio._compiled.sums import deal
from proportio.errors import EmptyClassError, FileError, InputError, InputTypeError, MismatchError
from proportio.features.base import FeatureMap, check_parts
from proportio.sources import Floats
from proportio.tally import Tally

Array = npt.NDArray[np.float64]
Label = Any

BLOCKS = 64
FEW_BLOCKS = 16


def blocks_for(n_groups: int) -> int:
    """Blocks a class: 64 up to 16 classes, then fewer (at least 8), so that the sketch stays a few megabytes."""
    return int(np.clip(1 << int(np.log2(1024 / max(n_groups, 1))), 8, BLOCKS))


@dataclass(frozen=True, eq=False)
class Sketch(ABC):
    """Block sums of a data set under one feature map: `a + b`, `Sketch.merge([...])`, `to_bytes`, `save`.

    `groups` are the class labels of a reference, or None for an unlabelled batch (one group).
    """

    tally: Tally
    map_id: str
    groups: tuple[Label, ...] | None = None

    @property
    def n_groups(self) -> int:
        return len(self.tally.rows)

    @property
    def n_blocks(self) -> int:
        return int(self.tally.rows.shape[1])

    @property
    def n_rows(self) -> int:
        """Rows in the sketch."""
        return int(self.tally.counts.sum())

    @property
    def dim(self) -> float:
        """D, the dimension of Φ; infinite for exact kernels."""
        return float("inf")

    def __add__(self, other: Sketch) -> Self:
        if not isinstance(other, Sketch):
            return NotImplemented
        self._check_same(other)
        return self._plus(other)

    def __radd__(self, other: Any) -> Self:
        return self if other == 0 else NotImplemented  # so that `sum` adds sketches up

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {self.n_rows:,} rows, {self.n_groups} × {self.n_blocks} blocks ({self.map_id})"

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}  # not what is only remembered

    @staticmethod
    def merge(parts: Iterable[Sketch]) -> Sketch:
        """The sketch of all parts together."""
        parts = list(parts)
        if not parts:
            raise InputError("merge got no sketches: give at least one.")
        return functools.reduce(lambda a, b: a + b, parts)

    def _check_same(self, other: Sketch) -> None:
        for what, mine, yours in (
            ("kinds", type(self).__name__, type(other).__name__),
            ("feature maps", self.map_id, other.map_id),
            ("classes", self.groups, other.groups),
            ("numbers of blocks", self.n_blocks, other.n_blocks),
        ):
            if mine != yours:
                raise MismatchError(
                    f"these sketches have different {what} ({mine} and {yours}) and cannot be merged: "
                    "make every part with the same saved model, model.sketch(part)."
                )

    @property
    def coarse(self) -> Sketch:
        """The same sums in fewer blocks, for what needs no more; itself where that would save nothing."""
        return self

    @abstractmethod
    def _plus(self, other: Any) -> Self: ...

    @abstractmethod
    def block_products(self, other: Any) -> Array:
        """⟨S_gk, S_hl⟩ of the block sums, shape (groups, blocks, groups, blocks) of the two."""

    @abstractmethod
    def mean_products(self, other: Any) -> Array:
        """⟨Φ̂_g, S_hl⟩ of the group means with the block sums of `other`, shape (groups, its groups, its blocks)."""

    @abstractmethod
    def block_norms(self) -> Array:
        """‖S_gk‖² of the block sums, shape (groups, blocks)."""

    @abstractmethod
    def products(self, other: Any) -> Array:
        """⟨Φ̂_g, Φ̂_h⟩ of the group means, shape (groups, groups)."""

    def require_rows(self) -> None:
        """Refuse a group without rows: it has no mean."""
        empty = np.flatnonzero(self.tally.totals <= 0)
        if len(empty) and self.groups is None:
            raise InputError("the sketch of the batch has no rows: there are no shares to estimate.")
        if len(empty) and self.groups is not None:
            names = ", ".join(repr(self.groups[i]) for i in empty[:5])
            raise EmptyClassError(
                f"class {names} has no rows (or only rows of weight 0) in the reference: "
                "add rows for it, or leave it out of `classes`."
            )

    def to_bytes(self) -> bytes:
        """safetensors, with a checksum; `Sketch.from_bytes` reads it back."""
        meta, arrays = self.state()
        return storage.pack("sketch", meta, arrays)

    @staticmethod
    def from_bytes(data: bytes) -> Sketch:
        """Inverse of `to_bytes`; refuses bytes that are truncated, altered or not a sketch."""
        return _read(data, "the bytes given")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, whole or not at all."""
        storage.write(path, self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Sketch:
        """Read what `save` wrote."""
        return _read(storage.read(path), str(path))

    def state(self) -> tuple[dict[str, Any], storage.Arrays]:
        """JSON and arrays from which `restore` rebuilds the sketch."""
        groups = None if self.groups is None else [plain(g) for g in self.groups]
        meta, arrays = self._state()
        meta = {"form": type(self).__name__, "map_id": self.map_id, "groups": groups, **meta}
        return meta, {"tally": self.tally.stacked(), **arrays}

    @abstractmethod
    def _state(self) -> tuple[dict[str, Any], storage.Arrays]: ...

    @classmethod
    @abstractmethod
    def _restore(cls, common: dict[str, Any], meta: dict[str, Any], arrays: storage.Arrays) -> Self: ...


FORMS: dict[str, type[Sketch]] = {}


@dataclass(frozen=True, eq=False, repr=False)
class BlockSketch(Sketch):
    """Sums (groups, blocks, D) of the raw features φ in float64; Φ = amplitude ∘ φ.

    >>> import numpy as np, proportio as pp
    >>> X = np.random.default_rng(0).normal(size=(100, 2)); y = np.arange(100) % 2
    >>> model = pp.RFFM(n_features=20, bandwidth=1.0).fit(X, y)
    >>> whole, parts = model.sketch(X), model.sketch(X[:40]) + model.sketch(X[40:])
    >>> bool(np.array_equal(whole.sums.sum(axis=1), parts.sums.sum(axis=1)))
    True
    """

    sums: Array = field(kw_only=True)
    amplitude: Array = field(kw_only=True)

    @property
    def dim(self) -> float:
        return float(self.sums.shape[2])

    def means(self) -> Array:
        """B = [Φ̂_1 … Φ̂_c], (D, groups)."""
        self.require_rows()
        return self._means

    @functools.cached_property
    def _means(self) -> Array:
        out: Array = (self.amplitude * self.sums.sum(axis=1) / self.tally.totals[:, None]).T
        out.flags.writeable = False
        return out

    @functools.cached_property
    def coarse(self) -> BlockSketch:
        if self.n_blocks <= FEW_BLOCKS:
            return self
        sums = self.sums.reshape(self.n_groups, FEW_BLOCKS, -1, self.sums.shape[2]).sum(axis=2)
        return type(self)(self.tally.merged(FEW_BLOCKS), self.map_id, self.groups, sums=sums, amplitude=self.amplitude)

    def block_products(self, other: BlockSketch) -> Array:
        a = (self.sums * self.amplitude).reshape(-1, self.sums.shape[2])
        b = (other.sums * other.amplitude).reshape(-1, other.sums.shape[2])
        return (a @ b.T).reshape(*self.sums.shape[:2], *other.sums.shape[:2])

    def mean_products(self, other: BlockSketch) -> Array:
        scaled = self.means().T * other.amplitude
        return (scaled @ other.sums.reshape(-1, other.sums.shape[2]).T).reshape(self.n_groups, *other.sums.shape[:2])

    def block_norms(self) -> Array:
        return np.asarray(np.square(self.sums) @ self.amplitude**2)

    def products(self, other: BlockSketch) -> Array:
        out: Array = self.means().T @ other.means()
        return out

    def _plus(self, other: BlockSketch) -> Self:
        return type(self)(
            self.tally + other.tally, self.map_id, self.groups, sums=self.sums + other.sums, amplitude=self.amplitude
        )

    def _state(self) -> tuple[dict[str, Any], storage.Arrays]:
        return {}, {"sums": self.sums, "amplitude": self.amplitude}

    @classmethod
    def _restore(cls, common: dict[str, Any], meta: dict[str, Any], arrays: storage.Arrays) -> Self:
        check_parts(arrays, {"sums": (*common["tally"].rows.shape, None)})
        check_parts(arrays, {"amplitude": arrays["sums"].shape[2:]})
        sums, amplitude = (arrays[name].astype(np.float64) for name in ("sums", "amplitude"))
        return cls(**common, sums=sums, amplitude=amplitude)


def sketch_rows(
    phi: FeatureMap,
    X: Floats,
    groups: npt.NDArray[np.int32] | None = None,
    labels: Sequence[Label] | None = None,
    *,
    weights: Array | None = None,
    start: int = 0,
    seed: int = 0,
    n_jobs: int | None = None,
    map_id: str | None = None,
    onto: BlockSketch | None = None,
) -> BlockSketch:
    """The sketch of validated rows under a fitted map; `groups` holds each row's class index (None: one group).

    `start` is the position of the first row in its source: with the right start, parts dealt apart fall into the
    same blocks as the whole dealt at once. `onto` is the sketch of the rows before: continued row by row, so that
    the division of a stream in batches changes no bit where adding sketches would round.
    """
    n_groups = 1 if labels is None else len(labels)
    shape = (n_groups, blocks_for(n_groups))
    cells = deal_cells(X, groups, shape, start, seed)
    n_cells = shape[0] * shape[1]
    sums = np.zeros((n_cells, phi.dim)) if onto is None else onto.sums.reshape(n_cells, -1).copy()
    norm2 = np.zeros(n_cells) if onto is None else onto.tally.norm2.ravel().copy()
    used = np.ones(len(X), dtype=bool)
    if groups is None or phi.folds_ is None:
        phi.accumulate(X, cells, weights, sums, norm2, n_jobs)
    else:
        used = phi.folds_ >= 0
        for k in range(int(phi.folds_.max()) + 1):
            rows = phi.folds_ == k
            w = None if weights is None else weights[rows]
            phi.member(k).accumulate(X[rows], cells[rows], w, sums, norm2, n_jobs)
    before = None if onto is None else onto.tally
    tally = Tally.of(cells[used], shape, None if weights is None else weights[used], norm2, before)
    return BlockSketch(
        tally,
        phi.identity() if map_id is None else map_id,
        None if labels is None else tuple(plain(v) for v in labels),
        sums=sums.reshape(*shape, -1),
        amplitude=phi.amplitude_,
    )


def deal_cells(
    X: Floats, groups: npt.NDArray[np.int32] | None, shape: tuple[int, int], start: int, seed: int
) -> npt.NDArray[np.int32]:
    """The cell of each row: its class's stretch of blocks, and within it the block that its hash deals it to."""
    blocks = deal(X, start, seed, shape[1])
    return blocks if groups is None else (groups * np.int32(shape[1]) + blocks).astype(np.int32)


def plain(label: Any) -> Any:
    """A NumPy scalar as the Python value that JSON knows."""
    return label.item() if isinstance(label, np.generic) else label


def restore(meta: dict[str, Any], arrays: storage.Arrays) -> Sketch:
    """The sketch whose `state` this is."""
    groups = None if meta["groups"] is None else tuple(meta["groups"])
    if not all(isinstance(name, str) for name in (meta["map_id"], meta["form"])):
        raise FileError("the sketch does not say of what map it is: not a file that proportio wrote.")
    check_parts(arrays, {"tally": (4, 1 if groups is None else len(groups), None)})
    tally = arrays["tally"].astype(np.float64)
    if (tally < 0).any():
        raise FileError("the sketch counts less than no rows: not a file that proportio wrote.")
    common = {"tally": Tally(*tally), "map_id": meta["map_id"], "groups": groups}
    return FORMS[meta["form"]]._restore(common, meta, arrays)


def _read(data: bytes, where: str) -> Sketch:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InputTypeError(f"a sketch is read from bytes, got {type(data).__name__}.")
    meta, arrays = storage.unpack(bytes(data), "sketch", where)
    try:
        return restore(meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise FileError(f"{where}: not the contents of a sketch ({error!r}).") from error


FORMS["BlockSketch"] = BlockSketch
