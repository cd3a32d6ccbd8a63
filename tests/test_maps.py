"""Histogram, posterior, one-hot, stacked, chained and user-defined maps."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

import proportio as pp
from oracles import F64
from proportio.errors import InputError
from proportio.features import Chain, FeatureMap, Function, Histogram, OneHot, Posterior, RandomFourier, Stack
from proportio.sketch import sketch_rows

Y = np.repeat([0, 1, 2], 60)
X = np.random.default_rng(0).normal(size=(180, 2)) + 1.5 * Y[:, None]


class Memory(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Class 1 of the rows that it was trained on, class 0 of all others."""

    def fit(self, X: F64, y: NDArray[Any]) -> Self:
        self.classes_ = np.array([0, 1])
        self.seen_ = {row.tobytes() for row in np.ascontiguousarray(X)}
        return self

    def predict(self, X: F64) -> NDArray[np.int64]:
        return np.array([row.tobytes() in self.seen_ for row in np.ascontiguousarray(X)]).astype(int)

    def predict_proba(self, X: F64) -> F64:
        return np.eye(2)[self.predict(X)]


def square(X: Any) -> F64:
    return np.asarray(X, np.float64) ** 2


def maps() -> dict[str, FeatureMap]:
    return {
        "fourier": RandomFourier(32, 1.0, kind="iid"),
        "structured": RandomFourier(32, 1.0, kind="structured"),
        "cos-bias": RandomFourier(32, 1.0, kind="cos-bias"),
        "histogram": Histogram(5),
        "posterior": Posterior(cv=3),
        "one-hot": OneHot(cv=3),
        "function": Function(square),
        "stack": Stack([Histogram(3), RandomFourier(16, 1.0), Function(square)], [1, 2, 3]),
        "chain": Chain(Posterior(cv=3), RandomFourier(16, 1.0)),
    }


def seen_share(phi: FeatureMap, X: F64, y: NDArray[Any]) -> list[float]:
    """Mean feature 1 of each class: with `Memory`, the share of its rows embedded by a member that trained on them."""
    sketch = sketch_rows(phi, X, y.astype(np.int32), np.unique(y).tolist())
    return sketch.means()[1].tolist()


@pytest.mark.parametrize("name", list(maps()))
@pytest.mark.parametrize("weighted", [False, True])
def test_accumulated_sums_are_the_sums_of_the_embedded_rows(name: str, weighted: bool) -> None:
    phi = maps()[name].fit(X, Y)
    rng = np.random.default_rng(1)
    cells = rng.integers(0, 4, len(X)).astype(np.int32)
    weights = rng.uniform(0, 3, len(X)) if weighted else None
    w = np.ones(len(X)) if weights is None else weights
    sums, norm2 = np.full((4, phi.dim), 0.5), np.full(4, 0.25)  # what was there stays
    phi.accumulate(X, cells, weights, sums, norm2)
    features = phi.embed(X)
    expected, lengths = np.zeros((4, phi.dim)), np.zeros(4)
    np.add.at(expected, cells, w[:, None] * features)
    np.add.at(lengths, cells, w**2 * np.square(features).sum(axis=1))
    assert np.abs((sums - 0.5) * phi.amplitude_ - expected).max() < 1e-6 * w.sum()  # features in float32
    assert np.abs(norm2 - 0.25 - lengths).max() < 2e-6 * (1 + lengths.max())


@pytest.mark.parametrize("name", list(maps()))
def test_no_row_is_longer_than_the_declared_bound(name: str) -> None:
    phi = maps()[name].fit(X, Y)
    if phi.bound_ is not None:
        assert np.linalg.norm(phi.transform(5 * X), axis=1).max() <= phi.bound_ * (1 + 1e-6)


@pytest.mark.parametrize("name", list(maps()))
def test_a_sketch_of_the_source_embeds_each_row_by_the_member_of_its_fold(name: str) -> None:
    phi = maps()[name].fit(X, Y)
    rows = np.empty((len(X), phi.dim))
    folds = np.zeros(len(X), int) if phi.folds_ is None else phi.folds_
    for k in np.unique(folds):
        rows[folds == k] = phi.member(int(k)).embed(X[folds == k])
    expected = np.stack([rows[i == Y].mean(axis=0) for i in range(3)], axis=1)
    assert np.abs(sketch_rows(phi, X, Y.astype(np.int32), [0, 1, 2]).means() - expected).max() < 2e-6 * (
        1 + expected.max()
    )


# -- histograms ----------------------------------------------------------------------------------------------


def test_quantile_bins_hold_equal_shares_of_the_source() -> None:
    Z = np.random.default_rng(2).gamma(1.0, size=(1000, 3))
    features = Histogram(8).fit(Z).transform(Z)
    assert features.shape == (1000, 24)
    assert np.allclose(features.mean(axis=0) * np.sqrt(3), 1 / 8, atol=1.5 / 1000)


def test_uniform_bins_have_equal_width() -> None:
    Z = np.array([[0.0], [10.0]])
    features = Histogram(5, strategy="uniform").fit(Z).transform(np.array([[1.9], [2.1], [9.9], [-7.0], [70.0]]))
    assert features.argmax(axis=1).tolist() == [0, 1, 4, 0, 4]


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_a_histogram_row_has_one_bin_a_column_and_norm_one(strategy: Any) -> None:
    Z = np.random.default_rng(3).normal(size=(50, 4))
    features = Histogram(6, strategy=strategy).fit(Z).transform(2 * Z)
    assert ((features > 0).reshape(50, 4, 6).sum(axis=2) == 1).all()
    assert np.allclose(np.linalg.norm(features, axis=1), 1)


def test_a_histogram_agrees_with_numpy() -> None:
    Z = np.random.default_rng(4).normal(size=(500, 1))
    phi = Histogram(7, strategy="uniform").fit(Z)
    assert np.allclose(phi.transform(Z).sum(axis=0), np.histogram(Z, bins=7)[0])


@pytest.mark.parametrize("settings", [{"bins": 1}, {"bins": 2.5}, {"strategy": "log"}])
def test_impossible_histograms_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Histogram(**settings).fit(X)


# -- classifiers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Posterior, OneHot])
@pytest.mark.parametrize("cv", [2, 5, "split"])
def test_no_source_row_is_embedded_by_a_member_that_trained_on_it(make: type[Posterior], cv: Any) -> None:
    phi = make(Memory(), cv=cv).fit(X, Y)
    assert seen_share(phi, X, Y) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("cv", [2, 5, "split"])
def test_stacks_and_chains_keep_training_rows_apart_too(cv: Any) -> None:
    stack = Stack([Posterior(Memory(), cv=cv), OneHot(Memory(), cv=3, random_state=1)]).fit(X, Y)
    assert seen_share(stack, X, Y) == [0.0, 0.0, 0.0]
    assert sketch_rows(stack, X, Y.astype(np.int32), [0, 1, 2]).means()[3].tolist() == [0.0, 0.0, 0.0]
    chain = Chain(Posterior(Memory(), cv=cv), Function(square)).fit(X, Y)
    assert seen_share(chain, X, Y) == [0.0, 0.0, 0.0]


def test_a_prefit_classifier_embeds_every_row() -> None:
    phi = OneHot(Memory().fit(X, Y), cv="prefit").fit(X, Y)
    assert phi.folds_ is None
    assert seen_share(phi, X, Y) == [1.0, 1.0, 1.0]  # the user's to avoid


def test_split_trains_on_half_of_every_class_and_embeds_the_other() -> None:
    phi = OneHot(cv="split").fit(X, Y)
    assert phi.folds_ is not None and len(phi.members_) == 1
    for i in range(3):
        assert (phi.folds_[i == Y] == -1).sum() == 30
    assert sketch_rows(phi, X, Y.astype(np.int32), [0, 1, 2]).tally.counts.tolist() == [30, 30, 30]


def test_folds_are_spread_evenly_over_classes() -> None:
    folds = Posterior(cv=4).fit(X, Y).folds_
    assert folds is not None
    for i in range(3):
        assert np.bincount(folds[i == Y], minlength=4).tolist() == [15, 15, 15, 15]


def test_members_are_the_classifiers_of_the_other_folds() -> None:
    phi = Posterior(GaussianNB(), cv=3).fit(X, Y)
    folds = phi.folds_
    assert folds is not None
    models = [GaussianNB().fit(X[folds != k], Y[folds != k]) for k in range(3)]
    Z = X[::7] + 0.1
    for k, model in enumerate(models):
        assert np.allclose(phi.member(k).embed(Z), model.predict_proba(Z))
    assert np.allclose(phi.transform(Z), np.mean([m.predict_proba(Z) for m in models], axis=0))


def test_one_hot_is_the_decision_of_the_classifier() -> None:
    model = LogisticRegression().fit(X, Y)
    features = OneHot(model, cv="prefit").fit(X).transform(X)
    assert np.array_equal(features, np.eye(3)[model.predict(X)])


def test_weights_reach_the_classifier() -> None:
    weights = np.random.default_rng(5).uniform(0.1, 3, len(X))
    phi = Posterior(GaussianNB(), cv="split").fit(X, Y, sample_weight=weights)
    assert phi.folds_ is not None
    train = phi.folds_ == -1
    model = GaussianNB().fit(X[train], Y[train], sample_weight=weights[train])
    assert np.allclose(phi.transform(X), model.predict_proba(X))


@pytest.mark.parametrize("cv", [5, "split"])
def test_a_class_of_one_row_cannot_be_cross_fitted(cv: Any) -> None:
    with pytest.raises(InputError, match="1 row"):
        OneHot(cv=cv).fit(X[59:180], Y[59:180])


@pytest.mark.parametrize("cv", [1, 0, True, 2.5, "loo"])
def test_impossible_folds_are_refused(cv: Any) -> None:
    with pytest.raises(InputError, match="cv="):
        OneHot(cv=cv).fit(X, Y)


def test_a_classifier_without_posteriors_is_refused_by_posterior_alone() -> None:
    class Decider(Memory):
        predict_proba = None

        def __getattribute__(self, name: str) -> Any:
            if name == "predict_proba":
                raise AttributeError(name)
            return super().__getattribute__(name)

    with pytest.raises(InputError, match="predict_proba"):
        Posterior(Decider(), cv=2).fit(X, Y)
    OneHot(Decider(), cv=2).fit(X, Y)


# -- compositions --------------------------------------------------------------------------------------------


def test_a_stack_weighs_its_parts_by_the_roots_of_normalised_weights() -> None:
    a, b = Histogram(3), RandomFourier(16, 1.0)
    features = Stack([a, b], [3, 1]).fit(X).transform(X)
    assert np.allclose(
        features, np.hstack([np.sqrt(0.75) * a.fit(X).transform(X), np.sqrt(0.25) * b.fit(X).transform(X)])
    )


def test_a_stack_adds_kernels_with_its_weights() -> None:
    a, b = RandomFourier(16, 1.0), RandomFourier(16, 3.0)
    P, A, B = (m.fit(X).transform(X[:9]) for m in (Stack([a, b], [0.2, 0.8]), a, b))
    assert np.allclose(P @ P.T, 0.2 * A @ A.T + 0.8 * B @ B.T, atol=1e-6)


def test_a_stack_has_the_weighted_mean_of_squared_bounds() -> None:
    tanh = Function(np.tanh, bound=2.0)
    assert Stack([Histogram(3), tanh], [3, 1]).fit(X).bound_ == pytest.approx(np.sqrt(0.75 + 0.25 * 4))
    assert Stack([Histogram(3), RandomFourier(16, 1.0)]).fit(X).bound_ == pytest.approx(1)
    assert Stack([Histogram(3), Function(square)]).fit(X).bound_ is None


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")]])
def test_impossible_stack_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(InputError):
        Stack([Histogram(3), Histogram(4)], weights).fit(X)


def test_an_empty_stack_is_refused() -> None:
    with pytest.raises(InputError):
        Stack([]).fit(X)


def test_a_chain_applies_one_map_after_the_other() -> None:
    first = Function(square).fit(X)
    second = RandomFourier(16, "median").fit(first.transform(X))
    phi = Chain(Function(square), RandomFourier(16, "median")).fit(X)
    assert np.allclose(phi.transform(X), second.transform(first.transform(X)), atol=1e-6)
    assert phi.sigma == pytest.approx(second.sigma) and phi.bound_ == 1


def test_only_the_first_map_of_a_chain_may_be_cross_fitted() -> None:
    with pytest.raises(InputError, match="first map"):
        Chain(Function(square), OneHot()).fit(X, Y)


def test_a_callable_is_used_as_it_is() -> None:
    assert np.array_equal(Function(square).fit(X).transform(X), X**2)


def test_a_violated_bound_is_refused() -> None:
    phi = Function(square, bound=1.0).fit(X)
    with pytest.raises(InputError, match="bound"):
        phi.accumulate(X, np.zeros(len(X), np.int32), None, np.zeros((1, 2)), np.zeros(1))


@pytest.mark.parametrize(
    "function",
    [lambda X: X.sum(), lambda X: X[:1], lambda X: X.sum(axis=1), lambda X: X * np.nan, lambda X: X.astype(str)],
)
def test_callables_that_do_not_return_one_row_of_numbers_a_row_are_refused(function: Any) -> None:
    with pytest.raises(InputError, match="callable"):
        Function(function).fit(X)


@pytest.mark.parametrize("make", [Posterior, OneHot])
def test_a_classifier_trained_elsewhere_stays_trained_in_maps_and_clones(make: Any) -> None:
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 2)) + 2 * y[:, None]
    trained = LogisticRegression().fit(X[::2], y[::2])
    features = make(trained, cv="prefit")
    expected = pp.BBSE(trained, cv="prefit").fit(X[1::2], y[1::2]).predict(X[1::2]) if make is OneHot else None
    for map_ in (features, Stack([features, Histogram(4)]), Chain(features, RandomFourier(20, 1.0))):
        shares = pp.DFM(clone(map_)).fit(X[1::2], y[1::2]).predict(X[1::2])
        np.testing.assert_allclose(shares, [0.5, 0.5], atol=1e-6)
        if map_ is features and expected is not None:
            np.testing.assert_allclose(shares, expected)
    assert clone(pp.BBSE(trained, cv="prefit")).classifier is trained
    assert clone(pp.BBSE(trained)).classifier is not trained
