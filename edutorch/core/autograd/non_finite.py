"""Warnings about NaN and infinities in backward, which name the op and not a line of a rule.

NumPy warns about an invalid value where it computes, which in backward is a line inside this
library. So during backward NumPy calls `record_non_finite` instead, which looks up the op of the
rule. At the end of backward a warning is given if one of the resulting gradients is not finite: a
rule may take the exponential of a large number and still be right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

import numpy

from ...errors import warn

try:  # setting NumPy's own variable costs a third of what `numpy.errstate` costs
    from numpy._core.umath import _extobj_contextvar as STATE
    from numpy._core.umath import _make_extobj
except ImportError:  # another NumPy: its own warnings stay
    STATE = None


class NonFiniteGradientWarning(RuntimeWarning):
    """A derivative rule has computed a NaN or an infinity from finite elements."""


ENGINES: dict[CodeType, str] = {}
"""The functions that run backward, with the name of their variable that holds the engine."""


def register_engine(variable: str) -> Callable[..., Any]:
    """Register a function that holds its engine in `variable` and the current node in `node`."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        ENGINES[function.__code__] = variable
        return function

    return mark


def record_non_finite(problem: str, flag: int) -> None:
    """Record the first invalid value of a backward pass, with the op whose rule computed it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in ENGINES:
        frame = frame.f_back
    engine = None if frame is None else frame.f_locals[ENGINES[frame.f_code]]
    if engine is None or engine.non_finite_message:
        return
    node, g = frame.f_locals.get("node"), frame.f_locals.get("g")
    if problem == "overflow" and getattr(getattr(g, "dtype", None), "itemsize", 0) == 2:
        return  # usual in 16 bits: `GradScaler` checks for it, and lowers its scale
    name = "backward" if node is None else node.name()
    engine.non_finite_message = f"{name}: {problem} encountered in backward"


if STATE is not None:
    DEFAULT = STATE.get()
    REPORTING = _make_extobj(divide="call", over="call", invalid="call", call=record_non_finite)


def start_reporting() -> bool:
    """Make NumPy report invalid values to us, unless the user has changed its settings.

    Returns: whether NumPy's state has to be restored.
    """
    if STATE is None or STATE.get() is not DEFAULT:
        return False
    STATE.set(REPORTING)
    return True


def stop_reporting(started: bool) -> None:
    """Restore NumPy's settings."""
    if started:
        STATE.set(DEFAULT)


def warn_of(message: str, gradients: Iterable[Any]) -> None:
    """Warn about what was recorded in backward, if one of the gradients is not finite.

    Raises: NonFiniteGradientWarning: as a warning.
    """
    if any(is_non_finite(gradient) for gradient in gradients):
        warn(
            f"{message}: its gradient has NaN or infinities\n"
            "  hint: inside autograd.detect_anomaly() the line of the forward is named",
            NonFiniteGradientWarning,
        )


def is_non_finite(gradient: Any) -> bool:
    """Whether a gradient has elements that are not finite."""
    array = getattr(gradient, "_array", gradient)
    return isinstance(array, numpy.ndarray) and not numpy.isfinite(array).all()
