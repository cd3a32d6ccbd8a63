"""Exact kernel sketches against dense kernel matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import proportio as pp
from oracles import F64, enumerate_active_sets, projected_gradient
from proportio.exact import RowSketch, keep_rows
from proportio.kernels import Custom, Energy, Gaussian, Kernel, Laplace
from proportio.sketch import deal_cells

RNG = np.random.default_rng(0)
Y = np.repeat([0, 1, 2], [40, 90, 170])
X = RNG.normal(size=(300, 3)) + Y[:, None]
Z = RNG.normal(size=(120, 3)) + RNG.integers(0, 3, 120)[:, None]
CENTER, SCALE = np.array([1.0, 0.5, 2.0]), np.array([2.0, 1.0, 0.5])
WEIGHTS = RNG.uniform(0.1, 3, 300)


def polynomial(A: Any, B: Any) -> F64:
    return (1 + np.asarray(A, np.float64) @ np.asarray(B, np.float64).T) ** 2 / 100


KERNELS: list[Kernel] = [Gaussian(1.5), Laplace(1.5), Energy((0.0, 0.0, 0.0)), Custom(polynomial)]


def reference(kernel: Kernel, weights: F64 | None = None) -> RowSketch:
    return keep_rows(kernel, X, CENTER, SCALE, Y.astype(np.int32), [0, 1, 2], weights=weights, map_id="")


def batch(kernel: Kernel) -> RowSketch:
    return keep_rows(kernel, Z, CENTER, SCALE, map_id="")


def scaled(rows: F64) -> F64:
    return (rows - CENTER) / SCALE


def indicator(cells: NDArray[np.int32], n_cells: int) -> F64:
    return np.eye(n_cells)[cells]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_block_products_are_sums_of_the_dense_kernel_matrix(kernel: Kernel, weights: F64 | None) -> None:
    source, target = reference(kernel, weights), batch(kernel)
    shape = source.tally.rows.shape
    member = indicator(deal_cells(X, Y.astype(np.int32), shape, 0, 0), shape[0] * shape[1])
    member *= (np.ones(300) if weights is None else weights)[:, None]
    others = indicator(deal_cells(Z, None, (1, 64), 0, 0), 64)
    own = member.T @ kernel.value(scaled(X), scaled(X)) @ member
    cross = member.T @ kernel.value(scaled(X), scaled(Z)) @ others
    # distances in float32: 1e-6 of the mass of a cell, at most 30 by 30
    assert np.abs(source.block_products(source) - own.reshape(*shape, *shape)).max() < 1e-4
    assert np.abs(source.block_products(target) - cross.reshape(*shape, 1, 64)).max() < 1e-4
    assert own.max() > 1


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["equal", "weighted"])
def test_products_are_weighted_means_of_the_dense_kernel_matrix(kernel: Kernel, weights: F64 | None) -> None:
    source, target = reference(kernel, weights), batch(kernel)
    share = np.eye(3)[Y] * (np.ones(300) if weights is None else weights)[:, None]
    share /= share.sum(axis=0)
    assert np.allclose(source.products(source), share.T @ kernel.value(scaled(X), scaled(X)) @ share, rtol=2e-6)
    assert np.allclose(
        source.products(target)[:, 0], share.T @ kernel.value(scaled(X), scaled(Z)).mean(axis=1), rtol=2e-6
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_the_products_of_a_sketch_with_itself_are_symmetric(kernel: Kernel) -> None:
    G = reference(kernel).products(reference(kernel))
    own = reference(kernel)
    assert np.array_equal(own.products(own), own.products(own).T)
    assert np.allclose(G, own.products(own), rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_similarity_is_the_mean_kernel_value_with_each_class(kernel: Kernel) -> None:
    rows = np.ascontiguousarray(scaled(Z).astype(np.float32))
    share = np.eye(3)[Y] * WEIGHTS[:, None]
    share /= share.sum(axis=0)
    expected = kernel.value(scaled(Z), scaled(X)) @ share
    assert np.allclose(reference(kernel, WEIGHTS).similarity(rows), expected, rtol=5e-6, atol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_the_tally_holds_the_squared_norms(kernel: Kernel) -> None:
    tally = reference(kernel, WEIGHTS).tally
    diagonal = np.diag(kernel.value(scaled(X), scaled(X)))
    expected = np.bincount(Y, weights=WEIGHTS**2 * diagonal)
    assert np.allclose(tally.norm2.sum(axis=1), expected, rtol=2e-6)
    assert tally.counts.tolist() == [40, 90, 170]
    assert np.allclose(tally.totals, np.bincount(Y, weights=WEIGHTS))


def test_rows_beyond_one_block_of_work_are_counted_once() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 5000).astype(np.int32)
    rows = rng.normal(size=(5000, 1)) + y[:, None]
    sketch = keep_rows(Gaussian(1.0), rows, np.zeros(1), np.ones(1), y, [0, 1], map_id="")
    share = np.eye(2)[y] / np.bincount(y)
    assert np.allclose(sketch.products(sketch), share.T @ Gaussian(1.0).value(rows, rows) @ share, rtol=2e-6)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "energy", polynomial])
@pytest.mark.parametrize("soft", [False, True])
def test_kmm_is_the_dense_quadratic_programme(kernel: Any, soft: bool) -> None:
    model = pp.KMM(kernel=kernel, bandwidth=1.3, soft=soft).fit(X, Y)
    center, scale = X.mean(axis=0), X.std(axis=0)
    A, B = (X - center) / scale, (Z - center) / scale
    value = polynomial
    if isinstance(kernel, str):
        value = {"gaussian": Gaussian(1.3), "laplace": Laplace(1.3), "energy": Energy((0.0, 0.0, 0.0))}[kernel].value  # type: ignore[assignment]
    share = np.eye(3)[Y] / np.bincount(Y)
    G, q = share.T @ value(A, A) @ share, share.T @ value(A, B).mean(axis=1)
    found = model.predict(Z)
    assert np.abs(found - enumerate_active_sets(G, q, soft)).max() < 1e-4  # float32 distances over Δ_min
    if not soft:
        assert np.abs(found - projected_gradient(G, q)).max() < 1e-4
    assert np.allclose(model.gram_, G, rtol=2e-6)
