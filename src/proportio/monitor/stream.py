"""A stream of batches watched against one reference: shares batch by batch, and two alarms that hold over the whole stream.

    drift          the running mean of some f_j leaves what the reference as a whole expects:   H₀: α_t = β for all t
    label shift    no shares explain the running means of all f_j at once:                      H₀: label shift, α_t may wander

Without change, the chance that either is ever raised is at most `level`, however long the stream and whenever one looks: the
intervals of `betting` hold at all times and from all starting times. A part of the level pays for the noise of the reference.
Something new in the stream moves the f_j as well, so that it may be called drift before it is called broken label shift. No number
of batches shows a change that is smaller than the noise of the reference, or that lies within the span of the classes.
"""

from __future__ import annotations

import importlib
import json
import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from proportio import storage
from proportio.betting import Bet, Capital
from proportio.errors import FileError, InputError, MismatchError
from proportio.estimate import Estimate
from proportio.features.base import CHUNK
from proportio.intervals import check_level, interval
from proportio.monitor import exposition
from proportio.monitor.functionals import Functionals, Noise, Source
from proportio.quantifier import Quantifier
from proportio.sketch import Sketch, plain
from proportio.sources import read_batches

Array = npt.NDArray[np.float64]

FOR_REFERENCE = 0.3  # of the level
HALF_LIFE = 8  # batches after which the guess of the next one has forgotten half
REMEMBERED = 10_000  # batch ids that are told again
KINDS = ("drift", "label_shift")


@dataclass(frozen=True)
class MonitorStep:
    """What is known after a batch: its shares, and the evidence gathered so far.

    `drift` and `label_shift` are evidence relative to what an alarm takes: above 1 the alarm is raised, and it stays raised.
    (Below 1 `label_shift` is an upper limit.) `alarms` are all that are raised, `since` the batch after which the stream has to
    be read to see why. `low` and `high` hold the shares of this batch at level 1 − `level`, under label shift.
    """

    batch: int
    batch_id: str | None
    rows: int
    proportions: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    unknown: float
    drift: float
    label_shift: float
    alarms: tuple[str, ...]
    since: Mapping[str, int]
    estimate: Estimate | None = field(default=None, compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values; `from_dict` is the inverse, but for the estimate."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "estimate"}
        return {
            k: list(v) if isinstance(v, tuple) else dict(v) if isinstance(v, Mapping) else v for k, v in values.items()
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
        return cls(**values)


class Monitor:
    """Watches a stream with a fitted model: `update(batch)`, then look at the step's `alarms`.

    `source="sampled"` takes the reference rows for a random sample of the population whose shares are the null of drift, "fixed"
    their very shares. The noise of the reference is measured by t intervals of its blocks (`noise="t"`, as all error bars
    are), or bounded for any number of rows, and wider, by `noise="hoeffding"`. `keep` is the number of steps that `history` holds.

    >>> import numpy as np, proportio as pp
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 1000)
    >>> X = rng.normal(size=(2000, 2)) + 3 * y[:, None]
    >>> monitor = pp.Monitor(pp.RFFM(n_features=100, bandwidth=2.0).fit(X, y))
    >>> for day in range(20):
    ...     step = monitor.update(X[rng.choice(2000, 200)], batch_id=f"day {day}")
    >>> step.alarms, monitor.update(X[:200]).batch, "day 3" in monitor
    ((), 21, True)
    """

    def __init__(
        self,
        model: Quantifier,
        *,
        level: float = 0.05,
        source: Source = "sampled",
        noise: Noise = "t",
        keep: int = 1000,
    ) -> None:
        if source not in ("sampled", "fixed") or noise not in ("t", "hoeffding"):
            raise InputError(f"source={source!r} must be 'sampled' or 'fixed', and noise={noise!r} 't' or 'hoeffding'.")
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise InputError(f"keep={keep!r}: keep the last step or more.")
        model._check_fitted()
        self.model = model
        self.level = check_level(level)
        self.source, self.noise, self.keep = source, noise, keep
        self.functionals = Functionals.of(model.sketch_, model.bound_, FOR_REFERENCE * self.level, source, noise)
        self.capital = Capital(self.functionals.W.shape[1])
        self._guess = (self.functionals.low + self.functionals.high) / 2
        self._steps: deque[MonitorStep] = deque(maxlen=keep)
        self._ids: dict[str, None] = {}
        self._since: dict[str, int] = {}
        self._shares = [self.functionals.prior]

    # -- batch by batch --------------------------------------------------------------------------------------

    def update(self, batch: Any, *, batch_id: Any = None) -> MonitorStep:
        """Add a batch: a table, an iterator of tables, or a sketch of the model's, which tells less: alarms come later.

        A `batch_id` that was added before is refused, so that after a crash all batches can be offered again; of ids the last
        10,000 are remembered.
        """
        name = None if batch_id is None else str(plain(batch_id))
        if name is not None and name in self._ids:
            raise InputError(
                f"batch {name!r} was added before: skip it (`batch_id in monitor` tells), or give it another id."
            )
        sketch, bet = self._read(batch)
        estimate = self.model.estimate(sketch)
        drift, shift = self._watch(bet)
        limits = interval(estimate.evidence, 1 - self.level)
        step = MonitorStep(
            batch=self.capital.batches,
            batch_id=name,
            rows=sketch.n_rows,
            proportions=tuple(estimate.proportions.tolist()),
            low=tuple(limits[:, 0].tolist()),
            high=tuple(limits[:, 1].tolist()),
            unknown=estimate.unknown,
            drift=drift,
            label_shift=shift,
            alarms=tuple(k for k in KINDS if k in self._since),
            since=dict(self._since),
            estimate=estimate,
        )
        self._steps.append(step)
        if name is not None:
            self._ids[name] = None
            if len(self._ids) > REMEMBERED:
                del self._ids[next(iter(self._ids))]
        return step

    def _read(self, batch: Any) -> tuple[Sketch, Bet]:
        """A batch, in one pass: its sketch, and the bet on its rows or, where there are none, on its blocks."""
        model: Any = self.model
        if isinstance(batch, Sketch):
            model._check_sketch(batch)
            return batch, self.functionals.of_sketch(batch, self._guess)
        sketch: Sketch | None = None
        bet: Bet | None = None
        for rows in read_batches(batch, expected=model.columns_, on_missing=model.on_missing):
            sketch = model._sketch(rows.values, None, None, 0 if sketch is None else sketch.n_rows, sketch)
            for i in range(0, len(rows.values), CHUNK):
                part = self.functionals.of_rows(
                    model.features_.embed(rows.values[i : i + CHUNK], model.n_jobs), self._guess
                )
                bet = part if bet is None else bet + part
        assert sketch is not None  # read_batches refuses an empty source
        assert bet is not None
        return sketch, bet

    def _watch(self, bet: Bet) -> tuple[float, float]:
        """The evidence for drift and against label shift, and the alarms that it raises."""
        self.capital.add(bet)
        share = 0.5 ** (1 / HALF_LIFE)
        self._guess = share * self._guess + (1 - share) * bet.total / bet.rows
        mean = self.capital.mean
        radius = self.capital.radius((1 - FOR_REFERENCE) * self.level)
        moved = self.functionals.moved(mean, radius)
        misfit = self._misfit(mean, radius)
        for kind, evidence in zip(KINDS, (moved, misfit), strict=True):
            if evidence.max() > 1 and kind not in self._since:
                self._since[kind] = int(self.capital.start[np.argmax(evidence)])
        return float(moved.max()), float(misfit.max())

    def _misfit(self, mean: Array, radius: Array) -> Array:
        """ρ from each starting time; where some shares known already explain the stream, their misfit instead: less work."""
        best = np.min([self.functionals.misfit(shares, mean, radius) for shares in self._shares], axis=0)
        for i in np.flatnonzero(best > 1):
            best[i], shares = self.functionals.best(mean[i], radius[i])
            self._shares = [self.functionals.prior, shares, *self._shares[1:4]]
        return np.asarray(best)

    def __contains__(self, batch_id: Any) -> bool:
        return str(plain(batch_id)) in self._ids

    @property
    def batches(self) -> int:
        """Batches added so far."""
        return self.capital.batches

    @property
    def alarms(self) -> tuple[str, ...]:
        """The alarms that are raised: "drift", "label_shift"."""
        return tuple(k for k in KINDS if k in self._since)

    @property
    def history(self) -> tuple[MonitorStep, ...]:
        """The last `keep` steps, oldest first."""
        return tuple(self._steps)

    def to_frame(self) -> Any:
        """A pandas frame of `history`, one row a batch and class: shares with their limits, and the evidence."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas. `history` needs nothing.") from error
        rows = [
            (s.batch, s.batch_id, s.rows, k, *values, s.unknown, s.drift, s.label_shift, ", ".join(s.alarms))
            for s in self._steps
            for k, *values in zip(self.model.classes_.tolist(), s.proportions, s.low, s.high, strict=True)
        ]
        names = [
            "batch",
            "batch_id",
            "rows",
            "class",
            "proportion",
            "low",
            "high",
            "unknown",
            "drift",
            "label_shift",
            "alarms",
        ]
        return pd.DataFrame(rows, columns=names)

    # -- elsewhere -------------------------------------------------------------------------------------------

    def write_prometheus(self, path: str | os.PathLike[str]) -> None:
        """The last step in Prometheus's text format, for the node exporter's textfile collector; whole or not at all."""
        storage.write(path, exposition.prometheus(self._last(), self.model.classes_.tolist()).encode())

    def log_mlflow(self, client: Any = None) -> None:
        """The last step as metrics of the active MLflow run; `client` is anything with `log_metrics(metrics, step=)`."""
        step = self._last()
        if client is None:
            try:
                client = importlib.import_module("mlflow")
            except ImportError as error:
                raise ImportError("log_mlflow needs mlflow: pip install 'proportio[mlflow]'.") from error
        client.log_metrics(exposition.metrics(step, self.model.classes_.tolist()), step=step.batch)

    def _last(self) -> MonitorStep:
        if not self._steps:
            raise InputError("the monitor has seen no batch yet: call update first.")
        return self._steps[-1]

    # -- files -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """The whole state, whole or not at all; `Monitor.load(path, model)` goes on from it to the last bit."""
        meta = {
            "map_id": self.model.sketch_.map_id,
            "classes": self.model.classes_.tolist(),
            "level": self.level,
            "source": self.source,
            "noise": self.noise,
            "keep": self.keep,
            "batches": self.capital.batches,
            "since": self._since,
            "ids": list(self._ids),
            "history": json.dumps([step.to_dict() for step in self._steps], allow_nan=False),
        }
        arrays = {f"functionals.{k}": v for k, v in self.functionals.state().items()}
        arrays |= {f"capital.{k}": getattr(self.capital, k) for k in ("start", "total", "rows", "paid")}
        arrays |= {"guess": self._guess, "shares": np.stack(self._shares)}
        storage.write(path, storage.pack("monitor", meta, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str], model: Quantifier) -> Self:
        """The monitor that `save` wrote, with the model that it was made with."""
        meta, arrays = storage.unpack(storage.read(path), "monitor", str(path))
        try:
            if (meta["map_id"], meta["classes"]) != (model.sketch_.map_id, model.classes_.tolist()):
                raise MismatchError(
                    f"{path}: the state of another model's monitor: give the model that it was made with."
                )
            monitor = cls(model, level=meta["level"], source=meta["source"], noise=meta["noise"], keep=meta["keep"])
            monitor.functionals = Functionals(**{f.name: arrays[f"functionals.{f.name}"] for f in fields(Functionals)})
            monitor.capital = Capital(monitor.functionals.W.shape[1], int(meta["batches"]))
            for name in ("start", "total", "rows", "paid"):
                setattr(monitor.capital, name, arrays[f"capital.{name}"])
            monitor._guess, monitor._shares = arrays["guess"], list(arrays["shares"])
            monitor._since = {str(k): int(v) for k, v in meta["since"].items()}
            monitor._ids = dict.fromkeys(meta["ids"])
            monitor._steps.extend(MonitorStep.from_dict(step) for step in json.loads(meta["history"]))
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FileError(f"{path}: not the state of a monitor ({error!r}).") from error
        return monitor
