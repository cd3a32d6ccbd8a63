"""Where the paper slips, each shown by a small example (docs/reproduction.md lists them)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import proportio as pp
from oracles import F64, class_means, enumerate_active_sets, gaussian_gram, gaussian_means, objective
from proportio.bounds import Ingredients, corollary, theorem1
from proportio.features import RandomFourier
from proportio.gram import GramSystem, delta_min, lambda_min
from proportio.kernels import Gaussian
from proportio.simplex import solve


def system_of(B: F64, psi: F64) -> GramSystem:
    return GramSystem(B.T @ B, B.T @ psi, float(psi @ psi))


def test_the_quadratic_programme_subtracts_q() -> None:
    """(QP) prints ½αᵀGα + qᵀα. Its minimiser is not the matching one, here not even nearly."""
    B = np.eye(3)
    psi = B @ np.array([0.7, 0.2, 0.1])
    system = system_of(B, psi)
    assert np.allclose(solve(system).alpha, [0.7, 0.2, 0.1], atol=1e-12)
    printed = enumerate_active_sets(system.G, -system.q, soft=False)  # minimises ½αᵀGα + qᵀα
    assert objective(system.G, -system.q, printed) < objective(system.G, -system.q, np.array([0.7, 0.2, 0.1]))
    assert np.linalg.norm(B @ printed - psi) > 0.7


@pytest.mark.parametrize("a", [0.55, 0.7, 0.9, 1.0])
def test_delta_min_of_a_binary_classifier_is_the_square(a: float) -> None:
    """§3.1 says Δ_min = 2a − 1 for two classes of equal accuracy a; it is (2a − 1)², and √Δ_min = 2a − 1."""
    M = np.array([[a, 1 - a], [1 - a, a]])
    assert delta_min(M.T @ M) == pytest.approx((2 * a - 1) ** 2, abs=1e-12)


def test_equation_2_does_not_follow_from_equation_1() -> None:
    """n = (900, 100), α* = (0, 1): ‖w‖/√n = 0.316 but 1/√(min n_i) = 0.1, so eq. 1 is the larger of the two."""
    n, alpha = np.array([900.0, 100.0]), np.array([0.0, 1.0])
    w = alpha / (n / n.sum())
    assert np.linalg.norm(w) / np.sqrt(n.sum()) == pytest.approx(0.316, abs=1e-3)
    assert 1 / np.sqrt(n.min()) == pytest.approx(0.1)
    known = Ingredients(np.eye(2), n, 1e12, 1.0)
    assert theorem1(known, alpha=alpha).uncapped > 3 * theorem1(known).uncapped


@given(st.lists(st.integers(1, 10_000), min_size=2, max_size=6), st.integers(0, 2**32 - 1))
def test_both_inequalities_of_theorem_1_follow_from_their_common_root(counts: list[int], seed: int) -> None:
    """Σ α_i/√n_i is below ‖w‖/√n (Cauchy-Schwarz) and below 1/√(min n_i)."""
    n = np.array(counts, dtype=float)
    alpha = np.random.default_rng(seed).dirichlet(np.ones(len(n)))
    root = float(np.sum(alpha / np.sqrt(n)))
    assert root <= np.linalg.norm(alpha / (n / n.sum())) / np.sqrt(n.sum()) * (1 + 1e-12)
    assert root <= 1 / np.sqrt(n.min()) * (1 + 1e-12)


def test_equal_source_shares_are_not_the_best_case_of_w() -> None:
    """The remark after Theorem 1: ‖w‖₂ = √c at best, and so whenever β = 1/c. Neither: it is least at α ∝ β², and c‖α‖ then."""
    beta = np.array([0.9, 0.1])
    best = beta**2 / np.sum(beta**2)
    assert np.linalg.norm(best / beta) == pytest.approx(1.104, abs=1e-3)
    assert np.linalg.norm(beta / beta) == pytest.approx(np.sqrt(2))
    vertex, equal = np.array([1.0, 0.0, 0.0]), np.full(3, 1 / 3)
    assert np.linalg.norm(vertex / equal) == pytest.approx(3) and np.sqrt(3) < 3


def test_the_square_of_the_least_singular_value_bounds_delta_min() -> None:
    """Appendix C compares with the least singular value of (b_1, …, b_c) itself; Δ_min ≥ λ_min(G) is its square."""
    B = 0.1 * np.eye(3)
    least = np.linalg.svd(B, compute_uv=False)[-1]
    assert delta_min(B.T @ B) == pytest.approx(0.01) and least == pytest.approx(0.1)
    for seed in range(20):
        B = np.random.default_rng(seed).normal(size=(6, 4))
        assert delta_min(B.T @ B) >= np.linalg.svd(B, compute_uv=False)[-1] ** 2 * (1 - 1e-9)


def test_the_confusion_matrix_divides_by_the_rows_of_the_column() -> None:
    """§2.2 prints M_ij = (1/n_i) Σ 1{f = i, y = j}; only 1/n_j makes the columns conditional distributions, and M⁻¹Y the shares."""
    y = np.repeat([0, 1], [80, 20])
    f = np.where(np.arange(100) % 10 == 0, 1 - y, y)
    joint = np.array([[np.sum((f == i) & (y == j)) for j in (0, 1)] for i in (0, 1)])
    counts = np.array([80, 20])
    right, printed = joint / counts, joint / counts[:, None]
    Y = right @ np.array([0.3, 0.7])
    assert np.allclose(np.linalg.solve(right, Y), [0.3, 0.7])
    assert not np.allclose(printed.sum(axis=0), 1)
    assert np.abs(np.linalg.solve(printed, Y) - [0.3, 0.7]).max() > 0.1
    assert np.allclose(class_means(np.eye(2)[f], y, 2), right)


def test_a_batch_can_leave_the_hull_of_one_hot_means() -> None:
    """§3.2 says that for BBSE the orthogonal component is always 0. It is for V; B^⊥ is the distance to the hull, and is not."""
    M = np.array([[0.9, 0.1], [0.1, 0.9]])
    Y = np.array([1.0, 0.0])
    alpha = solve(system_of(M, Y)).alpha
    assert np.allclose(alpha, [1, 0]) and np.linalg.norm(M @ alpha - Y) == pytest.approx(0.1 * np.sqrt(2))


def contaminated(level: float) -> tuple[F64, F64, F64, float]:
    """Means of two classes and a contaminant that reaches into their span along the least eigenvector of G."""
    B = np.array([[1.0, 0.6], [0.0, 0.8], [0.0, 0.0]])
    values, vectors = np.linalg.eigh(B.T @ B)
    inside = -B @ vectors[:, 0] / np.sqrt(values[0]) * 0.5 * np.sign(vectors[0, 0])
    Q0 = inside + np.array([0.0, 0.0, 0.5])
    shares = (1 - level) * np.array([0.5, 0.5])
    return B, shares, B @ shares + level * Q0, float(np.linalg.norm(inside))


@pytest.mark.parametrize("level", [0.0, 0.05, 0.1, 0.2])
def test_the_corollary_needs_only_the_share_of_the_contaminant_that_reaches_in(level: float) -> None:
    """The paper's last term is ‖Π Φ(Q_0)‖ without α_0: it would stay at α_0 = 0. With α_0 it holds, and is attained."""
    B, shares, psi, reach = contaminated(level)
    error = np.linalg.norm(solve(system_of(B, psi), soft=True).alpha - shares)
    with_factor = level * reach / np.sqrt(lambda_min(B.T @ B))
    assert error == pytest.approx(with_factor, abs=1e-9)
    assert reach / np.sqrt(lambda_min(B.T @ B)) > 0.7  # the paper's: so much whatever α_0, and where there is none


def test_without_contamination_the_corollary_tends_to_zero() -> None:
    plenty = Ingredients(np.eye(2), np.array([1e14, 1e14]), 1e14, 1.0, soft=True)
    assert corollary(plenty, unknown=0.0).uncapped < 1e-4
    assert corollary(plenty, unknown=0.1).uncapped == pytest.approx(0.1, abs=1e-3)


def test_what_hard_matching_tends_to_under_orthogonal_contamination() -> None:
    """α + α_0 G⁻¹1/(1ᵀG⁻¹1), which is α/(1 − α_0) only by chance: the unknown share is not spread in proportion."""
    B = np.array([[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, 0.0]])
    alpha, level = np.array([0.5, 0.2, 0.1]), 0.2
    psi = B @ alpha + level * np.array([0.0, 0.0, 0.0, 1.0])
    flat = np.linalg.solve(B.T @ B, np.ones(3))
    found = solve(system_of(B, psi)).alpha
    assert np.allclose(found, alpha + level * flat / flat.sum(), atol=1e-10)
    assert np.linalg.norm(found - alpha / (1 - level)) > 0.1
    assert np.allclose(solve(system_of(B, psi), soft=True).alpha, alpha, atol=1e-10)  # the soft form is exact


@given(st.integers(2, 8), st.floats(0, 0.9), st.integers(0, 2**32 - 1))
def test_shares_that_sum_to_one_miss_contaminated_shares_by_the_unknown_over_root_c(
    c: int, level: float, seed: int
) -> None:
    """‖α̂ − α*‖ ≥ α_0/√c for every hard estimator: 0.134 at c = 5, α_0 = 0.3, where the paper says "around 0.1"."""
    rng = np.random.default_rng(seed)
    hard, true = rng.dirichlet(np.ones(c)), (1 - level) * rng.dirichlet(np.ones(c))
    assert np.linalg.norm(hard - true) >= level / np.sqrt(c) - 1e-12
    assert np.linalg.norm(true + level / c - true) == pytest.approx(level / np.sqrt(c))  # attained


def test_as_sigma_vanishes_the_empirical_delta_min_does_not() -> None:
    """Maximising the empirical Δ_min rewards σ → 0 where classes are small: G → diag(1/n_i), whatever the classes are."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [8, 12])
    X = rng.normal(size=(20, 5))  # both classes the same: nothing to separate
    values = {}
    for sigma in (1e-3, 2.0):
        model = pp.KMM("gaussian", sigma, standardize=False).fit(X, y)
        values[sigma] = delta_min(model.gram_)
        if sigma < 1:
            assert np.allclose(model.gram_, np.diag([1 / 8, 1 / 12]), atol=1e-9)
            with pytest.warns(pp.ProportioWarning, match="not separated"):
                assert np.allclose(model.predict(rng.normal(size=(50, 5))), [0.4, 0.6], atol=1e-9)  # the source's
    population = gaussian_gram(np.zeros((2, 5)), 1.0, 2.0)
    assert abs(delta_min(population)) < 1e-12 and values[1e-3] > values[2.0] > 0


def test_a_cosine_with_a_bias_never_has_the_lower_variance() -> None:
    """Pairs: (2/D)V, V = ½(1 + k(2δ)) − k(δ)²; with a bias: (1/D)(V + ½). V ≤ ½ as k(2δ) = k(δ)⁴ ≤ 2k(δ)²."""
    D, maps = 16, 2000  # one long map is as many short ones
    for gap in (0.0, 0.3, 1.0, 2.0):
        k, twice = np.exp(-(gap**2) / 2), np.exp(-((2 * gap) ** 2) / 2)
        V = (1 + twice) / 2 - k**2
        paired, biased = 2 * V / D, (V + 0.5) / D
        assert paired <= biased
        rows = np.array([[0.4], [0.4 + gap]])
        pairs = RandomFourier(D * maps, 1.0, kind="iid", standardize=False).fit(rows).embed(rows)
        cosines, sines = np.split(pairs[0] * pairs[1] * maps, 2)
        assert np.var((cosines + sines).reshape(maps, -1).sum(axis=1)) == pytest.approx(paired, rel=0.1, abs=1e-12)
        single = RandomFourier(D * maps, 1.0, kind="cos-bias", standardize=False).fit(rows).embed(rows)
        values = (single[0] * single[1] * maps).reshape(maps, -1).sum(axis=1)
        assert np.var(values) == pytest.approx(biased, rel=0.1)


def test_soft_energy_depends_on_its_origin_and_hard_does_not() -> None:
    """Φ(x₀) = 0: the dummy class of soft-Energy is a point mass at x₀, which the paper leaves at the data's zero."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = rng.normal(size=(400, 2)) + 6 * y[:, None]
    batch = np.vstack([X[:100], X[200:300], rng.normal(size=(80, 2)) + 3])  # 29% between the two
    shares = {
        (soft, place): pp.KMM("energy", soft=soft, origin=[place, place]).fit(X, y).predict(batch)
        for soft in (False, True)
        for place in (3.0, 30.0)
    }
    assert np.allclose(shares[False, 3.0], shares[False, 30.0], atol=1e-6)
    assert shares[True, 3.0].sum() < 0.8 and shares[True, 30.0].sum() > 0.95


def test_far_away_is_orthogonal_for_the_gaussian_kernel_only() -> None:
    """§3.2's favourable scenario, in closed form; the Energy kernel does not decay along a ray from its origin."""
    near, away = np.zeros(3), np.full(3, 20.0)
    assert gaussian_means(near, 1.0, away, 1.0, 2.0) < 1e-20 < gaussian_means(near, 1.0, near, 1.0, 2.0)
    assert float(Gaussian(2.0).value(near[None], away[None])[0, 0]) < 1e-60
    X = np.array([[1.0, 0, 0]])
    energy = [np.linalg.norm(X) + np.linalg.norm(X * r) - np.linalg.norm(X - X * r) for r in (1.0, 10.0, 100.0)]
    assert np.allclose(energy, 2)  # undiminished at any distance
