"""proportio beside the field's libraries: the same rows, the same D and σ where they exist, the time from arrays to shares.

    make bench-peers                            the selection, about 12 minutes on a quiet machine
    make bench-peers PEERS_ARGS=--full          the whole grid, hours
    python benchmarks/peers.py --cell JSON      one measurement, as the grid runs it

Every cell is a process of its own, killed at its time limit, its memory limited; a method that was too slow for n rows is not
asked for more, but for a third of n, so that its growth is known. What is done is kept in build/peers.json and not done again;
the page is written anew from it. Each method first runs on 600 rows: compiling and importing are not timed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from peers_methods import METHODS, D, sigma
from peers_page import NEEDED, page, stopped

ROOT = Path(__file__).resolve().parents[1]


class World(NamedTuple):
    """c Gaussian classes in d columns whose centres lie some 2.5 standard deviations apart, and a batch of uneven shares."""

    n: int
    c: int
    d: int

    def rows(self) -> tuple[Any, Any, Any, Any]:
        rng = np.random.default_rng([self.c, self.d])
        centres = rng.normal(size=(self.c, self.d)) * 2.5 / np.sqrt(2 * self.d)
        shares = rng.dirichlet(np.full(self.c, 2.0))
        y, z = rng.integers(0, self.c, self.n), rng.choice(self.c, self.n, p=shares)
        X, T = (rng.normal(size=(self.n, self.d)).astype(np.float32) for _ in range(2))
        X += centres[y].astype(np.float32)
        T += centres[z].astype(np.float32)
        return X, y, T, shares


def memory(name: str) -> float:
    """VmHWM or VmRSS of this process, in MB."""
    found = re.search(rf"{name}:\s+(\d+)", Path("/proc/self/status").read_text())
    return float(found[1]) / 1024 if found else float("nan")


def measure(name: str, world: World) -> dict[str, Any]:
    """One cell, in this process."""
    run = METHODS[name][0]()
    X, y, T, shares = World(600, world.c, world.d).rows()
    run(X, y, T)
    X, y, T, shares = world.rows()
    reset = Path("/proc/self/clear_refs")
    if reset.exists():
        reset.write_text("5")
    before = memory("VmRSS")
    fit, predict, found = run(X, y, T)
    return {
        "fit": fit,
        "predict": predict,
        "extra_mb": memory("VmHWM") - before,
        "l2": float(np.linalg.norm(found - shares)),
    }


def speed(rows: int) -> dict[str, Any]:
    """The paper's speed experiment: two sets of 5·10⁶ rows, arrays to the estimate with its interval; exact KMM's growth."""
    import proportio as pp

    def once(model: Any, X: Any, y: Any, T: Any) -> float:
        began = time.perf_counter()
        model.fit(X, y).estimate(T).interval()
        return time.perf_counter() - began

    X, y, T, _ = World(rows, 5, 5).rows()
    ours_s = [once(pp.RFFM(D, bandwidth=sigma(5)), X, y, T) for _ in range(4)][1:]
    sizes = [max(1000, rows // 200), max(2000, rows // 100), max(4000, rows // 50)]
    exact = []
    for k in sizes:
        runs = [once(pp.KMM("gaussian", bandwidth=sigma(5)), X[:k], y[:k], T[:k]) for _ in range(2)]
        exact.append(min(runs))
    return {"rows": rows, "rffm": min(ours_s), "sizes": sizes, "exact": exact}


def limited() -> None:
    """No child takes the machine down with it."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource.setrlimit(resource.RLIMIT_AS, (int(0.7 * total), int(0.7 * total)))


def child(cell: dict[str, Any], limit: float) -> dict[str, Any]:
    """The measurement of a cell, or why there is none."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--cell", json.dumps(cell)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit + 20, preexec_fn=limited, check=False
        )
    except subprocess.TimeoutExpired:
        return {"over": limit}
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if lines:
        result: dict[str, Any] = json.loads(lines[-1].removeprefix("RESULT "))
        return {"over": limit} if result.get("fit", 0.0) + result.get("predict", 0.0) > limit else result
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return {"memory": True} if "emory" in last or done.returncode < 0 else {"failed": last[:160]}


class Kept:
    """What is measured, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cells: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, cell: dict[str, Any], limit: float) -> dict[str, Any]:
        key = json.dumps(cell, sort_keys=True)
        if key not in self.cells:
            print(f"{key} ...", end=" ", flush=True)
            self.cells[key] = child(cell, limit)
            print(json.dumps(self.cells[key]), flush=True)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_suffix(".tmp")
            beside.write_text(json.dumps(self.cells, indent=1))
            beside.replace(self.path)
        found: dict[str, Any] = self.cells[key]
        return found


def sweep(kept: Kept, name: str, c: int, d: int, sizes: list[int], limit: float) -> dict[int, dict[str, Any]]:
    """One method on growing n, until it stops; then a third of where it stopped."""
    out: dict[int, dict[str, Any]] = {}
    for n in sizes:
        out[n] = kept.get({"method": name, "n": n, "c": c, "d": d}, limit)
        if stopped(out[n]):
            if n != sizes[0] and "over" in out[n]:
                out[n // 3] = kept.get({"method": name, "n": n // 3, "c": c, "d": d}, limit)
            break
    return out


def grid(full: bool) -> Iterator[tuple[int, int]]:
    yield 5, 5
    if full:
        yield from ((c, d) for c in (2, 5, 20) for d in (2, 5, 30) if (c, d) != (5, 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="5 classes and columns only, 40 s a cell (the default)")
    parser.add_argument("--full", action="store_true", help="2, 5, 20 classes, 2, 5, 30 columns, 100 s a cell")
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--only", nargs="*", default=[*METHODS], help="these methods")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "peers.json")
    parser.add_argument("--report", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--cell", help="measure one cell and print it")
    args = parser.parse_args()
    if args.cell:
        cell = json.loads(args.cell)
        found = (
            speed(cell["speed"]) if "speed" in cell else measure(cell["method"], World(cell["n"], cell["c"], cell["d"]))
        )
        print("RESULT " + json.dumps(found))
        return
    limit = 100.0 if args.full else 40.0
    sizes = [300, 900] if args.small else [10_000, 100_000, 1_000_000]
    kept = Kept(args.kept)
    fast = kept.get({"speed": 10_000 if args.small else 5_000_000}, limit)
    tables = {
        (c, d): {
            name: sweep(kept, name, c, d, sizes, limit) for name in METHODS if name in {*args.only, "proportio RFFM"}
        }
        for c, d in grid(args.full)
    }
    for name in NEEDED:
        tables[5, 5].setdefault(name, {})
    args.report.write_text(page(tables, sizes, limit, fast, {name: note for name, (_, note) in METHODS.items()}))
    print(f"wrote {args.report}")


if __name__ == "__main__":
    main()
