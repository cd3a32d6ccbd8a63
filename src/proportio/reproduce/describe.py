"""A description as canonical JSON, its key, and the random numbers that follow from it and from nothing else.

A part of the results is named by the digest of what it is; a seed is the digest of what it is for. Neither knows the order in
which tasks run, so any order, any number of processes and any interruption give the same bits.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from proportio.errors import InputTypeError


def canonical(value: Any) -> Any:
    """Plain JSON values: dataclasses and mappings as objects, functions and classes by their import path.

    >>> canonical({"b": (1, 2.5), "a": None, "f": canonical})
    {'b': [1, 2.5], 'a': None, 'f': 'proportio.reproduce.describe:canonical'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        told = [f.name for f in fields(value) if f.metadata.get("described", True)]
        body = {name: canonical(getattr(value, name)) for name in told}
        return {"type": path_of(type(value)), **body}
    if isinstance(value, Mapping):
        return {str(k): canonical(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [canonical(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if callable(value):
        return path_of(value)
    raise InputTypeError(
        f"a plan describes itself by numbers, text, functions and classes; {value!r} ({type(value).__name__}) is none of these: "
        "build the object inside a function, and name the function."
    )


def path_of(function: Callable[..., Any]) -> str:
    """module:name of a function or class that another process can import."""
    name = getattr(function, "__qualname__", None)
    if name is None or "<" in name:
        raise InputTypeError(f"{function!r} has no name to import it by: define it with def at the top of a module.")
    return f"{function.__module__}:{name}"


def key_of(*values: Any) -> str:
    """A digest of the canonical JSON of `values`."""
    text = json.dumps([canonical(v) for v in values], sort_keys=True, allow_nan=False, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def seed_of(*values: Any) -> int:
    """A whole number below 2³¹ that depends on `values` alone."""
    return int(key_of(*values)[:12], 16) % 2**31


def rng_of(*values: Any) -> np.random.Generator:
    """Random numbers that depend on `values` alone.

    >>> bool(rng_of(0, "world", 3).random() == rng_of(0, "world", 3).random())
    True
    """
    return np.random.default_rng(int(key_of(*values), 16))
