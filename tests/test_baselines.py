"""The related methods against brute force, independent algorithms, finite differences and simulation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog, minimize
from scipy.spatial.distance import cdist

import proportio as pp
from proportio import baselines
from proportio.baselines import calibration, pearson, rlls, wasserstein
from proportio.baselines.convex import Divergence, hellinger, likelihood, minimise, topsoe
from proportio.baselines.kde import most_aligned

F64 = NDArray[np.float64]
DIVERGENCES = {"hellinger": hellinger, "topsoe": topsoe, "likelihood": likelihood}
every_divergence = pytest.mark.parametrize("phi", DIVERGENCES.values(), ids=DIVERGENCES)


def grid(c: int, steps: int) -> F64:
    """The points of the simplex with coordinates k/steps."""
    axes = np.meshgrid(*[np.arange(steps + 1)] * (c - 1), indexing="ij")
    points = np.stack([a.ravel() for a in axes], axis=1)
    points = points[points.sum(axis=1) <= steps]
    return np.column_stack([points, steps - points.sum(axis=1)]) / steps


def histograms(rng: np.random.Generator, c: int, bins: int, rows: int) -> tuple[F64, F64]:
    """Sampled histograms of c classes, many bins empty, and of a batch on the boundary or within."""
    laws = rng.dirichlet(np.full(bins, rng.choice([0.05, 0.3, 1.0])) + 1e-3, c)
    A = np.array([rng.multinomial(rows, law / law.sum()) for law in laws]).T / rows
    mixed = A @ rng.dirichlet(np.full(c, rng.choice([0.05, 0.5, 2.0])))
    return A, rng.multinomial(rows, mixed / mixed.sum()) / rows


# -- the solver ----------------------------------------------------------------------------------------------------


@every_divergence
def test_the_certificate_is_tiny_for_every_shape_of_problem(phi: Divergence) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        c = int(rng.integers(2, 12))
        A, t = histograms(rng, c, int(rng.integers(c, 60)), int(rng.choice([30, 300, 3000])))
        found = minimise(A, t, phi)
        assert found.kkt <= 1e-8
        assert found.alpha.min() >= 0 and found.alpha.sum() == pytest.approx(1, abs=1e-12)


@every_divergence
def test_no_point_of_a_fine_grid_is_better(phi: Divergence) -> None:
    rng = np.random.default_rng(1)
    points = grid(3, 200)
    for _ in range(10):
        A, t = histograms(rng, 3, 12, 100)
        with np.errstate(invalid="ignore", over="ignore"):
            value = np.nan_to_num(phi(t[:, None], A @ points.T).value, nan=0.0).sum(axis=0)
            least = float(np.nan_to_num(phi(t, A @ minimise(A, t, phi).alpha).value).sum())
        assert least <= value.min() + 1e-9  # a certificate of 1e-10, times slopes


@every_divergence
def test_slopes_and_curvatures_are_derivatives(phi: Divergence) -> None:
    t, p, h = np.array([0.2, 0.5, 0.03]), np.array([0.3, 0.1, 0.4]), 1e-6
    terms = phi(t, p)
    np.testing.assert_allclose(terms.slope, (phi(t, p + h).value - phi(t, p - h).value) / (2 * h), rtol=1e-6)
    np.testing.assert_allclose(terms.curvature, (phi(t, p + h).slope - phi(t, p - h).slope) / (2 * h), rtol=1e-6)


def test_a_mixture_without_noise_is_recovered_zeros_exactly() -> None:
    rng = np.random.default_rng(2)
    A = rng.dirichlet(np.ones(30), 5).T
    true = np.array([0.5, 0.0, 0.3, 0.2, 0.0])
    for phi in (hellinger, topsoe):
        np.testing.assert_allclose(minimise(A, A @ true, phi).alpha, true, atol=1e-5)
    pulled = minimise(np.eye(2)[[0, 0, 1]] * [[0.5], [0.5], [1]], np.array([0.5, 0.5, 0.0]), hellinger)
    assert pulled.alpha.tolist() == [1.0, 0.0]


# -- each method against another way to its minimum ----------------------------------------------------------------

RNG = np.random.default_rng(4)
PRIOR = np.array([0.3, 0.5, 0.2])
GROUPS = np.repeat([0, 1, 2], [90, 150, 60])
MIXED = RNG.choice(3, 200, p=[0.6, 0.1, 0.3])


def posteriors(groups: NDArray[np.int64]) -> F64:
    scores = RNG.normal(size=(len(groups), 3)) + 1.5 * np.eye(3)[groups] + np.log(PRIOR)
    e = np.exp(scores)
    return np.asarray(e / e.sum(axis=1, keepdims=True))


SOURCE, BATCH = posteriors(GROUPS), posteriors(MIXED)
OMEGA = np.eye(3)[GROUPS] / np.bincount(GROUPS)
WEIGHTS = np.full(len(BATCH), 1 / len(BATCH))


class Given:
    """A classifier whose rows are their own posteriors."""

    classes_ = np.arange(3)

    def predict_proba(self, X: Any) -> Any:
        return X / X.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return X.argmax(axis=1)


def given(kind: Callable[..., Any], **params: Any) -> Any:
    """The method on posteriors that are handed over."""
    return kind(Given(), cv="prefit", **params).fit(SOURCE, GROUPS)


def test_em_is_where_saerens_iterations_end() -> None:
    model = given(baselines.EM)
    alpha = np.full(3, 1 / 3)
    for _ in range(20_000):
        joint = BATCH * alpha / model.source_.prior
        alpha = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(model.predict(BATCH), alpha, atol=1e-8)


def test_the_posteriors_own_mean_can_be_their_prior() -> None:
    model = given(baselines.EM, prior="posteriors")
    np.testing.assert_allclose(model.prior_, SOURCE.mean(axis=0))


@pytest.mark.parametrize("kind", ["temperature", "bcts", "vector", "nbvs"])
def test_a_calibration_has_the_least_log_loss(kind: Any) -> None:
    sharper = SOURCE**2 * [1.0, 0.3, 2.0]
    sharper /= sharper.sum(axis=1, keepdims=True)
    fitted = calibration.fit(sharper, GROUPS, np.ones(len(GROUPS)), kind)
    assert fitted.gradient <= 1e-8

    def loss(theta: F64) -> float:
        scale = theta[:1] if kind in ("temperature", "bcts") else theta[:3]
        bias = theta[len(scale) :] if kind in ("bcts", "vector") else np.zeros(3)
        scores = calibration.logits(sharper) * scale + bias
        return float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(GROUPS)), GROUPS]))

    start = np.concatenate(
        [np.ones(1 if kind in ("temperature", "bcts") else 3), np.zeros(3 * (kind in ("bcts", "vector")))]
    )
    best = minimize(loss, start, method="BFGS", options={"gtol": 1e-7}).fun
    scale = fitted.scale[:1] if kind in ("temperature", "bcts") else fitted.scale
    mine = loss(np.concatenate([scale, fitted.bias] if len(start) > len(scale) else [scale]))
    assert mine == pytest.approx(best, abs=1e-8)
    if kind in ("bcts", "vector"):  # the bias makes the mean posterior the shares of the labels
        np.testing.assert_allclose(fitted(sharper).mean(axis=0), np.bincount(GROUPS) / len(GROUPS), atol=1e-8)


def test_a_perfect_classifier_can_be_calibrated() -> None:
    hard = np.eye(3)[GROUPS]
    for kind in ("temperature", "bcts", "vector", "nbvs"):
        p = calibration.fit(hard, GROUPS, np.ones(len(GROUPS)), kind)(hard)  # type: ignore[arg-type]
        assert np.isfinite(p).all() and p[np.arange(len(GROUPS)), GROUPS].min() > 0.999


@pytest.mark.parametrize("rho", [1e-9, 0.01, 0.05, 0.2, 5.0])
def test_rlls_has_the_least_sum_of_norms(rho: float) -> None:
    C, q = SOURCE.T @ (OMEGA * PRIOR), BATCH.mean(axis=0)

    def value(w: F64) -> float:
        return float(np.linalg.norm(C @ w - q) + rho * np.linalg.norm(w - 1))

    w, _, kkt = rlls.solve(C, q, rho)
    assert kkt <= 1e-8
    rng = np.random.default_rng(0)
    others = np.maximum(w + rng.normal(size=(3000, 3)) * 10.0 ** rng.uniform(-6, 0, (3000, 1)), 0)
    assert min(value(other) for other in others) >= value(w) - 1e-13


def test_rlls_is_certified_for_every_strength_and_never_mistakes_rounding_for_the_prior() -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        c = int(rng.integers(2, 8))
        prior = rng.dirichlet(np.full(c, 5.0))
        C = rng.dirichlet(np.full(c, 0.3), c).T * 0.5 * prior + np.diag(0.5 * prior)
        _, _, kkt = rlls.solve(C, C @ rng.exponential(size=c) + 0.01 * rng.normal(size=c), 10.0 ** rng.uniform(-8, 0.5))
        assert kkt <= 1e-7


def test_rlls_without_regularisation_is_bbse_and_with_much_is_the_prior() -> None:
    exact = given(pp.BBSE, positive=False).predict(BATCH)
    hard = given(baselines.RLLS, decisions="hard", scale=1e-9, draws=0)
    np.testing.assert_allclose(hard.predict(BATCH), exact, atol=1e-6)
    np.testing.assert_allclose(given(baselines.RLLS, scale=1e3, draws=0).predict(BATCH), np.bincount(GROUPS) / 300)


def test_cauchy_schwarz_is_the_most_aligned_mixture() -> None:
    rng = np.random.default_rng(3)
    points = grid(3, 200)
    for _ in range(20):
        B, target = rng.normal(size=(5, 3)) + 1, rng.normal(size=5) + 1
        G, t = B.T @ B, B.T @ target
        found = most_aligned(G, t)
        cosines = points @ t / np.sqrt(np.einsum("pi,ij,pj->p", points, G, points))
        assert found.kkt <= 1e-9
        assert found.alpha @ t / np.sqrt(found.alpha @ G @ found.alpha) >= cosines.max() - 1e-12


def test_kde_is_the_likeliest_mixture_of_gaussians() -> None:
    model = given(baselines.KDE, bandwidth=0.2)
    densities = np.exp(-cdist(SOURCE, BATCH, "sqeuclidean") / (2 * 0.2**2)).T @ OMEGA
    values = np.log(densities @ grid(3, 200).T).sum(axis=0)
    assert np.log(densities @ model.predict(BATCH)).sum() >= values.max()


def test_pearson_has_the_least_penalised_divergence() -> None:
    rng = np.random.default_rng(5)
    source, batch = rng.random((40, 6)), rng.random((30, 6))
    omega, w = np.eye(2)[np.arange(40) % 2] / 20, np.full(30, 1 / 30)
    found = pearson._Flattest(source, batch, 0.1).solve(omega, w)
    G, regular = pearson.gram(batch, w, 0.1)
    for share in np.linspace(0, 1, 1001):
        h = source.T @ omega @ np.array([share, 1 - share])
        ratio = np.linalg.solve(regular, h)
        least = source.T @ omega @ found.alpha
        mine = np.linalg.solve(regular, least)
        assert mine @ least - mine @ G @ mine / 2 <= ratio @ h - ratio @ G @ ratio / 2 + 1e-12


def test_wasserstein_distances_of_columns_are_those_of_a_linear_programme() -> None:
    problem = wasserstein._Columns.of(SOURCE[::4], BATCH[::4])
    omega, w = OMEGA[::4] / OMEGA[::4].sum(axis=0), np.full(50, 1 / 50)
    F, T = problem.distributions(omega, w)
    n = len(T)
    both = np.block([[F, -np.eye(n)], [-F, -np.eye(n)]])
    exact = linprog(
        np.append(np.zeros(3), problem.widths), A_ub=both, b_ub=np.append(T, -T), A_eq=[[1, 1, 1] + [0] * n], b_eq=[1]
    )
    found = problem.solve(omega, w)
    assert found.kkt <= 1e-8
    assert problem.widths @ np.abs(F @ found.alpha - T) == pytest.approx(exact.fun, abs=1e-9)
    np.testing.assert_allclose(found.alpha, exact.x[:3], atol=1e-6)
    one = wasserstein._Columns.of(SOURCE[:, :1], BATCH[:, :1])
    F, T = one.distributions(OMEGA, WEIGHTS)
    from scipy.stats import wasserstein_distance

    weights = OMEGA @ [0.2, 0.5, 0.3]
    expected = wasserstein_distance(SOURCE[:, 0], BATCH[:, 0], weights)
    assert one.widths @ np.abs(F @ [0.2, 0.5, 0.3] - T) == pytest.approx(expected)


def test_joint_wasserstein_is_that_of_one_linear_programme_over_plans_and_shares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("POT_BACKEND_DISABLE_PYTORCH", "1")  # it would import it, and be slow
    pytest.importorskip("ot")
    rows, columns = np.arange(0, 300, 20), np.arange(0, 200, 20)
    n, m = len(rows), len(columns)
    cost = cdist(SOURCE[rows], BATCH[columns])
    omega = OMEGA[rows] / OMEGA[rows].sum(axis=0)
    leaving = np.kron(np.eye(n), np.ones(m))
    arriving = np.kron(np.ones(n), np.eye(m))
    exact = linprog(
        np.append(np.zeros(3), cost.ravel()),
        A_eq=np.vstack([np.hstack([-omega, leaving]), np.hstack([np.zeros((m, 3)), arriving])]),
        b_eq=np.append(np.zeros(n), np.full(m, 1 / m)),
    )
    found = wasserstein._Joint(cost).solve(omega, np.full(m, 1 / m))
    assert found.kkt <= 1e-8
    np.testing.assert_allclose(found.alpha, exact.x[:3], atol=1e-6)
    model = given(baselines.Wasserstein, joint=True, draws=0)
    assert model.predict(BATCH[::10]).sum() == pytest.approx(1)


def test_the_sweep_is_the_median_over_numbers_of_bins() -> None:
    each = [given(baselines.HDy, bins=b).predict(BATCH) for b in range(10, 111, 10)]
    middle = np.median(each, axis=0)
    swept = given(baselines.HDy).predict(BATCH)
    assert np.abs(swept - middle).max() <= abs(1 - middle.sum()) + 1e-12


# -- the noise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [baselines.EM, baselines.DyS, baselines.KDE])
def test_error_bars_are_centred_on_an_estimate_as_good_as_the_methods_own(kind: Any) -> None:
    est = given(kind).estimate(BATCH)
    error = np.sqrt(np.diag(est.covariance))
    assert np.all(np.abs(est.unconstrained - est.proportions) < error)
    assert est.unconstrained.sum() == pytest.approx(1)


def test_histograms_are_tested_for_label_shift_as_features_are() -> None:
    model = given(baselines.DyS)
    assert model.estimate(BATCH).label_shift_test().pvalue > 0.001
    assert model.estimate(np.full((200, 3), 1 / 3)).label_shift_test().verdict == "something else is in it"


@pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # few rows of the rare classes
def test_a_classifier_that_never_errs_leaves_the_noise_of_counting() -> None:
    """Posteriors near 0 and 1 and absent classes: the shares are counts, and their standard errors √(α(1 − α)/m)."""
    y = np.repeat(np.arange(6), 60)
    true = np.repeat(np.arange(6), [0, 0, 40, 40, 20, 0])
    rows, batch = (0.999999 * np.eye(6)[k] + 1e-6 / 6 for k in (y, true))
    for kind in (baselines.EM, baselines.KDE, baselines.DyS):
        est = kind(Given(), cv="prefit").fit(rows, y).estimate(batch)
        np.testing.assert_allclose(est.proportions, [0, 0, 0.4, 0.4, 0.2, 0], atol=1e-4)
        np.testing.assert_allclose(est.unconstrained, [0, 0, 0.4, 0.4, 0.2, 0], atol=1e-4)
        limits = est.interval()
        assert limits[2, 0] > 0.27 and limits[2, 1] < 0.53 and limits[0, 1] < 0.06


@pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # few rows of the rare classes
@pytest.mark.parametrize("true", [np.array([0.5, 0.3, 0.2]), np.array([0.05, 0.0, 0.95])], ids=["within", "boundary"])
@pytest.mark.parametrize("name", ["EM", "DyS", "KDE", "HDx", "RLLS"])
def test_intervals_cover(name: str, true: F64) -> None:
    """Nominal 0.95; 60 replications: the Monte Carlo error of the mean coverage is 0.028 at most."""
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])

    class Bayes(Given):
        def predict_proba(self, X: Any) -> Any:
            p = np.exp(-cdist(X, centres, "sqeuclidean") / 2) * [0.375, 0.25, 0.375]
            return p / p.sum(axis=1, keepdims=True)

    prefit = {"classifier": Bayes(), "cv": "prefit"}
    made: dict[str, Any] = {
        "EM": baselines.EM(**prefit),
        "DyS": baselines.DyS(**prefit),
        "KDE": baselines.KDE(**prefit),
        "HDx": baselines.HDx(bins=8),
        "RLLS": baselines.RLLS(draws=60, **prefit),
    }
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        y = np.repeat([0, 1, 2], [90, 60, 90])
        drawn = rng.choice(3, 200, p=true)
        est = (
            made[name]
            .fit(centres[y] + rng.normal(size=(240, 2)), y)
            .estimate(centres[drawn] + rng.normal(size=(200, 2)))
        )
        limits = est.interval(0.95)
        covered.append((limits[:, 0] <= true + 1e-12) & (true <= limits[:, 1] + 1e-12))
    assert np.mean(covered) >= 0.95 - 3 * 0.028 and np.mean(covered, axis=0).min() >= 0.8


def test_the_count_has_the_interval_of_the_count() -> None:
    est = given(baselines.CC).estimate(BATCH)
    share = est.proportions[0]
    width = 2 * 1.972 * np.sqrt(share * (1 - share) / 200)
    assert np.diff(est.interval()[0])[0] == pytest.approx(width, rel=0.15)  # 200 draws: 5% a standard deviation
