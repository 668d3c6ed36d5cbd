"""Names of the losses of a step, taken from the variables that hold them."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from types import CodeType, FrameType
from typing import Any

INNER = ("edutorch.core", "edutorch.viz", "edutorch.events", "edutorch.autograd", "edutorch.amp",
         "edutorch.modes", "contextlib", "functools")  # fmt: skip


FRAMES = 6
"""The number of frames searched for a variable, outwards from the call of backward."""

MOST = 12
"""The largest number of named losses: an unrolled loop has no more curves."""


@functools.lru_cache(1000)
def is_inner(module: str) -> bool:
    """Whether functions of a module, given by name, may lie between backward and its caller."""
    return module.startswith(INNER)


class LossNames:
    """Names the losses by the code locations where backward runs on them.

    Attributes:
        several: whether backward runs at several locations, so that each loss has a curve.
        values: the last value of each loss, by name.
        passes: name and value of each loss of the running step.
        sequence: the names of the losses of the last recorded step, in order.
    """

    def __init__(self) -> None:
        self.values: dict[str, float] = {}
        self.passes: list[tuple[str, float]] = []
        self.sequence: list[str] = []
        self._recent: deque[list[tuple[str, float]]] = deque(maxlen=MOST)
        self._names: dict[tuple[CodeType, int], str] = {}
        self._ended: dict[str, float] = {}  # `values` when the last step ended

    @property
    def several(self) -> bool:
        """Whether there is more than one loss."""
        return len(self._names) > 1

    def record(self, root: Any, value: float, frame: FrameType | None) -> None:
        """Record a loss on which backward ran, called from `frame`."""
        while frame is not None and is_inner(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        if frame is None:
            return
        location = frame.f_code, frame.f_lasti
        name = self._names.get(location)
        if name is None:
            if len(self._names) == MOST:
                return
            name = self._names[location] = self._unused_name(variable_of(root, frame) or "loss")
        self.values[name] = value
        self.passes.append((name, value))

    def _unused_name(self, name: str) -> str:
        """Return an unused name: backward on `loss` at a second location is `loss 2`."""
        taken = self._names.values()
        numbered = (f"{name} {suffix}" for suffix in itertools.count(2))
        candidates = (name, *itertools.islice(numbered, MOST))
        return next(candidate for candidate in candidates if candidate not in taken)

    def drop_passes(self) -> None:
        """Drop the losses since the last step: they belong to a step of another model."""
        self.values, self.passes = dict(self._ended), []
        names = self._names.items()
        self._names = {location: name for location, name in names if name in self._ended}

    def join(self, steps: int) -> None:
        """Merge the losses of the last `steps` steps into the running step."""
        parts = list(self._recent)[-steps:] if steps > 0 else []
        self.passes[:0] = itertools.chain.from_iterable(parts)

    def end_step(self, silent_values: list[float]) -> dict[str, float]:
        """Return the losses of the step that ends, by name.

        Args:
            silent_values: losses of which only the values were recorded.
        """
        if silent_values and not self.passes:
            self.values |= self.name_values(silent_values)
            self._ended = dict(self.values)
            return self.name_values(silent_values)
        self.sequence = [name for name, _ in self.passes] or self.sequence
        self._recent.append(self.passes)
        losses, self.passes = dict(self.passes), []
        self._ended |= losses
        return losses

    def name_values(self, values: list[float]) -> dict[str, float]:
        """Return losses by name, assuming the order of the last recorded step."""
        if len(values) != len(self.sequence):  # only the name of the last loss is certain
            return dict(zip(self.sequence[-1:], values[-1:], strict=False))
        return dict(zip(self.sequence, values, strict=True))


def variable_of(root: Any, frame: FrameType | None) -> str:
    """Return the name of the variable that holds a tensor, or ""."""
    for _ in range(FRAMES):
        if frame is None:
            return ""
        for name, value in frame.f_locals.items():
            if value is root and not name.startswith("_") and name != "self":
                return name
        frame = frame.f_back
    return ""
