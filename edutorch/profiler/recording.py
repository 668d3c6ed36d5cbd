"""The listener of a profile, which turns events into spans.

Each thread has a stack of open spans. The time that the listener itself takes is measured at each
event and excluded from all open spans (`aside`). What remains in the spans is the cost of creating
an event and of calling the listener, some tenths of a microsecond per event; `cost_per_span`
measures it on this machine.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from .. import backends, cuda, dtypes
from ..core.autograd.graph import LEAF, Node
from ..core.tensor import Tensor
from ..errors import user_frame
from ..events import (
    GradientAccumulated,
    MessageArrived,
    MessageSent,
    ModuleEntered,
    ModuleLeft,
    TensorMade,
    WorkEnded,
    WorkStarted,
)
from ..modes import current, listening, switch
from .memory import Memory
from .tree import Span


class CudaClock:
    """Records events in CuPy's current stream, and measures the time between them.

    The host can only measure how long launching kernels takes. The time between two events in the
    stream is how long the GPU worked. They are read when all work is done.
    """

    def __init__(self) -> None:
        self._cuda = backends.get(backends.ACCELERATOR).xp.cuda

    def record_event(self) -> Any:
        """Record an event in the stream: it completes when all work before it is done."""
        event = self._cuda.Event()
        event.record()
        return event

    def elapsed_ns(self, start: Any, end: Any) -> int:
        """Wait for two events, and return the nanoseconds between them."""
        end.synchronize()
        return round(self._cuda.get_elapsed_time(start, end) * 1e6)


class HostClock:
    """The clock of simulated cards, which work when they are asked to: that of the host."""

    def record_event(self) -> int:
        """Return the time."""
        return now()

    def elapsed_ns(self, start: int, end: int) -> int:
        """Return the nanoseconds between two events."""
        return end - start


def device_clock() -> CudaClock | HostClock | None:
    """Return the GPU's clock, or None if there is no GPU."""
    if backends.simulated_cards():
        return HostClock()
    return CudaClock() if cuda.is_available() else None


now = time.perf_counter_ns


@dataclass(frozen=True)
class RecordingOptions:
    """What to record besides times (see `profile`)."""

    shapes: bool = False
    memory: bool = False
    stack: bool = False
    flops: bool = False


@dataclass(slots=True)
class Message:
    """An asynchronous collective: its name and bytes, when it left, and when it was complete."""

    name: str
    size: int
    start: int
    end: int = 0


class ThreadState:
    """The open spans of one thread, innermost last: (subject, span)."""

    __slots__ = ("aside", "modules", "number", "open")

    def __init__(self, number: int) -> None:
        self.number = number
        self.open: list[tuple[Any, Span]] = []
        self.modules: tuple[str, ...] = ()
        self.aside = 0  # nanoseconds spent in the listener so far


class Recording:
    """Listens from `start` to `stop`, and collects `roots`, the outermost spans.

    Args:
        options: what to record.
        device: the clock of a GPU (see `device.py`), None for the host's time only.
        counted: returns True for an op whose FLOPs count, None for all.
    """

    def __init__(
        self,
        options: RecordingOptions,
        device: Any = None,
        counted: Callable[[Any], bool] | None = None,
    ) -> None:
        self.options, self.device, self.counts_op = options, device, counted
        self.roots: list[Span] = []
        self.messages: dict[int, Message] = {}
        self.events = 0
        self.began = self.ended = now()
        self.memory = Memory(self._freed) if options.memory else None
        self._names = ModuleNames()
        self._threads: dict[int, ThreadState] = {}
        self._op_spans: dict[int, Span] = {}  # sequence number -> the span of the op
        self._stopped = False
        self._handlers: dict[type, Callable[[ThreadState, Any, int], Span | None]] = {
            WorkStarted: self._work_started,
            WorkEnded: self._work_ended,
            ModuleEntered: self._module_entered,
            ModuleLeft: self._module_left,
            TensorMade: self._tensor_made,
            GradientAccumulated: self._gradient_accumulated,
            MessageSent: self._message_sent,
            MessageArrived: self._message_arrived,
        }

    # Start and stop ---------------------------------------------------------------------

    def start(self) -> None:
        """Listen in this thread, and in code that runs in a copy of its context."""
        self.resume()
        self.began = now()

    def resume(self) -> None:
        """Listen again, if leaving a block has restored the modes from before `start`."""
        modes = current()
        if self not in modes.listeners:
            switch(modes, listeners=(*modes.listeners, self))

    @property
    def overhead_ns(self) -> int:
        """Nanoseconds that the listener itself has taken."""
        return sum(thread.aside for thread in self._threads.values())

    def stop(self) -> None:
        """Stop listening. Open spans end now."""
        at = self.ended = now()
        self._stopped = True
        self._stop_listening()
        for thread in self._threads.values():
            while thread.open:
                self._finish(thread, thread.open[-1][0], at)
        if self.memory is not None:
            self.memory.close()
        if self.device is not None:
            self._read_marks(self.roots)
        self._op_spans.clear()

    def _stop_listening(self) -> None:
        modes = current()
        if self in modes.listeners:
            others = tuple(listener for listener in modes.listeners if listener is not self)
            switch(modes, listeners=others)

    def _read_marks(self, spans: list[Span]) -> None:
        for span in spans:
            if span.marks is not None:
                span.device_ns = self.device.elapsed_ns(*span.marks)
                span.marks = None
            self._read_marks(span.children)

    # Events -----------------------------------------------------------------------------

    def __call__(self, event: Any) -> None:
        """Handle one event."""
        at = now()
        if self._stopped:  # leaving a block has restored the modes from before `stop`
            self._stop_listening()
            return
        handler = self._handlers.get(event.__class__)
        if handler is None:
            return
        thread = self._thread()
        self.events += 1
        span = handler(thread, event, at)
        done = now()
        thread.aside += done - at
        if span is not None:
            span.start, span.aside = done, -thread.aside

    def _thread(self) -> ThreadState:
        number = threading.get_ident()
        thread = self._threads.get(number)
        if thread is None:
            thread = self._threads[number] = ThreadState(number)
        return thread

    def begin(self, kind: str, name: str) -> None:
        """Open a span explicitly; `end` closes it by its name."""
        thread = self._thread()
        span = self._open(thread, kind, name, name)
        span.start, span.aside = now(), -thread.aside

    def end(self, name: str) -> None:
        """Close a span that `begin` opened, and all open spans inside it."""
        self._finish(self._thread(), name, now())

    def _open(self, thread: ThreadState, kind: str, name: str, key: Any) -> Span:
        parent = thread.open[-1][1] if thread.open else None
        span = Span(kind, name, thread.number, parent)
        span.module = thread.modules
        thread.open.append((key, span))
        if self.device is not None:
            span.marks = (self.device.record_event(), None)
        return span

    def _finish(self, thread: ThreadState, key: Any, at: int) -> Span | None:
        """Close the innermost span of `key`, and spans that an exception left open inside it."""
        for depth in range(len(thread.open) - 1, -1, -1):
            if thread.open[depth][0] is key:
                break
        else:
            return None  # it began before `start`
        span = None
        while len(thread.open) > depth:
            span = thread.open.pop()[1]
            span.end = max(at, span.start)
            span.aside = min(span.aside + thread.aside, span.end - span.start)
            if span.marks is not None:
                span.marks = (span.marks[0], self.device.record_event())
            siblings = self.roots if span.parent is None else span.parent.children
            siblings.append(span)
            if span.kind == "module":
                thread.modules = span.module
        return span

    # Handlers of events -----------------------------------------------------------------

    def _work_started(self, thread: ThreadState, event: WorkStarted, at: int) -> Span:
        span_kind, subject = event.kind, event.subject
        span = self._open(thread, span_kind, span_name(event), subject)
        options = self.options
        if span_kind in ("op", "collective") and (options.shapes or options.flops):
            span.shapes = [shape_of(input_) for input_ in event.inputs]
            span.dtypes = [dtype_of(input_) for input_ in event.inputs]
        if span_kind == "node":
            span.sequence = subject._order
            maker = self._op_spans.get(subject._order)
            span.module = maker.module if maker is not None else ()
        if options.stack:
            span.stack = user_stack()
        if self.memory is not None:
            if span_kind == "node" and len(thread.open) > 1:  # sums and broadcasts of the engine
                thread.open[-2][1].made += self.memory.record_allocations(event.inputs)
            else:
                self.memory.mark_foreign(event.inputs)
            if span_kind == "optimizer":
                self.memory.mark_foreign(optimizer_state(subject))
        return span

    def _work_ended(self, thread: ThreadState, event: WorkEnded, at: int) -> None:
        span = self._finish(thread, event.subject, at)
        if span is None:
            return
        result = event.result
        span.failed = event.failed
        if event.kind == "op" and result is not None:
            self._op_ended(span, event.subject, result)
        elif event.kind == "node" and self.options.flops:
            maker = self._op_spans.get(span.sequence or 0)
            if maker is not None and is_product_op(event.subject.op):
                computed = [
                    gradient is not None for gradient in (result or ())[:2]
                ]  # a bias is only a sum
                span.flops = maker.flops * sum(computed)
        if self.memory is not None:
            if event.kind == "optimizer":
                span.made += self.memory.record_allocations(optimizer_state(event.subject))
            elif result is not None:
                span.made += self.memory.record_allocations(result)
                if event.kind == "op":
                    span.kept = self._kept(result)

    def _op_ended(self, span: Span, op: Any, result: Any) -> None:
        first = result[0] if isinstance(result, tuple) else result
        node = getattr(first, "_node", None)
        if node is not None and node is not LEAF:
            span.sequence = node._order
            self._op_spans[node._order] = span
        if self.options.flops and (self.counts_op is None or self.counts_op(op)):
            span.flops = flops_of(op, span.shapes, shape_of(first))

    def _kept(self, result: Any) -> int:
        node = getattr(result[0] if isinstance(result, tuple) else result, "_node", None)
        saved = node.saved if isinstance(node, Node) else None
        return self.memory.record_saved(saved) if self.memory and saved.__class__ is tuple else 0

    def _message_sent(self, thread: ThreadState, event: MessageSent, at: int) -> None:
        self.messages[event.number] = Message(event.name, event.size, at)

    def _message_arrived(self, thread: ThreadState, event: MessageArrived, at: int) -> None:
        message = self.messages.get(event.number)
        if message is not None:  # it was sent after `start`
            message.end = at

    def _module_entered(self, thread: ThreadState, event: ModuleEntered, at: int) -> Span:
        name = self._names.name(event.module)
        span = self._open(thread, "module", f"nn.Module: {name}", event.module)
        thread.modules = (*thread.modules, name)
        if self.options.shapes:
            span.shapes = [shape_of(input_) for input_ in event.inputs]
        if self.options.stack:
            span.stack = user_stack()
        return span

    def _module_left(self, thread: ThreadState, event: ModuleLeft, at: int) -> None:
        self._finish(thread, event.module, at)

    def _tensor_made(self, thread: ThreadState, event: TensorMade, at: int) -> None:
        if self.memory is not None:
            self._charge(thread, self.memory.record_allocations(event.tensor))

    def _gradient_accumulated(
        self, thread: ThreadState, event: GradientAccumulated, at: int
    ) -> None:
        if self.memory is not None:
            self._charge(
                thread, self.memory.record_allocations((event.gradient, event.tensor.grad))
            )

    def _charge(self, thread: ThreadState, made: int) -> None:
        if thread.open:
            thread.open[-1][1].made += made

    def _freed(self, size: int) -> None:
        """Count freed memory for the innermost open span."""
        thread = self._threads.get(threading.get_ident())
        if thread is not None and thread.open:
            thread.open[-1][1].freed += size


# Plain data of live objects --------------------------------------------------------------


def span_name(event: WorkStarted) -> str:
    subject = event.subject
    if event.kind == "node":
        return subject.name()
    if event.kind == "optimizer":
        return f"Optimizer.{event.detail}#{type(subject).__name__}.{event.detail}"
    if event.kind == "data":
        return f"enumerate({type(subject).__name__})#__next__"
    if event.kind in ("range", "collective"):
        return str(subject)
    if event.kind == "backward":
        return "backward"
    return subject.__name__ if isinstance(subject, type) else subject.label


def shape_of(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [shape_of(item) for item in value]
    return tuple(value._array.shape) if isinstance(value, Tensor) else ()


def dtype_of(value: Any) -> str:
    if isinstance(value, Tensor):
        return dtypes.of(value._array.dtype).name
    return "" if value is None else type(value).__name__


def optimizer_state(optimizer: Any) -> list[Any]:
    """Return all tensors and arrays in the state of an optimizer."""
    return [value for held in list(optimizer.state.values()) for value in held.values()]


def user_stack() -> list[str]:
    """Return the user's stack frames, the innermost first."""
    lines, frame = [], user_frame(2)
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith("edutorch."):
            code = frame.f_code
            lines.append(f"{code.co_filename}({frame.f_lineno}): {code.co_name}")
        frame = frame.f_back
    return lines


def cost_per_span(repeat: int = 200) -> float:
    """Measure how much time recording adds to a program, in seconds per span.

    The part of it that is spent inside the listener is excluded from the spans.

    >>> 0 < cost_per_span(20) < 1
    True
    """
    from ..events import work

    best = sys.maxsize
    for _ in range(3):
        recording = Recording(RecordingOptions())
        with listening(recording):
            began = now()
            for _ in range(repeat):
                with work("range", "x"):
                    pass
            best = min(best, now() - began)
    return best / repeat / 1e9


class ModuleNames:
    """Names of modules, computed when one is first entered. No module is kept alive."""

    def __init__(self) -> None:
        self._paths: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

    def name(self, module: Any) -> str:
        """Return a name such as 'features.0 (Conv2d)', or 'Net' for the outermost."""
        path = self._paths.get(module)
        if path is None:
            for below, submodule in module.named_modules():
                if not self._paths.get(submodule):
                    self._paths[submodule] = below
            path = self._paths[module]
        class_name = type(module).__name__
        return f"{path} ({class_name})" if path else class_name


Shapes = Sequence[Sequence[int]]


PRODUCTS = {"matmul", "mm", "bmm", "mv", "dot", "addmm", "linear", "baddbmm", "addmv", "vdot"}
"""Matrix products: sums over the last axis of the first matrix."""


CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "conv_nd"}


def flops_of(op: Any, shapes: Shapes, output: Sequence[int]) -> int:
    """Return the FLOPs of an op's forward. A multiplication and an addition count as two.

        matmul       2 · (elements of the result) · (length of the sums)
        convolution  2 · (elements of the result) · (elements of one filter); for a transposed
                     convolution: elements of the input
        elementwise  elements of the result
        reduction    elements of the input
        data movement: none

    In backward, each gradient of a matmul or a convolution is a product of the same size, so its
    node counts the forward's FLOPs once per gradient that it returns. Nodes of other ops count
    nothing.

    Args:
        shapes: the shapes of its inputs; () for a number.
        output: the shape of its result.
    """
    name, family = getattr(op, "name", ""), getattr(op, "family", None)
    if name in PRODUCTS and shapes:
        matrices = shapes[1:] if name.startswith(("addm", "badd")) else shapes
        return 2 * math.prod(output) * (matrices[0][-1] if matrices and matrices[0] else 1)
    if (
        name == "conv_transpose_nd"
    ):  # each element of the input is multiplied by each weight of its filter
        return 2 * math.prod(shapes[0]) * math.prod(shapes[1][1:])
    if name in CONVOLUTIONS:
        return 2 * math.prod(output) * math.prod(shapes[1][1:])
    if family is None:
        return 0
    if family.reduces:
        return math.prod(shapes[0]) if shapes else 0
    return math.prod(output) if family.broadcasts else 0


def is_product_op(op: Any) -> bool:
    """Return True for products, each of whose gradients costs as much as the forward."""
    name = getattr(op, "name", "")
    return name in PRODUCTS or name in CONVOLUTIONS or name == "conv_transpose_nd"
