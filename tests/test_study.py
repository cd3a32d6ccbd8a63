"""The study of benchmarks/study.py: that it runs and resumes, and (slow) that a selection of its worlds is as promised."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "study.py"


@pytest.fixture(scope="module")
def study() -> Any:
    spec = importlib.util.spec_from_file_location("study", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["study"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_study_runs_resumes_and_writes_its_page(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--reps", "3", "--kept", str(tmp_path), "--report", str(tmp_path / "page.md"), "--only"]
    assert study.main([*options, "bootstrap-RFFM-hard"]) == 0
    assert study.main([*options, "power-RFFM-hard-c5-n500-m2000-inside-middle"]) == 0
    assert capsys.readouterr().err.count("[1/1]") == 2
    assert study.main([*options, "bootstrap-RFFM-hard"]) == 0
    assert "[1/1]" not in capsys.readouterr().err  # kept, and not run again
    page = (tmp_path / "page.md").read_text()
    assert "| RFFM | 3 | 60 | 400 | inside |" in page and "Monte Carlo error" in page and "| middle |" in page


@pytest.mark.slow
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize(
    ("table", "method", "c", "n", "m", "where"),
    [
        ("coverage", "RFFM", 2, 300, 2000, "inside"),
        ("coverage", "RFFM", 5, 30, 200, "inside"),
        ("coverage", "BBSE", 5, 300, 2000, "inside"),
        ("coverage", "KMM", 5, 30, 2000, "inside"),
        ("edges", "RFFM", 5, 300, 2000, "vertex"),
        ("edges", "BBSE", 5, 300, 2000, "absent"),
    ],
)
def test_coverage_and_size_at_full_size(
    study: Any, table: str, method: str, c: int, n: int, m: int, where: str, soft: bool
) -> None:
    """2,000 replications: Monte Carlo error 0.005."""
    row = study.run(study.Cell(table, method, soft, c, n, m, where), 2000)
    most = 0.975 if where == "inside" else 1.0
    assert 0.93 <= row["coverage"] <= most and 0.93 <= row["region"] <= most
    assert row["target only"] < 0.93 and row["width"] < 1.25
    assert row["rejected"] is None or 0.035 <= row["rejected"] <= 0.065
