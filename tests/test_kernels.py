"""The kernels: values, pair sums, spectral laws and bounds, against their definitions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from oracles import F64
from proportio.errors import InputError
from proportio.kernels import Custom, Energy, Gaussian, Kernel, Laplace

KERNELS: list[Kernel] = [Gaussian(1.7), Laplace(1.7), Energy((0.5, -0.2, 0.1)), Energy((0.0, 0.0, 0.0), radius=10.0)]
POINTS = np.linspace(0.001, 0.999, 41)


def rows(n: int, seed: int, d: int = 3) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def dot(X: Any, Y: Any) -> F64:
    return np.asarray(X, np.float64) @ np.asarray(Y, np.float64).T


def written_out(kernel: Kernel, x: F64, y: F64) -> float:
    distance = float(np.sqrt(((x - y) ** 2).sum()))
    if isinstance(kernel, Gaussian):
        return float(np.exp(-(distance**2) / (2 * kernel.sigma**2)))
    if isinstance(kernel, Laplace):
        return float(np.exp(-distance / kernel.sigma))
    assert isinstance(kernel, Energy)
    origin = np.array(kernel.origin)
    return float(np.sqrt(((x - origin) ** 2).sum()) + np.sqrt(((y - origin) ** 2).sum()) - distance)


def segment_sums(K: F64, offsets: NDArray[np.int64], w: F64) -> F64:
    spans = pairwise(offsets)
    return np.stack([(K[:, a:b] * w[a:b]).sum(axis=1) for a, b in spans], axis=1)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_value_is_the_formula(kernel: Kernel) -> None:
    X, Y = rows(5, 0), rows(4, 1)
    expected = [[written_out(kernel, x, y) for y in Y.astype(float)] for x in X.astype(float)]
    assert np.allclose(kernel.value(X, Y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_diagonal_is_the_value_of_a_row_with_itself(kernel: Kernel) -> None:
    X = rows(20, 2)
    assert np.allclose(kernel.diagonal(X), np.diag(kernel.value(X, X)), atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_pair_sums_are_sums_of_values_by_segment(kernel: Kernel, weighted: bool, n_jobs: int) -> None:
    X, Y = rows(37, 3), rows(150, 4)
    offsets = np.array([0, 40, 40, 41, 150])  # one segment is empty
    w = np.random.default_rng(5).uniform(0, 2, 150) if weighted else np.ones(150)
    got = kernel.pair_sums(X, Y, offsets, w, n_jobs)
    expected = segment_sums(kernel.value(X, Y), offsets, w)
    assert np.abs(got - expected).max() < 1e-6 * w.sum()  # float32 distances
    assert (got[:, 1] == 0).all()


def test_a_callable_gets_blocks_and_its_sums_are_exact() -> None:
    shapes: list[tuple[int, int]] = []

    def noted(X: Any, Y: Any) -> F64:
        shapes.append((len(X), len(Y)))
        return dot(X, Y)

    X, Y = rows(1100, 6), rows(2500, 7)
    offsets = np.array([0, 900, 1024, 1025, 2500])  # segments that end within and on the edges of blocks of 1024
    w = np.random.default_rng(8).uniform(0, 2, 2500)
    got = Custom(noted).pair_sums(X, Y, offsets, w, 1)
    assert np.allclose(got, segment_sums(dot(X, Y), offsets, w), rtol=1e-10, atol=1e-8)
    assert len(shapes) == 6 and max(max(s) for s in shapes) <= Custom.block


def test_a_callable_has_its_diagonal_and_declared_bound() -> None:
    X = rows(7, 9)
    assert np.allclose(Custom(dot).diagonal(X), np.square(X.astype(float)).sum(axis=1))
    assert Custom(dot).bound is None and Custom(dot, c=3.0).bound == 3.0


def test_a_callable_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(InputError, match="shape"):
        Custom(lambda X, Y: np.ones(len(X))).value(rows(3, 0), rows(2, 0))


def test_a_callable_that_returns_nan_is_refused() -> None:
    with pytest.raises(InputError, match="NaN"):
        Custom(lambda X, Y: np.full((len(X), len(Y)), np.nan)).value(rows(3, 0), rows(2, 0))


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_matrices_are_positive_semi_definite_and_not_negative(kernel: Kernel) -> None:
    K = kernel.value(rows(60, 10), rows(60, 10))
    assert np.linalg.eigvalsh(K)[0] > -1e-12
    assert K.min() >= 0 and kernel.non_negative


@pytest.mark.parametrize("d", [1, 2, 5, 20])
@pytest.mark.parametrize("kernel", [Gaussian(1.3), Laplace(1.3)])
def test_frequencies_of_the_spectral_law_have_the_kernel_as_mean_cosine(kernel: Gaussian | Laplace, d: int) -> None:
    rng = np.random.default_rng(d)
    n = 100_000
    direction = rng.normal(size=(n, d))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    omega = direction * kernel.radii(rng.random(n), d)[:, None]
    for length in (0.2, 1.0, 2.5):
        delta = rng.normal(size=d)
        delta *= length / np.linalg.norm(delta)
        cosines = np.cos(omega @ delta)
        error = cosines.std() / np.sqrt(n)  # at most 0.0023
        assert abs(cosines.mean() - kernel.value(delta[None], np.zeros((1, d)))[0, 0]) < 4 * error


@pytest.mark.parametrize("d", [1, 2, 5, 20, 300])
def test_gaussian_radii_are_quantiles_of_the_chi_law(d: int) -> None:
    assert np.allclose(Gaussian(0.7).radii(POINTS, d), stats.chi(d).ppf(POINTS) / 0.7, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 2, 5, 20, 300])
def test_squared_laplace_radii_over_d_are_quantiles_of_f_with_d_and_1_degrees(d: int) -> None:
    radii = Laplace(0.7).radii(POINTS, d)
    assert np.allclose((0.7 * radii) ** 2 / d, stats.f(d, 1).ppf(POINTS), rtol=1e-7)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Laplace(0.7)])
def test_radii_are_finite_and_increasing_up_to_the_last_quantile(kernel: Gaussian | Laplace) -> None:
    radii = kernel.radii(np.array([1e-12, 1e-6, 0.5, 1 - 1e-6, 1 - 1e-12]), 4)
    assert np.isfinite(radii).all() and (np.diff(radii) > 0).all()


def test_radial_kernels_are_bounded_by_one() -> None:
    assert Gaussian(3.0).bound == 1 and Laplace(3.0).bound == 1


def test_energy_embeds_its_origin_to_zero() -> None:
    kernel = Energy((1.0, 2.0, 3.0))
    origin = np.array([kernel.origin])
    assert kernel.diagonal(origin)[0] == 0
    assert np.abs(kernel.value(origin, rows(30, 11))).max() < 1e-14


def test_energy_is_bounded_only_within_a_declared_radius() -> None:
    X = rows(100, 12)
    radius = float(np.linalg.norm(X, axis=1).max())
    kernel = Energy((0.0, 0.0, 0.0), radius)
    assert Energy((0.0, 0.0, 0.0)).bound is None
    assert kernel.bound == pytest.approx(np.sqrt(2 * radius))
    assert np.sqrt(kernel.diagonal(X)).max() == pytest.approx(kernel.bound)  # attained by the farthest row


@pytest.mark.parametrize("call", ["value", "diagonal", "pair_sums"])
def test_a_row_beyond_the_declared_radius_is_refused(call: str) -> None:
    X = np.array([[0.0, 1.1]], dtype=np.float32)
    kernel = Energy((0.0, 0.0), radius=1.0)
    calls = {
        "value": lambda: kernel.value(X, X),
        "diagonal": lambda: kernel.diagonal(X),
        "pair_sums": lambda: kernel.pair_sums(X, X, np.array([0, 1]), np.ones(1), 1),
    }
    with pytest.raises(InputError, match="radius"):
        calls[call]()


def test_energy_differences_do_not_depend_on_the_origin() -> None:
    X = rows(10, 13).astype(float)
    u = np.random.default_rng(0).normal(size=10)
    u -= u.mean()
    here, there = (Energy(o).value(X, X) for o in ((0.0, 0.0, 0.0), (5.0, -3.0, 1.0)))
    assert u @ here @ u == pytest.approx(u @ there @ u, rel=1e-10)
