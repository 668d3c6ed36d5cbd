"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ...core.tensor import Tensor
from ...dtypes import int64
from ...errors import InvalidValueError, ShapeError, ShapeValueError, warn
from ...ops import ones, tensor, zeros
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "RMSNorm",
]  # fmt: skip


class RunningNorm(Module):
    """What batch norm and instance norm share: scale, shift and running averages."""

    _version: ClassVar[int] = 2
    axes: tuple[int, ...] = ()
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        made = {"device": device, "dtype": dtype}
        shift = affine and bias
        self.register_parameter("weight", Parameter(ones(num_features, **made)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **made)) if shift else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if tracked else None)
        self.register_buffer("running_var", ones(num_features, **made) if tracked else None)
        counter = tensor(0, dtype=int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", counter)

    def reset_parameters(self) -> None:
        """Begin again: scale 1, shift 0, and no averages."""
        self.reset_running_stats()
        if self.affine:
            init.ones_(self.weight)
            if self.bias is not None:
                init.zeros_(self.bias)

    def reset_running_stats(self) -> None:
        """Forget the averages."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *others: Any
    ) -> None:
        """Take files of version 1 too: they do not count the batches."""
        key = f"{prefix}num_batches_tracked"
        counted = self.num_batches_tracked
        if local_metadata.get("version", 1) < 2 and counted is not None:
            state_dict.setdefault(key, counted)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)

    def _check(self, input: Tensor) -> None:
        shape = tuple(input.shape)
        name = type(self).__name__
        if len(shape) not in self.axes:
            wanted = " or ".join(f"{each}D" for each in self.axes)
            hint = "a batch of one is x.unsqueeze(0)" if len(shape) + 1 in self.axes else None
            if len(shape) == 2:
                hint = "features without an image, (n, c), are for BatchNorm1d"
            raise ShapeValueError(
                name, f"expected {wanted} input (got {len(shape)}D input)", {"input": shape}, hint
            )
        if shape[1] != self.num_features and not self._only_warns(shape[1]):
            hint = None
            if shape[-1] == self.num_features:
                order = "x.permute(0, 3, 1, 2)" if len(shape) == 4 else "x.movedim(-1, 1)"
                hint = f"channels come along axis 1: {order}"
            raise ShapeError(
                name, f"expected {self.num_features} channels along axis 1, got {shape[1]}",
                {"input": shape}, hint,
            )  # fmt: skip

    def _only_warns(self, channels: int) -> bool:
        """Whether another number of channels than `num_features` is taken, with a warning."""
        return False

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class BatchNorm(RunningNorm):
    """What the batch norm layers share.

    While training, each channel is standardised over the batch, and running averages of
    its mean and variance are kept; in evaluation these are used. Then it is scaled and
    shifted by two parameters.

    Args:
        num_features: how many channels there are.
        eps: keeps the division finite.
        momentum: how far the averages move in each step; None: the plain average of all.
        affine: with scale (`weight`) and, unless `bias=False`, shift (`bias`).
        track_running_stats: keep the averages; without them each batch is its own measure.

    Paper: Ioffe and Szegedy, Batch normalization, 2015.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Standardise, scale and shift."""
        self._check(input)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1 / self.num_batches_tracked.item()
        own = self.training or self.running_mean is None
        kept = (self.running_mean, self.running_var) if not own or self.training else (None, None)
        return F.batch_norm(input, *kept, self.weight, self.bias, own, momentum, self.eps)


class BatchNorm1d(BatchNorm):
    __doc__ = f"""Batch norm of rows (n, c) or sequences (n, c, l).

    {BatchNorm.__doc__}
    >>> nn.BatchNorm1d(3)(randn(5, 3)).shape
    torch.Size([5, 3])
    """

    axes = (2, 3)


class BatchNorm2d(BatchNorm):
    __doc__ = f"""Batch norm of images (n, c, h, w).

    {BatchNorm.__doc__}
    >>> nn.BatchNorm2d(3)(randn(5, 3, 4, 4)).shape
    torch.Size([5, 3, 4, 4])
    """

    axes = (4,)


class BatchNorm3d(BatchNorm):
    __doc__ = f"""Batch norm of volumes (n, c, d, h, w).

    {BatchNorm.__doc__}
    >>> nn.BatchNorm3d(3)(randn(5, 3, 4, 4, 2)).shape
    torch.Size([5, 3, 4, 4, 2])
    """

    axes = (5,)


class InstanceNorm(RunningNorm):
    """What the instance norm layers share: each sample is standardised by itself.

    Args: as for batch norm; usually without scale and shift, and without averages.

    Paper: Ulyanov, Vedaldi and Lempitsky, Instance normalization, 2016.
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
        affine: bool = False, track_running_stats: bool = False, device: Any = None,
        dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Refuse averages of a very old file: the layer kept them then without being asked."""
        version, name = local_metadata.get("version"), type(self).__name__
        old = [f"{prefix}running_{each}" for each in ("mean", "var")]
        found = [key for key in old if key in state_dict]
        if version is None and not self.track_running_stats and found:
            keys = " and ".join(f'"{key}"' for key in found)
            error_msgs.append(
                f"Unexpected running stats buffer(s) {keys} for {name} with "
                f"track_running_stats=False. Please remove these keys from state_dict, or make "
                f"the layer with track_running_stats=True."
            )
            for key in found:
                state_dict.pop(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def _only_warns(self, channels: int) -> bool:
        if self.affine or self.track_running_stats:
            return False
        warn(
            f"{type(self).__name__}: {channels} channels along axis 1, not num_features="
            f"{self.num_features}: without affine it is not used"
        )
        return True

    def forward(self, input: Tensor) -> Tensor:
        """Standardise, scale and shift."""
        single = input.ndim == self.axes[0] - 1
        batch = input.unsqueeze(0) if single else input
        self._check(batch)
        y = F.instance_norm(
            batch, self.running_mean, self.running_var, self.weight, self.bias,
            self.training or not self.track_running_stats, self.momentum or 0.0, self.eps,
        )  # fmt: skip
        return y.squeeze(0) if single else y


class InstanceNorm1d(InstanceNorm):
    """Instance norm of sequences (n, c, l).

    >>> nn.InstanceNorm1d(3)(randn(5, 3, 4)).shape
    torch.Size([5, 3, 4])
    """

    axes = (3,)


class InstanceNorm2d(InstanceNorm):
    """Instance norm of images (n, c, h, w).

    >>> nn.InstanceNorm2d(3)(randn(5, 3, 4, 4)).shape
    torch.Size([5, 3, 4, 4])
    """

    axes = (4,)


class InstanceNorm3d(InstanceNorm):
    """Instance norm of volumes (n, c, d, h, w).

    >>> nn.InstanceNorm3d(3)(randn(5, 3, 4, 4, 2)).shape
    torch.Size([5, 3, 4, 4, 2])
    """

    axes = (5,)


class LayerNorm(Module):
    """Standardise each sample over its last axes, then scale and shift each feature.

    Args:
        normalized_shape: the sizes of these axes.
        eps: keeps the division finite.
        elementwise_affine: with scale (`weight`) and shift (`bias`).
        bias: with the shift.

    Paper: Ba, Kiros and Hinton, Layer normalization, 2016.

    >>> nn.LayerNorm(4)(randn(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5,
        elementwise_affine: bool = True, bias: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        one = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if one else tuple(normalized_shape)  # type: ignore
        self.eps, self.elementwise_affine = eps, elementwise_affine
        shape, made = self.normalized_shape, {"device": device, "dtype": dtype}
        affine = elementwise_affine
        self.register_parameter("weight", Parameter(ones(shape, **made)) if affine else None)
        self.register_parameter(
            "bias", Parameter(zeros(shape, **made)) if affine and bias else None
        )

    def reset_parameters(self) -> None:
        """Begin again: scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Standardise, scale and shift."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide each sample by the root of its mean square, then scale each feature.

    Paper: Zhang and Sennrich, Root mean square layer normalization, 2019.

    >>> nn.RMSNorm(4)(randn(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None,
        elementwise_affine: bool = True, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        one = isinstance(normalized_shape, int)
        self.normalized_shape = (normalized_shape,) if one else tuple(normalized_shape)  # type: ignore
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = ones(self.normalized_shape, device=device, dtype=dtype)
        self.register_parameter("weight", Parameter(weight) if elementwise_affine else None)

    def reset_parameters(self) -> None:
        """Begin again: scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """Divide and scale."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Standardise each sample over groups of its channels, then scale and shift each channel.

    Paper: Wu and He, Group normalization, 2018.

    >>> nn.GroupNorm(2, 4)(randn(2, 4, 3)).shape
    torch.Size([2, 4, 3])
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise InvalidValueError(
                type(self).__name__, "num_channels must be divisible by num_groups"
            )
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.affine, made = affine, {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_channels, **made)) if affine else None)
        shift = affine and bias
        self.register_parameter("bias", Parameter(zeros(num_channels, **made)) if shift else None)

    def reset_parameters(self) -> None:
        """Begin again: scale 1, shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Standardise, scale and shift."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
