"""NaN and infinities that arise in backward: a warning names the op, not a line of a rule.

NumPy warns of an invalid value where it computes, which in backward is a line inside this
library. So while backward runs, NumPy calls `note` instead, which looks up whose rule it was. When
backward is over, a warning is given if a gradient that somebody gets is not finite: a rule may
take the exponential of a large number and still be right.
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
except ImportError:  # another NumPy: it warns in its own words
    STATE = None


class NonFiniteGradientWarning(RuntimeWarning):
    """A derivative rule has made a NaN or an infinity out of finite numbers."""


ENGINES: dict[CodeType, str] = {}
"""The functions that run a backward: which of their variables is its engine."""


def register_engine(variable: str) -> Callable[..., Any]:
    """Mark a function in which `note` finds the engine in `variable`, and the node in `node`."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        ENGINES[function.__code__] = variable
        return function

    return mark


def record_non_finite(trouble: str, flag: int) -> None:
    """Note the first invalid value of a backward, with the op whose rule has computed it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in ENGINES:
        frame = frame.f_back
    engine = None if frame is None else frame.f_locals[ENGINES[frame.f_code]]
    if engine is None or engine.trouble:
        return
    node, g = frame.f_locals.get("node"), frame.f_locals.get("g")
    if trouble == "overflow" and getattr(getattr(g, "dtype", None), "itemsize", 0) == 2:
        return  # in 16 bits that is everyday: `GradScaler` looks for it, and lowers its scale
    name = "backward" if node is None else node.name()
    engine.trouble = f"{name}: {trouble} encountered in backward"


if STATE is not None:
    DEFAULT = STATE.get()
    REPORTING = _make_extobj(divide="call", over="call", invalid="call", call=record_non_finite)


def start_reporting() -> bool:
    """Let NumPy tell us of invalid values, unless the user has chosen what it does.

    Returns: Whether NumPy's state is to be restored.
    """
    if STATE is None or STATE.get() is not DEFAULT:
        return False
    STATE.set(REPORTING)
    return True


def stop_reporting(started: bool) -> None:
    """Let NumPy do again what it did before."""
    if started:
        STATE.set(DEFAULT)


def warn_of(trouble: str, gradients: Iterable[Any]) -> None:
    """Warn of what was noted in a backward, if one of its gradients is not finite.

    Raises: NonFiniteGradientWarning: as a warning.
    """
    if any(is_non_finite(gradient) for gradient in gradients):
        warn(
            f"{trouble}: its gradient has NaN or infinities\n"
            "  hint: inside autograd.detect_anomaly() the line of the forward is named",
            NonFiniteGradientWarning,
        )


def is_non_finite(gradient: Any) -> bool:
    """Whether a gradient has elements that are not finite."""
    array = getattr(gradient, "_array", gradient)
    return isinstance(array, numpy.ndarray) and not numpy.isfinite(array).all()
