"""An h5ad file as a source: X, a layer or a reduced representation of it, row by row in dense chunks.

The columns are the variables (`var_names`), or those of `obsm[use_rep]`, called X_pca_0, X_pca_1 and so on; with them come the
columns of `obs` that are to go along, a label or a sample.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from proportio.errors import FileError, InputError, InputTypeError, MismatchError
from proportio.sources.base import Source, listed

CHUNK = 1 << 24  # values made dense at a time


class H5adSource(Source):
    """The cells of one h5ad file; see `pp.scan`. `along` are the columns of `obs` to go along, such as the label."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        layer: str | None = None,
        use_rep: str | None = None,
        along: str | Sequence[str] = (),
        batch_rows: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.batch_rows = batch_rows
        self.name = str(path)
        self._layer, self._rep = layer, use_rep
        if layer is not None and use_rep is not None:
            raise InputError(
                f"layer={layer!r} and use_rep={use_rep!r} exclude each other: a layer has the variables, obsm its own."
            )
        with _open(self.path) as file:
            self._obs = self._read_obs(file)
            self._features = self._names(file)
        chosen = [along] if isinstance(along, str) else list(along)
        unknown = [n for n in chosen if n not in self._obs.columns]
        if unknown:
            raise MismatchError(
                f"{self.name}: obs has no column {listed(unknown)}; it has {listed(self._obs.columns)}."
            )
        self._along = tuple(n for n in chosen if n not in self._features)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self._features, *self._along)

    @property
    def n_rows(self) -> int:
        return len(self._obs)

    @property
    def reading(self) -> dict[str, Any]:
        return {"format": "h5ad", "layer": self._layer, "use_rep": self._rep}

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        import pyarrow as pa

        names = self.columns if columns is None else tuple(columns)
        place = {n: i for i, n in enumerate(self._features)}
        missing = [n for n in names if n not in place and n not in self._obs.columns]
        if missing:
            raise MismatchError(f"{self.name} has no variable {listed(missing)}, of {len(place)} variables.")
        wanted = [n for n in names if n in place]
        at = np.array([place[n] for n in wanted], dtype=np.int64)
        rows = max(1, CHUNK // max(1, len(self._features)))
        with _open(self.path) as file:
            matrix = self._matrix(file)
            for start in range(0, self.n_rows, rows):
                stop = min(start + rows, self.n_rows)
                values = dict(zip(wanted, _dense(matrix, start, stop, at, self.name), strict=True))
                along = {n: _plain(self._obs[n].iloc[start:stop]) for n in names if n not in place}
                yield pa.table({n: values[n] if n in values else pa.array(along[n], from_pandas=True) for n in names})

    def _read_obs(self, file: Any) -> Any:
        return _element(file, "obs", self.name)

    def _names(self, file: Any) -> tuple[str, ...]:
        matrix = self._matrix(file)
        shape = tuple(matrix.shape)
        if len(shape) != 2 or shape[0] != len(self._obs):
            raise FileError(f"{self.name}: {self._key} has shape {shape} beside {len(self._obs)} rows of obs.")
        if self._rep is not None:
            return tuple(f"{self._rep}_{k}" for k in range(shape[1]))
        names = tuple(map(str, _element(file, "var", self.name).index))
        if len(names) != shape[1]:
            raise FileError(f"{self.name}: {len(names)} names in var beside {shape[1]} columns of {self._key}.")
        if len(set(names)) < len(names):
            raise FileError(f"{self.name}: var has a name twice: call adata.var_names_make_unique() and save it again.")
        return names

    @property
    def _key(self) -> str:
        return (
            f"obsm/{self._rep}"
            if self._rep is not None
            else f"layers/{self._layer}"
            if self._layer is not None
            else "X"
        )

    def _matrix(self, file: Any) -> Any:
        """The matrix on disk: dense as it is, or sparse by rows."""
        from anndata import io

        if self._key not in file:
            group = self._key.partition("/")[0]
            there = ", ".join(map(repr, file[group])) if "/" in self._key and group in file else "none"
            raise MismatchError(f"{self.name}: has no {self._key}; in {group} there is {there}.")
        found = file[self._key]
        if hasattr(found, "shape"):
            return found
        try:
            return io.sparse_dataset(found)
        except Exception as error:  # whatever a file that is not what it says makes anndata and HDF5 raise
            raise FileError(f"{self.name}: {self._key} is no matrix that can be read in rows ({error}).") from error


def open_h5ad(
    files: Sequence[Path], *, suffix: str, base: Path | None, batch_rows: int | None, **options: Any
) -> Source:
    """The opener of .h5ad files for `pp.scan`: one at a time, since each has its own obs and var."""
    unknown = set(options) - {"layer", "use_rep", "along"}
    if unknown:
        raise InputTypeError(f"h5ad files take no option {listed(sorted(unknown))}: use layer, use_rep or along.")
    if len(files) > 1:
        raise InputError(
            f"{files[0]} and {len(files) - 1} more: an h5ad source is one file; join them with anndata.concat, or read each apart."
        )
    return H5adSource(files[0], batch_rows=batch_rows, **options)


def _dense(matrix: Any, start: int, stop: int, at: Any, name: str) -> list[Any]:
    try:
        chunk = matrix[start:stop]
        chunk = chunk.tocsc()[:, at].toarray() if hasattr(chunk, "tocsc") else np.asarray(chunk)[:, at]
    except Exception as error:  # as above
        raise FileError(
            f"{name}: damaged: rows {start} to {stop - 1} cannot be read ({error}). Copy it again."
        ) from error
    return list(np.ascontiguousarray(chunk.T))


def _plain(column: Any) -> Any:
    """A categorical column as its values: a category may be missing in a chunk."""
    return column.astype(object) if str(column.dtype) == "category" else column


def _element(file: Any, key: str, name: str) -> Any:
    from anndata import io

    try:
        return io.read_elem(file[key])
    except Exception as error:  # as above
        raise FileError(f"{name}: not an h5ad file, or a damaged one: {key} cannot be read ({error}).") from error


def _open(path: Path) -> Any:
    """The file, open for reading."""
    try:
        import anndata.io  # noqa: F401  # it brings h5py
        import h5py
    except ImportError as error:
        raise InputError(
            f"{path}: reading h5ad needs anndata. Install it: pip install 'proportio[cytometry]'."
        ) from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        why = "no such file" if not path.exists() else "truncated, or not an h5ad file"
        raise FileError(f"{path}: cannot be read: {why} ({' '.join(str(error).split())[:120]}).") from error
