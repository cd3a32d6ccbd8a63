"""The default, `AutoDFM`, and its map of decisions that count only where a row is typical of its class."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import proportio as pp
from proportio.features import Stack, Typical
from proportio.features import typical as module
from proportio.features.typical import Shapes
from proportio.sketch import BlockSketch

HIPC = Path(__file__).resolve().parents[2] / "shared" / "hipc"
CENTRES = np.array([[0.0, 0], [4, 0], [0, 4]])


def rows(counts: list[int], seed: int, centres: np.ndarray = CENTRES) -> tuple[np.ndarray, np.ndarray]:
    y = np.repeat(np.arange(len(counts)), counts)
    return centres[y] + np.random.default_rng(seed).standard_normal((len(y), centres.shape[1])), y


# -- the map -------------------------------------------------------------------------------------------------------


def test_shapes_are_means_and_shrunk_covariances() -> None:
    X, y = rows([60, 80, 40], 0)
    shapes = Shapes.of(X, y, np.ones(len(y)), 3)
    pooled = sum(np.cov(X[y == i].T, bias=True) * (y == i).sum() for i in range(3)) / len(y)
    for i, n in enumerate((60, 80, 40)):
        S = (1 - 2 / n) * np.cov(X[y == i].T, bias=True) + 2 / n * pooled + 1e-3 * np.diag(X.var(axis=0))
        gap = X[:5] - X[y == i].mean(axis=0)
        expected = np.einsum("nj,jk,nk->n", gap, np.linalg.inv(S), gap)
        np.testing.assert_allclose(shapes.distances(X[:5], np.full(5, i)), expected, rtol=1e-10)


def test_weights_count_a_row_several_times() -> None:
    X, y = rows([30, 30, 30], 1)
    w = np.tile([1.0, 2.0, 3.0], 30)
    again = np.repeat(np.arange(90), w.astype(int))
    weighted, repeated = Shapes.of(X, y, w, 3), Shapes.of(X[again], y[again], np.ones(len(again)), 3)
    np.testing.assert_allclose(weighted.means, repeated.means, atol=1e-12)
    quantiles = module._upper_quantiles(X[:30, 0], w[:30], np.array([0.1, 0.5]))
    np.testing.assert_array_equal(
        quantiles, module._upper_quantiles(X[:30, 0].repeat(w[:30].astype(int)), np.ones(60), np.array([0.1, 0.5]))
    )


def test_a_share_rho_of_each_class_is_rejected_in_the_reference_and_in_a_batch() -> None:
    """Thresholds are quantiles of 2,000 rows a class: the share above is exact to a row; a batch's has an error of √(ρ/2000)."""
    X, y = rows([2000] * 3, 2, 3 * CENTRES)  # so far apart that every row is judged by its own class
    Z, _ = rows([4000] * 3, 3, 3 * CENTRES)
    phi = Typical().fit(X, y)
    batch = phi._raw(Z, None)
    for level, rho in enumerate(phi.rejects, 1):
        kept = np.zeros(3)
        for k in range(5):
            mine = phi.folds_ == k
            raw = phi.member(k)._raw(X[mine], None)[:, phi.columns_at(level)]
            kept += np.bincount(y[mine], raw.sum(axis=1), minlength=3)
        np.testing.assert_allclose(kept / 2000, 1 - rho, atol=1.5 / 2000)
        shares = batch[:, phi.columns_at(level)].reshape(3, 4000, 3).sum(axis=2).mean(axis=1)
        np.testing.assert_allclose(shares, 1 - rho, atol=5 * np.sqrt(rho / 2000))


def test_each_level_keeps_fewer_rows() -> None:
    X, y = rows([200] * 3, 4)
    phi = Typical().fit(X, y)
    raw = phi._raw(X, None)
    for level in range(len(phi.rejects)):
        assert (raw[:, phi.columns_at(level + 1)] <= raw[:, phi.columns_at(level)]).all()
    np.testing.assert_allclose(phi.cells(raw).sum(axis=1), 1)
    far = phi._raw(np.full((1, 2), 50.0), None)
    assert far.sum() == 1 and not phi.transform(np.full((1, 2), 50.0)).any()


def test_members_learn_from_a_sample_of_many_rows_with_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRAIN_AT_MOST", 300)
    monkeypatch.setattr(module, "SHAPE_ROWS", 20)
    X, y = rows([2000, 30, 1000], 5)
    kept = module._at_most(np.arange(len(y)), y, np.random.default_rng(0))
    assert np.bincount(y[kept]).tolist() == [198, 20, 99]
    assert pp.AutoDFM(n_features=40).fit(X, y).predict(X).shape == (3,)


def test_of_many_columns_shapes_are_made_of_the_leading_components() -> None:
    rng = np.random.default_rng(22)
    turn = np.linalg.qr(rng.normal(size=(130, 130)))[0]
    X, y = rows([300] * 3, 23)
    wide = np.hstack([3 * X, 0.1 * rng.normal(size=(900, 128))]) @ turn
    model = pp.AutoDFM(n_features=60, cv=2).fit(wide, y)
    Z, true = contaminated(24, 0.2)
    batch = np.hstack([3 * Z, 0.1 * rng.normal(size=(len(Z), 128))]) @ turn
    est = model.estimate(batch)
    assert model._parts()[0].shapes_[0].means.shape[1] < 20
    assert np.linalg.norm(est.proportions - true) < 0.05 and abs(est.unknown - 0.2) < 0.05
    from proportio.models import from_bytes

    np.testing.assert_array_equal(from_bytes(model.to_bytes()).predict(batch), model.predict(batch))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rejects": (0.1, 0.05)}, "rejects=.*ascending"),
        ({"rejects": ()}, "rejects="),
        ({"rejects": (0.0,)}, "between 0 and 1"),
        ({"cv": "prefit"}, "give a number of folds"),
        ({"cv": 1}, "cv=1"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], text: str) -> None:
    X, y = rows([20] * 3, 6)
    with pytest.raises(pp.InputError, match=text):
        Typical(**options).fit(X, y)


def test_a_class_of_one_row_is_named() -> None:
    X, y = rows([20, 1, 20], 7)
    with pytest.raises(pp.InputError, match=r"class 1 has 1 row.*Add rows"):
        pp.quantify(X, y, X)


# -- the quantifier ------------------------------------------------------------------------------------------------


def contaminated(seed: int, share: float, m: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """A batch with shares .2 .3 .5 of which `share` is from elsewhere, off to one side of the first class."""
    k = round(m * share)
    true = np.array([0.2, 0.3, 0.5]) * (m - k)
    Z, _ = rows(true.astype(int).tolist(), seed)
    return np.concatenate([Z, np.random.default_rng(seed + 99).normal(-4, 1, (k, 2))]), true / m


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3])
def test_it_is_accurate_with_and_without_an_unknown_class(share: float) -> None:
    X, y = rows([1000] * 3, 8)
    batch, true = contaminated(9, share)
    est = pp.quantify(X, y, batch)
    assert np.linalg.norm(est.proportions - true) < 0.025
    assert abs(est.unknown - share) < 0.03
    assert est.diagnostics.kkt <= 1e-10


def test_more_is_rejected_where_more_is_unknown() -> None:
    X, y = rows([1000] * 3, 10)
    model = pp.AutoDFM(n_features=100).fit(X, y)
    clean, dirty = (model._aligned(model.sketch(contaminated(11, share)[0]))[0] for share in (0.0, 0.3))
    levels = [int(np.flatnonzero(cast("BlockSketch", s).amplitude[:15])[0] // 3) for s in (clean, dirty)]
    assert levels == [1, 4]


def test_another_level_of_the_same_sums_is_the_sketch_that_was_made_for_it() -> None:
    """Rejecting at the level of the second entry equals a model whose only entry that is: means, norms, Gram matrix."""
    X, y = rows([300] * 3, 12)
    both = pp.AutoDFM(n_features=60, rejects=(0.02, 0.1)).fit(X, y)
    alone = pp.AutoDFM(n_features=60, rejects=(0.1,)).fit(X, y)
    mine, theirs = both._at(both.sketch_, 2), alone.sketch_
    np.testing.assert_allclose(mine.products(mine), theirs.products(theirs), atol=1e-12)
    np.testing.assert_allclose(mine.tally.norm2, theirs.tally.norm2, atol=1e-9)
    np.testing.assert_allclose(mine.block_norms(), cast("BlockSketch", theirs).block_norms(), atol=1e-9)


def test_scores_single_out_the_rows_that_no_class_explains() -> None:
    X, y = rows([1000] * 3, 20)
    batch, _ = contaminated(21, 0.2)
    unknown = np.arange(len(batch)) >= len(batch) - 600
    score = pp.AutoDFM(n_features=100).fit(X, y).score_unknown(batch)
    assert score[unknown].mean() > 0.8 and score[~unknown].mean() < 0.05
    assert abs(score.mean() - 0.2) < 0.03  # Σ over cells of Q(A) − Σ α̂_i P_i(A), where that is positive


def test_parts_merge_travel_and_load() -> None:
    X, y = rows([300] * 3, 13)
    batch, _ = contaminated(14, 0.2)
    model = pp.AutoDFM(n_features=60).fit(X, y)
    whole = model.sketch(batch)
    parts = model.sketch(batch[:1000]) + model.sketch(batch[1000:], start=1000)
    np.testing.assert_allclose(model.predict(parts), model.predict(whole), atol=1e-9)
    from proportio.models import from_bytes

    again = from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.predict(batch), model.predict(batch))


def test_any_classifier_serves_and_is_supplied_to_a_file() -> None:
    X, y = rows([200] * 3, 15)
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    model = pp.AutoDFM(tree, n_features=40, cv=3).fit(X, y)
    from proportio.models import from_bytes

    with pytest.raises(pp.FileError, match="needs its classifier"):
        from_bytes(model.to_bytes())
    members = cast("Stack", model.features_).maps_[0].members_  # type: ignore[attr-defined]
    again = from_bytes(model.to_bytes(), supply=[members])
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert isinstance(pp.AutoDFM(LogisticRegression()).fit(X, y).estimate(X), pp.Estimate)


def test_its_intervals_cover_after_the_level_is_chosen() -> None:
    """40 clean worlds of 3 classes: 0.95 of the shares, with a Monte Carlo error of about 0.025."""
    covered, rejected = [], []
    alpha = np.array([0.2, 0.3, 0.5])
    for seed in range(40):
        X, y = rows([200] * 3, 1000 + seed, CENTRES * 0.7)
        rng = np.random.default_rng(seed)
        z = rng.choice(3, 1000, p=alpha)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            est = pp.AutoDFM(n_features=100, cv=3).fit(X, y).estimate(CENTRES[z] * 0.7 + rng.standard_normal((1000, 2)))
            low, high = est.interval().T
        covered.append((low <= alpha) & (alpha <= high))
        rejected.append(est.label_shift_test().pvalue < 0.05)
    assert 0.89 <= np.mean(covered) <= 0.995
    assert np.mean(rejected) <= 0.17


def test_a_stream_trains_on_its_first_batch_and_adds_up_the_others() -> None:
    X, y = rows([400] * 3, 17)
    order = np.random.default_rng(18).permutation(len(y))
    batch, true = contaminated(19, 0.2)
    model = pp.AutoDFM(n_features=100)
    for part in np.array_split(order, 3):
        model.partial_fit(X[part], y[part], classes=[0, 1, 2])
    assert model.sketch_.n_rows == len(y)
    assert np.linalg.norm(model.predict(batch) - true) < 0.03


def test_the_hard_form_sums_to_one() -> None:
    X, y = rows([200] * 3, 16)
    est = pp.AutoDFM(n_features=40, soft=False).fit(X, y).estimate(X[100:])
    assert est.proportions.sum() == pytest.approx(1) and est.unknown == 0


@pytest.mark.filterwarnings(
    "ignore::proportio.errors.ProportioWarning"
)  # the scarcest populations have a few dozen cells
@pytest.mark.skipif(not HIPC.is_dir(), reason=f"the HIPC cells are not at {HIPC}")
def test_on_cells_of_another_patient_with_and_without_a_missing_population() -> None:
    """l2 error over the six pairs: clean, and with a fifth of the cells (CD4 Naive) unknown to the reference."""
    errors: dict[bool, list[float]] = {False: [], True: []}
    patients = {p: (t.X[::6], t.y[::6]) for p, t in pp.datasets.load_hipc(HIPC).items()}
    for (a, (X, y)), (missing, found) in itertools.product(patients.items(), errors.items()):
        keep = y != "CD4 Naive" if missing else np.ones(len(y), dtype=bool)
        model = pp.AutoDFM(cv=3).fit(X[keep], y[keep])
        for b, (Z, z) in patients.items():
            if a != b:
                true = np.array([(z == k).mean() for k in model.classes_])
                found.append(float(np.linalg.norm(model.predict(Z) - true)))
    assert np.mean(errors[False]) <= 0.04 and np.mean(errors[True]) <= 0.08
