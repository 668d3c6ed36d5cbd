"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..table import onnx_op
from ..values import F, Ints, Value, ints, rank_of, refuse, torch

Sizes = Sequence[int] | None


class Window(NamedTuple):
    """How a kernel moves over the axes of pictures: a number for each axis."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @property
    def spans(self) -> list[int]:
        """How many positions the kernel reaches over."""
        pairs = zip(self.kernel, self.dilations, strict=True)
        return [(size - 1) * dilation + 1 for size, dilation in pairs]

    @property
    def is_symmetric(self) -> bool:
        """Whether both ends of each axis are padded alike."""
        return self.before == self.after


def window_of(
    X: Value, kernel: Sequence[int], strides: Sizes, dilations: Sizes, pads: Sizes,
    auto_pad: str,
) -> Window:  # fmt: skip
    """Return the window that the attributes of an op describe. Raises: NotKnownError."""
    count = len(kernel)
    steps, holes = list(strides or [1] * count), list(dilations or [1] * count)
    before, after = [0] * count, [0] * count
    if auto_pad == "NOTSET" and pads:
        before, after = list(pads[:count]), list(pads[count:])
    window = Window(list(kernel), steps, holes, before, after)
    if auto_pad.startswith("SAME"):
        for i, (step, span) in enumerate(zip(steps, window.spans, strict=True)):
            length = int(X.shape[i + 2]) if step > 1 else 1
            outputs = -(-length // step)
            total = max((outputs - 1) * step + span - length, 0)
            small, large = total // 2, total - total // 2
            before[i], after[i] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
    return window


def padded(X: Value, window: Window, value: float = 0.0) -> Value:
    """Return pictures with the padding of a window around them."""
    pairs = zip(reversed(window.before), reversed(window.after), strict=True)
    amounts = [amount for pair in pairs for amount in pair]
    return F.pad(X, amounts, value=value) if any(amounts) else X


def compact(values: list[int]) -> int | list[int]:
    """Return one number for equal ones: stride=2 instead of stride=[2, 2]."""
    return values[0] if len(set(values)) == 1 else values


def settings(**values: Any) -> dict[str, Any]:
    """Return the keywords that differ from PyTorch's defaults."""
    defaults = {"padding": 0, "output_padding": 0}
    return {key: value for key, value in values.items() if value != defaults.get(key, 1)}


@onnx_op("Conv")
def conv(
    X: Value, W: Value, B: Value = None, *, auto_pad: str = "NOTSET", dilations: Sizes = None,
    group: int = 1, kernel_shape: Sizes = None, pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Convolution over one, two or three axes."""
    count = rank_of(W) - 2
    # The kernel's size only matters for auto_pad, where it must be known.
    kernel = kernel_shape or (
        [1] * count
        if not auto_pad.startswith("SAME")
        else [int(W.shape[i + 2]) for i in range(count)]
    )
    window = window_of(X, kernel, strides, dilations, pads, auto_pad)
    padding = compact(window.before) if window.is_symmetric else 0
    X = X if window.is_symmetric else padded(X, window)
    keywords = settings(stride=compact(window.strides), padding=padding,
                        dilation=compact(window.dilations), groups=group)  # fmt: skip
    if count not in (1, 2, 3):
        refuse(f"a convolution over {count} axes")
    function = (torch.conv1d, torch.conv2d, torch.conv3d)[count - 1]
    return function(X, W, **keywords) if B is None else function(X, W, B, **keywords)


@onnx_op("ConvTranspose")
def conv_transpose(
    X: Value, W: Value, B: Value = None, *, auto_pad: str = "NOTSET", dilations: Sizes = None,
    group: int = 1, kernel_shape: Sizes = None, output_padding: Sizes = None,
    output_shape: Sizes = None, pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Transposed convolution over one, two or three axes."""
    count = rank_of(W) - 2
    kernel = list(kernel_shape or [int(W.shape[i + 2]) for i in range(count)])
    extra = list(output_padding or [0] * count)
    window = window_of(X, kernel, strides, dilations, pads, "NOTSET" if pads else "VALID")
    if output_shape or auto_pad.startswith("SAME"):
        window = fitted(X, window, extra, (output_shape, auto_pad))
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[count - 1]
    symmetric = window.is_symmetric
    keywords = settings(
        stride=compact(window.strides), groups=group, dilation=compact(window.dilations),
        padding=compact(window.before) if symmetric else 0,
        output_padding=compact(extra) if symmetric else 0,
    )  # fmt: skip
    result = function(X, W, **keywords) if B is None else function(X, W, B, **keywords)
    if symmetric:
        return result
    # Padding of a transposed convolution cuts its result; what is beyond it is the bias alone.
    ends = [size - after for size, after in zip(extra, window.after, strict=True)]
    cut = Window(kernel, window.strides, window.dilations, [-size for size in window.before], ends)
    return padded(result, cut) if B is None else beyond(result, cut, B)


def beyond(result: Value, cut: Window, B: Value) -> Value:
    """Return a result cut, and extended by the bias where it must be longer."""
    bias = torch.reshape(B, [-1] + [1] * len(cut.kernel))
    return padded(result - bias, cut) + bias


def fitted(X: Value, window: Window, extra: list[int], wanted: tuple[Sizes, str]) -> Window:
    """Return a window with the padding that gives the wanted sizes of the result.

    Args:
        wanted: the sizes (the last ones count), or None; and `auto_pad`.
    """
    output_shape, auto_pad = wanted
    before, after = [], []
    for i, (step, span) in enumerate(zip(window.strides, window.spans, strict=True)):
        length = int(X.shape[i + 2])
        size = output_shape[i - len(window.kernel)] if output_shape else length * step
        total = step * (length - 1) + extra[i] + span - size
        small, large = total // 2, total - total // 2
        upper = auto_pad == "SAME_UPPER"
        before.append(small if upper else large)
        after.append(large if upper else small)
    return window._replace(before=before, after=after)


@onnx_op("DeformConv")
def deform_conv(
    X: Value, W: Value, offset: Value, B: Value = None, mask: Value = None, *,
    dilations: Sizes = None, group: int = 1, kernel_shape: Sizes = None, offset_group: int = 1,
    pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Convolution whose taps are moved by offsets, between pixels."""
    window = window_of(X, list(W.shape[2:]), strides, dilations, pads, "NOTSET")
    n, c, height, width = X.shape
    rows, columns = (int(size) for size in offset.shape[2:])
    taps = window.kernel[0] * window.kernel[1]
    shifts = torch.reshape(offset, [n, offset_group, taps, 2, rows, columns])
    grids = []
    for axis, size in ((0, rows), (1, columns)):
        starts = torch.arange(size) * window.strides[axis] - window.before[axis]
        holes = torch.arange(window.kernel[axis]) * window.dilations[axis]
        holes = (
            holes.repeat_interleave(window.kernel[1])
            if axis == 0
            else holes.repeat(window.kernel[0])
        )
        starts = torch.reshape(starts, [size, 1] if axis == 0 else [1, size])
        grids.append(torch.reshape(holes, [taps, 1, 1]) + starts + shifts[:, :, :, axis])
    y, x = grids  # n, groups of offsets, taps, rows, columns
    grid = torch.stack([2 * x / max(width - 1, 1) - 1, 2 * y / max(height - 1, 1) - 1], -1)
    pictures = torch.reshape(X, [n * offset_group, c // offset_group, height, width])
    grid = torch.reshape(grid, [n * offset_group, taps * rows, columns, 2]).to(X.dtype)
    sampled = F.grid_sample(pictures, grid, align_corners=True)
    sampled = torch.reshape(sampled, [n, offset_group, c // offset_group, taps, rows, columns])
    if mask is not None:
        sampled = sampled * torch.reshape(mask, [n, offset_group, 1, taps, rows, columns])
    values = torch.reshape(sampled, [n, group, c // group, taps, rows, columns])
    kernels = torch.reshape(W, [group, -1, c // group, taps])
    result = torch.einsum("ngctij,goct->ngoij", values, kernels)
    result = torch.reshape(result, [n, -1, rows, columns])
    return result if B is None else result + torch.reshape(B, [1, -1, 1, 1])


@onnx_op("Col2Im")
def col_2_im(
    input: Value, image_shape: Ints, block_shape: Ints, *, dilations: Sizes = None,
    pads: Sizes = None, strides: Sizes = None,
) -> Value:  # fmt: skip
    """Add up the columns of windows in a picture, over any number of axes."""
    sizes, kernel = ints(image_shape), ints(block_shape)
    window = window_of(input, kernel, strides, dilations, pads, "NOTSET")
    full = [size + window.before[i] + window.after[i] for i, size in enumerate(sizes)]
    taps = 1
    for size in kernel:
        taps *= size
    n, channels = input.shape[0], input.shape[1] // taps
    position = torch.zeros([1], dtype=torch.int64)
    for i in range(len(sizes)):  # the position of each (tap, window) in the flat picture
        count = (full[i] - window.spans[i]) // window.strides[i] + 1
        holes = torch.arange(kernel[i]) * window.dilations[i]
        starts = torch.arange(count) * window.strides[i]
        here = holes.unsqueeze(1) + starts
        before = position.reshape([-1, 1]) if i == 0 else position
        taps_before, windows_before = (1, 1) if i == 0 else before.shape
        position = (
            before.reshape([taps_before, 1, windows_before, 1]) * full[i]
            + here.reshape([1, kernel[i], 1, count])
        ).reshape([taps_before * kernel[i], windows_before * count])
    flat = position.reshape([1, 1, -1]).expand([n, channels, -1])
    total = 1
    for size in full:
        total *= size
    values = torch.reshape(input, [n, channels, -1])
    result = torch.zeros([n, channels, total], dtype=input.dtype).scatter_add(2, flat, values)
    result = torch.reshape(result, [n, channels, *full])
    cut = window._replace(before=[-b for b in window.before], after=[-a for a in window.after])
    return padded(result, cut)
