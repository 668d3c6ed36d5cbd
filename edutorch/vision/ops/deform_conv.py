"""Deformable convolution: the taps of each window are moved by offsets that a network learned."""

from __future__ import annotations

from ...core.composed import composed_in_float32
from ...core.tensor import Tensor
from ...errors import DTypeError, ShapeError
from ...nn import Module, Parameter, init
from ...nn.functional.grid_sample import sample_at_taps
from ...nn.functional.sliding_window import Size, check_positive, expand_setting
from ...ops import arange, empty, floor, matmul, reshape

__all__ = ["DeformConv2d", "deform_conv2d"]

Pair = tuple[int, int]


def check_deform_conv(
    input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None, mask: Tensor | None
) -> None:
    """Raise ShapeError or DTypeError if the tensors do not fit each other."""
    tensors = {
        "input (n c h w)": input, "offset (n g·2·i·j p q)": offset, "weight (o c i j)": weight,
        "mask (n g·i·j p q)": mask, "bias (o)": bias,
    }  # fmt: skip
    passed = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    shapes = {name: tuple(tensor.shape) for name, tensor in passed.items()}
    if any(tensor.ndim != (1 if name == "bias (o)" else 4) for name, tensor in passed.items()):
        raise ShapeError("deform_conv2d", "expected four axes, and one of the bias", shapes)
    if len({tensor.dtype for tensor in passed.values()}) > 1:
        by_name = {name: tensor.dtype for name, tensor in passed.items()}
        raise DTypeError("deform_conv2d", "expected all to have the same dtype", by_name)
    taps = weight.shape[2] * weight.shape[3]
    if offset.shape[1] == 0 or offset.shape[1] % (2 * taps):
        raise ShapeError(
            "deform_conv2d", f"the channels of offset should be a multiple of 2 · {taps} taps",
            shapes,
        )  # fmt: skip
    groups = offset.shape[1] // (2 * taps)
    if input.shape[1] % groups or weight.shape[1] == 0 or input.shape[1] % weight.shape[1]:
        raise ShapeError("deform_conv2d", "the channels cannot be divided into groups", shapes)
    if weight.shape[0] % (input.shape[1] // weight.shape[1]):
        raise ShapeError("deform_conv2d", "the filters cannot be divided into groups", shapes)
    if mask is not None and mask.shape != (offset.shape[0], groups * taps, *offset.shape[2:]):
        raise ShapeError(
            "deform_conv2d", "expected a mask with one channel for two of offset", shapes
        )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise ShapeError("deform_conv2d", "expected one bias for each filter", shapes)


@composed_in_float32
def deform_conv2d(
    input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None,
    stride: Size = (1, 1), padding: Size = (0, 0), dilation: Size = (1, 1),
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Convolution whose taps t are displaced, each at each position p by its own offset.

        y[p] = Σ over t of weight[t] · input[p · stride + t · dilation - padding + offset[t, p]]

    Between pixels the input is interpolated bilinearly; outside it is 0. With a mask (version 2)
    each tap is scaled, too.

    Args:
        input: (n c h w).
        offset: (n, g · 2 · i · j, p, q): for each group of channels and each tap dy, then dx.
        weight: (o, c / groups, i, j). The number of groups follows from its shape.
        mask: (n, g · i · j, p, q).
        stride, padding, dilation: of the windows, along y and x.

    Shape: (n, o, p, q).

    Raises: ShapeError, DTypeError: the tensors do not fit each other.

    Paper: Dai et al., Deformable convolutional networks, 2017; Zhu et al., version 2, 2019.

    >>> image, right = arange(4.0).reshape(1, 1, 1, 4), tensor([0.0, 0.5]).reshape(1, 2, 1, 1)
    >>> edutorch.vision.ops.deform_conv2d(image, right.expand(1, 2, 1, 4), ones(1, 1, 1, 1))
    tensor([[[[0.5000, 1.5000, 2.5000, 1.5000]]]])
    """
    check_deform_conv(input, offset, weight, bias, mask)
    steps, pads, gaps = (
        expand_setting(value, 2, "deform_conv2d") for value in (stride, padding, dilation)
    )
    check_positive("deform_conv2d", stride=steps, dilation=gaps)
    (n, channels), (filters, depth, *kernel) = input.shape[:2], weight.shape
    taps, out = kernel[0] * kernel[1], tuple(offset.shape[2:])
    expected = window_positions(tuple(input.shape[2:]), kernel, steps, pads, gaps)
    if offset.shape[0] != n or out != expected:
        raise ShapeError(
            "deform_conv2d", f"expected an offset for each of the {expected} windows",
            {"input (n c h w)": tuple(input.shape), "offset (n g·2·i·j p q)": tuple(offset.shape)},
        )  # fmt: skip
    groups = offset.shape[1] // (2 * taps)
    moved = reshape(offset, (n * groups, *kernel, 2, *out))
    y, x = (
        moved[:, :, :, axis] + window_grid(axis, kernel, out, steps, pads, gaps, offset)
        for axis in (0, 1)
    )
    images = reshape(input, (n * groups, channels // groups, *input.shape[2:]))
    columns = sample_at_taps(images, (linear_taps(y), linear_taps(x)), (*kernel, *out))
    if mask is not None:
        columns = columns * reshape(mask, (n * groups, 1, *kernel, *out))
    blocks = channels // depth
    columns = reshape(columns, (n, blocks, depth * taps, out[0] * out[1]))
    products = matmul(reshape(weight, (blocks, filters // blocks, depth * taps)), columns)
    result = reshape(products, (n, filters, *out))
    return result if bias is None else result + reshape(bias, (-1, 1, 1))


def window_positions(
    sizes: tuple[int, ...], kernel: list[int], stride: Pair, padding: Pair, dilation: Pair
) -> tuple[int, ...]:
    """Return how many windows there are along y and x."""
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )


def window_grid(
    axis: int, kernel: list[int], out: tuple[int, ...], stride: Pair, padding: Pair,
    dilation: Pair, like: Tensor,
) -> Tensor:  # fmt: skip
    """Return, (i j p q) or broadcast to it, where the taps are that nobody moved."""
    taps = arange(kernel[axis], dtype=like.dtype, device=like.device) * dilation[axis]
    windows = arange(out[axis], dtype=like.dtype, device=like.device) * stride[axis]
    tap_shape = (-1, 1, 1, 1) if axis == 0 else (-1, 1, 1)
    window_shape = (-1, 1) if axis == 0 else (-1,)
    return reshape(taps, tap_shape) + reshape(windows, window_shape) - padding[axis]


def linear_taps(coordinate: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Return both neighbours of a coordinate, with their weights."""
    low = floor(coordinate.detach())
    return [(low, low + 1 - coordinate), (low + 1, coordinate - low)]


class DeformConv2d(Module):
    """Deformable convolution; `forward` takes the offsets (and the mask), which others compute.

    Args:
        in_channels, out_channels: channels of the input and of the output.
        kernel_size, stride, padding, dilation, groups: as for `Conv2d`.
        bias: whether the layer adds a bias.

    >>> layer = edutorch.vision.ops.DeformConv2d(1, 2, 3, padding=1)
    >>> layer(ones(1, 1, 4, 4), zeros(1, 18, 4, 4)).shape
    torch.Size([1, 2, 4, 4])
    """

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
        padding: Size = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ShapeError(
                "DeformConv2d", "in_channels and out_channels must be divisible by groups",
                {"in_channels": in_channels, "out_channels": out_channels, "groups": groups},
            )  # fmt: skip
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.padding, self.dilation = (
            expand_setting(value, 2, "DeformConv2d")
            for value in (kernel_size, stride, padding, dilation)
        )
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape))
        self.bias = Parameter(empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        init.kaiming_uniform_(self.weight, a=5**0.5)
        if self.bias is not None:
            bound = self.weight[0].numel() ** -0.5
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        """Convolve; see `deform_conv2d`."""
        return deform_conv2d(
            input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask
        )

    def extra_repr(self) -> str:
        names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation")
        settings = [f"{name}={getattr(self, name)}" for name in names]
        if self.groups != 1:
            settings.append(f"groups={self.groups}")
        return ", ".join(settings) + ("" if self.bias is not None else ", bias=False")
