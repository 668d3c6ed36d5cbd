"""A hand that changes numbers in tensors and can take each change back, and its panel in a page.

`touch.py` uses it for what goes into a function; in `live`, `BetweenSteps` lets a page change the
parameters of the model that is being trained.
"""

from __future__ import annotations

import math
import queue
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...autograd import no_grad
from ...core.tensor import Tensor
from ...errors import EdutorchError
from ...events import WorkEnded
from ...ops import tensor
from ..graph.names import Names, variables
from ..live.panel import Part

if TYPE_CHECKING:
    from ..live.recorder import Recorder

MOST_NUMBERS = 16
"""A tensor with at most so many numbers has a slider for each."""

MOST_CHANGES = 1000
"""So many changes can be taken back."""


class TouchError(EdutorchError, ValueError):
    """A value cannot be changed as it was asked for."""


@dataclass
class Change:
    """One change: where, and all numbers of that tensor before and after it."""

    name: str
    before: np.ndarray
    after: np.ndarray
    drag: int = 0  # changes of one drag are taken back together; 0: not of a drag


class Hand:
    """Writes numbers into tensors in place, and can undo and redo what it did."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)
        self.done: list[Change] = []
        self.undone: list[Change] = []

    def set(self, name: str, value: Any, index: Any = (), drag: int = 0) -> None:
        """Write `value` at `index` of the tensor called `name` (all of it by default).

        Raises: TouchError: there is no such tensor, place or number.
        """
        before = self.array(name)
        after = before.copy()
        try:
            after[index if index != () else ...] = np.asarray(given(value), before.dtype)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise TouchError(
                "touch.set", f"cannot write {value!r} into {name!r}: {error}",
                {name: tuple(before.shape), "index": index},
                "give a number, or as many as the tensor holds",
            ) from None  # fmt: skip
        last = self.done[-1] if self.done else None
        if drag and last is not None and (last.name, last.drag) == (name, drag):
            last.after = after
        else:
            self.done.append(Change(name, before, after, drag))
            del self.done[:-MOST_CHANGES]
        self.undone.clear()
        self.write(name, after)

    def undo(self) -> bool:
        """Take the last change back. False: there is none."""
        return self._move(self.done, self.undone, lambda change: change.before)

    def redo(self) -> bool:
        """Make the last change that was taken back once more. False: there is none."""
        return self._move(self.undone, self.done, lambda change: change.after)

    def _move(
        self, here: list[Change], there: list[Change], wanted: Callable[[Change], np.ndarray]
    ) -> bool:
        if not here:
            return False
        change = here.pop()
        there.append(change)
        self.write(change.name, wanted(change))
        return True

    def array(self, name: str) -> np.ndarray:
        """Return a copy of the numbers of one tensor."""
        if name not in self.tensors:
            known = ", ".join(self.tensors) or "nothing"
            raise TouchError("touch.set", f"there is no {name!r}", hint=f"one can change {known}")
        return np.array(self.tensors[name].detach().cpu().numpy())

    def write(self, name: str, numbers: np.ndarray) -> None:
        """Put all numbers of one tensor in their place."""
        held = self.tensors[name]
        with no_grad():
            held.copy_(tensor(numbers, dtype=held.dtype, device=held.device))


def given(value: Any) -> Any:
    """Return a value as NumPy takes it; from a page numbers come as text."""
    if isinstance(value, str):
        return float(value.strip().replace(",", ".").replace("−", "-"))
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def sensible_range(numbers: np.ndarray, whole: bool = False) -> tuple[float, float]:
    """Return where a slider begins and ends: round numbers around what is there.

    >>> sensible_range(np.array(2.0)), sensible_range(np.array([0.3, -0.1]))
    ((-5.0, 5.0), (-1.0, 1.0))
    """
    finite = numbers[np.isfinite(numbers)] if numbers.dtype.kind == "f" else numbers
    peak = float(np.abs(finite).max(initial=0.0))
    if peak == 0:
        return -1.0, 1.0
    size = 10.0 ** math.floor(math.log10(2 * peak))
    top = next(size * step for step in (1, 2, 5, 10) if size * step >= 2 * peak * 0.999)
    return (-math.ceil(top), math.ceil(top)) if whole else (-top, top)


def field_of(name: str, held: Tensor, bounds: tuple[float, float] | None) -> dict[str, Any]:
    """Describe one tensor for the page; only a small one with its numbers."""
    small = held.numel() <= MOST_NUMBERS and not held.is_complex()
    whole = not held.is_floating_point()
    numbers = np.array(held.detach().cpu().numpy()) if small else np.zeros(0)
    gradient = []
    if small and held.grad is not None:
        gradient = held.grad.detach().cpu().numpy().ravel().tolist()
    low, high = bounds or sensible_range(numbers, whole)
    values = [float(each) for each in numbers.ravel().tolist()]
    finite = [value for value in values if math.isfinite(value)]
    return {
        "name": name,
        "shape": list(held.shape),
        "whole": whole,
        "values": [number_or_text(value) for value in values],
        "gradients": [number_or_text(each) for each in gradient],
        "range": [min([low, *finite]), max([high, *finite])],
    }


def number_or_text(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else str(value)


# The panel ---------------------------------------------------------------------------


class TouchPart(Part):
    """The panel of fields, and of what can be undone."""

    name = "touch"

    def __init__(self, hand: Hand, ranges: Mapping[str, tuple[float, float]] | None = None) -> None:
        self.hand = hand
        self.ranges = dict(ranges or {})
        self.result = self.error = self.note = ""
        self.serial = 0
        self.drag = 0

    def patch(self) -> Any:
        fields = [field_of(name, held, self.ranges.get(name))
                  for name, held in self.hand.tensors.items()]  # fmt: skip
        for field in fields:
            if field["values"]:  # a slider keeps its ends while it is used
                self.ranges[field["name"]] = tuple(field["range"])
        return {
            "fields": fields,
            "undo": len(self.hand.done),
            "redo": len(self.hand.undone),
            "result": self.result,
            "error": self.error,
            "note": self.note,
            "serial": self.serial,
            "still": self.drag != 0,
        }

    def act(self, content: Mapping[str, Any]) -> bool:
        """Do what the page asks for; what is wrong with it stands in `error`."""
        action = content.get("act")
        self.error, self.drag = "", int(content.get("drag") or 0)
        self.serial += 1
        if action in ("undo", "redo"):
            return self.hand.undo() if action == "undo" else self.hand.redo()
        try:
            name = str(content.get("name"))
            place = index_of(content.get("index", 0), self.hand.array(name).shape)
            self.hand.set(name, content.get("to"), place, self.drag)
        except TouchError as error:
            self.error = str(error)
            return False
        return True


def index_of(asked: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a place in a tensor: a page counts the numbers from 0, or a person writes "2, 0"."""
    try:
        if isinstance(asked, str) and ("," in asked or len(shape) < 2):
            found = tuple(int(part) for part in asked.replace("[", "").replace("]", "").split(","))
            np.empty(shape, "b")[found]
            return found
        return tuple(int(each) for each in np.unravel_index(int(asked), shape))
    except (ValueError, IndexError, TypeError):
        raise TouchError(
            "touch.set", f"there is no place {asked!r}", {"shape": shape},
            f"write {len(shape)} indices, as {', '.join('0' for _ in shape) or '0'}",
        ) from None  # fmt: skip


MOST_TENSORS = 200


class BetweenSteps(TouchPart):
    """Changes parameters of a running model, while its loop is paused.

    The page's messages come on any thread. They wait until the loop stands between two steps:
    a change in the middle would make a gradient wrong. Without an optimizer a step ends when
    the next one has begun to compute; then they wait for the end of its backward.
    """

    def __init__(self, names: Names, paused: Callable[[], bool]) -> None:
        super().__init__(Hand({}))
        self.names, self.paused = names, paused
        self._asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._open = False
        self._safe = True  # the loop stands where a tensor may be written

    def take(self, event: Any) -> None:
        if isinstance(event, WorkEnded) and event.kind == "backward" and not self._safe:
            self._apply()

    def step_ended(self, recorder: Recorder) -> None:
        self._safe = recorder.has_optimizer
        if self._safe:
            self._apply()

    def command(self, content: dict[str, Any]) -> bool:
        if content.get("type") != "touch":
            return False
        self._asked.put(content)
        return True

    def patch(self) -> Any:
        if self._safe:
            self._apply()
        if not self.paused():
            was_open, self._open = self._open, False
            return {**NOTHING, "serial": self.serial} if was_open else None
        self._open = True
        self.hand.tensors = self.find()
        self.note = "" if self._asked.empty() else "the change is made when the next step is over"
        return {**super().patch(), "compact": True}

    def find(self) -> dict[str, Tensor]:
        """Return the parameters by name; without a model, the variables that have a gradient."""
        found: dict[str, Tensor] = {}
        for model in self.names.models:
            for parameter in model.parameters():
                found[self.names.path_of_leaf(parameter)] = parameter
        if not found:
            for name, value in variables(self.names.frame):
                if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
                    found.setdefault(name, value)
        return dict(list(found.items())[:MOST_TENSORS])

    def _apply(self) -> None:
        """Make the changes that were asked for."""
        while not self._asked.empty():
            content = self._asked.get()
            self.hand.tensors = self.find()
            try:
                self.act(content)
            except TouchError as error:  # undo, and the tensor is no longer there
                self.error = str(error)


NOTHING: dict[str, Any] = {
    "fields": [], "undo": 0, "redo": 0, "result": "", "error": "", "note": "", "still": True,
    "compact": True,
}  # fmt: skip
"""What the panel is told when the loop runs again: it goes away."""
