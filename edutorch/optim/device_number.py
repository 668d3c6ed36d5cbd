"""A number of a rule that is in the memory of a device: a step count, a learning rate.

Where the host does not know how many steps were made (`GradScaler` skips some), or a captured step
runs again without it, the number stays on the device. It is computed with in float64, as a Python
float is, and takes the dtype of the array that it is multiplied with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..backends.numpy import Array

__all__ = ["DeviceNumber", "square_root"]


class DeviceNumber:
    """A number on a device, for the arithmetic of an optimizer's rule.

    Args:
        value: a 0-d array of float64.
    """

    __slots__ = ("value",)
    __array_ufunc__ = None  # arrays leave the operators to this class

    def __init__(self, value: Array) -> None:
        self.value = value

    def combine(self, other: Any, compute: Callable[[Any, Any], Any]) -> Any:
        """Compute with a number, another of these, or an array, whose dtype the result has."""
        if isinstance(other, DeviceNumber):
            return DeviceNumber(compute(self.value, other.value))
        if isinstance(other, int | float):
            return DeviceNumber(compute(self.value, float(other)))
        return compute(self.value.astype(other.dtype), other)

    def __add__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: b - a)

    def __mul__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: b / a)

    def __pow__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: a**b)

    def __rpow__(self, other: Any) -> Any:
        return self.combine(other, lambda a, b: b**a)

    def __neg__(self) -> DeviceNumber:
        return DeviceNumber(-self.value)

    __radd__, __rmul__ = __add__, __mul__

    def __float__(self) -> float:
        return float(self.value)  # which waits for the device


def is_on_device(array: Array) -> bool:
    """Return True for an array that only the device can read without waiting."""
    if array.__class__ is np.ndarray:
        return False
    backend = backends.of(array)
    return backend.checks_later or backend.is_accelerator


def number_of(array: Array) -> Any:
    """Return the number in a 0-d array: a Python float, or one that stays on its device."""
    return DeviceNumber(array.astype(np.float64)) if is_on_device(array) else array.item()


def factor_for(values: Any, number: Any) -> Any:
    """Return a number of a rule as a factor by which values can be multiplied in place."""
    return number.value.astype(values.dtype) if isinstance(number, DeviceNumber) else number


def square_root(number: Any) -> Any:
    """Return the square root of a number of a rule."""
    if not isinstance(number, DeviceNumber):
        return math.sqrt(number)
    return DeviceNumber(backends.of(number.value).xp.sqrt(number.value))


def check_capture(optimizer: Any, group: Mapping[str, Any], params: Sequence[Any]) -> None:
    """Refuse a CUDA graph in which the number of steps would stay as it is.

    Raises: RuntimeError: a capture, and the number is not on the device.
    """
    if "capturable" not in group or not params or params[0]._array.__class__ is np.ndarray:
        return
    if not backends.of(params[0]._array).is_capturing():
        return
    name = type(optimizer).__name__
    if not group["capturable"]:
        raise RuntimeError(
            f"Attempting CUDA graph capture of step() for an instance of {name} but "
            f"param_groups' capturable is False. Make it with {name}(..., capturable=True)."
        )
    if not optimizer._step_supports_amp_scaling:
        raise RuntimeError(
            f"{name} cannot be captured as a CUDA graph: the host counts its steps. "
            "Leave step() out of the graph, or take Adam."
        )
