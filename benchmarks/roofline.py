"""How much of this machine each kernel uses: vector arithmetic per second over the rate at which it issues multiply-adds.

python benchmarks/roofline.py        about two minutes; everything is measured in the same run, in turn

The peak is a loop of independent multiply-adds that never leave the registers, for one thread and for all; the memory's is
the triad a = b + s c on arrays that no cache holds. A kernel's arithmetic is counted for each number that it makes (below),
and checked in the assembly of its innermost loop. Loads, stores, shuffles and the sorting of rows do not count, but their
time does. A square root counts as one instruction though the processor takes several cycles for it. Additions and integer
operations have pipes of their own on many processors, so that more than 100% is possible.

    Fourier, a row and frequency    d for the phase + 16: 2 to reduce it, 12 for two polynomials and products, 2 sums
    Hadamard, a row and frequency   3 (1 + log₂ p) + 1 for the phase + 16
    pairs                           2 d for ‖x − y‖² + 14 (Gaussian: 2^n by shifting, a polynomial, the weight) or 2 (distance)
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

if "--small" not in sys.argv:
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()  # code read back from a cache has no assembly to look at

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from proportio._compiled import fourier, hadamard, pairs
from proportio._compiled.threads import resolve_jobs
from proportio.features.fourier import RandomFourier

LANES, REGISTERS = 16, 24
CELLS, FREQUENCIES = 64 * 5, 512
WAVES, GAUSSIAN, DISTANCE = 16, 14, 2
NEEDED = 0.4  # of the peak, for the Fourier kernel at d = 5
ARITHMETIC = re.compile(
    r"v(fn?m(add|sub)|add|sub|mul|rndscale|round|sqrt|padd|psub|pslld|cmp(le)?)\w*p?[sd]$|vpadd|vpsub|vpslld"
)


@intrinsic
def multiply_adds(typingctx: Any, count: Any, factor: Any) -> Any:
    """`count` rounds of v = v·factor + factor on REGISTERS vectors at once; the sum of all lanes, so that none is left out."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType(), LANES)
        function = ir.FunctionType(vector, [vector] * 3)
        name = f"llvm.fma.v{LANES}f32"
        fma = builder.module.globals.get(name) or ir.Function(builder.module, function, name)
        zero = ir.Constant(ir.IntType(32), 0)
        one = builder.insert_element(ir.Constant(vector, ir.Undefined), args[1], zero)
        splat = builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
        before, loop = builder.block, builder.append_basic_block("rounds")
        after = builder.append_basic_block("done")
        builder.branch(loop)
        builder.position_at_end(loop)
        index = builder.phi(ir.IntType(64))
        index.add_incoming(ir.Constant(ir.IntType(64), 0), before)
        values = [builder.phi(vector) for _ in range(REGISTERS)]
        following = builder.add(index, ir.Constant(ir.IntType(64), 1))
        updated = [builder.call(fma, [v, splat, splat]) for v in values]
        for k, (v, u) in enumerate(zip(values, updated, strict=True)):
            v.add_incoming(ir.Constant(vector, [float(k + lane) for lane in range(LANES)]), before)
            v.add_incoming(u, loop)
        index.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, args[0]), loop, after)
        builder.position_at_end(after)
        total = updated[0]
        for u in updated[1:]:
            total = builder.fadd(total, u)
        lanes = [builder.extract_element(total, ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
        out = lanes[0]
        for lane in lanes[1:]:
            out = builder.fadd(out, lane)
        return out

    return types.float32(types.int64, types.float32), codegen


@numba.njit(nogil=True)
def burn(count: int, factor: float) -> float:
    return multiply_adds(count, np.float32(factor))


@numba.njit(nogil=True, fastmath=True)
def triad(a: Any, b: Any, c: Any, s: Any) -> None:
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def on_threads(task: Callable[[int], Any], threads: int) -> None:
    """task(0), ..., task(threads − 1) at the same time."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(task, range(threads)))


def best_of(candidates: dict[str, Callable[[], Any]], repeats: int) -> dict[str, tuple[float, float]]:
    """The best wall time and processor time of each candidate, in turn; the first round compiles and does not count."""
    times = dict.fromkeys(candidates, (np.inf, np.inf))
    for k in range(repeats + 1):
        for name, run in candidates.items():
            began, spent = time.perf_counter(), time.process_time()
            run()
            took = time.perf_counter() - began, time.process_time() - spent
            if k:
                times[name] = min(times[name][0], took[0]), min(times[name][1], took[1])
    return times


def inner_loops(function: Any) -> list[Counter[str]]:
    """The instructions of every innermost loop of a compiled function, from its assembly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text = next(iter(function.inspect_asm().values())).splitlines()
    labels = {m[1]: i for i, line in enumerate(text) if (m := re.match(r"^(\.?L\w+):", line))}
    jumps = [
        (labels.get(m[1], len(text)), i)
        for i, line in enumerate(text)
        if (m := re.match(r"^\s+j\w+\s+(\.?L\w+)", line))
    ]
    loops = [(a, b) for a, b in jumps if a < b]
    inner = [(a, b) for a, b in loops if not any((c, e) != (a, b) and a <= c and e <= b for c, e in loops)]
    return [
        Counter(line.split()[0] for line in text[a : b + 1] if line.startswith("\t") and "." not in line[:2])
        for a, b in inner
    ]


def width(function: Any) -> int:
    """Lanes of the widest registers that its multiply-adds use."""
    text = next(iter(function.inspect_asm().values()))
    return next((n for name, n in (("zmm", 16), ("ymm", 8)) if re.search(rf"vfmadd.*{name}", text)), 4)


def counted(function: Any, pivot: str, without: str = "none") -> float | None:
    """Arithmetic instructions for each `pivot` in the loop with most of them: four rows side by side."""
    loops = [loop for loop in inner_loops(function) if loop[pivot] and not loop[without]]
    if not loops:
        return None
    loop = max(loops, key=lambda c: c[pivot])
    return sum(n for name, n in loop.items() if ARITHMETIC.match(name)) / loop[pivot]


def kernels(threads: int, scale: int) -> dict[str, tuple[float, Callable[[], Any]]]:
    """Each kernel with the arithmetic that one run of it takes."""
    rng = np.random.default_rng(0)
    out: dict[str, tuple[float, Callable[[], Any]]] = {}
    for d, jobs in ((2, threads), (5, threads), (10, threads), (30, threads), (5, 1)):
        n = 10_000_000 // max(5, d) // scale
        X = rng.normal(size=(n, d)).astype(np.float32)
        turns = rng.normal(size=(d, FREQUENCIES)).astype(np.float32)
        cells = rng.integers(0, CELLS, n).astype(np.int32)
        run = partial(fourier.fourier_sums, X, np.zeros(d), turns, cells, CELLS, n_jobs=jobs)
        name = f"Fourier d={d}, {'1 thread' if jobs == 1 else f'{jobs} at once'}"
        out[name] = float(n) * FREQUENCIES * (d + WAVES), run
    for p in (128, 1024):
        n = 200_000 // scale
        X = rng.normal(size=(n, p)).astype(np.float32)
        cells = rng.integers(0, CELLS, n).astype(np.int32)
        signs, radii = RandomFourier(2 * FREQUENCIES, 1.0, kind="structured", standardize=False).fit(X[:100])._operator
        run = partial(hadamard.hadamard_sums, X, np.zeros(p), signs, radii, FREQUENCIES, cells, CELLS)
        phases = max(p, FREQUENCIES) * (3 * (1 + np.log2(p)) + 1)
        out[f"Hadamard p={p}, {threads} at once"] = float(n) * (phases + FREQUENCIES * WAVES), run
    for kind, more in (("gaussian", GAUSSIAN), ("distance", DISTANCE)):
        for d in (5, 30):
            n, m = 8192 // min(scale, 8), 40_000 // scale
            X, Z = (rng.normal(size=(k, d)).astype(np.float32) for k in (n, m))
            run = partial(pairs.pair_sums, X, Z, np.linspace(0, m, min(CELLS, m) + 1).astype(np.int64), kind, 0.5)
            out[f"{kind} pairs d={d}, {threads} at once"] = float(n) * m * (2 * d + more), run
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run at all?")
    args = parser.parse_args()
    scale, repeats = (1000, 1) if args.small else (1, 7)
    threads, rounds, size = resolve_jobs(None), 20_000_000 // scale, (1 << 26) // scale
    a, b, c = (np.ones(size, np.float32) for _ in range(3))
    spans = [slice(k * size // threads, (k + 1) * size // threads) for k in range(threads)]
    measured = kernels(threads, scale)
    candidates: dict[str, Callable[[], Any]] = {
        "1 thread": lambda: burn(rounds, 0.5),
        "all threads": lambda: on_threads(lambda _: burn(rounds, 0.5), threads),
        "memory": lambda: on_threads(lambda k: triad(a[spans[k]], b[spans[k]], c[spans[k]], np.float32(0.5)), threads),
        **{name: run for name, (_, run) in measured.items()},
    }
    times = best_of(candidates, repeats)
    per_run = REGISTERS * LANES * rounds
    peak = {1: per_run / times["1 thread"][0], threads: threads * per_run / times["all threads"][0]}
    core = threads * per_run / times["all threads"][1]
    lanes = width(burn)
    for jobs, rate in peak.items():
        print(f"peak, {jobs} thread(s): {rate / lanes / 1e9:.2f} G multiply-adds of {lanes} lanes a second")
    print(f"peak of a core in the time it was given: {core / lanes / 1e9:.2f} G")
    print(f"memory: {3 * 4 * size / times['memory'][0] / 1e9:.1f} GB/s (triad, {threads} threads)")
    for what, function, pivot, without, said in (
        ("sine and cosine", fourier.add_panel, "vrndscaleps", "none", WAVES),
        ("Gaussian", pairs.sum_block, "vpslld", "vsqrtps", GAUSSIAN),
        ("distance", pairs.sum_block, "vsqrtps", "vpslld", DISTANCE),
    ):
        found = counted(function, pivot, without)
        seen = "not found" if found is None else f"{found:.1f} for each number"
        print(f"arithmetic of the {what} loop: {said} counted, in the assembly {seen}")
    print(f"{'':<32}{'instructions a second':>24}{'of the peak':>14}{'of the peak, by processor time':>34}")
    for name, (operations, _) in measured.items():
        wall, spent = times[name]
        share = operations / wall / peak[1 if ", 1 thread" in name else threads]
        verdict = ("  aim 40%: " + ("yes" if share >= NEEDED else "NO")) if "Fourier d=5" in name else ""
        rate = f"{operations / wall / lanes / 1e9:.2f} G"
        print(f"{name:<32}{rate:>24}{share:>14.0%}{operations / spent / core:>34.0%}{verdict}", flush=True)


if __name__ == "__main__":
    main()
