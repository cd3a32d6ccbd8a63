"""Real cells: the HIPC T-cell panel of one laboratory, three patients (the paper's real experiment)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import proportio as pp

HERE = Path(__file__).resolve().parents[2] / "shared" / "hipc"
PATIENTS = {1: [1], 2: [4, 5], 3: [7, 9]}  # the replicates of each

pytestmark = pytest.mark.skipif(
    not HERE.is_dir(), reason=f"the HIPC cells are not at {HERE}; they are not ours to ship"
)


@pytest.fixture(scope="module")
def patients() -> dict[int, pd.DataFrame]:
    return {p: pd.concat([pd.read_parquet(HERE / f"W2_{k}.parquet") for k in ks]) for p, ks in PATIENTS.items()}


def mean_error(make: Callable[[], Any], patients: dict[int, pd.DataFrame]) -> float:
    """The l2 error, each patient as reference and each other as batch."""
    errors = []
    for a, b in itertools.permutations(patients, 2):
        source, target = patients[a], patients[b]
        model = make().fit(source.drop(columns="population"), source["population"])
        true = [(target["population"] == k).mean() for k in model.classes_]
        errors.append(np.linalg.norm(model.predict(target.drop(columns="population")) - true))
    return float(np.mean(errors))


@pytest.mark.parametrize(("soft", "criterion"), [(False, "delta_min"), (True, "delta_min"), (False, "error")])
def test_fourier_matching_finds_the_cell_populations(
    patients: dict[int, pd.DataFrame], soft: bool, criterion: Any
) -> None:
    assert mean_error(lambda: pp.RFFM(1000, soft=soft, criterion=criterion), patients) <= 0.075


def test_a_classifier_finds_them_better_while_nothing_unknown_is_there(patients: dict[int, pd.DataFrame]) -> None:
    assert mean_error(lambda: pp.BBSE(soft=True), patients) <= 0.04
