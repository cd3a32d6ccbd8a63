"""Betting: no fair game multiplies the capital, by enumeration; the intervals hold at all times, by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from proportio.betting import BETS, LARGEST, Capital, kept, on_blocks, on_rows, weight


@pytest.mark.parametrize("n", [1, 2, 3, 5, 40, 1000])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_bet_on_a_block_is_expected_to_gain(n: int, sign: int) -> None:
    k = np.arange(n + 1)
    for p in (0.0, 0.001, 0.1, 0.5, 0.93, 1.0):
        for guess in (0.0, 0.3, p, 1.0):
            paid = np.array(
                [on_blocks(np.array([[x / n]]), np.array([float(n)]), np.array([guess])).paid[0] for x in k]
            )
            gain = logsumexp(binom.logpmf(k, n, p)[:, None] + sign * BETS * (k - n * p)[:, None] - paid, axis=0)
            assert (gain <= 1e-12).all()


def test_fan_s_inequality_holds_as_far_as_it_is_used() -> None:
    xi, v = np.meshgrid(np.linspace(-1, 1, 401), np.linspace(0, LARGEST, 200))
    assert (np.exp(v * xi - (-np.log1p(-v) - v) * xi**2) <= 1 + v * xi + 1e-12).all()


def test_rows_are_blocks_of_one_row_and_parts_add_up() -> None:
    rng = np.random.default_rng(0)
    values, guess = rng.random((30, 4)), rng.random(4)
    whole = on_rows(values, guess)
    for other in (on_blocks(values, np.ones(30), guess), on_rows(values[:11], guess) + on_rows(values[11:], guess)):
        np.testing.assert_allclose(other.total, whole.total, rtol=1e-13)
        np.testing.assert_allclose(other.paid, whole.paid, rtol=1e-13)
        assert other.rows == whole.rows == 30


def test_empty_blocks_change_nothing() -> None:
    means, rows, guess = np.array([[0.2], [0.9], [0.4]]), np.array([3.0, 0.0, 2.0]), np.array([0.5])
    a, b = on_blocks(means, rows, guess), on_blocks(means[[0, 2]], rows[[0, 2]], guess)
    np.testing.assert_array_equal(a.paid, b.paid)
    np.testing.assert_array_equal(a.total, b.total)


def test_rows_that_were_foreseen_leave_the_price_alone() -> None:
    capital = Capital(2)
    for _ in range(5):
        capital.add(on_rows(np.full((10, 2), 0.25), np.full(2, 0.25)))
    price = np.log(2 * len(BETS) * 2 / (0.05 * weight(capital.start)))
    np.testing.assert_allclose(capital.radius(0.05), np.tile((price / BETS[0] / capital.rows)[:, None], 2), rtol=1e-14)
    np.testing.assert_allclose(capital.mean, 0.25, rtol=1e-14)


def test_the_intervals_hold_at_all_times_from_all_starts() -> None:
    """400 streams of rows that are 0 or 1 with chances that wander: too often wrong is more than 5% + 3 Monte Carlo errors."""
    rng = np.random.default_rng(1)
    streams, batches, size = 400, 250, 6
    capital, wrong = Capital(streams), np.zeros(streams, dtype=bool)
    chance = np.clip(0.1 + 0.08 * np.sin(np.arange(batches) / 20), 0, 1)
    total, guess = np.append(0.0, np.cumsum(chance)), np.full(streams, 0.5)
    for t in range(batches):
        values = (rng.random((size, streams)) < chance[t]).astype(float)
        capital.add(on_rows(values, guess))
        guess = 0.9 * guess + 0.1 * values.mean(axis=0)
        truth = (total[t + 1] - total[capital.start]) / (t + 1 - capital.start)
        wrong |= (np.abs(capital.mean - truth[:, None]) > capital.radius(0.05 * streams)).any(axis=0)  # each at 0.05
    assert wrong.mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / streams)


def test_a_small_variance_makes_a_narrow_interval() -> None:
    rng = np.random.default_rng(2)
    capital, guess = Capital(1), np.array([0.5])
    for _ in range(100):
        values = 0.5 + 0.02 * rng.standard_normal((100, 1))
        capital.add(on_rows(values, guess))
    hoeffding = np.sqrt(np.log(2 / 0.025) / 2 / 1e4)
    assert capital.radius(0.05)[0, 0] < hoeffding / 5
    assert 0.02 * np.sqrt(2 * np.log(1 / 0.05) / 1e4) < capital.radius(0.05)[0, 0]  # nothing can be narrower


def test_the_levels_of_all_starts_sum_to_one() -> None:
    assert weight(np.arange(10**6)).sum() == pytest.approx(1, abs=1e-6)
    assert weight(np.arange(10**6)).sum() <= 1


def test_starts_are_few_never_come_back_and_are_never_far() -> None:
    followed = np.zeros(0, dtype=np.int64)
    for now in range(1, 3000):
        followed = np.append(followed, now - 1)
        followed = followed[kept(followed, now)]
        assert followed[0] == 0
        assert len(followed) <= 8 + 4 * np.log2(now)
        for change in (now // 3, now // 2, now - 9):
            if change >= 0:
                after = followed[followed >= change][0]
                assert after - change <= max((now - change) / 4, 1)
    all_starts = np.arange(3000)
    later = kept(all_starts, 3500)
    assert (kept(all_starts, 3200) | ~later).all()  # what is followed later is followed now
