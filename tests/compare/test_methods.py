"""Every related method against the field's libraries, on the same posteriors.

Where a library stops early, its own loss is driven to its minimum (SLSQP at a tolerance of 1e-16, EM to 1e-14) and then compared to
1e-6. Where the two differ by construction, the test says how and shows it.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

from proportio import baselines
from proportio.baselines import calibration

quapy = pytest.importorskip("quapy")
abstention = pytest.importorskip("abstention.label_shift")
calibrators = pytest.importorskip("abstention.calibration")
pytest.importorskip("cvxpy")

from quapy.method import aggregative, non_aggregative
from scipy import optimize

from compare.given import BATCH, BATCH2, GROUPS, GROUPS2, SOURCE, SOURCE2, Given, fitted, ours, ours2

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs
TOLERANCE = 1e-6
LABELS = np.eye(3)[GROUPS]


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """QuaPy's SLSQP stops where its loss changes by 1e-6: let it go on."""
    monkeypatch.setattr(optimize, "minimize", partial(optimize.minimize, options={"ftol": 1e-16, "maxiter": 5000}))


def theirs(kind: Any, **params: Any) -> Any:
    """QuaPy's shares of three classes."""
    return kind(Given(), fit_classifier=False, **params).fit(SOURCE, GROUPS).predict(BATCH)


def theirs2(kind: Any, **params: Any) -> Any:
    """QuaPy's shares of two classes."""
    return kind(Given(2), fit_classifier=False, **params).fit(SOURCE2, GROUPS2).predict(BATCH2)


def agree(a: Any, b: Any, within: float = TOLERANCE) -> None:
    np.testing.assert_allclose(a, b, atol=within, rtol=0)


def squared(p: Any, q: Any) -> float:
    return float(np.sum((np.sqrt(p) - np.sqrt(q)) ** 2))


def test_cc() -> None:
    agree(ours(baselines.CC), theirs(aggregative.CC))


def test_acc(tight: None) -> None:
    agree(ours(baselines.ACC), theirs(aggregative.ACC, solver="minimize"))


def test_pacc(tight: None) -> None:
    agree(ours(baselines.PACC), theirs(aggregative.PACC, solver="minimize"))


def test_em() -> None:
    theirs_driven = aggregative.EMQ(Given(), fit_classifier=False).fit(SOURCE, GROUPS)
    theirs_driven.MAX_ITER = 100_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aggregative.EMQ, "MAX_ITER", 100_000)
        agree(ours(baselines.EM), theirs_driven.aggregate(BATCH, epsilon=1e-14))


def test_em_as_shipped_stops_early() -> None:
    prior = np.bincount(GROUPS) / len(GROUPS)

    def log_likelihood(alpha: Any) -> float:
        return float(np.log(BATCH @ (alpha / prior)).sum())

    early, here = theirs(aggregative.EMQ), ours(baselines.EM)
    assert log_likelihood(here) > log_likelihood(early)
    assert 1e-4 < np.abs(early - here).max() < 1e-2


def test_rlls_of_quapy() -> None:
    agree(ours(baselines.RLLS, draws=0), theirs(aggregative.RLLS))


@pytest.mark.parametrize("scale", [0.01, 0.1, 0.3])
def test_rlls_of_abstention_is_no_better_and_within_its_solvers_tolerance(scale: float) -> None:
    known = {"tofit_initial_posterior_probs": BATCH, "valid_posterior_probs": SOURCE}
    adapted = abstention.RLLSImbalanceAdapter(soft=True, alpha=scale)(valid_labels=LABELS, **known)
    model = fitted(baselines.RLLS, scale=scale, draws=0)
    prior, problem = model.source_.prior, model._problem(BATCH)
    C, q = SOURCE.T @ (model.source_.omega * prior), BATCH.mean(axis=0)

    def value(w: Any) -> float:
        return float(np.linalg.norm(C @ w - q) + problem.rho * np.linalg.norm(w - 1))

    w = baselines.rlls.solve(C, q, problem.rho)[0]
    assert value(w) <= value(adapted.multipliers) + 1e-12
    agree(w, adapted.multipliers, within=1e-5)


@pytest.mark.parametrize(
    ("kind", "factory"),
    [
        ("temperature", calibrators.TempScaling),
        ("bcts", lambda: calibrators.TempScaling(bias_positions="all")),
        ("vector", calibrators.VectorScaling),
        ("nbvs", calibrators.NoBiasVectorScaling),
    ],
)
def test_calibrations_have_no_more_loss_and_agree_to_the_tolerance_of_lbfgs(kind: Any, factory: Any) -> None:
    p = SOURCE**2 * [1.0, 0.3, 2.0]
    p /= p.sum(axis=1, keepdims=True)
    here = calibration.fit(p, GROUPS, np.ones(len(p)), kind)(p)
    there = factory()(valid_preacts=p, valid_labels=LABELS, posterior_supplied=True)(p)

    def loss(q: Any) -> float:
        return -float(np.log(q[np.arange(len(q)), GROUPS]).mean())

    assert loss(here) <= loss(there) + 1e-12
    assert loss(there) - loss(here) < TOLERANCE
    agree(here, there, within=1e-3)


def test_em_on_calibrated_posteriors() -> None:
    calibrated = fitted(baselines.EM, calibration="bcts").calibrator_
    adapter = abstention.EMImbalanceAdapter(
        estimate_priors_from_valid_labels=True, tolerance=1e-13, max_iterations=100_000
    )
    adapted = adapter(
        valid_labels=LABELS, tofit_initial_posterior_probs=calibrated(BATCH), valid_posterior_probs=calibrated(SOURCE)
    )
    prior = np.bincount(GROUPS) / len(GROUPS)
    agree(ours(baselines.EM, calibration="bcts"), adapted.multipliers * prior)


def test_abstention_calibrates_the_prior_but_iterates_on_posteriors_that_are_not() -> None:
    def multipliers(factory: Any) -> Any:
        adapter = abstention.EMImbalanceAdapter(
            estimate_priors_from_valid_labels=True, tolerance=1e-13, max_iterations=100_000, calibrator_factory=factory
        )
        known = {"tofit_initial_posterior_probs": batch, "valid_posterior_probs": p}
        return adapter(valid_labels=LABELS, **known).multipliers

    p, batch = SOURCE**2, BATCH**2
    p, batch = p / p.sum(axis=1, keepdims=True), batch / batch.sum(axis=1, keepdims=True)
    agree(multipliers(calibrators.TempScaling()), multipliers(None))  # calibration changed nothing


def test_kde_likelihood(tight: None) -> None:
    agree(ours(baselines.KDE, bandwidth=0.2), theirs(aggregative.KDEyML, bandwidth=0.2))


def test_kde_cauchy_schwarz(tight: None) -> None:
    agree(ours(baselines.KDE, bandwidth=0.2, divergence="cs"), theirs(aggregative.KDEyCS, bandwidth=0.2))


@pytest.mark.parametrize("bins", [4, 8])
def test_histograms_of_posteriors(tight: None, bins: int) -> None:
    here = ours(baselines.DyS, divergence="hellinger", bins=bins)
    agree(here, theirs(aggregative.DMy, nbins=bins, divergence=squared))
    agree(ours(baselines.DyS, bins=bins), theirs(aggregative.DMy, nbins=bins, divergence="topsoe"))


def test_distances_that_are_not_squared_weigh_columns_otherwise(tight: None) -> None:
    here, there = ours(baselines.DyS, divergence="hellinger"), theirs(aggregative.DMy, nbins=8, divergence="HD")
    assert 1e-3 < np.abs(here - there).max() < 0.05


def test_histograms_of_columns(tight: None) -> None:
    their_model = non_aggregative.DMx(nbins=8, divergence=squared).fit(SOURCE, GROUPS)
    inside = np.clip(
        BATCH, SOURCE.min(axis=0), SOURCE.max(axis=0)
    )  # theirs drops what lies outside the reference's range
    agree(baselines.HDx(bins=8).fit(SOURCE, GROUPS).predict(BATCH), their_model.predict(inside))


def test_dys_of_two_classes() -> None:
    agree(ours2(baselines.DyS), theirs2(aggregative.DyS, divergence="topsoe", tol=1e-10))
    agree(ours2(baselines.DyS, divergence="hellinger"), theirs2(aggregative.DyS, divergence="HD", tol=1e-10))


def test_hdy_of_two_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    agree(ours2(baselines.HDy), theirs2(aggregative.HDy), within=0.01)  # theirs walks in steps of 0.01

    def exact(loss: Any, n_classes: int) -> Any:
        found = optimize.minimize_scalar(
            lambda a: loss(np.array([1 - a, a])) ** 2, bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
        ).x
        return np.array([1 - found, found])

    monkeypatch.setattr(aggregative.F, "linear_search", exact)
    agree(ours2(baselines.HDy), theirs2(aggregative.HDy))


def test_mlquantify_agrees_on_counts() -> None:
    counting = pytest.importorskip("mlquantify.counting")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        counted = counting.CC(Given()).fit(SOURCE, GROUPS).predict(BATCH)
    values = list(counted.values()) if isinstance(counted, dict) else counted
    agree(ours(baselines.CC), np.asarray(values, dtype=float))
