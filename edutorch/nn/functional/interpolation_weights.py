"""Interpolation along one axis: which input elements an output is made of, and their weights.

Resizing works axis by axis. For each output position a list gives the input positions and
their weights (the taps); the output is the weighted sum.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from ...core.tensor import Tensor
from ...ops import index_select, reshape, tensor
from ...ops import sum as total

Taps = list[list[tuple[int, float]]]
"""For each output position: the input positions it reads, and their weights."""


class TapTable(NamedTuple):
    """The taps of all output positions as arrays, padded to the same number of taps.

    Attributes:
        outputs: the number of output positions.
        width: the number of taps of each.
        is_gather: whether each output is one input element with weight 1.
    """

    positions: Any
    weights: Any
    outputs: int
    width: int
    is_gather: bool

    @classmethod
    def from_taps(cls, taps: Taps) -> TapTable:
        """Pad shorter lists by splitting their last tap; a weight of 0 would give 0 · ∞."""
        width = max(map(len, taps), default=1)
        padded = [repeat_last_tap(tap, width - len(tap)) for tap in taps]
        positions = numpy.array(
            [position for taps_of_output in padded for position, _ in taps_of_output], "int64"
        )
        weights = numpy.array([weight for taps_of_output in padded for _, weight in taps_of_output])
        is_gather = width == 1 and bool((weights == 1).all())
        return cls(positions, weights, len(taps), width, is_gather)


def repeat_last_tap(taps: list[tuple[int, float]], missing: int) -> list[tuple[int, float]]:
    """Return taps with the last one repeated `missing` times, its weight split evenly."""
    position, weight = taps[-1]
    return taps[:-1] + [(position, weight / (missing + 1))] * (missing + 1)


FEW_TAPS = 4
"""Up to this many taps are added one by one, which is faster than a sum over a short axis. (A sum
of 16-bit floats is rounded only once, so these are summed.)"""


def resample(input: Tensor, axis: int, table: TapTable) -> Tensor:
    """Weighted sums along `axis`: y[i] = Σ weight · x[position], over the taps of output i."""
    positions, outputs, width, device = table.positions, table.outputs, table.width, input.device
    if table.is_gather:
        return index_select(input, axis, tensor(positions, device=device))
    leading, trailing = input.shape[:axis], input.shape[axis + 1 :]
    weights = tensor(table.weights, dtype=input.dtype, device=device)
    weights = reshape(weights, (outputs, width) + (1,) * len(trailing))
    if width > FEW_TAPS or input.element_size() < 4:
        values = index_select(input, axis, tensor(positions, device=device))
        return total(reshape(values, (*leading, outputs, width, *trailing)) * weights, axis + 1)
    y = index_select(input, axis, tensor(positions[::width], device=device)) * weights[:, 0]
    for tap in range(1, width):
        values = index_select(input, axis, tensor(positions[tap::width], device=device))
        y = y + values * weights[:, tap]
    return y


# Taps ----------------------------------------------------------------------------------------


def input_step(n: int, count: int, factor: float | None, align_corners: bool) -> float:
    """Return the distance, in input elements, between neighbouring outputs."""
    if align_corners:
        return (n - 1) / (count - 1) if count > 1 else 0.0
    return n / count if factor is None else 1 / factor


def round_to_float32(x: float) -> float:
    """Round to float32, in which PyTorch computes the nearest position."""
    return struct.unpack("f", struct.pack("f", x))[0]


def nearest_taps(n: int, count: int, factor: float | None, exact: bool) -> Taps:
    """The input element whose left edge (with `exact`: whose centre) is nearest."""
    if n == count and not exact:
        return [[(i, 1.0)] for i in range(n)]
    step, shift = round_to_float32(input_step(n, count, factor, False)), 0.5 if exact else 0.0
    return [[(min(int(round_to_float32((i + shift) * step)), n - 1), 1.0)] for i in range(count)]


def linear_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """The two neighbours, with linear weights."""
    if n == count:
        return [[(i, 1.0)] for i in range(n)]
    taps: Taps = []
    for i in range(count):
        coordinate = i * step if align_corners else (i + 0.5) * step - 0.5
        coordinate = min(max(coordinate, 0.0), n - 1)
        low = math.floor(coordinate)
        taps.append([(low, 1 - (coordinate - low)), (min(low + 1, n - 1), coordinate - low)])
    return taps


def cubic_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """Four neighbours, with the weights of `cubic_weight`; the edge is repeated."""
    taps: Taps = []
    for i in range(count):
        coordinate = i * step if align_corners else (i + 0.5) * step - 0.5
        low = math.floor(coordinate)
        neighbours = range(low - 1, low + 3)
        taps.append(
            [(min(max(j, 0), n - 1), cubic_weight(coordinate - j, -0.75)) for j in neighbours]
        )
    return taps


def antialiased_taps(
    n: int, count: int, step: float, radius: float, weight: Callable[[float], float]
) -> Taps:
    """All elements in the support of the filter `weight`, which is widened when shrinking."""
    scale = max(step, 1.0)
    taps: Taps = []
    for i in range(count):
        centre = step * (i + 0.5)
        start = max(int(centre - radius * scale + 0.5), 0)
        end = min(int(centre + radius * scale + 0.5), n)
        shares = [weight((j - centre + 0.5) / scale) for j in range(start, end)]
        total_weight = sum(shares) or 1.0
        taps.append(
            [(j, share / total_weight) for j, share in zip(range(start, end), shares, strict=True)]
        )
    return taps


# Weights -----------------------------------------------------------------------------------


def linear_weight(x: float) -> float:
    """The triangle filter: max(0, 1 - |x|)."""
    return max(0.0, 1 - abs(x))


def cubic_weight(x: float, a: float = -0.5) -> float:
    """The cubic convolution kernel: 1 at 0 and 0 at the other integers, with slope `a` at 1.

    Paper: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0.0


def lanczos_weight(x: float) -> float:
    """The Lanczos filter with radius 3: sinc(x) · sinc(x / 3)."""
    if x == 0:
        return 1.0
    angle = math.pi * x
    return 3 * math.sin(angle) * math.sin(angle / 3) / (angle * angle) if abs(x) < 3 else 0.0
