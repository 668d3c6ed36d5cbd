"""Orthogonal polynomials, each by its recurrence: the next from the last two.

    T, U, V, W   pₖ₊₁ = 2x pₖ - pₖ₋₁                   (Chebyshev; `shifted` ones take 2x - 1)
    H            pₖ₊₁ = 2x pₖ - 2k pₖ₋₁                (Hermite, the physicists')
    He           pₖ₊₁ = x pₖ - k pₖ₋₁                  (Hermite, the statisticians')
    L            (k+1) pₖ₊₁ = (2k+1-x) pₖ - k pₖ₋₁     (Laguerre)
    P            (k+1) pₖ₊₁ = (2k+1) x pₖ - k pₖ₋₁     (Legendre)

All begin with p₀ = 1 and differ in p₁. The degree n may be a tensor, too: each number then
keeps the polynomial of its own degree. A degree below 0 gives 0, a broken one loses its
fraction. As in PyTorch, no gradient comes through.

Paper: Abramowitz and Stegun, 22.7 (the recurrences), 22.3.15 (V and W: DLMF 18.9.8).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends.numpy import Array
from ..core.op import elementwise
from .precise import in_float64

Step = Callable[[Array, int, Array, Array], Array]
polynomial = elementwise(method=False, takes="bif")


def by_recurrence(xp: Any, x: Array, n: Array, first: Array, step: Step) -> Array:
    """p of degree n, where p₁ is `first` and `step(x, k, pₖ, pₖ₋₁)` is pₖ₊₁."""
    n = xp.where(xp.isfinite(n), xp.trunc(n), -1.0)
    x, n, now = xp.broadcast_arrays(x, n, first)
    before = xp.ones_like(x)
    y = xp.where(n == 0, before, xp.where(n == 1, now, 0.0))
    highest = int(xp.max(n)) if n.size else 0
    for k in range(1, highest):
        before, now = now, step(x, k, now, before)
        y = xp.where(n == k + 1, now, y)
    return xp.where(xp.isnan(x) & (n > 0), x, y)


def chebyshev_step(x: Array, k: int, now: Array, before: Array) -> Array:
    return 2 * x * now - before


@polynomial
@in_float64
def chebyshev_polynomial_t(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the first kind: Tₙ(cos θ) = cos(nθ).

    >>> edutorch.special.chebyshev_polynomial_t(tensor([0.5, 2.0]), 3)
    tensor([-1., 26.])
    """
    return by_recurrence(xp, x, n, x, chebyshev_step)


@polynomial
@in_float64
def chebyshev_polynomial_u(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the second kind: Uₙ(cos θ) = sin((n+1)θ) / sin θ.

    >>> edutorch.special.chebyshev_polynomial_u(tensor([0.5, 2.0]), 3)
    tensor([-1., 56.])
    """
    return by_recurrence(xp, x, n, 2 * x, chebyshev_step)


@polynomial
@in_float64
def chebyshev_polynomial_v(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the third kind: Vₙ(cos θ) = cos((n+½)θ) / cos(θ/2).

    >>> edutorch.special.chebyshev_polynomial_v(tensor([0.5, 2.0]), 3)
    tensor([-1., 41.])
    """
    return by_recurrence(xp, x, n, 2 * x - 1, chebyshev_step)


@polynomial
@in_float64
def chebyshev_polynomial_w(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the fourth kind: Wₙ(cos θ) = sin((n+½)θ) / sin(θ/2).

    >>> edutorch.special.chebyshev_polynomial_w(tensor([0.5, 2.0]), 3)
    tensor([-1., 71.])
    """
    return by_recurrence(xp, x, n, 2 * x + 1, chebyshev_step)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_t(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's T, stretched to the numbers from 0 to 1: Tₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_t(tensor([0.5, 2.0]), 2)
    tensor([-1., 17.])
    """
    return chebyshev_polynomial_t.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_u(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's U, stretched to the numbers from 0 to 1: Uₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_u(tensor([0.5, 2.0]), 2)
    tensor([-1., 35.])
    """
    return chebyshev_polynomial_u.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_v(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's V, stretched to the numbers from 0 to 1: Vₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_v(tensor([0.5, 2.0]), 2)
    tensor([-1., 29.])
    """
    return chebyshev_polynomial_v.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_w(xp: Any, x: Array, n: Array) -> Array:
    """Chebyshev's W, stretched to the numbers from 0 to 1: Wₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_w(tensor([0.5, 2.0]), 2)
    tensor([-1., 41.])
    """
    return chebyshev_polynomial_w.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def hermite_polynomial_h(xp: Any, x: Array, n: Array) -> Array:
    """Hermite's polynomial as physicists write it: H₂ = 4x² - 2.

    >>> edutorch.special.hermite_polynomial_h(tensor([0.5, 2.0]), 2)
    tensor([-1., 14.])
    """
    return by_recurrence(xp, x, n, 2 * x, lambda x, k, now, before: 2 * x * now - 2 * k * before)


@polynomial
@in_float64
def hermite_polynomial_he(xp: Any, x: Array, n: Array) -> Array:
    """Hermite's polynomial as statisticians write it: He₂ = x² - 1.

    >>> edutorch.special.hermite_polynomial_he(tensor([0.5, 2.0]), 2)
    tensor([-0.7500,  3.0000])
    """
    return by_recurrence(xp, x, n, x, lambda x, k, now, before: x * now - k * before)


@polynomial
@in_float64
def laguerre_polynomial_l(xp: Any, x: Array, n: Array) -> Array:
    """Laguerre's polynomial: L₂ = ½ (x² - 4x + 2).

    >>> edutorch.special.laguerre_polynomial_l(tensor([0.5, 2.0]), 2)
    tensor([ 0.1250, -1.0000])
    """
    return by_recurrence(
        xp, x, n, 1 - x,
        lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    )  # fmt: skip


@polynomial
@in_float64
def legendre_polynomial_p(xp: Any, x: Array, n: Array) -> Array:
    """Legendre's polynomial: P₂ = ½ (3x² - 1).

    >>> edutorch.special.legendre_polynomial_p(tensor([0.5, 2.0]), 2)
    tensor([-0.1250,  5.5000])
    """
    return by_recurrence(
        xp, x, n, x,
        lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
    )  # fmt: skip
