"""What the transforms share: how they are printed, and how their settings are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import ops
from ...errors import ArgumentError, InvalidValueError
from ...nn import Module
from .functional.crops import default_fill
from .functional.image import Image, check_image
from .interpolation import InterpolationMode


class Transform(Module):
    """A transform: a module whose `forward` takes an image, and prints the settings in `shown`."""

    shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        settings = [f"{name}={show(getattr(self, name))}" for name in self.shown]
        return f"{type(self).__name__}({', '.join(settings)})"


class WithProbability(Transform):
    """A transform that changes an image with probability `p`; `change` says how.

    Args:
        p: the probability, by default 0.5.

    Raises: InvalidValueError: it is not between 0 and 1.
    """

    shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = check_probability(type(self).__name__, p)

    def forward(self, img: Image) -> Image:
        """Return the image, changed or as it is."""
        return self.change(img) if ops.rand(1).item() < self.p else img

    def change(self, img: Image) -> Image:
        """Return the changed image."""
        raise NotImplementedError


def show(value: Any) -> Any:
    return value.value if isinstance(value, InterpolationMode) else value


def check_probability(op: str, p: Any) -> float:
    """Return a probability.

    Raises: InvalidValueError: it is not between 0 and 1.
    """
    if not isinstance(p, int | float) or not 0 <= p <= 1:
        hint = "0 for never, 1 for always"
        raise InvalidValueError(op, "p is a probability, between 0 and 1", {"p": repr(p)}, hint)
    return p


def uniform(low: float, high: float) -> float:
    """Draw a number between two bounds: that of `empty(1).uniform_(low, high)`, but quicker."""
    share = np.float32(ops.rand(1).item())
    return float(share * np.float32(high - low) + np.float32(low))


def integer_below(high: int, low: int = 0) -> int:
    """Draw one of the integers low … high - 1."""
    return int(ops.randint(low, high, size=(1,)).item())


def to_range(op: str, name: str, value: Any, low: float | None = None) -> list[float]:
    """Return (from, to) of a range: two numbers, or one for both sides of 0.

    Args:
        low: no bound is smaller.

    Raises:
        ArgumentError: it is something else.
        InvalidValueError: the bounds are not in order.

    >>> to_range("RandomRotation", "degrees", 30)
    [-30.0, 30.0]
    """
    if isinstance(value, int | float):
        if value < 0:
            hint = "a number is taken to both sides of 0"
            raise InvalidValueError(op, f"{name} is not negative", {name: value}, hint)
        return [-float(value), float(value)]
    if not isinstance(value, list | tuple) or len(value) != 2:
        hint = "a number, or (from, to)"
        raise ArgumentError(op, f"{name} is not a range", {name: repr(value)}, hint)
    first, last = float(value[0]), float(value[1])
    if first > last or (low is not None and first < low):
        bounds = "(from, to), in order" if low is None else f"(from, to), in order, from {low}"
        raise InvalidValueError(op, f"{name} is not a range", {name: value}, bounds)
    return [first, last]


def fill_of(img: Image, fill: Any) -> Any:
    """Return the value outside of an image: for tensors, one for each channel."""
    return fill if check_image("fill", img) else default_fill(img, fill)
