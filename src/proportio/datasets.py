"""Data sets of the paper that a user brings: read, checked against known checksums, never shipped.

HIPC (§4.2): the T-cell panel of the Human Immunology Project Consortium, seven markers, ten hand-gated populations. The
expected layout is one Parquet file a sample in one directory:

    {laboratory}_{k}.parquet        k = 1 … 9: patient ⌊(k − 1)/3⌋ + 1, replicate (k − 1) mod 3 + 1
    columns                         the seven MARKERS as float32, and `population`, one of ten names
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.errors import FileError, InputError

MARKERS = ("CCR7", "CD4", "CD45RA", "CD3", "HLADR", "CD38", "CD8")
LABEL = "population"

SHA256 = {  # of the laboratory W2, as prepared for this project
    "W2_1.parquet": "11314453471cc7ac8af037ae503aae258cb70d80ef80e22e06e61b790ef302b5",
    "W2_4.parquet": "82dcf908ea109a3d60c4ad4e33dd3d8a498196d4c25710d8ec14e26308318c96",
    "W2_5.parquet": "faca6af4c072568317bf26d571ec2738137a3dd414fed6612d6acc2943890c95",
    "W2_7.parquet": "5e381b8d79e844ead755082afa35d8ca583db841e784f0cf505989cea36317e7",
    "W2_9.parquet": "02e5f9914aa9be8b05b495496f3c1ea25f4b01b2786b0d34392989c9540bcd16",
}


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells of one patient: markers (n, 7) float32 and the population of each; the replicates joined, as in the paper."""

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.str_]
    columns: tuple[str, ...] = MARKERS

    @property
    def shares(self) -> dict[str, float]:
        """The share of each population."""
        names, counts = np.unique(self.y, return_counts=True)
        return {str(k): float(n) / len(self.y) for k, n in zip(names, counts, strict=True)}


def load_hipc(
    path: str | os.PathLike[str],
    *,
    laboratory: str = "W2",
    samples: Sequence[int] = (1, 4, 5, 7, 9),
    verify: bool = True,
) -> dict[int, Cells]:
    """The patients of one laboratory, {1: Cells, 2: ..., 3: ...}, from the directory that holds the user's own copy.

    Files whose checksum is known (the five of W2) must match it, unless `verify=False`. Other laboratories and samples
    are read the same way and are not verified.
    """
    directory = Path(path)
    if not directory.is_dir():
        raise FileError(
            f"{directory}: no such directory. The HIPC cells are not shipped with proportio: put the files "
            f"{laboratory}_{{k}}.parquet of your own copy there (layout: help(proportio.datasets))."
        )
    found: dict[int, list[Cells]] = {}
    for k in samples:
        if not 1 <= k <= 9:
            raise InputError(
                f"sample {k!r} does not exist: a laboratory has samples 1 to 9, three replicates a patient."
            )
        found.setdefault((k - 1) // 3 + 1, []).append(_sample(directory / f"{laboratory}_{k}.parquet", verify))
    return {p: Cells(np.concatenate([r.X for r in rs]), np.concatenate([r.y for r in rs])) for p, rs in found.items()}


def _sample(path: Path, verify: bool) -> Cells:
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*.parquet"))
        raise FileError(
            f"{path}: this sample is missing; the directory has {', '.join(beside[:9]) or 'no Parquet file'}. "
            "Copy it there, or name the samples that you have with samples=[...]."
        )
    data = path.read_bytes()
    known = SHA256.get(path.name)
    got = hashlib.sha256(data).hexdigest()
    if verify and known is not None and got != known:
        raise FileError(
            f"{path}: its SHA-256 is {got[:12]}…, not {known[:12]}…: damaged, or prepared otherwise. "
            "Copy it again, or pass verify=False to read it as it is."
        )
    table = _read(data, path)
    missing = [name for name in (*MARKERS, LABEL) if name not in table.column_names]
    if missing:
        raise FileError(
            f"{path}: has no column {', '.join(map(repr, missing))}, only {', '.join(table.column_names)}. Rename its columns to "
            f"{', '.join((*MARKERS, LABEL))}."
        )
    columns = [np.asarray(table.column(name).to_numpy(), dtype=np.float32) for name in MARKERS]
    return Cells(np.column_stack(columns), np.asarray(table.column(LABEL).to_pylist(), dtype=np.str_))


def _read(data: bytes, path: Path) -> Any:
    from pyarrow import ArrowException, parquet

    try:
        return parquet.read_table(io.BytesIO(data))
    except ArrowException as error:
        raise FileError(f"{path}: not a Parquet file, or truncated ({error}). Copy it again.") from error
