"""Random Fourier features against the kernels that they approximate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import hadamard

from oracles import F64, gaussian_means
from proportio.errors import InputError
from proportio.features.fourier import STRUCTURED_FROM, RandomFourier, draw
from proportio.kernels import Gaussian, Laplace

CASES = [(kind, "gaussian") for kind in ("iid", "orthogonal", "qmc", "structured", "cos-bias")] + [
    (kind, "laplace") for kind in ("iid", "orthogonal", "qmc", "structured", "cos-bias")
]
VALUES = {"gaussian": Gaussian, "laplace": Laplace}


def fitted(X: F64, kind: Any = "iid", seed: int = 0, **kwargs: Any) -> RandomFourier:
    settings = {"n_features": 64, "bandwidth": 1.5, "standardize": False, **kwargs}
    return RandomFourier(**settings, kind=kind, random_state=seed).fit(X)


def products(X: F64, kind: Any, seeds: int, **kwargs: Any) -> F64:
    """⟨Φ(x_0), Φ(x_j)⟩ for every other row, one line a seed."""
    features = (fitted(X, kind, seed, **kwargs).transform(X) for seed in range(seeds))
    return np.array([P[1:] @ P[0] for P in features])


def points(d: int) -> F64:
    """An origin, and rows at distances 0.5, 1.5 and 3."""
    others = np.random.default_rng(d).normal(size=(3, d))
    others *= np.array([0.5, 1.5, 3.0])[:, None] / np.linalg.norm(others, axis=1, keepdims=True)
    return np.vstack([np.zeros(d), others]) + 0.3


@pytest.mark.parametrize("d", [1, 3, 10])
@pytest.mark.parametrize(("kind", "kernel"), CASES)
def test_every_kind_is_unbiased_for_its_kernel(kind: str, kernel: str, d: int) -> None:
    X = points(d)
    got = products(X, kind, 200, kernel=kernel)
    error = got.std(axis=0) / np.sqrt(len(got))  # 0.009 at most (iid, 32 frequencies); 4 errors, 81 comparisons
    exact = VALUES[kernel](1.5).value(X[:1], X[1:])[0]
    assert (np.abs(got.mean(axis=0) - exact) < 4 * error + 2e-6).all()


@pytest.mark.parametrize(("kind", "kernel"), CASES)
@pytest.mark.parametrize("d", [1, 3, 70])
def test_every_row_has_norm_one_and_cos_bias_at_most_root_two(kind: str, kernel: str, d: int) -> None:
    X = np.random.default_rng(0).normal(size=(200, d))
    phi = fitted(X, kind, kernel=kernel)
    norms = np.linalg.norm(phi.transform(X), axis=1)
    if kind == "cos-bias":
        assert phi.bound_ == np.sqrt(2)
        assert norms.max() <= np.sqrt(2) * (1 + 1e-6) and norms.std() > 0.01
    else:
        assert phi.bound_ == 1.0
        assert np.abs(norms - 1).max() < 1e-6


def test_two_cos_bias_features_reach_their_bound() -> None:
    X = np.linspace(-1000, 1000, 200_001)[:, None]
    norms = np.linalg.norm(fitted(X, "cos-bias", n_features=2).transform(X), axis=1)
    assert norms.max() > 1.4


@pytest.mark.parametrize("kind", ["iid", "orthogonal", "qmc", "structured"])
def test_means_of_gaussian_samples_have_the_closed_form_inner_product(kind: str) -> None:
    rng = np.random.default_rng(1)
    d, n, sigma = 4, 20_000, 1.5
    a, b, s, t = np.zeros(d), np.array([1.0, 0.5, 0.0, -0.5]), 1.0, 0.6
    X, Y = a + s * rng.normal(size=(n, d)), b + t * rng.normal(size=(n, d))
    got = []
    for seed in range(20):
        phi = fitted(X, kind, seed, n_features=1000)
        got.append(
            phi.transform(X[seed * 1000 :][:1000]).mean(axis=0) @ phi.transform(Y[seed * 1000 :][:1000]).mean(axis=0)
        )
    error = np.std(got) / np.sqrt(20)  # about 0.002, of frequencies and of rows together
    assert abs(np.mean(got) - gaussian_means(a, s**2, b, t**2, sigma)) < 4 * error
    assert error < 0.005


@pytest.mark.parametrize(
    ("kind", "d"), [("orthogonal", 2), ("orthogonal", 8), ("qmc", 2), ("qmc", 8), ("structured", 70)]
)
def test_orthogonal_and_qmc_frequencies_lower_the_variance(kind: str, d: int) -> None:
    # 300 seeds: a variance is known to 8%, a ratio of two to 12%. Measured ratios: 0.1 to 0.6.
    X = np.vstack([np.zeros(d), np.full(d, np.sqrt(2 / d))])  # ‖δ‖ = √2 and σ = 1.5
    iid, other = (products(X, k, 300, n_features=256 if d > 64 else 64).var() for k in ("iid", kind))
    assert other < 0.8 * iid


def test_cos_bias_never_has_a_lower_variance_than_pairs() -> None:
    # At equal D. The paired form has half as many frequencies; a variance is known to 8% here.
    for length in (0.3, 1.0, 2.0, 4.0):
        X = np.array([[0.0, 0.0], [length, 0.0]])
        assert products(X, "cos-bias", 300).var() > 0.85 * products(X, "iid", 300).var()


def test_auto_is_structured_from_64_columns() -> None:
    narrow, wide = np.ones((3, STRUCTURED_FROM - 1)), np.ones((3, STRUCTURED_FROM))
    assert STRUCTURED_FROM == 64
    assert "omega" in fitted(narrow, "auto").unit_
    assert "signs" in fitted(wide, "auto").unit_
    assert "signs" in fitted(wide, "auto", kernel="laplace").unit_


def test_auto_is_orthogonal_below_64_columns() -> None:
    omega = fitted(np.ones((3, 5)), "auto", n_features=20).unit_["omega"]
    for group in (omega[:, :5], omega[:, 5:]):
        inner = group.T @ group
        assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-12


@pytest.mark.parametrize("kind", ["iid", "orthogonal", "qmc", "structured", "cos-bias"])
def test_the_seed_decides_the_features(kind: str) -> None:
    X = np.random.default_rng(2).normal(size=(10, 3))
    assert np.array_equal(fitted(X, kind, 5).transform(X), fitted(X, kind, 5).transform(X))
    assert not np.allclose(fitted(X, kind, 5).transform(X), fitted(X, kind, 6).transform(X))


@pytest.mark.parametrize("kind", ["iid", "qmc", "structured", "cos-bias"])
def test_with_bandwidth_keeps_the_frequencies_and_scales_them(kind: str) -> None:
    X = np.random.default_rng(3).normal(size=(50, 3))
    phi = fitted(X, kind, standardize=True)
    other = phi.with_bandwidth(3.0)
    assert other.unit_ is phi.unit_ and other.sigma == 3.0
    fresh = fitted(X, kind, standardize=True, bandwidth=3.0)
    assert np.array_equal(other.transform(X), fresh.transform(X))


@pytest.mark.parametrize("kind", ["iid", "orthogonal", "qmc", "structured"])
def test_rescaling_columns_and_bandwidth_together_changes_nothing(kind: str) -> None:
    X = np.random.default_rng(4).normal(size=(50, 3))
    here, there = fitted(X, kind), fitted(8 * X, kind, bandwidth=8 * 1.5)
    assert np.allclose(here.transform(X), there.transform(8 * X), atol=2e-6)


@pytest.mark.parametrize("kind", ["iid", "orthogonal", "qmc", "structured"])
@pytest.mark.parametrize("bandwidth", [1.5, "median"])
def test_standardised_features_do_not_see_units_or_origins_of_columns(kind: str, bandwidth: Any) -> None:
    X = np.random.default_rng(5).normal(size=(80, 3))
    moved = X * [1e3, 0.02, 7.0] + [5e3, 1.0, -40.0]
    here, there = (fitted(Z, kind, standardize=True, bandwidth=bandwidth) for Z in (X, moved))
    assert here.sigma == pytest.approx(there.sigma, rel=1e-6)
    assert np.allclose(here.transform(X), there.transform(moved), atol=1e-5)


def test_weighted_standardisation_is_that_of_repeated_rows() -> None:
    X = np.random.default_rng(6).normal(size=(20, 2))
    times = np.arange(20) % 3 + 1
    weighted = RandomFourier(20, 1.0).fit(X, sample_weight=times.astype(float))
    repeated = RandomFourier(20, 1.0).fit(np.repeat(X, times, axis=0))
    assert np.allclose(weighted.center_, repeated.center_) and np.allclose(weighted.scale_, repeated.scale_)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_many_features_converge_to_the_kernel(kernel: str) -> None:
    X = np.random.default_rng(7).normal(size=(30, 4))
    P = fitted(X, "iid", n_features=40_000, kernel=kernel).transform(X)
    # 20,000 frequencies: a standard error of at most 0.005 for each of 435 pairs
    assert np.abs(P @ P.T - VALUES[kernel](1.5).value(X, X)).max() < 5 * 0.005


def structured_frequencies(d: int, seeds: int) -> F64:
    """ω of the structured kind at σ = 1, one column each, read off its phases of the unit vectors."""
    columns = []
    for seed in range(seeds):
        parts = draw("structured", Gaussian(1.0), d, 64, np.random.default_rng(seed))
        p = parts["signs"].shape[2]
        H = hadamard(p) / np.sqrt(p)
        s1, s2, s3 = parts["signs"][:, 0].astype(np.float64)
        columns.append(((np.eye(p) * s1 @ H * s2) @ H * s3) @ H * parts["radii"][0])
    return np.hstack(columns)[:d]


@pytest.mark.parametrize("d", [1, 5, 64, 100])
def test_structured_frequencies_are_orthogonal_and_follow_the_spectral_law(d: int) -> None:
    omega = structured_frequencies(d, 400)
    one = structured_frequencies(128, 1)
    inner = one.T @ one
    assert np.abs(inner - np.diag(np.diag(inner))).max() < 1e-10
    # 25,600 frequencies or more: a mean cosine is known to 0.0045 for directions along one, two and all columns
    for direction in (np.eye(d)[0], np.ones(d)):
        for length in (0.5, 1.5, 3.0):
            t = length * direction / np.linalg.norm(direction) @ omega
            assert abs(np.cos(t).mean() - np.exp(-(length**2) / 2)) < 4 * np.cos(t).std() / np.sqrt(len(t))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"n_features": 3}, "even"),
        ({"n_features": 0}, "even"),
        ({"kind": "sobol"}, "kind="),
        ({"kernel": "energy"}, "kernel="),
        ({"bandwidth": 0.0}, "bandwidth="),
        ({"bandwidth": float("nan")}, "bandwidth="),
        ({"bandwidth": "medium"}, "bandwidth="),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        RandomFourier(**settings).fit(np.ones((2, 2)))
