"""Does the cost grow as it should: linearly in n, m, D and d, and not at all in the number of classes?

python benchmarks/growth.py          about three minutes, one thread, processor time: a busy machine disturbs it little

`fit` with a bandwidth given on n labelled rows in no order, `sketch` of a batch of m. n, m, D: time against a straight line
through 0 (a row costs some 30 ns whatever D: from 1,024 on that is little); d: against a straight line (sine and cosine cost the
same whatever d); c: the largest time over the smallest. Last, float64 rows against float32.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import proportio as pp

D, COLUMNS, CLASSES = 1024, 5, 5
LINEAR, FLAT = 0.15, 0.20


def times_of(runs: list[Callable[[], Any]], repeats: int) -> Any:
    """The least processor time of each, in turn; the first round compiles and does not count."""
    best = np.full(len(runs), np.inf)
    for k in range(repeats + 1):
        for i, run in enumerate(runs):
            began = time.process_time()
            run()
            if k:
                best[i] = min(best[i], time.process_time() - began)
    return best


def table(n: int, d: int, c: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, c, n)
    return (rng.normal(size=(n, d)) + y[:, None] / c).astype(dtype), y


def model(dim: int = D) -> Any:
    return pp.RFFM(dim, bandwidth=1.0, kind="orthogonal", n_jobs=1)


def show(what: str, values: Any, times: Any, worst: float, limit: float) -> bool:
    """One line; whether it keeps its limit."""
    pairs = "  ".join(f"{v:,}: {1e3 * t:.1f} ms" for v, t in zip(values, times, strict=True))
    print(
        f"{what:<34}{pairs}\n{'':<34}off by {worst:.1%}, at most {limit:.0%}: {'yes' if worst <= limit else 'NO'}",
        flush=True,
    )
    return worst <= limit


def off_origin(x: Any, times: Any) -> float:
    """The largest relative distance from the line through 0."""
    rate = np.asarray(times) / np.asarray(x, float)
    return float(np.abs(rate / np.sqrt(rate.min() * rate.max()) - 1).max())


def off_line(x: Any, times: Any) -> float:
    """The largest relative distance from the least-squares line."""
    line = np.polyval(np.polyfit(x, times, 1, w=1 / np.asarray(times)), x)
    return float(np.abs(times / line - 1).max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run at all?")
    args = parser.parse_args()
    scale, repeats = (400, 1) if args.small else (1, 5)
    n = 400_000 // scale
    kept = []

    sizes = [n // 2, n, 2 * n, 4 * n]
    X, y = table(sizes[-1], COLUMNS, CLASSES)
    t = times_of([lambda k=k: model().fit(X[:k], y[:k]) for k in sizes], repeats)
    kept.append(show("fit, n rows", sizes, t, off_origin(sizes, t), LINEAR))
    fitted = model().fit(X[:n], y[:n])
    t = times_of([lambda k=k: fitted.sketch(X[:k]) for k in sizes], repeats)
    kept.append(show("sketch, m rows", sizes, t, off_origin(sizes, t), LINEAR))

    dims = [1024, 2048, 4096, 8192]
    by_dim = [model(dim).fit(X[:n], y[:n]) for dim in dims]
    t = times_of([lambda m=m: m.sketch(X[:n]) for m in by_dim], repeats)
    kept.append(show("sketch, D features", dims, t, off_origin(dims, t), LINEAR))

    columns = [2, 5, 10, 20, 30, 40]
    wide = [table(n // 2, d, CLASSES)[0] for d in columns]
    by_columns = [model().fit(W, y[: n // 2]) for W in wide]
    t = times_of([lambda m=m, W=W: m.sketch(W) for m, W in zip(by_columns, wide, strict=True)], repeats)
    kept.append(show("sketch, d columns", columns, t, off_line(columns, t), LINEAR))

    classes = [2, 5, 10, 16, 32, 64, 100]
    labels = [np.random.default_rng(c).integers(0, c, 2 * n) for c in classes]
    t = times_of([lambda v=v: model().fit(X[: 2 * n], v) for v in labels], repeats)
    kept.append(show("fit, c classes", classes, t, float(t.max() / t.min() - 1), FLAT))
    ordered = [np.sort(v) for v in labels]
    t2 = times_of([lambda v=v: model().fit(X[: 2 * n], v) for v in ordered], repeats)
    kept.append(show("fit, c classes in order", classes, t2, float(t2.max() / t2.min() - 1), FLAT))

    double = X[:n].astype(np.float64)
    t = times_of([lambda: fitted.sketch(X[:n]), lambda: fitted.sketch(double)], repeats)
    print(f"{'sketch, float64 rows':<34}{t[1] / t[0]:.2f} times as long as float32")
    print("every growth is as it should be" if all(kept) else "not every growth is as it should be")


if __name__ == "__main__":
    main()
