"""Tensors: on the host the bits of an array; by a device's own arithmetic the same sketch up to float32 cosines."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import proportio as pp
from proportio.engines import engine_of
from proportio.errors import InputError, InputTypeError
from proportio.sketch import BlockSketch

torch = pytest.importorskip("torch")
engine: Any = pytest.importorskip("proportio.engines.torch")

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, 3000)
X = (RNG.normal(size=(3000, 4)) + Y[:, None]).astype(np.float32)
Z = (RNG.normal(size=(20_000, 4)) + RNG.integers(0, 2, 20_000)[:, None]).astype(np.float32)
MODEL = pp.RFFM(n_features=200, bandwidth=1.0).fit(X, Y)


def on_device(model: Any, rows: Any, **options: Any) -> BlockSketch:
    """The sketch by the arithmetic of the tensor's device, which here is the processor."""

    def add(values: Any, weights: Any, start: int, onto: Any) -> Any:
        return model._sketch(values, None, weights, start, onto)

    more = {"columns": model.columns_, "on_missing": model.on_missing, **options}
    sketch = engine.fold_on_device(add, model._recipe(), torch.as_tensor(rows), **more).sketch
    assert isinstance(sketch, BlockSketch)
    return sketch


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_tensor_on_the_host_gives_the_bits_of_an_array(dtype: Any) -> None:
    rows = Z.astype(dtype)
    tensor = torch.from_numpy(rows).requires_grad_(True)
    ours, theirs = MODEL.sketch(rows), MODEL.sketch(tensor)
    assert isinstance(ours, BlockSketch) and isinstance(theirs, BlockSketch)
    assert np.array_equal(ours.sums, theirs.sums)
    assert np.array_equal(MODEL.estimate(tensor).proportions, MODEL.estimate(rows).proportions)
    again = pp.RFFM(n_features=200, bandwidth=1.0).fit(torch.from_numpy(X), torch.from_numpy(Y))
    assert np.array_equal(again.gram_, MODEL.gram_)


@pytest.mark.parametrize("double", [True, False])
def test_a_device_makes_the_same_sketch_up_to_float32_cosines(double: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "has_double", lambda device: double)
    monkeypatch.setattr(engine, "BUDGET", 32 * 200 * 700)  # 700 rows at a time
    whole = MODEL.sketch(Z)
    assert isinstance(whole, BlockSketch)
    found = on_device(MODEL, Z)
    assert np.array_equal(found.tally.stacked(), whole.tally.stacked())  # the same rows in the same blocks
    off = np.abs(found.sums - whole.sums).max(axis=2) / whole.tally.rows
    assert off.max() < 2e-6  # phases and cosines of float32
    assert np.abs(found.means() - whole.means()).max() < 1e-6
    assert np.allclose(MODEL.estimate(found).proportions, MODEL.estimate(Z).proportions, atol=1e-5)
    assert np.allclose(MODEL.estimate(found).interval(), MODEL.estimate(Z).interval(), atol=1e-4)


@pytest.mark.parametrize(
    "model",
    [pp.RFFM(n_features=200, bandwidth=1.0, kind="structured"), pp.BBSE(), pp.KMM("energy", approx="sliced")],
    ids=["structured", "classifier", "sliced"],
)
def test_other_maps_are_computed_on_the_host_in_portions(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model.fit(X, Y)
    monkeypatch.setattr(engine, "BUDGET", 1 << 20)
    whole, found = model.sketch(Z[:2000]), on_device(model, Z[:2000])
    assert np.array_equal(found.sums, whole.sums)


def test_half_precision_is_read_as_float32() -> None:
    half = torch.from_numpy(Z).to(torch.bfloat16)
    assert np.array_equal(MODEL.predict(half), MODEL.predict(half.to(torch.float32)))


def test_an_exact_kernel_takes_tensors_of_the_host() -> None:
    model = pp.KMM("gaussian", bandwidth=1.0).fit(X[:500], Y[:500])
    assert np.array_equal(model.predict(torch.from_numpy(Z[:300])), model.predict(Z[:300]))


def test_missing_values_are_refused_or_counted_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Z.copy()
    rows[1234, 2] = np.nan
    monkeypatch.setattr(engine, "BUDGET", 32 * 200 * 1000)
    for read in (lambda: MODEL.sketch(torch.from_numpy(rows)), lambda: on_device(MODEL, rows)):
        with pytest.raises(InputError, match="NaN"):
            read()
    est = pp.RFFM(n_features=200, bandwidth=1.0, on_missing="drop").fit(X, Y).estimate(torch.from_numpy(rows))
    assert est.dropped == 1 and est.n_target == len(rows) - 1


@pytest.mark.parametrize(
    ("tensor", "error", "match"),
    [
        (torch.zeros(3), InputError, r"shape \(3,\)"),
        (torch.zeros(0, 4), InputError, r"shape \(0, 4\)"),
        (torch.eye(4).to_sparse(), InputTypeError, "dense tensor"),
        (torch.zeros(3, 4, dtype=torch.complex64), InputTypeError, "complex64"),
    ],
    ids=["vector", "empty", "sparse", "complex"],
)
def test_what_is_no_table_is_refused(tensor: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        MODEL.sketch(tensor)


def test_a_tensor_is_known_without_importing_torch() -> None:
    assert engine_of(torch.zeros(1, 1)) == "torch" and engine_of(X) == "local"
    code = "import numpy as np, sys, proportio as pp; X = np.eye(12)[:, :4]; " + (
        "pp.RFFM(20, 1.0).fit(X, np.arange(12) % 3).predict(X); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
