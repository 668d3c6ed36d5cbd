"""Max unpooling, Lp pooling and fractional max pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.composed import recorded_as
from ...core.error_messages import is_any_true
from ...core.tensor import Tensor
from ...errors import ShapeError
from ...ops import abs as abs_
from ...ops import arange, cat, floor, rand, reshape, scatter, unsqueeze, where, zeros
from .adaptive import max_of_windows
from .op_decorators import SettingError
from .pooling import avg_pool_nd, max_pool_nd
from .sliding_window import Counts, Size, check_spatial_axes, expand_setting, resolve_stride

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
]  # fmt: skip

# Max unpooling --------------------------------------------------------------------------------


def max_unpool_nd(
    rank: int, input: Tensor, indices: Tensor, kernel_size: Size, stride: Size | None,
    padding: Size, output_size: Sequence[int] | None,
) -> Tensor:  # fmt: skip
    """`max_unpool1d`, `max_unpool2d` and `max_unpool3d` for 1, 2 and 3 axes."""
    op = f"max_unpool{rank}d"
    check_spatial_axes(op, input.shape, rank)
    shapes = {"input": tuple(input.shape), "indices": tuple(indices.shape)}
    if input.shape != indices.shape:
        raise ShapeError(op, "each number needs an index: the shapes should be the same", shapes)
    size = unpooled_size(op, rank, input, kernel_size, stride, padding, output_size)
    leading, size_flat = input.shape[:-rank], math.prod(size)
    rows = (*leading, math.prod(input.shape[-rank:]))
    flat = reshape(indices, rows)
    if is_any_true((flat < 0) | (flat >= size_flat)):
        raise ShapeError(op, f"an index lies outside an image of {size}", shapes)
    output = zeros(*leading, size_flat, dtype=input.dtype, device=input.device)
    return reshape(scatter(output, -1, flat, reshape(input, rows)), (*leading, *size))


def unpooled_size(
    op: str, rank: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size,
    output_size: Sequence[int] | None,
) -> Counts:  # fmt: skip
    """Return the size of the image before pooling, which a stride leaves ambiguous.

    Raises: SettingError (a ValueError): `output_size` is not a possible size.
    """
    kernel, border = expand_setting(kernel_size, rank, op), expand_setting(padding, rank, op)
    step = resolve_stride(stride, kernel, op)
    default_size = tuple(
        (n - 1) * s + k - 2 * p
        for n, s, k, p in zip(input.shape[-rank:], step, kernel, border, strict=True)
    )
    if output_size is None:
        return default_size
    size = tuple(output_size)[-rank:]
    if len(output_size) not in (rank, rank + 2):
        raise SettingError(op, f"output_size needs {rank} or {rank + 2} numbers, got {output_size}")
    for axis, (n, default, s) in enumerate(zip(size, default_size, step, strict=True)):
        if not default - s < n < default + s:
            raise SettingError(
                op,
                f'invalid output_size "{size}" (dim {axis} must be between {default - s} '
                f"and {default + s})",
            )
    return size


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Size, stride: Size | None = None,
    padding: Size = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """1-d max unpooling: scatter the elements of `max_pool1d` to their indices, among zeros.

    >>> nn.functional.max_unpool1d(tensor([[3.0, 2.0]]), tensor([[1, 2]]), 2)
    tensor([[0., 3., 2., 0.]])
    """
    return max_unpool_nd(1, input, indices, kernel_size, stride, padding, output_size)


@recorded_as("MaxUnpool2DBackward0")
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Size, stride: Size | None = None,
    padding: Size = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """2-d max unpooling: scatter the elements of `max_pool2d` to their indices, among zeros.

    Args:
        indices: what `max_pool2d(…, return_indices=True)` returned.
        output_size: the size of the image before pooling, where the stride leaves it ambiguous.

    Raises: ShapeError: an index lies outside the image.

    >>> nn.functional.max_unpool2d(tensor([[[9.0]]]), tensor([[[2]]]), 2)
    tensor([[[0., 0.],
             [9., 0.]]])
    """
    return max_unpool_nd(2, input, indices, kernel_size, stride, padding, output_size)


@recorded_as("MaxUnpool3DBackward0")
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Size, stride: Size | None = None,
    padding: Size = 0, output_size: Sequence[int] | None = None,
) -> Tensor:  # fmt: skip
    """3-d max unpooling: scatter the elements of `max_pool3d` to their indices, among zeros.

    >>> nn.functional.max_unpool3d(tensor([[[[9.0]]]]), tensor([[[[2]]]]), 2).sum()
    tensor(9.)
    """
    return max_unpool_nd(3, input, indices, kernel_size, stride, padding, output_size)


# Lp pooling ----------------------------------------------------------------------------------


def lp_pool_nd(
    rank: int, input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None,
    ceil_mode: bool,
) -> Tensor:  # fmt: skip
    """`lp_pool1d`, `lp_pool2d` and `lp_pool3d` for 1, 2 and 3 axes."""
    if abs(norm_type) == math.inf:
        sides = 1 if norm_type > 0 else -1
        peaks = max_pool_nd(rank, sides * abs_(input), kernel_size, stride, 0, 1, ceil_mode, False)
        return sides * peaks
    count = math.prod(expand_setting(kernel_size, rank, f"lp_pool{rank}d"))
    total = avg_pool_nd(rank, input**norm_type, kernel_size, stride, 0, ceil_mode, True) * count
    if norm_type == 1:
        return total
    is_zero = total == 0  # where the root has no finite derivative
    return where(is_zero, 0.0, where(is_zero, 1.0, total) ** (1.0 / norm_type))


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """1-d Lp pooling: the p-norm of each window, y = (Σ xᵖ)^(1/p); see `lp_pool2d`.

    >>> nn.functional.lp_pool1d(tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return lp_pool_nd(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """2-d Lp pooling: the p-norm of each window, y = (Σ xᵖ)^(1/p).

    p = 1 is the sum, p = ∞ the maximum. Where a window's sum is 0 the gradient is 0, except for
    p = 1, whose gradient is 1 everywhere (PyTorch's is 0 at such a window).

    >>> nn.functional.lp_pool2d(tensor([[[3.0, 4.0]]]), 2, (1, 2))
    tensor([[[5.]]])
    """
    return lp_pool_nd(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None,
    ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """3-d Lp pooling: the p-norm of each window; see `lp_pool2d`.

    >>> nn.functional.lp_pool3d(tensor([[[[3.0, 4.0]]]]), 2, (1, 1, 2))
    tensor([[[[5.]]]])
    """
    return lp_pool_nd(3, input, norm_type, kernel_size, stride, ceil_mode)


# Fractional max pooling ----------------------------------------------------------------------


def fractional_max_pool_nd(
    rank: int, input: Tensor, kernel_size: Size, output_size: Size | None,
    output_ratio: float | Sequence[float] | None, return_indices: bool, samples: Tensor | None,
) -> Any:  # fmt: skip
    """`fractional_max_pool2d` and `…3d` for 2 and 3 axes."""
    op = f"fractional_max_pool{rank}d"
    check_spatial_axes(op, input.shape, rank)
    sizes, kernel = input.shape[-rank:], expand_setting(kernel_size, rank, op)
    if output_size is None and output_ratio is None:
        raise SettingError(op, "requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios: Any = (
            (output_ratio,) * rank if isinstance(output_ratio, int | float) else output_ratio
        )
        output_size = tuple(int(n * ratio) for n, ratio in zip(sizes, ratios, strict=True))
    counts = expand_setting(output_size, rank, op)
    if any(m < 1 or m + k - 1 > n for m, k, n in zip(counts, kernel, sizes, strict=True)):
        raise ShapeError(
            op, "the windows do not fit", {"input": tuple(input.shape), "kernel_size": kernel,
            "output_size": counts}, "needed along each axis: output + kernel - 1 ≤ input",
        )  # fmt: skip
    leading = (1, *input.shape[:1]) if input.ndim == rank + 1 else input.shape[:2]
    if samples is None:
        samples = rand(*leading, rank, dtype=input.dtype, device=input.device)
    if (
        samples.ndim != 3
        or samples.shape[0] < leading[0]
        or samples.shape[1:] != (leading[1], rank)
    ):
        raise ShapeError(
            op, f"expected _random_samples of the shape {(*leading, rank)}",
            {"input": tuple(input.shape), "_random_samples": tuple(samples.shape)},
        )  # fmt: skip
    sample = reshape(samples[: leading[0]], (*input.shape[:-rank], rank))
    order = (1, 0) if rank == 2 else (0, 1, 2)  # for images PyTorch draws the width first
    window_positions = [
        unsqueeze(window_starts(sample[..., index], n, m, k), -1) + arange(k, device=input.device)
        for index, n, m, k in zip(order, sizes, counts, kernel, strict=True)
    ]
    result = max_of_windows(input, window_positions)
    return result if return_indices else result[0]


def window_starts(sample: Tensor, size: int, count: int, kernel: int) -> Tensor:
    """Return the starts of pseudo-random windows, whose steps have one of two lengths.

    start[i] = ⌊(i + u) · α⌋ - ⌊u · α⌋ with α = (n - k) / (m - 1); the last one is at n - k.
    """
    last = zeros(*sample.shape, 1, device=sample.device).long() + (size - kernel)
    if count == 1:
        return last
    alpha = (size - kernel) / (count - 1)
    u = unsqueeze(sample, -1)
    steps = arange(count - 1, dtype=sample.dtype, device=sample.device)
    return cat([(floor((steps + u) * alpha) - floor(u * alpha)).long(), last], -1)


@recorded_as("FractionalMaxPool2DBackward0")
def fractional_max_pool2d(
    input: Tensor, kernel_size: Size, output_size: Size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """2-d fractional max pooling: the maximum of each of randomly placed windows.

    Args:
        output_size: the size of the result, or
        output_ratio: the ratio of output and input size, between 0 and 1.
        return_indices: also return the flat index of each maximum (row-major).

    Raises: ShapeError: the windows do not fit. SettingError: neither size nor ratio.

    Paper: Graham, Fractional max-pooling, 2014.

    >>> nn.functional.fractional_max_pool2d(ones(1, 1, 5, 5), 2, output_ratio=0.6).shape
    torch.Size([1, 1, 3, 3])
    """
    return fractional_max_pool_nd(
        2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


@recorded_as("FractionalMaxPool3DBackward0")
def fractional_max_pool3d(
    input: Tensor, kernel_size: Size, output_size: Size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:  # fmt: skip
    """3-d fractional max pooling; see `fractional_max_pool2d`.

    >>> nn.functional.fractional_max_pool3d(ones(1, 1, 5, 5, 5), 2, output_size=3).shape
    torch.Size([1, 1, 3, 3, 3])
    """
    return fractional_max_pool_nd(
        3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples
    )


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Size, output_size: Size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool2d` with the indices of the maxima.

    >>> nn.functional.fractional_max_pool2d_with_indices(ones(1, 1, 2, 2), 2, 1)[1].item()
    0
    """
    return fractional_max_pool_nd(
        2, input, kernel_size, output_size, output_ratio, True, _random_samples
    )


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Size, output_size: Size | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`fractional_max_pool3d` with the indices of the maxima.

    >>> nn.functional.fractional_max_pool3d_with_indices(ones(1, 1, 2, 2, 2), 2, 1)[1].item()
    0
    """
    return fractional_max_pool_nd(
        3, input, kernel_size, output_size, output_ratio, True, _random_samples
    )


# Local response normalisation ---------------------------------------------------------------
