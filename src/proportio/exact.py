"""The sketch of an exact kernel: the rows themselves, sorted by cell, and pair sums between cells.

⟨S_gk, S_hl⟩ = Σ_{x in cell (g,k)} Σ_{y in cell (h,l)} w_x w_y k(x, y): the same table of inner products that a
`BlockSketch` offers, so everything downstream is one code. Rows are taken in blocks; no n × m matrix is ever held. The
Energy kernel of one column needs no pairs: sorting gives the same table.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from proportio import storage
from proportio._compiled.threads import resolve_jobs
from proportio.errors import FileError, ProportioWarning
from proportio.features.base import check_parts
from proportio.kernels import Cells, Energy, Gaussian, Kernel, Laplace
from proportio.scaling import check_length
from proportio.sketch import FORMS, Array, Label, Sketch, blocks_for, deal_cells, plain
from proportio.sources import Floats
from proportio.tally import Tally

TABLE_VALUES = 1 << 22  # of pair sums held at a time: 32 MB
CHUNK = 65536  # rows in float64 at a time
OWN_PARTS = 16  # of a sketch that meets itself: all but 1/16 of the pairs that occur twice are summed once
LONG = 10.0  # seconds of pair sums that are announced
FOURIER_COST = 0.1e-6  # seconds of one thread for a row of `RFFM` with D = 1,000


@dataclass(frozen=True, eq=False, repr=False)
class RowSketch(Sketch):
    """Standardised rows (n, d) in float32, sorted by cell; `offsets` says where each cell starts."""

    rows: npt.NDArray[np.float32] = field(kw_only=True)
    weights: Array = field(kw_only=True)
    offsets: npt.NDArray[np.int64] = field(kw_only=True)
    kernel: Kernel = field(kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    @functools.cached_property
    def _own_products(self) -> Array:
        return self._cell_products(self)

    def block_products(self, other: RowSketch) -> Array:
        if other is self:
            return self._own_products
        for a, b, axes in ((self, other, (0, 1, 2, 3)), (other, self, (2, 3, 0, 1))):
            partner, table = b.__dict__.get("_last_products", (None, None))
            if partner is a and table is not None:
                return np.asarray(table).transpose(axes)
        out = self._cell_products(other)
        other.__dict__["_last_products"] = (
            self,
            out,
        )  # shares, intervals and tests of a batch ask for the same pair sums
        return out

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_own_products", "_last_products")}

    @property
    def _cells(self) -> Cells:
        return Cells.between(self.offsets, self.weights)

    def _cell_products(self, other: RowSketch) -> Array:
        if isinstance(self.kernel, Energy) and self.rows.shape[1] == 1:
            table = self.kernel.line_table(self.rows, self._cells, other.rows, other._cells)
        else:
            table = self._pairs(other)
        return table.reshape(*self.tally.rows.shape, *other.tally.rows.shape)

    def _pairs(self, other: RowSketch) -> Array:
        """The table of every two cells by pair sums; with itself, of every cell and those that come after it."""
        own = other is self
        cells = self._cells.of
        out = np.zeros((len(self.offsets) - 1, len(other.offsets) - 1))
        jobs = resolve_jobs(self.n_jobs)
        self._announce(other, jobs)
        for part in parts(len(self.rows), out.shape[1], OWN_PARTS if own else 1):
            since = cells[part.start] if own else 0
            table = self.kernel.pair_sums(self.rows[part], other.rows, other.offsets[since:], other.weights, jobs)
            found, first = np.unique(cells[part], return_index=True)  # sorted: each cell is one stretch of rows
            out[found, since:] += np.add.reduceat((table * self.weights[part, None]).T, first, axis=1).T
        return np.triu(out) + np.triu(out, 1).T if own else out

    def _announce(self, other: RowSketch, jobs: int) -> None:
        """Say beforehand that pair sums will take long, and what would not."""
        n, m = len(self.rows), len(other.rows)
        seconds = self.kernel.seconds(n * m / (2 if other is self else 1), self.rows.shape[1], jobs)
        if seconds > LONG:
            sliced = "KMM(kernel='energy', approx='sliced') or " if isinstance(self.kernel, Energy) else ""
            warnings.warn(
                f"exact {self.kernel.name} sums over {n:,} × {m:,} rows: about {seconds:,.0f} s on {jobs} threads. "
                f"{sliced}RFFM(n_features=1000) would take about {(n + m) * FOURIER_COST / jobs:.2g} s.",
                ProportioWarning,
                stacklevel=2,
            )

    def mean_products(self, other: RowSketch) -> Array:
        out: Array = self.block_products(other).sum(axis=1) / self.tally.totals[:, None, None]
        return out

    def block_norms(self) -> Array:
        out: Array = np.einsum("gkgk->gk", self._own_products)
        return out

    def products(self, other: RowSketch) -> Array:
        self.require_rows()
        other.require_rows()
        sums = self.block_products(other).sum(axis=(1, 3))
        out: Array = sums / self.tally.totals[:, None] / other.tally.totals
        return (out + out.T) / 2 if other is self else out

    def similarity(self, X: npt.NDArray[np.float32]) -> Array:
        """⟨Φ(x), Φ̂_g⟩ = the mean of k(x, ·) over each group, one row each."""
        jobs, groups = resolve_jobs(self.n_jobs), self.offsets[:: self.n_blocks]
        table = np.concatenate(
            [
                self.kernel.pair_sums(X[part], self.rows, groups, self.weights, jobs)
                for part in parts(len(X), self.n_groups)
            ]
        )
        out: Array = table / self.tally.totals
        return out

    def _plus(self, other: RowSketch) -> Self:
        shape = self.tally.rows.shape
        cells = np.concatenate([s._cells.of for s in (self, other)])
        rows = np.concatenate([self.rows, other.rows])
        weights = np.concatenate([self.weights, other.weights])
        return type(self)(
            self.tally + other.tally,
            self.map_id,
            self.groups,
            **_sorted(rows, weights, cells, shape[0] * shape[1]),
            kernel=self.kernel,
            n_jobs=self.n_jobs,
        )

    def _state(self) -> tuple[dict[str, Any], storage.Arrays]:
        return {"kernel": kernel_state(self.kernel)}, {
            "rows": self.rows,
            "weights": self.weights,
            "offsets": self.offsets,
        }

    @classmethod
    def _restore(cls, common: dict[str, Any], meta: dict[str, Any], arrays: storage.Arrays) -> Self:
        n = len(arrays["rows"])
        check_parts(arrays, {"rows": (n, None), "weights": (n,), "offsets": (common["tally"].rows.size + 1,)})
        offsets = arrays["offsets"].astype(np.int64)
        kernel = restore_kernel(meta["kernel"])
        if offsets[0] != 0 or offsets[-1] != n or (np.diff(offsets) < 0).any():
            raise FileError("the rows of the sketch do not fit its blocks: not a file that proportio wrote.")
        if isinstance(kernel, Energy) and len(kernel.origin) != arrays["rows"].shape[1]:
            raise FileError("the kernel's origin does not fit the rows of the sketch: not a file that proportio wrote.")
        rows = np.ascontiguousarray(arrays["rows"], dtype=np.float32)
        return cls(**common, rows=rows, weights=arrays["weights"].astype(np.float64), offsets=offsets, kernel=kernel)


def keep_rows(
    kernel: Kernel,
    X: Floats,
    center: Array,
    scale: Array,
    groups: npt.NDArray[np.int32] | None = None,
    labels: Sequence[Label] | None = None,
    *,
    weights: Array | None = None,
    start: int = 0,
    seed: int = 0,
    n_jobs: int | None = None,
    map_id: str,
) -> RowSketch:
    """The exact sketch of validated rows: the counterpart of `sketch_rows`."""
    n_groups = 1 if labels is None else len(labels)
    shape = (n_groups, blocks_for(n_groups))
    cells = deal_cells(X, groups, shape, start, seed)
    rows = standardized(X, center, scale)
    w = np.ones(len(X)) if weights is None else weights
    norm2 = np.asarray(np.bincount(cells, weights=w * w * kernel.diagonal(rows), minlength=shape[0] * shape[1]), float)
    return RowSketch(
        Tally.of(cells, shape, weights, norm2),
        map_id,
        None if labels is None else tuple(plain(v) for v in labels),
        **_sorted(rows, w, cells, shape[0] * shape[1]),
        kernel=kernel,
        n_jobs=n_jobs,
    )


def parts(n: int, n_cells: int, at_least: int = 1) -> Iterator[slice]:
    """Rows a few thousand at a time, so that their table of pair sums with `n_cells` cells stays small."""
    step = max(256, min(TABLE_VALUES // max(1, n_cells), max(2048, n // at_least)) // 256 * 256)
    return (slice(i, i + step) for i in range(0, n, step))


def standardized(X: Floats, center: Array, scale: Array) -> npt.NDArray[np.float32]:
    """(x − center)/scale in float64, kept in float32."""
    rows = np.empty(X.shape, np.float32)
    for start in range(0, len(X), CHUNK):
        part = slice(start, start + CHUNK)
        rows[part] = (X[part] - center) / scale
    return rows


def kernel_state(kernel: Kernel) -> dict[str, Any]:
    """The kernel as JSON."""
    if isinstance(kernel, (Gaussian, Laplace)):
        return {"name": kernel.name, "sigma": kernel.sigma}
    if isinstance(kernel, Energy):
        return {"name": kernel.name, "origin": list(kernel.origin), "radius": kernel.radius}
    raise FileError(
        "a callable kernel cannot be written to a file, since no file of ours carries code: "
        "use a named kernel ('gaussian', 'laplace', 'energy'), or keep the reference rows and fit again."
    )


def restore_kernel(meta: dict[str, Any]) -> Kernel:
    """Inverse of `kernel_state`."""
    if meta["name"] == "energy":
        radius = meta["radius"]
        return Energy(tuple(map(float, meta["origin"])), None if radius is None else check_length(radius, "radius"))
    return {"gaussian": Gaussian, "laplace": Laplace}[meta["name"]](check_length(meta["sigma"]))


def _sorted(rows: npt.NDArray[np.float32], weights: Array, cells: npt.NDArray[Any], n_cells: int) -> dict[str, Any]:
    order = np.argsort(cells, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=n_cells))]).astype(np.int64)
    return {"rows": np.ascontiguousarray(rows[order]), "weights": weights[order], "offsets": offsets}


FORMS["RowSketch"] = RowSketch
