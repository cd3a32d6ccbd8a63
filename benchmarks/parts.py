"""Simulations in parts: each part is a file of some replications, written whole or not at all, and never run again."""

from __future__ import annotations

import io
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

SECONDS_A_PART = 10  # of a free core, about; what a kill can lose
ROUND = (
    100  # replications that every family gets before any gets more, those of more than a second apart: they come last
)

Replication = Callable[[int], dict[str, Any]]


class Simulated(ABC):
    """A family of replications; their number decides everything that is drawn."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A folder's name, unique."""

    @property
    @abstractmethod
    def work(self) -> float:
        """Seconds of one replication, roughly: for the order, and for the size of a part."""

    @abstractmethod
    def prepared(self) -> Replication:
        """The function that runs replication number k."""

    def to_do(self, reps: int) -> Iterator[tuple[int, int]]:
        """The first replication of each part, and the one after its last."""
        size = next(k for k in (50, 20, 10, 5, 1) if k * self.work <= SECONDS_A_PART or k == 1)
        return ((a, min(a + size, reps)) for a in range(0, reps, size))


def simulate(chosen: Sequence[Simulated], kept: Path, reps: int, minutes: float) -> None:
    """Run what is missing, cheap families first; a line a part, with the time that is left."""
    parts = [(f, a, b, kept / f.name / f"{a:05d}-{b:05d}.npz") for f in chosen for a, b in f.to_do(reps)]
    parts.sort(key=lambda p: (p[0].work > 1, p[1] // ROUND, p[0].work, p[0].name))
    missing = [part for part in parts if not part[3].exists()]
    left = sum((b - a) * f.work for f, a, b, _ in missing)
    began, spent, foreseen, current = time.perf_counter(), 0.0, 0.0, ""
    for f, a, b, path in missing:
        if time.perf_counter() - began > 60 * minutes:
            break
        started = time.perf_counter()
        if f.name != current:
            current, replicate = f.name, f.prepared()
        _keep(path, [replicate(k) for k in range(a, b)])
        took, weight = time.perf_counter() - started, (b - a) * f.work
        spent, foreseen, left = spent + took, foreseen + weight, left - weight
        eta = f"about {left * spent / foreseen / 60:.0f} min left"
        print(f"{f.name}: {b:,} of {reps:,}, {1000 * took / (b - a):.0f} ms each; {eta}", file=sys.stderr, flush=True)


def _keep(path: Path, seen: list[dict[str, Any]]) -> None:
    held = io.BytesIO()
    np.savez_compressed(held, allow_pickle=False, **{key: np.array([s[key] for s in seen]) for key in seen[0]})
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_bytes(held.getvalue())
    beside.replace(path)


def gathered(folder: Path) -> dict[str, np.ndarray]:
    """All parts of a family, one row a replication; empty where nothing has run."""
    parts = [dict(np.load(f)) for f in sorted(folder.glob("*.npz"))]
    return {key: np.concatenate([p[key] for p in parts]) for key in parts[0]} if parts else {}
