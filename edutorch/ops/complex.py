"""Complex tensors: real and imaginary parts, absolute values, conjugates, conversions.

A gradient here is the g in dL = Re(g · dz): see the head of `core/autograd/engine.py`. The rules
of this file are the few that treat z and its conjugate differently.
"""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..backends.numpy import Array, ArrayOrTensor, Namespace, Number
from ..core.autograd.graph import Node
from ..core.composed import as_method
from ..core.op import elementwise, movement, op
from ..core.tensor import Tensor, array_of
from ..errors import DTypeError
from .creation import ones_like, zeros_like
from .elementwise import add_curvature, sign
from .trigonometry import cos, sin

__all__ = [
    "abs", "angle", "complex", "conj", "conj_physical", "imag", "is_conj", "is_neg", "isreal",
    "polar", "real", "resolve_conj", "resolve_neg", "sgn", "view_as_complex", "view_as_real",
]  # fmt: skip


def has_complex_dtype(value: ArrayOrTensor) -> bool:
    """Return True if a tensor or an array is complex."""
    return array_of(value).dtype.kind == "c"


def complex_dtype_of(name: str, *arrays: Any) -> Any:
    """Return the complex dtype whose real and imaginary parts have the dtype of these arrays.

    Raises: DTypeError: the parts are not both float32 or both float64.
    """
    part_dtypes = {array.dtype for array in arrays}
    if len(part_dtypes) > 1 or not part_dtypes <= {dtypes.float32.numpy, dtypes.float64.numpy}:
        raise DTypeError(
            name, "expected both parts to be float32, or both float64",
            {f"part {number}": str(array.dtype) for number, array in enumerate(arrays)},
            "convert them, for example with .float()",
        )  # fmt: skip
    return dtypes.of(part_dtypes.pop()).to_complex().numpy


@op(promotion="none", out=True)
def complex(xp: Namespace, real: Array, imag: Array) -> Array:
    """The complex tensor with these parts: z = real + i · imag.

    >>> complex(tensor([1.0, 2.0]), tensor([3.0, 4.0]))
    tensor([1.+3.j, 2.+4.j])
    """
    dtype = complex_dtype_of("complex", real, imag)
    parts = xp.stack(xp.broadcast_arrays(real, imag), -1)
    return parts.view(dtype)[..., 0]


complex.vjp(
    real=lambda g: real(g),
    imag=lambda g: -imag(g),
    latex={"real": r"\mathrm{Re}\,g", "imag": r"-\mathrm{Im}\,g"},
)


@op(promotion="none", out=True)
def polar(xp: Namespace, abs: Array, angle: Array) -> Array:
    """The complex tensor with these absolute values and angles: z = abs · e^(i · angle).

    >>> polar(tensor([1.0, 2.0]), tensor([0.0, 0.5]))
    tensor([1.0000+0.0000j, 1.7552+0.9589j])
    """
    dtype = complex_dtype_of("polar", abs, angle)
    parts = xp.stack(xp.broadcast_arrays(abs * xp.cos(angle), abs * xp.sin(angle)), -1)
    return parts.view(dtype)[..., 0]


polar.vjp(
    abs=lambda g, angle: real(g) * cos(angle) - imag(g) * sin(angle),
    angle=lambda g, y: -imag(g * y),
    latex={"abs": r"\mathrm{Re}(g\,e^{i\varphi})", "angle": r"-\mathrm{Im}(g\,z)"},
)


@movement
def real(xp: Namespace, input: Array) -> Array:
    """The real part of a complex tensor, as a view.

    >>> real(complex(tensor([1.0]), tensor([2.0])))
    tensor([1.])
    """
    return xp.real(input) if input.dtype.kind == "c" else input[...]


real.vjp(input=lambda g: g, latex=r"g")


@movement
def imag(xp: Namespace, input: Array) -> Array:
    """The imaginary part of a complex tensor, as a view.

    Raises: DTypeError: the tensor is real.

    >>> imag(complex(tensor([1.0]), tensor([2.0])))
    tensor([2.])
    """
    if input.dtype.kind != "c":
        raise DTypeError(
            "imag", "imag is not implemented for tensors with non-complex dtypes",
            {"input": str(input.dtype)}, "the imaginary part of real numbers is zeros_like(x)",
        )  # fmt: skip
    return xp.imag(input)


imag.vjp(input=lambda g: g * -1j, latex=r"-i\,g")


@elementwise(promotion="none")
def conj_physical(xp: Namespace, input: Array) -> Array:
    """The complex conjugate: the imaginary part changes its sign.

    >>> conj_physical(complex(tensor([1.0]), tensor([2.0])))
    tensor([1.-2.j])
    """
    return xp.conj(input) if input.dtype.kind == "c" else input.copy()


conj_physical.vjp(input=lambda g: conj_physical(g), latex=r"\bar g")


@as_method
def conj(input: Tensor) -> Tensor:
    """The complex conjugate; a real tensor is returned unchanged.

    >>> conj(complex(tensor([1.0]), tensor([2.0])))
    tensor([1.-2.j])
    """
    return conj_physical(input) if has_complex_dtype(input) else input


@elementwise(promotion="none", dtypes="ifc", reference=math.fabs)
def abs(xp: Namespace, input: Array) -> Array:
    """The absolute value: y = |x|. At 0 the derivative is taken as 0.

    >>> abs(tensor([1.5, -2.0]))
    tensor([1.5000, 2.0000])
    """
    return xp.abs(input)


def _abs_rule(g: ArrayOrTensor, input: ArrayOrTensor, node: Node | None) -> Any:
    if not has_complex_dtype(input):
        return add_curvature(g * sign(input), g, input, node, input, 0.0)
    direction, conjugate = conj_physical(sgn(input)), conj_physical(input)
    return add_curvature(g * direction, g, input, node, conjugate, math.nan)


abs.vjp(input=_abs_rule, latex=r"g \cdot \mathrm{sign}(x)")


_write_abs = Tensor.abs_  # type: ignore[attr-defined]


@as_method
def abs_(input: Tensor) -> Tensor:
    """The in-place form of `abs`. Complex tensors are refused: the result is real.

    Raises: DTypeError: the tensor is complex.
    """
    if input.is_complex():
        raise DTypeError(
            "abs_", "in-place abs is not supported for complex tensors",
            {"input": str(input.dtype)}, "the distances are real: x = x.abs()",
        )  # fmt: skip
    return _write_abs(input)


abs.in_place = abs_  # type: ignore[attr-defined]


@elementwise(promotion="none")
def sgn(xp: Namespace, input: Array) -> Array:
    """The complex sign: z / |z|, for real elements the sign, and 0 at 0.

    >>> sgn(tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """
    if input.dtype.kind != "c":
        return sign.op.forward(xp, input)
    size = xp.abs(input)
    return input / xp.where(size == 0, xp.ones_like(size), size)


def _sgn_rule(g: ArrayOrTensor, input: ArrayOrTensor, y: ArrayOrTensor) -> Any:
    if not has_complex_dtype(input):
        return zeros_like(g)
    size = abs(input)
    size = size + (size == 0)
    return (y != 0) * (g - real(g * y) * conj_physical(y)) / size


sgn.vjp(input=_sgn_rule, latex=r"\frac{g - \mathrm{Re}(g\,y)\,\bar y}{|z|}")


@elementwise
def angle(xp: Namespace, input: Array) -> Array:
    """The angle of each element in radians, from the positive real axis.

    It is π for negative real elements, 0 for positive ones.

    >>> angle(complex(tensor([1.0, 0.0]), tensor([1.0, 2.0])))
    tensor([0.7854, 1.5708])
    """
    if input.dtype.kind == "c":
        return xp.angle(input)
    angles = xp.where(input < 0, xp.full_like(input, xp.pi), xp.zeros_like(input))
    return xp.where(xp.isnan(input), input, angles)


def _angle_rule(g: ArrayOrTensor, input: ArrayOrTensor) -> Any:
    if not has_complex_dtype(input):
        return zeros_like(g)
    size = abs(input)
    size = size + (size == 0)
    return g * -1j * (conj_physical(input) / size) / size


angle.vjp(input=_angle_rule, latex=r"-\frac{i\,g}{z}")


@movement
def view_as_real(xp: Namespace, input: Array) -> Array:
    """A complex tensor viewed as pairs (real, imaginary) along a new last axis.

    Raises: DTypeError: the tensor is real.

    >>> view_as_real(complex(tensor([1.0]), tensor([2.0])))
    tensor([[1., 2.]])
    """
    if input.dtype.kind != "c":
        raise DTypeError("view_as_real", "expected a complex tensor", {"input": str(input.dtype)})
    return input[..., None].view(dtypes.of(input.dtype).to_real().numpy)


view_as_real.vjp(
    input=lambda g: (
        complex(g[..., 0], -g[..., 1]) if isinstance(g, Tensor) else complex_from_pairs(g)
    ),
    latex=r"g_0 - i\,g_1",
)


def complex_from_pairs(g: ArrayOrTensor) -> Any:
    """The gradient of `view_as_real` for arrays: g₀ - i g₁."""
    return g[..., 0] - 1j * g[..., 1]


@movement
def view_as_complex(xp: Namespace, input: Array) -> Array:
    """Pairs (real, imaginary) along the last axis viewed as complex elements.

    Raises: DTypeError, ShapeError: not floating-point, or the last axis is not of size 2.

    >>> view_as_complex(tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    dtype = complex_dtype_of("view_as_complex", input)
    if not input.ndim or input.shape[-1] != 2 or input.strides[-1] != input.itemsize:
        raise ValueError(
            "the last axis must hold two numbers that lie next to each other in memory"
        )
    return input.view(dtype)[..., 0]


view_as_complex.vjp(
    input=lambda g: view_as_real(conj_physical(g)), latex=r"(\mathrm{Re}\,g, -\mathrm{Im}\,g)"
)


@as_method
def isreal(input: Tensor) -> Tensor:
    """Whether the imaginary part of each element is 0.

    >>> isreal(complex(tensor([1.0, 1.0]), tensor([0.0, 2.0])))
    tensor([ True, False])
    """
    return imag(input) == 0 if has_complex_dtype(input) else ones_like(input, dtype=dtypes.bool)


@as_method
def is_conj(input: Tensor) -> bool:
    """Return False: conjugation is computed eagerly here, never deferred.

    >>> is_conj(tensor([1.0]))
    False
    """
    return False


@as_method
def is_neg(input: Tensor) -> bool:
    """Return False: negation is computed eagerly here, never deferred.

    >>> is_neg(tensor([1.0]))
    False
    """
    return False


@as_method
def resolve_conj(input: Tensor) -> Tensor:
    """Return the tensor itself: conjugation is computed eagerly here.

    >>> resolve_conj(tensor([1.0]))
    tensor([1.])
    """
    return input


@as_method
def resolve_neg(input: Tensor) -> Tensor:
    """Return the tensor itself: negation is computed eagerly here.

    >>> resolve_neg(tensor([1.0]))
    tensor([1.])
    """
    return input


def make_part_property(name: str, get_part: Any) -> property:
    """Make the property `z.real` or `z.imag`, which reads a view and writes into it."""

    def write(self: Tensor, value: Tensor | Number) -> None:
        get_part(self)[...] = value

    return property(
        get_part, write, doc=f"The {name} part, a view; writing to it changes the tensor."
    )


Tensor.real = make_part_property("real", real)  # type: ignore[attr-defined]
Tensor.imag = make_part_property("imaginary", imag)  # type: ignore[attr-defined]
