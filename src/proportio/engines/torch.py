"""The fold on PyTorch tensors: the rows stay on their device, a memory budget of them at a time, and block sums come back.

A tensor of the processor's own memory is handed to the fused kernels without a copy: the same bits as an array, and an order
of magnitude faster than PyTorch. On another device random Fourier features are computed there: phases, cosines and sines in
float32, sums over blocks in float64 (where a device has none, over a few thousand rows in float32 and then on the host). Rows
visit the host once, d numbers each, to be validated and dealt to the very blocks of an array. What differs from the fused
kernels is the rounding of phases and cosines: their mean over a block agrees to about 10⁻⁶. Other maps are computed on the
host, in the same portions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from proportio.engines.local import Add, Part
from proportio.engines.local import fold as fold_here
from proportio.engines.recipe import Recipe
from proportio.errors import InputError, InputTypeError
from proportio.features.fourier import RandomFourier
from proportio.sketch import BlockSketch, blocks_for, deal_cells
from proportio.sources import Floats
from proportio.tally import Tally

Array = npt.NDArray[np.float64]

BUDGET = 256 << 20  # bytes of a device for the features of a portion of rows
PLAIN_ROWS = 4096  # rows whose float32 sums are exact enough: 64 a block


def fold(add: Add, recipe: Callable[[], Recipe], X: Any, *, n_jobs: int | None, **options: Any) -> Part:
    """The sketch of a tensor, wherever it is: by `add` where its rows are on the host, or have to come there."""
    check(X)
    if X.device.type == "cpu":
        return fold_here(add, host(X), n_jobs=n_jobs, **options)
    return fold_on_device(add, recipe(), X, **options)


def fold_on_device(add: Add, recipe: Recipe, X: Any, **options: Any) -> Part:
    """The sketch of a tensor by the arithmetic of its own device, where that has what the map takes."""
    phi = recipe.features
    dense = isinstance(phi, RandomFourier) and "omega" in phi.unit_ and "bias" not in phi.unit_
    step = max(256, BUDGET // (32 * phi.dim))
    rows = (host(X[i : i + step]) for i in range(0, len(X), step))
    return fold_here(_DeviceSums(recipe, X.device) if dense else add, rows, **options)


def rows_of(X: Any) -> npt.NDArray[Any]:
    """All rows of a tensor on the host."""
    check(X)
    return host(X)


def check(X: Any) -> None:
    """Refuse what has no rows of numbers."""
    import torch

    if X.layout != torch.strided or X.is_complex():
        raise InputTypeError(
            f"the tensor is {X.layout} of {X.dtype}: pass a dense tensor of real numbers, X.to_dense()."
        )
    if X.ndim != 2 or not len(X):
        raise InputError(
            f"the tensor has shape {tuple(X.shape)}: it must have two dimensions, rows and columns, and rows."
        )


def host(X: Any) -> npt.NDArray[Any]:
    """The rows as an array; half precisions as float32."""
    import torch

    rows = X.detach()
    if rows.dtype in (torch.float16, torch.bfloat16):
        rows = rows.to(torch.float32)
    out: npt.NDArray[Any] = rows.to("cpu").numpy()
    return out


def has_double(device: Any) -> bool:
    """Apple's devices have no float64."""
    return bool(device.type != "mps")


class _DeviceSums:
    """S += Σ [cos 2πt | sin 2πt] of each block, t = (x − centre)·turns, on one device."""

    def __init__(self, recipe: Recipe, device: Any) -> None:
        import torch

        phi = recipe.features
        assert isinstance(phi, RandomFourier)
        self.recipe, self.device = recipe, device
        self.double = has_double(device)
        precise = torch.float64 if self.double else torch.float32
        self.center = torch.as_tensor(phi.center_).to(device, precise)
        self.turns = torch.as_tensor(phi._turns).to(device)

    def __call__(self, X: Floats, weights: Array | None, start: int, onto: Any) -> BlockSketch:
        recipe, shape = self.recipe, (1, blocks_for(1))
        cells = deal_cells(X, None, shape, start, recipe.seed)
        sums = np.zeros((shape[1], recipe.features.dim)) if onto is None else onto.sums[0].copy()
        step = len(X) if self.double else PLAIN_ROWS
        for i in range(0, len(X), step):
            part = slice(i, i + step)
            sums += self._sums(X[part], cells[part], shape[1])
        counts = np.bincount(cells, minlength=shape[1]).astype(np.float64)
        before = None if onto is None else onto.tally
        norm2 = counts if before is None else counts + before.norm2.ravel()
        return BlockSketch(
            Tally.of(cells, shape, None, norm2, before),
            recipe.map_id,
            sums=sums[None],
            amplitude=recipe.features.amplitude_,
        )

    def _sums(self, X: Floats, cells: npt.NDArray[np.int32], n_cells: int) -> Array:
        import torch

        z = torch.as_tensor(np.ascontiguousarray(X)).to(self.device, self.center.dtype) - self.center
        t = z.to(torch.float32) @ self.turns
        angle = (t - t.round()) * (2 * np.pi)
        features = torch.cat([angle.cos(), angle.sin()], dim=1).to(self.center.dtype)
        where = torch.as_tensor(cells).to(self.device, torch.int64)
        total = torch.zeros(n_cells, features.shape[1], dtype=self.center.dtype, device=self.device)
        out: Array = total.index_add_(0, where, features).to("cpu").numpy().astype(np.float64)
        return out
