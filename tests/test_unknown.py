"""The certified unknown share and the flagged rows: exact limits, and simulations that could have refuted them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import proportio as pp
from proportio.reproduce.worlds import background, far, gaussians, middle
from proportio.unknown import clopper_pearson

F64 = NDArray[np.float64]
CENTRES = 3 * np.eye(3)
MODELS: dict[str, Any] = {
    "RFFM": pp.RFFM(200, 1.5, soft=True, standardize=False),
    "KMM": pp.KMM("gaussian", 1.0, standardize=False),
    "BBSE": pp.BBSE(soft=True, cv=2),
    "AutoDFM": pp.AutoDFM(n_features=100, cv=2),
}
every = pytest.mark.parametrize("name", MODELS)


def classes(rng: np.random.Generator, n: int) -> tuple[F64, Any]:
    y = rng.integers(0, 3, n)
    return CENTRES[y] + rng.normal(size=(n, 3)), y


def batch(rng: np.random.Generator, m: int, unknown: float, where: float) -> tuple[F64, Any]:
    """Rows of the classes, and a share of rows around (where, where, where); with what they are."""
    Z = classes(rng, m)[0]
    other = rng.random(m) < unknown
    Z[other] = where + 0.7 * rng.normal(size=(int(other.sum()), 3))
    return Z, other


def fitted(name: str) -> Any:
    return MODELS[name].fit(*classes(np.random.default_rng(0), 600))


def test_limits_are_clopper_and_pearsons() -> None:
    """At the limit, what was seen or more extreme has probability δ: the definition, by binomial tails."""
    for k, n in ((0, 20), (1, 20), (7, 20), (19, 20), (20, 20)):
        high, low = clopper_pearson(k, n, 0.05, upper=True), clopper_pearson(k, n, 0.05, upper=False)
        assert 0 <= low <= k / n <= high <= 1
        assert high == 1 if k == n else stats.binom.cdf(k, n, high) == pytest.approx(0.05)
        assert low == 0 if k == 0 else stats.binom.sf(k - 1, n, low) == pytest.approx(0.05)


@every
@pytest.mark.parametrize(("unknown", "where"), [(0.0, 5.0), (0.1, 5.0), (0.2, 1.0)])
def test_the_certified_share_exceeds_the_true_one_at_most_as_often_as_it_says(
    name: str, unknown: float, where: float
) -> None:
    """δ = 0.2, 100 draws: Monte Carlo error 0.04. Where nothing is unknown, almost nothing is certified."""
    model, over = fitted(name), 0
    for rep in range(100):
        rng = np.random.default_rng([1, rep])
        Z, _ = batch(rng, 300, unknown, where)
        over += model.unknown_at_least(Z, classes(rng, 300), delta=0.2).share > unknown
    assert over <= 20 + 8


def test_a_large_unknown_share_far_from_the_classes_is_certified() -> None:
    rng = np.random.default_rng(2)
    Z, _ = batch(rng, 2000, 0.3, 6.0)
    found = fitted("RFFM").unknown_at_least(Z, classes(rng, 2000))
    assert 0.2 < float(found) < 0.3 and found.inside > found.at_most


def test_the_certificate_is_the_same_for_the_same_seed() -> None:
    rng = np.random.default_rng(2)
    Z, known = batch(rng, 500, 0.3, 6.0)[0], classes(rng, 500)
    one, two, other = (fitted("RFFM").unknown_at_least(Z, known, random_state=s) for s in (0, 0, 1))
    assert one == two != other


@every
def test_flags_keep_their_false_discovery_rate(name: str) -> None:
    """A tenth of the batch is unknown, FDR 0.2, 60 draws: Monte Carlo error about 0.02 of the mean false-discovery proportion."""
    model, wrong = fitted(name), []
    for rep in range(60):
        rng = np.random.default_rng([3, rep])
        Z, other = batch(rng, 400, 0.1, 6.0)
        flags = model.flag_unknown(Z, classes(rng, 600), fdr=0.2).flags
        wrong.append((flags & ~other).sum() / max(flags.sum(), 1))
    assert np.mean(wrong) <= 0.2 + 0.04


def test_rows_far_from_all_classes_are_flagged() -> None:
    rng = np.random.default_rng(4)
    Z, other = batch(rng, 500, 0.2, 6.0)
    found = fitted("RFFM").flag_unknown(Z, classes(rng, 1500), fdr=0.1)
    assert found.flags[other].mean() > 0.9 and found.flags[~other].mean() < 0.06
    assert found.pvalues.shape == (500,) and (found.pvalues > 0).all()


@every
def test_pvalues_of_known_rows_are_at_least_uniform(name: str) -> None:
    rng = np.random.default_rng(5)
    p = fitted(name).flag_unknown(classes(rng, 3000)[0], classes(rng, 900)).pvalues
    for level in (0.05, 0.2, 0.5):
        assert (p <= level).mean() <= level + 3 * np.sqrt(level / 300) * 0.5


@pytest.mark.parametrize("method", ["unknown_at_least", "flag_unknown"])
def test_calibration_rows_of_every_class_are_asked_for(method: str) -> None:
    rng = np.random.default_rng(6)
    (Xc, yc), Z = classes(rng, 200), classes(rng, 50)[0]
    ask = getattr(fitted("RFFM"), method)
    with pytest.raises(pp.ProportioError, match="lack 2 rows of class 2"):
        ask(Z, (Xc[yc < 2], yc[yc < 2]))
    with pytest.raises(pp.ProportioError, match="have unknown labels 7"):
        ask(Z, (Xc, np.where(np.arange(200) == 3, 7, yc)))
    with pytest.raises(pp.ProportioError, match=r"must be a pair \(Xc, yc\)"):
        ask(Z, Xc)
    with pytest.raises(pp.ProportioError, match="=2 must lie between 0 and 1"):
        ask(Z, (Xc, yc), 2)


def test_the_certificate_finds_the_gap_between_the_known_and_a_far_unknown() -> None:
    """A threshold right above the known rows leaves little but the limits' own width between the certified share and 0.1."""
    model = pp.RFFM(2000, 1.5, soft=True).fit(*classes(np.random.default_rng(0), 3000))
    found = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        Z, _ = batch(rng, 2000, 0.1, 9.0)
        found.append(model.unknown_at_least(Z, classes(rng, 9000), random_state=seed))
    assert np.mean([f.share for f in found]) > 0.08
    assert max(f.at_most for f in found) < 0.01


# -- on the paper's noises, and against the formula of the bias (benchmarks/study_unknown.py has the full size) --------


@pytest.mark.parametrize("noise", [far, background, middle])
def test_certificate_and_flags_on_the_papers_noises(noise: Any) -> None:
    """A fifth of the batch is unknown; δ = 0.05, FDR 0.1, 40 draws: Monte Carlo errors 0.034 and about 0.006."""
    over, wrong, found = [], [], []
    for rep in range(40):
        rng = np.random.default_rng([7, rep])
        world = gaussians(rng, 4, 3)
        X, y = world.rows(rng, [150] * 4)
        known = world.rows(rng, [600] * 4)
        Z, other = world.rows(rng, rng.multinomial(800, world.shares))[0], rng.random(800) < 0.2
        Z[other] = noise(rng, int(other.sum()), world, X)
        model = pp.RFFM(300, 2.0, True, standardize=False).fit(X, y)
        over.append(model.unknown_at_least(Z, known, random_state=rep).share > 0.2)
        flags = model.flag_unknown(Z, known, fdr=0.1).flags
        wrong.append((flags & ~other).sum() / max(flags.sum(), 1))
        found.append(flags[other].mean())
    assert np.mean(over) <= 0.05 + 0.07
    assert np.mean(wrong) <= 0.12
    assert np.mean(found) > 0.4


def test_the_unknown_share_is_biased_as_its_formula_says() -> None:
    """E α̂_0 − α_0 = −α_0 1ᵀG⁻¹κ with G and κ of the populations in closed form; 40 draws: Monte Carlo error 1.3 %."""
    sigma, share, strange = 1.5, 0.3, np.array([1.0, 4.0])
    means = np.array([[0.0, 0.0], [3.0, 0.0]])

    def product(a: F64, b: F64) -> float:
        """⟨Φ(N(a, I)), Φ(N(b, I))⟩ = (σ²/v)^{d/2} exp(−‖a − b‖²/2v), v = σ² + 2, d = 2."""
        v = sigma**2 + 2
        return float(sigma**2 / v * np.exp(-np.square(a - b).sum() / (2 * v)))

    G = np.array([[product(a, b) for b in means] for a in means])
    predicted = -share * np.linalg.solve(G, [product(a, strange) for a in means]).sum()
    seen = []
    for rep in range(40):
        rng = np.random.default_rng([8, rep])
        y = np.repeat([0, 1], 3000)
        Z = means[rng.integers(0, 2, 8000)]
        Z[rng.random(8000) < share] = strange
        model = pp.KMM("gaussian", sigma, True, standardize=False).fit(means[y] + rng.normal(size=(6000, 2)), y)
        shares = model.predict(Z + rng.normal(size=(8000, 2)))
        assert shares.min() > 0 and shares.sum() < 1  # interior
        seen.append(1 - shares.sum() - share)
    assert predicted < -0.03
    assert np.mean(seen) == pytest.approx(predicted, rel=0.05)
