"""The estimators as wholes, against the closed forms and symmetries that they must obey."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import proportio as pp

RNG = np.random.default_rng(7)
CENTRES = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [0.0, 2.0, 1.0], [1.0, 1.0, -2.0]])
Y = RNG.permutation(np.repeat([0, 1, 2, 3], [150, 200, 250, 100]))
X = CENTRES[Y] + RNG.normal(size=(len(Y), 3))
BATCH_Y = RNG.choice(4, 500, p=[0.1, 0.2, 0.3, 0.4])
BATCH = CENTRES[BATCH_Y] + RNG.normal(size=(500, 3))
HALF = len(Y) // 2

METHODS: dict[str, Callable[[], Any]] = {
    "RFFM": lambda: pp.RFFM(n_features=400, bandwidth=1.0),
    "softRFFM": lambda: pp.RFFM(n_features=400, bandwidth=1.0, soft=True),
    "KMM": lambda: pp.KMM(bandwidth=1.0),
    "softEnergy": lambda: pp.KMM(kernel="energy", soft=True),
    "BBSE+": lambda: pp.BBSE(LogisticRegression().fit(X[:HALF], Y[:HALF]), cv="prefit"),
    "histograms": lambda: pp.DFM(pp.features.Histogram(bins=6)),
}


def test_fourier_features_tend_to_the_exact_kernel_at_the_rate_of_one_over_root_dim() -> None:
    exact = pp.KMM(bandwidth=1.0).fit(X, Y).predict(BATCH)
    dims = np.array([100, 400, 1600, 6400])
    errors = [
        np.sqrt(
            np.mean(
                [
                    np.sum((pp.RFFM(int(D), 1.0, kind="iid", random_state=s).fit(X, Y).predict(BATCH) - exact) ** 2)
                    for s in range(40)
                ]
            )
        )
        for D in dims
    ]
    slope = np.polyfit(np.log(dims), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.1  # 40 draws each: the Monte Carlo error of the slope is about 0.03


def test_bbse_without_positivity_is_the_inverse_confusion_matrix_times_the_decisions() -> None:
    f = LogisticRegression().fit(X[:HALF], Y[:HALF])
    model = pp.BBSE(f, cv="prefit", positive=False).fit(X[HALF:], Y[HALF:])
    decided, labels = f.predict(X[HALF:]), Y[HALF:]
    M = np.array([[np.mean(decided[labels == j] == i) for j in range(4)] for i in range(4)])
    share = np.array([np.mean(f.predict(BATCH) == i) for i in range(4)])
    np.testing.assert_allclose(model.predict(BATCH), np.linalg.solve(M, share), atol=1e-10)


def test_bbse_and_bbse_plus_agree_where_no_share_is_negative() -> None:
    f = LogisticRegression().fit(X[:HALF], Y[:HALF])
    free, plus = (pp.BBSE(f, cv="prefit", positive=p).fit(X[HALF:], Y[HALF:]).predict(BATCH) for p in (False, True))
    assert free.min() > 0
    np.testing.assert_allclose(plus, free, atol=1e-10)


def test_a_soft_estimate_is_a_hard_one_with_a_class_at_the_origin_of_the_energy_kernel() -> None:
    """Φ(x₀) = 0: a class whose only row is x₀ is the dummy class of the soft form."""
    soft = pp.KMM(kernel="energy", standardize=False, origin=[9.0, 9.0, 9.0], soft=True).fit(X, Y).estimate(BATCH)
    X0, Y0 = np.concatenate([X, [[9.0, 9.0, 9.0]]]), np.append(Y, 99)
    hard = pp.KMM(kernel="energy", standardize=False, origin=[9.0, 9.0, 9.0]).fit(X0, Y0).estimate(BATCH)
    np.testing.assert_allclose(np.append(soft.proportions, soft.unknown), hard.proportions, atol=1e-9)


@pytest.mark.parametrize("name", [n for n in METHODS if n != "BBSE+"])  # its classifier has its labels fixed
def test_shares_follow_their_classes_when_labels_are_permuted(name: str) -> None:
    names = np.array(["w", "a", "k", "c"])
    plain = METHODS[name]().fit(X, Y).estimate(BATCH)
    renamed = METHODS[name]().fit(X, names[Y]).estimate(BATCH)
    expected = dict(zip(names.tolist(), plain.proportions, strict=True))
    assert renamed.classes.tolist() == sorted(names.tolist())
    np.testing.assert_allclose(renamed.proportions, [expected[k] for k in renamed.classes], atol=1e-9)


@pytest.mark.parametrize("name", ["RFFM", "KMM", "histograms"])
def test_moving_and_stretching_all_rows_changes_nothing(name: str) -> None:
    a, b = np.array([3.0, 0.5, 20.0]), np.array([-7.0, 100.0, 3.0])
    plain, moved = METHODS[name]().fit(X, Y).predict(BATCH), METHODS[name]().fit(X * a + b, Y).predict(BATCH * a + b)
    np.testing.assert_allclose(moved, plain, atol=1e-5)  # the phases of Fourier features are float32


def test_hard_energy_does_not_see_its_origin_and_the_soft_form_does() -> None:
    for soft in (False, True):
        at = [pp.KMM(kernel="energy", origin=o, soft=soft).fit(X, Y).predict(BATCH) for o in ("mean", [4.0, 4.0, 4.0])]
        gap = float(np.abs(at[0] - at[1]).max())
        assert gap > 1e-3 if soft else gap < 1e-6


@pytest.mark.parametrize("name", METHODS)
def test_more_rows_bring_the_estimate_to_the_truth(name: str) -> None:
    errors = []
    for n in (200, 20_000) if name not in ("KMM", "softEnergy") else (200, 5_000):
        rng = np.random.default_rng(n)
        y, z = rng.integers(0, 4, n), rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4])
        model = METHODS[name]().fit(CENTRES[y] + rng.normal(size=(n, 3)), y)
        errors.append(np.linalg.norm(model.predict(CENTRES[z] + rng.normal(size=(n, 3))) - [0.1, 0.2, 0.3, 0.4]))
    assert errors[1] < 0.5 * errors[0] + 0.01
    assert errors[1] < 0.05


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_the_same_seed_gives_the_same_bits_whatever_the_threads_and_chunks(name: str, n_jobs: int) -> None:
    whole = METHODS[name]().fit(X, Y).predict(BATCH)
    model = METHODS[name]().set_params(n_jobs=n_jobs).fit(X, Y)
    np.testing.assert_array_equal(model.predict(BATCH), whole)
    chunks = model.predict(iter(np.array_split(BATCH, 7)))
    if name in ("KMM", "softEnergy"):  # pair sums are sums of float64 in the order of the rows that are kept
        np.testing.assert_allclose(chunks, whole, atol=1e-9)
    else:
        np.testing.assert_array_equal(chunks, whole)


@pytest.mark.parametrize("name", METHODS)
def test_every_estimate_carries_its_certificate(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        est = METHODS[name]().fit(X, Y).estimate(BATCH)
    assert est.diagnostics.kkt <= 1e-10
    assert est.diagnostics.delta_min >= est.diagnostics.lambda_min
    assert est.proportions.min() >= 0 and abs(est.proportions.sum() + est.unknown - 1) < 1e-12
