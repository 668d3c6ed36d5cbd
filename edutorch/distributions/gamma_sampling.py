"""Sampling gamma variables, with gradients by the shape parameter.

A sample z solves P(α, z) = u for a uniform u, with the distribution function P. With u fixed,
the derivative of z is

    dz/dα = - (∂P/∂α) / (∂P/∂z)

(implicit reparameterization). With the formulas of `ops/gamma.py` for P the common
factor zᵅ e⁻ᶻ / Γ(α + 1) cancels, so no part of the quotient overflows. All is computed for ln z:
for a small α, z itself would often round to 0.

Papers: G. Marsaglia and W. W. Tsang, A simple method for generating gamma variables, 2000;
M. Figurnov, S. Mohamed and A. Mnih, Implicit reparameterization gradients, 2018.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import backends
from ..autograd import Function
from ..autograd.function import once_differentiable
from ..backends.numpy import Array, Namespace
from ..core.tensor import Tensor, wrap
from ..ops.gamma import LARGE, digamma, stirling_correction, temme_coefficients
from ..ops.random import random_source
from ..ops.special import power_series


def draw_log_gamma(alpha: Array) -> Array:
    """Draw ln z for gamma variables z with the shapes α, on the host.

    For α ≥ 1, z = d (1 + c x)³ with a normal x is nearly gamma distributed; a rejection step
    corrects it. Below 1: z(α) = z(α + 1) · U^(1/α).
    """
    random = random_source(None, backends.CPU)
    double = np.dtype(np.float64)
    is_small = alpha < 1
    d = np.where(is_small, alpha + 1, alpha) - 1 / 3
    c = 1 / np.sqrt(9 * d)
    log_z, remaining = np.empty(alpha.shape), np.arange(alpha.size)
    while remaining.size:
        x = random.normal((remaining.size,), double)
        u = 1 - random.uniform((remaining.size,), double)
        v = (1 + c[remaining] * x) ** 3
        log_v = np.log(np.maximum(v, 1e-300))
        accepted = (v > 0) & (np.log(u) < 0.5 * x * x + d[remaining] * (1 - v + log_v))
        log_z[remaining[accepted]] = (np.log(d[remaining]) + log_v)[accepted]
        remaining = remaining[~accepted]
    u = 1 - random.uniform(alpha.shape, double)
    return log_z + np.where(is_small, np.log(u) / alpha, 0.0)


def derivative_by_series(xp: Namespace, a: Array, x: Array, log_x: Array) -> Array:
    """d ln z / dα from the power series of P, for x up to about α + 1.

    P = h Σ tₙ with tₙ = xⁿ / ((α+1) … (α+n)), and each h tₙ has the derivative
    h tₙ (ln x - ψ(α + n + 1)).
    """
    psi = digamma.op.forward(xp, a + 1)
    term = xp.ones_like(x)
    total = log_x - psi
    for n in range(1, 65):
        term = term * (x / (a + n))
        psi = psi + 1 / (a + n)
        total = total + term * (log_x - psi)
    return -total / a


def derivative_by_fraction(xp: Namespace, a: Array, x: Array, log_x: Array) -> Array:
    """d ln z / dα from the continued fraction of Q = h α / f and its derivative, for larger x."""
    steps = 80
    f, slope = x + (2 * steps + 1) - a, -xp.ones_like(x)
    for n in range(steps, 0, -1):
        slope = n / f - 1 + n * (n - a) / (f * f) * slope
        f = x + (2 * n - 1) - a - n * (n - a) / f
    share = a / f
    share_derivative = 1 / f - share / f * slope
    return ((log_x - digamma.op.forward(xp, a + 1)) * share + share_derivative) / a


def derivative_by_temme(xp: Namespace, a: Array, x: Array) -> Array:
    """d ln z / dα from Temme's expansion, for a large α and x within α/2 … 2α.

    P = ½ erfc(-η √(α/2)) - E S, E = exp(-α η²/2) / √(2πα), S = Σ Cₖ(η) α⁻ᵏ. With x fixed
    ∂η/∂α = -(μ/η)/α and ∂E/∂α = E (ln(1+μ) - 1/(2α)); the density is E e⁻ˢ α/x, where s is
    Stirling's correction.
    """
    mu = (x - a) / a
    r = mu / (2 + mu)
    odd = [1 / (2 * k + 3) for k in range(18)]
    eta = xp.copysign(xp.sqrt(2 * r * (mu - 2 * r * r * power_series(r * r, odd))), mu)
    flat = xp.abs(mu) < 1e-8
    eta_slope = -xp.where(flat, 1 + eta / 3, mu / xp.where(flat, 1.0, eta)) / a
    correction, by_eta, by_a = xp.zeros_like(a), xp.zeros_like(a), xp.zeros_like(a)
    for k, coefficients in reversed(list(enumerate(temme_coefficients()))):
        value = power_series(eta, coefficients)
        slope = power_series(eta, [n * c for n, c in enumerate(coefficients)][1:])
        correction = correction / a + value
        by_eta = by_eta / a + slope
        by_a = by_a / a - k * value / a
    decay = xp.log1p(mu) - 1 / (2 * a)
    numerator = a * eta_slope + eta / 2 - decay * correction - by_eta * eta_slope - by_a
    return -xp.exp(stirling_correction(a)) * numerator / a


def log_gamma_derivative(xp: Namespace, a: Array, log_z: Array) -> Array:
    """d ln z / dα of a gamma variable z with the shape α, for a fixed uniform variable."""
    x = xp.exp(log_z)
    peak = (a > LARGE) & (x > a / 2) & (x < 2 * a)
    tail = ~peak & (x > 2) & (x > a + 1)
    by_series = derivative_by_series(xp, a, xp.where(peak | tail, 0.5 * a, x), log_z)
    far = xp.where(tail, x, a + 4)
    by_fraction = derivative_by_fraction(xp, a, far, xp.log(far))
    big = xp.where(peak, a, LARGE)
    by_peak = derivative_by_temme(xp, big, xp.where(peak, x, LARGE))
    return xp.where(peak, by_peak, xp.where(tail, by_fraction, by_series))


class LogGammaSample(Function):
    """Draw ln z for gamma variables z, differentiable once by the shape parameter."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor) -> Tensor:
        backend = backends.of(concentration._array)
        alpha = np.asarray(backend.to_numpy(concentration._array)).astype(np.float64)
        log_z = draw_log_gamma(alpha.reshape(-1)).reshape(alpha.shape)
        ctx.save_for_backward(concentration, wrap(backend.from_numpy(log_z)))
        return wrap(backend.from_numpy(log_z.astype(concentration._array.dtype)))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        concentration, log_z = ctx.saved_tensors
        backend = backends.of(log_z._array)
        derivative = log_gamma_derivative(
            backend.xp, concentration._array.astype("float64"), log_z._array
        )
        return grads[0] * wrap(derivative.astype(concentration._array.dtype))


def log_gamma_sample(concentration: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Draw ln z for standard gamma variables z of a given tensor shape; see `LogGammaSample`."""
    return LogGammaSample.apply(concentration.expand(shape))
