"""What the unknown looks like, on worlds where that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import proportio as pp
from proportio.profile import profile


def test_the_range_of_a_new_class_is_found_in_its_own_columns() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(["a", "b"], 1000)
    X = rng.normal(size=(2000, 6)) + 3 * (y == "b")[:, None] * np.eye(6)[0]
    new = rng.normal(size=(200, 6)) + 5 * np.eye(6)[3] - 4 * np.eye(6)[5]
    names = [f"marker {k}" for k in range(6)]
    batch = np.concatenate([X[::4], new])
    model = pp.RFFM(n_features=500, soft=True).fit(pd.DataFrame(X, columns=names), y)
    found = model.explain_unknown(pd.DataFrame(batch, columns=names), top=3)
    assert [c.column for c in found.contrasts[:2]] == ["marker 3", "marker 5"]
    up, down, other = found.contrasts
    assert up.low > 1.5 and up.high > 5 and down.high < -1 and down.low < -4
    assert up.excess > 0.6 and down.excess > 0.6 and other.excess < 0.35
    assert "marker 3" in str(found) and "of the unknown" in str(found)


def test_chance_alone_seldom_goes_beyond_what_is_said_of_it() -> None:
    # two samples of one law: 400 columns, a share of 0.05 is known to 0.011; Kuiper's limit is a little safe for few rows
    rng = np.random.default_rng(1)
    values = rng.normal(size=(600, 400))
    u = (np.arange(600) < 150).astype(float)
    found = profile(values, u, [str(k) for k in range(400)], 400)
    beyond = np.mean([c.excess > found.chance for c in found.contrasts])
    assert beyond < 0.05 + 3 * 0.011
    assert abs(found.rows - 150) < 1e-9


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12))
def test_no_range_has_a_larger_excess(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 5, n).astype(float)
    u = rng.random(n)
    found = profile(x[:, None], u, ["x"], 1).contrasts[0]
    known, unknown = (1 - u) / (1 - u).sum(), u / u.sum()

    def excess(a: float, b: float) -> float:
        inside: npt.NDArray[Any] = (x >= a) & (x <= b)
        return float(unknown[inside].sum() - known[inside].sum())

    assert abs(found.excess - max(excess(a, b) for a in x for b in x if a <= b)) < 1e-12
    assert abs(found.excess - excess(found.low, found.high)) < 1e-12


def test_columns_without_names_are_numbered_and_wishes_are_checked() -> None:
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 2)) + 3 * y[:, None]
    batch = np.concatenate([X, rng.normal(size=(100, 2)) - 5])
    model = pp.RFFM(n_features=200, soft=True).fit(X, y)
    assert {c.column for c in model.explain_unknown(batch).contrasts} == {"column 0", "column 1"}
    for top in (0, -1, 1.5, True):
        with pytest.raises(pp.InputError, match="top="):
            model.explain_unknown(batch, top=top)  # type: ignore[arg-type]
