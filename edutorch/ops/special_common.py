"""Helpers of the special functions: float64 evaluation, power series, coefficients.

Array libraries have no gamma, Bessel or polygamma functions, so these are computed
here from their definition: a power series near 0, an asymptotic series or an integral far
away. Coefficients are computed in exact fractions when first needed, instead of tables.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from ..backends.numpy import Array, Namespace
from ..errors import GradientError


def in_float64(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Make a forward compute in float64, and round its result to the dtype of its input.

    Formulas accurate to 16 digits need no second version for 7 or 3 digits, and
    intermediate values do not overflow float16 where the result does not.
    """
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    names = [parameter.name for parameter in parameters]
    arrays = [parameter.name for parameter in parameters if "Array" in str(parameter.annotation)]

    @functools.wraps(forward)
    def wide(xp: Namespace, *arguments: Any, **named: Any) -> Any:
        bound = {**dict(zip(names, arguments, strict=False)), **named}
        dtype = next(bound[name].dtype for name in arrays if hasattr(bound[name], "dtype"))
        for name in arrays:
            bound[name] = xp.asarray(bound[name]).astype("float64")
        return forward(xp, **bound).astype(dtype)

    return wide


def refuse_derivative(name: str, input: str, hint: str) -> Callable[[Any], Any]:
    """Make the rule of an input without a derivative: it raises GradientError."""

    def refuse(g: Any) -> Any:
        raise GradientError(
            name, f"the derivative for '{name}: {input}' is not implemented", hint=hint
        )

    refuse.refuses = True  # type: ignore[attr-defined]
    return refuse


# Sums --------------------------------------------------------------------------------------


def power_series(x: Array, coefficients: Sequence[float]) -> Array:
    """Σ cₖ xᵏ, from the highest power to the lowest (Horner)."""
    total = 0 * x + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        total *= x
        total += coefficient
    return total


def exp_of_minus_square(xp: Namespace, x: Array) -> Array:
    """exp(-x²), accurate also for large x, where the rounding of x² would cost digits.

    x is split into a coarse part, whose square is exact, and a small rest.
    """
    coarse = xp.trunc(x * 16) / 16
    product = xp.exp(-coarse * coarse) * xp.exp((coarse - x) * (coarse + x))
    return xp.where(xp.abs(x) > 40, xp.where(xp.isnan(x), x, 0.0), product)


# Coefficients ------------------------------------------------------------------------------


@functools.cache
def bernoulli_numbers(count: int) -> list[Fraction]:
    """Return B₂, B₄, …: from Σ (n+1 over k) Bₖ = 0 for k = 0 … n."""
    values = [Fraction(1)]
    for n in range(1, 2 * count + 1):
        total = sum(math.comb(n + 1, k) * value for k, value in enumerate(values))
        values.append(Fraction(-total, n + 1) if isinstance(total, int) else -total / (n + 1))
    return values[2::2]


@functools.cache
def zeta_minus_1(k: int) -> float:
    """Return 2⁻ᵏ + 3⁻ᵏ + 4⁻ᵏ + …: twenty terms, and the rest by the Euler-Maclaurin formula."""
    end = 22
    first = math.fsum(n**-k for n in range(2, end))
    terms = [end ** (1 - k) / (k - 1), 0.5 * end**-k]
    rising = k * float(end) ** (-k - 1)
    for order, coefficient in enumerate(bernoulli_numbers(6), 1):
        terms.append(float(coefficient) / math.factorial(2 * order) * rising)
        rising *= (k + 2 * order - 1) * (k + 2 * order) / end**2
    return math.fsum([first, *terms])
