"""Protocols, measures, comparisons and their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.stats import friedmanchisquare, kstest, rankdata

import proportio as pp
from proportio import evaluation
from proportio.evaluation import Contamination, CovariateShift, Grid, Natural, Uniform, comparison, plots, protocols

RNG = np.random.default_rng(0)
Y = RNG.permutation(np.repeat(["a", "b", "c"], [300, 200, 100]))
CENTRES = {"a": [0.0, 0.0], "b": [3.0, 0.0], "c": [0.0, 3.0]}
X = np.array([CENTRES[k] for k in Y]) + RNG.normal(size=(600, 2))
METHODS = {"CC": pp.baselines.CC(cv=2), "PACC": pp.baselines.PACC(cv=2)}


def batches(protocol: evaluation.Protocol) -> list[evaluation.Batch]:
    return list(protocol.batches(X, Y, np.random.default_rng(1)))


@pytest.mark.parametrize("protocol", [Uniform(50, 20), Natural(50, 20), Grid(50, 2, points=4), CovariateShift(50, 5)])
def test_a_batch_has_the_shares_it_says(protocol: evaluation.Protocol) -> None:
    for batch in batches(protocol):
        assert len(batch.rows) == 50
        np.testing.assert_allclose(batch.shares, [np.mean(Y[batch.rows] == k) for k in "abc"])
        assert batch.unknown == pytest.approx(0, abs=1e-12)


def test_a_grid_has_every_point() -> None:
    found = {tuple(np.rint(3 * b.shares).astype(int)) for b in batches(Grid(51, 1, points=4))}
    assert found == {(i, j, 3 - i - j) for i in range(4) for j in range(4 - i)}


def test_uniform_shares_are_uniform_on_the_simplex() -> None:
    rng = np.random.default_rng(2)
    points = np.array([protocols.simplex_point(3, rng) for _ in range(2000)])
    assert kstest(points[:, 0], lambda x: 1 - (1 - x) ** 2).pvalue > 0.01  # Beta(1, 2)
    assert np.allclose(points.sum(axis=1), 1)


def test_contamination_withholds_the_class_at_the_given_shares() -> None:
    found = batches(Contamination(100, 3, withheld="b", shares=(0.1, 0.3)))
    assert [round(b.unknown, 9) for b in found] == [0.1] * 3 + [0.3] * 3 == [b.level for b in found]
    assert all(len(b.shares) == 2 for b in found)
    reference, _ = comparison.draw(X, Y, Contamination(100, 3, withheld="b"), 0, 0.5, 0)
    assert set(Y[reference]) == {"a", "c"}
    with pytest.raises(pp.InputError, match="withheld='z' is not among the labels"):
        batches(Contamination(withheld="z"))


def test_covariate_shift_moves_the_classes_by_its_strength() -> None:
    still, moved = (batches(CovariateShift(2000, 20, strengths=(s,))) for s in (0.0, 1.0))

    def drift(found: Any) -> float:
        means = [X[b.rows][Y[b.rows] == "a"].mean(axis=0) - X[Y == "a"].mean(axis=0) for b in found]
        return float(np.mean(np.linalg.norm(means, axis=1)))

    assert drift(still) < 0.15 and drift(moved) > 0.4


def test_rows_are_drawn_without_replacement_where_there_are_enough() -> None:
    for batch in batches(Natural(200, 5)):
        assert len(set(batch.rows)) == 200


def test_the_same_seed_gives_the_same_batches_and_splits_never_share_rows() -> None:
    reference, drawn = comparison.draw(X, Y, Uniform(50, 5), 0, 0.5, 3)
    again = comparison.draw(X, Y, Uniform(50, 5), 0, 0.5, 3)
    assert np.array_equal(reference, again[0])
    assert all(np.array_equal(a.rows, b.rows) for a, b in zip(drawn, again[1], strict=True))
    assert not set(reference) & {r for b in drawn for r in b.rows}


# -- measures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", evaluation.MEASURES)
def test_a_measure_is_zero_at_the_truth_and_positive_elsewhere(name: str) -> None:
    true = np.array([0.2, 0.3, 0.5])
    assert evaluation.measure(name, true, true, 100) == pytest.approx(0, abs=1e-15)
    assert evaluation.measure(name, true, [0.3, 0.2, 0.5], 100) > 0


@pytest.mark.parametrize("name", ["nae", "nrae", "nkld", "nmd"])
def test_normalised_measures_reach_one_at_worst(name: str) -> None:
    true, worst = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    assert evaluation.measure(name, true, worst, 10**6) == pytest.approx(1, abs=1e-4)


def test_measures_work_on_many_batches_at_once_and_check_their_input() -> None:
    true = RNG.dirichlet(np.ones(3), 5)
    estimated = RNG.dirichlet(np.ones(3), 5)
    for name in evaluation.MEASURES:
        each = [evaluation.measure(name, p, q, 50) for p, q in zip(true, estimated, strict=True)]
        np.testing.assert_allclose(evaluation.measure(name, true, estimated, 50), each)
    assert np.allclose(evaluation.smoothed([0.0, 1.0], 50), [0.01 / 1.02, 1.01 / 1.02])
    with pytest.raises(pp.InputError, match="is not one of ae"):
        evaluation.measure("mse", true, estimated, 50)
    with pytest.raises(pp.InputError, match="for the same classes"):
        evaluation.measure("ae", [0.5, 0.5], [1.0], 50)


# -- comparisons ---------------------------------------------------------------------------------------------------


class Broken:
    """A quantifier that cannot answer."""

    def fit(self, X: Any, y: Any) -> Broken:
        return self

    def predict(self, X: Any) -> Any:
        raise ValueError("no answer")


class Flat:
    """A quantifier of three lines."""

    def fit(self, X: Any, y: Any) -> Flat:
        self.c = len(np.unique(y))
        return self

    def predict(self, X: Any) -> Any:
        return np.full(self.c, 1 / self.c)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return pp.compare({**METHODS, "flat": Flat(), "broken": Broken()}, X, Y, protocol=Uniform(80, 12), splits=2)


def test_every_method_sees_the_same_batches(frame: pd.DataFrame) -> None:
    assert len(frame) == 4 * 2 * 12
    assert frame.groupby(["split", "repetition"])["true"].nunique().eq(1).all()
    flat = frame[frame["method"] == "flat"]
    expected = [np.abs(np.array(t) - 1 / 3).mean() for t in flat["true"]]
    np.testing.assert_allclose(flat["ae"], expected)
    assert flat["covered"].isna().all()


def test_intervals_are_checked_and_failures_are_told(frame: pd.DataFrame) -> None:
    good = frame[frame["method"] == "PACC"]
    assert good["covered"].mean() > 0.85 and (good["width"] > 0).all() and (good["seconds"] > 0).all()
    broken = frame[frame["method"] == "broken"]
    assert set(broken["error"]) == {"ValueError: no answer"} and broken["ae"].isna().all()


def test_frames_and_parallel_jobs_change_nothing() -> None:
    table = pd.DataFrame(X, columns=["u", "v"])
    known = {"protocol": Uniform(60, 4), "random_state": 5}
    plain = pp.compare(METHODS, X, Y, **known)
    with parallel_config("threading"):
        named = pp.compare(METHODS, table, pd.Series(Y), n_jobs=2, **known)
    pd.testing.assert_series_equal(plain["ae"], named["ae"])
    with pytest.raises(pp.InputError, match="a name each"):
        pp.compare([pp.baselines.CC(), pp.baselines.CC()], X, Y)


def test_under_contamination_shares_are_those_of_the_known_classes() -> None:
    protocol = Contamination(100, 4, withheld="c", shares=(0.2,))
    found = pp.compare({"soft": pp.RFFM(200, 1.0, soft=True), "PACC": METHODS["PACC"]}, X, Y, protocol=protocol)
    assert np.allclose(found["unknown"], 0.2) and {len(t) for t in found["true"]} == {2}
    mean = found.groupby("method")["l2"].mean()
    assert mean["soft"] < mean["PACC"]


def test_paired_differences_have_intervals(frame: pd.DataFrame) -> None:
    out = evaluation.paired(frame[frame["method"] != "broken"], against="PACC", draws=300).set_index("method")
    assert out.loc["flat", "low"] > 0 and (out["low"] <= out["difference"]).all()
    wide = frame.pivot(index=["split", "repetition"], columns="method", values="ae")
    assert out.loc["flat", "difference"] == pytest.approx((wide["flat"] - wide["PACC"]).mean())
    with pytest.raises(pp.InputError, match="against='XX'"):
        evaluation.paired(frame, against="XX")


def test_ranks_agree_with_scipy() -> None:
    table = pd.DataFrame(RNG.normal(size=(12, 4)) + np.arange(4), columns=list("pqrs"))
    mean, pvalue, critical = evaluation.ranks(table)
    np.testing.assert_allclose(list(mean.values()), np.apply_along_axis(rankdata, 1, table).mean(axis=0))
    assert pvalue == pytest.approx(friedmanchisquare(*table.to_numpy().T).pvalue)
    assert critical == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 12)), abs=1e-3)  # Demsar's table: q = 2.569 for 4
    with pytest.raises(pp.InputError, match="2 data sets"):
        evaluation.ranks(table[:1])


def test_every_figure_is_drawn(frame: pd.DataFrame, tmp_path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    good = frame[frame["method"] != "broken"]
    plots.save(plots.error_by_shift(good), tmp_path / "shift.png")
    plots.save(plots.diagonal(good), tmp_path / "diagonal.svg")
    table = good.pivot_table(index="repetition", columns="method", values="ae")
    plots.save(plots.critical_difference(table), tmp_path / "ranks.png")
    assert all((tmp_path / name).stat().st_size > 2000 for name in ("shift.png", "diagonal.svg", "ranks.png"))
    names = [f"m{i}" for i in range(60)]
    assert len({tuple(look.values()) for look in plots.look_of(names).values()}) == 60
