"""Observers: modules that let values pass, and note their range, from which the scale follows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from edutorch.ao import affine
from edutorch.ao.affine import EPS, QuantizedDtype, qint8, quint8
from edutorch.core.tensor import Tensor
from edutorch.dtypes import float32
from edutorch.errors import NotHereError, warn
from edutorch.nn import Module
from edutorch.ops import amax, amin, full, maximum, minimum, tensor

__all__ = [
    "MinMaxObserver", "MovingAverageMinMaxObserver", "MovingAveragePerChannelMinMaxObserver",
    "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver", "PlaceholderObserver",
]  # fmt: skip


def with_args(cls: Callable[..., Any], **kwargs: Any) -> Any:
    """Return a maker of observers with these settings, which has `with_args` too."""
    maker: Any = functools.partial(cls, **kwargs)
    maker.with_args = functools.partial(with_args, maker)
    return maker


class ObserverBase(Module):
    """Base of the observers.

    Args:
        dtype: the quantized dtype that the range is for.
    """

    with_args = classmethod(with_args)

    def __init__(self, dtype: Any, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    def calculate_qparams(self) -> Any:
        """Return (scale, zero_point)."""
        raise NotImplementedError("an observer defines calculate_qparams")


class PlaceholderObserver(ObserverBase):
    """An observer that notes nothing: the layer looks at each input itself, when it is called."""

    def __init__(
        self, dtype: Any = float32, custom_op_name: str = "", compute_dtype: Any = None,
        quant_min: int | None = None, quant_max: int | None = None, qscheme: Any = None,
        eps: float | None = None, is_dynamic: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme = qscheme or affine.per_tensor_affine
        self.quant_min, self.quant_max = quant_min, quant_max

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class NoopObserver(ObserverBase):
    """An observer that does nothing."""

    def __init__(self, dtype: Any = float32, custom_op_name: str = "") -> None:
        super().__init__(dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Return the input."""
        return x


class MinMaxObserver(ObserverBase):
    """Note the smallest and the largest value of all that passes.

    Args:
        dtype: `quint8` or `qint8`.
        qscheme: affine, or symmetric around 0.
        reduce_range: use half of the integers, so that sums of products are smaller.
        quant_min, quant_max: the integers; by default those of the dtype.
        eps: the smallest scale.

    Raises: NotHereError: half of the integers of quint8 around 0: PyTorch has none either.

    >>> observer = edutorch.ao.quantization.MinMaxObserver()
    >>> _ = observer(tensor([-1.0, 3.0]))
    >>> observer.calculate_qparams()
    (tensor([0.0157]), tensor([64], dtype=torch.int32))
    """

    def __init__(
        self, dtype: QuantizedDtype = quint8, qscheme: affine.qscheme = affine.per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: Any = None, eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, is_dynamic)
        self.qscheme, self.reduce_range = qscheme, reduce_range
        if reduce_range and qscheme.is_symmetric and dtype is quint8:
            raise NotHereError(
                type(self).__name__, "Cannot reduce range for symmetric quantization for quint8",
                hint="use dtype=torch.qint8, or set quant_min and quant_max",
            )  # fmt: skip
        low, high = dtype.bounds
        low = low if quant_min is None else quant_min
        high = high if quant_max is None else quant_max
        self.quant_min, self.quant_max = (low // 2, high // 2) if reduce_range else (low, high)
        self.register_buffer("eps", tensor([eps]))
        self.register_buffer("min_val", tensor(float("inf")))
        self.register_buffer("max_val", tensor(float("-inf")))

    @property
    def bounds(self) -> tuple[int, int]:
        """The integers in use."""
        return self.quant_min, self.quant_max

    def range_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smallest and largest value of a tensor."""
        return x.min(), x.max()

    def combine(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return the range so far, with that of another tensor."""
        return minimum(self.min_val, low), maximum(self.max_val, high)

    @property
    def has_seen_values(self) -> bool:
        """Whether anything has passed."""
        return self.min_val.numel() > 0 and bool((self.min_val <= self.max_val).all())

    def forward(self, x_orig: Tensor) -> Tensor:
        """Note the range of the input, and return it."""
        if x_orig.numel():
            low, high = self.range_of(x_orig.detach().float())
            if self.has_seen_values:
                low, high = self.combine(low, high)
            self.min_val, self.max_val = low, high
        return x_orig

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point of the range so far (1 and 0, if nothing has passed)."""
        if not self.has_seen_values:
            warn("must run observer before calling calculate_qparams. Returning default values.")
            return tensor([1.0]), tensor([0])
        scale, zero_point = affine.choose_qparams(
            self.min_val, self.max_val, self.bounds, self.qscheme, self.dtype, self.eps
        )
        return scale.reshape(-1), zero_point.reshape(-1)

    def reset_min_max_vals(self) -> None:
        """Forget the range."""
        self.min_val, self.max_val = tensor(float("inf")), tensor(float("-inf"))

    def extra_repr(self) -> str:
        low, high = (x.item() if x.ndim == 0 else x for x in (self.min_val, self.max_val))
        return f"min_val={low}, max_val={high}"


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Note a moving average of the range: low ← low + c · (new - low).

    Args:
        averaging_constant: c.
    """

    def __init__(
        self, averaging_constant: float = 0.01, dtype: QuantizedDtype = quint8,
        qscheme: affine.qscheme = affine.per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, eps: float = EPS,
        is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic)
        self.averaging_constant = averaging_constant

    def combine(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return the average so far, moved towards another range."""
        c = self.averaging_constant
        return self.min_val + c * (low - self.min_val), self.max_val + c * (high - self.max_val)


class PerChannelMinMaxObserver(MinMaxObserver):
    """Note the range of each channel.

    Args:
        ch_axis: the axis of the channels.
    """

    def __init__(
        self, ch_axis: int = 0, dtype: QuantizedDtype = quint8,
        qscheme: affine.qscheme = affine.per_channel_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: Any = None,
        eps: float = EPS, is_dynamic: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, None, eps, is_dynamic)
        self.ch_axis = ch_axis
        self.min_val = self.max_val = tensor([])

    def range_of(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smallest and largest value of each channel."""
        dims = [dim for dim in range(x.ndim) if dim != self.ch_axis % x.ndim]
        return (amin(x, dims), amax(x, dims)) if dims else (x, x)

    def reset_min_max_vals(self) -> None:
        """Forget the ranges."""
        self.min_val = self.max_val = full((0,), 0.0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Note a moving average of the range of each channel.

    Args:
        averaging_constant: how far a new range moves the average.
    """

    def __init__(self, averaging_constant: float = 0.01, ch_axis: int = 0, **kwargs: Any) -> None:
        super().__init__(ch_axis, **kwargs)
        self.averaging_constant = averaging_constant

    combine = MovingAverageMinMaxObserver.combine


default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_weight_observer = MinMaxObserver.with_args(dtype=qint8, qscheme=affine.per_tensor_symmetric)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=qint8, qscheme=affine.per_channel_symmetric
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=quint8, quant_min=0, quant_max=255, is_dynamic=True
)
