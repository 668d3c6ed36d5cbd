"""Elementwise arithmetic on two tensors, or on a tensor and a Python scalar, and powers.

Operands broadcast: sizes must match from the last axis backwards, and an axis of size 1
(or a missing axis) is expanded. The engine sums each gradient over the expanded axes, so
the rules here need not.
"""

from __future__ import annotations

import cmath
import math
import operator
from typing import Any

from numpy import ndarray

from .. import backends, dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number
from ..core.autograd.graph import Node
from ..core.composed import as_method, recorded_as, takes_out, with_twin
from ..core.error_messages import is_any_true
from ..core.op import elementwise
from ..core.precision import accumulate_in_float32, is_half, widen
from ..core.tensor import Tensor
from ..errors import ArgumentError, DTypeError, ZeroDivisorError
from .comparison import logical_or, refuse_bools, where
from .complex import has_complex_dtype
from .conversion import cast_to_dtype_of
from .creation import zeros_like
from .elementwise import add_curvature, exp, exp2, log

__all__ = [
    "add", "addcdiv", "addcmul", "atan2", "div", "float_power", "floor_divide", "fmod", "gcd",
    "hypot", "lcm", "lerp", "logaddexp", "logaddexp2", "mul", "pow", "remainder", "rsub", "sub",
]  # fmt: skip


@elementwise(promotion="promote", reference=operator.add)
def add(xp: Namespace, input: Array, other: Array, *, alpha: float = 1) -> Array:
    """The sum: y = input + alpha · other.

    >>> add(tensor([1.0, 2.0]), 10)
    tensor([11., 12.])
    """
    return input + other if alpha == 1 else add_scaled(xp, input, other, alpha)


def add_scaled(xp: Namespace, input: ArrayOrTensor, other: ArrayOrTensor, alpha: float) -> Any:
    """input + alpha · other; 16-bit floats are rounded once, as PyTorch does."""
    if getattr(input, "itemsize", 0) == 2 and is_half(input.dtype):
        return accumulate_in_float32(add_scaled)(xp, input, other, alpha)
    return input + scale_operand(xp, other, alpha)


def scale_operand(xp: Namespace, other: ArrayOrTensor, alpha: float) -> Any:
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


@elementwise(promotion="promote", dtypes="ifc", reference=operator.sub)
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


@recorded_as(lambda input, other, **_: f"RsubBackward{int(not isinstance(other, Tensor))}")
def rsub(input: Tensor, other: Tensor | Number, *, alpha: float = 1) -> Tensor:
    """The difference with exchanged operands: y = other - alpha · input.

    >>> rsub(tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    refuse_bools("rsub", input)
    if isinstance(other, Tensor):
        return sub(other, input, alpha=alpha)
    promoted = input.to(dtypes.result_type(input, other))  # uint8 has no -1
    y = add(mul(widen(promoted), -alpha), other)
    return y.to(promoted.dtype) if is_half(promoted.dtype) else y


@elementwise(promotion="promote", reference=operator.mul)
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


@elementwise(
    promotion=_division_promotion,
    node="DivBackward2 if rounding_mode else DivBackward0",
    reference=operator.truediv,
)
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


@elementwise(promotion="promote", dtypes="if", reference=operator.floordiv)
def floor_divide(xp: Namespace, input: Array, other: Array) -> Array:
    """The quotient rounded down: y = ⌊input / other⌋.

    >>> floor_divide(tensor([7.0, -7.0]), 2)
    tensor([ 3., -4.])
    """
    check_divisor("floor_divide", xp, input, other)
    return xp.floor_divide(input, other)


def check_divisor(name: str, xp: Namespace, input: ArrayOrTensor, other: ArrayOrTensor) -> None:
    """Raise ZeroDivisorError for an integer division by 0: integers cannot represent inf."""
    dtype_kind = input.dtype.kind if hasattr(input, "dtype") else other.dtype.kind
    if dtype_kind in "iub" and getattr(input, "size", 1) and is_any_true(xp.equal(other, 0)):
        raise ZeroDivisorError(name, "integer division by zero", hint="use / for inf, or x.float()")


@elementwise(
    promotion="promote",
    dtypes="if",
    node="RemainderBackward1 if other.__class__ is Tensor else RemainderBackward0",
    reference=operator.mod,
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


@elementwise(promotion="float", dtypes="bif", scalars="", reference=math.atan2)
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


def atan2_gradient(
    g: ArrayOrTensor, side: ArrayOrTensor, a: ArrayOrTensor, b: ArrayOrTensor
) -> Any:
    """g · side / (a² + b²), without computing the squares, which may overflow.

    At the origin, where the angle is undefined, the result is 0 rather than 0 / 0.
    """
    radius = hypot(a, b)
    radius = where(radius != 0, radius, 1.0)
    return g * (side / radius) / radius


@elementwise(
    promotion="same", dtypes="fc", scalars="weight",
    node="LerpBackward1 if weight.__class__ is Tensor else LerpBackward0",
    reference=lambda a, b, weight: a + weight * (b - a),
)  # fmt: skip
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


@elementwise(promotion="promote", dtypes="ifc", scalars="", reference=lambda a, b, c: a + b * c)
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


@elementwise(promotion="promote", dtypes="ifc", scalars="", reference=lambda a, b, c: a + b / c)
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
    promotion="promote", dtypes="if", scalars="other",
    node="FmodBackward1 if other.__class__ is Tensor else FmodBackward0", reference=math.fmod,
)  # fmt: skip
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


@elementwise(promotion="promote", dtypes="f", scalars="", reference=math.hypot)
def hypot(xp: Namespace, input: Array, other: Array) -> Array:
    """The hypotenuse: y = √(a² + b²), without overflow.

    >>> hypot(tensor([3.0]), tensor([4.0]))
    tensor([5.])
    """
    return xp.hypot(input, other)


def _hypot_rule(g: ArrayOrTensor, y: ArrayOrTensor, side: ArrayOrTensor, node: Node | None) -> Any:
    gradient = g * side / where(y != 0, y, math.inf)
    return add_curvature(gradient, g, y, node, side, math.nan)


hypot.vjp(
    input=lambda g, y, input, node: _hypot_rule(g, y, input, node),
    other=lambda g, y, other, node: _hypot_rule(g, y, other, node),
    latex={"input": r"\frac{g\,a}{y}", "other": r"\frac{g\,b}{y}"},
)


# Rules may use any op; those defined in later files are imported last.


# Sums of exponentials ------------------------------------------------------------------------


@elementwise(
    promotion="promote", dtypes="fc", scalars="",
    reference=lambda a, b: math.log(math.exp(a) + math.exp(b)),
)  # fmt: skip
def logaddexp(xp: Namespace, input: Array, other: Array) -> Array:
    """y = log(exp(a) + exp(b)), without overflow.

    Of two -∞ it is -∞, with a gradient of 0. (PyTorch's is NaN.)

    >>> logaddexp(tensor([100.0]), tensor([100.0]))
    tensor([100.6931])
    """
    if input.dtype.kind != "c":
        return xp.logaddexp(input, other)
    is_first = xp.real(input) >= xp.real(other)
    larger, smaller = xp.where(is_first, input, other), xp.where(is_first, other, input)
    are_neg_inf = xp.real(larger) == -math.inf  # both are -∞
    return larger + xp.log(1 + xp.exp(xp.where(are_neg_inf, 0, smaller - larger)))


logaddexp.vjp(
    input=lambda g, input, other: g / (1 + exp(log_difference(other, input))),
    other=lambda g, input, other: g / (1 + exp(log_difference(input, other))),
    latex={"input": r"g\,e^{a-y}", "other": r"g\,e^{b-y}"},
)


def log_difference(first: ArrayOrTensor, second: ArrayOrTensor) -> Any:
    """first - second; ∞ for two -∞, so that their gradient is 0."""
    are_neg_inf = (first == -math.inf) & (second == -math.inf)
    return where(are_neg_inf, math.inf, first - second)


@elementwise(promotion="promote", dtypes="f", scalars="")
def logaddexp2(xp: Namespace, input: Array, other: Array) -> Array:
    """y = log₂(2^a + 2^b), without overflow.

    Of two -∞ it is -∞, with a gradient of 0. (PyTorch's is NaN.)

    >>> logaddexp2(tensor([100.0]), tensor([100.0]))
    tensor([101.])
    """
    return xp.logaddexp2(input, other)


logaddexp2.vjp(
    input=lambda g, input, other: g / (1 + exp2(log_difference(other, input))),
    other=lambda g, input, other: g / (1 + exp2(log_difference(input, other))),
    latex={"input": r"g\,2^{a-y}", "other": r"g\,2^{b-y}"},
)


# Powers --------------------------------------------------------------------------------------


@elementwise(
    promotion="promote",
    node="PowBackward0 if exponent.__class__ is not Tensor else "
    "PowBackward1 if input.__class__ is Tensor else PowBackward2",
    reference=math.pow,
)
def pow(xp: Namespace, input: Array, exponent: Array) -> Array:
    """The power: y = input ** exponent.

    Integers to the power of a tensor of integers stay integers, truncated towards 0.

    >>> pow(tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    """
    simple = fast_power(xp, input, exponent)
    if simple is not None:
        return simple(input)
    try:
        y = input**exponent
    except (ValueError, OverflowError) as error:  # uint8 cannot represent -1
        if not hasattr(exponent, "shape") and exponent < 0:
            raise DTypeError(
                "pow", "Integers to negative integer powers are not allowed", hint="use x.float()"
            ) from None
        if "negative integer powers" not in str(error):
            raise
        y = truncated_power(xp, input, exponent)
    bools = y.dtype.kind == "i" and getattr(input, "dtype", y.dtype).kind == "b"
    return y.astype(bool) if bools else y


def truncated_power(xp: Namespace, input: ArrayOrTensor, exponent: Array) -> Array:
    """Integer powers with exponents that may be negative: 2⁻¹ is truncated to 0, (-1)⁻³ is -1."""
    return input ** xp.abs(exponent) * ((exponent >= 0) | (xp.abs(input) == 1))


def fast_power(xp: Namespace, input: ArrayOrTensor, exponent: ArrayOrTensor) -> Any:
    """Return a ten times faster function for x³ or √x; None for other powers."""
    if exponent.__class__ is ndarray and not exponent.ndim:
        exponent = exponent.item()
    if exponent.__class__ not in (int, float) or getattr(input, "dtype", None) is None:
        return None
    if input.dtype.kind != "f":
        return None
    return cube if exponent == 3 else xp.sqrt if exponent == 0.5 else None


def cube(x: Array) -> Array:
    """x³."""
    return x * x * x


pow.vjp(
    input=lambda g, input, exponent: g * power_derivative(input, exponent),
    exponent=lambda g, y, input, exponent: g * exponent_derivative(input, exponent, y),
    latex={"input": r"g \cdot n\,x^{n-1}", "exponent": r"g \cdot y \ln x"},
)


def power_derivative(input: ArrayOrTensor, exponent: ArrayOrTensor) -> Any:
    """d(input ** exponent)/d(input), which is 0 (not 0 · ∞) where the exponent is 0."""
    if not hasattr(exponent, "shape"):
        return exponent * input ** (exponent - 1) if exponent else zeros_like(input)
    return where(exponent != 0, exponent * input ** (exponent - 1), 0.0)


def exponent_derivative(input: ArrayOrTensor, exponent: ArrayOrTensor, y: ArrayOrTensor) -> Any:
    """d(input ** exponent)/d(exponent) = y · log(input), and 0 where input is 0."""
    if not hasattr(input, "shape"):
        if not input:
            return zeros_like(y)
        if has_complex_dtype(y):
            return y * cmath.log(input)
        return y * (math.log(input) if input > 0 else math.nan)
    input = cast_to_dtype_of(input, y)
    is_regular = logical_or(input != 0, exponent.real < 0)
    return where(is_regular, y * log(where(is_regular, input, 1.0)), 0.0)


@as_method
@with_twin
@takes_out
def float_power(input: Tensor | Number, exponent: Tensor | Number) -> Tensor:
    """The power, always computed in double precision: y = input ** exponent.

    >>> float_power(tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    dtype = double_dtype(input, exponent)
    input, exponent = (
        operand.to(dtype) if isinstance(operand, Tensor) else operand
        for operand in (input, exponent)
    )
    return pow(input, exponent)


def double_dtype(input: Tensor | Number, exponent: Tensor | Number) -> dtypes.dtype:
    """Return the dtype that `float_power` computes in: float64 or complex128."""
    tensors = [operand for operand in (input, exponent) if isinstance(operand, Tensor)]
    if not tensors:
        raise ArgumentError("float_power", "expected a Tensor, got two numbers")
    is_complex = any(isinstance(operand, complex) for operand in (input, exponent))
    if is_complex or any(tensor.is_complex() for tensor in tensors):
        return dtypes.complex128
    return dtypes.float64


_write_power = Tensor.float_power_  # type: ignore[attr-defined]


@as_method
def float_power_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """The in-place form of `float_power`, for tensors of double precision.

    Raises: DTypeError: the tensor cannot hold the result.
    """
    dtype = double_dtype(input, exponent)
    if input.dtype is not dtype:
        raise DTypeError(
            "float_power_", f"the result is {dtype}, and the tensor is {input.dtype}",
            hint="use x = x.float_power(exponent)",
        )  # fmt: skip
    return _write_power(input, exponent)


# Integers ------------------------------------------------------------------------------------


@elementwise(promotion="promote", dtypes="i", scalars="")
def gcd(xp: Namespace, input: Array, other: Array) -> Array:
    """The greatest common divisor, 0 for two zeros.

    >>> gcd(tensor([12, 5]), tensor([18, 0]))
    tensor([6, 5])
    """
    return xp.gcd(input, other)


@elementwise(promotion="promote", dtypes="i", scalars="")
def lcm(xp: Namespace, input: Array, other: Array) -> Array:
    """The least common multiple, 0 if one is 0.

    >>> lcm(tensor([4, 5]), tensor([6, 0]))
    tensor([12,  0])
    """
    return xp.lcm(input, other)
