"""Layers that learn the size of their input from the first batch.

A lazy layer is made without the number of input features. Its parameters have no shape
until it is called for the first time (or loads a state_dict); then they are made, and the
layer becomes an ordinary one: `LazyLinear` turns into `Linear`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...errors import EdutorchError, ShapeError, ShapeValueError
from ...ops import tensor
from ..uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from .conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)  # fmt: skip
from .linear import Linear
from .module import Module
from .norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)  # fmt: skip
from .state_dict import own_state

__all__ = [
    "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
    "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear",
    "LazyModuleMixin",
]  # fmt: skip

Size = int | Sequence[int]


class FeatureError(EdutorchError, AssertionError):
    """An input has not the features of a loaded weight (an AssertionError, as PyTorch's)."""


class LazyModuleMixin(Module):
    """What lazy modules share: the first call makes the parameters.

    A subclass stands before the module that it makes lazy, gives it parameters that are
    `UninitializedParameter`, says in `initialize_parameters` which shape they get, and in
    `cls_to_become` what it turns into.
    """

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)  # of the module that is made lazy
        self.never_called = True

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Make the parameters, given what `forward` is called with."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def has_uninitialized_params(self) -> bool:
        """Say whether a parameter or buffer has no shape yet."""
        return any(map(is_lazy, (*self._parameters.values(), *self._buffers.values())))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make the parameters if this is the first call, become the ordinary module, run it."""
        if self.__dict__.get("never_called"):
            self.initialize_parameters(*args, **kwargs)
            if self.has_uninitialized_params():
                raise ShapeError(
                    type(self).__name__,
                    f"module {self._get_name()} has not been fully initialized",
                    hint="initialize_parameters has to materialize all parameters and buffers",
                )
            del self.never_called
            if self.cls_to_become is not None:
                self.__class__ = self.cls_to_become
                return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *others: Any
    ) -> None:
        for name, held in own_state(self):
            found = state_dict.get(prefix + name)
            if isinstance(found, Tensor) and not is_lazy(found):
                grow(held, found.shape)
        super()._load_from_state_dict(state_dict, prefix, *others)


class LazyLinear(LazyModuleMixin, Linear):
    """A `Linear` that learns `in_features` from the last axis of its first input.

    >>> layer = nn.LazyLinear(2)
    >>> layer(ones(5, 3)).shape, layer
    (torch.Size([5, 2]), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new random numbers, if there is room for them already."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Make the parameters. Raises: AssertionError: a loaded weight has other features."""
        if self.has_uninitialized_params():
            self.in_features = input.shape[-1]
            grow(self.weight, (self.out_features, self.in_features))
            grow(self.bias, (self.out_features,))
            self.reset_parameters()
        elif not self.in_features:
            if input.shape[-1] != self.weight.shape[-1]:
                raise FeatureError(
                    "LazyLinear", f"The in_features inferred from input: {input.shape[-1]} is not "
                    f"equal to in_features from self.weight: {self.weight.shape[-1]}",
                )  # fmt: skip
            self.in_features = input.shape[-1]


def grow(tensor: Any, shape: Sequence[int]) -> None:
    """Give a parameter or buffer its shape, if it has none yet."""
    if is_lazy(tensor):
        tensor.materialize(shape)


class LazyConvNd(LazyModuleMixin):
    """What lazy convolutions share: `in_channels` is the input's number of channels."""

    out_channels: int
    groups: int
    rank: int
    transposed: bool
    kernel_size: tuple[int, ...]

    def begin(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Put parameters without a shape into the place of the empty ones."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new random numbers, if there is room for them already."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Make the parameters. Raises: RuntimeError, ValueError: such an input does not fit."""
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
        ends = (self.out_channels, self.in_channels)
        first, second = reversed(ends) if self.transposed else ends
        grow(self.weight, (first, second // self.groups, *self.kernel_size))
        grow(self.bias, (self.out_channels,))
        self.reset_parameters()


class LazyConv(LazyConvNd):
    """A convolution whose input channels are learned from its first input."""

    def __init__(
        self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Any = 0,
        dilation: Size = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device,
            dtype,
        )  # fmt: skip
        self.begin(out_channels, bias, device, dtype)


class LazyConvTranspose(LazyConvNd):
    """A transposed convolution whose input channels are learned from its first input."""

    def __init__(
        self, out_channels: int, kernel_size: Size, stride: Size = 1, padding: Size = 0,
        output_padding: Size = 0, groups: int = 1, bias: bool = True, dilation: Size = 1,
        padding_mode: str = "zeros", device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self.begin(out_channels, bias, device, dtype)


class LazyNorm(LazyModuleMixin):
    """A batch or instance norm whose channels are learned from its first input.

    Unlike `InstanceNorm2d` and its kind, lazy ones have scale, shift and running averages
    unless told otherwise, as in PyTorch.
    """

    num_features: int

    def __init__(
        self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: Any = None, dtype: Any = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(0, eps, momentum, False, False, device, dtype, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = tensor(0, device=device)

    def reset_parameters(self) -> None:
        """Begin again, if there is room for the numbers already."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor) -> None:
        """Make parameters and buffers, one number for each channel."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for _, held in own_state(self):
                grow(held, (self.num_features,))
            self.reset_parameters()
        elif not self.num_features:
            sizes = [held.shape[0] for _, held in own_state(self) if held.ndim]
            self.num_features = sizes[0] if sizes else input.shape[1]


class LazyConv1d(LazyConv, Conv1d):
    """A `Conv1d` that learns `in_channels` from its first input.

    >>> nn.LazyConv1d(8, 3)(zeros(2, 3, 4)).shape
    torch.Size([2, 8, 2])
    """

    cls_to_become = Conv1d


class LazyConv2d(LazyConv, Conv2d):
    """A `Conv2d` that learns `in_channels` from its first input.

    >>> nn.LazyConv2d(8, 3)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 2, 2])
    """

    cls_to_become = Conv2d


class LazyConv3d(LazyConv, Conv3d):
    """A `Conv3d` that learns `in_channels` from its first input.

    >>> nn.LazyConv3d(8, 3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 8, 2, 2, 2])
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that learns `in_channels` from its first input.

    >>> nn.LazyConvTranspose1d(8, 3)(zeros(2, 3, 4)).shape
    torch.Size([2, 8, 6])
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that learns `in_channels` from its first input.

    >>> nn.LazyConvTranspose2d(8, 3)(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 6, 6])
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that learns `in_channels` from its first input.

    >>> nn.LazyConvTranspose3d(8, 3)(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 8, 6, 6, 6])
    """

    cls_to_become = ConvTranspose3d


class LazyBatchNorm1d(LazyNorm, BatchNorm1d):
    """A `BatchNorm1d` that learns `num_features` from its first input.

    >>> nn.LazyBatchNorm1d()(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(LazyNorm, BatchNorm2d):
    """A `BatchNorm2d` that learns `num_features` from its first input.

    >>> nn.LazyBatchNorm2d()(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(LazyNorm, BatchNorm3d):
    """A `BatchNorm3d` that learns `num_features` from its first input.

    >>> nn.LazyBatchNorm3d()(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(LazyNorm, InstanceNorm1d):
    """A `InstanceNorm1d` that learns `num_features` from its first input.

    >>> nn.LazyInstanceNorm1d()(zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(LazyNorm, InstanceNorm2d):
    """A `InstanceNorm2d` that learns `num_features` from its first input.

    >>> nn.LazyInstanceNorm2d()(zeros(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(LazyNorm, InstanceNorm3d):
    """A `InstanceNorm3d` that learns `num_features` from its first input.

    >>> nn.LazyInstanceNorm3d()(zeros(2, 3, 4, 4, 4)).shape
    torch.Size([2, 3, 4, 4, 4])
    """

    cls_to_become = InstanceNorm3d
