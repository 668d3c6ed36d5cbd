"""Pooling layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.adaptive import OutputSize
from ..functional.op_decorators import SettingError
from ..functional.sliding_window import expand_setting
from .module import Module

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip

Size = int | Sequence[int]


class _MaxPoolNd(Module):
    """Base of the max pooling layers."""

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
        return self.function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode,
            self.return_indices,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of an image.

    Args:
        kernel_size: height and width of the window.
        stride: the step between windows, by default their size.
        padding: the width of the border, which counts as -∞.
        dilation: the step between the taps of the window.
        return_indices: also return the index of each maximum in the flattened image.
        ceil_mode: whether a last window may extend beyond the edge.

    >>> nn.MaxPool2d(2)(zeros(1, 3, 6, 6)).shape
    torch.Size([1, 3, 3, 3])
    """

    function = staticmethod(F.max_pool2d)


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of a sequence; see `MaxPool2d`.

    >>> nn.MaxPool1d(2)(zeros(1, 3, 6)).shape
    torch.Size([1, 3, 3])
    """

    function = staticmethod(F.max_pool1d)


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of a volume; see `MaxPool2d`.

    >>> nn.MaxPool3d(2)(zeros(1, 3, 6, 4, 2)).shape
    torch.Size([1, 3, 3, 2, 1])
    """

    function = staticmethod(F.max_pool3d)


class AvgPool(Module):
    """Base of `AvgPool2d` and `AvgPool3d`."""

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
        return self.function(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad, self.divisor_override,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool):
    """The average of each window of an image.

    Args: as for `MaxPool2d`; with `count_include_pad` the border's zeros count, and
        `divisor_override` replaces the window's size as the divisor.

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
        # PyTorch's 1-d layer shows tuples in its repr, unlike the others.
        self.kernel_size, self.padding = expand_setting(kernel_size, 1), expand_setting(padding, 1)
        self.stride = self.kernel_size if stride is None else expand_setting(stride, 1)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
            self.count_include_pad,
        )  # fmt: skip

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptiveAvgPoolNd(Module):
    """Base of the adaptive average pooling layers."""

    function: ClassVar[Any]

    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Average pooling over windows chosen so that the output has the given size.

    >>> nn.AdaptiveAvgPool2d(1)(ones(2, 3, 5, 7)).shape
    torch.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Average pooling of sequences over windows chosen so that the output has the given length.

    >>> nn.AdaptiveAvgPool1d(1)(ones(2, 3, 5)).shape
    torch.Size([2, 3, 1])
    """

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average pooling of volumes over windows chosen so that the output has the given size.

    >>> nn.AdaptiveAvgPool3d((1, 2, None))(ones(2, 3, 5, 7, 4)).shape
    torch.Size([2, 3, 1, 2, 4])
    """

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPoolNd(Module):
    """Base of the adaptive max pooling layers."""

    function: ClassVar[Any]

    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        return self.function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling over windows chosen so that the output has the given size.

    Args:
        output_size: height and width; None keeps that of the input.
        return_indices: also return the index of each maximum in the flattened image.

    >>> nn.AdaptiveMaxPool2d(1)(ones(2, 3, 5, 7)).shape
    torch.Size([2, 3, 1, 1])
    """

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of sequences over windows chosen so that the output has the given length.

    >>> nn.AdaptiveMaxPool1d(2)(ones(2, 3, 5)).shape
    torch.Size([2, 3, 2])
    """

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of volumes over windows chosen so that the output has the given size.

    >>> nn.AdaptiveMaxPool3d(2)(ones(2, 3, 5, 4, 3)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    function = staticmethod(F.adaptive_max_pool3d)


class _MaxUnpoolNd(Module):
    """Base of the max unpooling layers."""

    rank: ClassVar[int]
    function: ClassVar[Any]

    def __init__(self, kernel_size: Size, stride: Size | None = None, padding: Size = 0) -> None:
        super().__init__()
        self.kernel_size = expand_setting(kernel_size, self.rank, "MaxUnpool")
        self.stride = self.kernel_size if stride is None else expand_setting(stride, self.rank)
        self.padding = expand_setting(padding, self.rank, "MaxUnpool")

    def forward(
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        settings = (self.kernel_size, self.stride, self.padding, output_size)
        return self.function(input, indices, *settings)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool2d(_MaxUnpoolNd):
    """Write the maxima of a `MaxPool2d` to their indices in an image of zeros.

    Args: as for the `MaxPool2d` that returned the indices.

    >>> pool, unpool = nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)
    >>> unpool(*pool(arange(4.0).reshape(1, 2, 2)))
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    rank = 2
    function = staticmethod(F.max_unpool2d)


class MaxUnpool1d(_MaxUnpoolNd):
    """Write the maxima of a `MaxPool1d` to their indices in zeros; see `MaxUnpool2d`.

    >>> nn.MaxUnpool1d(2)(tensor([[3.0, 2.0]]), tensor([[1, 2]]))
    tensor([[0., 3., 2., 0.]])
    """

    rank = 1
    function = staticmethod(F.max_unpool1d)


class MaxUnpool3d(_MaxUnpoolNd):
    """Write the maxima of a `MaxPool3d` to their indices in zeros; see `MaxUnpool2d`.

    >>> nn.MaxUnpool3d(2)(tensor([[[[9.0]]]]), tensor([[[[2]]]])).shape
    torch.Size([1, 2, 2, 2])
    """

    rank = 3
    function = staticmethod(F.max_unpool3d)


class _LPPoolNd(Module):
    """Base of the power-average pooling layers."""

    function: ClassVar[Any]

    def __init__(
        self, norm_type: float, kernel_size: Size, stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.kernel_size, self.stride, self.ceil_mode)
        return self.function(input, float(self.norm_type), *settings)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool2d(_LPPoolNd):
    """The p-norm of each window: y = (Σ xᵖ)^(1/p).

    Args:
        norm_type: p. 1 is the sum, infinity the maximum.
        kernel_size, stride, ceil_mode: as for `MaxPool2d`.

    >>> nn.LPPool2d(2, (1, 2))(tensor([[[3.0, 4.0]]]))
    tensor([[[5.]]])
    """

    function = staticmethod(F.lp_pool2d)


class LPPool1d(_LPPoolNd):
    """The p-norm of each window of a sequence; see `LPPool2d`.

    >>> nn.LPPool1d(2, 2)(tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    function = staticmethod(F.lp_pool1d)


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of a volume; see `LPPool2d`.

    >>> nn.LPPool3d(1, 2)(ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    function = staticmethod(F.lp_pool3d)


class FractionalMaxPool(Module):
    """Base of the fractional max pooling layers."""

    rank: ClassVar[int]
    function: ClassVar[Any]

    def __init__(
        self, kernel_size: Size, output_size: Size | None = None,
        output_ratio: float | Sequence[float] | None = None, return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        name, rank = type(self).__name__, self.rank
        self.kernel_size = expand_setting(kernel_size, rank, name)
        self.output_size = None if output_size is None else expand_setting(output_size, rank, name)
        if (output_size is None) == (output_ratio is None):
            raise SettingError(name, "needs either output_size or output_ratio, and not both")
        is_number = isinstance(output_ratio, int | float)
        self.output_ratio: Any = (output_ratio,) * rank if is_number else output_ratio
        if output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise SettingError(name, f"output_ratio must be between 0 and 1 (got {output_ratio})")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return self.function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices,
            _random_samples=self._random_samples,
        )  # fmt: skip


class FractionalMaxPool2d(FractionalMaxPool):
    """Fractional max pooling: the maximum of each window, where windows are placed at random.

    Args:
        output_size: the size of the result, or
        output_ratio: its ratio to the size of the input, between 0 and 1.
        return_indices: also return the index of each maximum in the flattened image.

    Raises: SettingError (a ValueError): not one of size and ratio; a ratio outside 0 … 1.

    Paper: Graham, Fractional max-pooling, 2014.

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.6)(ones(1, 1, 5, 5)).shape
    torch.Size([1, 1, 3, 3])
    """

    rank = 2
    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(FractionalMaxPool):
    """Fractional max pooling of volumes; see `FractionalMaxPool2d`.

    >>> nn.FractionalMaxPool3d(2, output_size=3)(ones(1, 1, 5, 5, 5)).shape
    torch.Size([1, 1, 3, 3, 3])
    """

    rank = 3
    function = staticmethod(F.fractional_max_pool3d)
