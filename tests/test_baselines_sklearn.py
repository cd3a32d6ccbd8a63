"""The related methods as scikit-learn's users meet them, and what they refuse."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import proportio as pp
from proportio import baselines

RNG = np.random.default_rng(6)
Y = np.repeat(["a", "b", "c"], 50)
X = RNG.normal(size=(150, 3)) + 2.0 * np.repeat([0, 1, 2], 50)[:, None] * np.array([1, -1, 0.5])
BATCH = np.concatenate([X[:20], X[-60:]])
NAMES = ["CD3", "CD4", "CD8"]

METHODS: dict[str, Any] = {
    "CC": baselines.CC(cv=3),
    "ACC": baselines.ACC(cv=2),
    "PACC": baselines.PACC(cv=3),
    "RLLS": baselines.RLLS(cv=3, draws=20),
    "EM": baselines.EM(calibration="bcts", cv=3),
    "HDx": baselines.HDx(bins=6),
    "HDy": baselines.HDy(bins=6, cv=3),
    "DyS": baselines.DyS(cv=3),
    "KDE": baselines.KDE(cv=3),
    "Pearson": baselines.Pearson(n_centers=10, draws=20),
    "Wasserstein": baselines.Wasserstein(cv=3, draws=20),
}
every_method = pytest.mark.parametrize("name", METHODS)

SHARES = "predict gives one share a class for the whole batch, not one value a row"
OBJECTS = "columns of dtype object are refused on purpose: guessing would hide a text column"
FOLDS = "the check hands over cv as a list of splits, which is not among the documented values"
STREAM = "a classifier cannot be cross-fitted on a stream, so partial_fit is refused"
GRAM = "gram_ is computed when first asked for and kept under a private name"


def inapplicable(estimator: Any) -> dict[str, str]:
    """The checks that cannot pass, each with its reason."""
    out = {
        "check_methods_sample_order_invariance": SHARES,
        "check_methods_subset_invariance": SHARES,
        "check_dtype_object": OBJECTS,
    }
    if hasattr(estimator, "cv"):
        out["check_sample_weight_equivalence_on_dense_data"] = FOLDS
    if hasattr(estimator, "partial_fit"):
        out |= {
            "check_n_features_in_after_fitting": STREAM,
            "check_fit_score_takes_y": STREAM,
            "check_dict_unchanged": GRAM,
        }
    return out


@pytest.mark.filterwarnings("ignore::proportio.errors.ProportioWarning")  # the checks fit on pure noise
@parametrize_with_checks(
    [m for name, m in METHODS.items() if name not in ("HDy", "ACC")], expected_failed_checks=inapplicable
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@every_method
def test_a_clone_and_a_pickle_give_the_same_shares(name: str) -> None:
    fitted = clone(METHODS[name]).fit(X, Y)
    shares = fitted.predict(BATCH)
    assert shares.shape == (3,) and shares.sum() == pytest.approx(1) and shares.min() >= 0
    assert np.array_equal(clone(fitted).fit(X, Y).predict(BATCH), shares)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(BATCH), shares)


@every_method
def test_frames_give_the_shares_of_the_array_and_other_columns_are_refused(name: str) -> None:
    plain = clone(METHODS[name]).fit(X, Y).predict(BATCH)
    model = clone(METHODS[name]).fit(pd.DataFrame(X, columns=NAMES), pd.Series(Y))
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_allclose(model.predict(pd.DataFrame(BATCH, columns=NAMES)), plain, atol=1e-12)
    with pytest.raises(pp.MismatchError, match="CD19"):
        model.predict(pd.DataFrame(BATCH, columns=["CD3", "CD4", "CD19"]))


@every_method
def test_an_estimate_has_the_shares_a_certificate_and_intervals_and_travels_as_json(name: str) -> None:
    model = clone(METHODS[name]).fit(X, Y)
    est = model.estimate(BATCH)
    assert est.classes.tolist() == ["a", "b", "c"] and est.counts.tolist() == [50, 50, 50]
    np.testing.assert_array_equal(est.proportions, model.predict(BATCH))
    assert est.diagnostics.kkt <= 1e-8 and est.diagnostics.status == "ok" and not est.soft
    np.testing.assert_allclose(est.source_prior, 1 / 3)
    np.testing.assert_allclose(est.weights, 3 * est.proportions)
    limits = est.interval(0.9)
    assert limits.shape == (3, 2) and (limits[:, 0] <= limits[:, 1]).all() and (np.diff(limits) > 0).any()
    again = pp.Estimate.from_json(est.to_json())
    np.testing.assert_allclose(again.interval(0.9), limits)
    assert again.drift_test().pvalue == pytest.approx(est.drift_test().pvalue)
    assert est.method in repr(est)


@every_method
def test_weights_count_rows_in_the_batch(name: str) -> None:
    model = clone(METHODS[name]).fit(X, Y)
    if name == "Pearson":
        pytest.skip(
            "the centres and the cross-validation of the kernel width are drawn from the rows, not their weights"
        )
    weights = np.tile([1.0, 3.0], 40)
    repeated = model.estimate(np.concatenate([BATCH, BATCH[1::2], BATCH[1::2]])).proportions
    np.testing.assert_allclose(model.estimate(BATCH, sample_weight=weights).proportions, repeated, atol=1e-6)


@pytest.mark.parametrize("name", ["HDx", "EM", "DyS", "KDE", "RLLS", "Wasserstein"])
def test_weights_count_rows_in_the_reference(name: str) -> None:
    params = {} if name == "HDx" else {"classifier": LogisticRegression().fit(X, Y), "cv": "prefit"}
    model = clone(METHODS[name]).set_params(**params)
    if name == "RLLS":
        model.set_params(scale=1e-9)  # its ρ counts rows, not their weight
    weights = np.tile([1.0, 2.0, 0.0], 50)
    where = np.repeat(np.arange(150), weights.astype(int))
    weighted = clone(model).fit(X, Y, sample_weight=weights).predict(BATCH)
    np.testing.assert_allclose(weighted, clone(model).fit(X[where], Y[where]).predict(BATCH), atol=1e-6)


@every_method
def test_batches_of_a_stream_are_the_whole(name: str) -> None:
    model = clone(METHODS[name]).fit(X, Y)
    np.testing.assert_allclose(
        model.estimate(iter([BATCH[:30], BATCH[30:]])).proportions, model.predict(BATCH), atol=1e-9
    )


@every_method
def test_what_cannot_be_used_is_refused_in_words(name: str) -> None:
    model = clone(METHODS[name]).fit(X, Y)
    broken = BATCH.copy()
    broken[3, 1] = np.nan
    with pytest.raises(pp.InputError, match="NaN"):
        model.predict(broken)
    with pytest.raises(pp.InputError, match="0 sample"):
        model.predict(BATCH[:0])
    with pytest.raises(pp.InputError, match="one class only"):
        clone(model).fit(X, np.repeat("a", 150))
    with pytest.raises(pp.NotFittedError, match="not fitted yet"):
        clone(model).predict(BATCH)
    dropping = clone(model).set_params(on_missing="drop").fit(X, Y)
    assert dropping.estimate(broken).dropped == 1


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (baselines.EM(calibration="platt"), "calibration='platt' is not 'temperature'"),
        (baselines.EM(prior="flat"), "neither 'labels' nor 'posteriors'"),
        (baselines.HDx(bins=1), "bins=1: give a whole number"),
        (baselines.DyS(divergence="kl"), "divergence='kl' is neither"),
        (baselines.KDE(bandwidth=-1), "bandwidth=-1 must be finite and above 0"),
        (baselines.RLLS(draws=5), "draws=5: give 0"),
        (baselines.RLLS(delta=2.0), "delta=2.0 must lie between"),
        (baselines.Pearson(n_centers=1), "n_centers=1"),
        (baselines.CC(LogisticRegression(), cv=1), "cv=1: give a number of folds"),
    ],
)
def test_parameters_are_checked_at_fit(model: Any, told: str) -> None:
    with pytest.raises(pp.InputError, match=told):
        model.fit(X, Y)


def test_without_draws_there_are_no_error_bars_and_the_error_says_how_to_get_them() -> None:
    est = baselines.RLLS(draws=0, cv=3).fit(X, Y).estimate(BATCH)
    assert pp.Estimate.from_json(est.to_json()).proportions.tolist() == est.proportions.tolist()
    with pytest.raises(pp.InputError, match="draws=200"):
        est.interval()
    with pytest.raises(pp.InputError, match="use DFM, RFFM, KMM or BBSE"):
        est.label_shift_test()


def test_a_prefitted_classifier_survives_cloning_and_must_know_the_classes() -> None:
    classifier = LogisticRegression().fit(X, Y)
    model = clone(baselines.EM(classifier, cv="prefit"))
    assert model.fit(X, Y).features_.members_ == [classifier]
    with pytest.raises(pp.InputError, match="knows 3 classes and y has 2"):
        baselines.EM(classifier, cv="prefit").fit(X[:100], Y[:100])


def test_adjusted_counts_travel_as_files(tmp_path: Any) -> None:
    for model in (baselines.ACC(cv=3), baselines.PACC(cv=3)):
        model.fit(X, Y).save(tmp_path / "ref.safetensors")
        again = pp.load(tmp_path / "ref.safetensors")
        assert type(again) is type(model) and np.array_equal(again.predict(BATCH), model.predict(BATCH))
