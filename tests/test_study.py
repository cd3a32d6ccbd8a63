"""The study of benchmarks/study.py: that it runs, resumes and writes its page, and (slow) that a selection of it is as promised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proportio.bounds import DIAMETER, Ingredients

HERE = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HERE))
    import study

    return study


def test_the_study_runs_resumes_and_writes_its_page(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, pages = tmp_path / "kept", tmp_path / "pages"
    for name in (
        "bootstrap-RFFM",
        "power-RFFM-c5-n500-m2000-inside-middle",
        "coverage-RFFM-c2-n30-",
        "unknown-far-a0.3-k300",
    ):
        options = ["--reps", "3", "--kept", str(kept), "--pages", str(pages), "--only", name]
        assert study.main(options) == 0
        assert "3 of 3" in capsys.readouterr().err
        assert study.main(options) == 0
        assert capsys.readouterr().err == ""  # kept, and not run again
    page = (pages / "uncertainty.md").read_text()
    assert "| RFFM | 3 | 60 | 400 | inside |" in page and "Monte Carlo error" in page and "| middle |" in page
    for form in ("RFFM", "soft RFFM"):
        for m in ("200", "2,000", "20,000"):
            assert f"| {form} | 2 | 30 | {m} | inside |" in page
    assert "| far | 0.3 | 300 |" in page and (pages / "coverage.png").stat().st_size > 10_000


def test_a_part_that_was_cut_off_is_run_again_and_changes_nothing(study: Any, tmp_path: Path) -> None:
    from parts import gathered, simulate

    family = next(f for f in study.families() if f.name.startswith("coverage-Energy"))
    simulate([family], tmp_path, 2, float("inf"))
    whole = gathered(tmp_path / family.name)
    (part,) = (tmp_path / family.name).glob("*.npz")
    part.rename(part.with_suffix(".part"))  # as a kill in the midst of writing leaves it
    assert gathered(tmp_path / family.name) == {}
    simulate([family], tmp_path, 2, float("inf"))
    again = gathered(tmp_path / family.name)
    for key in whole:
        np.testing.assert_array_equal(again[key], whole[key])


def test_the_first_useful_n_of_a_bound_is_the_first(study: Any) -> None:
    import study_bounds

    for name, formula in study_bounds.FORMULAS.items():
        n = study_bounds.least_rows(np.eye(3), formula)
        alpha = np.array([1, 2, 3]) / 6
        before, after = (
            formula(Ingredients(np.eye(3), np.full(3, float(k)), float(k), 1.0), alpha).uncapped for k in (n - 1, n)
        )
        assert after < DIAMETER <= before, name


def test_the_grid_is_the_one_that_was_asked_for(study: Any) -> None:
    grid = {(f.method, f.c, f.n) for f in study.families() if len(f.ms) == 3}
    assert grid == {(k, c, n) for k in ("RFFM", "KMM", "BBSE") for c in (2, 5, 20) for n in (30, 300, 5000)}
    assert len({f.name for f in study.families()}) == len(study.families())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("table", "method", "n", "m", "where"),
    [
        ("coverage", "RFFM", 300, 2000, "inside"),
        ("coverage", "BBSE", 300, 2000, "inside"),
        ("coverage", "KMM", 30, 2000, "inside"),
        ("edges", "RFFM", 300, 2000, "vertex"),
        ("edges", "BBSE", 300, 2000, "absent"),
    ],
)
def test_coverage_and_size_at_full_size(
    study: Any, table: str, method: str, n: int, m: int, where: str, tmp_path: Path
) -> None:
    """2,000 replications: Monte Carlo error 0.005."""
    import study_report
    import study_worlds
    from parts import simulate

    family = study_worlds.Family(table, method, 5, n, (m,), where)
    simulate([family], tmp_path, 2000, float("inf"))
    for row in study_report.world_rows(tmp_path, [family]):
        most = 0.975 if where == "inside" else 1.0
        assert 0.93 <= row["coverage"] <= most and 0.93 <= row["region"] <= most
        assert row["target only"] < 0.93 and row["width"] < 1.25
        assert row["rejected"] is None or 0.035 <= row["rejected"] <= 0.065
