"""The line search of LBFGS tries the same steps as PyTorch's, and returns the same one."""

from __future__ import annotations

import importlib
import math
import random
from collections.abc import Callable
from typing import Any

import pytest

import edutorch
from edutorch.optim.lbfgs import Point, strong_wolfe

Function = Callable[[float], float]


def waves(seed: int) -> tuple[Function, Function]:
    """Return a sum of sines on a slope, with several minima, and its derivative."""
    generator = random.Random(seed)
    sines = [tuple(generator.uniform(0.1, top) for top in (3, 4, 6)) for _ in range(3)]
    square, line = generator.uniform(0, 0.3), generator.uniform(-6, -3)

    def value(t: float) -> float:
        return sum(a * math.sin(b * t + c) for a, b, c in sines) + square * t * t + line * t

    def slope(t: float) -> float:
        return sum(a * b * math.cos(b * t + c) for a, b, c in sines) + 2 * square * t + line

    return value, slope


FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "a line": (lambda t: -t, lambda t: -1.0),
    "a jump": (lambda t: -t if t < 50 else 95 - t, lambda t: -1.0),
    "a kink": (lambda t: abs(t - 2), lambda t: math.copysign(1.0, t - 2)),
    "a parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "a quartic": (lambda t: (t - 3) ** 4 - t, lambda t: 4 * (t - 3) ** 3 - 1),
    "a far bend": (lambda t: t - 3 * math.log1p(t), lambda t: 1 - 3 / (1 + t)),
    "a bell": (
        lambda t: -math.exp(-((t - 5) ** 2)), lambda t: 2 * (t - 5) * math.exp(-((t - 5) ** 2)),
    ),
    **{f"waves {seed}": waves(seed) for seed in range(30)},
}  # fmt: skip


def searched(
    torch: Any, value: Function, slope: Function, first: float, most: int
) -> list[list[float]]:
    """Return for both libraries: all steps that were tried, the last step, and the count."""
    ours: list[float] = []
    theirs: list[float] = []

    def look(t: float) -> Point:
        ours.append(t)
        return Point(t, value(t), None, slope(t))

    def evaluate(_: Any, t: Any, __: Any) -> tuple[float, Any]:
        theirs.append(float(t))
        return value(float(t)), torch.tensor([slope(float(t))], dtype=torch.float64)

    start = Point(0.0, value(0.0), None, slope(0.0))
    end, count = strong_wolfe(look, start, first, 1.0, max_ls=most)
    search = importlib.import_module("torch.optim.lbfgs")._strong_wolfe
    gradient = torch.tensor([slope(0.0)], dtype=torch.float64)
    _, _, t, evaluations = search(
        evaluate, None, first, torch.ones(1, dtype=torch.float64), value(0.0), gradient,
        gradient[0], max_ls=most,
    )  # fmt: skip
    return [[*ours, end.t, count], [*theirs, float(t), evaluations]]


@pytest.mark.parametrize("most", [1, 3, 8])  # further on, two such steps differ by rounding
@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_tries_pytorchs_steps(name, most, torch):
    for first in (1e-3, 0.1, 1.0, 30.0, 1e3):
        ours, theirs = searched(torch, *FUNCTIONS[name], first, most)
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12), f"the first step is {first}"


def test_a_straight_loss_is_followed_as_far_as_in_pytorch(torch):
    """The step grows by a factor of ten each time: the loss is unbounded below."""

    def run(library: Any) -> float:
        x = library.zeros(1, dtype=library.float64, requires_grad=True)
        optimizer = library.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=1, max_eval=5)

        def closure() -> Any:
            optimizer.zero_grad()
            loss = -x.sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return x.item()

    assert run(edutorch) == run(torch) > 999
