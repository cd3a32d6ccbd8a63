"""A step of a monitor for other systems: Prometheus's text format, and names with numbers for MLflow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proportio.monitor.stream import MonitorStep

Sample = tuple[dict[str, str], float]


def prometheus(step: MonitorStep, classes: Sequence[Any]) -> str:
    """The step as gauges and counters.

    >>> print(_family("proportio_x", "gauge", "An x.", [({"class": 'a"b'}, 0.5), ({}, math.nan)]))
    # HELP proportio_x An x.
    # TYPE proportio_x gauge
    proportio_x{class="a\\"b"} 0.5
    proportio_x NaN
    """
    names = [{"class": str(k)} for k in classes]
    kinds = ("drift", "label_shift")
    families: list[tuple[str, str, str, Iterable[Sample]]] = [
        ("share", "gauge", "Estimated share of the class in the last batch.", zip(names, step.proportions, strict=True)),
        ("share_low", "gauge", "Lower limit of the share.", zip(names, step.low, strict=True)),
        ("share_high", "gauge", "Upper limit of the share.", zip(names, step.high, strict=True)),
        ("unknown_share", "gauge", "Share of the last batch that no class explains.", [({}, step.unknown)]),
        ("batch_rows", "gauge", "Rows of the last batch.", [({}, float(step.rows))]),
        ("batches_total", "counter", "Batches seen.", [({}, float(step.batch))]),
        ("evidence", "gauge", "Evidence of a change relative to what an alarm takes.",
         [({"kind": k}, getattr(step, k)) for k in kinds]),
        ("alarm", "gauge", "1 once the alarm is raised.", [({"kind": k}, float(k in step.alarms)) for k in kinds]),
    ]  # fmt: skip
    return "\n".join(_family(f"proportio_{name}", kind, said, samples) for name, kind, said, samples in families) + "\n"


def metrics(step: MonitorStep, classes: Sequence[Any]) -> dict[str, float]:
    """The step as numbers under names that MLflow accepts; what is not known is left out."""
    out = {"unknown": step.unknown, "drift": step.drift, "label_shift": step.label_shift, "rows": float(step.rows)}
    for i, k in enumerate(classes):
        name = re.sub(r"[^\w\-. /]", "_", str(k))
        out |= {f"share/{name}": step.proportions[i], f"low/{name}": step.low[i], f"high/{name}": step.high[i]}
    out |= {f"alarm/{k}": float(k in step.alarms) for k in ("drift", "label_shift")}
    return {k: v for k, v in out.items() if math.isfinite(v)}


def _family(name: str, kind: str, words: str, samples: Iterable[Sample]) -> str:
    lines = [f"# HELP {name} {words}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        inside = ",".join(f'{k}="{_escaped(v)}"' for k, v in labels.items())
        lines.append(f"{name}{f'{{{inside}}}' if inside else ''} {_number(value)}")
    return "\n".join(lines)


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return f"{value:.17g}" if math.isfinite(value) else "+Inf" if value > 0 else "-Inf"
