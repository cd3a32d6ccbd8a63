"""The radii: closed forms, what they are when the shares are known, and simulations that could have shown them false."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proportio as pp
from proportio.bounds import DIAMETER, Ingredients, corollary, rate, sharp, theorem1, theorem2
from proportio.gram import GramSystem
from proportio.simplex import solve

F64 = NDArray[np.float64]
EQUAL = Ingredients(np.eye(2), np.array([400.0, 400.0]), 400.0, 1.0)
UNEQUAL = Ingredients(np.diag([1.0, 0.5, 0.8]), np.array([900.0, 100.0, 2500.0]), 1600.0, 1.5)
SHARES = np.array([0.2, 0.3, 0.5])


# -- closed forms --------------------------------------------------------------------------------------------------


def test_rate_is_the_papers() -> None:
    assert rate(20) == pytest.approx(2 + np.sqrt(2 * np.log(40)))


def test_theorem_1_without_shares_is_equation_2() -> None:
    """Δ_min of the identity is 1, so that eq. 2 is 2C R_{c/δ} (1/√min n + 1/√m)."""
    assert theorem1(EQUAL, 0.05).uncapped == pytest.approx(2 * rate(2 / 0.05) * (0.05 + 0.05))
    expected = 2 * 1.5 * rate(3 / 0.1) * (0.1 + 1 / 40) / UNEQUAL.root
    assert theorem1(UNEQUAL, 0.1).uncapped == pytest.approx(expected)


def test_theorem_1_with_shares_is_equation_1() -> None:
    w = SHARES / (UNEQUAL.counts / 3500)
    expected = 2 * 1.5 * rate(30) * (np.linalg.norm(w) / np.sqrt(3500) + 1 / 40) / UNEQUAL.root
    assert theorem1(UNEQUAL, 0.1, alpha=SHARES).uncapped == pytest.approx(expected)


def test_equation_2_does_not_follow_from_equation_1() -> None:
    """‖w‖/√n = 0.316 against 1/√min n = 0.1 at n = (900, 100) and α = (0, 1)."""
    known = Ingredients(np.eye(2), np.array([900.0, 100.0]), 1e12, 1.0)
    scale = 2 * rate(2 / 0.05)
    assert theorem1(known, alpha=[0, 1]).uncapped / scale == pytest.approx(0.31623, abs=1e-4)
    assert theorem1(known).uncapped / scale == pytest.approx(0.1, abs=1e-4)


def test_the_sharp_radius_at_known_shares() -> None:
    g = np.sqrt(np.sum(SHARES**2 / UNEQUAL.counts) + 1 / 1600)
    assert sharp(UNEQUAL, 0.1, alpha=SHARES).uncapped == pytest.approx(
        1.5 * (1 + np.sqrt(2 * np.log(10))) * g / UNEQUAL.root
    )


def test_the_sharp_radius_without_shares_solves_its_own_inequality() -> None:
    """r = K (g(α̂) + r/√min n), or the value at the worst shares if that is less."""
    k = 1.5 * (1 + np.sqrt(2 * np.log(20))) / UNEQUAL.root
    g = np.sqrt(np.sum(SHARES**2 / UNEQUAL.counts) + 1 / 1600)
    r = sharp(UNEQUAL, estimate=SHARES).uncapped
    assert r == pytest.approx(min(k * (g + r / 10), k * np.sqrt(1 / 100 + 1 / 1600)))
    assert r >= sharp(UNEQUAL, alpha=SHARES).uncapped


def test_theorem_2_adds_the_departures() -> None:
    eps_n, eps_m = UNEQUAL.epsilons(0.1)
    assert eps_n == pytest.approx(1.5 * rate(30) / 10) and eps_m == pytest.approx(1.5 * rate(10) / 40)
    value = theorem2(UNEQUAL, 0.1, perpendicular=0.3, parallel=0.2).uncapped
    assert value == pytest.approx((3 * eps_n + eps_m + np.sqrt(2 * eps_n) * 0.3 + 0.2) / UNEQUAL.root)


def test_the_corollary_has_the_factor_that_the_paper_drops() -> None:
    soft = Ingredients(UNEQUAL.G, UNEQUAL.counts, UNEQUAL.m, 1.5, soft=True)
    eps_n, eps_m = soft.epsilons(0.1)
    value = corollary(soft, 0.1, unknown=0.2, norm=0.7, parallel=0.4).uncapped
    assert value == pytest.approx((3 * eps_n + eps_m + np.sqrt(2 * 0.2 * eps_n * 0.7) + 0.2 * 0.4) / np.sqrt(0.5))
    worst = corollary(soft, 0.1, unknown=0.2).uncapped
    assert worst == corollary(soft, 0.1, unknown=0.2, norm=1.5, parallel=1.5).uncapped > value


def test_the_soft_form_has_lambda_min_in_the_place_of_delta_min() -> None:
    soft = Ingredients(UNEQUAL.G, UNEQUAL.counts, UNEQUAL.m, 1.5, soft=True)
    assert soft.root == pytest.approx(np.sqrt(0.5)) and UNEQUAL.root >= soft.root
    assert theorem1(soft).uncapped >= theorem1(UNEQUAL).uncapped


# -- caps ----------------------------------------------------------------------------------------------------------


def test_no_radius_is_larger_than_the_simplex() -> None:
    few = Ingredients(np.eye(2), np.array([4.0, 4.0]), 4.0, 1.0)
    for bound in (theorem1(few), sharp(few), theorem2(few, perpendicular=1, parallel=1)):
        assert bound.radius == DIAMETER == float(bound) and bound.vacuous and bound.uncapped > DIAMETER
    assert not sharp(EQUAL).vacuous and sharp(EQUAL).radius == sharp(EQUAL).uncapped


def test_without_positivity_the_simplex_is_no_cap() -> None:
    """A share estimated without α ≥ 0 may lie anywhere, so √2 would be a false radius."""
    free = Ingredients(np.eye(2), np.array([4.0, 4.0]), 4.0, 1.0, positive=False)
    assert theorem1(free).radius == theorem1(free).uncapped > DIAMETER


def test_dependent_classes_have_no_finite_radius() -> None:
    same = Ingredients(np.ones((2, 2)), np.array([400.0, 400.0]), 400.0, 1.0)
    bound = sharp(same)
    assert bound.uncapped == np.inf and bound.radius == DIAMETER and bound.vacuous


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0, 1, -0.1, True, "0.05", None, float("nan")])
def test_delta_is_a_probability(delta: Any) -> None:
    for bound in (theorem1, sharp):
        with pytest.raises(pp.ProportioError, match=r"delta=.* must lie between 0 and 1"):
            bound(EQUAL, delta)


def test_shares_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(pp.ProportioError, match=r"shape \(3,\): give one finite number for each of the 2 classes"):
        sharp(EQUAL, alpha=SHARES)


def test_sizes_of_the_departures_are_checked() -> None:
    with pytest.raises(pp.ProportioError, match=r"perpendicular=-1"):
        theorem2(EQUAL, perpendicular=-1, parallel=0)
    with pytest.raises(pp.ProportioError, match="Corollary 1 bounds the soft estimate"):
        corollary(EQUAL, unknown=0.1)
    with pytest.raises(pp.ProportioError, match="unknown=2 is a share"):
        corollary(Ingredients(np.eye(2), np.array([9.0, 9.0]), 9.0, 1.0, soft=True), unknown=2)


# -- the sharper radius is sharper ---------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 3, 5, 10, 20])
@pytest.mark.parametrize("n", [30, 300, 5000])
@pytest.mark.parametrize("m", [200, 20_000])
def test_at_the_true_shares_it_is_at_least_2_9_times_smaller_than_theorem_1(c: int, n: int, m: int) -> None:
    """The factor is 2R_{c/δ}/(1 + √(2 log 1/δ)), 2.88 at δ = 0.05 and c = 2, times (1/√n + 1/√m)/g > 1."""
    rng = np.random.default_rng(c * n + m)
    for _ in range(20):
        known = Ingredients(np.eye(c), n * rng.uniform(0.2, 5, c), float(m), 1.0)
        alpha = rng.dirichlet(np.ones(c))
        for delta in (0.01, 0.05, 0.1):
            ours = sharp(known, delta, alpha=alpha).uncapped
            theirs = min(theorem1(known, delta, alpha=alpha).uncapped, theorem1(known, delta).uncapped)
            assert theirs >= 2 * rate(c / delta) / (1 + np.sqrt(2 * np.log(1 / delta))) * ours
            assert theirs >= 2.9 * ours or delta != 0.05


# -- they hold -----------------------------------------------------------------------------------------------------


def simulated(delta: float, *, soft: bool, draws: int = 4000) -> dict[str, float]:
    """How often the error exceeds each radius (uncapped) over draws of one-hot features.

    Classes decide for themselves 4 times in 5; few rows and a small Δ_min, so that errors are as large as they get.
    """
    rng = np.random.default_rng(3)
    M = np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    counts, m, alpha = np.array([12, 40, 15]), 25, np.array([0.15, 0.15, 0.7])
    beyond = {"sharp at α*": 0, "sharp": 0, "theorem 1, eq. 1": 0, "theorem 1, eq. 2": 0}
    for _ in range(draws):
        B = np.column_stack([rng.multinomial(n, M[:, i]) / n for i, n in enumerate(counts)])
        psi = rng.multinomial(m, M @ alpha) / m
        found = solve(GramSystem(B.T @ B, B.T @ psi, float(psi @ psi)), soft=soft).alpha
        known = Ingredients(B.T @ B, counts.astype(float), float(m), 1.0, soft=soft)
        error = np.linalg.norm(found - alpha)
        beyond["sharp at α*"] += error > sharp(known, delta, alpha=alpha).uncapped
        beyond["sharp"] += error > sharp(known, delta, estimate=found).uncapped
        beyond["theorem 1, eq. 1"] += error > theorem1(known, delta, alpha=alpha).uncapped
        beyond["theorem 1, eq. 2"] += error > theorem1(known, delta).uncapped
    return {k: v / draws for k, v in beyond.items()}


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("delta", [0.05, 0.5, 0.9])
def test_the_error_exceeds_no_radius_more_often_than_delta(delta: float, soft: bool) -> None:
    monte_carlo = np.sqrt(delta * (1 - delta) / 4000)  # at most 0.008
    for kind, share in simulated(delta, soft=soft).items():
        assert share <= delta + 2 * monte_carlo, kind


def test_the_simulation_would_notice_a_radius_that_is_too_small() -> None:
    """A fifth of the radius for δ = 0.05 is exceeded twice as often as δ and more: the check above is not empty."""
    rng = np.random.default_rng(3)
    M, alpha, exceeded = np.full((2, 2), 0.3) + 0.4 * np.eye(2), np.array([0.4, 0.6]), 0
    for _ in range(500):
        B = np.column_stack([rng.multinomial(30, M[:, i]) / 30 for i in range(2)])
        psi = rng.multinomial(30, M @ alpha) / 30
        found = solve(GramSystem(B.T @ B, B.T @ psi, float(psi @ psi))).alpha
        known = Ingredients(B.T @ B, np.full(2, 30.0), 30.0, 1.0)
        exceeded += np.linalg.norm(found - alpha) > sharp(known, 0.05, alpha=alpha).uncapped / 5
    assert exceeded > 50


def test_contamination_within_the_span_moves_the_sharp_radius_by_as_much() -> None:
    """A batch with α_0 of Φ_0 in the span: the error follows `parallel`, and the radius still holds."""
    rng = np.random.default_rng(4)
    B = np.array([[0.9, 0.1], [0.1, 0.9]])
    alpha, unknown = np.array([0.3, 0.5]), 0.2
    outside = np.array([0.6, 0.4])
    known = Ingredients(B.T @ B, np.full(2, 1e9), 400.0, 1.0, soft=True)
    beyond = 0
    for _ in range(500):
        psi = rng.multinomial(400, B @ alpha + unknown * outside) / 400
        found = solve(GramSystem(B.T @ B, B.T @ psi, float(psi @ psi)), soft=True).alpha
        error = np.linalg.norm(found - alpha)
        beyond += error > sharp(known, 0.05, alpha=alpha, parallel=unknown * np.linalg.norm(outside)).uncapped
        assert error > 0.05
    assert beyond <= 0.05 * 500


# -- on an estimate ------------------------------------------------------------------------------------------------

Y = np.repeat([0, 1, 2], 200)
X = np.random.default_rng(5).normal(size=(600, 2)) + 3 * np.array([[0, 0], [1, 0], [0, 1]])[Y]


@pytest.mark.parametrize("soft", [False, True])
def test_an_estimate_gives_the_radii_of_its_own_sketches(soft: bool) -> None:
    model = pp.RFFM(200, 1.0, soft).fit(X, Y)
    est = model.estimate(X[:300])
    known = Ingredients(model.gram_, np.full(3, 200.0), 300.0, 1.0, soft)
    assert est.bound(0.1) == sharp(known, 0.1, estimate=est.proportions)
    assert est.bound(0.1, "theorem1") == theorem1(known, 0.1)
    assert est.bound(kind="theorem2", perpendicular=0.1, parallel=0.2) == theorem2(
        known, perpendicular=0.1, parallel=0.2
    )
    assert "label shift holds exactly" in est.bound().assumption and "without these rows" in est.bound().assumption
    assert pp.Estimate.from_json(est.to_json()).bound(0.1) == est.bound(0.1)


def test_weighted_rows_count_as_what_they_are_worth() -> None:
    w = np.where(Y == 0, 1.0, np.random.default_rng(0).uniform(0.1, 5, 600))
    model = pp.RFFM(200, 1.0).fit(X, Y, sample_weight=w)
    est = model.estimate(X[:300])
    counts = [w[i == Y].sum() ** 2 / np.square(w[i == Y]).sum() for i in range(3)]
    assert est.bound(kind="theorem1") == theorem1(Ingredients(model.gram_, np.array(counts), 300.0, 1.0))


def test_features_without_a_bound_certify_nothing() -> None:
    est = pp.KMM("energy").fit(X, Y).estimate(X[:300])
    with pytest.raises(pp.BoundError, match=r"KMM has features without a bound C.*ask for interval"):
        est.bound()
    declared = pp.KMM("energy", radius=20.0).fit(X, Y).estimate(X[:300])
    assert declared.bound().radius <= DIAMETER


def test_an_unknown_kind_is_refused_by_name() -> None:
    est = pp.RFFM(200, 1.0).fit(X, Y).estimate(X[:300])
    with pytest.raises(pp.ProportioError, match="kind='best' is not 'sharp'"):
        est.bound(kind="best")  # type: ignore[arg-type]


def test_a_bound_says_what_it_must_be_told() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 50)
    est = (
        pp.RFFM(n_features=20, bandwidth=1.0)
        .fit(rng.normal(size=(100, 2)) + 2 * y[:, None], y)
        .estimate(rng.normal(size=(50, 2)))
    )
    with pytest.raises(pp.InputError, match=r"kind='theorem2' takes parallel, perpendicular; got none of them"):
        est.bound(kind="theorem2")
    with pytest.raises(pp.InputError, match=r"kind='sharp' takes nothing more and may take .*; got foo"):
        est.bound(foo=1)
