"""Events: small objects that describe what ran, sent to listeners.

The engine and the modules do not depend on pictures, profilers or tracers. They
emit one of the objects below, and only if there is a listener:

    with listening(print):
        loss = model(x)

Events carry live tensors and arrays. A listener that keeps them keeps their
memory: convert them to plain data at once (see `viz/live/recorder.py`). All listeners get the
same object, so none may change it: frozen dataclasses would take four times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from .modes import ModeContext, current, listening

__all__ = [
    "BackwardEnded",
    "GradientAccumulated",
    "GradientFlowed",
    "MessageArrived",
    "MessageSent",
    "ModuleEntered",
    "ModuleLeft",
    "OpApplied",
    "Stepped",
    "TensorAliased",
    "TensorMade",
    "TensorWritten",
    "ViewRebased",
    "WorkEnded",
    "WorkStarted",
    "backward_event",
    "emit",
    "use_op_recorder",
    "listen_backward",
    "listen_steps",
    "listening",
    "step_event",
    "work",
]


@dataclass(slots=True, eq=False)
class OpApplied:
    """An op ran.

    `inputs` are its tensor arguments in order (a Tensor, a number or None each), `settings` the
    others by name; `node` is the recorded node, or None where no gradient is needed.
    """

    op: Any
    inputs: tuple[Any, ...]
    settings: dict[str, Any]
    output: Any
    node: Any


@dataclass(slots=True, eq=False)
class GradientFlowed:
    """During backward, `node` sent `gradient` to `node.edges[index]`.

    The gradient is an array, or a Tensor with `create_graph`.
    """

    node: Any
    index: int
    gradient: Any


@dataclass(slots=True, eq=False)
class GradientAccumulated:
    """`gradient`, the sum of one backward pass, was added to `tensor.grad`."""

    tensor: Any
    gradient: Any


@dataclass(slots=True, eq=False)
class ModuleEntered:
    """A module's `forward` begins with the positional `inputs`."""

    module: Any
    inputs: tuple[Any, ...]


@dataclass(slots=True, eq=False)
class ModuleLeft:
    """A module's `forward` ended with `output` (None when it raised)."""

    module: Any
    output: Any


@dataclass(slots=True, eq=False)
class MessageSent:
    """An asynchronous collective is on its way, beside the program.

    A `MessageArrived` of the same `number` follows when this process sees that it is complete.
    `name` is as in a `WorkStarted`, `size` in bytes.
    """

    number: int
    name: str
    size: int


@dataclass(slots=True, eq=False)
class MessageArrived:
    """An asynchronous collective is complete, and its result written."""

    number: int
    name: str


@dataclass(slots=True, eq=False)
class Stepped:
    """An optimizer has updated its parameters."""

    optimizer: Any


@dataclass(slots=True, eq=False)
class BackwardEnded:
    """A backward pass from the tensors `roots` is over.

    It is sent to step listeners only: see below. `accumulated`: it was `backward`, not `grad`.
    """

    roots: tuple[Any, ...]
    accumulated: bool


@dataclass(slots=True, eq=False)
class TensorMade:
    """`tensor` was created: by `zeros`, `tensor`, `randn`, …"""

    tensor: Any


@dataclass(slots=True, eq=False)
class TensorAliased:
    """`alias` is a second object for the present value of `tensor`.

    A write into `tensor` is computed from it, or it is the same memory without the graph
    (`detached`).
    """

    tensor: Any
    alias: Any
    detached: bool = False


@dataclass(slots=True, eq=False)
class TensorWritten:
    """The memory of `tensor` was written to.

    `result` is the tensor that was written into it, whose history `tensor` now has; None where the
    new elements are not the result of an op.
    """

    tensor: Any
    result: Any = None


@dataclass(slots=True, eq=False)
class ViewRebased:
    """After a write into its memory, `view` was recorded anew as a view of `base`."""

    op: Any
    base: Any
    view: Any
    node: Any


@dataclass(slots=True, eq=False)
class WorkStarted:
    """A piece of work begins; a `WorkEnded` of the same subject always follows.

    By `kind`, the `subject` is

        "op"         an Op (or a `Function`), about to compute with `inputs`;
        "node"       a recorded Node, about to compute the gradients of its inputs;
        "backward"   a whole backward pass, from the given gradients; `detail` is "retain" where
                     the graph is kept for another one;
        "optimizer"  an optimizer, `detail` being the method: "step" or "zero_grad";
        "data"       a data loader, asked for its next batch;
        "collective" text, as "gloo:all_reduce": a call that all processes of a group make, `detail`
                     being the group's number; asynchronous ones only begin here;
        "range"      text: a section of the user's program, named by `record_function`.
    """

    kind: str
    subject: Any
    inputs: tuple[Any, ...] = ()
    detail: str = ""


@dataclass(slots=True, eq=False)
class WorkEnded:
    """A piece of work is over.

    `result`: the output of an op (None: it wrote into `out=`) or the gradients from a node; None
    for the other kinds. `failed`: it raised.
    """

    kind: str
    subject: Any
    result: Any = None
    failed: bool = False


class work:
    """Emits the events of a piece of work around a block: `with work("data", loader):`.

    To be used only if there are listeners. Set `result` inside the block.
    """

    __slots__ = ("event", "result")

    def __init__(
        self, kind: str, subject: Any, inputs: tuple[Any, ...] = (), detail: str = ""
    ) -> None:
        self.event = WorkStarted(kind, subject, inputs, detail)
        self.result: Any = None

    def __enter__(self) -> work:
        emit(self.event)
        return self

    def __exit__(self, *exception: object) -> None:
        failed = exception[0] is not None
        emit(WorkEnded(self.event.kind, self.event.subject, self.result, failed))


def emit(event: Any) -> None:
    """Call every listener of this thread with `event`, in the order of registration."""
    for listener in current().listeners:
        listener(event)


# Listening to every op makes all of them slow. Step events are emitted once in each backward pass
# and optimizer step, at no cost for ops: enough to follow the progress of a loop.

_STEP_LISTENERS: ContextVar[tuple[Callable[..., None], ...]] = ContextVar(
    "edutorch_milestones", default=()
)


class listen_steps:
    """Call `listener` for each `BackwardEnded` and `Stepped` inside the block.

    It is called with the event's class and its fields, as `step_event` is, which saves making an
    event that is not used.
    """

    def __init__(self, listener: Callable[..., None]) -> None:
        self.listener = listener

    def __enter__(self) -> listen_steps:
        _STEP_LISTENERS.set((*_STEP_LISTENERS.get(), self.listener))
        return self

    def __exit__(self, *exception: object) -> None:
        left = list(_STEP_LISTENERS.get())
        if self.listener in left:
            left.remove(self.listener)  # only this one: blocks of several loops end in any order
        _STEP_LISTENERS.set(tuple(left))


_BEFORE_BACKWARD: ContextVar[tuple[Callable[[tuple[Any, ...]], None], ...]] = ContextVar(
    "edutorch_before_backward", default=()
)


class listen_backward:
    """Call `listener` with the roots of each backward pass inside the block, before it runs.

    The graph behind them still has all its saved values. There is no cost for ops.
    """

    def __init__(self, listener: Callable[[tuple[Any, ...]], None]) -> None:
        self.listener = listener

    def __enter__(self) -> listen_backward:
        _BEFORE_BACKWARD.set((*_BEFORE_BACKWARD.get(), self.listener))
        return self

    def __exit__(self, *exception: object) -> None:
        left = list(_BEFORE_BACKWARD.get())
        if self.listener in left:
            left.remove(self.listener)
        _BEFORE_BACKWARD.set(tuple(left))


def backward_event(roots: tuple[Any, ...]) -> None:
    """Call the backward listeners before a backward pass from the tensors `roots`."""
    for listener in _BEFORE_BACKWARD.get():
        listener(roots)


class use_op_recorder(ModeContext):
    """Send what is recorded to `recorder`, without leaving the fast path of ops.

    After each op that was recorded, `recorder.recorded` is extended by its output and its operands;
    after another one, `recorder.unrecorded(op, output, operands)` is called. The list keeps its
    items alive: it should be read and cleared soon. Before a write into a tensor changes its
    elements and its history, `recorder.before_write()` is called. At the start of a backward pass,
    `recorder.begin_backward()` returns a function that is called with (node, g, partials) for each
    node that runs. `recorder.unknown()` is called where something is recorded that cannot be
    reported in this way.
    """

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self.op_recorder = recorder

    def changes(self, modes: Any) -> dict[str, Any]:
        return {"op_recorder": self.op_recorder}


def step_event(event_class: Callable[..., Any], subject: Any, accumulated: bool = True) -> None:
    """Call the step listeners: `step_event(Stepped, optimizer)`, or
    `step_event(BackwardEnded, roots, accumulated)`. With `*fields`, it would take twice as long.
    """
    for listener in _STEP_LISTENERS.get():
        listener(event_class, subject, accumulated)
