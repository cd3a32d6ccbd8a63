"""The compiled kernels against plain float64 NumPy, and the exactness they promise."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import hadamard
from scipy.spatial.distance import cdist
from scipy.stats import chi2

from proportio._compiled.fourier import fourier_features, fourier_sums
from proportio._compiled.hadamard import hadamard_features, hadamard_sums
from proportio._compiled.pairs import pair_sums
from proportio._compiled.sums import cell_sums, deal
from proportio._compiled.threads import resolve_jobs, run

F64 = NDArray[np.float64]
VALUE_ERROR = 6e-7  # of one cosine or sine of an exact phase; 5.0e-7 measured, 1.0e-7 root mean square


def waves(phases: F64) -> F64:
    return np.hstack([np.cos(2 * np.pi * phases), np.sin(2 * np.pi * phases)])


def totals(features: F64, cells: NDArray[np.int32], n_cells: int, weights: F64 | None = None) -> F64:
    expected = np.zeros((n_cells, features.shape[1]))
    kept = cells >= 0
    scaled = features if weights is None else features * weights[:, None]
    np.add.at(expected, cells[kept], scaled[kept])
    return expected


class Problem:
    """Random rows, frequencies and cells (some negative) of any shape, with their float64 features."""

    def __init__(self, n: int, d: int, n_freq: int, n_cells: int = 7, dtype: type = np.float32) -> None:
        rng = np.random.default_rng([n, d, n_freq])
        self.X: NDArray[Any] = (3.0 + rng.normal(size=(n, d))).astype(dtype)
        self.center = np.full(d, 3.0) + rng.normal(size=d) / 10
        self.turns = (rng.normal(size=(d, n_freq)) / np.sqrt(d)).astype(np.float32)
        self.cells = rng.integers(-1, n_cells, n).astype(np.int32)
        self.weights = rng.random(n)
        self.n_cells = n_cells
        z = (self.X - self.center).astype(np.float32).astype(np.float64)
        self.phases = z @ self.turns.astype(np.float64)

    def sums(self, rows: Any = slice(None), weights: F64 | None = None, n_jobs: int | None = 1) -> F64:
        return fourier_sums(
            self.X[rows], self.center, self.turns, self.cells[rows], self.n_cells, weights, n_jobs=n_jobs
        )


def test_every_value_is_accurate_up_to_fifty_turns() -> None:
    turns = np.linspace(-50, 50, 100_001).astype(np.float32)[None, :]
    features = fourier_features(np.ones((1, 1), np.float32), np.zeros(1), turns)
    assert np.abs(features - waves(turns.astype(np.float64))).max() < VALUE_ERROR


def test_quarter_turns_are_exact() -> None:
    turns = np.array([[0.0, 0.25, 0.5, 0.75, 1.0]], np.float32)
    features = fourier_features(np.ones((1, 1), np.float32), np.zeros(1), turns)
    np.testing.assert_allclose(features, [[1, 0, -1, 0, 1, 0, 1, 0, -1, 0]], atol=2e-7)
    assert features[0, 0] == 1.0 and features[0, 5] == 0.0


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 9, 17, 40])
@pytest.mark.parametrize("n_freq", [1, 7, 64, 500])
def test_sums_and_features_match_numpy(d: int, n_freq: int) -> None:
    problem = Problem(203, d, n_freq)
    features = fourier_features(problem.X, problem.center, problem.turns)
    assert features.shape == (203, 2 * n_freq) and features.dtype == np.float32
    assert np.abs(features - waves(problem.phases)).max() < VALUE_ERROR + 2e-6 * np.abs(problem.phases).max()
    exact = totals(features.astype(np.float64), problem.cells, problem.n_cells)
    assert np.array_equal(problem.sums(), exact)
    weighted = totals(features.astype(np.float64), problem.cells, problem.n_cells, problem.weights)
    np.testing.assert_allclose(problem.sums(weights=problem.weights), weighted, rtol=0, atol=1e-12)
    assert np.array_equal(problem.sums(weights=np.ones(203)), exact)


def test_sums_are_the_same_bits_in_every_order_chunk_and_thread_count() -> None:
    problem = Problem(3001, 6, 70, dtype=np.float64)
    whole = problem.sums()
    order = np.random.default_rng(0).permutation(3001)
    assert np.array_equal(problem.sums(order), whole)
    assert np.array_equal(problem.sums(slice(0, 1234)) + problem.sums(slice(1234, None)), whole)
    assert all(np.array_equal(problem.sums(n_jobs=jobs), whole) for jobs in (2, 3, 8, None))
    assert np.array_equal(problem.sums(slice(None, None, -1)), whole)


def test_weighted_sums_hardly_depend_on_order_and_threads() -> None:
    problem = Problem(3001, 6, 70)
    whole = problem.sums(weights=problem.weights)
    order = np.random.default_rng(0).permutation(3001)
    scale = problem.weights.sum()
    for other in (
        problem.sums(order, problem.weights[order]),
        problem.sums(weights=problem.weights, n_jobs=3),
    ):
        assert np.abs(other - whole).max() <= 1e-13 * scale
    assert np.array_equal(problem.sums(weights=problem.weights, n_jobs=3), other)


def test_a_cell_may_hold_more_rows_than_an_integer_accumulator() -> None:
    X = np.full((70_001, 1), 0.5, np.float32)
    cells = np.zeros(70_001, np.int32)
    sums = fourier_sums(X, np.zeros(1), np.array([[1.0, 0.5]], np.float32), cells, 1)
    np.testing.assert_allclose(sums, [[-70_001, 0, 0, 70_001]], atol=0.02)


@pytest.mark.parametrize("n_cells", [1, 5000])
def test_few_and_many_cells(n_cells: int) -> None:
    problem = Problem(1000, 3, 20, n_cells)
    features = fourier_features(problem.X, problem.center, problem.turns).astype(np.float64)
    assert np.array_equal(problem.sums(), totals(features, problem.cells, n_cells))


def test_layout_and_precision_of_the_input_do_not_matter() -> None:
    problem = Problem(300, 5, 33)
    whole = problem.sums()
    for X in (
        problem.X.astype(np.float64),
        np.asfortranarray(problem.X),
        np.repeat(problem.X, 2, axis=1)[:, ::2],
    ):
        problem.X = X
        assert np.array_equal(problem.sums(), whole)
    problem.X.flags.writeable = False
    assert np.array_equal(problem.sums(), whole)


def test_no_rows() -> None:
    problem = Problem(0, 3, 20)
    assert np.array_equal(problem.sums(), np.zeros((7, 40)))
    assert np.array_equal(problem.sums(weights=np.empty(0)), np.zeros((7, 40)))
    assert fourier_features(problem.X, problem.center, problem.turns).shape == (0, 40)
    assert cell_sums(np.empty((0, 3)), problem.cells, 2).shape == (2, 3)
    assert deal(problem.X, 0, 1, 64).shape == (0,)
    assert pair_sums(problem.X, problem.X, np.array([0, 0]), "gaussian", 1.0).shape == (0, 1)


def test_cells_out_of_range_are_refused() -> None:
    problem = Problem(10, 3, 20)
    problem.cells[3] = 7
    with pytest.raises(ValueError, match="n_cells = 7"):
        problem.sums()
    with pytest.raises(ValueError, match="n_cells = 7"):
        cell_sums(problem.X, problem.cells, 7)


@pytest.mark.parametrize(("d", "n_freq"), [(1, 3), (2, 7), (5, 64), (9, 16), (17, 33), (40, 100), (300, 500)])
def test_hadamard_matches_numpy(d: int, n_freq: int) -> None:
    rng = np.random.default_rng(d)
    order = 1 << (d - 1).bit_length()
    n_blocks = -(-n_freq // order)
    signs = rng.choice([-1.0, 1.0], (3, n_blocks, order)).astype(np.float32)
    radii = (rng.normal(size=(n_blocks, order)) / order**1.5).astype(np.float32)
    problem = Problem(101, d, 1)
    z = np.zeros((101, order))
    z[:, :d] = (problem.X - problem.center).astype(np.float32)
    H = hadamard(order).astype(np.float64)
    s1, s2, s3 = signs
    phases = np.hstack([((z * s1[b] @ H * s2[b]) @ H * s3[b]) @ H * radii[b] for b in range(n_blocks)])[:, :n_freq]
    features = hadamard_features(problem.X, problem.center, signs, radii, n_freq)
    assert np.abs(features - waves(phases)).max() < VALUE_ERROR + 3e-6 * np.abs(phases).max()

    def sums(rows: Any, weights: F64 | None = None, n_jobs: int | None = None) -> F64:
        X, cells = problem.X[rows], problem.cells[rows]
        return hadamard_sums(X, problem.center, signs, radii, n_freq, cells, 7, weights, n_jobs=n_jobs)

    whole = sums(slice(None))
    assert np.array_equal(whole, totals(features.astype(np.float64), problem.cells, 7))
    assert np.array_equal(sums(slice(0, 30), n_jobs=1) + sums(slice(30, None), n_jobs=3), whole)
    weighted = totals(features.astype(np.float64), problem.cells, 7, problem.weights)
    np.testing.assert_allclose(sums(slice(None), problem.weights), weighted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 5, 8, 17])
@pytest.mark.parametrize("kind", ["gaussian", "laplace", "distance"])
def test_pair_sums_match_cdist(d: int, kind: str) -> None:
    rng = np.random.default_rng(d)
    X, Y = (rng.normal(size=(n, d)).astype(np.float32) for n in (301, 500))
    Y[:301] = X
    weights = rng.random(500)
    offsets = np.array([0, 0, 7, 100, 400, 500])
    distances = cdist(X.astype(np.float64), Y.astype(np.float64))
    power: dict[str, Any] = {"gaussian": -0.3 * distances**2, "laplace": -0.3 * distances}
    values = np.exp(power[kind]) if kind in power else distances
    each = pair_sums(X, Y, np.arange(501), kind, 0.3)
    allowed = values * 5e-7 * (1.0 + np.abs(power.get(kind, 0.0)))  # float32 exponents have float32 errors
    assert np.all(np.abs(each - values) <= allowed)
    assert np.all(np.diag(each) == (0.0 if kind == "distance" else 1.0))
    groups = pair_sums(X, Y, offsets, kind, 0.3, weights, n_jobs=1)
    expected = np.add.reduceat((values * weights), offsets[1:-1], axis=1)
    np.testing.assert_allclose(groups[:, 1:], expected, rtol=3e-6)
    assert np.all(groups[:, 0] == 0.0)
    assert np.array_equal(groups, pair_sums(X, Y, offsets, kind, 0.3, weights, n_jobs=3))


def test_far_pairs_have_no_gaussian_similarity() -> None:
    X = np.array([[0.0], [9.3], [9.4], [1e30]], np.float32)
    values = pair_sums(X, X[:1], np.array([0, 1]), "gaussian", 1.0)[:, 0]
    assert values[0] == 1.0 and 0 < values[1] < 1e-37 and np.all(values[2:] == 0.0)


def test_unknown_kind() -> None:
    with pytest.raises(ValueError, match="kind must be one of"):
        pair_sums(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), np.array([0, 1]), "cosine", 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cell_sums(dtype: type) -> None:
    rng = np.random.default_rng(0)
    F: NDArray[Any] = rng.normal(size=(200, 9)).astype(dtype)
    cells = rng.integers(-1, 4, 200).astype(np.int32)
    weights = rng.random(200)
    np.testing.assert_allclose(cell_sums(F, cells, 4), totals(F.astype(np.float64), cells, 4), atol=1e-12)
    expected = totals(F.astype(np.float64), cells, 4, weights)
    np.testing.assert_allclose(cell_sums(F[:, ::-1], cells, 4, weights), expected[:, ::-1], atol=1e-12)


def test_rows_are_dealt_uniformly() -> None:
    X = np.round(np.random.default_rng(0).normal(size=(64_000, 3)), 1)
    for seed in range(3):
        blocks = deal(X, 0, seed, 64)
        counts = np.bincount(blocks, minlength=64)
        assert blocks.min() >= 0 and counts.size == 64
        statistic = ((counts - 1000.0) ** 2 / 1000.0).sum()
        assert chi2.cdf(statistic, 63) < 0.999
    pairs = np.bincount(deal(X, 0, 0, 8) * 8 + deal(X, 0, 1, 8), minlength=64)
    assert chi2.cdf(((pairs - 1000.0) ** 2 / 1000.0).sum(), 63) < 0.999


def test_a_row_is_dealt_by_its_position_and_content() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    X[:10] = 0.0
    blocks = deal(X, 0, 5, 1 << 20)
    assert np.array_equal(deal(X[123:], 123, 5, 1 << 20), blocks[123:])
    assert np.array_equal(deal(X.astype(np.float64), 0, 5, 1 << 20), blocks)
    assert np.array_equal(deal(-X[:10], 0, 5, 1 << 20), blocks[:10])
    assert np.array_equal(deal(np.asfortranarray(X), 0, 5, 1 << 20), blocks)
    assert np.unique(blocks).size > 990
    assert np.mean(deal(X, 0, 6, 1 << 20) == blocks) < 0.01
    changed = X.copy()
    changed[:, 3] += 1
    assert np.mean(deal(changed, 0, 5, 1 << 20) == blocks) < 0.01


def test_resolve_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = resolve_jobs(-1)
    assert everything >= 1 and resolve_jobs(3) == 3
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert resolve_jobs(None) == 1 and resolve_jobs(-1) == everything
    monkeypatch.delenv("NUMBA_NUM_THREADS")
    assert resolve_jobs(None) == everything
    for bad in (0, -2):
        with pytest.raises(ValueError, match="n_jobs"):
            resolve_jobs(bad)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_run_stops_at_the_first_failure(n_jobs: int, error: type[BaseException]) -> None:
    done: list[int] = []
    gate = threading.Event()

    def task(index: int) -> None:
        if index == 1:
            raise error("stop")
        gate.wait(0.01)
        done.append(index)

    with pytest.raises(error, match="stop"):
        run(task, 1000, n_jobs)
    assert len(done) < 50
