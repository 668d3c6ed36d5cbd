"""Convolution and transposed convolution layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.tensor import Tensor
from ...errors import InvalidValueError, ShapeError, ShapeValueError
from ...ops import empty
from .. import functional as F
from ..common_types import DeviceLike, DTypeLike
from ..functional.op_decorators import SettingError
from ..functional.sliding_window import expand_setting, resolve_pads
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin, materialize_lazy
from .linear import kaiming_uniform_reset
from .module import Module

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]  # fmt: skip

Size = int | Sequence[int]


class _ConvNd(Module):
    """Base of all convolution layers: settings, parameters, repr."""

    weight: Parameter
    bias: Parameter | None
    rank = 2
    transposed = False
    function: Callable[..., Tensor]

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size,
        padding: Size | str, dilation: Size, output_padding: Size, groups: int, bias: bool,
        padding_mode: str, device: DeviceLike, dtype: DTypeLike,
    ) -> None:  # fmt: skip
        super().__init__()
        if groups <= 0:
            raise InvalidValueError(type(self).__name__, "groups must be a positive integer")
        if in_channels % groups:
            raise InvalidValueError(type(self).__name__, "in_channels must be divisible by groups")
        if out_channels % groups:
            raise InvalidValueError(type(self).__name__, "out_channels must be divisible by groups")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise InvalidValueError(
                type(self).__name__,
                f"padding_mode must be zeros, reflect, …, but got {padding_mode!r}",
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride, self.dilation, self.output_padding = (
            expand_setting(setting, self.rank)
            for setting in (kernel_size, stride, dilation, output_padding)
        )
        self.padding = padding if isinstance(padding, str) else expand_setting(padding, self.rank)
        self.padding_mode = padding_mode
        # Called for its checks: invalid settings raise here, not in the first call.
        resolve_pads(self.padding, self.kernel_size, self.dilation, self.stride)
        first, second = (
            (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        )
        shape = (first, second // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters."""
        kaiming_uniform_reset(self.weight, self.bias)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if any(amount != 0 for amount in self.padding):
            text += f", padding={self.padding}"
        if any(step != 1 for step in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class Conv(_ConvNd):
    """Base of the convolution layers that are not transposed."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
        padding: Size | str = 0, dilation: Size = 1, groups: int = 1, bias: bool = True,
        padding_mode: str = "zeros", device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        padding: Any = self.padding
        # Only zeros are padded inside the op; other borders are copied from the image first.
        if self.padding_mode != "zeros":
            pads = resolve_pads(padding, self.kernel_size, self.dilation, self.stride)
            input, padding = F.pad(input, sum(reversed(pads), ()), self.padding_mode), 0
        is_unbatched = input.ndim == self.rank + 1
        y = self.function(
            input.unsqueeze(0) if is_unbatched else input,
            self.weight,
            self.bias,
            self.stride,
            padding,
            self.dilation,
            self.groups,
        )
        return y.squeeze(0) if is_unbatched else y


class Conv2d(Conv):
    """2-D convolution (cross-correlation): y = Σ x · w + b over each window of an image.

    Args:
        in_channels, out_channels: the numbers of input and output channels.
        kernel_size: height and width of the kernel.
        stride: the step between windows.
        padding: the width of the border of zeros; "same" keeps the image's size.
        dilation: the step between the taps of the kernel.
        groups: the number of groups of channels that are convolved separately.
        bias: whether the layer adds a bias.
        padding_mode: "zeros", "reflect", "replicate" or "circular".

    Shape: (n, in_channels, h, w), or one image without n, to (n, out_channels, p, q).
    `weight` is (out_channels, in_channels / groups, *kernel_size).

    The parameters are initialized uniformly in ±1/√(in_channels / groups · kernel area).

    >>> nn.Conv2d(3, 8, 3, padding=1)(zeros(2, 3, 5, 5)).shape
    torch.Size([2, 8, 5, 5])
    """

    function = staticmethod(F.conv2d)


class Conv1d(Conv):
    """1-D convolution (cross-correlation): y = Σ x · w + b over each window of a sequence.

    Args: as for `Conv2d`.

    Shape: (n, in_channels, l), or one sequence without n, to (n, out_channels, p).

    >>> nn.Conv1d(3, 8, 3, padding=1)(zeros(2, 3, 5)).shape
    torch.Size([2, 8, 5])
    """

    rank = 1
    function = staticmethod(F.conv1d)


class Conv3d(Conv):
    """3-D convolution (cross-correlation): y = Σ x · w + b over each window of a volume.

    Args: as for `Conv2d`.

    Shape: (n, in_channels, d, h, w), or one volume without n, to (n, out_channels, o, p, q).

    >>> nn.Conv3d(3, 8, 3, padding=1)(zeros(2, 3, 5, 5, 5)).shape
    torch.Size([2, 8, 5, 5, 5])
    """

    rank = 3
    function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """Base of the transposed convolution layers."""

    transposed = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Size, stride: Size = 1,
        padding: Size = 0, output_padding: Size = 0, groups: int = 1, bias: bool = True,
        dilation: Size = 1, padding_mode: str = "zeros", device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        if padding_mode != "zeros":
            raise InvalidValueError(
                type(self).__name__, 'Only "zeros" padding mode is supported for ConvTranspose'
            )
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Compute the transposed convolution; a stride above 1 allows several output sizes."""
        output_padding = self.output_padding
        if output_size is not None:
            output_padding = self.output_padding_for(input, list(output_size)[-self.rank :])
        return self.function(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups,
            self.dilation,
        )  # fmt: skip

    def output_padding_for(self, input: Tensor, size: Sequence[int]) -> tuple[int, ...]:
        """Return the output padding that gives the requested size.

        Raises: SettingError (a ValueError): no output padding does.
        """
        # A stride rounds sizes down: these are the smallest inputs of the convolution that give
        # this output.
        min_sizes = [
            (n - 1) * s - 2 * int(p) + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.rank :], self.stride, self.padding, self.dilation,
                self.kernel_size, strict=True,
            )
        ]  # fmt: skip
        max_sizes = [n + s - 1 for n, s in zip(min_sizes, self.stride, strict=True)]
        if len(size) != self.rank or any(
            not low <= n <= high for low, n, high in zip(min_sizes, size, max_sizes, strict=True)
        ):
            raise SettingError(
                type(self).__name__, f"requested an output size of {list(size)}, but valid sizes "
                f"range from {min_sizes} to {max_sizes}",
            )  # fmt: skip
        return tuple(n - low for n, low in zip(size, min_sizes, strict=True))


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed 2-D convolution: the gradient of `Conv2d` with respect to its input.

    Args: as for `Conv2d`; `output_padding` adds rows at the bottom and right.

    Shape: `weight` is (in_channels, out_channels / groups, *kernel_size).

    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(zeros(2, 8, 5, 5)).shape
    torch.Size([2, 3, 10, 10])
    """

    function = staticmethod(F.conv_transpose2d)


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed 1-D convolution: the gradient of `Conv1d` with respect to its input.

    Args: as for `ConvTranspose2d`.

    >>> nn.ConvTranspose1d(8, 3, 2, stride=2)(zeros(2, 8, 5)).shape
    torch.Size([2, 3, 10])
    """

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed 3-D convolution: the gradient of `Conv3d` with respect to its input.

    Args: as for `ConvTranspose2d`.

    >>> nn.ConvTranspose3d(8, 3, 2, stride=2)(zeros(2, 8, 2, 3, 4)).shape
    torch.Size([2, 3, 4, 6, 8])
    """

    rank = 3
    function = staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin):
    """Base of lazy convolutions, which infer `in_channels` from the input."""

    out_channels: int
    groups: int
    rank: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def init_uninitialized(
        self, out_channels: int, bias: bool, device: DeviceLike, dtype: DTypeLike
    ) -> None:
        """Replace the empty parameters by uninitialized ones."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Reinitialize the parameters, if they are materialized."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Materialize the parameters. Raises: RuntimeError, ValueError: the input does not fit."""
        if not self.has_uninitialized_params():
            rows, columns = self.weight.shape[:2]
            self.in_channels = rows if self.transposed else columns * self.groups
            return
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ShapeError(
                type(self).__name__, f"Expected {self.rank + 1}D (unbatched) or {self.rank + 2}D "
                f"(batched) input to {type(self).__name__}, but got input of size: {input.shape}",
            )  # fmt: skip
        self.in_channels = input.shape[-self.rank - 1]
        if self.in_channels % self.groups:
            raise ShapeValueError(
                type(self).__name__, "in_channels must be divisible by groups",
                {"input": tuple(input.shape), "groups": self.groups},
            )  # fmt: skip
        # The filters of a transposed convolution have their axes the other way round.
        channels = (self.out_channels, self.in_channels)
        first, second = reversed(channels) if self.transposed else channels
        materialize_lazy(self.weight, (first, second // self.groups, *self.kernel_size))
        materialize_lazy(self.bias, (self.out_channels,))
        self.reset_parameters()


class LazyConv(_LazyConvXdMixin):
    """Base of the lazy convolutions that are not transposed."""

    def __init__(
        self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size | str = 0,
        dilation: Size = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device,
            dtype,
        )  # fmt: skip
        self.init_uninitialized(out_channels, bias, device, dtype)


class LazyConvTranspose(_LazyConvXdMixin):
    """Base of the lazy transposed convolutions."""

    def __init__(
        self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
        output_padding: Size = 0, groups: int = 1, bias: bool = True, dilation: Size = 1,
        padding_mode: str = "zeros", device: DeviceLike = None, dtype: DTypeLike = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.init_uninitialized(out_channels, bias, device, dtype)


class LazyConv1d(LazyConv, Conv1d):
    """A `Conv1d` that infers `in_channels` from its first input.

    >>> nn.LazyConv1d(8, 3)(zeros(2, 3, 4)).shape
    torch.Size([2, 8, 2])
    """

    cls_to_become = Conv1d


class LazyConv2d(LazyConv, Conv2d):
    """A `Conv2d` that infers `in_channels` from its first input.

    >>> nn.LazyConv2d(8, 3)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 2, 2])
    """

    cls_to_become = Conv2d


class LazyConv3d(LazyConv, Conv3d):
    """A `Conv3d` that infers `in_channels` from its first input.

    >>> nn.LazyConv3d(8, 3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 8, 2, 2, 2])
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that infers `in_channels` from its first input.

    >>> nn.LazyConvTranspose1d(8, 3)(zeros(2, 3, 4)).shape
    torch.Size([2, 8, 6])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that infers `in_channels` from its first input.

    >>> nn.LazyConvTranspose2d(8, 3)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 6, 6])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that infers `in_channels` from its first input.

    >>> nn.LazyConvTranspose3d(8, 3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 8, 6, 6, 6])
    """

    cls_to_become = ConvTranspose3d
