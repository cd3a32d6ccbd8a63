"""The sketch as a monoid, and what its blocks say about the covariance of the mean."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import proportio as pp
from proportio.exact import RowSketch
from proportio.sketch import BlockSketch, blocks_for

F64 = NDArray[np.float64]
RNG = np.random.default_rng(1)
Y = np.arange(240) % 3
X = RNG.normal(size=(240, 3)) + 1.5 * Y[:, None]
BATCH = RNG.normal(size=(200, 3)) + 1.0
WEIGHTS = RNG.uniform(0.1, 3.0, size=200)
BATCH_WEIGHTED = (BATCH, WEIGHTS)

MODELS: dict[str, Any] = {
    "RFFM": pp.RFFM(n_features=40, bandwidth=1.0),
    "RFFM structured": pp.RFFM(n_features=40, bandwidth=1.0, kind="structured"),
    "RFFM cos-bias": pp.RFFM(n_features=40, bandwidth=1.0, kind="cos-bias"),
    "Histogram": pp.DFM(pp.features.Histogram(bins=4)),
    "BBSE": pp.BBSE(cv=2),
    "AutoDFM": pp.AutoDFM(n_features=40, cv=2),
    "KMM": pp.KMM(bandwidth=1.0),
}
FITTED: dict[str, Any] = {}

every_model = pytest.mark.parametrize("name", MODELS)
cuts = st.lists(st.integers(1, len(BATCH) - 1), max_size=6, unique=True).map(sorted)
quick = settings(max_examples=20, deadline=None)


def model(name: str) -> Any:
    if name not in FITTED:
        FITTED[name] = MODELS[name].fit(X, Y)
    return FITTED[name]


def parts(name: str, where: list[int], *, weights: F64 | None = None, started: bool = False) -> list[Any]:
    edges = [0, *where, len(BATCH)]
    return [
        model(name).sketch(
            BATCH[a:b], sample_weight=None if weights is None else weights[a:b], start=a if started else 0
        )
        for a, b in pairwise(edges)
    ]


def totals(sketch: Any) -> F64:
    """The sketch with its blocks summed away: the class sums, or for exact kernels the products of the means."""
    if isinstance(sketch, RowSketch):
        return sketch.products(model("KMM").sketch_)
    return sketch.sums.sum(axis=1)


def same(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    assert a.n_rows == b.n_rows and a.groups == b.groups and a.map_id == b.map_id
    scale = np.abs(totals(b)).max()
    np.testing.assert_allclose(totals(a), totals(b), rtol=tolerance, atol=tolerance * scale)
    for mine, other in zip(a.tally.stacked(), b.tally.stacked(), strict=True):
        np.testing.assert_allclose(mine.sum(), other.sum(), rtol=tolerance)


def same_blocks(a: Any, b: Any, tolerance: float = 1e-12) -> None:
    same(a, b, tolerance)
    np.testing.assert_array_equal(a.tally.rows, b.tally.rows)
    np.testing.assert_allclose(a.tally.stacked(), b.tally.stacked(), rtol=tolerance)
    if isinstance(a, BlockSketch):
        np.testing.assert_allclose(a.sums, b.sums, rtol=tolerance, atol=tolerance * np.abs(b.sums).max())
    else:
        table = a.block_products(model("KMM").sketch_)
        np.testing.assert_allclose(table, b.block_products(model("KMM").sketch_), rtol=1e-12, atol=1e-12 * table.max())


# -- the monoid ----------------------------------------------------------------------------------------------------


@every_model
@quick
@given(where=cuts)
def test_sketches_of_the_parts_add_up_to_the_whole(name: str, where: list[int]) -> None:
    same(pp.Sketch.merge(parts(name, where)), model(name).sketch(BATCH))


@quick
@given(where=cuts)
def test_unweighted_fourier_sums_of_the_parts_are_exactly_the_whole(where: list[int]) -> None:
    whole = model("RFFM").sketch(BATCH)
    merged = pp.Sketch.merge(parts("RFFM", where, started=True))
    assert isinstance(merged, BlockSketch)
    assert np.array_equal(merged.sums, whole.sums)
    assert np.array_equal(merged.tally.stacked(), whole.tally.stacked())


@quick
@given(where=cuts)
def test_unweighted_fourier_totals_are_exact_whatever_the_start(where: list[int]) -> None:
    merged = pp.Sketch.merge(parts("RFFM", where))
    assert np.array_equal(totals(merged), totals(model("RFFM").sketch(BATCH)))


@every_model
@quick
@given(where=cuts)
def test_with_the_right_start_the_blocks_are_those_of_the_whole(name: str, where: list[int]) -> None:
    same_blocks(pp.Sketch.merge(parts(name, where, started=True)), model(name).sketch(BATCH))


@every_model
@quick
@given(where=cuts)
def test_weighted_parts_add_up_block_by_block(name: str, where: list[int]) -> None:
    whole = model(name).sketch(BATCH, sample_weight=WEIGHTS)
    same_blocks(pp.Sketch.merge(parts(name, where, weights=WEIGHTS, started=True)), whole)


@every_model
@quick
@given(where=cuts, seed=st.integers(0, 1000))
def test_the_order_of_merging_does_not_matter(name: str, where: list[int], seed: int) -> None:
    pieces = parts(name, where, weights=WEIGHTS, started=True)
    shuffled = [pieces[i] for i in np.random.default_rng(seed).permutation(len(pieces))]
    same_blocks(pp.Sketch.merge(shuffled), pp.Sketch.merge(pieces))


@every_model
@quick
@given(a=st.integers(1, 98), b=st.integers(101, 199))
def test_merging_is_associative_and_commutative(name: str, a: int, b: int) -> None:
    first, second, third = parts(name, [a, b], weights=WEIGHTS, started=True)
    same_blocks((first + second) + third, first + (second + third))
    same_blocks(first + second, second + first)


@every_model
def test_merging_leaves_the_parts_as_they_were(name: str) -> None:
    first, second = parts(name, [80])
    before = first.to_bytes(), totals(first).copy()
    _ = first + second
    assert np.array_equal(totals(first), before[1]) and first.n_rows == 80
    same_blocks(pp.Sketch.from_bytes(before[0]), first, 0)


@every_model
@quick
@given(where=cuts)
def test_an_iterator_of_batches_is_the_one_table(name: str, where: list[int]) -> None:
    edges = [0, *where, len(BATCH)]
    batches = (BATCH[a:b] for a, b in pairwise(edges))
    same_blocks(model(name).sketch(batches), model(name).sketch(BATCH))


@every_model
def test_empty_batches_among_others_add_nothing(name: str) -> None:
    batches = iter([BATCH[:0], BATCH[:50], BATCH[:0], BATCH[50:]])
    same_blocks(model(name).sketch(batches), model(name).sketch(BATCH))


@every_model
def test_a_weight_of_two_is_the_row_twice(name: str) -> None:
    w = np.where(np.arange(len(BATCH)) < 70, 2.0, 1.0)
    twice = model(name).sketch(np.concatenate([BATCH, BATCH[:70]]))
    once = model(name).sketch(BATCH, sample_weight=w)
    np.testing.assert_allclose(totals(once), totals(twice), rtol=1e-7, atol=1e-7 * np.abs(totals(twice)).max())
    assert once.tally.totals[0] == twice.tally.totals[0] == 270 and once.n_rows == 200


@pytest.mark.parametrize("make", [pp.RFFM, pp.KMM])
def test_partial_fit_in_pieces_is_the_fit_of_the_whole(make: Any) -> None:
    settled: dict[str, Any] = {"bandwidth": 1.0, "standardize": False}  # nothing left to learn from the first piece
    whole = make(**settled).fit(X, Y)
    piecewise = make(**settled)
    for a in range(0, 240, 60):
        piecewise.partial_fit(X[a : a + 60], Y[a : a + 60], classes=[0, 1, 2] if a == 0 else None)
    np.testing.assert_array_equal(piecewise.sketch_.tally.stacked(), whole.sketch_.tally.stacked())
    np.testing.assert_allclose(piecewise.gram_, whole.gram_, rtol=1e-12)
    np.testing.assert_allclose(piecewise.predict(BATCH), whole.predict(BATCH), rtol=1e-9)


# -- what a sketch tells -------------------------------------------------------------------------------------------


@every_model
def test_counts_are_the_rows_of_each_class(name: str) -> None:
    reference = model(name).sketch_
    assert reference.tally.counts.tolist() == [80, 80, 80] and reference.n_rows == 240
    assert reference.groups == (0, 1, 2) and reference.n_groups == 3
    batch = model(name).sketch(BATCH)
    assert batch.tally.counts.tolist() == [200] and batch.groups is None


def test_effective_number_of_rows_is_kishs() -> None:
    tally = model("RFFM").sketch(BATCH, sample_weight=WEIGHTS).tally
    np.testing.assert_allclose(tally.effective, [WEIGHTS.sum() ** 2 / np.square(WEIGHTS).sum()], rtol=1e-12)
    np.testing.assert_allclose(model("RFFM").sketch(BATCH).tally.effective, [200], rtol=1e-12)


def test_class_means_are_the_means_of_the_features() -> None:
    fitted = model("RFFM")
    phi = fitted.features_.transform(X)
    means = np.stack([phi[k == Y].mean(axis=0) for k in range(3)], axis=1)
    np.testing.assert_allclose(fitted.sketch_.means(), means, atol=1e-6)


@pytest.mark.parametrize("groups", [1, 2, 16])
def test_up_to_sixteen_classes_have_64_blocks_each(groups: int) -> None:
    assert blocks_for(groups) == 64


@pytest.mark.parametrize(("groups", "blocks"), [(17, 32), (32, 32), (33, 16), (64, 16), (65, 8), (128, 8), (1000, 8)])
def test_more_classes_have_fewer_blocks_but_never_below_8(groups: int, blocks: int) -> None:
    assert blocks_for(groups) == blocks


@pytest.mark.parametrize("n_classes", [2, 20, 70])
def test_blocks_of_a_fitted_model_follow_the_table(n_classes: int) -> None:
    y = np.arange(280) % n_classes
    fitted = pp.RFFM(n_features=10, bandwidth=1.0).fit(RNG.normal(size=(280, 2)), y)
    assert fitted.sketch_.n_blocks == blocks_for(n_classes)
    assert fitted.sketch_.n_groups == n_classes


def test_sketch_of_a_batch_stays_below_a_megabyte() -> None:
    fitted = pp.RFFM(n_features=1000, bandwidth=1.0).fit(X, Y)
    assert len(fitted.sketch(BATCH).to_bytes()) < 1_000_000


def test_size_of_a_sketch_does_not_depend_on_the_rows() -> None:
    fitted = model("RFFM")
    sizes = {len(fitted.sketch(np.tile(BATCH, (k, 1))).to_bytes()) for k in (1, 5, 50)}
    assert max(sizes) - min(sizes) <= 64  # digits of the counts in the header


# -- bytes ---------------------------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_bytes_carry_the_sketch_to_the_last_bit(name: str, weights: F64 | None) -> None:
    fitted = model(name)
    sketch = fitted.sketch(BATCH, sample_weight=weights)
    again = pp.Sketch.from_bytes(sketch.to_bytes())
    assert type(again) is type(sketch) and again.map_id == sketch.map_id
    assert np.array_equal(again.tally.stacked(), sketch.tally.stacked())
    assert np.array_equal(fitted.estimate(again).proportions, fitted.estimate(sketch).proportions)


@every_model
def test_a_reference_survives_the_bytes_with_its_classes(name: str) -> None:
    again = pp.Sketch.from_bytes(model(name).sketch_.to_bytes())
    assert again.groups == (0, 1, 2)
    assert np.array_equal(again.products(again), model(name).sketch_.products(model(name).sketch_))


def test_a_file_carries_the_sketch(tmp_path: Path) -> None:
    sketch = model("RFFM").sketch(BATCH)
    sketch.save(tmp_path / "batch.safetensors")
    same_blocks(pp.Sketch.load(tmp_path / "batch.safetensors"), sketch, 0)


def test_bytes_like_objects_are_read() -> None:
    data = model("RFFM").sketch(BATCH).to_bytes()
    for view in (bytearray(data), memoryview(data)):
        assert pp.Sketch.from_bytes(view).n_rows == 200  # type: ignore[arg-type]


@every_model
def test_estimate_of_a_sketch_is_the_estimate_of_its_rows(name: str) -> None:
    fitted = model(name)
    assert np.array_equal(fitted.estimate(fitted.sketch(BATCH)).proportions, fitted.predict(BATCH))


# -- the blocks as a sample ----------------------------------------------------------------------------------------


def block_covariance(sums: F64, w: F64) -> F64:
    """Σ_k (S_k − W_k m)(S_k − W_k m)ᵀ / (W²(1 − Σ(W_k/W)²)), the covariance of the mean m = Σ S_k/W."""
    total = w.sum()
    centred = sums - w[:, None] * (sums.sum(axis=0) / total)
    return centred.T @ centred / (total**2 * (1 - np.square(w / total).sum()))


def simulated(order: str, weighted: bool) -> tuple[F64, F64]:
    """Traces and leading entries of the block covariance over draws, with the exact covariance of the mean beside them.

    The feature map is the identity on two columns with known moments, so the truth is known without simulation.
    """
    rng = np.random.default_rng(11)
    n, draws = 150, 2000
    fitted = pp.DFM(pp.features.Function(lambda A: A)).fit(X[:, :2], Y)
    root = np.array([[1.0, 0.0], [0.6, 0.8]])
    w = np.where(np.arange(n) % 3 == 0, 3.0, 1.0) if weighted else None
    truth = root.T @ root / n if w is None else root.T @ root * np.square(w).sum() / w.sum() ** 2
    found = np.empty((draws, 2, 2))
    for i in range(draws):
        rows = rng.normal(size=(n, 2)) @ root
        if order == "sorted":
            rows = rows[np.argsort(rows[:, 0])]
        sketch = fitted.sketch(rows, sample_weight=w)
        found[i] = block_covariance(sketch.sums[0], sketch.tally.weight[0])
    return found, truth


@pytest.mark.parametrize(("order", "weighted"), [("drawn", False), ("sorted", False), ("drawn", True)])
def test_scatter_of_the_blocks_is_unbiased_for_the_covariance_of_the_mean(order: str, weighted: bool) -> None:
    found, truth = simulated(order, weighted)
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))  # Monte Carlo: about 0.4 % of the truth on the diagonal
    assert (error < 0.01 * truth.max()).all()
    assert (np.abs(found.mean(axis=0) - truth) < 4 * error).all()


def test_sorting_the_rows_by_class_or_value_leaves_the_blocks_alike() -> None:
    rng = np.random.default_rng(5)
    n = 20_000
    y = rng.random(n) < 0.3
    rows = rng.normal(size=(n, 2)) + 4 * y[:, None]
    fitted = pp.DFM(pp.features.Function(lambda A: A)).fit(X[:, :2], Y)
    for order in (np.arange(n), np.argsort(y, kind="stable"), np.argsort(rows[:, 0])):
        sketch = fitted.sketch(rows[order])
        sizes = sketch.tally.rows[0]
        assert ((sizes - n / 64) ** 2 / (n / 64)).sum() < 120  # chi-square with 63 degrees: beyond 120 once in 50,000
        z = (sketch.sums[0] / sizes[:, None] - rows.mean(axis=0)) / (rows.std(axis=0) / np.sqrt(sizes)[:, None])
        assert 0.6 < np.square(z).mean() < 1.5  # 128 scaled deviations of mean square 1: five standard errors


def test_identical_rows_are_spread_over_the_blocks_by_position() -> None:
    sizes = model("RFFM").sketch(np.ones((6400, 3))).tally.rows[0]
    assert sizes.min() > 50 and sizes.max() < 160


@every_model
def test_sketches_add_up_by_sum_too_and_print_in_a_line(name: str) -> None:
    pieces = parts(name, [30, 70], started=True)
    same_blocks(sum(pieces), pp.Sketch.merge(pieces), 0)
    assert f"{len(BATCH):,} rows, 1 × 64 blocks" in repr(sum(pieces)) and "\n" not in repr(pieces[0])
    with pytest.raises(TypeError):
        1 + pieces[0]
