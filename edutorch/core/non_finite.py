"""NaN and infinities that arise in backward: a warning names the op, not a line of a rule.

NumPy warns of an invalid value where it computes, which in backward is a line inside this
library. So while backward runs, NumPy calls `note` instead, which looks up whose rule it was. When
backward is over, a warning is given if a gradient that somebody gets is not finite: a rule may
take the exponential of a large number and still be right.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar, Token
from types import CodeType
from typing import Any, NamedTuple

import numpy

from ..errors import warn

try:  # setting NumPy's own variable costs a third of what `numpy.errstate` costs
    from numpy._core.umath import _extobj_contextvar as STATE
    from numpy._core.umath import _make_extobj
except ImportError:  # another NumPy: it warns in its own words
    STATE = None


class NonFiniteGradientWarning(RuntimeWarning):
    """A derivative rule has made a NaN or an infinity out of finite numbers."""


_NOTED: ContextVar[list[str]] = ContextVar("what NumPy said of the backward that runs")


def note(trouble: str, flag: int) -> None:
    """Note the first invalid value of a backward, with the op whose rule has computed it."""
    noted = _NOTED.get(None)
    if noted:
        return
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in ENGINES:
        frame = frame.f_back
    node = None if frame is None else frame.f_locals.get("node")
    g = None if frame is None else frame.f_locals.get("g")
    if trouble == "overflow" and getattr(getattr(g, "dtype", None), "itemsize", 0) == 2:
        return  # in 16 bits that is everyday: `GradScaler` looks for it, and lowers its scale
    name = "backward" if node is None else node.name()
    if noted is not None:
        noted.append(f"{name}: {trouble} encountered in backward")


ENGINES: set[CodeType] = set()
"""The code of the loops that run nodes; each has the present one in `node`."""

if STATE is not None:
    DEFAULT = STATE.get()
    REPORTING = _make_extobj(divide="call", over="call", invalid="call", call=note)


def names_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the loop of the engine, where `note` finds the node."""
    ENGINES.add(function.__code__)
    return function


class Reporting(NamedTuple):
    """What ends it: NumPy's state before, and what was noted in a backward around this one."""

    state: Token[Any]
    noted: Token[list[str]]


def start_reporting() -> Reporting | None:
    """Let NumPy tell us of invalid values, unless the user has chosen what it does."""
    if STATE is None or STATE.get() not in (DEFAULT, REPORTING):
        return None
    return Reporting(STATE.set(REPORTING), _NOTED.set([]))


def stop_reporting(reporting: Reporting | None, gradients: Callable[[], Iterable[Any]]) -> None:
    """Let NumPy do again what it did before, and warn if one of the gradients is not finite.

    Raises: NonFiniteGradientWarning: as a warning.
    """
    if reporting is None:
        return
    STATE.reset(reporting.state)
    noted = _NOTED.get()
    _NOTED.reset(reporting.noted)
    if noted and any(is_broken(gradient) for gradient in gradients()):
        warn(
            f"{noted[0]}: its gradient has NaN or infinities\n"
            "  hint: inside autograd.detect_anomaly() the line of the forward is named",
            NonFiniteGradientWarning,
        )


def is_broken(gradient: Any) -> bool:
    """Whether a gradient has elements that are not finite."""
    array = getattr(gradient, "_array", gradient)
    return isinstance(array, numpy.ndarray) and not numpy.isfinite(array).all()
