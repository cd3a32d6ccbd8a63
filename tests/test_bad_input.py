"""Bad input: each kind is refused by a `ProportioError` that names what came, where, and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from safetensors.numpy import save_file
from sklearn.exceptions import NotFittedError

import proportio as pp
from proportio import storage
from proportio.features import Function, Histogram, OneHot, Posterior, RandomFourier, Stack

RNG = np.random.default_rng(0)
Y = np.repeat(["a", "b"], 30)
X = RNG.normal(size=(60, 3)) + 3.0 * (Y == "b")[:, None]
NAMES = ["CD3", "CD4", "CD8"]
FRAME = pd.DataFrame(X, columns=NAMES)


def rffm(**params: Any) -> pp.RFFM:
    return pp.RFFM(**{"n_features": 20, "bandwidth": 1.0, **params})


@pytest.fixture(scope="module")
def fitted() -> pp.RFFM:
    return rffm().fit(X, Y)


@pytest.fixture(scope="module")
def named() -> pp.RFFM:
    return rffm().fit(FRAME, Y)


def refused(
    call: Callable[[], object], match: str, kind: type[Exception] = ValueError, exact: type[Exception] | None = None
) -> None:
    """The call raises a ProportioError that is also of the built-in `kind`, and says `match`."""
    with pytest.raises(pp.ProportioError, match=match) as caught:
        call()
    assert isinstance(caught.value, kind)
    assert exact is None or type(caught.value) is exact


def spoiled(value: float, row: int = 7, column: int = 1) -> Any:
    bad = X.copy()
    bad[row, column] = value
    return bad


# -- values of the table -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity"), (1e35, r"beyond ±1e\+30")]
)
def test_unusable_value_names_kind_column_row_and_remedy(value: float, kind: str) -> None:
    text = rf"X contains .*{kind}.* in column 1, 1 of 60 rows \(the first is row 7\).*on_missing='drop'"
    refused(lambda: rffm().fit(spoiled(value), Y), text, exact=pp.InputError)


def test_unusable_value_in_a_frame_names_the_column() -> None:
    refused(lambda: rffm().fit(pd.DataFrame(spoiled(np.nan), columns=NAMES), Y), r"column 'CD4'")


def test_unusable_value_in_a_batch_is_refused(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict(spoiled(np.nan)), "X contains NaN in column 1, 1 of 60 rows.*Fill them in")


def test_unusable_value_in_an_iterator_names_the_batch(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict(iter([X, spoiled(np.inf)])), r"batch 1 contains infinity \(inf\) in column 1")


def test_float32_sentinel_is_refused(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict(spoiled(1e35).astype(np.float32)), r"beyond ±1e\+30 in column 1")


def test_empty_source_is_refused() -> None:
    refused(lambda: rffm().fit(X[:0], Y[:0]), r"X has 0 sample\(s\) \(shape=\(0, 3\)\).*Check the filter")


def test_empty_target_is_refused(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict(X[:0]), r"X has 0 sample\(s\) \(shape=\(0, 3\)\).*Check the filter")


def test_table_without_columns_is_refused() -> None:
    refused(lambda: rffm().fit(X[:, :0], Y), r"X has 0 feature\(s\) \(shape=\(60, 0\)\).*select at least one column")


@pytest.mark.parametrize("source", [[], [X[:0], X[:0]]], ids=["no batches", "empty batches"])
def test_empty_iterator_is_refused(fitted: pp.RFFM, source: list[Any]) -> None:
    refused(lambda: fitted.predict(iter(source)), "the source gave no rows.*whether the iterator is used up")


def test_used_up_iterator_is_refused(fitted: pp.RFFM) -> None:
    batches = iter([X])
    fitted.predict(batches)
    refused(lambda: fitted.predict(batches), "the source gave no rows.*used up")


def test_every_row_dropped_is_refused() -> None:
    model = rffm(on_missing="drop").fit(X, Y)
    refused(
        lambda: model.predict(np.full((4, 3), np.nan)), r"every row of X has a NaN.*dropping 4 of 4 rows.*Fill them in"
    )


def test_every_row_of_an_iterator_dropped_is_refused() -> None:
    model = rffm(on_missing="drop").fit(X, Y)
    refused(lambda: model.predict(iter([np.full((4, 3), np.nan)] * 2)), "all 8 rows have a NaN or infinity")


# -- shapes and types of the table ---------------------------------------------------------------------------------


def test_wrong_count_of_columns_is_refused(fitted: pp.RFFM) -> None:
    refused(
        lambda: fitted.predict(X[:, :2]),
        "X has 2 features, but model is expecting 3 features as input.*Select the columns",
        exact=pp.MismatchError,
    )


def test_wrong_count_of_unnamed_columns_lists_the_expected_names(named: pp.RFFM) -> None:
    refused(lambda: named.predict(X[:, :2]), "expecting 3 features as input: CD3, CD4, CD8", exact=pp.MismatchError)


def test_wrong_column_names_are_listed(named: pp.RFFM) -> None:
    other = FRAME.rename(columns={"CD4": "CD45"})
    refused(
        lambda: named.predict(other), "not in the reference: 'CD45'; missing: 'CD4'.*by name", exact=pp.MismatchError
    )


def test_same_names_in_another_order_say_how_to_select(named: pp.RFFM) -> None:
    refused(
        lambda: named.predict(FRAME[NAMES[::-1]]),
        r"the same columns in another order; select X\[model.feature_names_in_\]",
        exact=pp.MismatchError,
    )


def test_the_selection_that_the_message_recommends_works(named: pp.RFFM) -> None:
    assert np.array_equal(named.predict(FRAME[NAMES[::-1]][named.feature_names_in_]), named.predict(FRAME))


def test_object_dtype_is_refused() -> None:
    refused(
        lambda: rffm().fit(X.astype(object), Y),
        r"X has dtype object, not numbers.*X.astype\(float\)",
        TypeError,
        pp.InputTypeError,
    )


def test_array_of_text_is_refused() -> None:
    refused(lambda: rffm().fit(X.astype(str), Y), "X has dtype <U.*not numbers", TypeError)


def test_text_column_of_a_frame_is_named() -> None:
    refused(
        lambda: rffm().fit(FRAME.assign(site="Rome"), Y),
        r"X has columns that are not numbers: 'site' \(String\). Leave them out or encode",
        TypeError,
        pp.InputTypeError,
    )


def test_complex_is_refused() -> None:
    refused(lambda: rffm().fit(X + 1j, Y), "Complex data not supported: X has dtype complex128.*two columns")


@pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_matrix])
def test_sparse_is_refused(make: Callable[[Any], Any]) -> None:
    refused(lambda: rffm().fit(make(X), Y), r"X is a sparse matrix.*X.toarray\(\)", TypeError, pp.InputTypeError)


def test_one_dimension_is_refused() -> None:
    refused(lambda: rffm().fit(X[:, 0], Y), r"must be a table \(2 dimensions\), got shape \(60,\).*reshape\(-1, 1\)")


def test_three_dimensions_are_refused(fitted: pp.RFFM) -> None:
    refused(
        lambda: fitted.predict(X.reshape(2, 30, 3)),
        r"must be a table \(2 dimensions\), got shape \(2, 30, 3\).*iter\(X\)",
    )


def test_a_scalar_is_refused(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict(3.0), r"must be a table \(2 dimensions\), got shape \(\)")


@pytest.mark.parametrize(("thing", "name"), [(None, "NoneType"), ("rows.csv", "str"), ({1, 2}, "set")])
def test_what_is_not_a_table_is_refused(fitted: pp.RFFM, thing: Any, name: str) -> None:
    refused(lambda: fitted.predict(thing), f"X is {name}, not a table of numbers: pass a 2-dim", TypeError)


def test_ragged_list_is_refused(fitted: pp.RFFM) -> None:
    refused(
        lambda: fitted.predict([[1.0, 2.0, 3.0], [1.0]]), "X is not a table: its rows differ in length.*same columns"
    )


def test_masked_entries_are_refused(fitted: pp.RFFM) -> None:
    masked = np.ma.masked_greater(X, 4.0)
    count = int(masked.mask.sum())
    refused(lambda: fitted.predict(masked), rf"masked array with {count} masked entries: fill them in")


def test_masked_array_without_masked_entries_is_a_table(fitted: pp.RFFM) -> None:
    assert np.array_equal(fitted.predict(np.ma.array(X)), fitted.predict(X))


def test_polars_lazy_frame_is_refused(named: pp.RFFM) -> None:
    lazy = pl.LazyFrame(dict(zip(NAMES, X.T, strict=True)))
    refused(lambda: named.predict(lazy), r"X is a lazy frame \(LazyFrame\).*X.collect\(\)", TypeError)


def test_duplicate_column_names_are_refused() -> None:
    doubled = pd.DataFrame(X, columns=["CD3", "CD4", "CD3"])
    refused(lambda: rffm().fit(doubled, Y), "two columns of one name.*CD3.*Rename")


def test_column_names_of_mixed_types_are_refused() -> None:
    mixed = pd.DataFrame(X, columns=["CD3", 4, "CD8"])
    refused(lambda: rffm().fit(mixed, Y), r"column names of types int, str.*X.columns.astype\(str\)", TypeError)


# -- labels --------------------------------------------------------------------------------------------------------


def test_missing_y_is_refused() -> None:
    refused(lambda: rffm().fit(X, None), "the reference needs labels: y is None.*requires y to be passed")


@pytest.mark.parametrize("hole", [None, np.nan, pd.NA], ids=["None", "NaN", "NA"])
def test_missing_labels_are_counted(hole: Any) -> None:
    y = Y.astype(object)
    y[3] = hole
    refused(
        lambda: rffm().fit(X, y), r"y contains 1 missing labels \(None or NaN\): label these rows or leave them out"
    )


def test_missing_label_in_a_list_is_counted() -> None:
    refused(lambda: rffm().fit(X, [None, *Y[1:].tolist()]), "y contains 1 missing labels")


def test_nan_among_numeric_labels_is_counted() -> None:
    y = (Y == "b").astype(float)
    y[:2] = np.nan
    refused(lambda: rffm().fit(X, y), "y contains 2 NaN or infinity: label these rows")


def test_labels_of_the_wrong_length_are_refused() -> None:
    refused(
        lambda: rffm().fit(X, Y[:50]), "y has 50 labels but X has 60 rows: inconsistent.*Give one label for each row"
    )


def test_real_valued_labels_are_refused() -> None:
    refused(lambda: rffm().fit(X, X[:, 0]), "Unknown label type: y holds real numbers such as .*np.digitize")


def test_labels_of_mixed_types_are_refused() -> None:
    refused(
        lambda: rffm().fit(X, [1, *Y[1:].tolist()]), r"y mixes labels of types int, str.*y.astype\(str\)", TypeError
    )


def test_two_columns_of_labels_are_refused() -> None:
    refused(lambda: rffm().fit(X, np.column_stack([Y, Y])), r"y must be one column.*shape \(60, 2\).*y\[:, k\]")


def test_bytes_as_labels_are_refused() -> None:
    refused(lambda: rffm().fit(X, Y.astype("S")), r"y holds bytes \(\|S1\).*np.char.decode\(y\)", TypeError)


def test_ragged_labels_are_refused() -> None:
    refused(lambda: rffm().fit(X[:2], [[1, 2], [1]]), "y must be one column of labels, got lists of different lengths")


def test_dates_as_labels_are_refused() -> None:
    dates = np.where(Y == "a", "2026-01-01", "2026-01-02").astype("datetime64[D]")
    refused(lambda: rffm().fit(X, dates), r"y has dtype datetime64\[D\].*y.astype\(str\)", TypeError)


def test_one_class_only_is_refused() -> None:
    refused(lambda: rffm().fit(X[:30], Y[:30]), r"one class only \('a'\).*rows of 2 classes or more")


def test_unseen_label_in_partial_fit_is_named() -> None:
    model = rffm().partial_fit(X, Y, classes=["a", "b"])
    refused(
        lambda: model.partial_fit(X, np.repeat(["a", "c"], 30)),
        r"not among the classes: 'c'; the classes are \['a', 'b'\]",
    )


def test_unseen_label_in_the_first_partial_fit_is_named() -> None:
    refused(lambda: rffm().partial_fit(X, Y, classes=["a", "z"]), "not among the classes: 'b'.*Name every label")


def test_a_refused_batch_leaves_the_model_as_it_was() -> None:
    model = rffm().partial_fit(X, Y, classes=["a", "b"])
    before = model.sketch_.tally.rows.copy(), model.predict(X)
    refused(lambda: model.partial_fit(X, np.repeat(["a", "c"], 30)), "not among the classes")
    refused(lambda: model.partial_fit(spoiled(np.nan), Y), "NaN")
    assert np.array_equal(model.sketch_.tally.rows, before[0])
    assert np.array_equal(model.predict(X), before[1])


def test_partial_fit_without_classes_is_refused() -> None:
    refused(lambda: rffm().partial_fit(X, Y), r"the first call of partial_fit needs classes=\[...\]")


def test_partial_fit_with_other_classes_is_refused() -> None:
    model = rffm().partial_fit(X, Y, classes=["a", "b"])
    refused(
        lambda: model.partial_fit(X, Y, classes=["a", "b", "c"]),
        r"classes=\['a', 'b', 'c'\] differ from the first call's \['a', 'b'\]",
        exact=pp.MismatchError,
    )


def test_a_class_that_never_came_is_named_when_shares_are_asked() -> None:
    model = rffm().partial_fit(X, Y, classes=["a", "b", "c"])
    refused(
        lambda: model.estimate(X),
        "class 'c' has no rows .*in the reference: add rows for it, or leave it out of `classes`",
        exact=pp.EmptyClassError,
    )


def test_a_class_lost_to_dropped_rows_is_refused() -> None:
    bad = X.copy()
    bad[Y == "b", 0] = np.nan
    refused(lambda: rffm(on_missing="drop").fit(bad, Y), "one class only|class 'b' has no rows")


def test_a_class_of_weight_zero_is_refused() -> None:
    weights = (Y == "a").astype(float)
    refused(
        lambda: rffm().fit(X, Y, sample_weight=weights), "class 'b' has no rows .*weight 0", exact=pp.EmptyClassError
    )


# -- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        (np.where(np.arange(60) == 5, -2.0, 1.0), r"sample_weight is negative in 1 rows \(lowest -2\).*zero or more"),
        (np.zeros(60), "sample_weight is zero in every row.*above 0"),
        (np.where(np.arange(60) < 2, np.nan, 1.0), "sample_weight contains NaN or infinity in 2 rows"),
        (np.ones(59), r"sample_weight has shape \(59,\) but there are 60 rows: give one weight a row"),
        (np.ones((60, 1)), r"sample_weight has shape \(60, 1\)"),
    ],
    ids=["negative", "all zero", "NaN", "wrong length", "2-d"],
)
@pytest.mark.parametrize("stage", ["fit", "estimate"])
def test_unusable_weights_are_refused(fitted: pp.RFFM, weights: Any, match: str, stage: str) -> None:
    if stage == "fit":
        refused(lambda: rffm().fit(X, Y, sample_weight=weights), match)
    else:
        refused(lambda: fitted.estimate(X, sample_weight=weights), match)


def test_weights_of_text_are_refused() -> None:
    refused(
        lambda: rffm().fit(X, Y, sample_weight=["1"] * 60), "sample_weight must be numbers, got dtype <U1", TypeError
    )


def test_weights_with_an_iterator_say_what_to_do(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.estimate(iter([X]), sample_weight=np.ones(60)), "one table; sketch.*add the sketches")


# -- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [rffm, pp.KMM], ids=["RFFM", "KMM"])
@pytest.mark.parametrize(
    ("bandwidth", "match"),
    [
        (0, "bandwidth=0 must be finite and above 0"),
        (-1.5, r"bandwidth=-1\.5 must be finite and above 0"),
        (float("nan"), "bandwidth=nan must be finite and above 0"),
        (float("inf"), "bandwidth=inf must be finite and above 0"),
        ("wide", "bandwidth='wide' is not a number"),
        (True, "bandwidth=True is not a number"),
        (None, "bandwidth=None is not a number"),
    ],
)
def test_impossible_bandwidth_is_refused(make: Callable[..., Any], bandwidth: Any, match: str) -> None:
    refused(lambda: make(bandwidth=bandwidth).fit(X, Y), rf"{match}.*standard deviations of the columns")


@pytest.mark.parametrize("n_features", [0, -2, 7, 100.0, True, "100", None])
def test_impossible_count_of_features_is_refused(n_features: Any) -> None:
    refused(
        lambda: rffm(n_features=n_features).fit(X, Y), rf"n_features={n_features!r} must be an even number, 2 or more"
    )


@pytest.mark.parametrize("n_features", [0, 7, 100.0])
def test_impossible_count_of_features_is_refused_before_the_bandwidth_is_chosen(n_features: Any) -> None:
    refused(lambda: pp.RFFM(n_features=n_features).fit(X, Y), "must be an even number, 2 or more")


def test_unknown_kind_lists_the_known_ones() -> None:
    refused(lambda: rffm(kind="sobol").fit(X, Y), "kind='sobol' is not one of 'auto'.*'orthogonal'")


def test_unknown_kernel_lists_the_known_ones() -> None:
    refused(
        lambda: rffm(kernel="cauchy").fit(X, Y),
        "kernel='cauchy' has no Fourier features here: use 'gaussian' or 'laplace'",
    )
    refused(
        lambda: pp.KMM(kernel="cauchy").fit(X, Y),
        "kernel='cauchy' is not 'gaussian', 'laplace', 'energy' or a callable",
    )


def test_energy_kernel_has_no_fourier_features() -> None:
    refused(lambda: rffm(kernel="energy").fit(X, Y), "kernel='energy' has no Fourier features here: use 'gaussian'")


@pytest.mark.parametrize("make", [pp.RFFM, pp.KMM])
def test_unknown_criterion_lists_the_known_ones(make: Callable[..., Any]) -> None:
    refused(lambda: make(criterion="aic").fit(X, Y), "criterion='aic' is neither 'error' nor 'delta_min'")


def test_unknown_on_missing_lists_the_known_ones() -> None:
    refused(lambda: rffm(on_missing="impute").fit(X, Y), "on_missing='impute' is neither 'raise' nor 'drop'")


@pytest.mark.parametrize("origin", [[0.0, 0.0], [0.0, np.nan, 0.0], 1.0], ids=["short", "NaN", "scalar"])
def test_energy_origin_of_the_wrong_shape_is_refused(origin: Any) -> None:
    refused(
        lambda: pp.KMM(kernel="energy", origin=origin).fit(X, Y),
        r"origin has shape \(.*\): give one finite number for each of 3 columns",
    )


def test_unknown_origin_is_refused() -> None:
    refused(
        lambda: pp.KMM(kernel="energy", origin="median").fit(X, Y),
        "origin='median': give 'mean' or one number a column",
    )


@pytest.mark.parametrize("radius", [0.0, -1.0, np.nan])
def test_impossible_energy_radius_is_refused(radius: float) -> None:
    refused(lambda: pp.KMM(kernel="energy", radius=radius).fit(X, Y), "radius=.* must be finite and above 0")


def test_row_beyond_the_declared_energy_radius_is_refused() -> None:
    model = pp.KMM(kernel="energy", radius=10.0).fit(X, Y)
    refused(lambda: model.predict(1000 * X), "beyond the declared radius 10.*Declare a larger radius")


def test_kernel_callable_of_the_wrong_shape_is_refused() -> None:
    model = pp.KMM(kernel=lambda A, B: np.ones((len(A), 1 + len(B))))
    refused(
        lambda: model.fit(X, Y), r"the kernel callable returned shape .* for .* rows: it must return one value a pair"
    )


def test_kernel_callable_returning_nan_is_refused() -> None:
    model = pp.KMM(kernel=lambda A, B: np.full((len(A), len(B)), np.nan))
    refused(lambda: model.fit(X, Y), "the kernel callable returned NaN or infinity")


def test_feature_callable_that_breaks_its_bound_is_refused() -> None:
    model = pp.DFM(Function(lambda A: A, bound=0.5))
    refused(lambda: model.fit(X, Y), r"declares ‖Φ\(x\)‖ ≤ 0.5 but a row has norm .*Declare a larger bound, or None")


def test_feature_callable_that_breaks_its_bound_in_a_batch_is_refused() -> None:
    model = pp.DFM(Function(lambda A: A, bound=20.0)).fit(X, Y)
    refused(lambda: model.predict(100 * X), r"declares ‖Φ\(x\)‖ ≤ 20 but a row has norm")


def test_feature_callable_of_the_wrong_shape_is_refused() -> None:
    refused(
        lambda: pp.DFM(lambda A: A[:, 0]).fit(X, Y),
        r"the feature callable returned float64 of shape .*one row of numbers a row",
    )


def test_feature_callable_returning_nan_is_refused() -> None:
    refused(
        lambda: pp.DFM(lambda A: np.full_like(A, np.nan)).fit(X, Y), "the feature callable returned NaN or infinity"
    )


def test_features_that_are_neither_map_nor_callable_are_refused() -> None:
    refused(
        lambda: pp.DFM("histogram").fit(X, Y),
        "features='histogram' is neither a feature map of proportio nor a callable",
    )


@pytest.mark.parametrize("bins", [1, 0, 2.5, True])
def test_impossible_bins_are_refused(bins: Any) -> None:
    refused(lambda: Histogram(bins=bins).fit(X), rf"bins={bins!r} must be a whole number, 2 or more")


def test_unknown_histogram_strategy_is_refused() -> None:
    refused(lambda: Histogram(strategy="kmeans").fit(X), "strategy='kmeans' is neither 'quantile' nor 'uniform'")


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0]])
def test_impossible_stack_weights_are_refused(weights: list[float]) -> None:
    refused(
        lambda: Stack([Histogram(), Histogram()], weights).fit(X),
        "Stack has 2 maps: give as many weights, each above 0",
    )


def test_empty_stack_is_refused() -> None:
    refused(lambda: pp.DFM(Stack([])).fit(X, Y), "Stack needs at least one map")


# -- classifiers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cv", [1, 0, -3, 2.5, "kfold", True])
def test_impossible_cv_is_refused(cv: Any) -> None:
    refused(lambda: pp.BBSE(cv=cv).fit(X, Y), rf"cv={cv!r}: give a number of folds \(2 or more\), 'split' or 'prefit'")


def test_prefit_without_a_classifier_is_refused() -> None:
    refused(lambda: pp.BBSE(cv="prefit").fit(X, Y), "cv='prefit' needs a fitted classifier, got classifier=None")


def test_class_of_one_row_cannot_be_cross_fitted() -> None:
    keep = np.r_[0:31]
    refused(
        lambda: pp.BBSE().fit(X[keep], Y[keep]), "class 'b' has 1 row: cross-fitting needs 2 or more a class.*Add rows"
    )


def test_class_of_one_row_cannot_be_split() -> None:
    keep = np.r_[0:31]
    refused(lambda: pp.BBSE(cv="split").fit(X[keep], Y[keep]), "class .*'b'.* has 1 row: cv='split' needs 2 or more")


def test_posterior_of_a_classifier_without_probabilities_is_refused() -> None:
    from sklearn.svm import LinearSVC

    refused(lambda: pp.DFM(Posterior(LinearSVC())).fit(X, Y), "LinearSVC has no predict_proba: use OneHot")


def test_cross_fitting_on_a_stream_is_refused() -> None:
    text = "cannot be cross-fitted on a stream: train it first and pass it with cv='prefit'"
    refused(lambda: pp.BBSE().partial_fit(X, Y, classes=["a", "b"]), text)
    refused(lambda: pp.DFM(OneHot()).partial_fit(X, Y, classes=["a", "b"]), text)


def test_training_a_classifier_map_without_labels_is_refused() -> None:
    refused(lambda: Posterior().fit(X), "training a classifier needs labels y; or pass a fitted one with cv='prefit'")


# -- before fit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [rffm, pp.KMM, pp.BBSE, lambda: pp.DFM(Histogram())], ids=["RFFM", "KMM", "BBSE", "DFM"]
)
@pytest.mark.parametrize("method", ["predict", "estimate", "sketch", "score_unknown", "save", "to_bytes"])
def test_unfitted_model_says_to_call_fit(make: Callable[[], Any], method: str, tmp_path: Path) -> None:
    arguments = {"save": (tmp_path / "m.safetensors",), "to_bytes": ()}.get(method, (X,))
    model = make()
    refused(
        lambda: getattr(model, method)(*arguments),
        rf"this {type(model).__name__} is not fitted yet: call fit\(X, y\) first",
        NotFittedError,
        pp.NotFittedError,
    )
    assert list(tmp_path.iterdir()) == []


def test_unfitted_model_refuses_a_sketch(fitted: pp.RFFM) -> None:
    refused(lambda: rffm().estimate(fitted.sketch(X)), "this RFFM is not fitted yet", NotFittedError)


def test_unfitted_feature_map_says_to_call_fit() -> None:
    refused(lambda: RandomFourier().transform(X), "this RandomFourier is not fitted yet", NotFittedError)


def test_a_failed_fit_leaves_no_fitted_model() -> None:
    model = rffm()
    refused(lambda: model.fit(spoiled(np.nan), Y), "NaN")
    refused(lambda: model.predict(X), "not fitted yet", NotFittedError)


# -- sketches ------------------------------------------------------------------------------------------------------


def test_sketches_of_different_maps_do_not_merge(fitted: pp.RFFM) -> None:
    other = rffm(bandwidth=2.0).fit(X, Y)
    refused(
        lambda: fitted.sketch(X) + other.sketch(X),
        r"different feature maps .*cannot be merged: make every part with the same saved model, model.sketch\(part\)",
        exact=pp.MismatchError,
    )


def test_sketches_of_different_kinds_do_not_merge(fitted: pp.RFFM) -> None:
    exact = pp.KMM(bandwidth=1.0).fit(X, Y)
    refused(
        lambda: fitted.sketch(X) + exact.sketch(X),
        r"different kinds \(BlockSketch and RowSketch\) and cannot be merged",
        exact=pp.MismatchError,
    )


def test_sketches_of_different_classes_do_not_merge(fitted: pp.RFFM) -> None:
    refused(
        lambda: fitted.sketch_ + fitted.sketch(X),
        r"different classes \(\('a', 'b'\) and None\)",
        exact=pp.MismatchError,
    )


def test_merge_of_nothing_is_refused() -> None:
    refused(lambda: pp.Sketch.merge([]), "merge got no sketches: give at least one")


def test_a_sketch_and_a_number_do_not_add(fitted: pp.RFFM) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        fitted.sketch(X) + 1  # type: ignore[operator]


def test_sketch_of_another_model_is_refused(fitted: pp.RFFM) -> None:
    other = rffm(random_state=1).fit(X, Y)
    refused(
        lambda: fitted.estimate(other.sketch(X)),
        "made by another model.*with this model's sketch",
        exact=pp.MismatchError,
    )


def test_sketch_of_a_reference_is_refused_as_a_batch(fitted: pp.RFFM) -> None:
    refused(
        lambda: fitted.estimate(fitted.sketch_),
        "sketch of a labelled reference, not of a batch",
        exact=pp.MismatchError,
    )


def test_sketch_is_read_from_bytes_only() -> None:
    refused(lambda: pp.Sketch.from_bytes("text"), "a sketch is read from bytes, got str", TypeError)  # type: ignore[arg-type]


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def model_file(fitted: pp.RFFM, tmp_path: Path) -> Path:
    path = tmp_path / "ref.safetensors"
    fitted.save(path)
    return path


def file_refused(path: Path, match: str) -> None:
    refused(lambda: pp.load(path), match, exact=pp.FileError)


def test_truncated_model_file_is_refused(model_file: Path) -> None:
    model_file.write_bytes(model_file.read_bytes()[:-100])
    file_refused(model_file, r"ref.safetensors: truncated or not a proportio file.*Copy it again or save it anew")


def test_empty_model_file_is_refused(model_file: Path) -> None:
    model_file.write_bytes(b"")
    file_refused(model_file, "ref.safetensors: truncated or not a proportio file")


def test_text_file_is_refused(model_file: Path) -> None:
    model_file.write_text("CD3,CD4,CD8\n" * 100)
    file_refused(model_file, "ref.safetensors: truncated or not a proportio file")


def test_tampered_model_file_is_refused(model_file: Path) -> None:
    data = bytearray(model_file.read_bytes())
    data[-5] ^= 1
    model_file.write_bytes(bytes(data))
    file_refused(model_file, "ref.safetensors: the checksum does not match: altered or damaged.*Copy it again")


def test_model_file_of_a_newer_schema_is_refused(
    fitted: pp.RFFM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "newer.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(storage, "SCHEMA", 99)
        fitted.save(path)
    file_refused(path, "written by a newer proportio .schema 99; this one reads up to 1.. Upgrade proportio")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    file_refused(tmp_path / "absent.safetensors", "absent.safetensors: cannot be read .No such file or directory")


def test_directory_is_refused(tmp_path: Path) -> None:
    file_refused(tmp_path, "cannot be read .Is a directory")


def test_sketch_file_is_refused_as_a_model(fitted: pp.RFFM, tmp_path: Path) -> None:
    fitted.sketch(X).save(tmp_path / "batch.safetensors")
    file_refused(tmp_path / "batch.safetensors", "holds a sketch, but a model was asked for")


def test_model_file_is_refused_as_a_sketch(model_file: Path) -> None:
    refused(lambda: pp.Sketch.load(model_file), "holds a model, but a sketch was asked for", exact=pp.FileError)


def test_foreign_safetensors_file_is_refused(tmp_path: Path) -> None:
    save_file({"weight": np.zeros(3)}, tmp_path / "llm.safetensors")
    file_refused(tmp_path / "llm.safetensors", "a safetensors file, but proportio did not write it")


def test_saving_into_an_absent_directory_is_refused(fitted: pp.RFFM, tmp_path: Path) -> None:
    path = tmp_path / "absent" / "ref.safetensors"
    refused(
        lambda: fitted.save(path),
        r"ref.safetensors: cannot be written \(No such file or directory\)",
        exact=pp.FileError,
    )
    refused(lambda: fitted.sketch(X).save(path), "cannot be written", exact=pp.FileError)


def test_callable_kernel_cannot_be_saved_and_writes_nothing(tmp_path: Path) -> None:
    model = pp.KMM(kernel=lambda A, B: A @ B.T).fit(X, Y)
    refused(
        lambda: model.save(tmp_path / "m.safetensors"),
        "a callable kernel cannot be written to a file.*use a named kernel",
        exact=pp.FileError,
    )
    assert list(tmp_path.iterdir()) == []


def test_model_that_needs_its_classifier_says_how_to_supply_it(tmp_path: Path) -> None:
    from sklearn.tree import DecisionTreeClassifier

    path = tmp_path / "tree.safetensors"
    pp.BBSE(DecisionTreeClassifier(max_depth=2), cv=2).fit(X, Y).save(path)
    file_refused(path, r"needs its classifier \(2 x DecisionTreeClassifier\).*load\(path, supply=classifier\)")


def test_refusals_come_without_warnings(fitted: pp.RFFM) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for bad in (np.nan, np.inf, 1e35, 1e308):
            refused(lambda bad=bad: fitted.predict(spoiled(bad)), "column 1")  # type: ignore[misc]


def test_an_extra_column_says_how_to_select_the_others(named: pp.RFFM) -> None:
    frame = pd.DataFrame(np.zeros((3, len(named.feature_names_in_))), columns=list(named.feature_names_in_)).assign(
        more=1.0
    )
    refused(
        lambda: named.predict(frame),
        r"not in the reference: 'more'; all others are there: select X\[model.feature_names_in_\]",
    )


def test_impossible_threads_are_refused() -> None:
    refused(lambda: pp.RFFM(n_jobs=0, bandwidth=1.0).fit(X, Y), "n_jobs=0 must be None, -1 or a positive whole number")


def test_a_list_of_tables_says_how_tables_go_in(fitted: pp.RFFM) -> None:
    refused(lambda: fitted.predict([np.zeros((2, 2)), np.zeros((3, 2))]), "several tables go in as an iterator")
