"""What the losses of a step are called: by the variables that hold them."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from types import CodeType, FrameType
from typing import Any

INNER = ("edutorch.core", "edutorch.viz", "edutorch.events", "edutorch.autograd", "edutorch.amp",
         "edutorch.modes", "contextlib", "functools")  # fmt: skip


FRAMES = 6
"""A variable is looked for in so many functions, from where backward was called outwards."""

MOST = 12
"""So many losses have names of their own: a loop written out at length has no more curves."""


@functools.lru_cache(1000)
def is_inner(module: str) -> bool:
    """Whether the functions of a module, by its name, stand between backward and its caller."""
    return module.startswith(INNER)


class LossNames:
    """Names the losses by the places in the code where backward runs on them.

    Attributes:
        several: backward runs at several places: each loss has a curve.
        values: the last value of each loss, by name.
        passes: name and value of each loss of the step that runs.
        sequence: the names of the losses of the last step that was heard, in order.
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

    def note(self, root: Any, value: float, frame: FrameType | None) -> None:
        """Note a loss on which backward ran, called from `frame`."""
        while frame is not None and is_inner(frame.f_globals.get("__name__", "")):
            frame = frame.f_back
        if frame is None:
            return
        place = frame.f_code, frame.f_lasti
        name = self._names.get(place)
        if name is None:
            if len(self._names) == MOST:
                return
            name = self._names[place] = self._free(variable_of(root, frame) or "loss")
        self.values[name] = value
        self.passes.append((name, value))

    def _free(self, name: str) -> str:
        """Return a name that no loss has yet: backward on `loss` at a second place is `loss 2`."""
        taken = self._names.values()
        others = (f"{name} {number}" for number in itertools.count(2))
        return next(each for each in (name, *itertools.islice(others, MOST)) if each not in taken)

    def drop_passes(self) -> None:
        """Forget the losses since the last step: they belong to the step of somebody else."""
        self.values, self.passes = dict(self._ended), []
        places = self._names.items()
        self._names = {place: name for place, name in places if name in self._ended}

    def join(self, steps: int) -> None:
        """Take the losses of the last steps into the one that runs: they were parts of it."""
        parts = list(self._recent)[-steps:] if steps > 0 else []
        self.passes[:0] = itertools.chain.from_iterable(parts)

    def end_step(self, rested: list[float]) -> dict[str, float]:
        """Return the losses of the step that ends, by name.

        Args:
            rested: those of which only the values were heard.
        """
        if rested and not self.passes:
            self.values |= self.named(rested)
            self._ended = dict(self.values)
            return self.named(rested)
        self.sequence = [name for name, _ in self.passes] or self.sequence
        self._recent.append(self.passes)
        found, self.passes = dict(self.passes), []
        self._ended |= found
        return found

    def named(self, values: list[float]) -> dict[str, float]:
        """Name the losses of a step like the one heard last."""
        if len(values) != len(self.sequence):  # of these, only the last is sure
            return dict(zip(self.sequence[-1:], values[-1:], strict=False))
        return dict(zip(self.sequence, values, strict=True))


def variable_of(root: Any, frame: FrameType | None) -> str:
    """Return the name of the variable that holds a tensor; "" if there is none."""
    for _ in range(FRAMES):
        if frame is None:
            return ""
        for name, value in frame.f_locals.items():
            if value is root and not name.startswith("_") and name != "self":
                return name
        frame = frame.f_back
    return ""
