"""What other texts have to compute: random numbers, one-hot vectors, optimizers, gradients.

Optimizers and gradients find their elements by a table of addresses, which the fibers' guard zones
do not see: here each array lies between numbers that have to stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import ml_dtypes
import numpy as np

from edutorch.backends.philox import PhiloxRandom
from edutorch.backends.philox_device import DeviceRandom
from edutorch.backends.strict_array import StrictArray
from edutorch.kernels.gpu import gradients, one_hot, random
from edutorch.kernels.gpu.module import CudaModule, launch
from edutorch.kernels.gpu.optimizers import BLOCK, CHUNK, chunk_table, step_module

SEED = 0xF2345678_9ABCDEF0
DRAW_SIZES = (1, 2, 3, 5, 33, 1027)
TABLE_SIZES = (1, 31, 33, 1023, CHUNK + 5)
ZONE = 8
"""So many elements before and behind an array have to stay."""


def check_random(dtype: str, sizes: Iterable[int] = DRAW_SIZES) -> None:
    """Every kernel of `random.cu` against the definition, bit by bit."""
    device, exact = DeviceRandom(np, SEED), PhiloxRandom(np, SEED)
    device.offset = exact.offset = 2**32 - 7  # the second word of the counter changes soon
    floats = [np.dtype(name) for name in ("float32", "float64", "float16", ml_dtypes.bfloat16)]
    calls: list[Callable[[Any, int], Any]] = [
        *(lambda draw, n, t=t: draw.uniform((n,), t) for t in floats[:2]),
        *(lambda draw, n, t=t: draw.normal((n,), t) for t in floats[:2]),
        *(
            lambda draw, n, v=values: draw.integers(-(v // 2), v - v // 2, (n,))
            for values in (1, 10, 3 * 2**30, 2**32, 3 * 2**61, 2**64)
        ),
        lambda draw, n: draw.permutation(n),
        sort_bits,
        *(lambda draw, n, t=t: dropout_mask(draw, n, t) for t in floats),
        uniform_at_place,
    ]
    for n in sizes:
        for number, call in enumerate(calls):
            y, right = call(device, n), call(exact, n)
            assert y.tobytes() == right.tobytes(), f"call {number} of {n} numbers"
    assert device.device_state().tolist() == [SEED, exact.offset, 0]


def sort_bits(draw: Any, n: int) -> np.ndarray:
    """Return the upper bits of the keys of a permutation: those of float64 numbers."""
    if not isinstance(draw, DeviceRandom):
        return (draw.uniform((n,), np.dtype(np.float64)) * 2.0**53).astype(np.uint64)
    y, blocks = np.empty(n, np.uint64), -(-n // 2)
    random.sort_keys()(draw.device_state(), blocks, y, 2**11 - 1)
    assert (y % 2**11 == np.arange(n)).all(), "the place of a key"
    draw.offset += blocks
    return y >> np.uint64(11)


def uniform_at_place(draw: Any, n: int) -> np.ndarray:
    """Return uniform numbers: by a kernel that gets the place of the draw."""
    if not isinstance(draw, DeviceRandom):
        return draw.uniform((n,), np.dtype(np.float32))
    place, y = draw.place(n), np.empty(n, np.float32)
    random.uniform_at(place, y)
    return y


def dropout_mask(draw: Any, n: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a mask of dropout: by the kernel, or from uniform numbers, as the definition."""
    if isinstance(draw, DeviceRandom):
        return draw.dropout_mask((n,), 0.3, dtype)
    kept = draw.uniform((n,), np.dtype(np.float32)) >= np.float32(0.3)
    return np.where(kept, 1 / (1 - 0.3), 0).astype(dtype)


def check_one_hot(dtype: str, sizes: Iterable[int] = DRAW_SIZES) -> None:
    """One-hot vectors; a class that is out of range has none."""
    for n in sizes:
        for classes in (1, 2, 7, 300):
            index = np.random.default_rng(n).integers(-1, classes + 1, 2 * n)[::2]
            y = one_hot.one_hot()(index, classes)
            right = (index[:, None] == np.arange(classes)).astype(np.int64)
            assert y.dtype == np.int64, y.dtype
            assert y.shape == right.shape, y.shape
            assert (y == right).all(), f"{n} of {classes} classes"


def between_zones(size: int, shift: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a whole array of random numbers, and the part of it that is `shift` off 16 bytes."""
    whole = np.random.default_rng(seed).standard_normal(size + 2 * ZONE + 4).astype(np.float32)
    first = ZONE + (-(whole.ctypes.data // 4) % 4 + shift) % 4
    return whole, whole[first : first + size]


RULE = step_module(
    "A rule", ("param", "grad", "average"),
    ("average = average * s0 + grad * s1;", "param = param - average;"),
    ("param", "average"), 2, np.dtype(np.float32),
)  # fmt: skip
"""The step of an optimizer: what stands around a rule is the same for all of them."""


def check_optimizers(dtype: str, sizes: Iterable[int] = TABLE_SIZES) -> None:
    """A step over several arrays, with and without 16 bytes at a time."""
    scalars = np.array([0.5, 0.25], np.float32)
    for shifts in ((0, 0, 0), (0, 0, 1), (0, 1, 0), (2, 0, 0), (1, 1, 1)):
        columns = [
            [between_zones(n, shift, 3 * n + column) for n in sizes]
            for column, shift in enumerate(shifts)
        ]
        expected = []
        for param, grad, average in zip(*columns, strict=True):
            right = [whole.copy() for whole, _ in (param, grad, average)]
            inner = [
                copy[(part.ctypes.data - whole.ctypes.data) // 4 :][: part.size]
                for copy, (whole, part) in zip(right, (param, grad, average), strict=True)
            ]
            inner[2][:] = inner[2] * scalars[0] + inner[1] * scalars[1]
            inner[0] -= inner[2]
            expected.append(right)
        addresses = [[part.ctypes.data for _, part in column] for column in columns]
        table = chunk_table(addresses, list(sizes), 4)
        launch(RULE, "fused_step", table.shape[0], BLOCK, (table, scalars))
        for arrays, right in zip(zip(*columns, strict=True), expected, strict=True):
            for (whole, _), copy in zip(arrays, right, strict=True):
                assert whole.tobytes() == copy.tobytes(), f"{whole.size} numbers, {shifts}"


def check_gradients(dtype: str, sizes: Iterable[int] = TABLE_SIZES) -> None:
    """Gradients multiplied in place, the sum of their squares, and what is not finite."""
    for factor in (0.25, 1.0):
        for bad in (None, *sizes):
            arrays = [between_zones(n, 0, n) for n in sizes]
            for _, part in arrays:
                if part.size == bad:
                    part[-1] = np.inf
            before = [(whole.copy(), part.copy()) for whole, part in arrays]
            found_inf = StrictArray(np.zeros(1, np.float32))
            grads = [StrictArray(part) for _, part in arrays]
            number = StrictArray(np.array([factor], np.float32))
            squares = gradients.unscale(grads, number, found_inf)
            assert squares is not None
            assert found_inf.get()[0] == (bad is not None), f"inf among {bad}"
            for (whole, part), (copy, own) in zip(arrays, before, strict=True):
                first = (part.ctypes.data - whole.ctypes.data) // 4
                copy[first : first + part.size] *= np.float32(factor)
                assert whole.tobytes() == copy.tobytes(), f"{own.size} gradients"
            if bad is None:
                wide = sum((part.astype(np.float64) ** 2).sum() for _, part in arrays)
                np.testing.assert_allclose(squares.get(), wide, rtol=1e-12)


TEXT_CHECKS: dict[str, Callable[..., None]] = {
    "random": check_random,
    "one_hot": check_one_hot,
    "optimizers": check_optimizers,
    "gradients": check_gradients,
}
"""The check of each text."""

TABLES = ("optimizers", "gradients")
"""What their tables point to is not copied: one order of threads, no repetition elsewhere."""


def text_of(name: str) -> CudaModule:
    """Return the text that the check of this name runs."""
    if name in ("random", "one_hot"):
        return random.text() if name == "random" else one_hot.text()
    return RULE if name == "optimizers" else gradients.module_of(np.dtype(np.float32))
