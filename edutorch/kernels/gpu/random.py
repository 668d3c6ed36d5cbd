"""Random numbers on a GPU, by the text in `random.cu` and `philox.cuh`.

Each kernel reads the generator's state from the GPU's memory and moves it on, so that a CUDA graph
draws other numbers at each replay. `backends/philox_device.py` counts along on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...backends import philox_device
from .module import CudaModule, blocks_for, launch

__all__ = [
    "dropout_mask", "integers", "normal", "place", "sort_keys", "uniform", "uniform_at",
]  # fmt: skip

THREADS = 256
MAX_BLOCKS = 4096
"""More blocks of threads would only wait for their turn; each thread takes several elements."""

Fill = Callable[..., None]
"""`fill(state, blocks, y, …)`: fill a vector from the words of so many blocks."""

NAMES = {"float32": "float", "float64": "double", "float16": "float16", "bfloat16": "bfloat16"}


@functools.cache
def text() -> CudaModule:
    """Return the text of all kernels here."""
    return CudaModule.from_file("random.cu")


def fill(kernel: str, per_thread: int, state: Any, blocks: int, y: Any, *more: Any) -> None:
    """Launch a kernel in which each thread makes `per_thread` elements of y at a time."""
    grid = min(blocks_for(y.size, THREADS, per_thread), MAX_BLOCKS)
    arguments = (state, np.uint64(blocks), y, np.int64(y.size), *more)
    launch(text(), kernel, grid, THREADS, arguments)


@philox_device.UNIFORM.kernel("cuda")
def uniform() -> Fill:
    """Make uniform numbers of float32 or float64."""

    def run(state: Any, blocks: int, y: Any) -> None:
        fill(f"fill_uniform_{NAMES[y.dtype.name]}", 16 // y.itemsize, state, blocks, y)

    return run


@philox_device.NORMAL.kernel("cuda")
def normal() -> Fill:
    """Make normal numbers of float32 or float64."""

    def run(state: Any, blocks: int, y: Any) -> None:
        fill(f"fill_normal_{NAMES[y.dtype.name]}", 16 // y.itemsize, state, blocks, y)

    return run


@philox_device.INTEGERS.kernel("cuda")
def integers() -> Fill:
    """Make integers: `run(state, blocks, y, low, values)` fills a vector of int64."""

    def run(state: Any, blocks: int, y: Any, low: int, values: int) -> None:
        if values <= 2**32:
            fill("fill_integers", 1, state, blocks, y, np.int64(low), np.uint64(values))
        else:
            mask = np.uint64((1 << (values - 1).bit_length()) - 1)
            last = np.uint64(values - 1)
            fill("fill_wide_integers", 1, state, blocks, y, np.int64(low), mask, last)

    return run


@philox_device.SORT_KEYS.kernel("cuda")
def sort_keys() -> Fill:
    """Make the keys of a permutation: `run(state, blocks, y, mask)` fills a vector of uint64."""

    def run(state: Any, blocks: int, y: Any, mask: int) -> None:
        fill("fill_sort_keys", 2, state, blocks, y, np.uint64(mask))

    return run


@philox_device.PLACE.kernel("cuda")
def place() -> Fill:
    """Make places: `run(state, blocks, y)` writes seed and offset of a draw into y."""

    def run(state: Any, blocks: int, y: Any) -> None:
        launch(text(), "place_draw", 1, 1, (state, np.uint64(blocks), y))

    return run


def uniform_at(place: Any, y: Any) -> None:
    """Fill y with the float32 numbers of a draw that has its place."""
    grid = min(blocks_for(y.size, THREADS), MAX_BLOCKS)
    launch(text(), "fill_uniform_at", grid, THREADS, (place, y, np.int64(y.size)))


@philox_device.DROPOUT_MASK.kernel("cuda")
def dropout_mask() -> Fill:
    """Make masks: `run(state, blocks, y, p, kept)` fills y with `kept`, and with 0."""

    def run(state: Any, blocks: int, y: Any, p: float, kept: float) -> None:
        kernel = f"fill_mask_{NAMES[y.dtype.name]}"
        fill(kernel, 4, state, blocks, y, np.float32(p), np.float64(kept))

    return run
