"""The estimators and feature maps as scikit-learn's users meet them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import proportio as pp
from proportio.features import Chain, Histogram, OneHot, Posterior, RandomFourier, Stack, Typical

RNG = np.random.default_rng(6)
Y = np.repeat(["a", "b", "c"], 50)
X = RNG.normal(size=(150, 3)) + 2.0 * np.repeat([0, 1, 2], 50)[:, None] * np.array([1, -1, 0.5])
BATCH = np.concatenate([X[:20], X[-60:]])
NAMES = ["CD3", "CD4", "CD8"]

ESTIMATORS: dict[str, Any] = {
    "RFFM": pp.RFFM(n_features=60, bandwidth=1.0),
    "RFFM auto": pp.RFFM(n_features=60, soft=True),
    "KMM": pp.KMM("laplace", bandwidth=1.0),
    "BBSE": pp.BBSE(cv=3),
    "DFM": pp.DFM(Histogram(bins=6)),
    "AutoDFM": pp.AutoDFM(n_features=60, cv=3),
}
MAPS: dict[str, Any] = {
    "RandomFourier": RandomFourier(60),
    "Histogram": Histogram(bins=6),
    "Posterior": Posterior(cv=3),
    "OneHot": OneHot(cv=3),
    "Typical": Typical(cv=3),
    "Stack": Stack([Histogram(bins=4), RandomFourier(20)]),
    "Chain": Chain(Posterior(cv=3), RandomFourier(20)),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)
every_map = pytest.mark.parametrize("name", MAPS)

# -- scikit-learn's own checks -------------------------------------------------------------------------------------

SHARES = "predict gives one share a class for the whole batch, not one value a row"
OBJECTS = "columns of dtype object are refused on purpose: guessing would hide a text column"
CLASSES = "the first partial_fit needs classes, which the check gives to classifiers only"
STREAM = "a classifier cannot be cross-fitted on a stream, so partial_fit is refused"
FOLDS = "the check hands over cv as a list of splits, which is not among the documented values"
GRAM = "gram_ is computed when first asked for and kept under a private name"
MEDIAN = "bandwidths 'auto' and 'median' look at the rows, not at their weights"
ONE_ROW = "one row is refused in words that the check does not list"

OF_QUANTIFIERS = {
    "check_methods_sample_order_invariance": SHARES,
    "check_methods_subset_invariance": SHARES,
    "check_dtype_object": OBJECTS,
    "check_n_features_in_after_fitting": CLASSES,
    "check_dict_unchanged": GRAM,
}


def inapplicable(estimator: Any) -> dict[str, str]:
    """The checks that cannot pass, each with its reason."""
    weights = "check_sample_weight_equivalence_on_dense_data"
    if isinstance(estimator, pp.BBSE):
        return {
            **OF_QUANTIFIERS,
            weights: FOLDS,
            "check_n_features_in_after_fitting": STREAM,
            "check_fit_score_takes_y": STREAM,
        }
    if isinstance(estimator, (pp.RFFM, pp.KMM)):
        chooses = estimator.bandwidth == "auto" and getattr(estimator, "kernel", None) != "energy"
        return {**OF_QUANTIFIERS, **({weights: MEDIAN} if chooses else {})}
    if isinstance(estimator, pp.DFM):
        return {**OF_QUANTIFIERS, **({weights: FOLDS} if isinstance(estimator, pp.AutoDFM) else {})}
    if isinstance(estimator, Posterior):
        return {"check_dtype_object": OBJECTS, weights: FOLDS, "check_fit2d_1sample": ONE_ROW}
    if isinstance(estimator, Histogram):
        return {"check_dtype_object": OBJECTS}
    return {"check_dtype_object": OBJECTS, **({weights: MEDIAN} if estimator.bandwidth == "median" else {})}


@pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # the checks fit on pure noise
@parametrize_with_checks(
    [
        pp.RFFM(n_features=40),
        pp.RFFM(n_features=40, bandwidth=1.0),
        pp.KMM(),
        pp.KMM("energy"),
        pp.KMM(bandwidth=1.0),
        pp.BBSE(cv=2),
        pp.AutoDFM(n_features=40, cv=2),
        pp.DFM(Histogram()),
        RandomFourier(n_features=40),
        RandomFourier(n_features=40, bandwidth=1.0),
        Histogram(),
        Histogram(strategy="uniform"),
        Posterior(cv=2),
        OneHot(cv=2),
        Typical(cv=2),
    ],
    expected_failed_checks=inapplicable,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


# -- parameters ----------------------------------------------------------------------------------------------------


@every_estimator
def test_a_clone_fits_to_the_same_shares(name: str) -> None:
    fitted = ESTIMATORS[name].fit(X, Y)
    copied = clone(fitted)
    assert not hasattr(copied, "classes_") and repr(copied.get_params()) == repr(fitted.get_params())
    assert np.array_equal(copied.fit(X, Y).predict(BATCH), fitted.predict(BATCH))


@pytest.mark.parametrize("model", [*ESTIMATORS.values(), *MAPS.values()], ids=[*ESTIMATORS, *MAPS])
def test_fitting_leaves_the_parameters_alone(model: Any) -> None:
    before = repr(model.get_params())
    clone(model).fit(X, Y)
    fitted = clone(model).fit(X, Y)
    assert repr(fitted.get_params()) == before


def test_parameters_are_set_by_name_and_take_effect_at_the_next_fit() -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0).fit(X, Y)
    model.set_params(n_features=20, soft=True).fit(X, Y)
    est = model.estimate(BATCH)
    assert est.soft and est.diagnostics.n_features == 20


def test_parameters_of_the_feature_map_are_reached_through_dfm() -> None:
    model = pp.DFM(Histogram(bins=6)).set_params(features__bins=3).fit(X, Y)
    assert model.estimate(BATCH).diagnostics.n_features == 9


def test_parameters_of_the_classifier_are_reached_through_bbse() -> None:
    model = pp.BBSE(DecisionTreeClassifier(random_state=0), cv=2).set_params(classifier__max_depth=1).fit(X, Y)
    assert {member.get_depth() for member in model.features_.members_} == {1}


def test_unknown_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="Invalid parameter 'sigma'"):
        pp.RFFM().set_params(sigma=1.0)


def test_the_map_given_to_dfm_is_not_fitted_in_place() -> None:
    phi = Histogram(bins=6)
    pp.DFM(phi).fit(X, Y)
    assert not hasattr(phi, "amplitude_")


def test_a_grid_of_parameters_can_be_walked() -> None:
    for params in ParameterGrid({"bandwidth": [0.5, "median"], "soft": [True, False]}):
        shares = clone(ESTIMATORS["RFFM"]).set_params(**params).fit(X, Y).predict(BATCH)
        assert shares.shape == (3,) and shares.sum() <= 1 + 1e-9


@every_estimator
def test_a_second_fit_forgets_the_first(name: str) -> None:
    model = clone(ESTIMATORS[name]).fit(X[:, :2], np.repeat([0, 1], 75))
    assert np.array_equal(model.fit(X, Y).predict(BATCH), clone(model).fit(X, Y).predict(BATCH))
    assert model.n_features_in_ == 3 and model.classes_.tolist() == ["a", "b", "c"]


@every_estimator
def test_fit_returns_the_estimator(name: str) -> None:
    model = clone(ESTIMATORS[name])
    assert model.fit(X, Y) is model


@every_estimator
def test_pickling_keeps_the_shares(name: str) -> None:
    import pickle

    fitted = ESTIMATORS[name].fit(X, Y)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(BATCH), fitted.predict(BATCH))


# -- pipelines -----------------------------------------------------------------------------------------------------


@every_estimator
def test_a_quantifier_ends_a_pipeline(name: str) -> None:
    pipeline = make_pipeline(StandardScaler(), clone(ESTIMATORS[name])).fit(X, Y)
    by_hand = clone(ESTIMATORS[name]).fit(StandardScaler().fit_transform(X), Y)
    scaled = StandardScaler().fit(X).transform(BATCH)
    assert np.array_equal(pipeline.predict(BATCH), by_hand.predict(scaled))


def test_standardising_first_changes_nothing_for_a_map_that_standardises() -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0)
    scaled = make_pipeline(StandardScaler(), clone(model)).fit(X, Y).predict(BATCH)
    np.testing.assert_allclose(scaled, model.fit(X, Y).predict(BATCH), atol=1e-5)


@every_map
def test_a_feature_map_is_a_transformer(name: str) -> None:
    phi = clone(MAPS[name]).fit(X, Y)
    out = phi.transform(BATCH)
    assert out.shape == (len(BATCH), phi.dim) and out.dtype == np.float64
    assert np.array_equal(clone(MAPS[name]).fit(X, Y).transform(BATCH), out)
    assert np.linalg.norm(out, axis=1).max() <= phi.bound_ * (1 + 1e-6)


# -- kinds of input ------------------------------------------------------------------------------------------------


def tables(rows: Any) -> dict[str, Any]:
    columns = dict(zip(NAMES, np.ascontiguousarray(rows.T), strict=True))
    return {
        "pandas": pd.DataFrame(rows, columns=NAMES),
        "pandas nullable": pd.DataFrame(rows, columns=NAMES).astype("Float64"),
        "pandas pyarrow": pd.DataFrame(rows, columns=NAMES).astype("double[pyarrow]"),
        "polars": pl.DataFrame(columns),
        "pyarrow": pa.table(columns),
    }


@pytest.mark.parametrize("kind", tables(X))
@every_estimator
def test_frames_of_every_library_give_the_shares_of_the_array(name: str, kind: str) -> None:
    plain = clone(ESTIMATORS[name]).fit(X, Y).predict(BATCH)
    model = clone(ESTIMATORS[name]).fit(tables(X)[kind], Y)
    assert model.feature_names_in_.tolist() == NAMES and model.n_features_in_ == 3
    assert np.array_equal(model.predict(tables(BATCH)[kind]), plain)
    assert np.array_equal(model.predict(BATCH), plain)
    assert np.array_equal(model.predict(tables(BATCH)["polars"]), plain)


def test_an_array_has_no_feature_names() -> None:
    assert not hasattr(pp.RFFM(n_features=60, bandwidth=1.0).fit(X, Y), "feature_names_in_")


def test_feature_names_are_forgotten_by_the_next_fit() -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0).fit(tables(X)["pandas"], Y)
    assert not hasattr(model.fit(X, Y), "feature_names_in_")


@pytest.mark.parametrize(
    "labels",
    [
        Y.tolist(),
        tuple(Y),
        pd.Series(Y),
        pl.Series(Y),
        pa.array(Y.tolist()),
        pd.Categorical(Y),
        Y.astype(object),
        Y[:, None],
    ],
    ids=["list", "tuple", "pandas", "polars", "pyarrow", "categorical", "object", "column"],
)
def test_labels_of_every_kind_give_the_same_classes(labels: Any) -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0)
    plain = clone(model).fit(X, Y)
    model.fit(X, labels)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert np.array_equal(model.predict(BATCH), plain.predict(BATCH))


@pytest.mark.parametrize(
    "rows",
    [
        BATCH.tolist(),
        np.asfortranarray(BATCH),
        BATCH[::1],
        BATCH.astype(">f8"),
        np.ascontiguousarray(BATCH[::-1])[::-1],
    ],
    ids=["list", "Fortran", "view", "big-endian", "reversed"],
)
@every_estimator
def test_the_layout_of_the_memory_does_not_matter(name: str, rows: Any) -> None:
    model = ESTIMATORS[name].fit(X, Y)
    assert np.array_equal(model.predict(rows), model.predict(BATCH))


def test_integers_are_taken_as_numbers() -> None:
    counts = np.rint(4 * X).astype(np.int16)
    model = pp.RFFM(n_features=60, bandwidth=1.0).fit(counts, Y)
    assert np.array_equal(model.predict(counts[:50]), model.predict(counts[:50].astype(float)))


@every_estimator
def test_float32_and_float64_agree(name: str) -> None:
    rounded = X.astype(np.float32), BATCH.astype(np.float32)
    single = clone(ESTIMATORS[name]).fit(rounded[0], Y).predict(rounded[1])
    double = clone(ESTIMATORS[name]).fit(rounded[0].astype(float), Y).predict(rounded[1].astype(float))
    np.testing.assert_allclose(single, double, atol=1e-5)


def test_a_table_far_from_the_origin_loses_no_digits() -> None:
    model = pp.RFFM(n_features=60, bandwidth=1.0)
    near = clone(model).fit(X, Y).predict(BATCH)
    np.testing.assert_allclose(clone(model).fit(X + 1e6, Y).predict(BATCH + 1e6), near, atol=1e-5)


@every_estimator
def test_the_input_is_left_as_it_was(name: str) -> None:
    rows, labels, batch = X.copy(), Y.copy(), BATCH.copy()
    for a in (rows, labels, batch):
        a.flags.writeable = False
    clone(ESTIMATORS[name]).fit(rows, labels).predict(batch)
    assert np.array_equal(rows, X) and np.array_equal(batch, BATCH)
