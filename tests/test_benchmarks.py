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
    assert "estimate" in done.stdout and "MB" in lines[-1]


def test_many_files_are_estimated_in_one_command() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "files.py"), "--files", "2", "--rows", "400"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "2 files of 400 events and 7 channels; 12 lines of CSV"
    assert "ratio to our reader alone" in lines[-2] and "peak memory" in lines[-1]
