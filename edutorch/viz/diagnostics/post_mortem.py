"""An exception in forward or backward: the graph as far as it got, and the op that failed in red.

The exception goes on its way. What stays is plain data: no tensor is kept by a picture.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

from ...core.autograd.graph import reachable
from ...core.tensor import LEAF, Tensor
from ...errors import EdutorchError
from ...events import WorkEnded, WorkStarted
from ..graph.graph_reader import add_leaf, label_of, leaf_vertex, line_text, op_vertex, sources_of
from ..graph.model import Key, Scope, Snapshot, Vertex, arrange
from ..graph.names import Names, variables
from ..live.recorder import Recorder
from ..tensors.summaries import Stats, summarize
from .messages import Finding, finding

FAILED: Key = ("failed",)


@dataclass
class Operand:
    """What an op was given, as plain data: where it came from, and how it looked."""

    name: str
    key: Key | None  # the op that made it
    vertex: Vertex | None  # how to draw it where it is not in the graph yet
    shape: str


class FailureTracker:
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
            if self.op and not self._at_work:
                self.forget()  # what had failed was caught
            self._at_work.append(event)
        elif self._at_work:
            started = self._at_work.pop()
            if event.failed and not self.op:
                self._note(started)

    def _note(self, started: WorkStarted) -> None:
        subject = started.subject
        if started.kind == "node":
            self.op, self.node = subject.op.public_name, subject._order
            return
        self.op = name_of(subject, started.inputs)
        names = list(getattr(subject, "inputs", ()))
        if getattr(subject, "variadic", False) or len(names) != len(started.inputs):
            names = [f"[{number}]" for number in range(len(started.inputs))]
        self.operands = [
            describe_operand(name, given, self.names)
            for name, given in zip(names, started.inputs, strict=True)
            if given is not None
        ]


def name_of(subject: Any, inputs: Iterable[Any]) -> str:
    """Return the name by which users know an op: of an autograd.Function, that of its class."""
    if not hasattr(subject, "public"):
        return (subject if isinstance(subject, type) else type(subject)).__name__
    return label_of(
        subject, next((input_.ndim for input_ in inputs if isinstance(input_, Tensor)), 0)
    )


def describe_operand(name: str, given: Any, names: Names) -> Operand:
    """Turn what an op was given into plain data."""
    if not isinstance(given, Tensor):
        text = f"{given:g}" if isinstance(given, int | float) else type(given).__name__
        return Operand(name, None, None, text)
    shape = "×".join(map(str, given.shape)) or "scalar"
    if given._node is not None and given._node is not LEAF:
        vertex = op_vertex(given._node)
        vertex.value = try_summarize(given)
        return Operand(name, given._node._order, vertex, shape)
    vertex = leaf_vertex(given, names)
    vertex.value = try_summarize(given)
    return Operand(name, ("operand", id(given)), vertex, shape)


def try_summarize(tensor: Tensor) -> Stats | None:
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


class LastFailure:
    """The last failure that was seen, for `viz.post_mortem`."""

    failure: Failure | None = None


def explain_error(error: BaseException, op: str) -> Finding:
    """Say what an exception says, and where in the user's code it came from."""
    message = " ".join((getattr(error, "message", "") or str(error)).split())[:300]
    if not op and not is_own_error(error):
        end = "" if message.endswith((".", "!", "?")) else "."
        return finding(
            "stopped", error=type(error).__name__, line=line_of_error(error), subject="error",
            message=message + end if message else "it says nothing more.",
        )  # fmt: skip
    hint = getattr(error, "hint", None) or "Look at the shapes of what went in, in the picture."
    rows = tuple(f"{name} = {value}" for name, value in getattr(error, "arguments", {}).items())
    name = op or getattr(error, "op", "") or type(error).__name__
    return finding(
        "error", op=name, message=message or type(error).__name__,
        hint=f"{hint[:1].upper()}{hint[1:300]}", line=line_of_error(error), details=rows,
        subject="error",
    )  # fmt: skip


OPS = ("edutorch.core.", "edutorch.ops.", "edutorch.kernels.", "edutorch.backends.", "edutorch.nn.")
"""Where ops, and the functions and layers that are made of them, are defined."""


def is_own_error(error: BaseException) -> bool:
    """Whether edutorch has raised an exception: one of its own, or what NumPy raised in an op."""
    return isinstance(error, EdutorchError) or is_from_op(error, OPS[:-1])


def is_from_op(error: BaseException, where: tuple[str, ...] = OPS) -> bool:
    """Whether an exception came from such a module, or from a library that it has called."""
    innermost = ""
    for frame in frames_of(error):
        if not is_user_frame(frame) or not is_library(frame):
            innermost = frame.f_globals.get("__name__", "")
    return innermost.startswith(where)


def is_library(frame: FrameType) -> bool:
    """Whether a frame belongs to an installed package, or to Python itself."""
    file = frame.f_code.co_filename
    return file.startswith((STANDARD, "<frozen")) or "site-packages" in file


STANDARD = sysconfig.get_path("stdlib")


def is_user_frame(frame: FrameType) -> bool:
    """Whether a frame is outside of edutorch."""
    return not frame.f_globals.get("__name__", "").startswith("edutorch.")


def frames_of(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames that an exception came through, the innermost last."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def modules_of(error: BaseException, names: Names) -> list[str]:
    """Return the paths of the modules whose forward an exception came through."""
    paths: list[str] = []
    for frame in frames_of(error):
        path = names.modules.get(id(frame.f_locals.get("self")), "")
        if path and paths[-1:] != [path]:
            paths.append(path)
    return paths


def line_of_error(error: BaseException) -> str:
    """Return the innermost line of the user's code that an exception came through."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if is_user_frame(trace.tb_frame) and not is_library(trace.tb_frame):
            found = line_text((trace.tb_frame.f_code, trace.tb_lasti))
        trace = trace.tb_next
    return found


def failure_of(
    recorder: Recorder,
    failing: FailureTracker,
    error: BaseException,
    others: tuple[Finding, ...] = (),
    vertices: dict[Key, Vertex] | None = None,
) -> Failure:
    """Draw the graph as far as it got (or these `vertices`), and the op that failed."""
    said = explain_error(error, failing.op)
    # Of a step that nobody has listened to, the traceback tells; of one whose first op has failed,
    # the operands are known, but not what they were computed from.
    is_unheard = not failing.operands or any(
        isinstance(operand.key, int) for operand in failing.operands
    )
    is_empty = vertices is None and not recorder.graph.vertices
    if is_empty and is_unheard and said.kind == "error":
        return from_traceback(error, recorder.names, others)
    vertices = recorder.graph.by_identity() if vertices is None else vertices
    made = failing.op and not failing.node
    if failing.node in vertices:
        failed = vertices[failing.node]
        failed.kind, failed.label = "failed", f"✗ backward of {failed.label}"
    elif made or (said.kind == "error" and is_from_op(error)):
        add_failed_vertex(vertices, failing, error, said, recorder.names)
    if not vertices:
        snapshot = recorder.snapshot
    else:
        used = {key for vertex in vertices.values() for _, key in vertex.sources}
        ends = [key for key, vertex in vertices.items()
                if key not in used and vertex.kind in ("op", "failed")]  # fmt: skip
        snapshot = arrange(vertices, ends, recorder.names.classes)
    LastFailure.failure = Failure(snapshot, said, others)
    return LastFailure.failure


def add_failed_vertex(
    vertices: dict[Key, Vertex],
    failing: FailureTracker,
    error: BaseException,
    said: Finding,
    names: Names,
) -> None:
    """Add the box of an op that has no result, and those of its operands."""
    sources, shapes = [], []
    for operand in failing.operands:
        if operand.key is None or operand.vertex is None:
            continue
        key = known_leaf(vertices, operand)
        vertices.setdefault(key, operand.vertex)
        sources.append((operand.name, key))
        shapes.append(operand.shape)
    if not failing.operands:
        for label, value in getattr(error, "arguments", {}).items():
            if not value.startswith("("):
                continue  # a row that says something else: the module, a setting
            key = ("argument", label)
            vertices[key] = Vertex("constant", label.partition(" ")[0], differentiable=False,
                                   shape=shape_in(value), dtype="")  # fmt: skip
            sources.append((label.partition(" ")[0], key))
            shapes.append(value)
    paths = modules_of(error, names)
    scopes = tuple(Scope("module", path) for path in paths)
    vertices[FAILED] = Vertex(
        "failed", f"✗ {failing.op or getattr(error, 'op', None) or 'error'}", "".join(paths[-1:]),
        dtype=" with ".join(shapes), differentiable=False, line=said.line, sources=tuple(sources),
        scopes=scopes,
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
    return tuple(int(digit) for digit in digits) if all(
        digit.strip().isdigit() for digit in digits
    ) else ()  # fmt: skip


def from_traceback(
    error: BaseException, names: Names | None = None, others: tuple[Finding, ...] = ()
) -> Failure:
    """Draw what an exception that nobody watched still tells: the op and its operands.

    The variables of the function that it came through hold what led there.
    """
    frame = innermost_frame(error)
    names = names or Names(frame=frame)
    failing, vertices = FailureTracker(names), dict[Key, Vertex]()
    tensors = [value for _, value in variables(frame) if isinstance(value, Tensor)][::-1]
    tensors.sort(key=lambda tensor: tensor.is_leaf)  # what was computed, the latest first
    arguments = dict(getattr(error, "arguments", {}))
    failing.op = getattr(error, "op", None) or ""
    taken: set[int] = set()
    for label, text in arguments.items():
        fits = (
            tensor
            for tensor in tensors
            if str(tuple(tensor.shape)) == text.strip() and id(tensor) not in taken
        )
        tensor = next(fits, None)
        if tensor is None:
            continue
        taken.add(id(tensor))
        failing.operands.append(describe_operand(label.partition(" ")[0], tensor, names))
        if tensor._node is not None and tensor._node is not LEAF:
            for step in reachable([tensor._node]):
                if isinstance(step, Tensor):
                    add_leaf(vertices, step, names)
                else:
                    vertex = vertices[step._order] = op_vertex(step)
                    vertex.sources = sources_of(step)
    return failure_of(Recorder(names), failing, error, others, vertices)


def innermost_frame(error: BaseException) -> FrameType | None:
    """Return the innermost frame of the user's code that an exception came through."""
    found = None
    for frame in frames_of(error):
        if is_user_frame(frame) and not is_library(frame):
            found = frame
    return found


def last_error() -> BaseException | None:
    """Return the last exception that reached the top, as Python and IPython keep it."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
