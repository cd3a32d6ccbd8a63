"""The benchmarks run, at a tiny size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def lines_of(script: str) -> list[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / script), "--small"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_benchmark_prints_a_ratio_for_every_row() -> None:
    lines = lines_of("run.py")
    for what in [f"d={d} " for d in (2, 5, 10, 30, 100, 784)] + ["gaussian pair sums", "energy pair sums"]:
        assert any(what in line and "x" in line.split(" s  ")[1] for line in lines if " s  " in line), what
    assert "estimate" in "\n".join(lines) and "MB" in lines[-1]


def test_the_benchmark_of_scale_prints_a_ratio_for_every_way_to_read() -> None:
    lines = lines_of("scale.py")
    for what in ("from the disk", "from the page cache", "dask, "):
        assert any(what in line and " x" in line for line in lines), what
    assert any("peak resident memory" in line for line in lines)


def test_many_files_are_estimated_in_one_command() -> None:
    lines = lines_of("files.py")
    assert lines[0] == "2 files of 400 events and 7 channels; 12 lines of CSV"
    assert "ratio to our reader alone" in lines[-2] and "peak memory" in lines[-1]
