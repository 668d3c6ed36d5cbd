"""Shapes and positions: reshape, transpose, slice, join, split, pad."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..table import onnx_op
from ..values import (
    F,
    Floats,
    Ints,
    Outputs,
    Value,
    facts,
    ints,
    number,
    positive,
    rank_of,
    torch,
)  # fmt: skip


@onnx_op("Reshape")
def reshape(data: Value, shape: Ints, *, allowzero: int = 0) -> Value:
    """Give a tensor another shape; -1 is worked out, 0 keeps the size (allowzero=0)."""
    sizes = ints(shape)
    if not allowzero:
        sizes = [data.shape[i] if size == 0 else size for i, size in enumerate(sizes)]
    return torch.reshape(data, sizes)


@onnx_op("Shape")
def shape(data: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The sizes as a tensor."""
    if start == 0 and end is None:
        return torch.tensor(data.shape, dtype=torch.int64)
    return torch.tensor(data.shape[slice(start, end)], dtype=torch.int64)


@onnx_op("Size")
def size(data: Value) -> Value:
    """The number of elements as a tensor."""
    return torch.tensor(data.numel(), dtype=torch.int64)


@onnx_op("Transpose")
def transpose(data: Value, *, perm: Sequence[int] | None = None) -> Value:
    """Order the axes anew; by default, the other way round."""
    order = list(range(rank_of(data)))[::-1] if perm is None else list(perm)
    return torch.permute(data, order)


@onnx_op("Flatten")
def flatten(input: Value, *, axis: int = 1) -> Value:
    """Make a matrix: the axes before `axis`, and those from it on."""
    if axis == 1 and facts(input).shape is not None and rank_of(input) > 1:
        return torch.flatten(input, 1)
    sizes = [input.shape[i] for i in range(rank_of(input))]
    axis = positive(axis, len(sizes))
    rows, columns = math.prod(sizes[:axis]), math.prod(sizes[axis:])
    return torch.reshape(input, [rows, columns])


@onnx_op("Squeeze", since=13)
def squeeze(data: Value, axes: Ints = None) -> Value:
    """Remove axes of size 1: some, or all."""
    return torch.squeeze(data) if axes is None else torch.squeeze(data, tuple(ints(axes)))


@onnx_op("Squeeze")
def squeeze_1(data: Value, *, axes: Sequence[int] | None = None) -> Value:
    """Squeeze with its axes as an attribute."""
    return torch.squeeze(data) if axes is None else torch.squeeze(data, tuple(axes))


@onnx_op("Unsqueeze", since=13)
def unsqueeze(data: Value, axes: Ints) -> Value:
    """Insert axes of size 1, at positions of the result."""
    dims = ints(axes)
    if len(dims) == 1:
        return torch.unsqueeze(data, dims[0])
    rank = rank_of(data) + len(dims)
    for dim in sorted(positive(dim, rank) for dim in dims):
        data = torch.unsqueeze(data, dim)
    return data


@onnx_op("Unsqueeze")
def unsqueeze_1(data: Value, *, axes: Sequence[int]) -> Value:
    """Unsqueeze with its axes as an attribute."""
    return unsqueeze(data, list(axes))


@onnx_op("Concat")
def concat(*inputs: Value, axis: int) -> Value:
    """Join tensors along an axis."""
    return torch.cat(list(inputs), axis)


@onnx_op("Expand")
def expand(input: Value, shape: Ints) -> Value:
    """Broadcast with a shape: sizes of 1 stretch on either side."""
    sizes, known = ints(shape), rank_of(input)
    sizes = [1] * (known - len(sizes)) + sizes
    return torch.broadcast_to(input, [
        size if i < len(sizes) - known or size != 1 else input.shape[i - len(sizes)]
        for i, size in enumerate(sizes)
    ])  # fmt: skip


@onnx_op("Tile")
def tile(input: Value, repeats: Ints) -> Value:
    """Repeat a tensor along each axis."""
    return torch.tile(input, tuple(ints(repeats)))


@onnx_op("Split", since=18)
def split_18(
    input: Value, split: Ints = None, *, axis: int = 0, num_outputs: int | None = None,
    outputs: int = 1,
) -> Outputs:  # fmt: skip
    """Cut a tensor into parts of given sizes, or into as many parts as there are outputs."""
    return split_13(input, split, axis=axis, outputs=num_outputs or outputs)


@onnx_op("Split", since=13)
def split_13(input: Value, split: Ints = None, *, axis: int = 0, outputs: int = 1) -> Outputs:
    """Split before it had the attribute `num_outputs`."""
    if split is not None:
        sizes = ints(split)
    else:
        length = facts(input).shape[axis] if facts(input).shape else None
        if not isinstance(length, int):
            return chunks(input, axis, outputs)
        size = -(-length // outputs)
        sizes = [min(size, max(0, length - i * size)) for i in range(outputs)]
    parts = torch.split(input, sizes, axis)
    return tuple(parts[i] for i in range(len(sizes)))


def chunks(input: Value, axis: int, outputs: int) -> Any:
    """Cut an axis, whose length is not known, into equal parts."""
    size = (input.shape[axis] + outputs - 1) // outputs
    parts = torch.split(input, size, axis)
    return tuple(parts[i] for i in range(outputs))


@onnx_op("Split")
def split_2(
    input: Value, *, split: Sequence[int] | None = None, axis: int = 0, outputs: int = 1
) -> Outputs:
    """Split with its sizes as an attribute."""
    return split_13(input, None if split is None else list(split), axis=axis, outputs=outputs)


@onnx_op("Slice", since=10)
def slice_10(data: Value, starts: Ints, ends: Ints, axes: Ints = None, steps: Ints = None) -> Value:
    """Cut out a part, with a step; negative positions count from the end."""
    first, last = ints(starts), ints(ends)
    dims = list(range(len(first))) if axes is None else ints(axes)
    strides = [1] * len(first) if steps is None else ints(steps)
    if any(dim < 0 for dim in dims):
        rank = rank_of(data)
        dims = [positive(dim, rank) for dim in dims]
    slices = [slice(None)] * (max(dims, default=-1) + 1)
    for dim, start, end, step in zip(dims, first, last, strides, strict=True):
        if step < 0:
            data = walked_backwards(data, dim, slice(start, end, step))
        else:
            slices[dim] = slice(start or None, end if end < 2**31 - 1 else None,
                                step if step != 1 else None)  # fmt: skip
    if all(part == slice(None) for part in slices):
        return data
    return data[slices[0] if len(slices) == 1 else tuple(slices)]


def walked_backwards(data: Value, dim: int, part: slice) -> Value:
    """Return a slice with a negative step."""
    positions = range(*part.indices(int(data.shape[dim])))
    return torch.index_select(data, dim, torch.tensor(list(positions), dtype=torch.int64))


@onnx_op("Slice")
def slice_1(
    data: Value, *, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int] | None = None
) -> Value:
    """Slice with its bounds as attributes."""
    return slice_10(data, list(starts), list(ends), None if axes is None else list(axes))


@onnx_op("Pad", since=11)
def pad(
    data: Value, pads: Ints, constant_value: Value = None, axes: Ints = None, *,
    mode: str = "constant",
) -> Value:  # fmt: skip
    """Extend a tensor at both ends of each axis; negative amounts cut."""
    amounts, rank = ints(pads), rank_of(data)
    dims = list(range(rank)) if axes is None else [positive(dim, rank) for dim in ints(axes)]
    before, after = [0] * rank, [0] * rank
    for i, dim in enumerate(dims):
        before[dim], after[dim] = amounts[i], amounts[i + len(dims)]
    if mode == "constant":
        value = 0 if constant_value is None else number(constant_value)
        flat = [size for pair in zip(before[::-1], after[::-1], strict=True) for size in pair]
        while len(flat) > 2 and flat[-2:] == [0, 0]:
            flat = flat[:-2]
        return F.pad(data, flat, value=value)
    for dim in range(rank):
        if before[dim] or after[dim]:
            data = padded_by_own(data, dim, (before[dim], after[dim]), mode)
    return data


def padded_by_own(data: Value, dim: int, amounts: tuple[int, int], mode: str) -> Value:
    """Extend an axis by the tensor's own elements: its edge, its reflection, its other end."""
    length = int(data.shape[dim])
    positions = range(-amounts[0], length + amounts[1])
    if mode == "edge":
        chosen = [min(max(i, 0), length - 1) for i in positions]
    elif mode == "wrap":
        chosen = [i % length for i in positions]
    else:  # reflect: there and back again, without the ends twice
        period = max(2 * (length - 1), 1)
        chosen = [min(i % period, (period - i) % period) for i in positions]
    return torch.index_select(data, dim, torch.tensor(chosen, dtype=torch.int64))


@onnx_op("Pad")
def pad_2(data: Value, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Value:
    """Pad with its amounts as an attribute."""
    return pad(data, list(pads), value, mode=mode)


@onnx_op("CenterCropPad")
def center_crop_pad(input_data: Value, shape: Ints, *, axes: Sequence[int] | None = None) -> Value:
    """Cut or extend axes around their centre."""
    rank, targets = rank_of(input_data), ints(shape)
    dims = range(rank) if axes is None else [positive(dim, rank) for dim in axes]
    for dim, target in zip(dims, targets, strict=True):
        length = int(input_data.shape[dim])
        if length >= target:
            input_data = input_data.narrow(dim, (length - target) // 2, target)
        else:
            left = (target - length) // 2
            amounts = [0] * (2 * (rank - 1 - dim)) + [left, target - length - left]
            input_data = F.pad(input_data, amounts)
    return input_data


@onnx_op("DepthToSpace")
def depth_to_space(input: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Move channels into blocks of pixels."""
    if mode == "CRD":
        return F.pixel_shuffle(input, blocksize)
    n, c, h, w = (input.shape[i] for i in range(4))
    blocks = torch.reshape(input, [n, blocksize, blocksize, c // blocksize**2, h, w])
    ordered = torch.permute(blocks, [0, 3, 4, 1, 5, 2])
    return torch.reshape(ordered, [n, c // blocksize**2, h * blocksize, w * blocksize])


@onnx_op("SpaceToDepth")
def space_to_depth(input: Value, *, blocksize: int, mode: str = "DCR") -> Value:
    """Move blocks of pixels into channels."""
    n, c, h, w = (input.shape[i] for i in range(4))
    blocks = torch.reshape(input, [n, c, h // blocksize, blocksize, w // blocksize, blocksize])
    order = [0, 3, 5, 1, 2, 4] if mode == "DCR" else [0, 1, 3, 5, 2, 4]
    ordered = torch.permute(blocks, order)
    return torch.reshape(ordered, [n, c * blocksize**2, h // blocksize, w // blocksize])


@onnx_op("ReverseSequence")
def reverse_sequence(
    input: Value, sequence_lens: Value, *, batch_axis: int = 1, time_axis: int = 0
) -> Value:
    """Turn each sequence of a batch around, up to its length."""
    data = torch.movedim(input, (batch_axis, time_axis), (0, 1))
    rows = []
    for row, length in zip(data.unbind(0), ints(sequence_lens), strict=True):
        rows.append(torch.cat([torch.flip(row[:length], [0]), row[length:]]))
    return torch.movedim(torch.stack(rows), (0, 1), (batch_axis, time_axis))


@onnx_op("Trilu")
def trilu(input: Value, k: Value = None, *, upper: int = 1) -> Value:
    """Keep one triangle of each matrix; the other becomes 0."""
    diagonal = 0 if k is None else int(number(k))
    return (torch.triu if upper else torch.tril)(input, diagonal)


@onnx_op("Upsample", since=9)
def upsample_9(X: Value, scales: Floats, *, mode: str = "nearest") -> Value:
    """Resize by scales, before there was Resize."""
    from .interpolation import resize

    return resize(X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric",
                  nearest_mode="floor")  # fmt: skip


@onnx_op("Upsample")
def upsample_7(X: Value, *, scales: Sequence[float], mode: str = "nearest") -> Value:
    """Upsample with its scales as an attribute."""
    return upsample_9(X, list(scales), mode=mode)
