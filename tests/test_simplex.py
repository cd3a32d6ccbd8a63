"""The optimiser against enumeration, and its certificate on ten thousand problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import F64, enumerate_active_sets, equality_solution, gap, infeasibility, objective
from proportio.gram import GramSystem
from proportio.simplex import kkt_residual, project, solve

SHAPES = ("regular", "duplicate", "one-row", "zero", "dependent", "outside", "vertex")


def problem(rng: np.random.Generator, c: int, shape: str) -> GramSystem:
    """Class means and a target in general or awkward position; the largest diagonal entry of G is 1."""
    D = int(rng.integers(max(c // 2, 1), 2 * c + 3)) if shape == "dependent" else 2 * c + 3
    B = rng.normal(size=(D, c)) / np.sqrt(D)
    B += rng.uniform(0, 3) * rng.normal(size=(D, 1)) / np.sqrt(D)  # classes that share most of their embedding
    if shape == "one-row":
        B = np.linalg.qr(rng.normal(size=(D, c)))[0] + 1e-3 * rng.normal(size=(D, c))
    alpha = rng.dirichlet(np.full(c, rng.choice([0.1, 1.0])))
    if shape == "vertex":
        alpha = np.eye(c)[rng.integers(c)]
    if shape == "duplicate":
        B[:, rng.integers(1, c)] = B[:, 0]
    if shape == "zero":
        B[:, rng.integers(c)] = 0
    if shape == "dependent" and c > 2:
        B[:, -1] = B[:, :-1] @ rng.dirichlet(np.ones(c - 1))
    noise = {"vertex": 0.0, "outside": 3.0}.get(shape, 0.1)
    psi = B @ alpha + noise * rng.normal(size=D) / np.sqrt(D)
    scale = np.square(B).sum(axis=0).max() ** 0.5
    B, psi = B / scale, psi / scale
    return GramSystem(B.T @ B, B.T @ psi, float(psi @ psi))


def size(rng: np.random.Generator, k: int) -> int:
    if k % 500 == 0:
        return 200
    if k % 100 == 0:
        return 100
    if k % 50 == 0:
        return 50
    return int(rng.integers(2, 15))


@pytest.mark.parametrize("seed", range(4))
def test_the_certificate_holds_on_2500_random_problems(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for k in range(2500):
        shape, soft = SHAPES[k % len(SHAPES)], bool(rng.integers(2))
        system = problem(rng, size(rng, k), shape)
        found = solve(system, soft=soft)
        assert found.kkt <= 1e-10, (seed, k, shape)
        assert infeasibility(found.alpha, soft) <= 1e-12, (seed, k, shape)
        assert gap(system.G, system.q, found.alpha, soft) <= 1e-9, (seed, k, shape)  # a sum over up to 200 classes


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_optimum_is_that_of_the_best_active_set(shape: str, soft: bool) -> None:
    rng = np.random.default_rng([SHAPES.index(shape), soft])
    for c in (2, 2, 3, 3, 4, 4, 5, 5, 6, 6):
        system = problem(rng, c, shape)
        found, best = solve(system, soft=soft), enumerate_active_sets(system.G, system.q, soft)
        assert abs(objective(system.G, system.q, found.alpha) - objective(system.G, system.q, best)) < 1e-11
        if not found.dependent:
            assert np.abs(found.alpha - best).max() < 1e-8


@pytest.mark.parametrize("shape", ["regular", "one-row", "outside", "vertex"])
def test_soft_is_hard_with_a_class_that_embeds_to_zero(shape: str) -> None:
    rng = np.random.default_rng(7)
    for c in (2, 3, 5, 9, 20):
        system = problem(rng, c, shape)
        wider = GramSystem(np.pad(system.G, (0, 1)), np.append(system.q, 0.0), system.s)
        soft, hard = solve(system, soft=True).alpha, solve(wider).alpha
        assert np.abs(soft - hard[:-1]).max() < 1e-9
        assert 1 - soft.sum() == pytest.approx(hard[-1], abs=1e-9)


@pytest.mark.parametrize("c", [2, 3, 6, 20])
def test_without_positivity_it_is_the_dense_formula(c: int) -> None:
    rng = np.random.default_rng(c)
    system = problem(rng, c, "outside")
    hard, soft = solve(system, positive=False), solve(system, soft=True, positive=False)
    assert np.abs(hard.alpha - equality_solution(system.G, system.q)).max() < 1e-9
    assert np.abs(soft.alpha - np.linalg.solve(system.G, system.q)).max() < 1e-9
    assert hard.kkt < 1e-10 and soft.kkt < 1e-10


def test_shares_within_the_hull_are_recovered_exactly() -> None:
    rng = np.random.default_rng(8)
    B, alpha = rng.normal(size=(10, 6)), rng.dirichlet(np.ones(6))
    system = GramSystem(B.T @ B, B.T @ B @ alpha, 0.0)
    for soft in (False, True):
        assert np.abs(solve(system, soft=soft).alpha - alpha).max() < 1e-11


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_the_scale_of_the_features_does_not_matter(scale: float) -> None:
    system = problem(np.random.default_rng(9), 6, "outside")
    scaled = GramSystem(system.G * scale, system.q * scale, system.s * scale)
    for soft in (False, True):
        assert np.abs(solve(scaled, soft=soft).alpha - solve(system, soft=soft).alpha).max() < 1e-10


@pytest.mark.parametrize("soft", [False, True])
def test_two_equal_classes_are_named_and_share_equally(soft: bool) -> None:
    rng = np.random.default_rng(10)
    B = rng.normal(size=(12, 5))
    B[:, 3] = B[:, 1]
    psi = B @ np.array([0.2, 0.3, 0.1, 0.3, 0.1])
    found = solve(GramSystem(B.T @ B, B.T @ psi, float(psi @ psi)), soft=soft)
    assert found.dependent == (1, 3)
    assert np.abs(found.alpha - [0.2, 0.3, 0.1, 0.3, 0.1]).max() < 1e-7


@pytest.mark.parametrize("soft", [False, True])
def test_a_mixture_of_two_classes_is_named_with_them(soft: bool) -> None:
    B = np.random.default_rng(11).normal(size=(12, 5))
    B[:, 4] = (B[:, 0] + B[:, 2]) / 2
    psi = B.mean(axis=1)
    assert solve(GramSystem(B.T @ B, B.T @ psi, float(psi @ psi)), soft=soft).dependent == (0, 2, 4)


def test_a_zero_class_is_dependent_in_the_soft_form_only() -> None:
    B = np.random.default_rng(12).normal(size=(8, 4))
    B[:, 2] = 0
    psi = B.mean(axis=1)
    system = GramSystem(B.T @ B, B.T @ psi, float(psi @ psi))
    assert solve(system).dependent == ()
    assert solve(system, soft=True).dependent == (2,)


def test_classes_that_all_embed_to_zero_identify_nothing() -> None:
    system = GramSystem(np.zeros((3, 3)), np.zeros(3), 1.0)
    assert solve(system).alpha.tolist() == [1 / 3] * 3
    assert solve(system, soft=True).alpha.tolist() == [0, 0, 0]
    assert solve(system).dependent == (0, 1, 2)


def test_the_certificate_is_positive_away_from_the_minimiser() -> None:
    G, q = np.eye(3), np.array([0.5, 0.3, 0.2])
    assert kkt_residual(G, q, q, soft=False) < 1e-16
    assert kkt_residual(G, q, np.array([0.4, 0.4, 0.2]), soft=False) == pytest.approx(0.1)


vectors = st.lists(st.floats(-50, 50), min_size=1, max_size=12).map(lambda v: np.array(v, dtype=np.float64))


@settings(max_examples=200, deadline=None)
@given(vectors, st.booleans(), st.integers(0, 2**32 - 1))
def test_projection_is_feasible_idempotent_and_nearest(v: F64, soft: bool, seed: int) -> None:
    p = project(v, soft=soft)
    assert infeasibility(p, soft) < 1e-12
    assert np.abs(project(p, soft=soft) - p).max() < 1e-12
    rng = np.random.default_rng(seed)
    others = rng.dirichlet(np.full(len(v), 0.3), size=20) * (rng.uniform(0, 1, (20, 1)) if soft else 1)
    # p is the projection exactly if no feasible point lies beyond it, seen from v
    assert ((others - p) @ (v - p)).max() < 1e-10
    corners = np.vstack([np.eye(len(v)), np.zeros(len(v))] if soft else [np.eye(len(v))])
    assert ((corners - p) @ (v - p)).max() < 1e-10
