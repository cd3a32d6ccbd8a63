"""What an estimator answers: class shares, the share that no class explains, and how far to trust them.

An `Estimate` is frozen, prints itself, and travels as JSON. It knows no quantifier.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio import display, intervals, storage
from proportio.blocks import Blocks
from proportio.errors import FileError
from proportio.evidence import Evidence
from proportio.shift import Residual
from proportio.uncertainty import Uncertainty

Array = npt.NDArray[np.float64]

SCHEMA = 2  # 1 had whole matrices in the place of lower triangles, and is still read


@dataclass(frozen=True)
class Diagnostics:
    """How well posed the problem was, and how well it was solved.

    `delta_min` and `lambda_min` are Δ_min and λ_min of the Gram matrix; `residual` is ‖Bα̂ − ψ‖, the part of the batch's
    embedding that the shares leave over; `kkt` certifies the optimiser. `status` is "ok" or names what to do. Where an
    exact kernel is approximated, `gram_error` is the standard error of the Gram matrix relative to what tells the classes
    apart, and `share_errors` are those of the shares as an approximation of the exact kernel's.
    """

    delta_min: float
    lambda_min: float
    residual: float
    kkt: float
    bandwidth: float | None
    n_features: int | None
    bound: float | None
    status: str = "ok"
    dependent: tuple[Any, ...] = ()
    warnings: tuple[str, ...] = ()
    gram_error: float | None = None
    share_errors: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class Estimate(Uncertainty):
    """Shares of the classes in one batch.

    `proportions` (in the order of `classes`) and `unknown` sum to one. `weights` are α̂_i/β̃_i, the importance weights
    that carry the reference over to the batch; `source_prior` is β̃.

    >>> est = Estimate.of(("a", "b"), np.array([0.25, 0.75]), source_prior=np.array([0.5, 0.5]))
    >>> est.weights.tolist(), est.unknown
    ([0.5, 1.5], 0.0)
    """

    method: str
    classes: npt.NDArray[Any]
    proportions: Array
    unknown: float
    weights: Array
    source_prior: Array
    soft: bool
    counts: npt.NDArray[np.int64]
    n_target: int
    dropped: int
    diagnostics: Diagnostics
    timings: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    positive: bool = True
    blocks: Blocks | None = None

    @classmethod
    def of(
        cls,
        classes: Any,
        proportions: Array,
        *,
        source_prior: Array,
        soft: bool = False,
        method: str = "DFM",
        counts: Any = None,
        n_target: int = 0,
        dropped: int = 0,
        diagnostics: Diagnostics | None = None,
        timings: Mapping[str, float] | None = None,
        versions: Mapping[str, str] | None = None,
        positive: bool = True,
        blocks: Blocks | None = None,
    ) -> Estimate:
        """An estimate from its shares: derives the unknown share and the weights, and freezes the arrays."""
        alpha = np.asarray(proportions, dtype=np.float64)
        prior = np.asarray(source_prior, dtype=np.float64)
        return cls(
            method=method,
            classes=_frozen(np.asarray(classes)),
            proportions=_frozen(alpha),
            unknown=max(0.0, 1 - float(alpha.sum())) if soft else 0.0,
            weights=_frozen(np.divide(alpha, prior, out=np.full_like(alpha, np.nan), where=prior > 0)),
            source_prior=_frozen(prior),
            soft=soft,
            counts=_frozen(np.asarray([0] * len(alpha) if counts is None else counts, dtype=np.int64)),
            n_target=n_target,
            dropped=dropped,
            diagnostics=diagnostics or Diagnostics(np.nan, np.nan, np.nan, np.nan, None, None, None),
            timings=timings or {},
            versions=versions or {},
            positive=positive,
            blocks=blocks,
        )

    # -- as data ---------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values only, with what the error bars and tests need (c² numbers); `from_dict` is its inverse."""
        d = self.diagnostics
        known = self.blocks is not None
        return {
            "schema": SCHEMA,
            "method": self.method,
            "soft": self.soft,
            "classes": self.classes.tolist(),
            "proportions": self.proportions.tolist(),
            "unknown": self.unknown,
            "weights": [_number(w) for w in self.weights],
            "source_prior": self.source_prior.tolist(),
            "counts": self.counts.tolist(),
            "n_target": self.n_target,
            "dropped": self.dropped,
            "diagnostics": {
                k: list(v) if isinstance(v, tuple) else _number(v) if isinstance(v, float) else v
                for k, v in asdict(d).items()
            },
            "timings": dict(self.timings),
            "versions": dict(self.versions),
            "positive": self.positive,
            "evidence": self.evidence.to_dict() if known or "evidence" in self.__dict__ else None,
            "residual": self.residual.to_dict() if known or "residual" in self.__dict__ else None,
        }

    def to_json(self, *, indent: int | None = None) -> str:
        """Strict JSON: no NaN, shortest digits that read back to the same float."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Estimate:
        """Inverse of `to_dict`."""
        try:
            if data["schema"] > SCHEMA:
                raise FileError(f"this estimate has schema {data['schema']}, newer than {SCHEMA}: upgrade proportio.")
            raw = dict(data["diagnostics"])
            known = {f.name for f in fields(Diagnostics)}
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items() if k in known}
            for name in ("delta_min", "lambda_min", "residual", "kkt"):
                values[name] = float("nan") if values[name] is None else float(values[name])
            per_class = _per_class(data)
            return cls.of(
                [*data["classes"]],
                per_class["proportions"],
                source_prior=per_class["source_prior"],
                soft=bool(data["soft"]),
                method=str(data["method"]),
                counts=data["counts"],
                n_target=int(data["n_target"]),
                dropped=int(data["dropped"]),
                diagnostics=Diagnostics(**values),
                timings=dict(data["timings"]),
                versions=dict(data["versions"]),
                positive=bool(data.get("positive", True)),
            )._with(
                Evidence.from_dict(data["evidence"]) if data.get("evidence") else None,
                Residual.from_dict(data["residual"]) if data.get("residual") else None,
            )
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"not the JSON of an estimate: {error!r}.") from error

    def _with(self, evidence: Evidence | None, residual: Residual | None = None) -> Estimate:
        """With what is known already, so that it is not computed again."""
        self.__dict__.update({k: v for k, v in (("evidence", evidence), ("residual", residual)) if v is not None})
        return self

    @classmethod
    def from_json(cls, text: str | bytes) -> Estimate:
        """Inverse of `to_json`."""
        try:
            data = json.loads(text, parse_float=_finite, parse_constant=_finite)
        except (ValueError, RecursionError) as error:
            raise FileError(f"not JSON: {error}.") from error
        return cls.from_dict(data)

    def to_frame(self) -> Any:
        """A pandas frame: class, share and its 95% limits, source share, weight, source rows; the unknown share last."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas. to_dict() needs nothing.") from error
        lines, more = self._lines(), [0] if self.soft else []
        return pd.DataFrame(
            {
                "class": [*self.classes.tolist(), *(["(unknown)"] if self.soft else [])],
                "proportion": [line.share for line in lines],
                "low": [line.limits[0] if line.limits else np.nan for line in lines],
                "high": [line.limits[1] if line.limits else np.nan for line in lines],
                "source_prior": [line.prior or 0.0 for line in lines],
                "weight": [*self.weights, *([np.nan] if self.soft else [])],
                "source_rows": [*self.counts.tolist(), *more],
            }
        )

    # -- for people ------------------------------------------------------------------------------------------

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        truth: Any = None,
        curve: Any = None,
        profile: Any = None,
        title: str | None = None,
    ) -> str:
        """The report as one HTML file, written to `path` whole or not at all where one is given.

        `truth` are the true shares where they are known, `curve` is a model's `bandwidth_curve_`, `profile` what its
        `explain_unknown` says.
        """
        from proportio import report

        text = report.page(self, truth=truth, curve=curve, profile=profile, title=title)
        if path is not None:
            storage.write(path, text.encode())
        return text

    def plot(self, ax: Any = None, *, truth: Any = None) -> Any:
        """The shares with their intervals beside the reference's, on a matplotlib axis; `proportio.report` has more figures."""
        from proportio import report

        return report.plot_shares(self, ax, truth=truth)

    def _limits(self, level: float = display.LEVEL) -> Array | None:
        """The intervals where the estimate has what they take, the unknown share's last."""
        if self.blocks is None and "evidence" not in self.__dict__:
            return None
        shares = intervals.interval(self.evidence, level)
        return np.vstack([shares, intervals.unknown_interval(self.evidence, level)]) if self.soft else shares

    def _lines(self, level: float = display.LEVEL) -> list[display.Line]:
        """Name, share, interval and source share of each class, and of the unknown after them."""
        names = [str(k) for k in self.classes] + (["(unknown)"] if self.soft else [])
        shares = [*self.proportions.tolist(), *([self.unknown] if self.soft else [])]
        priors = [*self.source_prior.tolist(), *([None] if self.soft else [])]
        limits = self._limits(level)
        ranges = [None] * len(names) if limits is None else [(float(low), float(high)) for low, high in limits]
        return [display.Line(*line) for line in zip(names, shares, ranges, priors, strict=True)]

    def _notes(self) -> list[str]:
        status = [] if self.diagnostics.status == "ok" else [f"status: {self.diagnostics.status}"]
        return status + [f"note: {w}" for w in self.diagnostics.warnings if w != self.diagnostics.status]

    def __repr__(self) -> str:
        return self.describe()

    def describe(self, level: float = display.LEVEL) -> str:
        """The table of shares as text, with intervals of this level."""
        rows = f"{self.n_target:,} rows"
        if self.dropped:
            rows += f" ({self.dropped:,} incomplete rows dropped)"
        return display.text(f"Estimate by {self.method} of {rows}", self._lines(level), self._notes(), level)

    def without_blocks(self) -> Estimate:
        """The same answer without its block sums, half a megabyte: all but the bootstrap still works."""
        return replace(self, blocks=None)._with(self.evidence, self.residual)

    def _repr_html_(self) -> str:
        return display.page(f"{self.method}, {self.n_target:,} rows", self._lines(), self._notes())


def _frozen(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    out = a.copy()
    out.flags.writeable = False
    return out


def _per_class(data: Mapping[str, Any]) -> dict[str, Array]:
    values = {n: np.asarray(data[n], dtype=np.float64) for n in ("proportions", "source_prior", "counts")}
    if any(v.shape != (len(data["classes"]),) for v in values.values()):
        raise ValueError("it does not have one number for each class")
    return values


def _finite(digits: str) -> float:
    value = float(digits)
    if not np.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is beyond all that an estimate holds")
    return value


def _number(x: float) -> float | None:
    return float(x) if np.isfinite(x) else None
