"""While a function is captured, no tensor, gradient or random number is touched unseen.

Most code of this library computes with `tensor._array`. So for the time of a capture this
slot is a property: whoever reads it gets the traced array, and a tensor that nobody had
announced is noticed. The same is done to `_grad`, to the source of a generator, and, in the
optimizers, to `float` and `math`, which would otherwise turn traced numbers into plain ones,
and in the user's own modules to `print`.
All of it looks at the thread: other threads see what they always see.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from ..backends.aliased_array import Lent, Shared
from ..backends.batching import BatchedArray
from ..core.tensor import Tensor
from ..ops import tensor
from ..ops.random import Generator
from . import primitives
from .capture_context import Tracer
from .traced_array import TracedArray, TracedNumber

__all__ = ["capturing", "CapturePatches"]

ARRAY: Any = Tensor.__dict__["_array"]
GRAD: Any = Tensor.__dict__["_grad"]
PLAIN_ARRAY_TYPES = {np.ndarray, Shared, Lent}
CAPTURE_LOCK = threading.RLock()
_RUNNING: list[Tracer] = []


def capturing() -> Tracer | None:
    """Return the tracer of this thread, None where nothing is being captured."""
    if not _RUNNING:
        return None
    tracer = _RUNNING[-1]
    return tracer if tracer.thread == threading.get_ident() and not tracer.done else None


class CapturePatches:
    """Put everything in its place for one capture, and back: `with watched(tracer, name_of):`.

    Args:
        announce: called with a tensor from outside that is touched for the first time;
            returns the name of its input, or None if nobody knows where it comes from.
        scopes: the global names of the user's functions, where `print` is noticed.
    """

    def __init__(
        self, tracer: Tracer, announce: Callable[[Tensor], str | None],
        scopes: Sequence[dict[str, Any]] = (),
    ) -> None:  # fmt: skip
        self.tracer, self.input_name, self.scopes = tracer, announce, scopes
        self.fresh: set[int] = set()  # tensors that were made inside
        self.tensors: list[Any] = []  # weak references to those that hold traced arrays
        self.lifted: list[tuple[Tensor, TracedArray]] = []
        self.nodes: list[Any] = []  # the `_node` of each of them, as it was
        self.grads: dict[int, tuple[Tensor, Any, bool]] = {}  # as it was, and whether it was read
        self.generators: dict[int, tuple[Any, Any]] = {}  # as they were before the first draw
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> CapturePatches:
        CAPTURE_LOCK.acquire()
        _RUNNING.append(self.tracer)
        self.replace_slot(Tensor, "_array", property(self.read_array, self.store_array))
        self.replace_slot(Tensor, "_grad", property(self.read_grad, self.store_grad))
        watcher = self

        def source(generator: Any) -> Any:
            return watcher.random_source(generator)

        def replace(generator: Any, value: Any) -> None:
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
        printing = print

        def noticed(*args: Any, **kwargs: Any) -> None:
            if watcher.tracer.is_running():
                watcher.tracer.poison("it prints")
            printing(*args, **kwargs)

        for scope in self.scopes:
            self.shadow_name(scope, "print", noticed)
        return self

    def __exit__(self, *exception: object) -> None:
        self.tracer.done = True
        for undo in reversed(self._undo):
            undo()
        for reference in self.tensors:
            tensor = reference()
            if tensor is not None:
                array = ARRAY.__get__(tensor)
                if array.__class__ is TracedArray:
                    ARRAY.__set__(tensor, array.held)
        _RUNNING.remove(self.tracer)
        CAPTURE_LOCK.release()

    def replace_slot(self, holder: type, name: str, value: Any) -> None:
        """Replace a slot of a class until the end."""
        before = holder.__dict__[name]
        setattr(holder, name, value)
        self._undo.append(lambda: setattr(holder, name, before))

    def shadow_name(self, scope: dict[str, Any], name: str, value: Any) -> None:
        """Set a global name until the end."""
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
        if array.__class__ not in PLAIN_ARRAY_TYPES:
            if not isinstance(array, BatchedArray):
                self.tracer.poison("a tensor is used that is not an ordinary one on the CPU")
            return array
        if id(tensor) in self.fresh:
            if isinstance(array, Shared):
                self.tracer.poison("a tensor shows the memory of a NumPy array")
            traced = self.tracer.backend.lift(array)
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

    def store_array(self, tensor: Tensor, array: Any) -> None:
        """Note the array of a new tensor, or that an old one gets another."""
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

    # Gradients ------------------------------------------------------------------------------

    def read_grad(self, tensor: Tensor) -> Any:
        """Return `_grad`, and note that the function depends on what it was."""
        value = GRAD.__get__(tensor)
        if self.tracer.is_running() and id(tensor) not in self.fresh:
            self.grads.setdefault(id(tensor), (tensor, value, True))
        return value

    def store_grad(self, tensor: Tensor, value: Any) -> None:
        """Set `_grad`, and note what it was."""
        if self.tracer.is_running() and id(tensor) not in self.fresh:
            try:
                self.grads.setdefault(id(tensor), (tensor, GRAD.__get__(tensor), False))
            except AttributeError:
                self.fresh.add(id(tensor))
        GRAD.__set__(tensor, value)

    def tensor(self, data: Any, *args: Any, **named: Any) -> Tensor:
        """Make a tensor in an optimizer: of a traced number, its value now."""
        if isinstance(data, TracedNumber):
            self.tracer.poison("an optimizer keeps a number in a tensor")
            data = data.value
        return tensor(data, *args, **named)

    # Random numbers ---------------------------------------------------------------------------

    def random_source(self, generator: Any) -> Any:
        """Return the source of a generator: a traced one in the thread that captures."""
        tracer = self.tracer
        if tracer.forward_depth and threading.get_ident() == tracer.thread:
            tracer.draw_count += 1
        if not tracer.is_running():
            return generator.__dict__["random"]
        if id(generator) not in self.generators:
            self.generators[id(generator)] = generator, generator.__dict__["random"].get_state()
        return TracedRandom(tracer, generator)


class TracedRandom:
    """Draws real random numbers, and notes that they are drawn anew in each run."""

    def __init__(self, tracer: Tracer, generator: Any) -> None:
        self._tracer, self._generator = tracer, generator

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._generator.__dict__["random"], name)
        if name not in ("uniform", "normal", "integers", "permutation"):
            self._tracer.poison(f"the random generator is used by {name!r}")
            return method

        def drawn(*args: Any) -> Any:
            return self._tracer.backend.record_node(
                primitives.draw, (self._generator, name, *args), {}, method(*args), random=True
            )

        return drawn


# Numbers in optimizers -------------------------------------------------------------------------


class _IsFloat(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, float)

    def __call__(cls, value: Any = 0.0) -> Any:
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

    def sqrt(self, value: Any) -> Any:
        """Return the square root."""
        if isinstance(value, TracedNumber):
            return value.backend.number(math.sqrt, (value,))
        return math.sqrt(value)
