"""The paper reproduced, claim by claim: `proportio reproduce OUT`, or `run(quick(), "OUT")`.

Needs the optional libraries of `pip install 'proportio[reproduce]'`. `plan` tells how to add a method, a noise or data.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from proportio.errors import InputError

if TYPE_CHECKING:
    from proportio.reproduce.cells import Cell, Experiment, Method, Noise
    from proportio.reproduce.plan import Plan, full, quick
    from proportio.reproduce.produce import Outcome, run

_HOME = {
    **dict.fromkeys(("Cell", "Experiment", "Method", "Noise"), "cells"),
    **dict.fromkeys(("Plan", "full", "quick"), "plan"),
    **dict.fromkeys(("Outcome", "run"), "produce"),
}

__all__ = ["Cell", "Experiment", "Method", "Noise", "Outcome", "Plan", "full", "quick", "run"]

for _needed in ("matplotlib", "pandas", "pyarrow", "threadpoolctl"):
    if importlib.util.find_spec(_needed) is None:
        raise InputError(f"the reproduction needs {_needed}: pip install 'proportio[reproduce]'.")


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'proportio.reproduce' has no attribute {name!r}")
    return getattr(importlib.import_module(f"proportio.reproduce.{_HOME[name]}"), name)
