"""Streams watched by a monitor: false alarms over whole streams without change, delay after a change, and kills survived.

    python benchmarks/monitor.py [--streams 1000] [--batches 1000] [--reference 1000] [--kills 100]

Every stream has a reference and a model of its own (RFFM, D = 64, three Gaussian classes in the plane), so that the noise of
the reference counts. In "wandering" streams the shares change from batch to batch: label shift holds, and only drift may be
called. Changes come half-way, or at the start.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import proportio as pp
from proportio.monitor import Monitor

CENTRES = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])
SHARES = np.array([0.5, 0.3, 0.2])
WORLDS = ("none", "wandering", "contaminated", "shares moved")


def rows_of(rng: np.random.Generator, y: Any) -> Any:
    """Rows of the classes y; class 3 is the contaminant."""
    return rng.normal(size=(len(y), 2)) + np.vstack([CENTRES, [3.0, 3.0]])[y]


def reference(rng: np.random.Generator, n: int) -> pp.RFFM:
    """A model of n rows."""
    y = rng.choice(3, n, p=SHARES)
    return pp.RFFM(n_features=64, bandwidth=1.0, random_state=int(rng.integers(2**31)), n_jobs=1).fit(
        rows_of(rng, y), y
    )


def shares_of(world: str, changed: bool, rng: np.random.Generator) -> Any:
    """The shares of a batch, the contaminant's last."""
    if world == "wandering":
        return np.append(rng.dirichlet(5 * SHARES), 0.0)
    if world == "contaminated" and changed:
        return np.append(0.9 * SHARES, 0.1)
    if world == "shares moved" and changed:
        return np.array([0.4, 0.3, 0.3, 0.0])
    return np.append(SHARES, 0.0)


def tables(world: str, batches: int, size: int, change: int, rng: np.random.Generator) -> Iterator[Any]:
    """The stream."""
    for t in range(batches):
        yield rows_of(rng, rng.choice(4, size, p=shares_of(world, t >= change, rng)))


def stream(world: str, n: int, batches: int, size: int, change: int, seed: int, *, until: bool) -> dict[str, int]:
    """The batch at which each alarm was first raised; `until`: stop there."""
    rng = np.random.default_rng([seed, WORLDS.index(world), n, change, size])
    model = reference(rng, n)
    monitor = Monitor(model)
    first: dict[str, int] = {}
    for X in tables(world, batches, size, change, rng):  # the shares of a batch have no part in the alarms
        monitor._watch(monitor.functionals.of_rows(model.features_.embed(X, 1), monitor._guess))
        for kind in monitor.alarms:
            first.setdefault(kind, monitor.batches)
        wanted = "drift" if world == "shares moved" else "label_shift"
        if until and (wanted in first):
            break
    return first


def false_alarms(streams: int, n: int, batches: int, size: int) -> None:
    """How many whole streams without change, or with wandering shares, raised an alarm that is false."""
    for world, kinds in (("none", ("drift", "label_shift")), ("wandering", ("label_shift",))):
        began = time.process_time()
        found = [stream(world, n, batches, size, batches, seed, until=False) for seed in range(streams)]
        false = sum(any(k in f for k in kinds) for f in found)
        print(
            f"{world}: {false} of {streams} streams of {batches} batches of {size} rows with a false alarm "
            f"({false / streams:.3f} ± {np.sqrt(false / streams * (1 - false / streams) / streams):.3f}); "
            f"{time.process_time() - began:.0f} s of processor time",
            flush=True,
        )


def delays(streams: int, n: int, batches: int, size: int) -> None:
    """Batches from the change to its alarm."""
    for world, kind in (("contaminated", "label_shift"), ("shares moved", "drift")):
        for change in (0, batches // 2):
            found = [stream(world, n, batches, size, change, seed, until=True).get(kind) for seed in range(streams)]
            late = np.array([f - change for f in found if f is not None and f > change])
            early = sum(f is not None and f <= change for f in found)
            said = (
                f"median {np.median(late):.0f}, 90% within {np.quantile(late, 0.9):.0f} batches"
                if len(late)
                else "never"
            )
            print(
                f"{world} after batch {change}, batches of {size} rows: {said}; seen in {len(late)} of {streams} streams, "
                f"alarm before the change in {early}",
                flush=True,
            )


def watch(path: Path, model: pp.RFFM, stream: list[pp.Sketch]) -> Monitor:
    """Go on with the monitor in a file, or begin one, and save it after every batch."""
    monitor = Monitor.load(path, model) if path.exists() else Monitor(model)
    for t, sketch in enumerate(stream):
        if t not in monitor:
            monitor.update(sketch, batch_id=t)
            monitor.save(path)
    return monitor


def kills(times: int, batches: int) -> None:
    """A process that watches a stream is killed again and again; what it ends with must be what an undisturbed one has."""
    rng = np.random.default_rng(0)
    model = reference(rng, 1000)
    batch = [model.sketch(X) for X in tables("wandering", batches, 100, batches, rng)]
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = watch(Path(folder) / "whole", model, batch)
        path, killed, progress = Path(folder) / "killed", 0, set()
        while killed < times:
            child = os.fork()
            if child == 0:
                watch(path, model, batch)
                os._exit(0)
            time.sleep(rng.uniform(0.0, 0.06))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
            if path.exists():
                progress.add(Monitor.load(path, model).batches)
            if not os.WIFSIGNALED(status):
                path.unlink()  # it came to its end: begin again
        again = watch(path, model, batch)
        same = [s.batch_id for s in again.history] == [str(t) for t in range(batches)] and np.array_equal(
            again.capital.total, undisturbed.capital.total
        )
        leftovers = len(list(Path(folder).iterdir())) - 2
        print(
            f"killed {killed} times, at {len(progress)} different batches of {batches}: {again.batches} batches in the end, "
            f"sums {'the same to the last bit' if same else 'DIFFERENT'} ({leftovers} temporary files of killed writes left)"
        )
        if not same:
            sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--reference", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--only", choices=["false", "delays", "kills"])
    asked = parser.parse_args()
    if asked.only in (None, "false"):
        false_alarms(asked.streams, asked.reference, asked.batches, asked.rows)
    if asked.only in (None, "delays"):
        delays(max(asked.streams // 50, 1), asked.reference, asked.batches, asked.rows)
    if asked.only in (None, "kills"):
        kills(asked.kills, max(2 * asked.kills, 40))


if __name__ == "__main__":
    main()
