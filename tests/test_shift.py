"""The tests of label shift and of drift: their ingredients against closed forms, their size, power and words by simulation."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import proportio as pp
from proportio.blocks import within
from proportio.shift import EXPLAINED, SOMETHING_ELSE, TOO_LITTLE, UNSEEN, Residual, label_shift_test, skewness

F64 = NDArray[np.float64]

CENTRES = 2.5 * np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
SHARES = np.arange(1, 6) / 15
both = pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])


def world(
    rng: np.random.Generator, n: int, m: int, *, other: float = 0.0, kind: str = "middle"
) -> tuple[F64, Any, F64]:
    """Five Gaussian classes; a share `other` of the batch is a narrow class amid them, or a mixture of two of them."""
    y = np.repeat(np.arange(5), n)
    X = CENTRES[y] + rng.normal(size=(len(y), 3))
    Z = CENTRES[rng.choice(5, m, p=SHARES)] + rng.normal(size=(m, 3))
    hit = rng.random(m) < other
    k = int(hit.sum())
    if kind == "middle":
        Z[hit] = CENTRES.mean(axis=0) + 0.5 * rng.normal(size=(k, 3))
    else:
        Z[hit] = CENTRES[rng.integers(0, 2, k)] + rng.normal(size=(k, 3))
    return X, y, Z


def simulated(reps: int, n: int, m: int, *, soft: bool = False, method: str = "gamma", **other: Any) -> list[Any]:
    out = []
    for rep in range(reps):
        X, y, Z = world(np.random.default_rng([rep, n, m]), n, m, **other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            est = pp.RFFM(100, 1.5, soft, standardize=False).fit(X, y).estimate(Z)
        out.append(est.label_shift_test(method=method))  # type: ignore[arg-type]
    return out


# -- the ingredients -----------------------------------------------------------------------------------------------


@both
def test_the_statistic_is_the_squared_residual_in_feature_space(soft: bool) -> None:
    X, y, Z = world(np.random.default_rng(0), 100, 500)
    model = pp.RFFM(100, 1.5, soft).fit(X, y)
    est = model.estimate(Z)
    hard = pp.RFFM(100, 1.5).fit(X, y).estimate(Z)  # label shift means shares that sum to one, in the soft form too
    r = model.features_.transform(Z).mean(axis=0) - model.sketch_.means() @ hard.unconstrained
    assert est.label_shift_test().statistic == pytest.approx(r @ r, rel=1e-6)
    assert est.label_shift_test().effect_size < 0.2


def test_expected_residual_is_unbiased() -> None:
    """E T = tr S_r under label shift: the mean of T/tr S_r over 300 draws is 1 within its Monte Carlo error of 0.02."""
    for n, m in ((30, 200), (300, 1000)):
        found = simulated(300, n, m)
        ratio = np.array([t.statistic / t.expected for t in found])
        assert abs(ratio.mean() - 1) < 3 * ratio.std() / np.sqrt(300) + 0.02


def blocks_of(rng: np.random.Generator, p: F64, root: F64, draws: int) -> list[F64]:
    """Γ of block factors of normal rows with covariance of the mean S = root·rootᵀ, blocks of shares p."""
    out = []
    for _ in range(draws):
        S = np.sqrt(p)[:, None] * (rng.normal(size=(len(p), len(root))) @ root.T)  # Cov S_k/W = p_k S
        F = (S - p[:, None] * S.sum(axis=0)) / np.sqrt(1 - np.sum(p * p))
        out.append(F @ F.T)
    return out


@pytest.mark.parametrize("unequal", [False, True])
def test_the_squared_trace_is_unbiased_where_the_plain_one_is_not(unequal: bool) -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.full(24, 3.0)) if unequal else np.full(24, 1 / 24)
    root = np.diag(np.sqrt(np.linspace(1, 0.2, 30)))
    true = float(np.square(np.diag(root) ** 2).sum())
    grams = blocks_of(rng, p, root, 1500)
    ours = np.array([within(g, p) for g in grams])
    plain = np.array([np.square(g).sum() for g in grams])
    assert abs(ours.mean() - true) < 4 * ours.std() / np.sqrt(1500)  # Monte Carlo: 0.5 % of the truth
    assert plain.mean() > 1.5 * true


def test_skewness_of_equal_eigenvalues_is_that_of_chi_square() -> None:
    """8 tr S³/(2 tr S²)^{3/2} = √(8/d) for d equal eigenvalues."""
    p = np.full(400, 1 / 400)
    found = [skewness(g) for g in blocks_of(np.random.default_rng(2), p, np.eye(4), 40)]
    assert np.mean(found) == pytest.approx(np.sqrt(2), rel=0.05)


def test_the_unknown_that_leaves_no_residual_is_seen_by_what_is_missing() -> None:
    """Features that are 0 on the unknown rows: the soft shares explain all that is left, and fall short of one."""

    def inside(X: F64) -> F64:
        return np.exp(-np.square(X[:, :1] - np.linspace(-2, 6, 12))) * (np.abs(X[:, 1:2]) < 20)

    rng = np.random.default_rng(5)
    y = np.repeat([0, 1], 400)
    X = np.column_stack([rng.normal(size=800) + 4 * y, rng.normal(size=800)])
    Z = np.concatenate([X[rng.choice(800, 900)], np.full((200, 2), 50.0)])
    model = pp.DFM(pp.features.Function(inside, bound=4.0), soft=True).fit(X, y)
    clean, dirty = (model.estimate(rows).label_shift_test() for rows in (Z[:900], Z))
    assert clean.pvalue > 0.05 and dirty.pvalue < 1e-4 and dirty.verdict == SOMETHING_ELSE


# -- size ----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(("method", "reps"), [("gamma", 600), ("bootstrap", 200)])
def test_size_is_five_percent_and_pvalues_are_uniform(method: str, reps: int, soft: bool) -> None:
    """Monte Carlo error of the size: 0.009 and 0.015; Kolmogorov-Smirnov at the level of one in a thousand."""
    found = simulated(reps, 100, 600, soft=soft, method=method)
    p = np.array([t.pvalue for t in found])
    error = np.sqrt(0.05 * 0.95 / reps)
    assert 0.035 - error <= (p < 0.05).mean() <= 0.065 + error
    assert stats.kstest(p, "uniform").pvalue > 1e-3


def test_classes_that_overlap_do_not_make_the_test_reject() -> None:
    """Twelve classes crowded in one dimension: what the blind directions could explain is not held against the batch."""
    rejected, blind = [], []
    y, shares = np.repeat(np.arange(12), 60), np.arange(1, 13) / 78
    for rep in range(150):
        rng = np.random.default_rng(rep)
        X, Z = y + rng.normal(size=len(y)), rng.choice(12, 1500, p=shares) + rng.normal(size=1500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            est = pp.RFFM(60, 1.0, standardize=False).fit(X[:, None], y).estimate(Z[:, None])
        rejected.append(est.label_shift_test().pvalue < 0.05)
        blind.append(est.evidence.blind.shape[1])
    assert np.mean(blind) > 3
    assert np.mean(rejected) <= 0.05 + 0.054  # three times the Monte Carlo error


def test_the_bootstrap_agrees_with_the_gamma_law() -> None:
    for other in (0.0, 0.03):
        X, y, Z = world(np.random.default_rng(5), 300, 1000, other=other)
        est = pp.RFFM(100, 1.5).fit(X, y).estimate(Z)
        plain, drawn = est.label_shift_test(), est.label_shift_test(method="bootstrap", draws=4000)
        assert drawn.pvalue == pytest.approx(plain.pvalue, abs=0.03)
        assert drawn == est.label_shift_test(method="bootstrap", draws=4000)
        assert drawn.detectable == pytest.approx(plain.detectable, rel=0.1)


# -- power ---------------------------------------------------------------------------------------------------------


@both
def test_a_tenth_of_something_else_amid_the_classes_is_found(soft: bool) -> None:
    found = simulated(60, 500, 2000, soft=soft, other=0.1)
    assert np.mean([t.pvalue < 0.05 for t in found]) >= 0.95  # 0.8 is asked for
    assert np.mean([t.verdict == SOMETHING_ELSE for t in found]) >= 0.8


def test_what_lies_in_the_span_of_the_classes_is_not_found_by_any_such_test() -> None:
    """A tenth of the batch is unlike any class, but half class 0, half class 1: the shares absorb it unseen."""
    found = simulated(300, 500, 2000, other=0.1, kind="span")
    assert np.mean([t.pvalue < 0.05 for t in found]) < 0.09
    assert all(UNSEEN in t.explanation for t in found)
    X, y, Z = world(np.random.default_rng(0), 500, 4000, other=0.3, kind="span")
    low = pp.RFFM(100, 1.5).fit(X, y).estimate(Z).interval()[0, 0]
    assert low > SHARES[0] + 0.05  # and the interval of a class that absorbs it is wrong


def test_the_detectable_effect_is_detected_four_times_in_five() -> None:
    """T of a known law with an effect of exactly that size; 4,000 draws, Monte Carlo error 0.006."""
    rng = np.random.default_rng(3)
    eigen = 0.8 ** np.arange(30)
    mean, variance = eigen.sum(), 2 * np.square(eigen).sum()
    skew = 8 * np.power(eigen, 3).sum() / variance**1.5
    quiet = Residual(mean, mean, variance, skew, variance / 2, 100.0)
    delta = label_shift_test(quiet).detectable * 10  # times ‖Φ(Q)‖
    direction = np.sqrt(eigen / eigen.sum())  # δ spread as the noise is
    noise = rng.normal(size=(4000, 30)) * np.sqrt(eigen)
    T = np.square(noise + delta * direction).sum(axis=1)
    found = [label_shift_test(Residual(t, mean, variance, skew, variance / 2, 100.0)).pvalue < 0.05 for t in T]
    assert abs(np.mean(found) - 0.8) < 0.05


def test_the_effect_lies_below_its_upper_limit_nineteen_times_in_twenty() -> None:
    for other in (0.0, 0.05):
        true = effect_of(other)
        found = simulated(300, 300, 1000, other=other)
        assert np.mean([t.upper >= true for t in found]) >= 0.95 - 0.03  # Monte Carlo error 0.013


def effect_of(other: float) -> float:
    """The effect in the population, from very many rows."""
    X, y, Z = world(np.random.default_rng(9), 20_000, 200_000, other=other)
    effect = pp.RFFM(100, 1.5, standardize=False).fit(X, y).estimate(Z).label_shift_test().effect_size
    return effect if other else 0.0


def test_tolerance_passes_what_is_small_and_not_what_is_large() -> None:
    true, found = effect_of(0.05), residuals(100, other=0.05)
    for tolerance, most, least in ((1.3 * true, 0.1, 0.0), (0.3 * true, 1.0, 0.8)):
        rejected = [label_shift_test(r, tolerance=tolerance).pvalue_beyond < 0.05 for r in found]
        assert least <= np.mean(rejected) <= most
    # at the tolerance itself the test rejects about as often as it says; Monte Carlo error 0.022
    at = [label_shift_test(r, tolerance=true).pvalue_beyond < 0.05 for r in found]
    assert np.mean(at) <= 0.05 + 0.066


def residuals(reps: int, *, other: float) -> list[Residual]:
    out = []
    for rep in range(reps):
        X, y, Z = world(np.random.default_rng([rep, 7]), 1000, 4000, other=other)
        out.append(pp.RFFM(100, 1.5, standardize=False).fit(X, y).estimate(Z).residual)
    return out


# -- words ---------------------------------------------------------------------------------------------------------


def test_the_three_verdicts() -> None:
    quiet = {"variance": 1e-8, "skewness": 0.5, "along": 1e-8, "norm2": 0.25}
    plenty = label_shift_test(Residual(T=1e-3, mean=1e-3, **quiet))
    assert plenty.verdict == EXPLAINED and plenty.upper < 0.1 and "within the tolerance" in plenty.explanation
    trace = label_shift_test(Residual(T=1.8e-3, mean=1e-3, **quiet))
    assert trace.verdict == EXPLAINED and trace.pvalue < 1e-6 and "though more than chance" in trace.explanation
    assert label_shift_test(Residual(T=1.8e-3, mean=1e-3, **quiet), tolerance=0.01).verdict == SOMETHING_ELSE
    other = label_shift_test(Residual(T=1e-2, mean=1e-3, **quiet))
    assert other.verdict == SOMETHING_ELSE and other.effect_size == pytest.approx(np.sqrt(9e-3) / 0.5)
    little = label_shift_test(Residual(T=1e-2, mean=1e-2, variance=1e-5, skewness=0.5, along=5e-6, norm2=0.25))
    assert little.verdict == TOO_LITTLE and little.detectable > 0.1 and f"{little.detectable:.2g}" in little.explanation


def test_few_rows_are_too_little_to_tell_and_many_are_not() -> None:
    few, many = simulated(40, 20, 60), simulated(20, 2000, 8000)
    assert np.mean([t.verdict == TOO_LITTLE for t in few]) > 0.8
    assert np.mean([t.verdict == EXPLAINED for t in many]) > 0.8


@both
def test_decisions_alone_leave_no_residual_to_test(soft: bool) -> None:
    X, y, Z = world(np.random.default_rng(0), 100, 300)
    test = pp.BBSE(cv=2, soft=soft).fit(X, y).estimate(Z).label_shift_test()
    assert np.isnan(test.pvalue) and test.verdict == TOO_LITTLE
    assert "no more dimensions than the classes span" in test.explanation and "RFFM" in test.explanation


@both
def test_a_batch_of_one_row_repeated_is_no_accident(soft: bool) -> None:
    """Neither the batch nor one class has any noise: nothing is NaN, and nothing is said beyond what can be told."""
    X, y, _ = world(np.random.default_rng(0), 60, 10)
    X[y == 2] = X[y == 2][0]
    est = pp.RFFM(60, 1.5, soft).fit(X, y).estimate(np.tile(X[y == 2][:1], (50, 1)))
    test = est.label_shift_test()
    assert est.residual.variance >= 0 and np.isfinite(est.interval()).all()
    assert test.verdict in (EXPLAINED, SOMETHING_ELSE, TOO_LITTLE) and est.proportions[2] > 0.9


def test_results_are_plain_json() -> None:
    X, y, Z = world(np.random.default_rng(0), 50, 100)
    for model in (pp.RFFM(60, 1.5), pp.BBSE(cv=2)):
        est = model.fit(X, y).estimate(Z)
        for result in (est.label_shift_test(), est.drift_test()):
            assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["verdict"] == result.verdict


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 5}, "must lie between 0 and 1"),
        ({"tolerance": -1}, "tolerance=-1 must be 0 or more"),
        ({"method": "exact"}, "method='exact' is neither"),
        ({"method": "bootstrap", "draws": 1.5}, "draws=1.5"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    X, y, Z = world(np.random.default_rng(0), 50, 100)
    est = pp.RFFM(60, 1.5).fit(X, y).estimate(Z)
    with pytest.raises(pp.ProportioError, match=message):
        est.label_shift_test(**options)


# -- drift ---------------------------------------------------------------------------------------------------------


def drift(reps: int, *, moved: float, sampled: bool, source: Any, soft: bool = False) -> float:
    """How often the test says that the shares moved; the reference's shares fixed, or drawn as its rows are."""
    hits = []
    for rep in range(reps):
        rng = np.random.default_rng([rep, 11])
        y = rng.choice(5, 400, p=SHARES) if sampled else np.repeat(np.arange(5), (400 * SHARES).round().astype(int))
        beta = SHARES if sampled else np.bincount(y) / len(y)
        alpha = beta + moved * (np.eye(5)[0] - np.eye(5)[4])
        X = CENTRES[y] + rng.normal(size=(len(y), 3))
        Z = CENTRES[rng.choice(5, 3000, p=alpha)] + rng.normal(size=(3000, 3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            est = pp.RFFM(100, 1.5, soft, standardize=False).fit(X, y).estimate(Z)
        hits.append(est.drift_test(source=source).pvalue < 0.05)
    return float(np.mean(hits))


@both
def test_drift_test_has_its_size_and_sees_a_move(soft: bool) -> None:
    assert drift(300, moved=0, sampled=False, source="fixed", soft=soft) < 0.05 + 0.04  # Monte Carlo error 0.013
    assert drift(40, moved=0.15, sampled=False, source="fixed", soft=soft) > 0.9


def test_a_sampled_reference_needs_its_own_noise_counted() -> None:
    """Against the population's shares, the shares of the sampled reference rows are themselves uncertain."""
    assert drift(300, moved=0, sampled=True, source="sampled") < 0.05 + 0.04
    assert drift(300, moved=0, sampled=True, source="fixed") > 0.1


def test_drift_names_its_assumption_and_refuses_others() -> None:
    X, y, Z = world(np.random.default_rng(0), 50, 300)
    est = pp.RFFM(60, 1.5).fit(X, y).estimate(Z)
    assert "random sample" in est.drift_test(source="sampled").assumption
    assert est.drift_test().verdict == "the shares moved" and 0.1 < est.drift_test().distance < 0.5
    with pytest.raises(pp.ProportioError, match="source='random' is neither 'fixed' nor 'sampled'"):
        est.drift_test(source="random")  # type: ignore[arg-type]


def test_an_impossible_level_is_named_as_it_was_given() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    X = rng.normal(size=(100, 2)) + 3 * y[:, None]
    est = pp.RFFM(n_features=20, bandwidth=1.0).fit(X, y).estimate(X[20:])
    for test in (est.label_shift_test, est.drift_test):
        with pytest.raises(pp.InputError, match=r"level=5 must lie between 0 and 1: 0\.05 lets the test reject"):
            test(level=5)
    assert str(est.label_shift_test()).startswith(est.label_shift_test().verdict)
