"""Samples of the Poisson and the binomial distribution.

Drawn on the host in double precision: for small expectations by inversion of the cumulative
distribution, for large ones by rejection, whose cost does not grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import backends
from ..core.tensor import Tensor, wrap
from ..errors import DTypeError, ValueRangeError
from .creation import zeros_like
from .random import Generator, host_source

__all__ = ["binomial", "poisson"]

REJECTION_FROM = 10.0
"""The expectation from which samples are drawn by rejection."""

_log_factorial = np.vectorize(lambda n: math.lgamma(n + 1), otypes=[np.float64])


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of the Poisson distribution with rates `input`: P(k) = λᵏ exp(-λ) / k!.

    Raises: ValueRangeError: a negative rate.

    Paper: W. Hörmann, The transformed rejection method for generating Poisson random
    variables, 1993.

    >>> poisson(tensor([0.0, 0.0]))
    tensor([0., 0.])
    """
    if not backends.has_elements(input._array):
        return zeros_like(input)
    rates = to_host("poisson", input)
    if not (rates >= 0).all():
        raise ValueRangeError("poisson", "expected rates that are not negative")
    uniform = uniform_source(generator, input)
    samples = np.zeros(rates.shape)
    few = rates < REJECTION_FROM
    samples[few] = invert_cdf(uniform, np.exp(-rates[few]), lambda k: rates[few] / k)
    many = rates[~few]
    if many.size:
        spread = np.sqrt(many)
        b = 0.931 + 2.53 * spread
        a = -0.059 + 0.02483 * b
        top = 1.1239 + 1.1328 / (b - 3.4)

        def height(k: Any, at: Any) -> Any:
            return -many[at] + k * np.log(many[at]) - _log_factorial(k) - np.log(top[at])

        bound = 0.9277 - 3.6224 / (b - 2)
        samples[~few] = sample_by_rejection(
            uniform, many + 0.43, a, b, bound, np.full(many.shape, np.inf), height
        )
    return from_host(samples, input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples of the binomial distribution: successes in `count` trials of probability `prob`.

    Raises: ValueRangeError: a negative count, or a probability outside [0, 1].

    Paper: W. Hörmann, The generation of binomial random variates, 1993.

    >>> binomial(tensor([5.0, 5.0]), tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    if not backends.has_elements(count._array):
        return zeros_like(count * prob)
    tries, chances = np.broadcast_arrays(to_host("binomial", count), to_host("binomial", prob))
    if not ((tries >= 0).all() and ((chances >= 0) & (chances <= 1)).all()):
        raise ValueRangeError("binomial", "expected count >= 0 and 0 <= prob <= 1")
    uniform = uniform_source(generator, count)
    n, rarer = np.floor(tries), np.minimum(chances, 1 - chances)
    odds = rarer / (1 - rarer)
    samples = np.zeros(n.shape)
    few = n * rarer < REJECTION_FROM
    nf, of = n[few], odds[few]
    samples[few] = invert_cdf(
        uniform, (1 - rarer[few]) ** nf, lambda k: of * np.maximum(nf - k + 1, 0) / k
    )
    m, p, o = n[~few], rarer[~few], odds[~few]
    if m.size:
        spread = np.sqrt(m * p * (1 - p))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        scale = (2.83 + 5.1 / b) * spread
        peak = np.floor((m + 1) * p)
        at_peak = _log_factorial(peak) + _log_factorial(m - peak)

        def height(k: Any, at: Any) -> Any:
            log_terms = _log_factorial(k) + _log_factorial(m[at] - k)
            return at_peak[at] - log_terms + (k - peak[at]) * np.log(o[at]) - np.log(scale[at])

        samples[~few] = sample_by_rejection(uniform, m * p + 0.5, a, b, 0.92 - 4.2 / b, m, height)
    return from_host(np.where(chances > 0.5, n - samples, samples), count)


def to_host(name: str, input: Tensor) -> np.ndarray:
    """Copy parameters to the host, in double precision."""
    if not input.is_floating_point():
        raise DTypeError(
            name, "expected floating numbers", {"input": str(input.dtype)}, "x.float()"
        )
    return np.asarray(backends.of(input._array).to_numpy(input._array)).astype(np.float64)


def from_host(samples: np.ndarray, like: Tensor) -> Tensor:
    """Return counts in the dtype and on the device of a parameter."""
    return wrap(backends.of(like._array).from_numpy(samples.astype(like._array.dtype)))


def uniform_source(generator: Generator | None, like: Tensor) -> Callable[[int], np.ndarray]:
    """Return a function that draws a number of uniform samples on the host for a parameter."""
    uniform = host_source("uniform", generator, backends.of(like._array))
    return lambda count: uniform((count,))


def invert_cdf(uniform: Callable[[int], np.ndarray], first: np.ndarray, ratio: Any) -> np.ndarray:
    """Sum P(0) = first, P(k) = P(k-1) · ratio(k), until the sum exceeds a uniform sample."""
    targets = uniform(first.size)
    chance, total, counts, k = first.copy(), first.copy(), np.zeros(first.shape), 0
    while k < 200 and (open_ := targets > total).any():
        k += 1
        counts += open_
        chance = chance * ratio(k)
        total = total + chance
    return counts


def sample_by_rejection(
    uniform: Callable[[int], np.ndarray], centre: Any, a: Any, b: Any, bound: Any, most: Any,
    height: Callable[[Any, Any], Any],
) -> np.ndarray:  # fmt: skip
    """Transformed rejection: draw from a hat function until each sample is accepted."""
    samples, remaining = np.zeros(centre.shape), np.arange(centre.size)
    while remaining.size:
        u, v = uniform(remaining.size) - 0.5, uniform(remaining.size)
        side = 0.5 - np.abs(u)
        side = np.maximum(side, 1e-300)
        k = np.floor((2 * a[remaining] / side + b[remaining]) * u + centre[remaining])
        surely = (side >= 0.07) & (v <= bound[remaining])
        possible = (k >= 0) & (k <= most[remaining]) & ~((side < 0.013) & (v > side))
        test = np.flatnonzero(possible & ~surely)
        at = remaining[test]
        hat = np.log(np.maximum(v[test], 1e-300)) - np.log(a[at] / side[test] ** 2 + b[at])
        accepted = possible & surely
        # accept where v times the hat is below the density
        accepted[test] = hat <= height(k[test], at)
        samples[remaining[accepted]] = k[accepted]
        remaining = remaining[~accepted]
    return samples
