"""An FCS file as a source: its channels compensated and transformed as declared, event by event in batches.

    x = scale(y S⁻¹),    S the spillover matrix: row i is what each detector sees of the light meant for detector i

Scatter and time are never transformed. What was declared, a matrix included, is `reading`, which a model keeps: a batch is then
read as the reference was.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import FileError, InputError, InputTypeError, MismatchError
from proportio.sources.base import Source, listed
from proportio.sources.fcs import Layout, read_layout
from proportio.sources.scales import Scale, scale

Array = npt.NDArray[np.float64]
Compensation = str | os.PathLike[str] | Mapping[str, Any]

ROWS = 1 << 16


class FcsSource(Source):
    """The events of FCS files, one file after the other, with the channels that all of them have; see `pp.scan`.

    `compensation` is "none", "file" (by the matrix in each file), or a CSV file with a matrix: a header of detectors or markers,
    and one row each in the same order. `transform` is "none", "arcsinh:150" or "logicle:T,W,M,A", for all channels but scatter,
    time and those that go `along` and are no features: a label, a sample.
    """

    def __init__(
        self,
        files: Sequence[str | os.PathLike[str]],
        *,
        compensation: Compensation = "none",
        transform: str = "none",
        along: str | Sequence[str] = (),
        batch_rows: int | None = None,
    ) -> None:
        self.name = str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"
        self.batch_rows = batch_rows
        self._scale: Scale | None = scale(transform)
        self._compensation = _declared(compensation)
        apart = frozenset([along] if isinstance(along, str) else along)
        self._files = tuple(_Events(Path(f), self._compensation, self._scale, apart) for f in files)
        names = [{c.name for c in f.layout.channels} for f in self._files]
        self._columns = tuple(c.name for c in self._files[0].layout.channels if all(c.name in n for n in names))
        if not self._columns:
            raise MismatchError(f"{self.name}: these files have no channel in common: read each panel apart.")

    @property
    def columns(self) -> tuple[str, ...]:
        return self._columns

    @property
    def n_rows(self) -> int:
        return sum(f.layout.n_rows for f in self._files)

    @property
    def reading(self) -> dict[str, Any]:
        return {
            "format": "fcs",
            "compensation": self._compensation,
            "transform": "none" if self._scale is None else self._scale.spec,
        }

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        names = self.columns if columns is None else tuple(columns)
        for file in self._files:
            yield from file.batches(names)

    def parts(self) -> Iterator[tuple[Source, int | None]]:
        start = 0
        for file in self._files:
            part = copy(self)
            part.name, part._files = str(file.path), (file,)
            yield part, start
            start += file.layout.n_rows


def open_fcs(
    files: Sequence[Path], *, suffix: str, base: Path | None, batch_rows: int | None, **options: Any
) -> Source:
    """The opener of .fcs files for `pp.scan`."""
    unknown = set(options) - {"compensation", "transform", "along"}
    if unknown:
        raise InputTypeError(
            f"FCS files take no option {listed(sorted(unknown))}: use compensation, transform or along."
        )
    return FcsSource(files, batch_rows=batch_rows, **options)


class _Events:
    """One file of them."""

    def __init__(
        self, path: Path, compensation: str | dict[str, Any], scale: Scale | None, apart: frozenset[str]
    ) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self.layout: Layout = read_layout(file, str(path))
        except OSError as error:
            raise FileError(f"{path}: cannot be read ({error.strerror or error}).") from error
        self._spread = _spillover(self.layout, compensation)
        self._scales = [scale if c.fluorescence and c.name not in apart else None for c in self.layout.channels]

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """Arrow tables of these channels."""
        import pyarrow as pa

        known = {c.name: i for i, c in enumerate(self.layout.channels)}
        missing = [n for n in names if n not in known]
        if missing:
            raise MismatchError(
                f"{self.path} has no channel {listed(missing)}; it has {listed(list(known))}. "
                "Channels go by their marker ($PnS), and by their detector ($PnN) where they have none."
            )
        places, n_rows = [known[n] for n in names], self.layout.n_rows
        try:
            with self.path.open("rb") as file:
                for start in range(0, n_rows, ROWS):
                    raw = self.layout.read(file, start, min(start + ROWS, n_rows))
                    yield pa.table(dict(zip(names, self._numbers(raw, places), strict=True)))
        except OSError as error:
            raise FileError(f"{self.path}: cannot be read ({error.strerror or error}).") from error

    def _numbers(self, raw: npt.NDArray[Any], places: list[int]) -> list[npt.NDArray[Any]]:
        spread: dict[int, npt.NDArray[Any]] = {}
        if self._spread is not None and set(places) & set(self._spread[0]):
            who, inverse = self._spread
            light = np.stack([self.layout.column(raw, i).astype(np.float64) for i in who])
            spread = dict(zip(who, inverse.T @ light, strict=True))
        out = []
        for i in places:
            values = spread[i] if i in spread else self.layout.column(raw, i)
            scale = self._scales[i]
            out.append(values if scale is None else scale(values))
        return out


def _spillover(layout: Layout, compensation: str | dict[str, Any]) -> tuple[list[int], Array] | None:
    """The channels that the matrix names, and its inverse."""
    if compensation == "none":
        return None
    if isinstance(compensation, str):
        names, matrix = layout.spillover()
        what = f"the spillover matrix of {layout.where}"
    else:
        names, matrix = tuple(compensation["detectors"]), np.asarray(compensation["matrix"], dtype=np.float64)
        what = "the compensation matrix"
    places = {c.name: i for i, c in enumerate(layout.channels)} | {c.detector: i for i, c in enumerate(layout.channels)}
    unknown = [n for n in names if n not in places]
    if unknown:
        raise MismatchError(
            f"{what} names {listed(unknown)}, which {layout.where} does not have; its detectors are "
            f"{', '.join([c.detector for c in layout.channels][:12])}."
        )
    who = [places[n] for n in names]
    if len(set(who)) < len(who) or not np.linalg.cond(matrix) < 1e8:
        raise FileError(f"{what} cannot be inverted: two of its rows say the same. Check where it came from.")
    return who, np.asarray(np.linalg.inv(matrix), dtype=np.float64)


def _declared(compensation: Compensation) -> str | dict[str, Any]:
    """The compensation as a model keeps it: a word, or the matrix itself with its names."""
    if isinstance(compensation, Mapping):
        names, matrix = compensation.get("detectors"), compensation.get("matrix")
    elif compensation in ("none", "file"):
        return str(compensation)
    else:
        names, matrix = _read_matrix(Path(compensation))
    try:
        square = np.asarray(matrix, dtype=np.float64)
        named = [str(n) for n in names or ()]
    except (TypeError, ValueError) as error:
        raise InputError(f"compensation={compensation!r}: its matrix is not made of numbers ({error}).") from error
    if not named or square.shape != (len(named), len(named)) or not np.isfinite(square).all():
        raise InputError(
            f"compensation={str(compensation)!r}: {len(named)} detectors and a matrix of shape {square.shape}: it takes a header "
            "of n detectors and n rows of n finite numbers; or write none, or file for the matrix in each FCS file."
        )
    return {"detectors": named, "matrix": square.tolist()}


def _read_matrix(path: Path) -> tuple[list[str], list[list[float]]]:
    """The header and the rows of a CSV file; a first column of names is left out."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file) if any(line)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileError(
            f"compensation={str(path)!r} is neither none nor file, and as a file with a matrix it cannot be read ({error})."
        ) from error
    if not lines:
        raise FileError(f"{path}: empty; a compensation matrix is a header of detectors and a row for each.")
    head, rows = lines[0], lines[1:]
    if any(len(row) != len(head) for row in rows):
        raise FileError(
            f"{path}: rows of {', '.join(map(str, sorted({len(r) for r in rows})))} cells under {len(head)} of the header."
        )
    first = 1 if len(head) == len(rows) + 1 else 0
    try:
        return head[first:], [[float(cell) for cell in row[first:]] for row in rows]
    except ValueError as error:
        raise FileError(f"{path}: a compensation matrix is made of numbers ({error}).") from error
