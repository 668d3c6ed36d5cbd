"""Modes that change how an op behaves: recording, inference, listeners.

They are fields of one immutable `Modes` object held by a `ContextVar`. Each
thread and each asyncio task therefore has its own, and a new thread starts
with the defaults, as in PyTorch. An op first checks whether the object is
`DEFAULT` (or `NO_GRAD`, inside `no_grad`): then nothing else has to be checked.
"""

from __future__ import annotations

import functools
import inspect
from _signal import SIGINT, default_int_handler  # `signal` itself converts, which takes 3 µs
from _signal import getsignal as _getsignal
from _signal import signal as _signal
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes in force.

    Attributes:
        grad: record the graph.
        inference: mark results as never recordable.
        listeners: callables that receive every event (see `events.py`).
        levels: open levels of forward mode, the outermost first (see
            `core/autograd/forward_mode.py`).
        saving: the hooks on values saved for backward, or the reason why none may be saved (see
            `core/autograd/saved_tensors.py`).
        batches: open levels of `vmap`, the outermost first (see `backends/batching.py`).
        autocast: the object that converts the operands of ops, or None (see `amp/`).
        op_recorder: receives each recorded result, at little cost (see `events.py`).
        function_modes: open `TorchFunctionMode`s, the innermost last: ops are handed to it.
    """

    grad: bool = True
    inference: bool = False
    listeners: tuple[Callable[[Any], None], ...] = ()
    levels: tuple[Any, ...] = ()
    saving: Any = None
    batches: tuple[Any, ...] = ()
    autocast: Any = None
    op_recorder: Any = None
    function_modes: tuple[Any, ...] = ()


class TrackedModes(Modes):
    """The usual modes with an op recorder: ops take their fast path."""

    __slots__ = ()


class ObservedModes(Modes):
    """The usual modes with listeners: events are emitted around an op's fast path."""

    __slots__ = ()


DEFAULT = Modes()
NO_GRAD = Modes(grad=False)
_CURRENT: ContextVar[Modes] = ContextVar("edutorch_modes", default=DEFAULT)
current = _CURRENT.get


def _canonical(modes: Modes) -> Modes:
    """Return the `DEFAULT` or `NO_GRAD` object for equal modes, so that `is` can test for it."""
    unusual = (
        modes.inference or modes.levels or modes.saving is not None
        or modes.batches or modes.autocast is not None or modes.function_modes
    )  # fmt: skip
    if unusual or (modes.listeners and modes.op_recorder is not None):
        return modes if modes.__class__ is Modes else Modes(**_fields(modes))
    if modes.listeners:
        return ObservedModes(modes.grad, listeners=modes.listeners)
    if modes.op_recorder is not None:
        return TrackedModes(modes.grad, op_recorder=modes.op_recorder)
    return DEFAULT if modes.grad else NO_GRAD


def _fields(modes: Modes) -> dict[str, Any]:
    return {field.name: getattr(modes, field.name) for field in fields(modes)}


def switch(before: Modes, **changes: Any) -> None:
    """Set the modes of this thread to `before` with some fields changed."""
    _CURRENT.set(_canonical(replace(before, **changes)))


def set_op_recorder(before: Modes, recorder: Any) -> None:
    """Set the op recorder of this thread, or none.

    As `switch` does, but faster, as a watched loop calls this in each step.
    """
    if before is DEFAULT or before.__class__ is TrackedModes:
        quiet = DEFAULT if before.grad else NO_GRAD
        _CURRENT.set(quiet if recorder is None else TrackedModes(before.grad, op_recorder=recorder))
    else:
        switch(before, op_recorder=recorder)


# Ctrl-C can strike between any two instructions, also while a mode is being left, which would
# then stay in force. So inside a block another handler defers it until the mode is left.


_DEFERRED: list[int] = []  # interrupts that have come while a mode was being entered or left


def handle_sigint(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, or defer it while a mode is being entered or left."""
    inner = frame
    while inner is not None:
        if inner.f_code in _SWITCHING:
            _DEFERRED.append(number)
            return
        inner = inner.f_back
    default_int_handler(number, frame)


def raise_deferred_sigint() -> None:
    """Raise the deferred KeyboardInterrupt, in the main thread only."""
    if current_thread() is main_thread():
        _DEFERRED.clear()
        default_int_handler(SIGINT, None)


def defer_sigint() -> bool:
    """Install `handle_sigint` in place of Python's own handler; return True if it was that."""
    if _getsignal(SIGINT) is not default_int_handler or current_thread() is not main_thread():
        return False
    try:
        _signal(SIGINT, handle_sigint)
    except ValueError:  # the main thread of an interpreter that is not the main one
        return False
    return True


class ModeContext:
    """Changes some modes inside a `with` block or a decorated function.

    A subclass defines the changes by overriding `changes`. One object may be
    entered several times, also inside itself: each entry saves the modes before it.
    """

    _outer: Modes | None = None  # the modes to restore, if not those on entry

    def __init__(self) -> None:
        self._before: list[tuple[Modes, bool]] = []

    def changes(self, modes: Modes) -> dict[str, Any]:
        """Return the fields of `modes` that are different inside, with their values."""
        raise NotImplementedError

    def after(self, before: Modes) -> Modes:
        """Return the modes inside, given those outside."""
        return _canonical(replace(before, **self.changes(before)))

    def __enter__(self) -> Any:
        replaced = defer_sigint()
        before = current()
        self._before.append((self._outer or before, replaced))
        _CURRENT.set(self.after(before))
        if _DEFERRED:
            self.__exit__()
        return self

    def __exit__(self, *exception: object) -> None:
        before, replaced = self._before.pop()
        _CURRENT.set(before)
        if replaced and _getsignal(SIGINT) is handle_sigint:
            _signal(SIGINT, default_int_handler)
        if _DEFERRED:
            raise_deferred_sigint()

    def clone(self) -> ModeContext:
        """Return a new context of the same class, for one call of a decorated function."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate `function`. A generator is in the mode only while its own code runs."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args: Any, **kwargs: Any) -> Any:
                running = function(*args, **kwargs)
                reply, send = None, running.send
                while True:
                    try:
                        with self.clone():
                            value = send(reply)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        reply, send = (yield value), running.send
                    except GeneratorExit:
                        running.close()
                        raise
                    except BaseException as error:  # noqa: BLE001  (passed on)
                        reply, send = error, running.throw

            return generator

        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return wrapped


class pause_listeners:
    """Switch the listeners off inside the block, so that an op takes its fast path."""

    __slots__ = ("before",)

    def __enter__(self) -> None:
        self.before = before = current()
        _CURRENT.set(DEFAULT if before.grad else NO_GRAD)

    def __exit__(self, *exception: object) -> None:
        _CURRENT.set(self.before)
        if _DEFERRED:
            raise_deferred_sigint()


_SWITCHING = {
    method.__code__
    for method in (
        ModeContext.__enter__, ModeContext.__exit__, defer_sigint,
        pause_listeners.__enter__, pause_listeners.__exit__,
    )
}  # fmt: skip


class no_grad(ModeContext):
    """Stop recording: results inside the block do not require gradients.

    >>> x = tensor(2.0, requires_grad=True)
    >>> with no_grad():
    ...     y = x * 3
    >>> y.requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        context = super().__new__(cls)
        if function is None:
            return context
        context.__init__()  # `@no_grad` without parentheses decorates at once
        return context(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__()

    plain = NO_GRAD

    def after(self, before: Modes) -> Modes:
        """Return the modes inside, with a shortcut for the usual ones."""
        if before is DEFAULT or before is NO_GRAD:
            return self.plain
        return super().after(before)

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {"grad": False}


class enable_grad(no_grad):
    """Record again inside a `no_grad` block.

    >>> x = tensor(2.0, requires_grad=True)
    >>> with no_grad(), enable_grad():
    ...     y = x * 3
    >>> y.requires_grad
    True
    """

    plain = DEFAULT

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {"grad": not modes.inference}


class set_grad_enabled(ModeContext):
    """Switch recording on or off: at once, and for a `with` block if used as one.

    >>> with set_grad_enabled(False):
    ...     is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        before = current()
        self._outer = before
        switch(before, grad=self.mode)

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {"grad": self.mode}

    def clone(self) -> ModeContext:
        """Return a fresh context with the same setting."""
        return set_grad_enabled(self.mode)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        _CURRENT.set(self._outer or DEFAULT)  # used as a decorator: the switch belongs to the calls
        return super().__call__(function)


class inference_mode(ModeContext):
    """Like `no_grad`, and the results can never enter a recorded graph.

    >>> with inference_mode():
    ...     y = ones(2)
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        context = super().__new__(cls)
        if isinstance(mode, bool):
            return context
        context.__init__()
        return context(mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self.mode = mode

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {"grad": not self.mode, "inference": self.mode}

    def clone(self) -> ModeContext:
        """Return a fresh context with the same setting."""
        return inference_mode(self.mode)


class listening(ModeContext):
    """Send every event inside the block to `listener`, a callable of one event."""

    def __init__(self, listener: Callable[[Any], None]) -> None:
        super().__init__()
        self.listener = listener

    def changes(self, modes: Modes) -> dict[str, Any]:
        return {"listeners": (*modes.listeners, self.listener)}

    def clone(self) -> ModeContext:
        """Return a fresh context with the same setting."""
        return listening(self.listener)


class override_modes(ModeContext):
    """Override some fields of the modes inside the block: `override_modes(listeners=())`."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.fields = fields

    def changes(self, modes: Modes) -> dict[str, Any]:
        return self.fields

    def clone(self) -> ModeContext:
        """Return a fresh context with the same fields."""
        return override_modes(**self.fields)


def is_grad_enabled() -> bool:
    """Return True if ops are recorded in this thread.

    >>> is_grad_enabled()
    True
    """
    return current().grad


def is_inference_mode_enabled() -> bool:
    """Return True if `inference_mode` is on in this thread.

    >>> is_inference_mode_enabled()
    False
    """
    return current().inference
