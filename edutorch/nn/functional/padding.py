"""Padding the last axes of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...backends.numpy import Array, Namespace
from ...core.composed import recorded_as
from ...core.tensor import Tensor
from ...errors import NotHereError, ShapeError, ShapeValueError
from ...ops import cat, index_select, narrow, tensor
from .op_decorators import SettingError, layer

__all__ = ["pad"]


@layer(public="pad ctc_loss", node="ConstantPadNdBackward0")
def constant_pad(
    xp: Namespace, input: Array, pads: tuple[tuple[int, int], ...], value: float
) -> Array:
    """Pad each axis with a constant; a negative width crops."""
    source, destination = [], []
    shape = []
    for size, (before, behind) in zip(input.shape, pads, strict=True):
        source.append(slice(max(-before, 0), size - max(-behind, 0)))
        destination.append(slice(max(before, 0), size + before + min(behind, 0)))
        shape.append(size + before + behind)
    if min(shape, default=0) < 0:
        raise ShapeError("pad", "cuts off more than there is", {"input": input.shape, "pad": pads})
    y = xp.full(tuple(shape), value, input.dtype)
    y[tuple(destination)] = input[tuple(source)]
    return y


# The padding has no gradient, and what was cropped has a gradient of 0.
constant_pad.vjp(
    input=lambda g, pads: constant_pad(g, tuple((-a, -b) for a, b in pads), 0.0),
    latex=r"g\ \text{without the border}",
)


def pad_node_name(axes: int, mode: str) -> str:
    """Return PyTorch's name of the autograd node of a padding, or "" where it has none."""
    prefixes = {"reflect": "Reflection", "replicate": "Replication"}
    return f"{prefixes[mode]}Pad{axes}DBackward0" if mode in prefixes else ""


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Pad the last axes; a negative width crops.

    Args:
        pad: the widths before and after the last axis, then the last but one, …
        mode: "constant" (`value`), "reflect" (mirrored without the edge), "replicate"
            (the edge repeated) or "circular" (periodic).

    Raises: ShapeError: `pad` does not fit the tensor. SettingError (a ValueError): `value`
        with another mode than "constant".

    >>> nn.functional.pad(tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    """
    count, ndim = len(pad), len(input._array.shape)
    if count % 2 or count > 2 * ndim:
        raise ShapeValueError(
            "pad", "`pad` needs two numbers for each axis, the last axis first",
            {"input": tuple(input.shape), "pad": tuple(pad)},
        )  # fmt: skip
    if mode == "constant":
        pads = [(0, 0)] * (ndim - count // 2)
        for at in range(count - 2, -1, -2):
            pads.append((pad[at], pad[at + 1]))
        return constant_pad(input, tuple(pads), value or 0.0)
    if mode not in SOURCE_INDEX:
        hint = "the modes are constant, reflect, replicate and circular"
        raise NotHereError("pad", f"unknown mode {mode!r}", hint=hint)
    if value is not None and value != 0:
        raise SettingError("pad", f'mode "{mode}" doesn\'t take in value argument')
    if not count // 2 < input.ndim <= count // 2 + 2:
        raise ShapeValueError(
            "pad", f"mode {mode!r} pads all axes behind the channels, with or without a batch",
            {"input": tuple(input.shape), "pad": tuple(pad)},
            "1 axis of (n c l), 2 of (n c h w), 3 of (n c d h w)",
        )  # fmt: skip
    return pad_by_index(input, pad, mode)


@recorded_as(lambda input, pad, mode: pad_node_name(len(pad) // 2, mode))
def pad_by_index(input: Tensor, pad: Sequence[int], mode: str) -> Tensor:
    """Pad with elements of the tensor itself: see `pad`."""
    for axis, (before, behind) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        if before or behind:
            size = input.shape[-axis]
            check_border(mode, size, before, behind)
            if mode == "circular":  # cropped elements do not wrap around
                start, size = max(-before, 0), size + min(before, 0) + min(behind, 0)
                input = narrow(input, -axis, start, size)
                before, behind = max(before, 0), max(behind, 0)
            parts = [np.arange(-before, 0), np.arange(size, size + behind)]
            edges = [
                index_select(
                    input, -axis, tensor(SOURCE_INDEX[mode](part, size), device=input.device)
                )
                for part in parts
            ]
            kept = narrow(input, -axis, max(-before, 0), size + min(before, 0) + min(behind, 0))
            input = cat([edges[0], kept, edges[1]], -axis)
    return input


def check_border(mode: str, size: int, before: int, behind: int) -> None:
    """Raise ShapeError unless an axis is long enough for the padding."""
    width = max(before, behind)
    if size + before + behind < (mode != "circular"):
        raise ShapeError("pad", f"cuts off more than there is: {size} numbers")
    if mode == "reflect" and width >= size:
        raise ShapeError("pad", f"reflected padding must be less than the size, {size}")
    if mode == "circular" and width > size:
        raise ShapeError("pad", f"circular padding of more than the size, {size}")


SOURCE_INDEX = {
    "replicate": lambda i, size: np.clip(i, 0, size - 1),
    "circular": lambda i, size: i % size,
    "reflect": lambda i, size: np.minimum(abs(i), 2 * (size - 1) - abs(i)),
}
"""For each mode, the source indices of positions `i`, which may lie outside."""
