"""Anomaly detection: find the op of the forward pass whose backward produced a NaN.

It is a listener like any other (see `events.py`), without any cost while it is off.
"""

from __future__ import annotations

from typing import Any

from .. import backends
from ..core.autograd.graph import Node
from ..core.tensor import array_of, wrap
from ..errors import GradientError
from ..events import GradientFlowed
from ..modes import ModeContext, Modes, current, switch

__all__ = ["detect_anomaly", "is_anomaly_enabled", "set_detect_anomaly"]


class AnomalyCheck:
    """The listener that checks each gradient. (While it listens, ops record their source line.)"""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan

    def __call__(self, event: object) -> None:
        """Check the gradient of an event.

        Raises: GradientError: it contains a NaN.
        """
        if isinstance(event, GradientFlowed) and self.check_nan:
            array = wrap(array_of(event.gradient))._array  # an array even if it is 0-d
            array = getattr(array, "all_examples", array)  # inside of vmap
            if bool(backends.of(array).xp.isnan(array).any()):
                raise nan_error(event.node, event.index)


def nan_error(node: Node, index: int) -> GradientError:
    """Return the error for a NaN in the gradient of one input of a node."""
    unknown = "not recorded: the mode was off while it ran"
    return GradientError(
        "detect_anomaly",
        f"Function '{node.name()}' returned nan values in its {index}th output.",
        {"forward": node.source or unknown},
        "look for 0/0, sqrt(0), log of a negative number or inf - inf at that line",
    )


class detect_anomaly(ModeContext):
    """Raise an error at the first NaN in backward, with the op and its source line.

    Both forward and backward have to be inside the block. It is slow: for debugging only.

    >>> x = tensor(0.0, requires_grad=True)
    >>> with autograd.detect_anomaly():
    ...     y = (x * 0) / x
    ...     y.backward()
    Traceback (most recent call last):
    edutorch.errors.GradientError: detect_anomaly: Function 'DivBackward0' returned nan ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        super().__init__()
        self.check_nan = check_nan

    def changes(self, modes: Modes) -> dict[str, Any]:
        others = tuple(
            listener for listener in modes.listeners if not isinstance(listener, AnomalyCheck)
        )
        return {"listeners": (*others, AnomalyCheck(self.check_nan))}

    def clone(self) -> ModeContext:
        """Return a new context with the same setting."""
        return detect_anomaly(self.check_nan)


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly mode on or off: at once, and for a `with` block if used as one.

    >>> with autograd.set_detect_anomaly(True):
    ...     autograd.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(check_nan)
        self.mode = mode
        self._outer = before = current()
        switch(before, **self.changes(before))

    def changes(self, modes: Modes) -> dict[str, Any]:
        if self.mode:
            return super().changes(modes)
        return {"listeners": tuple(x for x in modes.listeners if not isinstance(x, AnomalyCheck))}

    def clone(self) -> ModeContext:
        """Return a new context with the same setting."""
        return set_detect_anomaly(self.mode, self.check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread.

    >>> is_anomaly_enabled()
    False
    """
    return any(isinstance(listener, AnomalyCheck) for listener in current().listeners)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode is on in this thread and checks for NaN.

    >>> is_anomaly_check_nan_enabled()
    False
    """
    return any(
        isinstance(listener, AnomalyCheck) and listener.check_nan
        for listener in current().listeners
    )


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off in this thread, from now on.

    >>> set_anomaly_enabled(True); is_anomaly_enabled()
    True
    >>> set_anomaly_enabled(False); is_anomaly_enabled()
    False
    """
    set_detect_anomaly(mode, check_nan)
