"""Trigonometric and hyperbolic functions. Angles are in radians."""

from __future__ import annotations

import math

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from .elementwise import rsqrt

__all__ = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "deg2rad", "rad2deg", "sin",
    "sinh", "tan", "tanh",
]  # fmt: skip


@elementwise(reference=math.sin)
def sin(xp: Namespace, input: Array) -> Array:
    """The sine of an angle in radians.

    >>> sin(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8415])
    """
    return xp.sin(input)


sin.vjp(input=lambda g, input: g * cos(input), latex=r"g \cos x")


@elementwise(reference=math.cos)
def cos(xp: Namespace, input: Array) -> Array:
    """The cosine of an angle in radians.

    >>> cos(tensor([0.0, 1.0]))
    tensor([1.0000, 0.5403])
    """
    return xp.cos(input)


cos.vjp(input=lambda g, input: -g * sin(input), latex=r"-g \sin x")


@elementwise(sample=(-1.2, 1.2), reference=math.tan)
def tan(xp: Namespace, input: Array) -> Array:
    """The tangent of an angle in radians.

    >>> tan(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5574])
    """
    return xp.tan(input)


tan.vjp(input=lambda g, y: g * (1 + y * y), latex=r"g\,(1+y^2)")


@elementwise(sample=(-0.9, 0.9), reference=math.asin)
def asin(xp: Namespace, input: Array) -> Array:
    """The inverse sine, from -π/2 to π/2.

    >>> asin(tensor([0.0, 1.0]))
    tensor([0.0000, 1.5708])
    """
    return xp.arcsin(input)


asin.vjp(input=lambda g, input: g * rsqrt(1 - input * input), latex=r"\frac{g}{\sqrt{1-x^2}}")


@elementwise(sample=(-0.9, 0.9), reference=math.acos)
def acos(xp: Namespace, input: Array) -> Array:
    """The inverse cosine, from 0 to π.

    >>> acos(tensor([1.0, 0.0]))
    tensor([0.0000, 1.5708])
    """
    return xp.arccos(input)


acos.vjp(input=lambda g, input: -g * rsqrt(1 - input * input), latex=r"-\frac{g}{\sqrt{1-x^2}}")


@elementwise(reference=math.atan)
def atan(xp: Namespace, input: Array) -> Array:
    """The inverse tangent, from -π/2 to π/2.

    >>> atan(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7854])
    """
    return xp.arctan(input)


atan.vjp(input=lambda g, input: g / (1 + input * input), latex=r"\frac{g}{1+x^2}")


@elementwise(reference=math.tanh)
def tanh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic tangent, from -1 to 1: y = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ).

    >>> tanh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """
    return xp.tanh(input)


tanh.vjp(input=lambda g, y: g * (1 - y * y), latex=r"g\,(1-y^2)")


@elementwise(reference=math.sinh)
def sinh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic sine: y = (eˣ - e⁻ˣ) / 2.

    >>> sinh(tensor([0.0, 1.0]))
    tensor([0.0000, 1.1752])
    """
    return xp.sinh(input)


sinh.vjp(input=lambda g, input: g * cosh(input), latex=r"g \cosh x")


@elementwise(reference=math.cosh)
def cosh(xp: Namespace, input: Array) -> Array:
    """The hyperbolic cosine: y = (eˣ + e⁻ˣ) / 2.

    >>> cosh(tensor([0.0, 1.0]))
    tensor([1.0000, 1.5431])
    """
    return xp.cosh(input)


cosh.vjp(input=lambda g, input: g * sinh(input), latex=r"g \sinh x")


@elementwise(reference=math.asinh)
def asinh(xp: Namespace, input: Array) -> Array:
    """The inverse hyperbolic sine.

    >>> asinh(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8814])
    """
    return xp.arcsinh(input)


asinh.vjp(input=lambda g, input: g * rsqrt(input * input + 1), latex=r"\frac{g}{\sqrt{x^2+1}}")


@elementwise(sample=(1.1, 3.0), reference=math.acosh)
def acosh(xp: Namespace, input: Array) -> Array:
    """The inverse hyperbolic cosine, not negative; NaN below 1.

    >>> acosh(tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """
    return xp.arccosh(input)


# Two roots, not the root of the product: for complex x only they have the right branch.
# (And not x + 1, which would lose the sign of an imaginary part of -0.)
acosh.vjp(
    input=lambda g, input: g * rsqrt(input - 1) * rsqrt(input - (-1)),
    latex=r"\frac{g}{\sqrt{x-1}\sqrt{x+1}}",
)


@elementwise(sample=(-0.9, 0.9), reference=math.atanh)
def atanh(xp: Namespace, input: Array) -> Array:
    """The inverse hyperbolic tangent.

    >>> atanh(tensor([0.0, 0.5]))
    tensor([0.0000, 0.5493])
    """
    return xp.arctanh(input)


atanh.vjp(input=lambda g, input: g / (1 - input * input), latex=r"\frac{g}{1-x^2}")


@elementwise(dtypes="bif", node="Deg2RadBackward0", reference=math.radians)
def deg2rad(xp: Namespace, input: Array) -> Array:
    """Degrees as radians: y = π x / 180.

    >>> deg2rad(tensor([180.0]))
    tensor([3.1416])
    """
    return input * (math.pi / 180)


deg2rad.vjp(input=lambda g: g * (math.pi / 180), latex=r"\tfrac{\pi}{180}\,g")


@elementwise(dtypes="bif", node="Rad2DegBackward0", reference=math.degrees)
def rad2deg(xp: Namespace, input: Array) -> Array:
    """Radians as degrees: y = 180 x / π.

    >>> rad2deg(tensor([math.pi]))
    tensor([180.])
    """
    return input * (180 / math.pi)


rad2deg.vjp(input=lambda g: g * (180 / math.pi), latex=r"\tfrac{180}{\pi}\,g")
