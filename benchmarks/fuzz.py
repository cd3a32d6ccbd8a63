"""Mutated inputs for every reader of files and gates: nothing but a ProportioError may come of them, in bounded memory.

    python benchmarks/fuzz.py [COUNT] [--state build/fuzz.json] [--reader fcs] [--only N]

Input n of a reader is the same on every machine: a whole file, mutated by a generator seeded with n. Of files with a checksum half
are mutated before it is taken, so that what lies behind it is reached. A run goes on where the last one stopped, until
COUNT inputs (a million) are done; `--only` repeats one of them.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import resource
import struct
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import proportio as pp
from proportio import storage
from proportio.commands import gates
from proportio.models import from_bytes
from proportio.sources.fcs import read_layout

HEADROOM = 1 << 30  # bytes that a reader may take beyond what the process has
STEP = 1000  # inputs between two writes of the state
NUMBERS = [
    b"0",
    b"-1",
    b"1e309",
    b"nan",
    b"9" * 25,
    b"4294967296",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"true",
    b"\xff\xff\xff\xff",
]
GATES = [b"shift", b"unknown > 0.05", b"share:fraud <= 3%", b"share:'not \\'fraud\\'' >= 0.5", b'share:"a:b" < 1e-3']


@dataclass(frozen=True)
class Reader:
    """What is fuzzed: whole inputs, how often out of a hundred, and what reads them."""

    seeds: list[bytes]
    weight: int
    read: Callable[[bytes], Any]
    kind: str | None = None  # of a file with a checksum


def readers() -> dict[str, Reader]:
    """Every reader, with whole inputs to start from."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.normal(size=(60, 2)) + y[:, None]
    classifier = pp.BBSE(cv=2).fit(X, np.array(["a", "b", "c"])[y])
    models = [
        pp.RFFM(n_features=8, bandwidth=1.0, soft=True).fit(X, y),
        pp.KMM(bandwidth=1.0).fit(X[:30], y[:30]),
        pp.DFM(pp.features.Histogram(bins=3)).fit(X, y),
        classifier,
        pp.AutoDFM(n_features=8, cv=2).fit(X, y),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pp.ProportioWarning)
        estimates = [{**m.estimate(X).to_dict(), "timings": {"fit": 0.5}} for m in models]
    return {
        "fcs": Reader(_fcs_files(rng), 40, _read_fcs),
        "gate": Reader(GATES, 20, lambda data: gates.parse(data.decode("utf-8", "surrogateescape"))),
        "json": Reader([json.dumps(e).encode() for e in estimates], 20, _read_json),
        "model": Reader([ordered(m.to_bytes()) for m in models], 10, lambda data: _use(from_bytes(data), X), "model"),
        "sketch": Reader([ordered(m.sketch(X).to_bytes()) for m in models], 10, _read_sketch, "sketch"),
    }


def _fcs_files(rng: np.random.Generator) -> list[bytes]:
    """A file of floats, one of integers, and one with much that is optional."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
    from fcs_files import fcs

    X = np.abs(rng.normal(300, 100, size=(6, 3)))
    more: dict[str, Any] = {"P2E": "4,1", "P3G": "2.0", "TIMESTEP": "0.1", "SPILLOVER": "2,A,B,1,0.1,0.2,1"}
    return [
        fcs(X, ["FSC-A", "FL1-A", "FL2-A"], markers=["", "CD3", "CD4"]),
        fcs(X, ["A", "B", "Time"], types=["u2", "u4", "u1"], order=">", version="FCS3.0", **more),
        fcs(X, ["A", "B", "C"], types=["f8"] * 3, version="FCS2.0", separator="|", SPILL="1,A,1"),
    ]


def _read_fcs(data: bytes) -> None:
    file = io.BytesIO(data)
    layout = read_layout(file, "mutated")
    for start in range(0, layout.n_rows, 1 << 16):
        raw = layout.read(file, start, min(start + (1 << 16), layout.n_rows))
        for i in range(len(layout.channels)):
            layout.column(raw, i)
    layout.spillover()


def _read_json(data: bytes) -> None:
    est = pp.Estimate.from_json(data)
    est.to_json()
    repr(est)


def _read_sketch(data: bytes) -> None:
    sketch = pp.Sketch.from_bytes(data)
    sketch.products(sketch + sketch)


def _use(model: Any, X: Any) -> None:
    model.to_bytes()
    model.predict(X)


def mutated(data: bytes, others: list[bytes], dice: random.Random) -> bytes:
    """One to six changes: bits, bytes, numbers, stretches removed, repeated, swapped with another file's, or the end cut off."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(out) + 1)
        upto = min(len(out), at + dice.choice((1, 1, 2, 4, 8, 32)))
        match dice.randrange(8):
            case 0 if at < len(out):
                out[at] ^= 1 << dice.randrange(8)
            case 1:
                out[at:upto] = bytes(dice.randrange(256) for _ in range(upto - at))
            case 2:
                out[at:upto] = dice.choice(NUMBERS)
            case 3:
                del out[at:upto]
            case 4:
                out[at:at] = out[at:upto] * dice.choice((1, 2, 50))
            case 5:
                other = dice.choice(others)
                begin = dice.randrange(len(other))
                out[at:upto] = other[begin : begin + upto - at]
            case 6 if dice.random() < 0.3:
                del out[at:]
            case _:
                if at < len(out):
                    out[at] = dice.choice(b"0123456789/,$-.[]{}\"':%<>= ")
    return bytes(out)


def repacked(data: bytes, kind: str, dice: random.Random) -> bytes:
    """The same file with its metadata and arrays mutated, and a checksum that is right."""
    meta, arrays = storage.unpack(data, kind)
    for _ in range(dice.randint(1, 3)):
        if arrays and dice.random() < 0.5:
            name = dice.choice(sorted(arrays))
            arrays[name] = _other_array(arrays.pop(name), dice)
            if dice.random() < 0.1:
                other = dice.choice(sorted(arrays))
                arrays[other] = arrays.pop(name)
        else:
            _change(meta, dice)
    meta = {k: v for k, v in meta.items() if k not in ("kind", "schema")}
    if dice.random() < 0.1:
        meta["schema"] = json.loads(dice.choice(VALUES.split()))
    return ordered(storage.pack(kind, meta, arrays))


def ordered(data: bytes) -> bytes:
    """The same file with the keys of its header sorted: safetensors writes them in any order."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    words = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return len(words).to_bytes(8, "little") + words + data[8 + length :]


VALUES = """null true -1 0 1 3 1000000000 1180591620717411303424 0.5 1e308 "" "x" "<f8" "O" [] [1] ["a","a"] {} {"name":"x"}"""


def _other_array(a: Any, dice: random.Random) -> Any:
    match dice.randrange(6):
        case 0:
            return a[:-1] if a.ndim else a.reshape(1)
        case 1:
            return a.reshape(-1)
        case 2:
            return a.astype(dice.choice([np.float32, np.int64, np.uint8]), casting="unsafe") if a.size else a
        case 3:
            return np.full_like(a, dice.choice([np.nan, np.inf, -1.0, 0.0, 1e300] if a.dtype.kind == "f" else [0, 1]))
        case 4:
            return a[None]
    return a[:0] if a.ndim else np.zeros(0)


def _change(node: Any, dice: random.Random) -> None:
    """Another value, or none, somewhere in a JSON object."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = dice.choice(keys)
        inner = node[key]
        if isinstance(inner, (dict, list)) and inner and dice.random() < 0.7:
            node = inner
        elif dice.random() < 0.2:
            del node[key]
            return
        else:
            node[key] = json.loads(dice.choice(VALUES.split()))
            return


def made(reader: Reader, n: int) -> bytes:
    """Input n of a reader."""
    dice = random.Random(n)
    data = dice.choice(reader.seeds)
    if reader.kind is not None and n % 2:
        with np.errstate(all="ignore"):
            return repacked(data, reader.kind, dice)
    return mutated(data, reader.seeds, dice)


def crash(reader: Reader, n: int) -> BaseException | None:
    """What came of input n that should not have."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            data = made(reader, n)
        except (ValueError, TypeError, OverflowError, struct.error):
            return None  # no such file can be written
        try:
            reader.read(data)
        except pp.ProportioError:
            return None
        except Exception as error:
            return error
    return None


def run(name: str, reader: Reader, numbers: range, report: Callable[[str], None] = print) -> int:
    """Read the inputs of these numbers; the crashes are reported and counted."""
    crashes = 0
    for n in numbers:
        error = crash(reader, n)
        if error is not None:
            crashes += 1
            report(f"{name} {n}: {error!r}")
    return crashes


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz every reader.")
    parser.add_argument("count", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--state", type=Path, default=Path("build/fuzz.json"))
    parser.add_argument("--reader")
    parser.add_argument("--only", type=int)
    asked = parser.parse_args()
    every = readers()
    if asked.only is not None:
        every[asked.reader].read(made(every[asked.reader], asked.only))
        return
    for name, reader in every.items():
        run(name, reader, range(20))  # what is loaded on first use is not a reader's memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pages = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (pages + HEADROOM, pages + HEADROOM))
    state: dict[str, dict[str, int]] = json.loads(asked.state.read_text()) if asked.state.exists() else {}
    asked.state.parent.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    for name, reader in every.items():
        if asked.reader not in (None, name):
            continue
        here = state.setdefault(name, {"done": 0, "crashes": 0})
        goal = asked.count * reader.weight // 100
        while here["done"] < goal:
            upto = min(here["done"] + STEP, goal)
            here["crashes"] += run(name, reader, range(here["done"], upto))
            here["done"] = upto
            storage.write(asked.state, json.dumps(state).encode())
        print(f"{name:<8}{here['done']:>10,} inputs {here['crashes']:>6,} crashes", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{time.perf_counter() - began:.0f} s; peak memory {peak / 1024:.0f} MB, {(peak - before) / 1024:.0f} MB while reading"
    )
    sys.exit(any(s["crashes"] for s in state.values()))


if __name__ == "__main__":
    main()
