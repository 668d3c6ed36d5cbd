"""logaddexp, logaddexp2, rsub and float_power."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core.autograd.node_names import recorded_as
from ..core.op import elementwise
from ..core.out_variants import takes_out, with_twin
from ..core.precision import is_half, widen
from ..core.tensor import Tensor
from ..core.tensor_methods import as_method
from ..errors import ArgumentError, DTypeError


@elementwise(promotion="promote", dtypes="fc", scalars="")
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


def log_difference(first: Any, second: Any) -> Any:
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


@recorded_as(lambda input, other, **_: f"RsubBackward{int(not isinstance(other, Tensor))}")
def rsub(input: Tensor, other: Any, *, alpha: float = 1) -> Tensor:
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


@as_method
@with_twin
@takes_out
def float_power(input: Any, exponent: Any) -> Tensor:
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


def double_dtype(input: Any, exponent: Any) -> dtypes.dtype:
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
def float_power_(input: Tensor, exponent: Any) -> Tensor:
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


from .arithmetic import add, mul, sub  # noqa: E402  (rules may use any op)
from .comparison import where  # noqa: E402
from .elementwise import exp, exp2  # noqa: E402
from .powers import pow  # noqa: E402
from .sorting import refuse_bools  # noqa: E402
