"""Edits the elements of tensors with undo and redo, and the panel for it in a page.

`touch.py` uses it for the inputs of a function; in `live`, `ParameterEditor` lets a page change the
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
from ..live.panel import Panel

if TYPE_CHECKING:
    from ..live.recorder import Recorder
    from ..live.view import View

MOST_NUMBERS = 16
"""A tensor with at most so many elements has a slider for each."""

MOST_CHANGES = 1000
"""The number of changes that can be undone."""


class TouchError(EdutorchError, ValueError):
    """Raised if a value cannot be changed as requested."""


@dataclass
class Change:
    """One change: the tensor's name, and all of its elements before and after."""

    name: str
    before: np.ndarray
    after: np.ndarray
    drag: int = 0  # changes of one drag are undone together; 0: not part of a drag


class TensorEditor:
    """Writes elements of tensors in place, with undo and redo."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = dict(tensors)
        self.done: list[Change] = []
        self.undone: list[Change] = []

    def set(self, name: str, value: object, index: Any = (), drag: int = 0) -> None:
        """Write `value` at `index` of the tensor called `name` (all of it by default).

        Raises: TouchError: there is no such tensor, place or number.
        """
        before = self.array(name)
        after = before.copy()
        try:
            after[index if index != () else ...] = np.asarray(to_numpy_value(value), before.dtype)
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            raise TouchError(
                "touch.set", f"cannot write {value!r} into {name!r}: {error}",
                {name: tuple(before.shape), "index": index},
                "give a number, or as many as the tensor holds",
            ) from None  # fmt: skip
        last = self.done[-1] if self.done else None
        # The moves of one drag replace each other: undo goes back to where it began.
        if drag and last is not None and (last.name, last.drag) == (name, drag):
            last.after = after
        else:
            self.done.append(Change(name, before, after, drag))
            del self.done[:-MOST_CHANGES]
        # As in any editor: a new change ends what could be redone.
        self.undone.clear()
        self.write(name, after)

    def undo(self) -> bool:
        """Undo the last change. Return False if there is none."""
        return self._move(self.done, self.undone, lambda change: change.before)

    def redo(self) -> bool:
        """Redo the last change that was undone. Return False if there is none."""
        return self._move(self.undone, self.done, lambda change: change.after)

    def _move(
        self, source: list[Change], target: list[Change], array_of: Callable[[Change], np.ndarray]
    ) -> bool:
        if not source:
            return False
        change = source.pop()
        target.append(change)
        self.write(change.name, array_of(change))
        return True

    def array(self, name: str) -> np.ndarray:
        """Return a copy of one tensor as an array."""
        if name not in self.tensors:
            known = ", ".join(self.tensors) or "nothing"
            raise TouchError("touch.set", f"there is no {name!r}", hint=f"one can change {known}")
        return np.array(self.tensors[name].detach().cpu().numpy())

    def write(self, name: str, array: np.ndarray) -> None:
        """Write all elements of one tensor."""
        target = self.tensors[name]
        with no_grad():
            # In place: the optimizer and the module keep this very tensor.
            target.copy_(tensor(array, dtype=target.dtype, device=target.device))


def to_numpy_value(value: object) -> Any:
    """Convert a value for NumPy; a page sends numbers as text."""
    if isinstance(value, str):
        return float(value.strip().replace(",", ".").replace("−", "-"))
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else value


def sensible_range(values: np.ndarray, integers: bool = False) -> tuple[float, float]:
    """Return the range of a slider: round numbers around the values.

    >>> sensible_range(np.array(2.0)), sensible_range(np.array([0.3, -0.1]))
    ((-5.0, 5.0), (-1.0, 1.0))
    """
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    peak = float(np.abs(finite).max(initial=0.0))
    if peak == 0:
        return -1.0, 1.0
    size = 10.0 ** math.floor(math.log10(2 * peak))
    # 0.999, so that rounding of 2 * peak does not skip to the next step.
    top = next(size * step for step in (1, 2, 5, 10) if size * step >= 2 * peak * 0.999)
    return (-math.ceil(top), math.ceil(top)) if integers else (-top, top)


def field_of(name: str, leaf: Tensor, bounds: tuple[float, float] | None) -> dict[str, Any]:
    """Return one tensor as a field of the page; only a small one with its elements."""
    small = leaf.numel() <= MOST_NUMBERS and not leaf.is_complex()
    integers = not leaf.is_floating_point()
    values = np.array(leaf.detach().cpu().numpy()) if small else np.zeros(0)
    gradient = []
    if small and leaf.grad is not None:
        gradient = leaf.grad.detach().cpu().numpy().ravel().tolist()
    low, high = bounds or sensible_range(values, integers)
    # JSON has floats only; integers are marked by `whole`.
    floats = [float(value) for value in values.ravel().tolist()]
    finite = [value for value in floats if math.isfinite(value)]
    return {
        "name": name,
        "shape": list(leaf.shape),
        "whole": integers,
        "values": [number_or_text(number) for number in floats],
        "gradients": [number_or_text(gradient_value) for gradient_value in gradient],
        "range": [min([low, *finite]), max([high, *finite])],
    }


def number_or_text(value: float) -> float | str:
    """Return a number, or its text if JSON cannot hold it (NaN and infinities)."""
    return value if math.isfinite(value) else str(value)


# The panel ---------------------------------------------------------------------------


class TouchPart(Panel):
    """The panel of the page with a field for each tensor, undo and redo."""

    name = "touch"

    def __init__(
        self, editor: TensorEditor, ranges: Mapping[str, tuple[float, float]] | None = None
    ) -> None:
        self.editor = editor
        self.ranges = dict(ranges or {})
        self.result = self.error = self.note = ""
        self.serial = 0
        self.drag = 0

    def patch(self) -> Any:
        fields = [field_of(name, leaf, self.ranges.get(name))
                  for name, leaf in self.editor.tensors.items()]  # fmt: skip
        for field in fields:
            if field["values"]:  # a slider keeps its range while it is used
                self.ranges[field["name"]] = tuple(field["range"])
        return {
            "fields": fields,
            "undo": len(self.editor.done),
            "redo": len(self.editor.undone),
            "result": self.result,
            "error": self.error,
            "note": self.note,
            "serial": self.serial,
            "still": self.drag != 0,
        }

    def act(self, content: Mapping[str, Any]) -> bool:
        """Handle a request of the page; set `error` if it is invalid."""
        action = content.get("act")
        self.error, self.drag = "", int(content.get("drag") or 0)
        self.serial += 1
        if action in ("undo", "redo"):
            return self.editor.undo() if action == "undo" else self.editor.redo()
        try:
            name = str(content.get("name"))
            place = index_of(content.get("index", 0), self.editor.array(name).shape)
            self.editor.set(name, content.get("to"), place, self.drag)
        except TouchError as error:
            self.error = str(error)
            return False
        return True


def index_of(request: str | float, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return an index into a tensor: a page sends the flat index, or the user writes "2, 0"."""
    try:
        if isinstance(request, str) and ("," in request or len(shape) < 2):
            texts = request.replace("[", "").replace("]", "").split(",")
            index = tuple(int(text) for text in texts)
            np.empty(shape, "b")[index]
            return index
        return tuple(int(axis_index) for axis_index in np.unravel_index(int(request), shape))
    except (ValueError, IndexError, TypeError):
        raise TouchError(
            "touch.set", f"there is no place {request!r}", {"shape": shape},
            f"write {len(shape)} indices, as {', '.join('0' for _ in shape) or '0'}",
        ) from None  # fmt: skip


MOST_TENSORS = 200


class ParameterEditor(TouchPart):
    """Changes parameters of a running model while its loop is paused.

    The page's messages arrive on any thread. They wait until the loop is between two steps: a
    change in the middle of a step would make its gradient wrong. Without an optimizer a step ends
    when the next one has begun to compute; then they wait for the end of its backward.
    """

    def __init__(self, names: Names, paused: Callable[[], bool]) -> None:
        super().__init__(TensorEditor({}))
        self.names, self.paused = names, paused
        self._asked: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._open = False
        self._safe = True  # whether the loop is at a point where a tensor may be written

    @classmethod
    def of(cls, view: View) -> ParameterEditor:
        return cls(view._names, lambda: view._gate.paused)

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
        self.editor.tensors = self.find()
        self.note = "" if self._asked.empty() else "the change is made when the next step is over"
        return {**super().patch(), "compact": True}

    def find(self) -> dict[str, Tensor]:
        """Return the parameters by name; without a model, the leaves that require gradients."""
        tensors: dict[str, Tensor] = {}
        for model in self.names.models:
            for parameter in model.parameters():
                tensors[self.names.path_of_leaf(parameter)] = parameter
        if not tensors:
            for name, value in variables(self.names.frame):
                if isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
                    tensors.setdefault(name, value)
        return dict(list(tensors.items())[:MOST_TENSORS])

    def _apply(self) -> None:
        """Apply the requested changes."""
        while not self._asked.empty():
            content = self._asked.get()
            self.editor.tensors = self.find()
            try:
                self.act(content)
            except TouchError as error:  # an undo of a tensor that no longer exists
                self.error = str(error)


NOTHING: dict[str, Any] = {
    "fields": [], "undo": 0, "redo": 0, "result": "", "error": "", "note": "", "still": True,
    "compact": True,
}  # fmt: skip
"""The message that removes the panel when the loop runs again."""
