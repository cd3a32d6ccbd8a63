"""Arcsinh and logicle: their defining equations, their published properties, and what their words mean."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

import proportio as pp
from proportio.sources.scales import Arcsinh, Logicle, scale

PARAMETERS = [
    (262144.0, 0.5, 4.5, 0.0),
    (262144.0, 0.0, 4.5, 0.0),
    (1000.0, 1.0, 4.0, 0.5),
    (262144.0, 2.25, 4.5, 0.0),
    (10000.0, 1.0, 4.5, -1.0),
    (262144.0, 0.5, 4.5, 3.5),
]


@st.composite
def logicles(draw: st.DrawFn) -> Logicle:
    M = draw(st.floats(1, 8))
    W = draw(st.floats(0, 0.5)) * M
    A = draw(st.floats(0, 0.999)) * (M - W) - W
    return Logicle(draw(st.floats(10, 1e6)), W, M, max(A, -0.9 * M))


def biexponential(T: float, W: float, M: float, A: float) -> tuple[float, float, float, float, float, float]:
    """a, b, c, d, f and x₁ from the paper's equations, d by bisection."""
    b, w = (M + A) * math.log(10), W / (M + A)
    x2 = A / (M + A)
    x1, x0 = x2 + w, x2 + 2 * w
    d = b if w == 0 else brentq(lambda d: 2 * math.log(d / b) + w * (b + d), b * math.exp(-w * b), b, xtol=1e-15)
    c_a = math.exp(x0 * (b + d))
    f_a = c_a * math.exp(-d * x1) - math.exp(b * x1)
    a = T / (math.exp(b) - c_a * math.exp(-d) + f_a)
    return a, b, c_a * a, d, f_a * a, x1


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_logicle_inverts_the_biexponential_of_its_parameters(parameters: tuple[float, float, float, float]) -> None:
    a, b, c, d, f, x1 = biexponential(*parameters)
    x = np.linspace(x1, 1.05, 2001)
    y = a * np.exp(b * x) - c * np.exp(-d * x) + f
    np.testing.assert_allclose(Logicle(*parameters)(y), x, rtol=0, atol=1e-12)


@given(logicles())
def test_logicle_has_its_defining_properties(s: Logicle) -> None:
    x1 = (s.A + s.W) / (s.M + s.A)
    assert s(s.T) == pytest.approx(1, abs=1e-12)  # the top of the scale
    assert s(0.0) == pytest.approx(x1, abs=1e-12)  # A and W decades from the bottom
    h = 1e-4
    around = s.inverse(np.array([x1 - h, x1, x1 + h]))
    assert abs(around[0] + around[2]) <= 1e-9 * s.T  # odd around 0, so that S″(x₁) = 0
    y = np.array([-0.7, -0.01, 0.3, 1.2]) * s.T
    np.testing.assert_allclose(s(-y), 2 * x1 - s(y), atol=1e-12)
    np.testing.assert_allclose(s.inverse(s(y)), y, rtol=1e-9)
    assert (np.diff(s(np.linspace(-s.T, s.T, 1001))) > 0).all()


def test_logicle_without_a_linear_part_is_an_inverse_sine() -> None:
    s = Logicle(1000.0, 0.0, 4.0, 0.0)  # S(x) = 2a sinh(bx)
    y = np.linspace(-900, 900, 101)
    b = 4 * math.log(10)
    np.testing.assert_allclose(s(y), np.arcsinh(y / 1000 * math.sinh(b)) / b, atol=1e-12)


def test_arcsinh_is_arcsinh_of_y_over_its_cofactor() -> None:
    y = np.linspace(-1e4, 1e4, 11)
    np.testing.assert_allclose(Arcsinh(5.0)(y), np.arcsinh(y / 5), rtol=1e-15)
    np.testing.assert_allclose(Arcsinh(5.0).inverse(Arcsinh(5.0)(y)), y, rtol=1e-12)


@pytest.mark.parametrize("s", [Arcsinh(5.0), Logicle(1e4, 0.1, 4.0, 1 / 3)])
def test_a_scale_is_read_back_from_its_words(s: Arcsinh | Logicle) -> None:
    assert scale(s.spec) == s


def test_parameters_may_be_named_or_left_out() -> None:
    assert scale("none") is None
    assert scale("arcsinh") == Arcsinh(150.0)
    assert scale("logicle:1000,M=4") == Logicle(1000.0, 0.5, 4.0, 0.0)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("asinh:5", "no scale"),
        ("arcsinh:five", "'five' is not a number"),
        ("arcsinh:0", "above 0"),
        ("arcsinh:nan", "above 0"),
        ("arcsinh:1,2", "not one of the parameters"),
        ("logicle:Q=3", "not one of the parameters T, W, M, A"),
        ("logicle:1000,T=5", "not one of the parameters"),
        ("logicle:W=3,M=4", "W ≤ M/2"),
        ("logicle:A=9", "A ≤ M - 2W"),
        (3, "is not text"),
    ],
)
def test_words_that_mean_no_scale_are_refused(spec: str, says: str) -> None:
    with pytest.raises(pp.InputError, match=says):
        scale(spec)


def test_what_is_not_finite_stays_so_for_the_boundary_to_refuse() -> None:
    assert not np.isfinite(Logicle()([np.inf, -np.inf, np.nan])).any()
