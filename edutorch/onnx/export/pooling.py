"""Entries for pooling: the largest element or the average of each window.

Which element was the largest is told by the number of its tap in the window. `tap_positions` is a
table of where each tap of each window lies in the image, so that a `Gather` picks them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...fx.node import Node
from ...nn.functional.pooling import first_inner_tap
from ...nn.functional.sliding_window import Windows, pad_array
from .builder import Builder, Value, is_value, numpy_type
from .elementwise import number
from .movement import rank
from .table import Unsupported, entry


@entry("op:max_pool")
def max_pool(
    b: Builder, node: Node, input: Value, kernel_size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """The largest element of each window."""
    spatial = len(kernel_size)
    value = b.unsqueeze(input, 0) if rank(input) == spatial + 1 else input
    pooled = b.op(
        "MaxPool", value, kernel_shape=list(kernel_size), strides=list(stride) or list(kernel_size),
        pads=[*padding, *padding], dilations=list(dilation), ceil_mode=int(ceil_mode),
    )  # fmt: skip
    return pooled if value is input else b.squeeze(pooled, 0)


@entry("op:avg_pool")
def avg_pool(
    b: Builder, node: Node, input: Value, kernel_size: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """The average of each window."""
    if any(is_value(size) for size in kernel_size):  # the whole of an axis
        axes = list(range(rank(input) - len(kernel_size), rank(input)))
        return b.op("ReduceMean", input, b.const(axes, np.int64), keepdims=1)
    spatial = len(kernel_size)
    value = b.unsqueeze(input, 0) if rank(input) == spatial + 1 else input
    whole = divisor_override is not None
    pooled = b.op(
        "AveragePool", value, kernel_shape=list(kernel_size), strides=list(stride or kernel_size),
        pads=[*padding, *padding], ceil_mode=int(ceil_mode and not whole),
        count_include_pad=int(count_include_pad or whole),
    )  # fmt: skip
    if divisor_override is not None:
        if ceil_mode:
            raise Unsupported("divisor_override with ceil_mode")
        pooled = b.op("Mul", pooled, number(b, node, math.prod(kernel_size) / divisor_override))
    return pooled if value is input else b.squeeze(pooled, 0)


# Which element is the largest ---------------------------------------------------------------------


def windows_of(shape: Sequence[Any], settings: Sequence[Any]) -> Windows:
    """Return the windows over an image, whose sizes have to be known; its batch need not be."""
    spatial = len(settings[0])
    sizes = list(shape)[len(shape) - spatial :]
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported("where the largest elements of an image of dynamic size are")
    return Windows("max_pool", (1, 1, *sizes), *settings)


def tap_positions(windows: Windows) -> np.ndarray:
    """Return the flat position of each tap of each window, (windows, taps + 1).

    A tap in the padding, and the last one of each window, which stands for none, have the position
    behind the image.
    """
    count = math.prod(windows.sizes)
    image = np.arange(count).reshape(windows.sizes)
    padded = pad_array(np, image, windows.pads, count)
    columns = [np.broadcast_to(padded[tap], windows.count).reshape(-1) for tap in windows.taps]
    return np.stack([*columns, np.full(columns[0].shape, count)], -1).astype(np.int64)


def flat_image(b: Builder, image: Value, spatial: int, behind: Any) -> Value:
    """Return an image with one spatial axis, and one element more behind it."""
    lead = rank(image) - spatial
    flat = b.op("Reshape", image, b.const([0] * lead + [-1], np.int64))
    pads = [0] * (2 * lead + 1) + [1]
    return b.op("Pad", flat, b.const(pads, np.int64), b.const(behind, numpy_type(image)))


def with_axes(b: Builder, flat: Value, lead: int, sizes: Sequence[int]) -> Value:
    """Return a value with the spatial axes in place of its last one."""
    return b.op("Reshape", flat, b.const([0] * lead + list(sizes), np.int64))


@entry("op:max_pool_indices")
def max_pool_indices(b: Builder, node: Node, input: Value, settings: Sequence[Any]) -> Value:
    """The tap of the first largest element of each window, or of its last NaN."""
    windows, dtype = windows_of(input.shape, settings), numpy_type(input)
    is_floating = dtype.kind == "f"
    lowest = -math.inf if is_floating else np.iinfo(dtype).min
    positions = tap_positions(windows)[:, :-1]
    flat = flat_image(b, input, windows.rank, lowest)
    taps = b.op("Gather", flat, b.const(positions), axis=-1)
    last, fill = b.const([-1], np.int64), b.const(lowest, dtype)
    is_nan = b.op("IsNaN", taps) if is_floating else None
    clean = taps if is_nan is None else b.op("Where", is_nan, fill, taps)
    largest = b.op("ReduceMax", clean, last, keepdims=1)
    hits = b.cast(b.op("Equal", clean, largest), np.int32)
    first = b.op("ArgMax", hits, axis=-1, keepdims=0)
    inner = np.broadcast_to(first_inner_tap(np, windows), windows.count).reshape(-1)
    nothing = b.op("Equal", b.op("Squeeze", largest, last), fill)  # the padding is never chosen
    chosen = b.op("Where", nothing, b.const(inner, np.int64), first)
    if is_nan is not None:
        nans = b.cast(is_nan, np.int32)
        any_nan = b.cast(b.op("ReduceMax", nans, last, keepdims=0), np.bool_)
        last_nan = b.op("ArgMax", nans, axis=-1, keepdims=0, select_last_index=1)
        chosen = b.op("Where", any_nan, last_nan, chosen)
    spread = with_axes(b, chosen, rank(input) - windows.rank, windows.count)
    return b.cast(spread, node.meta["dtype"])


def chosen_positions(b: Builder, windows: Windows, tap: Value) -> Value:
    """Return the flat position in the image that each tap stands for, the windows in one axis."""
    positions = tap_positions(windows)
    lead, taps = rank(tap) - windows.rank, positions.shape[1]
    flat = b.op("Reshape", b.cast(tap, np.int64), b.const([0] * lead + [-1], np.int64))
    none = b.op("Less", flat, b.const(0, np.int64))
    number_of = b.op("Where", none, b.const(taps - 1, np.int64), flat)
    starts = b.const(np.arange(len(positions)) * taps, np.int64)
    return b.op("Gather", b.const(positions.reshape(-1)), b.op("Add", starts, number_of), axis=0)


@entry("op:max_pool_gather")
def max_pool_gather(
    b: Builder, node: Node, input: Value, tap: Value, settings: Sequence[Any]
) -> Value:
    """The element at the tap of each window."""
    windows = windows_of(input.shape, settings)
    flat = flat_image(b, input, windows.rank, 0)
    picked = b.op("GatherElements", flat, chosen_positions(b, windows, tap), axis=-1)
    return with_axes(b, picked, rank(tap) - windows.rank, windows.count)


@entry("op:max_pool_scatter")
def max_pool_scatter(
    b: Builder, node: Node, input: Value, tap: Value, shape: Sequence[Any], settings: Sequence[Any]
) -> Value:
    """Each element at its tap in an image of zeros; those at the same place add up."""
    windows = windows_of(shape, settings)
    lead, count = rank(input) - windows.rank, math.prod(windows.sizes)
    flat = b.op("Reshape", input, b.const([0] * lead + [-1], np.int64))
    sizes = [b.op("Shape", input, start=0, end=lead)] if lead else []
    whole = b.op("Concat", *sizes, b.const([count + 1], np.int64), axis=0)
    zeros = b.op("Expand", number(b, node, 0), whole)
    positions = chosen_positions(b, windows, tap)
    written = b.op("ScatterElements", zeros, positions, flat, axis=-1, reduction="add")
    return with_axes(b, b.slice(written, lead, 0, count), lead, windows.sizes)
