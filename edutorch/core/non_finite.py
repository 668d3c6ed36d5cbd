"""NaN and infinities that arise in backward: a warning names the op, not a line of a rule.

NumPy warns of an invalid value where it computes, which in backward is a line inside this
library. So while backward runs, NumPy calls `report` instead, which looks up whose rule it was.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from ..errors import warn

try:  # setting NumPy's own variable costs a third of what `numpy.errstate` costs
    from numpy._core.umath import _extobj_contextvar as STATE
    from numpy._core.umath import _make_extobj
except ImportError:  # another NumPy: it warns in its own words
    STATE = None


class NonFiniteGradientWarning(RuntimeWarning):
    """A derivative rule has made a NaN or an infinity out of finite numbers."""


def report(kind: str, flag: int) -> None:
    """Warn of an invalid value, with the op whose rule has computed it."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code not in ENGINES:
        frame = frame.f_back
    node = None if frame is None else frame.f_locals.get("node")
    name = "backward" if node is None else node.name()
    warn(
        f"{name}: {kind} encountered in backward: its gradient has NaN or infinities\n"
        "  hint: inside autograd.detect_anomaly() the line of the forward is named",
        NonFiniteGradientWarning,
    )


ENGINES: set[CodeType] = set()
"""The code of the loops that run nodes; each has the present one in `node`."""

if STATE is not None:
    DEFAULT = STATE.get()
    REPORTING = _make_extobj(divide="call", over="call", invalid="call", call=report)


def names_op(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the loop of the engine, where `report` finds the node."""
    ENGINES.add(function.__code__)
    return function


def start_reporting() -> Any:
    """Let NumPy report here, unless the user has chosen what it does. Returns what ends it."""
    if STATE is None or STATE.get() is not DEFAULT:
        return None
    return STATE.set(REPORTING)


def stop_reporting(token: Any) -> None:
    """Let NumPy do again what it did before `start_reporting`."""
    if token is not None:
        STATE.reset(token)
