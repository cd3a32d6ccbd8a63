"""The benchmarks run, at a tiny size."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


def printed(script: str, *arguments: str) -> list[str]:
    """The lines that a benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_benchmark_prints_a_ratio_for_every_row() -> None:
    lines = printed("run.py", "--small")
    for what in [f"d={d} " for d in (2, 5, 10, 30, 100, 784)] + ["gaussian pair sums", "energy pair sums"]:
        assert any(what in line and "x" in line.split(" s  ")[1] for line in lines if " s  " in line), what
    for c in (5, 10):
        assert any(f"bounds, c={c}," in line and "of the sketch" in line for line in lines)
    assert any("estimate" in line for line in lines) and "MB" in lines[-1]


def test_the_benchmark_of_scale_prints_a_ratio_for_every_way_to_read() -> None:
    lines = printed("scale.py", "--small")
    for what in ("from the disk", "from the page cache", "dask, "):
        assert any(what in line and " x" in line for line in lines), what
    assert any("peak resident memory" in line for line in lines)


def test_the_roofline_prints_the_peak_and_the_share_of_every_kernel() -> None:
    lines = printed("roofline.py", "--small")
    assert sum(line.startswith("peak") for line in lines) == 3 and any("GB/s" in line for line in lines)
    assert sum(line.count("%") >= 2 for line in lines) >= 11


def test_growth_judges_rows_features_columns_and_classes() -> None:
    lines = printed("growth.py", "--small")
    assert sum("at most" in line for line in lines) == 6 and "growth" in lines[-1]


def test_a_cell_of_the_comparison_with_peers_measures_time_memory_and_error() -> None:
    cell = {"method": "proportio RFFM", "n": 500, "c": 3, "d": 5}
    found = json.loads(printed("peers.py", "--cell", json.dumps(cell))[-1].removeprefix("RESULT "))
    assert found["fit"] > 0 and found["predict"] > 0 and 0 <= found["l2"] < 0.5 and found["extra_mb"] < 200


def test_the_page_of_peers_extrapolates_what_was_stopped_by_its_own_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    page: Any = importlib.import_module("peers_page")

    def took(seconds: float) -> dict[str, float]:
        return {"fit": seconds, "predict": 0.0, "l2": 0.01, "extra_mb": 5.0}

    quadratic = {1000: took(0.1), 10_000: took(10.0), 100_000: {"over": 40}}
    assert page.growth(quadratic, 100_000) == pytest.approx((1000.0, 2.0))
    assert page.entry(quadratic, 100_000, 2.0, 40) == "≈ 1,000 s, 500 × (n^2.0)"
    assert page.entry({1000: {"memory": True}}, 1000, 1.0, 40) == "out of memory"
    own = {n: took(n / 50_000) for n in quadratic}
    tables = {(5, 5): {"proportio RFFM": own, "QuaPy EMQ": own, "QuaPy KDEyML": quadratic}}
    lines = "\n".join(page.verdicts(tables, [*quadratic]))
    assert "QuaPy KDEyML takes 500 times as long as `RFFM` (extrapolated); aim 100: yes" in lines
    assert "QuaPy EMQ takes 1 times as long as `RFFM`; aim 25: NO" in lines


def test_many_files_are_estimated_in_one_command() -> None:
    lines = printed("files.py", "--small")
    assert lines[0] == "2 files of 400 events and 7 channels; 12 lines of CSV"
    assert "ratio to our reader alone" in lines[-2] and "peak memory" in lines[-1]
