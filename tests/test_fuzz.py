"""A small part of `make fuzz`, and what it found: files that are whole, and wrong."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import proportio as pp
from proportio import storage
from proportio.models import from_bytes

HERE = Path(__file__).resolve().parents[1] / "benchmarks" / "fuzz.py"
spec = importlib.util.spec_from_file_location("fuzz", HERE)
assert spec is not None and spec.loader is not None
fuzz = importlib.util.module_from_spec(spec)
sys.modules["fuzz"] = fuzz
spec.loader.exec_module(fuzz)

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
X = RNG.normal(size=(60, 2)) + 4 * Y[:, None]


@pytest.fixture(scope="module")
def readers() -> dict[str, Any]:
    return fuzz.readers()


@pytest.mark.parametrize("name", ["fcs", "gate", "json", "model", "sketch"])
def test_mutated_inputs_raise_our_errors_only(name: str, readers: dict[str, Any]) -> None:
    crashes: list[str] = []
    fuzz.run(name, readers[name], range(10**7, 10**7 + 400), crashes.append)
    assert crashes == []


def test_an_input_is_the_same_every_time(readers: dict[str, Any]) -> None:
    for reader in readers.values():
        assert fuzz.made(reader, 7) == fuzz.made(reader, 7) != fuzz.made(reader, 9)


def changed(data: bytes, kind: str, change: Callable[[dict[str, Any], dict[str, Any]], Any]) -> bytes:
    """A file with other contents and a checksum that is right."""
    meta, arrays = storage.unpack(data, kind)
    change(meta, arrays)
    return storage.pack(kind, {k: v for k, v in meta.items() if k != "kind"}, arrays)


RFFM = pp.RFFM(n_features=8, bandwidth=1.0).fit(X, Y)
KMM = pp.KMM("energy").fit(X, Y)
BBSE = pp.BBSE(cv=2).fit(X, Y)
CHAIN = pp.DFM(pp.features.Chain(pp.features.Posterior(cv=2), pp.features.RandomFourier(8, 1.0))).fit(X, Y)
STACK = pp.DFM(pp.features.Stack([pp.features.Histogram(bins=3), pp.features.Histogram(bins=2)])).fit(X, Y)

WRONG_MODELS: dict[str, tuple[Any, Callable[[dict[str, Any], dict[str, Any]], Any]]] = {
    "a schema of words": (RFFM, lambda meta, arrays: meta.update(schema="new")),
    "classes of another number": (RFFM, lambda meta, arrays: meta["classes"].update(values=[0, 1])),
    "classes of another order": (RFFM, lambda meta, arrays: meta["classes"].update(values=[2, 1, 0])),
    "a column more": (RFFM, lambda meta, arrays: meta["columns"].update(count=3)),
    "names that are not as many": (RFFM, lambda meta, arrays: meta["columns"].update(names=["a"])),
    "a map of fewer frequencies": (RFFM, lambda meta, arrays: arrays.update({"map.omega": arrays["map.omega"][:, :3]})),
    "a sketch of fewer features": (RFFM, lambda meta, arrays: arrays.update({"sketch.sums": arrays["sketch.sums"][..., :6]})),
    "a tally of other blocks": (RFFM, lambda meta, arrays: arrays.update({"sketch.tally": arrays["sketch.tally"][..., :8]})),
    "counts below zero": (RFFM, lambda meta, arrays: arrays.update({"sketch.tally": -arrays["sketch.tally"]})),
    "sums that overflow": (RFFM, lambda meta, arrays: arrays.update({"sketch.sums": arrays["sketch.sums"] + 1e300})),
    "a scale of zero": (RFFM, lambda meta, arrays: arrays.update({"map.scale": 0 * arrays["map.scale"]})),
    "a seed below zero": (RFFM, lambda meta, arrays: meta["map"].update(seed=-1)),
    "a scale of zero for exact kernels": (KMM, lambda meta, arrays: arrays.update({"map.scale_": 0 * arrays["map.scale_"]})),
    "offsets beyond the rows": (KMM, lambda meta, arrays: arrays.update({"sketch.offsets": arrays["sketch.offsets"] * 2})),
    "offsets that go back": (KMM, lambda meta, arrays: arrays["sketch.offsets"].__setitem__(5, 10**6)),
    "weights of other rows": (KMM, lambda meta, arrays: arrays.update({"sketch.weights": arrays["sketch.weights"][1:]})),
    "rows of another width": (KMM, lambda meta, arrays: arrays.update({"sketch.rows": arrays["sketch.rows"][:, :1]})),
    "an origin elsewhere": (KMM, lambda meta, arrays: meta["sketch"]["kernel"].update(origin=[0.0])),
    "a classifier of fewer classes": (BBSE, lambda meta, arrays: arrays.update({"map.weights.0": arrays["map.weights.0"][:, :2]})),
    "members that are not there": (BBSE, lambda meta, arrays: meta["map"].update(members=10**9)),
    "a chain that does not meet": (CHAIN, lambda meta, arrays: meta["map"]["first"].update(n_columns=1)),
    "a stack of other columns": (STACK, lambda meta, arrays: meta["map"].update(n_columns=1)),
    "no weights in a stack": (STACK, lambda meta, arrays: arrays.update({"map.stack_weights": arrays["map.stack_weights"][:1]})),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_MODELS)
def test_a_model_whose_parts_do_not_fit_is_refused_when_it_is_read(what: str) -> None:
    model, change = WRONG_MODELS[what]
    with pytest.raises(pp.FileError):
        from_bytes(changed(model.to_bytes(), "model", change))


@pytest.mark.parametrize("model", [RFFM, KMM, BBSE, CHAIN, STACK], ids=lambda m: type(m).__name__)
def test_a_model_that_is_whole_is_read(model: Any) -> None:
    again = from_bytes(changed(model.to_bytes(), "model", lambda meta, arrays: None))
    assert np.allclose(again.predict(X), model.predict(X))
    assert np.array_equal(from_bytes(again.to_bytes()).predict(X), again.predict(X))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["proportions"], [0.5]),
        (["counts"], [1, 2, 3, 4]),
        (["proportions", 0], 1e400),
        (["evidence", "G"], [[1.0]]),
        (["evidence", "m"], [1.0]),
        (["evidence", "dof", 1], None),
        (["diagnostics"], []),
    ],
)
def test_an_estimate_whose_numbers_do_not_fit_is_refused_when_it_is_read(path: list[Any], value: Any) -> None:
    data = json.loads(RFFM.estimate(X).to_json())
    node = data
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    with pytest.raises(pp.FileError, match="not "):
        pp.Estimate.from_json(json.dumps(data).replace("Infinity", "1e400"))


@pytest.mark.parametrize("bandwidth", [1e308, 1e-308])
def test_a_bandwidth_whose_square_overflows_is_refused(bandwidth: float) -> None:
    with pytest.raises(pp.InputError, match="above 0"):
        pp.RFFM(n_features=8, bandwidth=bandwidth).fit(X, Y)
    with pytest.raises(pp.InputError, match="above 0"):
        from_bytes(changed(RFFM.to_bytes(), "model", lambda meta, arrays: meta["map"].update(sigma=bandwidth)))
