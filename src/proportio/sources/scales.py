"""Scales on which cytometers' numbers are compared: arcsinh, and the logicle of Moore and Parks.

    arcsinh    x = arcsinh(y / cofactor)
    logicle    the x with y = S(x),  S(x) = a eᵇˣ − c e⁻ᵈˣ + f right of x₁, S(x₁) = S″(x₁) = 0, S(1) = T, and −S(2x₁ − x) left of it

T is the top of the scale, M the decades of it, W those of its linear part, A those below zero.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw

from proportio.errors import InputError

Array = npt.NDArray[np.float64]

STEPS = 60


class Scale(ABC):
    """A monotone map of one channel's numbers; `spec` says it in words that `scale` reads back."""

    word: ClassVar[str]

    @abstractmethod
    def __call__(self, y: npt.ArrayLike) -> Array:
        """The numbers on this scale."""

    @abstractmethod
    def inverse(self, x: npt.ArrayLike) -> Array:
        """Back to the cytometer's numbers."""

    @property
    def spec(self) -> str:
        """`word:parameter,parameter`, with the digits that read back to the same floats."""
        values = ",".join(repr(float(getattr(self, f.name))) for f in fields(self))  # type: ignore[arg-type]
        return f"{self.word}:{values}"


@dataclass(frozen=True)
class Arcsinh(Scale):
    """x = arcsinh(y / cofactor): 150 is usual for fluorescence, 5 for mass cytometry.

    >>> Arcsinh(5.0)([0.0, 5.0]).round(4).tolist()
    [0.0, 0.8814]
    """

    cofactor: float = 150.0
    word: ClassVar[str] = "arcsinh"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.cofactor) and self.cofactor > 0):
            raise InputError(f"the cofactor of arcsinh is {self.cofactor:g}: give a number above 0, usually 150 or 5.")

    def __call__(self, y: npt.ArrayLike) -> Array:
        return np.asarray(np.arcsinh(np.asarray(y, dtype=np.float64) / self.cofactor))

    def inverse(self, x: npt.ArrayLike) -> Array:
        return np.asarray(self.cofactor * np.sinh(np.asarray(x, dtype=np.float64)))


@dataclass(frozen=True)
class Logicle(Scale):
    """The inverse of the biexponential S: linear around 0, logarithmic at the top, 1 at T.

    >>> scale = Logicle()
    >>> scale([0.0, 262144.0]).round(4).tolist()
    [0.1111, 1.0]
    """

    T: float = 262144.0
    W: float = 0.5
    M: float = 4.5
    A: float = 0.0
    word: ClassVar[str] = "logicle"

    def __post_init__(self) -> None:
        T, W, M, A = self.T, self.W, self.M, self.A
        if not (
            all(map(math.isfinite, (T, W, M, A)))
            and T > 0
            and 0 < M <= 100
            and 0 <= 2 * W <= M
            and -W <= A <= M - 2 * W
        ):
            raise InputError(
                f"logicle with T={T:g}, W={W:g}, M={M:g}, A={A:g}: it takes T > 0, 0 < M ≤ 100, 0 ≤ W ≤ M/2 and -W ≤ A ≤ M - 2W."
            )

    @property
    def _constants(self) -> tuple[float, float, float, float, float, float]:
        """a, b, c, d, f and x₁; d solves 2 ln(d/b) + w(b + d) = 0, by Lambert's W."""
        b = (self.M + self.A) * math.log(10)
        w = self.W / (self.M + self.A)
        x2 = self.A / (self.M + self.A)
        x1, x0 = x2 + w, x2 + 2 * w
        v = w * b / 2
        d = b if v < 1e-15 else b / v * float(lambertw(v * math.exp(-v)).real)
        ratio = math.exp(x0 * (b + d))  # c / a
        zero = math.exp(b * x1) - ratio * math.exp(-d * x1)  # −f / a
        a = self.T / (math.exp(b) - zero - ratio * math.exp(-d))
        return a, b, ratio * a, d, -zero * a, x1

    def __call__(self, y: npt.ArrayLike) -> Array:
        a, b, c, d, f, x1 = self._constants
        values = np.asarray(y, dtype=np.float64)
        size = np.abs(values)
        # S is convex right of x₁, so that Newton's steps fall to the root from any bound above it; here are two
        x = np.minimum(
            x1 + size / (a * b * math.exp(b * x1) + c * d * math.exp(-d * x1)), np.log(size / a + math.exp(b * x1)) / b
        )
        with np.errstate(invalid="ignore"):  # infinity in is NaN out, for the boundary to refuse
            for _ in range(STEPS):
                up, down = a * np.exp(b * x), c * np.exp(-d * x)
                step = (up - down + f - size) / (b * up + d * down)
                x = x - step
                if not (np.abs(step) > 1e-14).any():
                    break
        return np.asarray(np.where(values < 0, 2 * x1 - x, x))

    def inverse(self, x: npt.ArrayLike) -> Array:
        a, b, c, d, f, x1 = self._constants
        x = np.asarray(x, dtype=np.float64)
        right = x1 + np.abs(x - x1)
        return np.asarray(np.sign(x - x1) * (a * np.exp(b * right) - c * np.exp(-d * right) + f))


SCALES: dict[str, type[Arcsinh] | type[Logicle]] = {"arcsinh": Arcsinh, "logicle": Logicle}


def scale(spec: str) -> Scale | None:
    """The scale that a `spec` names, None for "none"; parameters are in order or by name, and may be left out.

    >>> scale("arcsinh:5"), scale("logicle:W=1,M=4")
    (Arcsinh(cofactor=5.0), Logicle(T=262144.0, W=1.0, M=4.0, A=0.0))
    """
    if not isinstance(spec, str):
        raise InputError(f"transform={spec!r} is not text: {GRAMMAR}")
    word, _, rest = spec.partition(":")
    if spec == "none":
        return None
    if word not in SCALES:
        raise InputError(f"transform={spec!r} is no scale that proportio knows: {GRAMMAR}")
    names = [f.name for f in fields(SCALES[word])]
    given: dict[str, float] = {}
    for k, part in enumerate(rest.split(",") if rest else []):
        name, equals, number = part.rpartition("=")
        name = name.strip() if equals else names[k] if k < len(names) else part
        if name not in names or name in given:
            raise InputError(f"transform={spec!r}: {part!r} is not one of the parameters {', '.join(names)}; {GRAMMAR}")
        try:
            given[name] = float(number)
        except ValueError as error:
            raise InputError(f"transform={spec!r}: {number!r} is not a number; {GRAMMAR}") from error
    return SCALES[word](**given)


GRAMMAR = "write none, arcsinh:150 (its cofactor) or logicle:262144,0.5,4.5,0 (T, W, M, A)."
