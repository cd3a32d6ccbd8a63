"""The benchmark runs, at a tiny size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_benchmark_prints_a_ratio_for_every_row() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--small"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for what in [f"d={d} " for d in (2, 5, 10, 30, 100, 784)] + ["gaussian pair sums", "energy pair sums"]:
        assert any(what in line and "x" in line.split(" s  ")[1] for line in lines if " s  " in line), what
    for c in (5, 10):
        assert any(f"bounds, c={c}," in line and "of the sketch" in line for line in lines)
    assert "estimate" in done.stdout and "MB" in lines[-1]
