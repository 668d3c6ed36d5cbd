"""An exception in forward or backward: the graph as far as it got, and the op that failed in red.

The exception propagates as usual. What stays is plain data: no tensor is kept by a picture.
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
    """An operand of an op, as plain data: where it came from, and how it looked."""

    name: str
    key: Key | None  # the op that made it
    vertex: Vertex | None  # how to draw it where it is not in the graph yet
    shape: str


class FailureTracker:
    """Tracks which op, or which rule, is running, so that it is known when it fails."""

    event_types = (WorkStarted, WorkEnded)
    work_kinds = ("op", "node")

    def __init__(self, names: Names) -> None:
        self.names = names
        self._at_work: list[WorkStarted] = []
        self.forget()

    def forget(self) -> None:
        """Begin a new step."""
        self.op, self.operands, self.node = "", [], 0
        self._at_work.clear()

    def take(self, event: Any) -> None:
        """Handle an event."""
        if event.__class__ is WorkStarted:
            if self.op and not self._at_work:
                self.forget()  # the failure was caught
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
            names = [f"[{index}]" for index in range(len(started.inputs))]
        self.operands = [
            describe_operand(name, operand, self.names)
            for name, operand in zip(names, started.inputs, strict=True)
            if operand is not None
        ]


def name_of(subject: Any, inputs: Iterable[Any]) -> str:
    """Return the name by which users know an op: of an autograd.Function, that of its class."""
    if not hasattr(subject, "public"):
        return (subject if isinstance(subject, type) else type(subject)).__name__
    return label_of(
        subject, next((input_.ndim for input_ in inputs if isinstance(input_, Tensor)), 0)
    )


def describe_operand(name: str, value: object, names: Names) -> Operand:
    """Return an operand as plain data."""
    if not isinstance(value, Tensor):
        text = f"{value:g}" if isinstance(value, int | float) else type(value).__name__
        return Operand(name, None, None, text)
    shape = "×".join(map(str, value.shape)) or "scalar"
    if value._node is not None and value._node is not LEAF:
        vertex = op_vertex(value._node)
        vertex.value = try_summarize(value)
        return Operand(name, value._node._order, vertex, shape)
    vertex = leaf_vertex(value, names)
    vertex.value = try_summarize(value)
    return Operand(name, ("operand", id(value)), vertex, shape)


def try_summarize(tensor: Tensor) -> Stats | None:
    """Summarize a tensor, or return None if that fails as well."""
    try:
        return summarize(tensor._array)
    except Exception:  # noqa: BLE001  (an operand of an op that has failed)
        return None


# The picture ----------------------------------------------------------------------------------


@dataclass
class Failure:
    """What is left of a computation that failed: a picture and a finding."""

    snapshot: Snapshot | None
    finding: Finding
    others: tuple[Finding, ...] = ()


class LastFailure:
    """The last failure, for `viz.post_mortem`."""

    failure: Failure | None = None


def explain_error(error: BaseException, op: str) -> Finding:
    """Return a finding with an exception's message, and where in the user's code it came from."""
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
    """Return True for an exception of edutorch, or one that NumPy raised in an op."""
    return isinstance(error, EdutorchError) or is_from_op(error, OPS[:-1])


def is_from_op(error: BaseException, where: tuple[str, ...] = OPS) -> bool:
    """Return True if an exception came from such a module, or from a library that it has called."""
    innermost = ""
    for frame in frames_of(error):
        if not is_user_frame(frame) or not is_library(frame):
            innermost = frame.f_globals.get("__name__", "")
    return innermost.startswith(where)


def is_library(frame: FrameType) -> bool:
    """Return True if a frame belongs to an installed package, or to Python itself."""
    file = frame.f_code.co_filename
    return file.startswith((STANDARD, "<frozen")) or "site-packages" in file


STANDARD = sysconfig.get_path("stdlib")


def is_user_frame(frame: FrameType) -> bool:
    """Return True if a frame is outside of edutorch."""
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
    line, trace = "", error.__traceback__
    while trace is not None:
        if is_user_frame(trace.tb_frame) and not is_library(trace.tb_frame):
            line = line_text((trace.tb_frame.f_code, trace.tb_lasti))
        trace = trace.tb_next
    return line


def failure_of(
    recorder: Recorder,
    failure_tracker: FailureTracker,
    error: BaseException,
    others: tuple[Finding, ...] = (),
    vertices: dict[Key, Vertex] | None = None,
) -> Failure:
    """Draw the graph as far as it got (or these `vertices`), and the op that failed."""
    error_finding = explain_error(error, failure_tracker.op)
    # Of an idle step only the traceback is known; of one whose first op has failed, the operands
    # are known, but not what they were computed from.
    is_idle = not failure_tracker.operands or any(
        isinstance(operand.key, int) for operand in failure_tracker.operands
    )
    is_empty = vertices is None and not recorder.graph.vertices
    if is_empty and is_idle and error_finding.kind == "error":
        return from_traceback(error, recorder.names, others)
    vertices = recorder.graph.by_identity() if vertices is None else vertices
    made = failure_tracker.op and not failure_tracker.node
    if failure_tracker.node in vertices:
        failed = vertices[failure_tracker.node]
        failed.kind, failed.label = "failed", f"✗ backward of {failed.label}"
    elif made or (error_finding.kind == "error" and is_from_op(error)):
        add_failed_vertex(vertices, failure_tracker, error, error_finding, recorder.names)
    if not vertices:
        snapshot = recorder.snapshot
    else:
        used = {key for vertex in vertices.values() for _, key in vertex.sources}
        ends = [key for key, vertex in vertices.items()
                if key not in used and vertex.kind in ("op", "failed")]  # fmt: skip
        snapshot = arrange(vertices, ends, recorder.names.classes)
    LastFailure.failure = Failure(snapshot, error_finding, others)
    return LastFailure.failure


def add_failed_vertex(
    vertices: dict[Key, Vertex],
    failure_tracker: FailureTracker,
    error: BaseException,
    error_finding: Finding,
    names: Names,
) -> None:
    """Add the box of an op that has no result, and those of its operands."""
    sources, shapes = [], []
    for operand in failure_tracker.operands:
        if operand.key is None or operand.vertex is None:
            continue
        key = known_leaf(vertices, operand)
        vertices.setdefault(key, operand.vertex)
        sources.append((operand.name, key))
        shapes.append(operand.shape)
    if not failure_tracker.operands:
        for label, value in getattr(error, "arguments", {}).items():
            if not value.startswith("("):
                continue  # a row about something else: the module, a setting
            key = ("argument", label)
            vertices[key] = Vertex("constant", label.partition(" ")[0], differentiable=False,
                                   shape=shape_in(value), dtype="")  # fmt: skip
            sources.append((label.partition(" ")[0], key))
            shapes.append(value)
    paths = modules_of(error, names)
    scopes = tuple(Scope("module", path) for path in paths)
    vertices[FAILED] = Vertex(
        "failed",
        f"✗ {failure_tracker.op or getattr(error, 'op', None) or 'error'}",
        "".join(paths[-1:]),
        dtype=" with ".join(shapes),
        differentiable=False,
        line=error_finding.line,
        sources=tuple(sources),
        scopes=scopes,
    )


def known_leaf(vertices: dict[Key, Vertex], operand: Operand) -> Key:
    """Return the key of a leaf that is in the graph already, or the operand's own."""
    if isinstance(operand.key, tuple):
        for key in vertices:
            if isinstance(key, tuple) and key[0] == "leaf" and key[-1] == operand.key[1]:
                return key
    assert operand.key is not None
    return operand.key


def shape_in(text: str) -> tuple[int, ...]:
    """Parse a shape in an error's row: "(2, 3)" -> (2, 3); () if it is something else."""
    digits = text.strip("() ").rstrip(",").split(",")
    return tuple(int(digit) for digit in digits) if all(
        digit.strip().isdigit() for digit in digits
    ) else ()  # fmt: skip


def from_traceback(
    error: BaseException, names: Names | None = None, others: tuple[Finding, ...] = ()
) -> Failure:
    """Draw what an exception that was not recorded still reveals: the op and its operands.

    The variables of the function that it came through hold what led there.
    """
    frame = innermost_frame(error)
    names = names or Names(frame=frame)
    failure_tracker, vertices = FailureTracker(names), dict[Key, Vertex]()
    tensors = [value for _, value in variables(frame) if isinstance(value, Tensor)][::-1]
    tensors.sort(key=lambda tensor: tensor.is_leaf)  # computed ones first, the latest first
    arguments = dict(getattr(error, "arguments", {}))
    failure_tracker.op = getattr(error, "op", None) or ""
    taken: set[int] = set()
    for label, text in arguments.items():
        candidates = (
            tensor
            for tensor in tensors
            if str(tuple(tensor.shape)) == text.strip() and id(tensor) not in taken
        )
        tensor = next(candidates, None)
        if tensor is None:
            continue
        taken.add(id(tensor))
        failure_tracker.operands.append(describe_operand(label.partition(" ")[0], tensor, names))
        if tensor._node is not None and tensor._node is not LEAF:
            for step in reachable([tensor._node]):
                if isinstance(step, Tensor):
                    add_leaf(vertices, step, names)
                else:
                    vertex = vertices[step._order] = op_vertex(step)
                    vertex.sources = sources_of(step)
    return failure_of(Recorder(names), failure_tracker, error, others, vertices)


def innermost_frame(error: BaseException) -> FrameType | None:
    """Return the innermost frame of the user's code that an exception came through."""
    innermost = None
    for frame in frames_of(error):
        if is_user_frame(frame) and not is_library(frame):
            innermost = frame
    return innermost


def last_error() -> BaseException | None:
    """Return the last exception that reached the top, as Python and IPython keep it."""
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
