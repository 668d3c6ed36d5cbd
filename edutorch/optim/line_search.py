"""Line search with the strong Wolfe conditions.

Along a direction d the loss is a function f of the step t. A step is acceptable if the loss has
decreased sufficiently, f(t) ≤ f(0) + c₁ · t · f'(0), and if the slope has become small enough,
|f'(t)| ≤ c₂ · |f'(0)|.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Point", "strong_wolfe"]

C1, C2 = 1e-4, 0.9  # c₁ and c₂


class Point(NamedTuple):
    """A trial of the line search: step, loss, gradient, and slope along d."""

    t: float
    loss: float
    gradient: Any
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(
    evaluate: Evaluate, start: Point, t: float, size: float, tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Point, int]:  # fmt: skip
    """Return an acceptable point, and the number of evaluations.

    First two points are searched that bracket an acceptable one; then the bracket is narrowed
    until one of its ends is acceptable (zoom).

    Args:
        evaluate: evaluates the function at a step.
        start: the point where t = 0.
        t: the first step to try.
        size: the largest element of the direction.
        tolerance_change: the smallest width of the bracket, times size.
        max_ls: the largest number of further evaluations.

    Paper: Nocedal and Wright, Numerical optimization, 2006, section 3.5.

    >>> parabola = lambda t: Point(t, (t - 3) ** 2, None, 2 * (t - 3))
    >>> point, evaluations = strong_wolfe(parabola, parabola(0.0), t=8.0, size=1.0)
    >>> point.t, evaluations
    (3.0, 2)
    """
    ends, evaluations = bracket(evaluate, start, t, max_ls)
    done = len(ends) == 1
    low = 0 if ends[0].loss <= ends[-1].loss else 1
    is_close = False
    while (
        not done and evaluations < max_ls and abs(ends[1].t - ends[0].t) * size >= tolerance_change
    ):
        t, is_close = next_trial(ends[0], ends[1], is_close)
        point = evaluate(t)
        evaluations += 1
        high = 1 - low
        if not has_decreased(point, start) or point.loss >= ends[low].loss:
            ends[high] = point
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = is_flat(point, start)
        if not done and point.slope * (ends[high].t - ends[low].t) >= 0:
            ends[high] = ends[low]
        ends[low] = point
    return ends[low], evaluations + 1


def bracket(evaluate: Evaluate, start: Point, t: float, max_ls: int) -> tuple[list[Point], int]:
    """Extrapolate until two points bracket an acceptable one; return them and the iterations.

    A point that is acceptable itself is returned alone.
    """
    previous, point, count = start, evaluate(t), 0
    while count < max_ls:
        if not has_decreased(point, start) or (count > 1 and point.loss >= previous.loss):
            return [previous, point], count
        if is_flat(point, start):
            return [point], count
        if point.slope >= 0:
            return [previous, point], count
        t = cubic_interpolate(
            previous, point, point.t + 0.01 * (point.t - previous.t), point.t * 10
        )
        previous, point = point, evaluate(t)
        count += 1
    return [start, point], count


def has_decreased(point: Point, start: Point) -> bool:
    """Whether the sufficient decrease (Armijo) condition holds; a loss of NaN passes."""
    return not point.loss > start.loss + C1 * point.t * start.slope


def is_flat(point: Point, start: Point) -> bool:
    """Whether the strong curvature condition holds."""
    return abs(point.slope) <= -C2 * start.slope


def next_trial(one: Point, two: Point, was_close: bool) -> tuple[float, bool]:
    """Return the next trial between two points, and whether it is close to one of them.

    If it is close a second time in a row, it is moved to a tenth of the bracket's width from there.
    """
    left, right = sorted((one.t, two.t))
    t = cubic_interpolate(one, two, left, right)
    tenth = 0.1 * (right - left)
    if not min(right - t, t - left) < tenth:
        return t, False
    if not was_close and left < t < right:
        return t, True
    return (right - tenth if abs(t - right) < abs(t - left) else left + tenth), False


def cubic_interpolate(one: Point, two: Point, low: float, high: float) -> float:
    """Return the minimizer, within bounds, of the cubic through two points and their slopes."""
    if one.t > two.t:
        one, two = two, one
    d1 = one.slope + two.slope - 3 * (one.loss - two.loss) / (one.t - two.t)
    d2_squared = d1 * d1 - one.slope * two.slope
    if not d2_squared >= 0:
        return (low + high) / 2
    d2 = math.sqrt(d2_squared)
    denominator, numerator = two.slope - one.slope + 2 * d2, two.slope + d2 - d1
    if denominator == 0:  # a straight line has its minimum at a bound
        return (low + high) / 2 if numerator == 0 else high if numerator < 0 else low
    t = two.t - (two.t - one.t) * (numerator / denominator)
    return min(max(t, low), high)
