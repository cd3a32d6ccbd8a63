"""The choice of σ: what it optimises, what it predicts, and the pitfall that it avoids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proportio as pp
from oracles import F64
from proportio.bandwidth import AT_MOST, BandwidthCurve, _sample, choose, predicted_error
from proportio.errors import InputError
from proportio.exact import keep_rows
from proportio.features import RandomFourier
from proportio.gram import delta_min, unbiased
from proportio.kernels import Gaussian
from proportio.sketch import sketch_rows

CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
COUNTS = np.array([100, 200, 300])


def sample(rng: np.random.Generator, counts: Any, centres: F64 = CENTRES) -> tuple[F64, NDArray[np.int64]]:
    y = np.repeat(np.arange(len(counts)), counts)
    return centres[y] + rng.normal(size=(len(y), centres.shape[1])), y


def curve(X: F64, y: NDArray[Any], **kwargs: Any) -> BandwidthCurve:
    template = RandomFourier(kwargs.pop("n_features", 200), standardize=kwargs.pop("standardize", True))
    return choose(X, y, kwargs.pop("weights", None), template, **kwargs)


def small_classes() -> tuple[F64, NDArray[np.int64]]:
    """Two classes of 12 and 15 rows in five dimensions, half a standard deviation apart in each."""
    rng = np.random.default_rng(0)
    return sample(rng, [12, 15], np.array([np.zeros(5), np.full(5, 0.5)]))


def test_as_sigma_vanishes_the_v_statistic_keeps_its_delta_min_and_the_unbiased_gram_is_refused() -> None:
    X, y = small_classes()
    groups = y.astype(np.int32)
    sketch = keep_rows(Gaussian(1e-3), X, np.zeros(5), np.ones(5), groups, [0, 1], map_id="")
    G = sketch.products(sketch)
    corrected = unbiased(G, sketch.tally)
    assert np.allclose(G, np.diag([1 / 12, 1 / 15]), atol=1e-9)
    assert 1 / 15 <= delta_min(G) <= 1 / 12
    assert abs(delta_min(corrected)) < 1e-9
    counts = np.bincount(y).astype(np.float64)
    assert np.isnan(predicted_error(-np.abs(corrected), np.zeros((27, 2)), groups, counts, False))


def test_as_sigma_vanishes_the_estimate_slides_to_the_source_shares() -> None:
    X, y = small_classes()
    batch = X[y == 1][:6]
    model = pp.KMM(bandwidth=1e-3, standardize=False)
    fresh = batch + 0.1  # no row of the batch is one of the source's
    with pytest.warns(pp.errors.ProportioWarning, match="not separated"):
        shares = model.fit(X, y).predict(fresh)
    assert np.allclose(shares, [12 / 27, 15 / 27], atol=1e-6)


def test_small_classes_drive_the_uncorrected_criterion_to_a_small_sigma_and_not_ours() -> None:
    uncorrected, ours = [], []
    for seed in range(6):
        X, y = sample(np.random.default_rng(seed), [12, 15], np.array([np.zeros(5), np.full(5, 0.3)]))
        found = curve(X, y, criterion="delta_min", n_features=2000)
        phi = RandomFourier(2000, 1.0, random_state=1).fit(X)
        sketches = [sketch_rows(phi.with_bandwidth(s), X, y.astype(np.int32), [0, 1], map_id="") for s in found.sigmas]
        median = found.sigmas[12]  # the grid runs from median/16 to 4·median in 17 steps
        uncorrected.append(found.sigmas[np.argmax([delta_min(s.products(s)) for s in sketches])] / median)
        ours.append(found.chosen / median)
    assert (np.array(uncorrected) <= np.array(ours)).all()
    assert np.median(uncorrected) < 1 / 4 < np.median(ours)


@pytest.mark.parametrize("soft", [False, True])
def test_the_smallest_bandwidths_are_refused_or_far_from_the_best(soft: bool) -> None:
    X, y = small_classes()
    found = curve(X, y, soft=soft, n_features=1000)
    best = np.nanmin(found.mean)
    assert (np.isnan(found.mean[:2]) | (found.mean[:2] > 2 * best)).all()
    assert np.isfinite(found.mean).any()


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("criterion", ["error", "delta_min"])
def test_the_chosen_sigma_is_the_best_of_its_curve(criterion: Any, soft: bool) -> None:
    found = curve(*sample(np.random.default_rng(1), COUNTS), criterion=criterion, soft=soft)
    best = np.nanargmin(found.mean) if criterion == "error" else np.nanargmax(found.mean)
    assert found.chosen == found.sigmas[best]
    assert np.allclose(found.mean, found.values.mean(axis=0), equal_nan=True)
    assert found.values.shape == (3, 17)


def test_the_grid_is_logarithmic_around_the_median_distance() -> None:
    X, y = sample(np.random.default_rng(2), COUNTS)
    found = curve(X, y, standardize=False)
    distances = np.linalg.norm(X[:, None] - X[None], axis=2)[np.triu_indices(len(X), 1)]
    assert np.allclose(np.diff(np.log(found.sigmas)), np.log(64) / 16)
    assert found.sigmas[12] * 2 ** (3 / 2) / 2 ** (3 / 2) == pytest.approx(found.sigmas[0] * 64**0.75)
    assert found.sigmas[0] * 16 == pytest.approx(np.median(distances), rel=1e-6)


def test_the_curve_shows_the_unbiased_delta_min() -> None:
    X, y = sample(np.random.default_rng(3), COUNTS)
    found = curve(X, y, criterion="delta_min", standardize=False, n_features=8000)
    k = int(np.argmin(np.abs(found.sigmas - 1.5)))
    sketch = keep_rows(Gaussian(found.sigmas[k]), X, np.zeros(2), np.ones(2), y.astype(np.int32), [0, 1, 2], map_id="")
    exact = delta_min(unbiased(sketch.products(sketch), sketch.tally))
    assert found.mean[k] == pytest.approx(exact, rel=0.1)  # 4,000 frequencies, three draws


@pytest.mark.parametrize("soft", [False, True])
def test_the_predicted_error_is_the_simulated_one_within_30_percent(soft: bool) -> None:
    rng = np.random.default_rng(4)
    predicted, squared = [], []
    sigma = curve(*sample(rng, COUNTS), soft=soft, standardize=False).chosen
    for k in range(200):  # known to about 4%: a mean of 200 sums of two or three squares
        X, y = sample(rng, COUNTS)
        batch, _ = sample(rng, [200, 200, 200])
        if k < 5:
            found = curve(X, y, soft=soft, standardize=False)
            predicted.append(found.mean[np.argmin(np.abs(found.sigmas - sigma))])
        model = pp.RFFM(200, sigma, soft, positive=False, standardize=False, random_state=k)
        squared.append(((model.fit(X, y).predict(batch) - 1 / 3) ** 2).sum())
    assert np.mean(predicted) == pytest.approx(np.sqrt(np.mean(squared)), rel=0.3)


@pytest.mark.parametrize("criterion", ["error", "delta_min"])
def test_the_same_random_state_gives_the_same_curve(criterion: Any) -> None:
    X, y = sample(np.random.default_rng(5), COUNTS)
    a, b, other = (curve(X, y, criterion=criterion, random_state=s) for s in (7, 7, 8))
    assert np.array_equal(a.values, b.values, equal_nan=True) and a.chosen == b.chosen
    assert not np.array_equal(a.values, other.values, equal_nan=True)


@pytest.mark.parametrize("criterion", ["error", "delta_min"])
@pytest.mark.parametrize("counts", [[1, 50], [1, 1, 50], [1, 1], [2, 2, 2]])
def test_classes_of_one_or_two_rows_do_not_crash(criterion: Any, counts: list[int]) -> None:
    found = curve(*sample(np.random.default_rng(6), counts), criterion=criterion)
    assert np.isfinite(found.chosen) and found.chosen > 0


@pytest.mark.parametrize("criterion", ["error", "delta_min"])
def test_sigma_follows_the_units_of_the_columns(criterion: Any) -> None:
    X, y = sample(np.random.default_rng(7), COUNTS)
    here, there = (curve(Z, y, criterion=criterion, standardize=False) for Z in (X, 8 * X))
    assert there.chosen == pytest.approx(8 * here.chosen, rel=1e-6)
    usable = here.sigmas > here.sigmas[4]
    assert np.allclose(here.values[:, usable], there.values[:, usable], rtol=1e-3, equal_nan=True)


def test_standardised_sigma_does_not_follow_the_units_of_the_columns() -> None:
    X, y = sample(np.random.default_rng(8), COUNTS)
    here, there = curve(X, y), curve(X * [100.0, 0.01] + 3.0, y)
    assert there.chosen == pytest.approx(here.chosen, rel=1e-6)


def test_an_unknown_criterion_is_refused() -> None:
    with pytest.raises(InputError, match="criterion="):
        curve(*sample(np.random.default_rng(9), COUNTS), criterion="best")


def test_at_most_ten_thousand_rows_are_looked_at_and_small_classes_whole() -> None:
    counts = np.array([100.0, 30_000.0, 3_000.0, 20_000.0])
    groups = np.repeat(np.arange(4), counts.astype(int)).astype(np.int32)
    rows = _sample(groups, counts, np.random.default_rng(0))
    kept = np.bincount(groups[rows])
    assert len(np.unique(rows)) == len(rows) and AT_MOST - 4 < len(rows) <= AT_MOST
    assert kept.tolist() == [100, 3450, 3000, 3450]
