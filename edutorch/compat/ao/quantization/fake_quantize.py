"""Fake quantization: floats rounded to the values that integers stand for, with a gradient.

A network that trains with it learns weights that quantization does not hurt. Rounding has the slope
0 nearly everywhere; here it passes the gradient as it is (the straight-through estimator), except
for values outside of the range, whose slope is 0.

Paper: Jacob et al., 2018, "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference".
"""

from __future__ import annotations

from typing import Any

from edutorch.ao import affine
from edutorch.ao.affine import QParams
from edutorch.autograd.function import Function
from edutorch.core.tensor import Tensor
from edutorch.errors import InvalidValueError
from edutorch.nn import Module
from edutorch.ops import round, tensor

from .observer import MovingAverageMinMaxObserver, with_args

__all__ = [
    "FakeQuantize", "FakeQuantizeBase", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer", "fake_quantize_per_channel_affine",
    "fake_quantize_per_tensor_affine",
]  # fmt: skip


class FakeQuantizeFunction(Function):
    """Rounding to a grid, with the straight-through gradient."""

    title = "fake_quantize"

    @staticmethod
    def forward(ctx: Any, input: Tensor, qparams: QParams, bounds: tuple[int, int]) -> Tensor:
        """Return scale · (clamp(round(x / scale) + zero_point) - zero_point)."""
        scale, zero_point = qparams.along(input.ndim)
        integers = round(input * (1.0 / scale)) + zero_point
        ctx.save_for_backward((integers >= bounds[0]) & (integers <= bounds[1]))
        return affine.dequantize(affine.quantize(input, qparams, bounds), qparams)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Any, ...]:
        """Return the gradient where the value was inside of the range."""
        (inside,) = ctx.saved_tensors
        return g * inside, None, None


class FakeQuantizePerTensorAffineCachemask(FakeQuantizeFunction):
    """PyTorch's name of it for one scale."""


class FakeQuantizePerChannelAffineCachemask(FakeQuantizeFunction):
    """PyTorch's name of it for a scale of each channel."""


def check_bounds(op: str, zero_point: Any, quant_min: int, quant_max: int) -> None:
    """Raise InvalidValueError unless quant_min ≤ zero_point ≤ quant_max."""
    if quant_min > quant_max:
        raise InvalidValueError(
            op, "`quant_min` should be less than or equal to `quant_max`.",
            {"quant_min": quant_min, "quant_max": quant_max},
        )  # fmt: skip
    values = zero_point.reshape(-1).tolist() if isinstance(zero_point, Tensor) else [zero_point]
    if any(not quant_min <= value <= quant_max for value in values):
        raise InvalidValueError(
            op, "`zero_point` must be between `quant_min` and `quant_max`.",
            {"zero_point": zero_point, "quant_min": quant_min, "quant_max": quant_max},
        )  # fmt: skip


def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
) -> Tensor:
    """Round to the values of integers from quant_min to quant_max: what quantization would give.

    Raises: RuntimeError: quant_min ≤ zero_point ≤ quant_max does not hold.

    >>> x = tensor([-3.0, 0.26, 30.0], requires_grad=True)
    >>> y = edutorch.fake_quantize_per_tensor_affine(x, 0.1, 10, 0, 255)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad
    ([-1.0, 0.30000001192092896, 24.5], tensor([0., 1., 0.]))
    """
    check_bounds("fake_quantize_per_tensor_affine", zero_point, quant_min, quant_max)
    bounds = (quant_min, quant_max)
    return FakeQuantizePerTensorAffineCachemask.apply(input, QParams(scale, zero_point), bounds)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """Round with a scale and a zero point for each slice along `axis`.

    Raises: RuntimeError: quant_min ≤ zero_point ≤ quant_max does not hold.
    """
    check_bounds("fake_quantize_per_channel_affine", zero_point, quant_min, quant_max)
    qparams = QParams(scale, zero_point, axis)
    return FakeQuantizePerChannelAffineCachemask.apply(input, qparams, (quant_min, quant_max))


class FakeQuantizeBase(Module):
    """Base of modules that round what passes."""

    with_args = classmethod(with_args)


class FakeQuantize(FakeQuantizeBase):
    """Watch the range of what passes, and round it to the integers of this range.

    Args:
        observer: the class that watches.
        quant_min, quant_max: the integers; by default those of the dtype.
        observer_kwargs: the settings of the observer.

    >>> rounding = edutorch.ao.quantization.FakeQuantize()
    >>> rounding(tensor([0.0, 0.3, 1.0]))
    tensor([0.0000, 0.2980, 1.0000])
    """

    def __init__(
        self, observer: Any = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.activation_post_process = observer(
            quant_min=quant_min, quant_max=quant_max, **observer_kwargs
        )
        self.register_buffer("fake_quant_enabled", tensor([1], dtype=affine.dtypes.uint8))
        self.register_buffer("observer_enabled", tensor([1], dtype=affine.dtypes.uint8))
        self.register_buffer("scale", tensor([1.0]))
        self.register_buffer("zero_point", tensor([0]))
        watching = self.activation_post_process
        self.dtype, self.qscheme = watching.dtype, watching.qscheme
        self.ch_axis = getattr(watching, "ch_axis", -1)
        self.is_per_channel = watching.qscheme.is_per_channel
        self.quant_min, self.quant_max = watching.bounds

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return scale and zero point of the range so far."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        """Return the input, rounded."""
        if self.observer_enabled[0]:
            self.activation_post_process(X.detach())
            scale, zero_point = self.calculate_qparams()
            self.scale, self.zero_point = scale.reshape(-1), zero_point.reshape(-1)
        if not self.fake_quant_enabled[0]:
            return X
        if self.is_per_channel:
            qparams = QParams(self.scale, self.zero_point, self.ch_axis)
        else:
            qparams = QParams(float(self.scale), int(self.zero_point))
        return FakeQuantizeFunction.apply(X, qparams, (self.quant_min, self.quant_max))

    def extra_repr(self) -> str:
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}"
        )


def set_switch(mod: Module, switch: str, value: int) -> None:
    """Set a switch of a module if it fakes quantization (for `Module.apply`)."""
    if isinstance(mod, FakeQuantize):
        getattr(mod, switch)[0] = value


def enable_fake_quant(mod: Module) -> None:
    """Round from now on: `model.apply(enable_fake_quant)`."""
    set_switch(mod, "fake_quant_enabled", 1)


def disable_fake_quant(mod: Module) -> None:
    """Do not round from now on: `model.apply(disable_fake_quant)`."""
    set_switch(mod, "fake_quant_enabled", 0)


def enable_observer(mod: Module) -> None:
    """Watch the range from now on: `model.apply(enable_observer)`."""
    set_switch(mod, "observer_enabled", 1)


def disable_observer(mod: Module) -> None:
    """Keep the range from now on: `model.apply(disable_observer)`."""
    set_switch(mod, "observer_enabled", 0)


default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=affine.quint8,
    qscheme=affine.per_tensor_affine, reduce_range=True,
)  # fmt: skip
default_weight_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=affine.qint8,
    qscheme=affine.per_tensor_symmetric, reduce_range=False,
)  # fmt: skip
