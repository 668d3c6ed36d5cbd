"""The parts of floating-point values: sign, mantissa, exponent, neighbours."""

from __future__ import annotations

import math

from .. import dtypes
from ..backends.numpy import Array, Namespace
from ..core import return_types
from ..core.composed import as_method, recorded_as, takes_out, with_twin
from ..core.error_messages import need_tensor
from ..core.op import elementwise, op
from ..core.tensor import Tensor
from ..dtypes import finfo, of
from .arithmetic import pow
from .comparison import isfinite, where
from .creation import zeros_like
from .elementwise import exp2, floor, sign
from .minmax import clamp

__all__ = ["copysign", "frexp", "ldexp", "nan_to_num", "nextafter"]


@elementwise(promotion="none")
def nan_to_num(
    xp: Namespace, input: Array, nan: float = 0.0, posinf: float | None = None,
    neginf: float | None = None,
) -> Array:  # fmt: skip
    """Replace NaN by `nan`, and infinities by finite values (by default the dtype's limits).

    >>> nan_to_num(tensor([math.nan, 1.0]))
    tensor([0., 1.])
    """
    if input.dtype.kind in "iub":
        return input.copy()
    limits = finfo(of(input.dtype))
    y = xp.where(xp.isnan(input), xp.asarray(nan).astype(input.dtype), input)
    for infinity, finite, limit in (
        (math.inf, posinf, limits.max),
        (-math.inf, neginf, limits.min),
    ):
        finite = xp.asarray(limit if finite is None else finite).astype(input.dtype)
        y = xp.where(xp.equal(input, infinity), finite, y)
    return y


nan_to_num.vjp(input=lambda g, input: where(isfinite(input), g, 0.0), latex=r"g\,[x\ finite]")


@elementwise(
    dtypes="bif",
    scalars="other",
    node="CopysignBackward0 if other.__class__ is Tensor else CopysignBackward1",
)
def copysign(xp: Namespace, input: Array, other: Array) -> Array:
    """The magnitude of `input` with the sign of `other` (-0.0 is negative).

    >>> copysign(tensor([1.0, -2.0]), tensor([-0.0, 5.0]))
    tensor([-1.,  2.])
    """
    return xp.copysign(input, other)


copysign.vjp(
    input=lambda g, y, input: g * (sign(input) * sign(y)),
    other=lambda g: zeros_like(g),
    latex={"input": r"g\,\mathrm{sign}(a)\,\mathrm{sign}(b)", "other": r"0"},
)


@elementwise(promotion="promote", dtypes="f", scalars="")
def nextafter(xp: Namespace, input: Array, other: Array) -> Array:
    """The next representable value after `input` in the direction of `other`.

    >>> nextafter(tensor([1.0]), tensor([2.0])) - 1 == finfo(float32).eps
    tensor([True])
    """
    return xp.nextafter(input, other)


nextafter.vjp(
    input=lambda g, input, other: where(input != other, g, 0.0),
    other=lambda g: zeros_like(g),
    latex={"input": r"g\,[x \ne z]", "other": "0"},
)


@op(outputs=("mantissa", "exponent"), method=False, dtypes="f", public="frexp")
def frexp_forward(xp: Namespace, input: Array) -> tuple[Array, Array]:
    """Mantissa and exponent of each element: see `frexp`."""
    mantissa, exponent = xp.frexp(input)
    return mantissa, exponent.astype("int32")


frexp_forward.vjp(input=lambda g, exponent: g / exp2(exponent), latex=r"g\,2^{-\mathrm{exponent}}")


@as_method
@takes_out
def frexp(input: Tensor) -> return_types.frexp:
    """Mantissa and exponent: input = mantissa · 2^exponent, ½ ≤ |mantissa| < 1.

    >>> frexp(tensor([6.0, -0.5])).exponent
    tensor([3, 0], dtype=torch.int32)
    """
    return return_types.frexp(*frexp_forward(input))


@as_method
@with_twin
@takes_out
@recorded_as("LdexpBackward0")
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """The value with the given mantissa and exponent: y = input · 2^other.

    Computed in float64 in two steps: 2^other alone may overflow where the product does not.

    >>> ldexp(tensor([0.75]), tensor([3]))
    tensor([6.])
    """
    need_tensor("ldexp", "input", input)
    need_tensor("ldexp", "other", other)
    dtype = dtypes.result_type(input, other)
    dtype = dtypes.get_default_dtype() if dtype.category < 2 else dtype
    if other.is_complex():
        return input * pow(2.0, other)
    exponent = other.double()
    half = floor(clamp(exponent.detach() * 0.5, -1100, 1100))  # ∞ cannot be halved
    wide_input = input.to(dtypes.complex128 if dtype.is_complex else dtypes.float64)
    return (wide_input * pow(2.0, half) * pow(2.0, exponent - half)).to(dtype)
