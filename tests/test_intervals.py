"""Intervals and regions: the sandwich against dense matrices, what they are at the edges, and coverage by simulation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.linear_model import LogisticRegression

import proportio as pp
from proportio.blocks import Blocks, within
from proportio.evidence import UNSEEN_ROWS, Evidence, influences, once
from proportio.gram import GramSystem, contrasts
from proportio.intervals import Region, hotelling, interval, t_quantile
from proportio.sketch import BlockSketch

F64 = NDArray[np.float64]

CENTRES = np.array([[0.0, 0.0, 0.0], [2.5, 0.0, 0.0], [0.0, 2.5, 2.5]])
RNG = np.random.default_rng(2)
Y = np.repeat([0, 1, 2], [60, 90, 120])
X = CENTRES[Y] + RNG.normal(size=(270, 3))
TRUE = np.array([0.2, 0.3, 0.5])
BATCH = CENTRES[RNG.choice(3, 400, p=TRUE)] + RNG.normal(size=(400, 3))
WEIGHTS = RNG.uniform(0.2, 3, 270)

MAKE: dict[str, Callable[[bool], Any]] = {
    "RFFM": lambda soft: pp.RFFM(80, 1.2, soft, standardize=False),
    "KMM": lambda soft: pp.KMM("gaussian", 1.2, soft, standardize=False),
    "energy": lambda soft: pp.KMM("energy", soft=soft),
    "BBSE": lambda soft: pp.BBSE(cv=3, soft=soft),
    "posterior": lambda soft: pp.DFM(pp.features.Posterior(cv=3), soft=soft),
}
every = pytest.mark.parametrize("name", MAKE)
both = pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])


def estimate(name: str, soft: bool) -> pp.Estimate:
    est: pp.Estimate = MAKE[name](soft).fit(X, Y).estimate(BATCH)
    return est


# -- the formula ---------------------------------------------------------------------------------------------------


def covariances(S: F64, W: F64) -> F64:
    """Cov Φ̂ of every group, D × D, from block sums (groups, blocks, D) and their weights."""
    total = W.sum(axis=1)
    centred = S - W[:, :, None] * (S.sum(axis=1) / total[:, None])[:, None]
    room = total**2 * (1 - np.square(W / total[:, None]).sum(axis=1))
    return np.einsum("gkd,gke->gde", centred, centred) / room[:, None, None]


def dense(model: Any, batch: BlockSketch, soft: bool) -> tuple[F64, F64, F64]:
    """α̃, V and v° from D × D covariance matrices of the means, with nothing shared but the block sums."""
    source, c = model.sketch_, 3
    sums = np.concatenate([s.sums * s.amplitude for s in (source, batch)])
    weight = np.concatenate([s.tally.weight for s in (source, batch)])
    means, covs = sums.sum(axis=1) / weight.sum(axis=1)[:, None], covariances(sums, weight)
    B, psi = means[:c].T, means[c]
    span = B if soft else B @ contrasts(c)
    outside = np.eye(len(psi)) - span @ np.linalg.pinv(span)
    tally = source.tally
    rows = (np.square(tally.totals) * np.diag(B.T @ B) - tally.norm2.sum(axis=1)) / (
        np.square(tally.totals) - tally.weight2.sum(axis=1)
    )
    noise = np.diag(B.T @ B) - rows
    share = np.array([np.trace(outside @ C) / np.trace(C) for C in covs[:c]])
    G = B.T @ B - np.diag(noise * share)
    free = np.eye(c) if soft else contrasts(c)
    H = free @ np.linalg.inv(free.T @ G @ free) @ free.T
    centre = np.zeros(c) if soft else np.full(c, 1 / c)
    alpha = centre + H @ (B.T @ psi - G @ centre)
    r = psi - B @ alpha
    V = H @ B.T @ covs[c] @ B @ H
    for i in range(c):
        J = H @ (np.outer(np.eye(c)[i], r) - alpha[i] * B.T)
        V = V + J @ covs[i] @ J.T
    few_sums = sums.reshape(c + 1, 16, 4, -1).sum(axis=2)
    V2 = products_of_noises(few_sums, weight.reshape(c + 1, 16, 4).sum(axis=2), np.eye(len(psi)) - B @ H @ B.T, alpha)
    V = V @ np.linalg.pinv(V + H @ V2 @ H, rcond=1e-9, hermitian=True) @ V
    length = tally.norm2.sum() / tally.weight2.sum() / len(psi)
    pseudo = 1 / batch.tally.effective[0] ** 2 + np.sum((alpha / tally.effective) ** 2)
    R = np.eye(c) - 1 / c
    return alpha, V + UNSEEN_ROWS * length * pseudo * R @ H @ R, noise * share


def products_of_noises(S: F64, W: F64, outside: F64, alpha: F64) -> F64:
    """Cov of the vector of ⟨ε_i, (I − P) Σ_g w_g ε_g⟩, w = (−α̃, 1), for independent means' noises ε_g, term by term."""
    c, covs, weight = len(alpha), covariances(S, W), np.append(-alpha, 1.0)
    T = np.einsum("de,aef,fg,bgd->ab", outside, covs, outside, covs, optimize=True)
    for g in range(c + 1):  # tr S² of one group, which its blocks' own products would inflate
        p, F = W[g] / W[g].sum(), S[g] / W[g].sum()
        F = (F - p[:, None] * F.sum(axis=0)) / np.sqrt(1 - p @ p)
        T[g, g] = within(F @ outside @ F.T, p)
    out = np.zeros((c, c))
    for i in range(c):
        for g in range(c + 1):
            out[i, i] += weight[g] ** 2 * T[i, g] * (2 if g == i else 1)
        for k in set(range(c)) - {i}:
            out[i, k] = weight[i] * weight[k] * T[i, k]
    return out


@both
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["RFFM", "BBSE", "posterior"])
def test_the_covariance_is_the_sandwich_of_dense_covariance_matrices(name: str, weighted: bool, soft: bool) -> None:
    model = MAKE[name](soft).fit(X, Y, sample_weight=WEIGHTS if weighted else None)
    batch = model.sketch(BATCH)
    est = model.estimate(batch)
    alpha, V, beyond = dense(model, batch, soft)
    np.testing.assert_allclose(est.unconstrained, alpha, atol=1e-9)
    np.testing.assert_allclose(est.covariance, V, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(est.blocks.residual_noise[:3], beyond, atol=1e-9 if name == "RFFM" else 1e-7)  # type: ignore[union-attr]


@both
def test_an_exact_kernel_gives_the_evidence_of_its_features(soft: bool) -> None:
    """k(x, y) = ⟨Φ(x), Φ(y)⟩ by pair sums, against the sums of Φ themselves: all but the two unseen rows, which need D."""
    fourier = MAKE["RFFM"](soft).fit(X, Y)
    phi = fourier.features_
    paired = pp.KMM(lambda A, B: phi.embed(np.asarray(A)) @ phi.embed(np.asarray(B)).T, soft=soft, standardize=False)
    a, b = fourier.estimate(BATCH), paired.fit(X, Y).estimate(BATCH)
    assert a.blocks is not None and b.blocks is not None
    for name in ("along", "gram", "lengths", "noise", "residual_noise"):
        np.testing.assert_allclose(getattr(a.blocks, name), getattr(b.blocks, name), atol=2e-6)
    np.testing.assert_allclose(a.unconstrained, b.unconstrained, atol=1e-4)
    np.testing.assert_allclose(a.interval(), b.interval(), atol=2e-3)


@both
def test_unconstrained_bbse_is_the_inverse_confusion_matrix(soft: bool) -> None:
    f = LogisticRegression().fit(X[::2], Y[::2])
    est = pp.BBSE(f, cv="prefit", soft=soft).fit(X[1::2], Y[1::2]).estimate(BATCH)
    said = f.predict(X[1::2])
    M = np.array([[np.mean(said[Y[1::2] == j] == i) for j in range(3)] for i in range(3)])
    share = np.array([np.mean(f.predict(BATCH) == i) for i in range(3)])
    np.testing.assert_allclose(est.unconstrained, np.linalg.solve(M, share), atol=1e-9)


@every
@both
def test_the_unconstrained_shares_are_the_estimate_but_for_the_diagonal_bias(name: str, soft: bool) -> None:
    """With plenty of rows both tend to the truth; here they differ by less than the error bars."""
    est = estimate(name, soft)
    assert (np.abs(est.unconstrained - est.proportions) < 2 * np.sqrt(np.diag(est.covariance))).all()


@every
def test_hard_shares_sum_to_one_and_so_do_their_errors(name: str) -> None:
    est = estimate(name, False)
    assert abs(est.unconstrained.sum() - 1) < 1e-9
    np.testing.assert_allclose(est.covariance @ np.ones(3), 0, atol=1e-12)
    assert np.linalg.matrix_rank(est.covariance, tol=1e-10) == 2


@both
def test_parts_sketched_apart_give_the_intervals_of_the_whole(soft: bool) -> None:
    model = MAKE["RFFM"](soft).fit(X, Y)
    parts = model.sketch(BATCH[:150]) + model.sketch(BATCH[150:], start=150)
    np.testing.assert_allclose(model.estimate(parts).interval(), model.estimate(BATCH).interval(), atol=1e-12)


def test_intervals_follow_their_classes_when_labels_are_permuted() -> None:
    names = np.array(["w", "a", "k"])
    plain = MAKE["RFFM"](True).fit(X, Y).estimate(BATCH)
    renamed = MAKE["RFFM"](True).fit(X, names[Y]).estimate(BATCH)
    order = [list(renamed.classes).index(n) for n in names]
    np.testing.assert_allclose(renamed.interval()[order], plain.interval(), atol=1e-9)


def test_equal_blocks_have_one_degree_of_freedom_less_than_blocks() -> None:
    est = pp.RFFM(40, 1.0).fit(np.tile(X, (200, 1)), np.tile(Y, 200)).estimate(BATCH)
    assert est.blocks is not None
    np.testing.assert_allclose(est.blocks.dof[:3], 63, rtol=0.02)  # 12,000 rows a class and more


def test_rare_events_have_twice_as_many_degrees_of_freedom_as_events() -> None:
    """Two rows of one class are mistaken, none of the others: the variance rests on those two."""
    features = np.repeat([[1.0, 0.0], [0.0, 1.0]], [1000, 1000], axis=0)
    features[:2] = [0.0, 1.0]
    y = np.repeat([0, 1], 1000)
    model = pp.DFM(pp.features.Function(lambda A: A, bound=1.0)).fit(features, y)
    est = model.estimate(np.repeat([[1.0, 0.0]], 5000, axis=0))
    assert 4 <= est.evidence.dof[0] < 5
    assert any("few rows carry the noise" in w for w in est.diagnostics.warnings)


def test_quantiles_are_students_and_hotellings() -> None:
    np.testing.assert_allclose(t_quantile(np.array([5.0, 63.0]), 0.95), stats.t.ppf(0.975, [5, 63]))
    assert hotelling(63, 1, 0.9) == pytest.approx(stats.t.ppf(0.95, 63) ** 2)
    assert hotelling(30, 4, 0.95) == pytest.approx(30 * 4 / 27 * stats.f.ppf(0.95, 4, 27))
    assert hotelling(3, 5, 0.95) == np.inf


# -- intervals as sets ---------------------------------------------------------------------------------------------


@every
@both
def test_intervals_lie_in_the_unit_interval_and_grow_with_the_level(name: str, soft: bool) -> None:
    est = estimate(name, soft)
    narrow, wide, all_at_once = est.interval(0.8), est.interval(0.99), est.interval(0.8, simultaneous=True)
    for limits in (narrow, wide, all_at_once):
        assert limits.shape == (3, 2) and (limits >= 0).all() and (limits <= 1).all()
        assert (limits[:, 0] <= limits[:, 1]).all()
    assert (wide[:, 0] <= narrow[:, 0]).all() and (narrow[:, 1] <= wide[:, 1]).all()
    assert (all_at_once[:, 1] - all_at_once[:, 0] >= (narrow[:, 1] - narrow[:, 0]) * (1 - 1e-9)).all()


@both
def test_the_region_holds_its_centre_and_nothing_outside_the_simplex(soft: bool) -> None:
    est = estimate("RFFM", soft)
    region = est.region(0.95)
    assert region.kind == "ellipsoid" and region.contains(TRUE)
    inside = est.proportions / max(est.proportions.sum(), 1)
    assert region.contains(inside) and not est.region(0.95).contains([1, 0, 0])
    assert not region.contains([-0.1, 0.5, 0.6]) and not region.contains([0.3, 0.3, 0.5])
    if not soft:
        assert not region.contains(inside * 0.99)


def test_for_two_classes_region_and_interval_are_the_same_set() -> None:
    two = Y < 2
    est = pp.RFFM(80, 1.2).fit(X[two], Y[two]).estimate(BATCH[:100])
    low, high = est.interval(0.9)[0]
    region = est.region(0.9)
    for a in (low + 1e-6, high - 1e-6):
        assert region.contains([a, 1 - a])
    for a in (low - 1e-3, high + 1e-3):
        assert not region.contains([a, 1 - a])


def test_simultaneous_limits_are_tightened_by_each_other() -> None:
    """Two classes sure to have 0.4 each leave the third at most 0.2."""
    evidence = Evidence(
        soft=False, G=np.eye(3), counts=np.full(3, 9.0), m=9.0, alpha=np.array([0.45, 0.45, 0.1]),
        covariance=np.diag([1e-4, 1e-4, 1.0]), H=np.eye(3), basis=contrasts(3), blind=np.empty((3, 0)),
        dof=np.full(3, 60.0), dof_unknown=60.0, dof_region=60.0,
    )  # fmt: skip
    assert interval(evidence)[2, 1] == 1.0
    limits = interval(evidence, simultaneous=True)
    assert limits[2, 1] == pytest.approx(1 - limits[0, 0] - limits[1, 0]) and limits[2, 1] < 0.2


def test_intervals_of_the_weights_and_of_the_unknown_share() -> None:
    hard, soft = estimate("RFFM", False), estimate("RFFM", True)
    np.testing.assert_allclose(hard.interval(of="weights"), hard.interval() / hard.source_prior[:, None])
    assert hard.interval(of="unknown").tolist() == [0, 0]
    low, high = soft.interval(of="unknown")
    assert low == 0 <= high < 0.2
    far = np.concatenate([BATCH, np.full((100, 3), 30.0) + RNG.normal(size=(100, 3))])
    low, high = MAKE["RFFM"](True).fit(X, Y).estimate(far).interval(of="unknown")
    assert low < 0.2 < high and low > 0.1


# -- where little can be told --------------------------------------------------------------------------------------


def test_twin_classes_get_the_whole_range_and_the_third_its_interval() -> None:
    X2, y2 = np.concatenate([X, X[Y == 1]]), np.concatenate([Y, np.full(90, 9)])
    with pytest.warns(pp.ProportioWarning, match="cannot tell 1, 9 apart"):
        est = pp.RFFM(80, 1.2).fit(X2, y2).estimate(BATCH)
    with pytest.warns(pp.ProportioWarning, match="not separated beyond noise: 1, 9"):
        limits = est.interval()
    assert limits[[1, 3]].tolist() == [[0, 1], [0, 1]]
    assert (limits[[0, 2], 1] - limits[[0, 2], 0] < 0.3).all()


def test_a_class_of_one_row_leaves_nothing_to_tell() -> None:
    X1, y1 = np.concatenate([X, CENTRES[:1] - 5]), np.append(Y, 7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pp.ProportioWarning)
        est = pp.RFFM(80, 1.2).fit(X1, y1).estimate(BATCH)
        assert "the smallest class has 1 and the batch 400" in est.diagnostics.warnings[0]
        assert est.interval().tolist() == [[0, 1]] * 4
        assert est.region().kind == "everything" and est.region().contains(np.full(4, 0.25))
        assert est.label_shift_test().verdict == "too little data to tell" and np.isnan(est.drift_test().pvalue)
        pp.Estimate.from_json(est.to_json()).interval()
        alone = pp.RFFM(80, 1.2).fit(X, Y).estimate(BATCH[:1])
        assert alone.interval().tolist() == [[0, 1]] * 3 and "the batch 1" in alone.diagnostics.warnings[0]


@pytest.mark.parametrize(("fewest", "noted"), [(6, True), (49, True), (50, False), (300, False)])
def test_few_rows_are_said_to_be_few_with_their_number(fewest: int, noted: bool) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [fewest, 400])
    Z = CENTRES[rng.integers(0, 2, 500)] + rng.normal(size=(500, 3))
    est = pp.RFFM(80, 1.2).fit(CENTRES[y] + rng.normal(size=(len(y), 3)), y).estimate(Z)
    assert any(f"the smallest class has {fewest}" in w for w in est.diagnostics.warnings) == noted
    if noted:
        with pytest.warns(pp.ProportioWarning, match="few rows: the smallest class"):
            est.interval()
    else:
        assert not est.diagnostics.warnings


def test_weighted_rows_are_as_few_as_they_are_worth() -> None:
    """100 rows a class of which one weighs as much as the others together are worth 4."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    w = np.where(np.arange(200) % 100 == 0, 99.0, 1.0)
    est = pp.RFFM(80, 1.2).fit(CENTRES[y] + rng.normal(size=(200, 3)), y, sample_weight=w).estimate(BATCH)
    assert any("the smallest class has 4" in note for note in est.diagnostics.warnings)


def test_what_is_counted_twice_is_taken_out_once() -> None:
    """V − V₂ while V₂ is small; where it is as large as V, half of V; never indefinite, and nothing outside V's range."""
    V = np.diag([4.0, 1.0, 0.0])
    small, least = once(V, 1e-4 * V)
    np.testing.assert_allclose(small, V * (1 - 1e-4), atol=1e-7)
    assert least == pytest.approx(1 - 1e-4)
    np.testing.assert_allclose(once(V, V)[0], V / 2)
    assert np.linalg.eigvalsh(once(V, 100 * np.ones((3, 3)))[0]).min() > -1e-12
    assert once(np.zeros((2, 2)), np.eye(2)) == (pytest.approx(np.zeros((2, 2))), 1.0)


def test_more_dimensions_than_degrees_of_freedom_turn_the_region_into_a_box() -> None:
    c = 6
    evidence = Evidence(
        soft=False, G=np.eye(c), counts=np.full(c, 9.0), m=9.0, alpha=np.full(c, 1 / c), covariance=0.001 * np.eye(c),
        H=np.eye(c), basis=contrasts(c), blind=np.empty((c, 0)), dof=np.full(c, 4.0), dof_unknown=4.0, dof_region=4.0,
    )  # fmt: skip
    region = Region(evidence, 0.95)
    assert region.kind == "box" and region.contains(np.full(c, 1 / c)) and not region.contains(np.eye(c)[0])
    assert not region.contains(np.append(interval(evidence, simultaneous=True)[0, 1] + 0.01, np.full(c - 1, 0.1)))


# -- as data -------------------------------------------------------------------------------------------------------


@every
@both
def test_an_estimate_from_json_has_the_same_error_bars(name: str, soft: bool) -> None:
    est = estimate(name, soft)
    again = pp.Estimate.from_json(est.to_json())
    for of in ("proportions", "weights", "unknown"):
        np.testing.assert_array_equal(again.interval(of=of), est.interval(of=of))  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.interval(simultaneous=True), est.interval(simultaneous=True))
    np.testing.assert_array_equal(again.covariance, est.covariance)
    assert again.region().contains(TRUE) == est.region().contains(TRUE)
    np.testing.assert_equal(again.label_shift_test().to_dict(), est.label_shift_test().to_dict())
    assert again.drift_test() == est.drift_test()
    with pytest.raises(
        pp.ProportioError, match=r"no longer has the block sums.*the estimate that model.estimate\(X\) returns"
    ):
        again.interval(method="bootstrap")


def test_json_without_error_bars_is_still_an_estimate() -> None:
    data = estimate("RFFM", False).to_dict()
    for name in ("evidence", "residual", "positive"):
        del data[name]
    old = pp.Estimate.from_dict(data)
    assert old.positive
    with pytest.raises(pp.ProportioError, match="error bars: this estimate no longer has the block sums"):
        old.interval()


def test_damaged_error_bars_are_refused() -> None:
    data = estimate("RFFM", False).to_dict()
    del data["evidence"]["alpha"]
    with pytest.raises(pp.ProportioError, match="not the JSON of an estimate"):
        pp.Estimate.from_dict(data)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e: e.interval(95), "level=95 must lie between 0 and 1"),
        (lambda e: e.interval(True), "level=True"),
        (lambda e: e.region("0.95"), "level='0.95'"),
        (lambda e: e.interval(of="odds"), "of='odds' is not"),
        (lambda e: e.interval(method="jackknife"), "method='jackknife' is neither"),
        (lambda e: e.interval(method="bootstrap", draws=3), "draws=3: a bootstrap needs"),
        (lambda e: e.region().contains([0.5, 0.5]), r"shape \(2,\): give one finite share"),
        (lambda e: e.region().contains([0.5, 0.5, np.nan]), "one finite share"),
    ],
)
def test_wrong_questions_are_answered_with_the_remedy(call: Any, message: str) -> None:
    with pytest.raises(pp.ProportioError, match=message):
        call(estimate("RFFM", False))


# -- the bootstrap -------------------------------------------------------------------------------------------------


@both
def test_the_bootstrap_is_the_same_for_the_same_seed(soft: bool) -> None:
    est = estimate("RFFM", soft)
    one, two, other = (est.interval(method="bootstrap", random_state=s) for s in (5, 5, 6))
    assert np.array_equal(one, two) and not np.array_equal(one, other)


@every
@both
def test_the_bootstrap_agrees_with_the_sandwich(name: str, soft: bool) -> None:
    """A second way to the same widths: 2,000 draws have a Monte Carlo error of 3 % in a 95 % quantile."""
    est = estimate(name, soft)
    for simultaneous in (False, True):
        plain = est.interval(simultaneous=simultaneous)
        drawn = est.interval(simultaneous=simultaneous, method="bootstrap", draws=2000)
        np.testing.assert_allclose(np.diff(drawn), np.diff(plain), rtol=0.2)
    if soft and name == "RFFM":
        np.testing.assert_allclose(
            est.interval(of="unknown", method="bootstrap"), est.interval(of="unknown"), atol=0.02
        )


# -- coverage (small; benchmarks/study.py has the full size) -------------------------------------------------------


def coverage(
    make: Callable[[], Any],
    shares: F64,
    counts: list[int],
    m: int,
    *,
    reps: int = 400,
    weigh: bool = False,
    centres: F64 = CENTRES,
) -> dict[str, float]:
    """Shares of draws in which the truth is covered. 400 draws: Monte Carlo error 0.011 at 0.95."""
    y = np.repeat(np.arange(3), counts)
    hits: dict[str, list[float]] = {"interval": [], "region": [], "target only": [], "uncorrected": []}
    for rep in range(reps):
        rng = np.random.default_rng([rep, m])
        rows = centres[y] + rng.normal(size=(len(y), centres.shape[1]))
        batch = centres[rng.choice(3, m, p=shares)] + rng.normal(size=(m, centres.shape[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pp.ProportioWarning)
            est = make().fit(rows, y, sample_weight=rng.choice([1.0, 4.0], len(y)) if weigh else None).estimate(batch)
            limits = est.interval()
        e, b = est.evidence, est.blocks
        assert b is not None
        hits["interval"].append(float(((limits[:, 0] <= shares) & (shares <= limits[:, 1])).mean()))
        hits["region"].append(est.region().contains(shares))
        U = influences(b, e.H, e.alpha)
        only = np.sqrt(np.square(U[:, b.starts[-1] :]).sum(axis=1))
        hits["target only"].append(float((np.abs(e.alpha - shares) <= 1.96 * only).mean()))
        H, biased = uncorrected(b.system, est.soft)
        spread = t_quantile(e.dof, 0.95) * np.sqrt(np.square(influences(b, H, biased)).sum(axis=1))
        hits["uncorrected"].append(float((np.abs(biased - shares) <= spread).mean()))
    return {k: float(np.mean(v)) for k, v in hits.items()}


def uncorrected(system: GramSystem, soft: bool) -> tuple[F64, F64]:
    """H and the unconstrained shares of G as it is, with the rows' products with themselves on its diagonal."""
    free = np.eye(3) if soft else contrasts(3)
    H = free @ np.linalg.inv(free.T @ system.G @ free) @ free.T
    centre = np.zeros(3) if soft else np.full(3, 1 / 3)
    return H, np.asarray(centre + H @ (system.q - system.G @ centre))


@both
def test_coverage_is_nominal_with_few_rows_and_not_with_the_noise_of_the_batch_alone(soft: bool) -> None:
    seen = coverage(lambda: pp.RFFM(80, 1.5, soft, standardize=False), TRUE, [30, 30, 30], 1000)
    assert 0.93 <= seen["interval"] <= 0.98 and 0.92 <= seen["region"] <= 0.985
    assert seen["target only"] < 0.8


def test_without_its_diagonal_bias_taken_out_the_soft_form_is_not_covered() -> None:
    """Five dimensions, a narrow kernel, few rows: G shrinks the shares by several standard errors, G° does not."""
    far = 2 * np.random.default_rng(123).normal(size=(3, 5))
    seen = coverage(lambda: pp.RFFM(200, 1.0, True, standardize=False), TRUE, [30, 30, 30], 1000, centres=far)
    assert seen["interval"] >= 0.93 and seen["uncorrected"] < 0.6


@both
@pytest.mark.parametrize("shares", [[0, 0, 1], [0, 0.4, 0.6]], ids=["vertex", "absent"])
def test_coverage_holds_on_the_boundary_of_the_simplex(shares: list[float], soft: bool) -> None:
    seen = coverage(lambda: pp.RFFM(80, 1.5, soft, standardize=False), np.array(shares, float), [100, 100, 100], 600)
    assert seen["interval"] >= 0.93 and seen["region"] >= 0.92


@pytest.mark.parametrize(
    "make",
    [
        lambda: pp.KMM("gaussian", 1.5, standardize=False),
        lambda: pp.BBSE(cv=3),
        lambda: pp.RFFM(80, 1.5, positive=False, standardize=False),
    ],
    ids=["KMM", "cross-fitted BBSE", "positive=False"],
)
def test_coverage_of_other_methods(make: Callable[[], Any]) -> None:
    seen = coverage(make, TRUE, [60, 40, 150], 400, reps=300)  # Monte Carlo error 0.013
    assert 0.92 <= seen["interval"] <= 0.985 and 0.915 <= seen["region"] <= 0.99


def test_coverage_with_weighted_rows() -> None:
    seen = coverage(lambda: pp.RFFM(80, 1.5, standardize=False), TRUE, [80, 80, 80], 400, weigh=True)
    assert 0.93 <= seen["interval"] <= 0.98


def test_blocks_are_kept_by_reference_and_not_in_the_answer() -> None:
    est = estimate("RFFM", False)
    assert isinstance(est.blocks, Blocks) and "blocks" not in est.to_dict()
