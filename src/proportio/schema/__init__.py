"""JSON Schema (2020-12) of every JSON that proportio writes, as data: `load("estimate")`.

A schema that refers to another one carries it in its `$defs`, so that each is complete in itself.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from proportio.errors import InputError

NAMES = (
    "answer",
    "bound",
    "check",
    "doctor",
    "drift_test",
    "estimate",
    "label_shift_test",
    "monitor_step",
    "report",
    "reproduction",
)
__all__ = ["NAMES", "load"]


def load(name: str) -> dict[str, Any]:
    """The schema of one kind of JSON.

    >>> load("estimate")["properties"]["schema"]
    {'const': 2}
    """
    if name not in NAMES:
        raise InputError(f"there is no schema {name!r}: they are {', '.join(NAMES)}.")
    schema: dict[str, Any] = json.loads(files("proportio.schema").joinpath(f"{name}.json").read_text(encoding="utf-8"))
    if includes := schema.pop("$comment", "").removeprefix("includes ").split():
        schema["$defs"] = {other: load(other) for other in includes}
    return schema
