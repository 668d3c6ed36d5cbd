"""Padding layers."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.tensor import Tensor
from .. import functional as F
from ..functional.sliding_window import expand_setting
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Pad(Module):
    """Base of the padding layers.

    Args:
        padding: one width for all sides, or the widths before and after the last axis, then
            the last but one, …; a negative width crops.
    """

    rank = 1
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = expand_setting(padding, 2 * self.rank, type(self).__name__)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPadNd(Pad):
    """Base of the layers that pad with a constant.

    Args: as for `Pad`, and the constant `value`.
    """

    def __init__(self, padding: int | Sequence[int], value: float | None) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pad with a constant around a sequence.

    >>> nn.ConstantPad1d(1, 0.5)(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 6])
    """

    rank = 1


class ConstantPad2d(_ConstantPadNd):
    """Pad with a constant around an image.

    >>> nn.ConstantPad2d(1, 0.5)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 6, 6])
    """

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """Pad with a constant around a volume.

    >>> nn.ConstantPad3d(1, 0.5)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 6, 6, 6])
    """

    rank = 3


class ZeroPad(_ConstantPadNd):
    """Base of the layers that pad with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(ZeroPad, ConstantPad1d):
    """Pad with zeros around a sequence.

    >>> nn.ZeroPad1d(1)(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 6])
    """


class ZeroPad2d(ZeroPad, ConstantPad2d):
    """Pad with zeros around an image.

    >>> nn.ZeroPad2d(1)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 6, 6])
    """


class ZeroPad3d(ZeroPad, ConstantPad3d):
    """Pad with zeros around a volume.

    >>> nn.ZeroPad3d(1)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 6, 6, 6])
    """


class _ReflectionPadNd(Pad):
    """Base of the layers that pad with the reflection of the input."""

    mode = "reflect"


class ReflectionPad1d(_ReflectionPadNd):
    """Pad with the reflection of the input around a sequence.

    >>> nn.ReflectionPad1d(1)(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 6])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Pad with the reflection of the input around an image.

    >>> nn.ReflectionPad2d(1)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 6, 6])
    """

    rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pad with the reflection of the input around a volume.

    >>> nn.ReflectionPad3d(1)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 6, 6, 6])
    """

    rank = 3


class _ReplicationPadNd(Pad):
    """Base of the layers that pad with copies of the edge."""

    mode = "replicate"


class ReplicationPad1d(_ReplicationPadNd):
    """Pad with copies of the edge around a sequence.

    >>> nn.ReplicationPad1d(1)(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 6])
    """

    rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Pad with copies of the edge around an image.

    >>> nn.ReplicationPad2d(1)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 6, 6])
    """

    rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pad with copies of the edge around a volume.

    >>> nn.ReplicationPad3d(1)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 6, 6, 6])
    """

    rank = 3


class _CircularPadNd(Pad):
    """Base of the layers that pad with the opposite end of the input (circular)."""

    mode = "circular"


class CircularPad1d(_CircularPadNd):
    """Pad with the opposite end of the input (circular) around a sequence.

    >>> nn.CircularPad1d(1)(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 6])
    """

    rank = 1


class CircularPad2d(_CircularPadNd):
    """Pad with the opposite end of the input (circular) around an image.

    >>> nn.CircularPad2d(1)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 6, 6])
    """

    rank = 2


class CircularPad3d(_CircularPadNd):
    """Pad with the opposite end of the input (circular) around a volume.

    >>> nn.CircularPad3d(1)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 6, 6, 6])
    """

    rank = 3
