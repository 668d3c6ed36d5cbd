"""An exception in forward or backward: the graph as far as it got, and the op that failed in red.

The exception goes on its way. What stays is plain data: no tensor is kept by a picture.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from ..core.autograd import reachable
from ..core.tensor import LEAF, Tensor
from ..errors import EdutorchError
from ..events import WorkEnded, WorkStarted
from ..lines import read_line
from .graph import Key, Snapshot, Vertex, arrange
from .names import Names, variables
from .recorder import Recorder
from .summaries import Stats, summarize
from .trace import add_leaf, leaf_vertex, op_vertex, sources_of
from .trouble_words import Finding

FAILED: Key = ("failed",)


@dataclass
class Operand:
    """What an op was given, as plain data: where it came from, and how it looked."""

    name: str
    key: Key | None  # the op that made it
    vertex: Vertex | None  # how to draw it where it is not in the graph yet
    shape: str


class Failing:
    """Notes which op, or which rule, is at work, so that it is known when it fails."""

    hears = (WorkStarted, WorkEnded)
    works = ("op", "node")

    def __init__(self, names: Names) -> None:
        self.names = names
        self._at_work: list[WorkStarted] = []
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self.op, self.operands, self.node = "", [], 0
        self._at_work.clear()

    def take(self, event: Any) -> None:
        """Hear an event."""
        if event.__class__ is WorkStarted:
            self._at_work.append(event)
        elif self._at_work:
            started = self._at_work.pop()
            if event.failed and not self.op:
                self._note(started)

    def _note(self, started: WorkStarted) -> None:
        subject = started.subject
        if started.kind == "node":
            self.op, self.node = subject.op.name, subject._order
            return
        self.op = getattr(subject, "name", type(subject).__name__)
        names = list(getattr(subject, "inputs", ()))
        if getattr(subject, "variadic", False) or len(names) != len(started.inputs):
            names = [f"[{number}]" for number in range(len(started.inputs))]
        self.operands = [
            operand(name, given, self.names)
            for name, given in zip(names, started.inputs, strict=True)
            if given is not None
        ]


def operand(name: str, given: Any, names: Names) -> Operand:
    """Turn what an op was given into plain data."""
    if not isinstance(given, Tensor):
        text = f"{given:g}" if isinstance(given, int | float) else type(given).__name__
        return Operand(name, None, None, text)
    shape = "×".join(map(str, given.shape)) or "scalar"
    if given._node is not None and given._node is not LEAF:
        vertex = op_vertex(given._node)
        vertex.value = numbers(given)
        return Operand(name, given._node._order, vertex, shape)
    vertex = leaf_vertex(given, names)
    vertex.value = numbers(given)
    return Operand(name, ("operand", id(given)), vertex, shape)


def numbers(tensor: Tensor) -> Stats | None:
    """Summarize a tensor, if that does not fail as well."""
    try:
        return summarize(tensor._array)
    except Exception:  # noqa: BLE001  (an operand of something that has failed)
        return None


# The picture ----------------------------------------------------------------------------------


@dataclass
class Failure:
    """What is left of a computation that failed: a picture and a sentence."""

    snapshot: Snapshot | None
    finding: Finding
    others: tuple[Finding, ...] = ()


class Last:
    """The last failure that was seen, for `viz.post_mortem`."""

    failure: Failure | None = None


def explained(error: BaseException, op: str) -> Finding:
    """Say what an exception says, and where in the user's code it came from."""
    message = getattr(error, "message", "") or str(error) or type(error).__name__
    hint = getattr(error, "hint", None) or "Look at the shapes of what went in, in the picture."
    rows = tuple(f"{name} = {value}" for name, value in getattr(error, "arguments", {}).items())
    name = op or getattr(error, "op", "") or type(error).__name__
    message = " ".join(message.split())
    return Finding(
        "error", f"{name} failed: {message[:300]}", f"{hint[:1].upper()}{hint[1:300]}",
        place_of(error), rows, subject="error",
    )  # fmt: skip


def place_of(error: BaseException) -> str:
    """Return the innermost line of the user's code that an exception came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        if not frame.f_globals.get("__name__", "").startswith("edutorch."):
            source = read_line((frame.f_code, trace.tb_lasti))
            found = f"{Path(source.file).name}:{source.line}  {source.text}".rstrip()
        trace = trace.tb_next
    return found


def failure_of(
    recorder: Recorder,
    failing: Failing,
    error: BaseException,
    others: tuple[Finding, ...] = (),
    vertices: dict[Key, Vertex] | None = None,
) -> Failure:
    """Draw the graph as far as it got (or these `vertices`), and the op that failed."""
    said = explained(error, failing.op)
    vertices = recorder.graph.by_identity() if vertices is None else vertices
    made = failing.op and not failing.node
    if failing.node in vertices:
        failed = vertices[failing.node]
        failed.kind, failed.label = "failed", f"✗ backward of {failed.label}"
    elif made or (not vertices and isinstance(error, EdutorchError)):
        add_failed(vertices, failing, error, said)
    if not vertices:
        snapshot = recorder.snapshot
    else:
        used = {key for vertex in vertices.values() for _, key in vertex.sources}
        ends = [key for key, vertex in vertices.items()
                if key not in used and vertex.kind in ("op", "failed")]  # fmt: skip
        snapshot = arrange(vertices, ends, recorder.names.classes)
    Last.failure = Failure(snapshot, said, others)
    return Last.failure


def add_failed(
    vertices: dict[Key, Vertex], failing: Failing, error: BaseException, said: Finding
) -> None:
    """Add the box of an op that has no result, and those of its operands."""
    sources, shapes = [], []
    for each in failing.operands:
        if each.key is None or each.vertex is None:
            continue
        key = known_leaf(vertices, each)
        vertices.setdefault(key, each.vertex)
        sources.append((each.name, key))
        shapes.append(each.shape)
    if not failing.operands:
        for label, value in getattr(error, "arguments", {}).items():
            if not value.startswith("("):
                continue  # a row that says something else: the module, a setting
            key = ("argument", label)
            vertices[key] = Vertex("constant", label.partition(" ")[0], differentiable=False,
                                   shape=shape_in(value), dtype="")  # fmt: skip
            sources.append((label.partition(" ")[0], key))
            shapes.append(value)
    module = next((vertices[key].module for _, key in sources if vertices[key].module), "")
    vertices[FAILED] = Vertex(
        "failed", f"✗ {failing.op or getattr(error, 'op', None) or 'error'}", module,
        dtype=" with ".join(shapes), differentiable=False, line=said.line, sources=tuple(sources),
    )  # fmt: skip


def known_leaf(vertices: dict[Key, Vertex], each: Operand) -> Key:
    """Return the key under which a leaf is in the graph already, or its own."""
    if isinstance(each.key, tuple):
        for key in vertices:
            if isinstance(key, tuple) and key[0] == "leaf" and key[-1] == each.key[1]:
                return key
    assert each.key is not None
    return each.key


def shape_in(text: str) -> tuple[int, ...]:
    """Read a shape from an error's row: "(2, 3)" -> (2, 3); () if it says something else."""
    digits = text.strip("() ").rstrip(",").split(",")
    return tuple(int(each) for each in digits) if all(
        each.strip().isdigit() for each in digits
    ) else ()  # fmt: skip


def from_traceback(error: BaseException) -> Failure:
    """Draw what an exception that nobody watched still tells: the op and its operands.

    The variables of the function that it came through hold what led there.
    """
    frame = innermost(error.__traceback__)
    names = Names(frame=frame)
    failing, vertices = Failing(names), dict[Key, Vertex]()
    tensors = [value for _, value in variables(frame) if isinstance(value, Tensor)][::-1]
    tensors.sort(key=lambda each: each.is_leaf)  # what was computed, the latest first
    arguments = dict(getattr(error, "arguments", {}))
    failing.op = getattr(error, "op", None) or ""
    taken: set[int] = set()
    for label, text in arguments.items():
        fits = (each for each in tensors
                if str(tuple(each.shape)) == text.strip() and id(each) not in taken)  # fmt: skip
        tensor = next(fits, None)
        if tensor is None:
            continue
        taken.add(id(tensor))
        failing.operands.append(operand(label.partition(" ")[0], tensor, names))
        if tensor._node is not None and tensor._node is not LEAF:
            for step in reachable([tensor._node]):
                if isinstance(step, Tensor):
                    add_leaf(vertices, step, names)
                else:
                    vertex = vertices[step._order] = op_vertex(step)
                    vertex.sources = sources_of(step)
    return failure_of(Recorder(names), failing, error, vertices=vertices)


def innermost(trace: TracebackType | None) -> FrameType | None:
    """Return the innermost frame of the user's code that an exception came through."""
    found = None
    while trace is not None:
        if not trace.tb_frame.f_globals.get("__name__", "").startswith("edutorch."):
            found = trace.tb_frame
        trace = trace.tb_next
    return found


def last_error() -> BaseException | None:
    """Return the last exception that reached the top, as Python and IPython keep it."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
