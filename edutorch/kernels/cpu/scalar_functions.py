"""The curves of the activations and their slopes, each for one number, as kernels compute them.

A slope that the definition makes of a dozen operations shares here what the parts have in common:
that of gelu takes one exponential instead of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numba.extending import register_jitable

from .vector_math import CONTRACTED, Kind, exp, exp_below, log1p_small, mathematical, tail, tanh

__all__ = [
    "between", "elu", "expm1_below", "gelu", "gelu_slope", "gelu_tanh", "gelu_tanh_slope",
    "inside", "itself", "leaky", "relu", "sigmoid", "sigmoid_slope", "silu",
    "silu_slope", "softplus", "tanh_slope", "through_elu", "through_leaky", "through_relu",
]  # fmt: skip


@mathematical
def itself(kind: Kind) -> Callable[..., Any]:
    """y: the slope of exp, by its result."""
    return lambda y: y


@mathematical
def tanh_slope(kind: Kind) -> Callable[..., Any]:
    """1 - y²: the slope of tanh, by its result."""
    one = kind.number(1)
    return lambda y: one - y * y


@mathematical
def sigmoid(kind: Kind) -> Callable[..., Any]:
    """1 / (1 + e⁻ˣ)."""
    one = kind.number(1)
    return lambda x: one / (one + exp(-x))


@mathematical
def sigmoid_slope(kind: Kind) -> Callable[..., Any]:
    """y - y²: the slope of sigmoid, by its result."""
    return lambda y: y - y * y


@mathematical
def relu(kind: Kind) -> Callable[..., Any]:
    """max(x, 0), with NaN for NaN."""
    zero = kind.number(0)
    return lambda x: zero if x < zero else x + zero  # + 0: there is no -0 in a maximum with 0


@mathematical
def silu(kind: Kind) -> Callable[..., Any]:
    """x · σ(x)."""
    one = kind.number(1)
    return lambda x: x / (one + exp(-x))


@mathematical
def silu_slope(kind: Kind) -> Callable[..., Any]:
    """σ(x) · (1 + x · (1 - σ(x)))."""
    one = kind.number(1)

    def silu_slope(x):
        s = one / (one + exp(-x))
        return s * (one + x * (one - s))

    return silu_slope


@mathematical
def softplus(kind: Kind) -> Callable[..., Any]:
    """log(1 + eˣ) = max(x, 0) + log(1 + e^-|x|)."""
    zero = kind.number(0)
    return lambda x: (x if x > zero else zero) + log1p_small(exp_below(-abs(x)))


@mathematical
def gelu(kind: Kind) -> Callable[..., Any]:
    """x · Φ(x), with Φ(x) = ½ · exp(-x²/2) · erfcx(-x/√2) for x ≤ 0."""
    half, one, root, zero = kind.row((0.5, 1, 0.5**0.5, 0))

    def gelu(x):
        part = half * exp_below(-half * (x * x)) * tail(root * abs(x))
        return x * (one - part if x > zero else part)

    return gelu


@mathematical
def gelu_slope(kind: Kind) -> Callable[..., Any]:
    """Φ(x) + x · φ(x): both of one exponential."""
    half, one, root, zero, density = kind.row((0.5, 1, 0.5**0.5, 0, 1 / math.sqrt(2 * math.pi)))

    def gelu_slope(x):
        bell = exp_below(-half * (x * x))
        part = half * bell * tail(root * abs(x))
        return (one - part if x > zero else part) + x * (density * bell)

    return gelu_slope


@mathematical
def gelu_tanh(kind: Kind) -> Callable[..., Any]:
    """x · (½ + ½ · tanh(√(2/π) · (x + 0.044715 · x³)))."""
    half, outer, cubic = kind.row((0.5, math.sqrt(2 / math.pi), 0.044715))
    return lambda x: x * (half + half * tanh(outer * (x + cubic * (x * x * x))))


@mathematical
def gelu_tanh_slope(kind: Kind) -> Callable[..., Any]:
    """½ · (1 + t) + ½ · x · (1 - t²) · √(2/π) · (1 + 3 · 0.044715 · x²), t being the tanh."""
    half, one, outer, cubic = kind.row((0.5, 1, math.sqrt(2 / math.pi), 0.044715))
    inner = kind.number(3 * 0.044715)

    def gelu_tanh_slope(x):
        t = tanh(outer * (x + cubic * (x * x * x)))
        steep = outer * (one + inner * (x * x))
        return half * (one + t) + half * x * (one - t * t) * steep

    return gelu_tanh_slope


# With settings a and b, of which one may mean nothing ---------------------------------------------
# (As functions that every process knows by their name: see `arithmetic.py`.)


@mathematical
def expm1_below(kind: Kind) -> Callable[..., Any]:
    """eˣ - 1 for x ≤ 0: 2 t / (1 - t), with t = tanh(x/2), which loses nothing near 0."""
    half, one = kind.row((0.5, 1))

    def expm1_below(x):
        t = tanh(half * x)
        return (t + t) / (one - t)

    return expm1_below


@register_jitable(**CONTRACTED)
def through_relu(g, y, a, b):
    """The gradient that comes through: an infinite one, too, is 0 where the unit is off."""
    return 0.0 if y == 0 else g


@register_jitable(**CONTRACTED)
def leaky(x, a, b):
    """x, or a · x below 0."""
    return x if x > 0 else a * x


@register_jitable(**CONTRACTED)
def through_leaky(g, x, a, b):
    """The gradient that comes through."""
    return g if x > 0 else a * g


@register_jitable(**CONTRACTED)
def elu(x, a, b):
    """x, or a · (eˣ - 1) below 0."""
    return x if x > 0 else a * expm1_below(x)


@register_jitable(**CONTRACTED)
def through_elu(g, x, a, b):
    """The gradient that comes through."""
    return g if x > 0 else g * (a * exp_below(x))


@register_jitable(**CONTRACTED)
def between(x, a, b):
    """x, but not less than a nor more than b."""
    return a if x < a else b if x > b else x


@register_jitable(**CONTRACTED)
def inside(g, x, a, b):
    """The gradient that comes through: none on a limit."""
    return g if a < x < b else 0.0
