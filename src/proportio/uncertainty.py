"""What an estimate can say of its own error: intervals, regions, bounds, and the tests of label shift and of drift.

Everything is read from the block sums of the two sketches, once and without rows; from JSON too, but for the bootstrap.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from proportio import bootstrap, intervals, shift
from proportio.blocks import Array, Blocks
from proportio.bounds import Bound, Ingredients, corollary, sharp, theorem1, theorem2
from proportio.errors import BoundError, InputError, ProportioWarning
from proportio.evidence import Evidence
from proportio.shift import DriftTest, LabelShiftTest, Residual

BOUNDS: dict[str, Callable[..., Bound]] = {
    "sharp": sharp,
    "theorem1": theorem1,
    "theorem2": theorem2,
    "corollary": corollary,
}


class Uncertainty:
    """The part of an `Estimate` that says how far to trust it."""

    method: str
    classes: npt.NDArray[Any]
    proportions: Array
    source_prior: Array
    soft: bool
    positive: bool
    diagnostics: Any
    blocks: Blocks | None

    @functools.cached_property
    def evidence(self) -> Evidence:
        """α̃, V and what else the error bars are made of; computed when first asked for, and kept in JSON."""
        return Evidence.of(self._blocks("error bars"))

    @functools.cached_property
    def residual(self) -> Residual:
        """T, tr S_r and tr S_r² of the label-shift test; computed when first asked for, and kept in JSON."""
        return Residual.of(self._blocks("a label-shift test"), self.evidence)

    @property
    def testable(self) -> bool:
        """Whether the label-shift test can be had: not of shares made by hand."""
        return self.blocks is not None or "residual" in self.__dict__

    def _blocks(self, what: str) -> Blocks:
        if self.blocks is None:
            raise InputError(
                f"{what}: this estimate no longer has the block sums that it takes (it was read from JSON, or made by hand): "
                "call the method on the estimate that model.estimate(X) returns. Methods of pp.baselines never have them: "
                "use DFM, RFFM, KMM or BBSE; for intervals alone, draws=200 where the method has draws."
            )
        return self.blocks

    @property
    def unconstrained(self) -> Array:
        """α̃, free of constraints and of the diagonal bias of G: what `covariance` and the intervals are built around."""
        return self.evidence.alpha.copy()

    @property
    def covariance(self) -> Array:
        """V, the covariance of α̃ over both samples, reference and batch."""
        return self.evidence.covariance.copy()

    def interval(
        self,
        level: float = 0.95,
        *,
        of: intervals.What = "proportions",
        simultaneous: bool = False,
        method: Literal["normal", "bootstrap"] = "normal",
        draws: int = bootstrap.DRAWS,
        random_state: Any = 0,
    ) -> Array:
        """(n_classes, 2): limits that hold each true share with probability `level`, all at once with `simultaneous`.

        They assume that label shift holds: see the verdict of `label_shift_test` first.
        `of="weights"` are those of α_i/β̃_i; `of="unknown"`, (2,), those of the unknown share if what is unknown embeds at right
        angles to the classes: else it is usually more. `method="bootstrap"` takes multiplier draws in the place of t quantiles.
        """
        intervals.check_level(level)
        for note in intervals.notes(self.evidence, self.classes.tolist()):
            warnings.warn(note, ProportioWarning, stacklevel=2)
        draw = None
        if method == "bootstrap":
            draw = bootstrap.shares(self._blocks("method='bootstrap'"), self.evidence, draws, random_state)
        elif method != "normal":
            raise InputError(f"method={method!r} is neither 'normal' nor 'bootstrap'.")
        if of == "unknown":
            return intervals.unknown_interval(self.evidence, level, draws=draw)
        limits = intervals.interval(self.evidence, level, simultaneous=simultaneous, draws=draw)
        if of == "proportions":
            return limits
        if of == "weights":
            return np.asarray(limits / self.source_prior[:, None])
        raise InputError(f"of={of!r} is not 'proportions', 'unknown' or 'weights'.")

    def region(self, level: float = 0.95) -> intervals.Region:
        """The set of shares that holds all of α* at once with probability `level`; `.contains(alpha)`."""
        return intervals.Region(self.evidence, intervals.check_level(level))

    def bound(
        self,
        delta: float = 0.05,
        kind: Literal["sharp", "theorem1", "theorem2", "corollary"] = "sharp",
        **departure: Any,
    ) -> Bound:
        """‖α̂ − α*‖₂ ≤ radius with probability ≥ 1 − δ for any number of rows, under the `assumption` that it names.

        `departure` are the sizes that Theorem 2 (perpendicular, parallel) and Corollary 1 (unknown, norm, parallel) ask for.
        """
        C = self.diagnostics.bound
        if C is None:
            raise BoundError(
                f"{self.method} has features without a bound C, and without one nothing can be certified: use bounded ones "
                "(RFFM, BBSE, a Gaussian kernel), declare one (Function(f, bound=C), KMM('energy', radius=R)), or ask for "
                "interval()."
            )
        e = self.evidence
        known = Ingredients(e.G, e.counts, e.m, C, self.soft, self.positive)
        if kind not in BOUNDS:
            raise InputError(f"kind={kind!r} is not 'sharp', 'theorem1', 'theorem2' or 'corollary'.")
        asked = [p for p in inspect.signature(BOUNDS[kind]).parameters.values() if p.kind is p.KEYWORD_ONLY]
        needed = {p.name for p in asked if p.default is p.empty}
        optional = {p.name for p in asked} - needed
        if not needed <= set(departure) <= needed | optional:
            raise InputError(
                f"kind={kind!r} takes {', '.join(sorted(needed)) or 'nothing more'}{' and may take ' if optional else ''}"
                f"{', '.join(sorted(optional))}; got {', '.join(sorted(departure)) or 'none of them'}."
            )
        given = {"estimate": self.proportions, **departure} if kind == "sharp" else departure
        return BOUNDS[kind](known, delta, **given)

    def label_shift_test(
        self,
        *,
        level: float = 0.05,
        tolerance: float = 0.1,
        method: Literal["gamma", "bootstrap"] = "gamma",
        draws: int = bootstrap.DRAWS,
        random_state: Any = 0,
    ) -> LabelShiftTest:
        """Whether new shares of the known classes explain the batch: statistic, pvalue, effect_size, verdict.

        A shift within the span of the classes, one that some mixture of them imitates, is undetectable by any such test.
        """
        null = None
        if method == "bootstrap":
            null = shift.bootstrap_null(self._blocks("method='bootstrap'"), self.evidence, draws, random_state)
        elif method != "gamma":
            raise InputError(f"method={method!r} is neither 'gamma' nor 'bootstrap'.")
        return shift.label_shift_test(self.residual, level=level, tolerance=tolerance, null=null)

    def drift_test(self, *, source: Literal["fixed", "sampled"] = "fixed", level: float = 0.05) -> DriftTest:
        """Whether the shares moved from those of the reference, taken as they are or as a sample of a population's."""
        return shift.drift_test(self.evidence, self.source_prior, source=source, level=level)
