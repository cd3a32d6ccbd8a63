"""Speed of the fused kernels as ratios in one run: against NumPy, PyTorch, SciPy and PyKeOps on the same machine.

Every candidate of a row runs in turn, several times; the best time of each counts, so that a busy moment hurts no one
alone. PyTorch and PyKeOps are used where they are installed (`make bench` tries to), and named as missing where not.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import proportio as pp
from proportio._compiled.fourier import fourier_sums
from proportio._compiled.threads import resolve_jobs
from proportio.exact import parts
from proportio.features.fourier import STRUCTURED_FROM, RandomFourier
from proportio.kernels import Energy, Gaussian, Kernel

CHUNK = 4096
BLOCKS = 64 * 5  # cells of five classes

Candidates = dict[str, Callable[[], Any]]


def best_of(candidates: Candidates, repeats: int) -> dict[str, float]:
    """The best wall time of each candidate, interleaved; the first round compiles and does not count."""
    times: dict[str, float] = dict.fromkeys(candidates, np.inf)
    for k in range(repeats + 1):
        for name, run in candidates.items():
            began = time.perf_counter()
            run()
            took = time.perf_counter() - began
            if k:
                times[name] = min(times[name], took)
    return times


def show(title: str, times: dict[str, float], note: str = "") -> dict[str, float]:
    """One line: our time, and how many times longer each of the others took."""
    ours = times["proportio"]
    ratios = {name: t / ours for name, t in times.items() if name != "proportio"}
    print(
        f"{title:<44}{ours:>9.3f} s  " + "  ".join(f"{n} x{r:.1f}" for n, r in ratios.items()) + f"  {note}", flush=True
    )
    return ratios


def numpy_sums(X: Any, W: Any) -> Any:
    total = np.zeros(2 * W.shape[1])
    for i in range(0, len(X), CHUNK):
        t = X[i : i + CHUNK] @ W
        total += np.concatenate([np.cos(t).sum(axis=0), np.sin(t).sum(axis=0)])
    return total


def torch_sums(torch: Any, X: Any, W: Any) -> Any:
    total = torch.zeros(2 * W.shape[1], dtype=torch.float64)
    for i in range(0, len(X), CHUNK):
        t = X[i : i + CHUNK] @ W
        total += torch.cat([torch.cos(t).sum(0), torch.sin(t).sum(0)])
    return total


def fourier(n: int, d: int, frequencies: int, repeats: int, torch: Any) -> dict[str, float]:
    """Σ cos and Σ sin of n rows: what peers sum into one vector we sum into the 320 cells of a sketch."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)).astype(np.float32)
    W = (rng.normal(size=(d, frequencies)) / np.sqrt(d)).astype(np.float32)
    turns, cells = (W / (2 * np.pi)).astype(np.float32), rng.integers(0, BLOCKS, n).astype(np.int32)
    center = np.zeros(d)
    candidates: Candidates = {
        "proportio": lambda: fourier_sums(X, center, turns, cells, BLOCKS),
        "numpy": lambda: numpy_sums(X, W),
    }
    if torch is not None:
        tX, tW = torch.from_numpy(X), torch.from_numpy(W)
        candidates["torch"] = lambda: torch_sums(torch, tX, tW)
    title = f"Fourier sums n={n:,} d={d} frequencies={frequencies}"
    dense = show(title, best_of(candidates, repeats))
    if d < STRUCTURED_FROM:
        return dense
    phi = RandomFourier(2 * frequencies, 1.0, kind="structured", standardize=False).fit(X[:100])
    sums, norm2 = np.zeros((BLOCKS, 2 * frequencies)), np.zeros(BLOCKS)
    candidates["proportio"] = lambda: phi.accumulate(X, cells, None, sums, norm2)
    return show("  the same, kind='structured' (the default here)", best_of(candidates, repeats))


def keops_pairs(LazyTensor: Any, X: Any, Y: Any, kind: str) -> Any:
    x, y = LazyTensor(X[:, None, :]), LazyTensor(Y[None, :, :])
    squared = ((x - y) ** 2).sum(-1)
    if kind == "gaussian":
        return (-0.5 * squared).exp().sum(1)
    return len(Y) * X.norm(dim=1) + Y.norm(dim=1).sum() - squared.sqrt().sum(1).squeeze()


def pairs(n: int, d: int, kernel: Kernel, repeats: int, torch: Any, lazy: Any) -> dict[str, float]:
    """Σ_y k(x, y) for every x, in the 320 cells of a sketch and as a sketch does it for us, in one group for the others.

    SciPy is the kernel's definition by `cdist`: over the whole matrix, as quantification libraries write it, and over
    1,000 rows at a time, as one would write it for its cache.
    """
    rng = np.random.default_rng(0)
    X, Y = (rng.normal(size=(n, d)).astype(np.float32) for _ in range(2))
    offsets, ones = np.linspace(0, n, BLOCKS + 1).astype(np.int64), np.ones(n)
    candidates: Candidates = {
        "proportio": lambda: [
            kernel.pair_sums(X[part], Y, offsets, ones, resolve_jobs(None)) for part in parts(n, BLOCKS)
        ],
        "scipy": lambda: kernel.value(X, Y).sum(axis=1),
        "scipy in chunks": lambda: [kernel.value(X[i : i + 1000], Y).sum(axis=1) for i in range(0, n, 1000)],
    }
    if lazy is not None:
        tX, tY = torch.from_numpy(X), torch.from_numpy(Y)
        candidates["pykeops"] = lambda: keops_pairs(lazy, tX, tY, kernel.name)
    times = best_of(candidates, repeats)
    return show(
        f"{kernel.name} pair sums n=m={n:,} d={d}", times, f"({n * n / times['proportio'] / 1e9:.2f} G pairs/s)"
    )


def energy(n: int, repeats: int) -> dict[str, float]:
    """The Gram system of the Energy kernel from two sets of rows, by directions and by pair sums, and how far apart they are."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X, T = ((rng.normal(size=(n, 5)) + rng.normal(size=(5, 5))[y]).astype(np.float32) for _ in range(2))
    models = {approx: pp.KMM("energy", approx=approx).fit(X, y) for approx in ("sliced", "exact")}
    found: dict[str, Any] = {}

    def system(approx: str) -> None:
        model = models[approx]
        groups = y.astype(np.int32)
        source, target = model._sketch(X, groups, None, 0, None), model.sketch(T)
        found[approx] = source.products(source)
        source.products(target)
        target.products(target)

    times = best_of({"proportio": lambda: system("sliced"), "pair sums": lambda: system("exact")}, repeats)
    contrasts = np.eye(5) - 0.2
    off = np.linalg.norm(contrasts @ (found["sliced"] - found["exact"]) @ contrasts)
    off /= np.linalg.norm(contrasts @ found["exact"] @ contrasts)
    return show(f"Energy by directions n=m={n:,} d=5", times, f"(off by {off:.2%} of what tells the classes apart)")


MEMORY = """
import pathlib, re, sys, numpy as np, proportio as pp
rng = np.random.default_rng(0)
y = np.arange(5000) % 5
X = rng.normal(size=(5000, 5)).astype(np.float32) + y[:, None]
model = pp.RFFM(bandwidth=1.0).fit(X, y)
model.estimate(X)
big = np.empty((int(sys.argv[1]), 5), np.float32)
for i in range(0, len(big), 1000):  # no peak of its own that would hide the one measured
    big[i : i + 1000] = rng.normal(size=(len(big[i : i + 1000]), 5))
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])
pathlib.Path("/proc/self/clear_refs").write_text("5")  # forget the peak of the compilation before
before = peak()
model.estimate(big)
print((peak() - before) / 1024)
"""


def memory(n: int) -> float:
    """Peak resident memory that `estimate` adds to the batch itself, in a process of its own (NaN where there is no /proc)."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    done = subprocess.run([sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True)
    extra = float(done.stdout)
    print(f"{f'estimate() on {n:,} rows x 5: extra memory':<44}{extra:>7.0f} MB", flush=True)
    return extra


def end_to_end(n: int, repeats: int) -> None:
    """Arrays in memory to the estimate, D = 1,000."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    X = rng.normal(size=(n, 5)).astype(np.float32) + y[:, None].astype(np.float32)
    model = pp.RFFM(bandwidth=1.0)
    times = best_of({"fit": lambda: model.fit(X, y), "proportio": lambda: model.estimate(X)}, repeats)
    print(f"{f'RFFM n=m={n:,}, c=d=5':<44}{times['fit']:>9.3f} s fit  {times['proportio']:.3f} s estimate", flush=True)


def error_bars(n: int, c: int, repeats: int) -> float:
    """Estimate, interval, label-shift test and bounds of one batch, as a share of the time that its sketch takes (D = 1,000)."""
    rng = np.random.default_rng(0)
    centres = 3 * rng.normal(size=(c, 5))
    y = rng.integers(0, c, n)
    X = (rng.normal(size=(n, 5)) + centres[y]).astype(np.float32)
    few = slice(min(n, 20_000 * c))
    model = pp.RFFM(1000, 2.0).fit(X[few], y[few])
    batch = model.sketch(X)

    def trust() -> None:
        est = model.estimate(replace(batch))  # a sketch that remembers nothing yet
        est.interval()
        est.label_shift_test()
        est.bound()
        est.bound(kind="theorem1")

    times = best_of({"sketch": lambda: model.sketch(X), "proportio": trust}, 4 * repeats)
    share = times["proportio"] / times["sketch"]
    print(
        f"{f'interval + test + bounds, c={c}, n={n:,} x 5':<44}{1000 * times['proportio']:>8.1f} ms  {share:.0%} of the sketch",
        flush=True,
    )
    return share


def optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: its ratios are left out.")
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run at all?")
    args = parser.parse_args()
    torch, keops = optional("torch"), optional("pykeops.torch")
    print(f"{platform.processor() or platform.machine()}, {resolve_jobs(None)} threads, numpy {np.__version__}")
    repeats = 1 if args.small else 5
    rows = {2: 1_000_000, 5: 1_000_000, 10: 1_000_000, 30: 500_000, 100: 200_000, 784: 100_000}
    for d, n in rows.items():
        fourier(2_000 if args.small else n, d, 100 if args.small else 500, repeats, torch)
    for kernel in (Gaussian(1.0), Energy((0.0,) * 5)):
        pairs(500 if args.small else 20_000, 5, kernel, 1 if args.small else 2, torch, keops and keops.LazyTensor)
    energy(2_000 if args.small else 100_000, 1 if args.small else 2)
    end_to_end(5_000 if args.small else 1_000_000, repeats)
    for c in (5, 10):
        error_bars(5_000 if args.small else 1_000_000, c, repeats)
    memory(10_000 if args.small else 1_000_000)


if __name__ == "__main__":
    main()
