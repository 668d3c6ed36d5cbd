"""The error function, which array libraries leave out.

Its values come from the C library's `erfc` at a few points; between them they are
interpolated by polynomials (Chebyshev's), here of a function that is smooth and
flat: erfc(x) · exp(x²) over t = (x - 2) / (x + 2), which turns 0 … ∞ into -1 … 1.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ...backends.numpy import Array
from ...ops import exp
from .layer import activation

SMALL = 0.5
LARGE = 6.0  # from here on the result is 1 in every type


@functools.cache
def tail_coefficients(degree: int) -> list[float]:
    """Return the Chebyshev coefficients of erfc(x) · exp(x²) over t."""

    def scaled(t: float) -> float:
        x = 2 * (1 + t) / (1 - t)
        return math.erfc(x) * math.exp(x * x)

    # t beyond this is x > 6, where erf is 1 anyway.
    end = (LARGE - 2) / (LARGE + 2)
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    values = np.array([scaled((node * (end + 1) + end - 1) / 2) for node in nodes])
    fitted = np.polynomial.chebyshev.chebfit(nodes, values, degree)
    return [float(each) for each in fitted]


@functools.cache
def series_coefficients(terms: int) -> list[float]:
    """Return the power series of erf(x) / x in x²: 2/√π · Σ (-1)ⁿ / (n! (2n+1))."""
    scale = 2 / math.sqrt(math.pi)
    return [scale * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(terms)]


@activation
def erf(xp: Any, input: Array) -> Array:
    """The part of a bell curve within ±x: y = 2/√π ∫₀ˣ exp(-t²) dt.

    >>> nn.functional.erf(tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """
    exact = input.dtype.itemsize >= 8
    size = xp.minimum(xp.abs(input), LARGE)
    end = (LARGE - 2) / (LARGE + 2)
    t = (2 * (size - 2) / (size + 2) + 1 - end) / (end + 1)
    tail = clenshaw(t, tail_coefficients(26 if exact else 10)) * xp.exp(-size * size)
    square = size * size
    near = series_coefficients(12 if exact else 6)
    small = xp.zeros_like(square)
    for each in reversed(near):
        small = small * square + each
    return xp.where(size < SMALL, input * small, xp.copysign(1 - tail, input))


erf.vjp(
    input=lambda g, input: g * ((2 / math.sqrt(math.pi)) * exp(-(input * input))),
    latex=r"\tfrac{2}{\sqrt\pi}\,g\,e^{-x^2}",
)


def clenshaw(t: Array, coefficients: list[float]) -> Array:
    """Add up a Chebyshev series, from the last term to the first."""
    ahead, behind = 0 * t, 0 * t
    for each in reversed(coefficients[1:]):
        ahead, behind = 2 * t * ahead - behind + each, ahead
    return t * ahead - behind + coefficients[0]
