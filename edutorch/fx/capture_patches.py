"""Patches that intercept every access to tensors, gradients and generators during a capture.

Most code of this library computes with `tensor._array`. During a capture this slot is a
property: reading it returns the traced array, and a tensor from outside becomes an input. The
same is done to `_grad`, to the source of a generator, in the optimizers to `float` and `math`,
which would otherwise turn traced numbers into plain ones, and in the user's modules to `print`.
All patches check the thread: other threads see the original attributes.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat
from weakref import ref

import numpy as np

from ..backends.batching import BatchedArray
from ..backends.numpy import Array, Exported, Shared
from ..core.tensor import Tensor
from ..ops import creation, tensor
from ..ops.random import Generator
from . import primitives
from .capture_context import Tracer
from .traced_array import TracedArray, TracedNumber, is_device_array, memory_owner

__all__ = ["current_tracer", "CapturePatches"]

ARRAY: Any = Tensor.__dict__["_array"]
GRAD: Any = Tensor.__dict__["_grad"]
PLAIN_ARRAY_TYPES = {np.ndarray, Shared, Exported}
CAPTURE_LOCK = threading.RLock()
_RUNNING: list[Tracer] = []


def current_tracer() -> Tracer | None:
    """Return the tracer of this thread, or None if nothing is being captured."""
    if not _RUNNING:
        return None
    tracer = _RUNNING[-1]
    return tracer if tracer.thread == threading.get_ident() and not tracer.done else None


class CapturePatches:
    """Installs all patches for one capture: `with CapturePatches(tracer, input_name):`.

    Args:
        input_name: called with a tensor from outside when it is first read; returns the name
            of its input, or None if it cannot be found in the next call.
        scopes: the globals of the user's functions, where `print` is intercepted.
    """

    def __init__(
        self, tracer: Tracer, announce: Callable[[Tensor], str | None],
        scopes: Sequence[dict[str, Any]] = (),
    ) -> None:  # fmt: skip
        self.tracer, self.input_name, self.scopes = tracer, announce, scopes
        self.fresh: set[int] = set()  # ids of tensors created during the capture
        self.tensors: list[Any] = []  # weak references to tensors that hold traced arrays
        self.lifted: list[tuple[Tensor, TracedArray]] = []
        self.nodes: list[Any] = []  # the original `_node` of each of them
        self.grads: dict[int, tuple[Tensor, Any, bool]] = {}  # (…, original, was it read?)
        self.generators: dict[int, tuple[Any, Any]] = {}  # with their states before the first draw
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> CapturePatches:
        CAPTURE_LOCK.acquire()  # classes are patched: one capture at a time
        _RUNNING.append(self.tracer)
        self.replace_slot(Tensor, "_array", property(self.read_array, self.store_array))
        self.replace_slot(Tensor, "_grad", property(self.read_grad, self.store_grad))
        watcher = self

        def source(generator: Generator) -> Any:
            return watcher.random_source(generator)

        def replace(generator: Generator, value: object) -> None:
            generator.__dict__["random"] = value
            if watcher.tracer.is_running():
                watcher.tracer.poison("a generator is given a seed or a state")

        Generator.random = property(source, replace)  # type: ignore[attr-defined,assignment]
        self._undo.append(lambda: delattr(Generator, "random"))
        for name, module in list(sys.modules.items()):
            if name.startswith("edutorch.optim.") and module is not None:
                self.shadow_name(module.__dict__, "float", TracedFloat)
                if module.__dict__.get("tensor") is tensor:
                    self.shadow_name(module.__dict__, "tensor", self.tensor)
                if module.__dict__.get("math") is math:
                    self.shadow_name(module.__dict__, "math", TracedMath(self.tracer))
        if self.tracer.options.keeps_creations:
            self.shadow_name(creation.__dict__, "recorded", self.record_creation)
        printing = print

        def print_and_poison(*args: Any, **kwargs: Any) -> None:
            if watcher.tracer.is_running():
                watcher.tracer.poison("it prints")
            printing(*args, **kwargs)

        for scope in self.scopes:
            self.shadow_name(scope, "print", print_and_poison)
        return self

    def __exit__(self, *exception: object) -> None:
        self.tracer.done = True
        for undo in reversed(self._undo):  # a name that was patched twice gets its first value back
            undo()
        for reference in self.tensors:
            tensor = reference()
            if tensor is not None:
                array = ARRAY.__get__(tensor)
                if array.__class__ is TracedArray:
                    ARRAY.__set__(tensor, array.held)
        _RUNNING.remove(self.tracer)
        CAPTURE_LOCK.release()

    def replace_slot(self, holder: type, name: str, value: object) -> None:
        """Replace a slot of a class until the capture ends."""
        before = holder.__dict__[name]
        setattr(holder, name, value)
        self._undo.append(lambda: setattr(holder, name, before))

    def shadow_name(self, scope: dict[str, Any], name: str, value: object) -> None:
        """Set a global name until the capture ends."""
        missing = object()
        before = scope.get(name, missing)
        scope[name] = value

        def undo() -> None:
            if before is missing:
                scope.pop(name, None)
            else:
                scope[name] = before

        self._undo.append(undo)

    # Tensors --------------------------------------------------------------------------------

    def read_array(self, tensor: Tensor) -> Any:
        """Return the traced array of a tensor."""
        array = ARRAY.__get__(tensor)
        if array.__class__ is TracedArray:
            return array if not self.tracer.forward_depth else array.held
        if not self.tracer.is_running():
            return array
        if array.__class__ not in PLAIN_ARRAY_TYPES and not is_device_array(array):
            if not isinstance(array, BatchedArray):
                self.tracer.poison("a tensor is used that is not an ordinary one")
            return array
        if id(tensor) in self.fresh:  # made by the function: a constant, unless it was computed
            if isinstance(array, Shared):
                self.tracer.poison("a tensor shows the memory of a NumPy array")
            traced = self.tracer.backend_of(array).lift(array)
        else:
            name = self.input_name(tensor)
            if name is None:
                self.tracer.poison(
                    f"a tensor of shape {tuple(array.shape)} is used, and nothing says where "
                    "it will be found in the next call"
                )
            traced = self.tracer.placeholder(name or "unknown", array)
            self.lifted.append((tensor, traced))
            self.nodes.append(tensor._node)
            hooks = tensor._hooks
            if hooks is not None and any(getattr(hooks, slot) for slot in hooks.__slots__):
                self.tracer.poison("a hook is hung on a tensor from outside")
        ARRAY.__set__(tensor, traced)
        self.tensors.append(ref(tensor))
        return traced

    def store_array(self, tensor: Tensor, array: Array) -> None:
        """Set `_array`: of a new tensor, or, which a graph cannot represent, of an existing one."""
        if self.tracer.is_running():
            try:
                before = ARRAY.__get__(tensor)
            except AttributeError:
                self.fresh.add(id(tensor))
            else:
                if id(tensor) not in self.fresh and before is not array:
                    self.read_array(tensor)
                    self.tracer.poison("a tensor from outside gets other memory (x.data = …)")
        ARRAY.__set__(tensor, array)
        if array.__class__ is TracedArray:
            self.tensors.append(ref(tensor))

    def record_creation(
        self, name: str, args: Sequence[Any], settings: dict[str, Any], output: Tensor
    ) -> Tensor:
        """Make a new tensor the result of a node that calls the creation function again."""
        tracer, array = self.tracer, ARRAY.__get__(output)
        if not tracer.is_running() or array.__class__ not in (np.ndarray, TracedArray):
            return output
        is_traced = array.__class__ is TracedArray
        node = tracer.backend.creation_node(
            name, args, settings, array.held if is_traced else array
        )
        if is_traced:
            array._node = node
        else:
            traced = tracer.array(array, node)
            tracer.memories.setdefault(memory_owner(array), traced.memory)
            tracer.keep_alive.append(array)
            ARRAY.__set__(output, traced)
            self.tensors.append(ref(output))
        return output

    # Gradients ------------------------------------------------------------------------------

    def read_grad(self, tensor: Tensor) -> Any:
        """Return `_grad`, and record that the function depends on it."""
        value = GRAD.__get__(tensor)
        if self.tracer.is_running() and id(tensor) not in self.fresh:
            self.grads.setdefault(id(tensor), (tensor, value, True))
        return value

    def store_grad(self, tensor: Tensor, value: Tensor | None) -> None:
        """Set `_grad`, and record its original value."""
        if self.tracer.is_running() and id(tensor) not in self.fresh:
            try:
                self.grads.setdefault(id(tensor), (tensor, GRAD.__get__(tensor), False))
            except AttributeError:
                self.fresh.add(id(tensor))
        GRAD.__set__(tensor, value)

    def tensor(self, data: object, *args: Any, **named: Any) -> Tensor:
        """Make a tensor in an optimizer; a traced number is replaced by its current value."""
        if isinstance(data, TracedNumber):
            self.tracer.poison("an optimizer keeps a number in a tensor")
            data = data.value
        return tensor(data, *args, **named)

    # Random numbers ---------------------------------------------------------------------------

    def random_source(self, generator: Generator) -> Any:
        """Return the source of a generator: a traced one in the capturing thread."""
        tracer = self.tracer
        if tracer.forward_depth and threading.get_ident() == tracer.thread:
            tracer.draw_count += 1
        if not tracer.is_running():
            return generator.__dict__["random"]
        if id(generator) not in self.generators:
            self.generators[id(generator)] = generator, generator.__dict__["random"].get_state()
        return TracedRandom(tracer, generator)


class TracedRandom:
    """Draws real random numbers, and records each draw as a node that is not deterministic."""

    def __init__(self, tracer: Tracer, generator: Generator) -> None:
        self._tracer, self._generator = tracer, generator

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._generator.__dict__["random"], name)
        if name not in ("uniform", "normal", "integers", "permutation"):
            self._tracer.poison(f"the random generator is used by {name!r}")
            return method

        def drawn(*args: Any) -> Any:
            values = method(*args)
            return self._tracer.backend_of(values).record_node(
                primitives.draw, (self._generator, name, *args), {}, values, random=True
            )

        return drawn


# Numbers in optimizers -------------------------------------------------------------------------


class _IsFloat(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, float)

    def __call__(cls, value: SupportsFloat = 0.0) -> Any:
        if isinstance(value, Tensor):  # a learning rate that is a tensor
            array: Any = value._array
            if isinstance(array, TracedArray) and array.backend.tracer.is_running():
                return array.number()
        return value if isinstance(value, TracedNumber) else float(value)


class TracedFloat(metaclass=_IsFloat):
    """`float`, except that a traced number stays one."""


class TracedMath:
    """The module `math`, with a square root of traced numbers."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        return getattr(math, name)

    def sqrt(self, value: TracedNumber | float) -> Any:
        """Return the square root."""
        if isinstance(value, TracedNumber):
            return value.backend.number(math.sqrt, (value,))
        return math.sqrt(value)
