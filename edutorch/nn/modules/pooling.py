"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.sliding_window import settings_of
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d",
]  # fmt: skip

Size = int | Sequence[int]


class MaxPool(Module):
    """What the layers share that keep the largest number of each window."""

    function: ClassVar[Any]

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0, dilation: Size = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """Find the largest numbers."""
        return self.function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool2d(MaxPool):
    """The largest number of each window of an image.

    Args:
        kernel_size: height and width of the window.
        stride: how far it moves at a time, by default its own size.
        padding: a border that never wins.
        dilation: the step between the taps of the window.
        return_indices: also return where in the image each was found.
        ceil_mode: let a last window reach over the edge.

    >>> nn.MaxPool2d(2)(zeros(1, 3, 6, 6)).shape
    torch.Size([1, 3, 3, 3])
    """

    function = staticmethod(F.max_pool2d)


class MaxPool1d(MaxPool):
    """The largest number of each window of a sequence; see `MaxPool2d`.

    >>> nn.MaxPool1d(2)(zeros(1, 3, 6)).shape
    torch.Size([1, 3, 3])
    """

    function = staticmethod(F.max_pool1d)


class MaxPool3d(MaxPool):
    """The largest number of each window of a volume; see `MaxPool2d`.

    >>> nn.MaxPool3d(2)(zeros(1, 3, 6, 4, 2)).shape
    torch.Size([1, 3, 3, 2, 1])
    """

    function = staticmethod(F.max_pool3d)


class AvgPool(Module):
    """What the layers share that average each window of images and volumes."""

    function: ClassVar[Any]

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding, self.ceil_mode = kernel_size, padding, ceil_mode
        self.stride = kernel_size if stride is None else stride
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Compute the averages."""
        return self.function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool):
    """The average of each window of an image.

    Args: as for `MaxPool2d`; `count_include_pad` counts the border's zeros too,
        `divisor_override` is what to divide by instead.

    >>> nn.AvgPool2d(2)(ones(1, 3, 6, 6)).shape
    torch.Size([1, 3, 3, 3])
    """

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(AvgPool):
    """The average of each window of a volume; see `AvgPool2d`.

    >>> nn.AvgPool3d(2)(ones(1, 3, 6, 4, 2)).shape
    torch.Size([1, 3, 3, 2, 1])
    """

    function = staticmethod(F.avg_pool3d)


class AvgPool1d(Module):
    """The average of each window of a sequence; see `AvgPool2d`.

    >>> nn.AvgPool1d(2)(ones(1, 3, 6)).shape
    torch.Size([1, 3, 3])
    """

    def __init__(
        self, kernel_size: Size, stride: Size | None = None, padding: Size = 0,
        ceil_mode: bool = False, count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size, self.padding = settings_of(kernel_size, 1), settings_of(padding, 1)
        self.stride = self.kernel_size if stride is None else settings_of(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Compute the averages."""
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool(Module):
    """What the layers share whose windows fit the size of the output: averages."""

    function: ClassVar[Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Compute the averages."""
        return self.function(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(AdaptiveAvgPool):
    """Averages of windows that are chosen so that the output has the given size.

    >>> nn.AdaptiveAvgPool2d(1)(ones(2, 3, 5, 7)).shape
    torch.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool1d(AdaptiveAvgPool):
    """Averages of windows that are chosen so that the output has the given length.

    >>> nn.AdaptiveAvgPool1d(1)(ones(2, 3, 5)).shape
    torch.Size([2, 3, 1])
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool3d(AdaptiveAvgPool):
    """Averages of windows of a volume, chosen so that the output has the given size.

    >>> nn.AdaptiveAvgPool3d((1, 2, None))(ones(2, 3, 5, 7, 4)).shape
    torch.Size([2, 3, 1, 2, 4])
    """

    function = staticmethod(F.adaptive_avg_pool3d)


class AdaptiveMaxPool(Module):
    """What the layers share whose windows fit the size of the output: the largest number."""

    function: ClassVar[Any]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """Find the largest numbers."""
        return self.function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool2d(AdaptiveMaxPool):
    """The largest number of windows that are chosen so that the output has the given size.

    Args:
        output_size: height and width; None keeps that of the input.
        return_indices: also return where in the image each was found.

    >>> nn.AdaptiveMaxPool2d(1)(ones(2, 3, 5, 7)).shape
    torch.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool1d(AdaptiveMaxPool):
    """The largest number of windows that fit an output of the given length.

    >>> nn.AdaptiveMaxPool1d(2)(ones(2, 3, 5)).shape
    torch.Size([2, 3, 2])
    """

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool3d(AdaptiveMaxPool):
    """The largest number of windows of a volume that fit an output of the given size.

    >>> nn.AdaptiveMaxPool3d(2)(ones(2, 3, 5, 4, 3)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    function = staticmethod(F.adaptive_max_pool3d)
