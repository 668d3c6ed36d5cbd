"""Orthogonal polynomials, computed by their three-term recurrences.

    T, U, V, W   pₖ₊₁ = 2x pₖ - pₖ₋₁                   (Chebyshev; `shifted` ones take 2x - 1)
    H            pₖ₊₁ = 2x pₖ - 2k pₖ₋₁                (Hermite, the physicists')
    He           pₖ₊₁ = x pₖ - k pₖ₋₁                  (Hermite, the statisticians')
    L            (k+1) pₖ₊₁ = (2k+1-x) pₖ - k pₖ₋₁     (Laguerre)
    P            (k+1) pₖ₊₁ = (2k+1) x pₖ - k pₖ₋₁     (Legendre)

All begin with p₀ = 1 and differ in p₁. The degree n may be a tensor, with one degree per
element. A degree below 0 gives 0, a fractional one is truncated. As in PyTorch, these are not
differentiable.

A recurrence of 10³⁰ steps would never end. Chebyshev polynomials of a high degree are computed
from their trigonometric definition; the others raise an error beyond a degree of 100,000, unless
all values overflow float64 before.

Paper: Abramowitz and Stegun, 22.7 (the recurrences), 22.3.15 (V and W: DLMF 18.9.8).
"""

from __future__ import annotations

from collections.abc import Callable

from ..backends.numpy import Array, Namespace
from ..core.op import elementwise
from ..errors import InvalidValueError
from .special import in_float64

Step = Callable[[Array, int, Array, Array], Array]
polynomial = elementwise(method=False, dtypes="bif")

MAX_DEGREE = 100_000
"""The degree up to which the recurrence is computed: about a second for one element."""

MAX_TRIED_STEPS = 1000
"""The steps that are tried for a higher degree: usually all values overflow before."""

CHECK_EVERY = 64
"""The number of steps between checks whether any value is still finite."""


def evaluate_recurrence(
    xp: Namespace, x: Array, n: Array, first: Array, step: Step, name: str = "polynomial"
) -> Array:
    """p of degree n, where p₁ is `first` and `step(x, k, pₖ, pₖ₋₁)` is pₖ₊₁; `name` for errors."""
    n = xp.where(xp.isfinite(n), xp.trunc(n), -1.0)
    x, n, now = xp.broadcast_arrays(x, n, first)
    before = xp.ones_like(x)
    y = xp.where(n == 0, before, xp.where(n == 1, now, 0.0))
    highest = float(xp.max(n)) if n.size else 0.0
    most = MAX_DEGREE if highest <= MAX_DEGREE else MAX_TRIED_STEPS
    steps = int(min(highest, most + 1.0))
    for k in range(1, steps):
        if k % CHECK_EVERY == 0 and not xp.any(xp.isfinite(now) & (n > k)):
            y = xp.where(n > k, xp.nan, y)  # ∞ - ∞ in each further step
            break
        if k == most:
            raise InvalidValueError(
                name, f"a polynomial of a degree above {MAX_DEGREE:,} takes too many steps",
                {"n": highest}, "is `n` the degree, and the other argument x?",
            )  # fmt: skip
        before, now = now, step(x, k, now, before)
        y = xp.where(n == k + 1, now, y)
    return xp.where(xp.isnan(x) & (n > 0), x, y)


CLOSED_FORM_DEGREE = 1000
"""The degree from which Chebyshev polynomials are computed by their angle: faster, and with
fewer roundings than the recurrence."""


def chebyshev(xp: Namespace, x: Array, n: Array, first: Array, kind: str) -> Array:
    """Chebyshev's polynomial T, U, V or W of degree n, whose p₁ is `first`."""
    n = xp.where(xp.isfinite(n), xp.trunc(n), -1.0)
    low = evaluate_recurrence(xp, x, xp.minimum(n, CLOSED_FORM_DEGREE), first, chebyshev_step)
    if not n.size or xp.max(n) <= CLOSED_FORM_DEGREE:
        return low
    return xp.where(n > CLOSED_FORM_DEGREE, chebyshev_by_angle(xp, x, n, kind), low)


def chebyshev_by_angle(xp: Namespace, x: Array, n: Array, kind: str) -> Array:
    """Chebyshev's polynomial of a high degree, where x = cos θ or ± cosh θ."""
    size = xp.abs(x)
    far = size > 1
    theta = xp.where(far, xp.arccosh(xp.where(far, size, 1.0)),
                     xp.arccos(xp.clip(x, -1.0, 1.0)))  # fmt: skip
    odd = xp.where(n % 2 == 1, -1.0, 1.0)
    sign = xp.where(far & (x < 0), odd, 1.0)
    # cos and cosh are the same function of a complex argument, and so are sin and sinh.
    cos, sin = (xp.where(far, hyperbolic(theta * n), circular(theta * n)) for hyperbolic, circular
                in ((xp.cosh, xp.cos), (xp.sinh, xp.sin)))  # fmt: skip
    half_cos = xp.where(far, xp.cosh(theta / 2), xp.cos(theta / 2))
    half_sin = xp.where(far, xp.sinh(theta / 2), xp.sin(theta / 2))
    if kind == "T":
        return sign * cos
    # Left of -1, V and W are exchanged: Vₙ(-x) = (-1)ⁿ Wₙ(x).
    ratio = sin * half_cos / half_sin  # U: sin((n+1)θ) / sin θ = cos nθ + sin nθ · cos θ / sin θ
    inverse = sin * half_sin / half_cos
    at_1, at_minus_1 = xp.abs(half_sin) == 0, (xp.abs(half_cos) < 1e-16) & ~far
    if kind == "U":
        y = cos + (ratio + xp.where(far, inverse, -inverse)) / 2
        return xp.where(at_1, n + 1, xp.where(at_minus_1, odd * (n + 1), sign * y))
    third = (kind == "V") != (far & (x < 0))
    return sign * xp.where(
        third, xp.where(at_minus_1, odd * (2 * n + 1), cos - xp.where(far, -1, 1) * inverse),
        xp.where(at_1, 2 * n + 1, cos + ratio),
    )  # fmt: skip


def chebyshev_step(x: Array, k: int, now: Array, before: Array) -> Array:
    return 2 * x * now - before


@polynomial
@in_float64
def chebyshev_polynomial_t(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the first kind: Tₙ(cos θ) = cos(nθ).

    >>> edutorch.special.chebyshev_polynomial_t(tensor([0.5, 2.0]), 3)
    tensor([-1., 26.])
    """
    return chebyshev(xp, x, n, x, "T")


@polynomial
@in_float64
def chebyshev_polynomial_u(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the second kind: Uₙ(cos θ) = sin((n+1)θ) / sin θ.

    >>> edutorch.special.chebyshev_polynomial_u(tensor([0.5, 2.0]), 3)
    tensor([-1., 56.])
    """
    return chebyshev(xp, x, n, 2 * x, "U")


@polynomial
@in_float64
def chebyshev_polynomial_v(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the third kind: Vₙ(cos θ) = cos((n+½)θ) / cos(θ/2).

    >>> edutorch.special.chebyshev_polynomial_v(tensor([0.5, 2.0]), 3)
    tensor([-1., 41.])
    """
    return chebyshev(xp, x, n, 2 * x - 1, "V")


@polynomial
@in_float64
def chebyshev_polynomial_w(xp: Namespace, x: Array, n: Array) -> Array:
    """Chebyshev's polynomial of the fourth kind: Wₙ(cos θ) = sin((n+½)θ) / sin(θ/2).

    >>> edutorch.special.chebyshev_polynomial_w(tensor([0.5, 2.0]), 3)
    tensor([-1., 71.])
    """
    return chebyshev(xp, x, n, 2 * x + 1, "W")


@polynomial
@in_float64
def shifted_chebyshev_polynomial_t(xp: Namespace, x: Array, n: Array) -> Array:
    """The shifted Chebyshev polynomial on [0, 1]: Tₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_t(tensor([0.5, 2.0]), 2)
    tensor([-1., 17.])
    """
    return chebyshev_polynomial_t.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_u(xp: Namespace, x: Array, n: Array) -> Array:
    """The shifted Chebyshev polynomial on [0, 1]: Uₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_u(tensor([0.5, 2.0]), 2)
    tensor([-1., 35.])
    """
    return chebyshev_polynomial_u.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_v(xp: Namespace, x: Array, n: Array) -> Array:
    """The shifted Chebyshev polynomial on [0, 1]: Vₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_v(tensor([0.5, 2.0]), 2)
    tensor([-1., 29.])
    """
    return chebyshev_polynomial_v.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def shifted_chebyshev_polynomial_w(xp: Namespace, x: Array, n: Array) -> Array:
    """The shifted Chebyshev polynomial on [0, 1]: Wₙ(2x - 1).

    >>> edutorch.special.shifted_chebyshev_polynomial_w(tensor([0.5, 2.0]), 2)
    tensor([-1., 41.])
    """
    return chebyshev_polynomial_w.op.forward(xp, 2 * x - 1, n)


@polynomial
@in_float64
def hermite_polynomial_h(xp: Namespace, x: Array, n: Array) -> Array:
    """The physicist's Hermite polynomial: H₂ = 4x² - 2.

    >>> edutorch.special.hermite_polynomial_h(tensor([0.5, 2.0]), 2)
    tensor([-1., 14.])
    """
    return evaluate_recurrence(
        xp, x, n, 2 * x, lambda x, k, now, before: 2 * x * now - 2 * k * before
    )


@polynomial
@in_float64
def hermite_polynomial_he(xp: Namespace, x: Array, n: Array) -> Array:
    """The probabilist's Hermite polynomial: He₂ = x² - 1.

    >>> edutorch.special.hermite_polynomial_he(tensor([0.5, 2.0]), 2)
    tensor([-0.7500,  3.0000])
    """
    return evaluate_recurrence(xp, x, n, x, lambda x, k, now, before: x * now - k * before)


@polynomial
@in_float64
def laguerre_polynomial_l(xp: Namespace, x: Array, n: Array) -> Array:
    """The Laguerre polynomial: L₂ = ½ (x² - 4x + 2).

    >>> edutorch.special.laguerre_polynomial_l(tensor([0.5, 2.0]), 2)
    tensor([ 0.1250, -1.0000])
    """
    return evaluate_recurrence(
        xp, x, n, 1 - x,
        lambda x, k, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
        "laguerre_polynomial_l",
    )  # fmt: skip


@polynomial
@in_float64
def legendre_polynomial_p(xp: Namespace, x: Array, n: Array) -> Array:
    """The Legendre polynomial: P₂ = ½ (3x² - 1).

    >>> edutorch.special.legendre_polynomial_p(tensor([0.5, 2.0]), 2)
    tensor([-0.1250,  5.5000])
    """
    return evaluate_recurrence(
        xp, x, n, x,
        lambda x, k, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
        "legendre_polynomial_p",
    )  # fmt: skip
