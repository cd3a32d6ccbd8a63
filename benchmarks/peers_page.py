"""The page docs/benchmarks.md, from the cells that peers.py has measured."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

LIBRARIES = ("proportio", "QuaPy", "mlquantify", "quantificationlib", "abstention", "pykeops", "POT", "torch")
BEYOND = ("numpy", "scipy", "scikit-learn", "numba")
NEEDED = {"QuaPy EMQ": 25, "QuaPy KDEyML": 100}  # times as long as `RFFM`
FAST, FASTER = 2.0, 50  # seconds of the speed experiment, and times as long for exact KMM

INTRO = """# Beside the field's libraries

Written by `make bench-peers`. Fit and predict from arrays in memory: float32 rows of c Gaussian classes some 2.5 standard
deviations apart, n labelled rows and a batch of as many. A field says: seconds, how many times those of `RFFM` in the same
run, l2 error of the shares, peak memory beside the rows. A cell over {limit:.0f} s is stopped, and ≈ gives what the growth
between the two largest sizes measured makes of it (n^power). Each method ran on 600 rows before: imports and
compilation are not timed.
"""
OUTRO = """- All Gaussian kernels have σ = √(d/2) standard deviations; `RFFM` takes up to a second more to choose it.
- EM and EMQ on logistic regression have the right model for these data, whose posteriors are logistic; kernels assume nothing.
- Only proportio's answers come with intervals; they are timed in the speed experiment alone.
"""

Results = dict[int, dict[str, Any]]
Tables = dict[tuple[int, int], dict[str, Results]]


def stopped(result: dict[str, Any]) -> bool:
    return "fit" not in result


def growth(results: Results, n: int) -> tuple[float, float] | None:
    """The time at n by the power law through the two largest measured sizes, and its exponent."""
    done = sorted(k for k, r in results.items() if not stopped(r))
    if len(done) < 2:
        return None
    t = [results[k]["fit"] + results[k]["predict"] for k in done[-2:]]
    power = float(np.log(t[1] / t[0]) / np.log(done[-1] / done[-2]))
    return t[1] * (n / done[-1]) ** power, power


def entry(results: Results, n: int, own: float, limit: float) -> str:
    """One field of a table: seconds, ratio to RFFM, error, memory."""
    r = results.get(n)
    if r is None or "over" in r:
        guess = growth(results, n)
        if guess is None:
            return f"over {limit:.0f} s" if r else "–"
        return f"≈ {guess[0]:,.0f} s, {guess[0] / own:,.0f} × (n^{guess[1]:.1f})"
    if "memory" in r:
        return "out of memory"
    if "failed" in r:
        return f"failed: {r['failed'][:40]}"
    t = r["fit"] + r["predict"]
    return f"{t:.2f} s, {t / own:.1f} ×, {r['l2']:.4f}, {r['extra_mb']:,.0f} MB"


def page(tables: Tables, sizes: list[int], limit: float, fast: Any, notes: Mapping[str, str]) -> str:
    """docs/benchmarks.md."""
    versions = ", ".join(f"{name} {version(name)}" for name in (*LIBRARIES, *BEYOND))
    machine = f"{processor()}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    lines = [INTRO.format(limit=limit), f"{machine}; {versions}.", ""]
    for (c, d), table in tables.items():
        lines += [f"## {c} classes, {d} columns", ""]
        lines += ["| | " + " | ".join(f"n = {n:,}" for n in sizes) + " |", "|---" * (len(sizes) + 1) + "|"]
        own = {n: seconds(table["proportio RFFM"].get(n, {})) for n in sizes}
        for name, results in table.items():
            lines.append(f"| {name} | " + " | ".join(entry(results, n, own[n], limit) for n in sizes) + " |")
        lines.append("")
    if fast and "rffm" in fast:
        lines += speed_lines(fast)
    lines += verdicts(tables, sizes)
    lines += ["## What differs", ""]
    lines += [f"- {name}: {note}." for name, note in notes.items()]
    lines.append(OUTRO)
    return "\n".join(lines)


def seconds(result: dict[str, Any]) -> float:
    return result["fit"] + result["predict"] if "fit" in result else float("nan")


def speed_lines(fast: dict[str, Any]) -> list[str]:
    done = {k: {"fit": t, "predict": 0.0} for k, t in zip(fast["sizes"], fast["exact"], strict=True)}
    exact, power = growth(done, fast["rows"]) or (float("nan"), float("nan"))
    ratio = exact / fast["rffm"]
    measured = ", ".join(f"{t:.2f} s for {k:,}" for k, t in zip(fast["sizes"], fast["exact"], strict=True))
    return [
        "## The paper's speed experiment",
        "",
        f"Two sets of {fast['rows']:,} rows, 5 columns, 5 classes, D = 1,000, from arrays in memory to the estimate with its",
        f"interval: **{fast['rffm']:.2f} s** (aim: at most {FAST} s; {said(fast['rffm'] <= FAST)}).",
        f"Exact KMM took {measured}, which grows as n^{power:.2f}: about {exact:,.0f} s, {ratio:,.0f} times as long",
        f"(aim: {FASTER}; {said(ratio >= FASTER)}).",
        "",
    ]


def said(kept: bool) -> str:
    return "yes" if kept else "NO"


def verdicts(tables: Tables, sizes: list[int]) -> list[str]:
    """What the project set itself, at the largest n, c = d = 5."""
    table, n = tables[5, 5], sizes[-1]
    own = table["proportio RFFM"].get(n, {})
    if stopped(own):
        return []
    lines = ["## What had to be shown", "", f"End to end, {n:,} rows a side, 5 classes, 5 columns:", ""]
    for name, needed in NEEDED.items():
        found = table[name].get(n, {})
        guess = growth(table[name], n) if stopped(found) else (seconds(found), 0.0)
        if guess is None:
            lines.append(f"- {name}: not measured.")
            continue
        ratio = guess[0] / seconds(own)
        how = " (extrapolated)" if stopped(found) else ""
        lines.append(
            f"- {name} takes {ratio:,.0f} times as long as `RFFM`{how}; aim {needed}: {said(ratio >= needed)}."
        )
    peers = {
        k: r[n]["extra_mb"] for k, r in table.items() if not k.startswith("proportio") and not stopped(r.get(n, {}))
    }
    if peers:
        least = min(peers, key=lambda k: peers[k])
        lines.append(
            f"- Memory beside the rows: {own['extra_mb']:,.0f} MB; the least of any other, {least}, "
            f"{peers[least]:,.0f} MB; less: {said(own['extra_mb'] < peers[least])}."
        )
    return [*lines, ""]


def processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor()
