"""How far to go in a direction: a line search that ends where the strong Wolfe conditions hold.

Along a direction d the loss is a function of one number t. A step is good if the loss has
fallen enough, f(t) ≤ f(0) + c₁ · t · f'(0), and if it has become flat enough,
|f'(t)| ≤ c₂ · |f'(0)|: further on there is little left to win.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Point", "strong_wolfe"]

FALL, FLAT = 1e-4, 0.9  # c₁ and c₂


class Point(NamedTuple):
    """Where a search has looked: the step, the loss there, its gradient, its slope along d."""

    t: float
    loss: float
    gradient: Any
    slope: float


Look = Callable[[float], Point]


def strong_wolfe(
    look: Look, start: Point, t: float, size: float, tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Point, int]:  # fmt: skip
    """Return a good point, and how often the function was evaluated.

    First two points are found that have a good one between them; then they are moved
    together until one of them is good itself.

    Args:
        look: evaluates the function at a step.
        start: the point where t = 0.
        t: the first step to try.
        size: the largest part of the direction.
        tolerance_change: two points closer than this (times size) are close enough.
        max_ls: how many further evaluations there may be.

    Paper: Nocedal and Wright, Numerical optimization, 2006, section 3.5.

    >>> parabola = lambda t: Point(t, (t - 3) ** 2, None, 2 * (t - 3))
    >>> found, evaluations = strong_wolfe(parabola, parabola(0.0), t=8.0, size=1.0)
    >>> found.t, evaluations
    (3.0, 2)
    """
    ends, count = surround(look, start, t, max_ls)
    done = len(ends) == 1
    low = 0 if ends[0].loss <= ends[-1].loss else 1
    stuck = False
    while not done and count < max_ls and abs(ends[1].t - ends[0].t) * size >= tolerance_change:
        t, stuck = between(ends[0], ends[1], stuck)
        found = look(t)
        count += 1
        high = 1 - low
        if not fell(found, start) or found.loss >= ends[low].loss:
            ends[high] = found
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = flat(found, start)
        if not done and found.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = found
    return ends[low], count + 1


def surround(look: Look, start: Point, t: float, max_ls: int) -> tuple[list[Point], int]:
    """Go further and further until a good point was stepped over: [before it, behind it].

    A point that is good itself is returned alone. The number says how often it went on.
    """
    before, found, count = start, look(t), 0
    while count < max_ls:
        if not fell(found, start) or (count > 1 and found.loss >= before.loss):
            return [before, found], count
        if flat(found, start):
            return [found], count
        if found.slope >= 0:
            return [before, found], count
        t = lowest(before, found, found.t + 0.01 * (found.t - before.t), found.t * 10)
        before, found = found, look(t)
        count += 1
    return [start, found], count


def fell(found: Point, start: Point) -> bool:
    return not found.loss > start.loss + FALL * found.t * start.slope


def flat(found: Point, start: Point) -> bool:
    return abs(found.slope) <= -FLAT * start.slope


def between(one: Point, two: Point, stuck: bool) -> tuple[float, bool]:
    """Return where to look next between two points, and whether that is close to one of them.

    Close twice running would be slow progress: then it is a tenth of the way instead.
    """
    left, right = sorted((one.t, two.t))
    t = lowest(one, two, left, right)
    tenth = 0.1 * (right - left)
    if not min(right - t, t - left) < tenth:
        return t, False
    if not stuck and left < t < right:
        return t, True
    return (right - tenth if abs(t - right) < abs(t - left) else left + tenth), False


def lowest(one: Point, two: Point, least: float, most: float) -> float:
    """Return where the cubic through two points, with their slopes, is lowest within bounds."""
    if one.t > two.t:
        one, two = two, one
    bend = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.t - two.t)
    square = bend * bend - one.slope * two.slope
    if not square >= 0:
        return (least + most) / 2
    root = math.sqrt(square)
    span, rest = two.slope - one.slope + 2 * root, two.slope + root - bend
    if span == 0:  # a straight line: a falling one is lowest at its far end
        return (least + most) / 2 if rest == 0 else most if rest < 0 else least
    t = two.t - (two.t - one.t) * (rest / span)
    return min(max(t, least), most)
