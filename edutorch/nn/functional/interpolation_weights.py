"""Numbers between the numbers along one axis: where to look, and how much each one counts.

Resizing works axis by axis. For each place of the output a list says which numbers of
the input it is made of, and with which weights; the rest is a weighted sum.
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
"""For each place of the output: the positions it looks at, and their weights."""


class TapTable(NamedTuple):
    """The taps of all places as arrays, with as many for each place."""

    positions: Any
    weights: Any
    places: int
    widest: int
    only_moves: bool

    @classmethod
    def of(cls, taps: Taps) -> TapTable:
        """Fill the shorter ones up: their last tap is shared out, for 0 · ∞ would be NaN."""
        widest = max(map(len, taps), default=1)
        even = [repeat_last_tap(tap, widest - len(tap)) for tap in taps]
        positions = numpy.array([position for each in even for position, _ in each], "int64")
        weights = numpy.array([weight for each in even for _, weight in each])
        only_moves = widest == 1 and bool((weights == 1).all())
        return cls(positions, weights, len(taps), widest, only_moves)


def repeat_last_tap(taps: list[tuple[int, float]], missing: int) -> list[tuple[int, float]]:
    """Return the taps of a place with the last one `missing` times more, each with its share."""
    position, weight = taps[-1]
    return taps[:-1] + [(position, weight / (missing + 1))] * (missing + 1)


FEW_TAPS = 4
"""So many taps are taken one after the other: a sum over so short an axis takes longer. (But of
16-bit numbers it is rounded only once.)"""


def resample(input: Tensor, axis: int, blend: TapTable) -> Tensor:
    """Weighted sums along `axis`: y[i] = Σ weight · x[position], over the taps of place i."""
    positions, places, widest, device = blend.positions, blend.places, blend.widest, input.device
    if blend.only_moves:
        return index_select(input, axis, tensor(positions, device=device))
    lead, rest = input.shape[:axis], input.shape[axis + 1 :]
    share = tensor(blend.weights, dtype=input.dtype, device=device)
    share = reshape(share, (places, widest) + (1,) * len(rest))
    if widest > FEW_TAPS or input.element_size() < 4:
        found = index_select(input, axis, tensor(positions, device=device))
        return total(reshape(found, (*lead, places, widest, *rest)) * share, axis + 1)
    y = index_select(input, axis, tensor(positions[::widest], device=device)) * share[:, 0]
    for tap in range(1, widest):
        found = index_select(input, axis, tensor(positions[tap::widest], device=device))
        y = y + found * share[:, tap]
    return y


# Where to look -------------------------------------------------------------------------------


def input_step(n: int, count: int, factor: float | None, align_corners: bool) -> float:
    """Return how far apart, in the input, two neighbours of the output are."""
    if align_corners:
        return (n - 1) / (count - 1) if count > 1 else 0.0
    return n / count if factor is None else 1 / factor


def round_to_float32(x: float) -> float:
    """Round to float32, in which PyTorch looks for the nearest number."""
    return struct.unpack("f", struct.pack("f", x))[0]


def nearest_taps(n: int, count: int, factor: float | None, exact: bool) -> Taps:
    """The number whose left edge (with `exact`: whose centre) is nearest."""
    if n == count and not exact:
        return [[(i, 1.0)] for i in range(n)]
    step, shift = round_to_float32(input_step(n, count, factor, False)), 0.5 if exact else 0.0
    return [[(min(int(round_to_float32((i + shift) * step)), n - 1), 1.0)] for i in range(count)]


def linear_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """The two neighbours, along a straight line from one to the other."""
    if n == count:
        return [[(i, 1.0)] for i in range(n)]
    taps: Taps = []
    for i in range(count):
        place = i * step if align_corners else (i + 0.5) * step - 0.5
        place = min(max(place, 0.0), n - 1)
        low = math.floor(place)
        taps.append([(low, 1 - (place - low)), (min(low + 1, n - 1), place - low)])
    return taps


def cubic_taps(n: int, count: int, step: float, align_corners: bool) -> Taps:
    """Four neighbours, along the cubic curve of `cubic_weight`; the edge is repeated."""
    taps: Taps = []
    for i in range(count):
        place = i * step if align_corners else (i + 0.5) * step - 0.5
        low = math.floor(place)
        around = range(low - 1, low + 3)
        taps.append([(min(max(j, 0), n - 1), cubic_weight(place - j, -0.75)) for j in around])
    return taps


def antialiased_taps(n: int, count: int, step: float, reach: float, weight: Callable[[float], float]) -> Taps:
    """All numbers under a bump of `weight`, as wide as the pixels of the output if these
    are larger: so that shrinking leaves no number out."""
    wide = max(step, 1.0)
    taps: Taps = []
    for i in range(count):
        centre = step * (i + 0.5)
        start = max(int(centre - reach * wide + 0.5), 0)
        end = min(int(centre + reach * wide + 0.5), n)
        shares = [weight((j - centre + 0.5) / wide) for j in range(start, end)]
        whole = sum(shares) or 1.0
        taps.append(
            [(j, share / whole) for j, share in zip(range(start, end), shares, strict=True)]
        )
    return taps


# How much it counts --------------------------------------------------------------------------


def linear_weight(x: float) -> float:
    """A tent: 1 - |x|."""
    return max(0.0, 1 - abs(x))


def cubic_weight(x: float, a: float = -0.5) -> float:
    """A smooth bump that is 1 at 0 and 0 at the other whole numbers, with slope `a` at 1.

    Paper: Keys, Cubic convolution interpolation for digital image processing, 1981.
    """
    x = abs(x)
    if x <= 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return ((x - 5) * x + 8) * x * a - 4 * a if x < 2 else 0.0


def lanczos_weight(x: float) -> float:
    """sin(πx)/πx inside a wider one of it, three numbers to each side."""
    if x == 0:
        return 1.0
    angle = math.pi * x
    return 3 * math.sin(angle) * math.sin(angle / 3) / (angle * angle) if abs(x) < 3 else 0.0
