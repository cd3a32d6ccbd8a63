"""The geometry of the Gram matrix against enumeration, eigenvalues and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

import proportio as pp
from oracles import F64, unbiased_by_pairs
from proportio.gram import GramSystem, contrasts, delta_min, lambda_min, smallest, unbiased
from proportio.sketch import sketch_rows
from proportio.tally import Tally


def random_gram(rng: np.random.Generator, c: int) -> F64:
    B = rng.normal(size=(c + 3, c))
    return B.T @ B


def tally_of(y: NDArray[np.int64], weights: F64, features: F64) -> Tally:
    """Two blocks a class, rows dealt alternately: the answer must not depend on the blocks."""
    cells = (2 * y + np.arange(len(y)) % 2).astype(np.int32)
    norm2 = np.zeros(2 * (y.max() + 1))
    np.add.at(norm2, cells, weights**2 * np.square(features).sum(axis=1))
    return Tally.of(cells, (int(y.max()) + 1, 2), weights, norm2)


@pytest.mark.parametrize("c", [2, 3, 7, 30])
def test_contrasts_are_an_orthonormal_basis_of_the_complement_of_ones(c: int) -> None:
    Q = contrasts(c)
    assert np.allclose(Q.T @ Q, np.eye(c - 1), atol=1e-14)
    assert np.allclose(Q.sum(axis=0), 0, atol=1e-13)


@pytest.mark.parametrize("c", [2, 3, 5, 12])
def test_delta_min_is_the_second_smallest_eigenvalue_of_the_centred_gram(c: int) -> None:
    G = random_gram(np.random.default_rng(c), c)
    P = np.eye(c) - 1 / c
    values = np.linalg.eigvalsh(P @ G @ P)
    assert abs(values[0]) < 1e-12
    assert delta_min(G) == pytest.approx(values[1], rel=1e-10)


@pytest.mark.parametrize("c", [3, 4, 6])
def test_delta_min_is_what_a_numerical_minimisation_finds(c: int) -> None:
    rng = np.random.default_rng(c)
    G = random_gram(rng, c)

    def quotient(v: F64) -> float:
        u = v - v.mean()
        return float(u @ G @ u / (u @ u))

    found = min(minimize(quotient, rng.normal(size=c), tol=1e-14).fun for _ in range(10))
    assert delta_min(G) == pytest.approx(found, rel=1e-7)


def test_delta_min_of_two_classes_is_half_the_squared_distance_of_their_means() -> None:
    B = np.random.default_rng(0).normal(size=(5, 2))
    assert delta_min(B.T @ B) == pytest.approx(((B[:, 0] - B[:, 1]) ** 2).sum() / 2, rel=1e-12)


@pytest.mark.parametrize("sums_to_one", [True, False])
def test_smallest_returns_a_unit_direction_that_attains_the_value(sums_to_one: bool) -> None:
    G = random_gram(np.random.default_rng(1), 5)
    value, u = smallest(G, sums_to_one=sums_to_one)
    assert u @ u == pytest.approx(1) and u @ G @ u == pytest.approx(value, rel=1e-10)
    assert not sums_to_one or abs(u.sum()) < 1e-12


def test_delta_min_is_at_least_lambda_min() -> None:
    rng = np.random.default_rng(2)
    for c in rng.integers(2, 20, size=200):
        G = random_gram(rng, int(c))
        assert delta_min(G) >= lambda_min(G) - 1e-12


@pytest.mark.parametrize("accuracy", [0.5, 0.6, 0.75, 0.9, 1.0])
def test_a_binary_classifier_of_equal_accuracy_a_has_delta_min_2a_minus_1_squared(accuracy: float) -> None:
    B = np.array([[accuracy, 1 - accuracy], [1 - accuracy, accuracy]])
    assert delta_min(B.T @ B) == pytest.approx((2 * accuracy - 1) ** 2, abs=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_unbiased_gram_is_the_mean_over_pairs_of_different_rows(weighted: bool) -> None:
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1, 2], [2, 7, 12])
    features = rng.normal(size=(len(y), 4))
    weights = rng.uniform(0.1, 3, len(y)) if weighted else np.ones(len(y))
    B = np.stack([np.average(features[y == i], axis=0, weights=weights[y == i]) for i in range(3)], axis=1)
    got = unbiased(B.T @ B, tally_of(y, weights, features))
    assert np.allclose(got, unbiased_by_pairs(features, y, weights, 3), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_unbiased_gram_of_a_sketch_is_the_mean_over_pairs_too(weighted: bool) -> None:
    rng = np.random.default_rng(4)
    y = np.repeat([0, 1], [9, 15])
    X = rng.normal(size=(24, 2)) + y[:, None]
    weights = rng.uniform(0.5, 2, 24) if weighted else None
    phi = pp.features.RandomFourier(40, 1.0, standardize=False).fit(X)
    sketch = sketch_rows(phi, X, y.astype(np.int32), [0, 1], weights=weights)
    got = unbiased(sketch.products(sketch), sketch.tally)
    expected = unbiased_by_pairs(phi.transform(X), y, np.ones(24) if weights is None else weights, 2)
    assert np.allclose(got, expected, atol=1e-6)  # features in float32


def test_a_class_of_one_row_has_no_unbiased_diagonal() -> None:
    y = np.array([0, 1, 1])
    features = np.eye(3)
    got = unbiased(np.eye(2), tally_of(y, np.ones(3), features))
    assert np.isnan(got[0, 0]) and np.isfinite(got[1, 1])


def test_a_class_with_all_its_weight_on_one_row_has_no_unbiased_diagonal() -> None:
    got = unbiased(np.eye(2), tally_of(np.array([0, 0, 1, 1]), np.array([1.0, 0.0, 1.0, 1.0]), np.eye(4)))
    assert np.isnan(got[0, 0]) and np.isfinite(got[1, 1])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_unbiased_gram_has_the_population_gram_as_its_expectation(weighted: bool) -> None:
    rng = np.random.default_rng(5)
    means = np.array([[0.3, -0.2], [0.5, 0.4]])
    y = np.repeat([0, 1], [3, 5])
    weights = rng.uniform(0.2, 2, 8) if weighted else np.ones(8)
    draws = []
    biased = np.zeros((2, 2))
    n_draws = 4000
    for _ in range(n_draws):
        features = means[y] + 0.5 * rng.normal(size=(8, 2))
        B = np.stack([np.average(features[y == i], axis=0, weights=weights[y == i]) for i in range(2)], axis=1)
        biased += B.T @ B / n_draws
        draws.append(unbiased(B.T @ B, tally_of(y, weights, features)))
    error = np.std(draws, axis=0) / np.sqrt(n_draws)  # about 0.004
    population = means @ means.T
    assert (np.abs(np.mean(draws, axis=0) - population) < 4 * error).all()
    assert (np.diag(biased - population) > 10 * np.diag(error)).all()  # the V-statistic is biased upwards


def test_squared_residual_is_the_squared_distance_to_the_target() -> None:
    rng = np.random.default_rng(6)
    B, psi, alpha = rng.normal(size=(6, 3)), rng.normal(size=6), rng.dirichlet(np.ones(3))
    system = GramSystem(B.T @ B, B.T @ psi, float(psi @ psi))
    assert system.squared_residual(alpha) == pytest.approx(((B @ alpha - psi) ** 2).sum(), rel=1e-12)
