"""Elementwise arithmetic on two tensors, or on a tensor and a Python scalar.

Operands broadcast: sizes must match from the last axis backwards, and an axis of size 1
(or a missing axis) is expanded. The engine sums each gradient over the expanded axes, so
the rules here need not.
"""

from __future__ import annotations

import math
from typing import Any

from .. import backends
from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..core.precision import accumulate_in_float32, is_half
from ..errors import DTypeError, ZeroDivisorError


@elementwise(promotion="promote")
def add(xp: Namespace, input: Array, other: Array, *, alpha: float = 1) -> Array:
    """The sum: y = input + alpha · other.

    >>> add(tensor([1.0, 2.0]), 10)
    tensor([11., 12.])
    """
    return input + other if alpha == 1 else add_scaled(xp, input, other, alpha)


def add_scaled(xp: Namespace, input: Any, other: Any, alpha: float) -> Any:
    """input + alpha · other; 16-bit floats are rounded once, as PyTorch does."""
    if getattr(input, "itemsize", 0) == 2 and is_half(input.dtype):
        return accumulate_in_float32(add_scaled)(xp, input, other, alpha)
    return input + scale_operand(xp, other, alpha)


def scale_operand(xp: Namespace, other: Any, alpha: float) -> Any:
    """alpha · other, in the dtype of `other`."""
    if alpha.__class__ is complex and getattr(getattr(other, "dtype", None), "kind", "c") != "c":
        raise DTypeError(
            "add", "for real tensors alpha must not be a complex number", {"alpha": alpha}
        )
    return (
        alpha * other
        if not hasattr(other, "dtype")
        else other * xp.asarray(alpha).astype(other.dtype)
    )


add.vjp(
    input=lambda g: g,
    other=lambda g, alpha: g if alpha == 1 else g * alpha,
    latex={"input": r"g", "other": r"\alpha\,g"},
)


@elementwise(promotion="promote", dtypes="ifc")
def sub(xp: Namespace, input: Array, other: Array, *, alpha: float = 1) -> Array:
    """The difference: y = input - alpha · other.

    >>> sub(tensor([1.0, 2.0]), tensor([3.0, 5.0]))
    tensor([-2., -3.])
    """
    return input - other if alpha == 1 else add_scaled(xp, input, other, -alpha)


sub.vjp(
    input=lambda g: g,
    other=lambda g, alpha: -g if alpha == 1 else g * -alpha,
    latex={"input": r"g", "other": r"-\alpha\,g"},
)


@elementwise(promotion="promote")
def mul(xp: Namespace, input: Array, other: Array) -> Array:
    """The product: y = input · other.

    >>> mul(tensor([1.0, 2.0]), 3)
    tensor([3., 6.])
    """
    return input * other


mul.vjp(
    input=lambda g, other: g * other,
    other=lambda g, input: g * input,
    latex={"input": r"g \cdot b", "other": r"g \cdot a"},
)


def _division_promotion(settings: dict[str, Any]) -> str:
    return "promote" if settings["rounding_mode"] else "float"


@elementwise(promotion=_division_promotion, node="DivBackward2 if rounding_mode else DivBackward0")
def div(xp: Namespace, input: Array, other: Array, *, rounding_mode: str | None = None) -> Array:
    """The quotient: y = input / other, with a floating-point dtype.

    `rounding_mode="floor"` rounds down and "trunc" rounds towards zero; both
    keep an integer dtype.

    >>> div(tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    """
    if rounding_mode is None:
        return input / other
    check_divisor("div", xp, input, other)
    if rounding_mode == "floor":
        return xp.floor_divide(input, other)
    if rounding_mode == "trunc":
        if xp.result_type(input, other).kind in "iu":  # float64 has no 64 bits for the digits
            quotient = xp.floor_divide(input, other)
            is_below = ((input < 0) != (other < 0)) & (quotient * other != input)
            return quotient + is_below
        quotient = xp.trunc(xp.true_divide(input, other))
        return quotient.astype(xp.result_type(input, other))
    raise ValueError(f"rounding_mode must be None, 'trunc' or 'floor', got {rounding_mode!r}")


div.vjp(
    input=lambda g, other, rounding_mode: g / other if rounding_mode is None else zeros_like(g),
    other=lambda g, input, other, rounding_mode: (
        -g * (input / other / other) if rounding_mode is None else zeros_like(g)
    ),
    latex={"input": r"\frac{g}{b}", "other": r"-\frac{g\,a}{b^2}"},
)


@elementwise(promotion="promote", dtypes="if")
def floor_divide(xp: Namespace, input: Array, other: Array) -> Array:
    """The quotient rounded down: y = ⌊input / other⌋.

    >>> floor_divide(tensor([7.0, -7.0]), 2)
    tensor([ 3., -4.])
    """
    check_divisor("floor_divide", xp, input, other)
    return xp.floor_divide(input, other)


def check_divisor(name: str, xp: Namespace, input: Any, other: Any) -> None:
    """Raise ZeroDivisorError for an integer division by 0: integers cannot represent inf."""
    dtype_kind = input.dtype.kind if hasattr(input, "dtype") else other.dtype.kind
    if dtype_kind in "iub" and getattr(input, "size", 1) and bool(xp.any(xp.equal(other, 0))):
        raise ZeroDivisorError(name, "integer division by zero", hint="use / for inf, or x.float()")


@elementwise(
    promotion="promote",
    dtypes="if",
    node="RemainderBackward1 if other.__class__ is Tensor else RemainderBackward0",
)
def remainder(xp: Namespace, input: Array, other: Array) -> Array:
    """The remainder of the division, with the sign of the divisor: y = a - b · ⌊a / b⌋.

    >>> remainder(tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """
    check_divisor("remainder", xp, input, other)
    return xp.remainder(input, other)


remainder.vjp(
    input=lambda g: g,
    other=lambda g, input, other: -g * floor_divide(input, other),
    latex={"input": r"g", "other": r"-g \lfloor a/b \rfloor"},
)


@elementwise(promotion="promote", dtypes="bif", scalars="")
def maximum(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise maximum; where the operands are equal, each gets half of the gradient.

    >>> maximum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([3., 5.])
    """
    return xp.maximum(input, other)


maximum.vjp(
    input=lambda g, input, other: split_tie_gradient(g, input < other, input == other),
    other=lambda g, input, other: split_tie_gradient(g, other < input, input == other),
    latex={"input": r"g\,[a > b]", "other": r"g\,[b > a]"},
)


@elementwise(promotion="promote", dtypes="bif", scalars="")
def minimum(xp: Namespace, input: Array, other: Array) -> Array:
    """The elementwise minimum; where the operands are equal, each gets half of the gradient.

    >>> minimum(tensor([1.0, 5.0]), tensor([3.0, 2.0]))
    tensor([1., 2.])
    """
    return xp.minimum(input, other)


minimum.vjp(
    input=lambda g, input, other: split_tie_gradient(g, input > other, input == other),
    other=lambda g, input, other: split_tie_gradient(g, other > input, input == other),
    latex={"input": r"g\,[a < b]", "other": r"g\,[b < a]"},
)


def split_tie_gradient(g: Any, loses: Any, ties: Any) -> Any:
    """0 where `loses`, ½ g where `ties`, else g. Comparisons with NaN are false, so it gets g."""
    return where(loses, 0.0, where(ties, g * 0.5, g))


@elementwise(promotion="float", dtypes="bif", scalars="")
def atan2(xp: Namespace, input: Array, other: Array) -> Array:
    """The angle of the point (other, input), in radians from -π to π.

    >>> atan2(tensor([1.0]), tensor([1.0]))
    tensor([0.7854])
    """
    return xp.arctan2(input, other)


atan2.vjp(
    input=lambda g, input, other: atan2_gradient(g, other, input, other),
    other=lambda g, input, other: -atan2_gradient(g, input, input, other),
    latex={"input": r"\frac{g\,b}{a^2+b^2}", "other": r"-\frac{g\,a}{a^2+b^2}"},
)


def atan2_gradient(g: Any, side: Any, a: Any, b: Any) -> Any:
    """g · side / (a² + b²), without computing the squares, which may overflow.

    At the origin, where the angle is undefined, the result is 0 rather than 0 / 0.
    """
    radius = hypot(a, b)
    radius = where(radius != 0, radius, 1.0)
    return g * (side / radius) / radius


@elementwise(
    promotion="same",
    dtypes="fc",
    scalars="weight",
    node="LerpBackward1 if weight.__class__ is Tensor else LerpBackward0",
)
def lerp(xp: Namespace, input: Array, end: Array, weight: Array) -> Array:
    """Linear interpolation: y = input + weight · (end - input).

    >>> lerp(tensor([0.0, 10.0]), tensor([10.0, 20.0]), 0.5)
    tensor([ 5., 15.])
    """
    if input.itemsize == 2 and is_half(input.dtype):
        return accumulate_in_float32(lerp.op.forward)(xp, input, end, weight)
    is_near, difference = abs(weight) < 0.5, end - input  # from the nearer end, which rounds less
    if isinstance(is_near, bool) or (not is_near.ndim and xp is backends.CPU.xp):
        return input + weight * difference if is_near else end - difference * (1 - weight)
    return xp.where(is_near, input + weight * difference, end - difference * (1 - weight))


lerp.vjp(
    input=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    weight=lambda g, input, end: g * (end - input),
    latex={"input": r"g\,(1-w)", "end": r"g\,w", "weight": r"g\,(b-a)"},
)


@elementwise(
    promotion="promote",
    dtypes="bif",
    scalars="min max",
    node="ClampBackward0 if Tensor in (min.__class__, max.__class__) else ClampBackward1",
)
def clamp(xp: Namespace, input: Array, min: Array | None = None, max: Array | None = None) -> Array:
    """Clamp elements to [min, max]; those outside become the limit, and their gradient is 0.

    >>> clamp(tensor([-2.0, 0.5, 3.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    if min is None and max is None:
        raise ValueError("at least one of 'min' or 'max' must not be None")
    # One pass instead of two: for large arrays it saves more than the extra checks cost.
    if min is not None and max is not None and input.dtype.kind == "f" and input.size > 1024:
        return xp.clip(input, min, max)
    y = input if min is None else xp.maximum(input, min)
    return y if max is None else xp.minimum(y, max)


clamp.vjp(
    input=lambda g, input, min, max: where(is_within(input, min, max), g, 0.0),
    min=lambda g, input, min, max: where(
        input < min if max is None else (input < min) & (min < max), g, 0.0
    ),
    max=lambda g, input, min, max: where(
        input > max if min is None else (input > max) | (max < min), g, 0.0
    ),
    latex={
        "input": r"g\,[min \le x \le max]",
        "min": r"g\,[x < min]",
        "max": r"g\,[x > max]",
    },
)


def is_within(input: Any, min: Any, max: Any) -> Any:
    """Return a mask of the elements within their limits."""
    if max is None:
        return input >= min
    return input <= max if min is None else (input >= min) & (input <= max)


@elementwise(promotion="promote", dtypes="ifc", scalars="")
def addcmul(
    xp: Namespace, input: Array, tensor1: Array, tensor2: Array, *, value: float = 1
) -> Array:
    """y = input + value · tensor1 · tensor2.

    >>> addcmul(tensor([1.0]), tensor([2.0]), tensor([3.0]), value=0.5)
    tensor([4.])
    """
    if input.itemsize == 2 and is_half(input.dtype):
        return accumulate_in_float32(addcmul.op.forward)(xp, input, tensor1, tensor2, value=value)
    return input + scale_operand(xp, tensor1, value) * tensor2


addcmul.vjp(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * tensor2 * value,
    tensor2=lambda g, tensor1, value: g * tensor1 * value,
    latex={"input": r"g", "tensor1": r"g\,v\,b", "tensor2": r"g\,v\,a"},
)


@elementwise(promotion="promote", dtypes="ifc", scalars="")
def addcdiv(
    xp: Namespace, input: Array, tensor1: Array, tensor2: Array, *, value: float = 1
) -> Array:
    """y = input + value · tensor1 / tensor2, for floating-point dtypes.

    >>> addcdiv(tensor([1.0]), tensor([6.0]), tensor([3.0]), value=0.5)
    tensor([2.])
    """
    if tensor1.dtype.kind in "iub":
        raise DTypeError("addcdiv", "division of integers is not supported", hint="use x.float()")
    if input.itemsize == 2 and is_half(input.dtype):
        return accumulate_in_float32(addcdiv.op.forward)(xp, input, tensor1, tensor2, value=value)
    return input + scale_operand(xp, tensor1, value) / tensor2


addcdiv.vjp(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * value / tensor2,
    tensor2=lambda g, tensor1, tensor2, value: -g * value * (tensor1 / tensor2 / tensor2),
    latex={"input": r"g", "tensor1": r"\frac{g\,v}{b}", "tensor2": r"-\frac{g\,v\,a}{b^2}"},
)


@elementwise(
    promotion="promote",
    dtypes="if",
    scalars="other",
    node="FmodBackward1 if other.__class__ is Tensor else FmodBackward0",
)
def fmod(xp: Namespace, input: Array, other: Array) -> Array:
    """The remainder of the division, with the sign of the dividend: y = a - b · trunc(a / b).

    >>> fmod(tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """
    check_divisor("fmod", xp, input, other)
    return xp.fmod(input, other)


fmod.vjp(
    input=lambda g: g,
    other=lambda g, input, other: -g * div(input, other, rounding_mode="trunc"),
    latex={"input": r"g", "other": r"-g\,\mathrm{trunc}(a/b)"},
)


@elementwise(promotion="promote", dtypes="f", scalars="")
def hypot(xp: Namespace, input: Array, other: Array) -> Array:
    """The hypotenuse: y = √(a² + b²), without overflow.

    >>> hypot(tensor([3.0]), tensor([4.0]))
    tensor([5.])
    """
    return xp.hypot(input, other)


def _hypot_rule(g: Any, y: Any, side: Any, node: Any) -> Any:
    gradient = g * side / where(y != 0, y, math.inf)
    return add_curvature(gradient, g, y, node, side, math.nan)


hypot.vjp(
    input=lambda g, y, input, node: _hypot_rule(g, y, input, node),
    other=lambda g, y, other, node: _hypot_rule(g, y, other, node),
    latex={"input": r"\frac{g\,a}{y}", "other": r"\frac{g\,b}{y}"},
)


# Rules may use any op; those defined in later files are imported last.
from .comparison import where  # noqa: E402
from .lengths import add_curvature  # noqa: E402
from .like import zeros_like  # noqa: E402
