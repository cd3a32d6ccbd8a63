"""A few labels of the batch: the two ends, the middle by simulation, and what happens when label shift fails."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import proportio as pp

F64 = npt.NDArray[np.float64]
CENTRES = np.array([[0.0, 0.0], [1.6, 0.0], [0.8, 1.4]])
TRUE = np.array([0.2, 0.3, 0.5])


def world(seed: int, n: int = 150, m: int = 1000, shift: float = 0.0) -> tuple[F64, Any, F64, Any]:
    """Three overlapping classes; `shift` moves the third one in the batch only."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], n)
    z = rng.choice(3, m, p=TRUE)
    moved = CENTRES + np.array([[0.0], [0.0], [1.0]]) * [shift, -shift]
    return CENTRES[y] + rng.normal(size=(len(y), 2)), y, moved[z] + rng.normal(size=(m, 2)), z


def model(soft: bool = False) -> pp.RFFM:
    return pp.RFFM(n_features=100, bandwidth=1.0, soft=soft)


@pytest.mark.parametrize("soft", [False, True])
def test_without_labels_it_is_the_plain_estimate(soft: bool) -> None:
    X, y, batch, _ = world(0)
    fitted = model(soft).fit(X, y)
    plain, sharp = fitted.estimate(batch), fitted.sharpen(batch, [], [])
    np.testing.assert_array_equal(sharp.proportions, plain.proportions)
    assert sharp.unknown == plain.unknown and sharp.n_labelled == 0 and "0 of them labelled" in repr(sharp)
    np.testing.assert_allclose(sharp.interval(), plain.interval(), atol=1e-9)
    np.testing.assert_allclose(sharp.covariance, plain.covariance, atol=1e-12)


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_with_all_rows_labelled_it_counts(soft: bool, given: bool) -> None:
    X, y, batch, z = world(1)
    chances = np.ones(len(z)) if given else None
    sharp = model(soft).fit(X, y).sharpen(batch, np.arange(len(z)), z, probabilities=chances)
    counted = np.bincount(z) / len(z)
    np.testing.assert_allclose(sharp.proportions, counted, atol=1e-7)
    np.testing.assert_allclose(sharp.interval(of="batch"), np.stack([counted, counted], axis=1), atol=1e-4)
    width = np.diff(sharp.interval(), axis=1)[:, 0] / 2  # that of a count of 1,000
    np.testing.assert_allclose(width, 1.96 * np.sqrt(counted * (1 - counted) / len(z)), rtol=0.1)


def test_labels_alone_tell_apart_what_matching_cannot() -> None:
    """Class 7 looks exactly as class 2: matching knows their sum, and 300 labels how it divides, three parts to one."""
    X, y, batch, z = world(3)
    X2, y2 = np.concatenate([X, X[y == 2]]), np.concatenate([y, np.full((y == 2).sum(), 7)])
    rng = np.random.default_rng(0)
    truth = np.where((z == 2) & (rng.random(len(z)) < 0.25), 7, z)
    rows = rng.choice(len(z), 300, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pp.ProportioWarning)
        fitted = model().fit(X2, y2)
        none, some = fitted.sharpen(batch, [], []), fitted.sharpen(batch, rows, truth[rows])
    assert none.interval()[[2, 3]].tolist() == [[0, 1], [0, 1]]
    limits, shares = some.interval(), np.array([(truth == k).mean() for k in (0, 1, 2, 7)])
    assert ((limits[:, 0] <= shares) & (shares <= limits[:, 1])).all()
    assert (np.diff(limits, axis=1) < 0.2).all() and some.proportions[2] > 2 * some.proportions[3]


def simulate(runs: int, labels: int, *, shift: float = 0.0, useful: bool = False, **options: Any) -> dict[str, Any]:
    errors: dict[str, list[F64]] = {"joined": [], "plain": [], "counting": []}
    covered, within, agreement = [], [], []
    for seed in range(runs):
        X, y, batch, z = world(seed, shift=shift)
        fitted = model().fit(X, y)
        rng = np.random.default_rng([seed, 1])
        if useful:
            rows, chances = fitted.worth_labelling(batch, labels, random_state=rng)
        else:
            rows, chances = rng.choice(len(z), labels, replace=False), None
        sharp = fitted.sharpen(batch, rows, z[rows], probabilities=chances, **options)
        own = np.bincount(z, minlength=3) / len(z)
        for values, truth, level in ((covered, TRUE, "population"), (within, own, "batch")):
            limits = sharp.interval(of=level)  # type: ignore[arg-type]
            values.append((limits[:, 0] <= truth) & (truth <= limits[:, 1]))
        agreement.append(sharp.agreement)
        errors["joined"].append(sharp.proportions - own)
        errors["plain"].append(fitted.predict(batch) - own)
        errors["counting"].append(np.bincount(z[rows], minlength=3) / len(rows) - own)
    return {
        "coverage": np.mean(covered, axis=0),
        "within": np.mean(within, axis=0),
        "agreement": np.array(agreement),
        **{k: float(np.sqrt(np.mean(np.square(v)))) for k, v in errors.items()},
    }


RUNS = 200  # a coverage of 0.95 is known to 0.015


@pytest.mark.parametrize("useful", [False, True])
def test_labels_and_matching_together_beat_each_alone_and_their_intervals_hold(useful: bool) -> None:
    found = simulate(RUNS, 100, useful=useful)
    assert found["joined"] < 0.95 * found["plain"] and found["joined"] < 0.75 * found["counting"]
    assert found["coverage"].min() > 0.95 - 3 * 0.015 and found["coverage"].max() < 0.99
    assert found["within"].min() > 0.95 - 3 * 0.015
    assert np.mean(found["agreement"] < 0.05) < 0.05 + 3 * 0.015


def test_labels_worth_asking_for_tell_more_than_labels_at_random() -> None:
    random, useful = (simulate(RUNS, 60, useful=u, trust="labels") for u in (False, True))
    assert useful["joined"] < random["joined"]  # measured: 0.94


def test_trusting_labels_alone_is_right_where_label_shift_fails() -> None:
    found = {trust: simulate(150, 100, shift=0.7, trust=trust) for trust in ("labels", "both")}
    assert found["labels"]["coverage"].min() > 0.95 - 3 * 0.018
    assert found["both"]["coverage"].min() < 0.8  # matching is off here
    assert np.mean(found["both"]["agreement"] < 0.05) > 0.5  # and the labels say so
    assert found["labels"]["joined"] < found["labels"]["counting"]


def test_labels_name_what_is_unknown_in_the_soft_form() -> None:
    X, y, batch, z = world(2)
    known = y != 0
    fitted = model(soft=True).fit(X[known], y[known])
    rows = np.random.default_rng(0).choice(len(z), 400, replace=False)
    sharp = fitted.sharpen(batch, rows, z[rows], trust="labels")
    assert abs(sharp.unknown - np.mean(z == 0)) < 0.06
    with pytest.raises(pp.InputError, match="unknown class 0: the hard form has no room"):
        model().fit(X[known], y[known]).sharpen(batch, rows, z[rows])


def test_probabilities_of_labels_worth_asking_for_add_up() -> None:
    X, y, batch, _ = world(3)
    fitted = model().fit(X, y)
    for size in (10, 300, 990, 1000):
        rows, chances = fitted.worth_labelling(batch, size, random_state=0)
        assert abs(chances.sum() - size) < 1e-6 * size and 0 < chances.min() <= chances.max() <= 1
        assert abs(len(rows) - size) < 5 * np.sqrt(size) + 1
        np.testing.assert_array_equal(rows, fitted.worth_labelling(batch, size, random_state=0)[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([0, 0], [1, 1]), "each once"),
        (([2000], [1]), "from 0 to 999"),
        (([-1], [1]), "from 0 to 999"),
        (([0.5], [1]), "positions of rows"),
        (([0, 1], [1]), "1 labels but X has 2 rows"),
        (([0], [7]), "unknown class 7"),
    ],
)
def test_labels_that_do_not_fit_are_refused(arguments: Any, words: str) -> None:
    X, y, batch, _ = world(4)
    with pytest.raises(pp.InputError, match=words):
        model().fit(X, y).sharpen(batch, *arguments)


@pytest.mark.parametrize("chances", [[0.5], np.zeros(1000), np.full(1000, 2.0), np.full(1000, np.nan)])
def test_impossible_probabilities_are_refused(chances: Any) -> None:
    X, y, batch, z = world(4)
    with pytest.raises(pp.InputError, match="the chance of being labelled"):
        model().fit(X, y).sharpen(batch, [3], z[[3]], probabilities=chances)


def test_other_impossible_wishes_are_refused() -> None:
    X, y, batch, z = world(4)
    fitted = model().fit(X, y)
    for size in (0, 1001, 2.5, True):
        with pytest.raises(pp.InputError, match="size="):
            fitted.worth_labelling(batch, size)  # type: ignore[arg-type]
    with pytest.raises(pp.InputError, match="trust="):
        fitted.sharpen(batch, [0], z[:1], trust="matching")  # type: ignore[arg-type]
    with pytest.raises(pp.InputError, match="needs labels"):
        fitted.sharpen(batch, [], [], trust="labels")
    with pytest.raises(pp.InputError, match="of='rows'"):
        fitted.sharpen(batch, [0], z[:1]).interval(of="rows")  # type: ignore[arg-type]
