"""Strided views with arbitrary sizes and strides, and copies with such a region replaced.

A tensor occupies a storage: memory that it may share with other tensors. Its `layout` gives
the stride of each axis and the storage offset of its first element. The rules invert that
mapping, from storage positions to elements, so that a gradient also reaches a tensor that is
transposed or has gaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array, Namespace
from ..core.autograd.view_tracking import Layout
from ..core.op import movement, op
from ..errors import ShapeError


def strided_positions(size: Sequence[int], stride: Sequence[int], offset: int) -> np.ndarray:
    """Return the storage positions that a strided view covers, in row-major order."""
    positions = np.full(tuple(size), offset, np.int64)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        positions += (np.arange(n) * step).reshape((-1,) + (1,) * (len(size) - axis - 1))
    return positions.reshape(-1)


def elements_at(
    positions: np.ndarray, shape: Sequence[int], layout: Layout
) -> tuple[np.ndarray, np.ndarray]:
    """Return the flat indices of the elements at storage positions, and a mask of positions
    that hold no element.

    From the largest stride to the smallest, each axis takes as many steps as fit.
    """
    rows = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    steps, start = (rows, 0) if layout is None else layout
    remaining, indices = positions - start, np.zeros_like(positions)
    outside = (remaining < 0) | (0 in shape)
    for axis in sorted(range(len(shape)), key=lambda axis: -steps[axis]):
        if shape[axis] > 1 and steps[axis]:
            step_count = np.clip(remaining // steps[axis], 0, shape[axis] - 1)
            remaining = remaining - step_count * steps[axis]
            indices += step_count * rows[axis]
    return indices, outside | (remaining != 0)


def check_strides(
    xp: Namespace, input: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int
) -> None:
    """Raise ShapeError for a view that would exceed the storage of `input`."""
    if len(size) != len(stride) or min((*size, *stride, storage_offset, 0)) < 0:
        raise ShapeError(
            "as_strided", "needs one non-negative stride for each size",
            {"size": tuple(size), "stride": tuple(stride)},
        )  # fmt: skip
    last = storage_offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    capacity = backends.of(input).storage(input)[1] // input.dtype.itemsize
    if math.prod(size) and last >= capacity:
        raise ShapeError(
            "as_strided", f"would reach number {last} of memory that holds {capacity}",
            {"input": input.shape, "size": tuple(size), "stride": tuple(stride)},
        )  # fmt: skip


@movement(method=False)
def as_strided(
    xp: Namespace,
    input: Array,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int = 0,
    layout: Layout = None,
) -> Array:
    """A view with the given size and stride per axis; `layout` is that of the input.

    >>> as_strided(arange(4), (2, 2), (1, 1), 1)
    tensor([[1, 2],
            [2, 3]])
    """
    if layout is None and not input.flags.c_contiguous:
        input = xp.ascontiguousarray(input)
    check_strides(xp, input, size, stride, storage_offset)
    backend, itemsize = backends.of(input), input.dtype.itemsize
    start = backend.address(input) - backend.storage(input)[0]
    steps = [step * itemsize for step in stride]
    return backend.as_strided(input, tuple(size), steps, storage_offset * itemsize - start)


def _as_strided_rule(
    g: Any, input_shape: Any, size: Any, stride: Any, storage_offset: int, layout: Layout
) -> Any:
    positions = strided_positions(size, stride, storage_offset)
    index, outside = elements_at(positions, input_shape, layout)
    count = math.prod(input_shape)
    needs_slot = bool(
        outside.any()
    )  # positions without an element of the input go to one extra slot
    index = np.where(outside, count, index) if needs_slot else index
    scattered = index_put_forward(reshape(g, (-1,)), (index,), (count + needs_slot,))
    return reshape(scattered[:count] if needs_slot else scattered, input_shape)


as_strided.vjp(input=_as_strided_rule, latex=r"g\ \text{added where it came from}")


@op(method=False)
def as_strided_scatter(
    xp: Namespace,
    input: Array,
    src: Array,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int = 0,
    layout: Layout = None,
) -> Array:
    """A copy of `input` with the elements of `src` in a strided region of its storage.

    >>> as_strided_scatter(zeros(4), ones(2), (2,), (1,), 1)
    tensor([0., 1., 1., 0.])
    """
    index, outside = elements_at(
        strided_positions(size, stride, storage_offset), input.shape, layout
    )
    y = input.reshape(-1).copy()
    values = xp.broadcast_to(src, tuple(size)).reshape(-1)
    if outside.any():
        values = values[xp.asarray(np.nonzero(~outside)[0])]
        index = index[~outside]
    y[xp.asarray(index)] = values
    return y.reshape(input.shape)


def _outside_region(g: Any, size: Any, stride: Any, storage_offset: int, layout: Layout) -> Any:
    none = zeros_like(_in_region(g, size, stride, storage_offset, layout))
    return as_strided_scatter(g, none, size, stride, storage_offset, layout)


def _in_region(g: Any, size: Any, stride: Any, storage_offset: int, layout: Layout) -> Any:
    positions = strided_positions(size, stride, storage_offset)
    index, outside = elements_at(positions, tuple(g.shape), layout)
    picked = getitem(reshape(g, (-1,)), (index[~outside],))
    if outside.any():
        picked = index_put_forward(picked, (np.nonzero(~outside)[0],), (len(index),))
    return reshape(picked, tuple(size))


as_strided_scatter.vjp(
    input=_outside_region,
    src=_in_region,
    latex={"input": r"g\ \text{outside the region}", "src": r"g\ \text{in the region}"},
)

from .indexing import getitem, index_put_forward  # noqa: E402  (rules may use any op)
from .like import zeros_like  # noqa: E402
from .views import reshape  # noqa: E402
