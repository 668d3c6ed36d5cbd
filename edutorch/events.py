"""What happens inside, told to whoever listens.

The engine and the modules know nothing of pictures, profilers or tracers. They
make one of the small objects below, and only when somebody listens:

    with listening(print):
        loss = model(x)

Events carry live tensors and arrays. A listener that keeps them keeps their
memory: turn them into plain data at once (see `viz/live/recorder.py`). All listeners are
handed the same object, so none changes it: frozen ones would take four times as long to make.
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
    """An op ran. `inputs` are its tensor arguments in order (a Tensor, a number
    or None each), `settings` the others by name; `node` is what was recorded,
    or None where no gradient is needed."""

    op: Any
    inputs: tuple[Any, ...]
    settings: dict[str, Any]
    output: Any
    node: Any


@dataclass(slots=True, eq=False)
class GradientFlowed:
    """During backward, `gradient` left `node` along its edge number `index`
    (towards `node.edges[index]`). It is an array, or a Tensor with `create_graph`."""

    node: Any
    index: int
    gradient: Any


@dataclass(slots=True, eq=False)
class GradientAccumulated:
    """`gradient`, this backward's whole sum, was added to `tensor.grad`."""

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
class Stepped:
    """An optimizer has updated its parameters."""

    optimizer: Any


@dataclass(slots=True, eq=False)
class BackwardEnded:
    """A backward pass from the tensors `roots` is over. It is a milestone only: see below.
    `accumulated`: it was `backward`, not `grad`."""

    roots: tuple[Any, ...]
    accumulated: bool


@dataclass(slots=True, eq=False)
class TensorMade:
    """`tensor` was made out of nothing: by `zeros`, `tensor`, `randn`, …"""

    tensor: Any


@dataclass(slots=True, eq=False)
class TensorAliased:
    """`alias` is a second object for `tensor` as it is now: what a write into `tensor` is
    computed from, or the same memory without the graph (`detached`)."""

    tensor: Any
    alias: Any
    detached: bool = False


@dataclass(slots=True, eq=False)
class TensorWritten:
    """The memory of `tensor` was written to. `result` is the tensor that was written into it,
    whose history `tensor` now has; None where no op made the new elements."""

    tensor: Any
    result: Any = None


@dataclass(slots=True, eq=False)
class ViewRebased:
    """After a write into its memory, `view` was recorded anew, by `op` and `node`, as a view of
    `base`."""

    op: Any
    base: Any
    view: Any
    node: Any


@dataclass(slots=True, eq=False)
class WorkStarted:
    """Something that takes time begins; a `WorkEnded` of the same subject follows, whatever
    happens. By `kind`, the `subject` is

        "op"         an Op (or a `Function`), about to compute with `inputs`;
        "node"       a recorded Node, about to turn the gradient that came into others;
        "backward"   a whole backward pass, from the given gradients; `detail` is "retain" where
                     the graph is kept for another one;
        "optimizer"  an optimizer, `detail` being the method: "step" or "zero_grad";
        "data"       a data loader, asked for its next batch;
        "range"      text: a stretch of the user's program, named by `record_function`.
    """

    kind: str
    subject: Any
    inputs: tuple[Any, ...] = ()
    detail: str = ""


@dataclass(slots=True, eq=False)
class WorkEnded:
    """It is over, with a `result`: what an op made (None: it wrote into `out=`), or the
    gradients that left a node; None for the other kinds. `failed`: it raised."""

    kind: str
    subject: Any
    result: Any = None
    failed: bool = False


class work:
    """Tells the listeners when a piece of work begins and ends: `with work("data", loader):`.

    For places that know already that somebody listens. Set `result` inside the block.
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
    """Hand `event` to every listener of this thread, in the order they came."""
    for listener in current().listeners:
        listener(event)


# Whoever listens to every op makes all of them slow. Between two looks it is enough to know how
# far a loop has come: a milestone is told once in a backward pass or step, and costs no op a thing.

_STEP_LISTENERS: ContextVar[tuple[Callable[..., None], ...]] = ContextVar(
    "edutorch_milestones", default=()
)


class listen_steps:
    """Tell `listener` of each `BackwardEnded` and `Stepped` inside the block, and of nothing else.

    It is called with the event's class and its fields, as `step_event` is: one in many is looked at
    more closely.
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
    """Call `listener` with the tensors on which each backward pass inside the block is about to
    run, while the graph behind them still has all that it keeps. It costs no op a thing."""

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
    """Tell those who want to know before a backward pass from the tensors `roots`."""
    for listener in _BEFORE_BACKWARD.get():
        listener(roots)


class use_op_recorder(ModeContext):
    """Let `recorder` see what is recorded, without making an op slow.

    After each op that was recorded, `recorder.recorded` is extended by its output and its operands;
    after another one, `recorder.unrecorded(op, output, operands)` is called. The list keeps what is
    in it alive: it is to be read and cleared before long. Before a write into a tensor changes its
    elements and its history, `recorder.before_write()` is called. When a backward begins,
    `recorder.begin_backward()` returns what is then called with (node, g, partials) of each node that it
    ran through. Where something is recorded that cannot be told of in this way,
    `recorder.unknown()` is called.
    """

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self.op_recorder = recorder

    def changes(self, modes: Any) -> dict[str, Any]:
        return {"op_recorder": self.op_recorder}


def step_event(event_class: Callable[..., Any], subject: Any, accumulated: bool = True) -> None:
    """Tell those who hear milestones that one was reached: `step_event(Stepped, optimizer)`, or
    `step_event(BackwardEnded, roots, accumulated)`. With `*fields`, it would take twice as long.
    """
    for listener in _STEP_LISTENERS.get():
        listener(event_class, subject, accumulated)
