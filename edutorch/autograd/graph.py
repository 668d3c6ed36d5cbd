"""The recorded graph: saved-tensor hooks, gradient edges, and hooks on several tensors."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from ..core.autograd.engine import Engine, running_engine
from ..core.autograd.graph import AccumulateGrad, Node, RemovableHandle
from ..core.tensor import LEAF, Tensor, wrap
from ..errors import GradientError
from ..modes import ModeContext, Modes

__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks",
    "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip


class saved_tensors_hooks(ModeContext):
    """Inside the block, tensors saved for backward are packed by `pack_hook`.

    Backward calls `unpack_hook` on the result to restore the tensor.

    Args:
        pack_hook: takes a tensor, returns anything. It must not change the tensor.
        unpack_hook: takes that, returns a tensor with the same values.

    Raises: RuntimeError: hooks are disabled here.

    >>> x = tensor([2.0], requires_grad=True)
    >>> with autograd.graph.saved_tensors_hooks(lambda x: x.tolist(), lambda x: tensor(x)):
    ...     y = x.exp()
    >>> y.grad_fn.saved is None
    False
    >>> y.backward(); x.grad
    tensor([7.3891])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        super().__init__()
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks(): {name} must be callable, got {hook!r}")
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def changes(self, modes: Modes) -> dict[str, Any]:
        if isinstance(modes.saving, str):
            raise RuntimeError(modes.saving)
        return {"saving": (self.pack_hook, self.unpack_hook)}

    def __enter__(self) -> None:
        super().__enter__()

    def clone(self) -> ModeContext:
        """Return a new context with the same hooks."""
        return saved_tensors_hooks(self.pack_hook, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """Store the tensors saved for backward in CPU memory instead of the GPU's.

    Args:
        pin_memory: accepted, without effect.

    >>> x = tensor([2.0], requires_grad=True)
    >>> with autograd.graph.save_on_cpu():
    ...     y = x * x
    >>> y.backward(); x.grad
    tensor([4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Any, Tensor]:
            return tensor.device, tensor.detach().to("cpu", copy=True)

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


class disable_saved_tensors_hooks(ModeContext):
    """Inside the block `saved_tensors_hooks` raises a RuntimeError with this message.

    >>> with autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with autograd.graph.save_on_cpu():
    ...         pass
    Traceback (most recent call last):
    RuntimeError: not here
    """

    def __init__(self, error_message: str) -> None:
        super().__init__()
        self.error_message = error_message

    def changes(self, modes: Modes) -> dict[str, Any]:
        if isinstance(modes.saving, tuple):
            raise RuntimeError(self.error_message)
        return {"saving": self.error_message}

    def __enter__(self) -> None:
        super().__enter__()

    def clone(self) -> ModeContext:
        """Return a new context with the same message."""
        return disable_saved_tensors_hooks(self.error_message)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """Inside the block, tensors saved for backward may be overwritten: copies are saved.

    (PyTorch copies a tensor when it is overwritten, edutorch when it is saved.)

    >>> x = tensor([2.0], requires_grad=True)
    >>> with autograd.graph.allow_mutation_on_saved_tensors():
    ...     a = x.clone(); y = a * a
    ...     _ = a.zero_()
    >>> y.backward(); x.grad
    tensor([4.])
    """

    def __init__(self) -> None:
        def pack(tensor: Tensor) -> Tensor:
            return wrap(tensor._array.copy())

        super().__init__(pack, lambda packed: packed)

    def clone(self) -> ModeContext:
        """Return a new context of the same kind."""
        return allow_mutation_on_saved_tensors()


# Edges --------------------------------------------------------------------------------


class GradientEdge(NamedTuple):
    """A target of gradients: a node of the graph, and the index of one of its outputs."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge along which the gradient of a tensor enters the graph.

    Raises: GradientError: the tensor does not require grad.

    >>> x = tensor(1.0, requires_grad=True)
    >>> autograd.graph.get_gradient_edge(x * 2)
    GradientEdge(node=<MulBackward0>, output_nr=0)
    """
    node = tensor._node
    if node is None:
        raise GradientError(
            "get_gradient_edge", "It is not possible to get the gradient edge for a Tensor "
            "that does not require gradients",
        )  # fmt: skip
    if node is LEAF:
        return GradientEdge(AccumulateGrad(tensor), 0)
    return GradientEdge(*node.public_node())


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Record a write that edutorch could not see, so that backward can detect stale values.

    >>> x = tensor(1.0); autograd.graph.increment_version(x); x._version
    1
    """
    for written in [tensor] if isinstance(tensor, Tensor) else tensor:
        written._bump()


# Hooks on several tensors --------------------------------------------------------------


class _MultiHandle:
    """The handle of a hook on several tensors."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook from all tensors."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _MultiHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all"
) -> _MultiHandle:
    """Call `fn` when the gradients of several tensors have been computed.

    Args:
        fn: takes the list of gradients, None for a tensor without one in this backward
            (with mode "any": the first gradient, once per backward).
        mode: "all" or "any".

    Raises: ValueError: another mode.

    >>> a, b = tensor(1.0, requires_grad=True), tensor(2.0, requires_grad=True)
    >>> _ = autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (a * b).backward()
    [tensor(2.), tensor(1.)]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    collected = GradientCollector(tensors, fn, mode)
    hooks = [tensor.register_hook(collected.hook(i)) for i, tensor in enumerate(tensors)]
    return _MultiHandle(hooks)


class GradientCollector:
    """Collects the gradients of several tensors during a backward pass."""

    def __init__(self, tensors: Sequence[Tensor], fn: Callable[[Any], None], mode: str) -> None:
        self.fn, self.mode, self.count = fn, mode, len(tensors)
        self.by_pass: WeakKeyDictionary[Engine, dict[int, Tensor]] = WeakKeyDictionary()
        self.lock = threading.Lock()

    def hook(self, index: int) -> Callable[[Tensor], None]:
        """Return the hook of one of the tensors."""

        def collect_gradient(gradient: Tensor) -> None:
            engine = running_engine()
            with self.lock:
                gradients = self.by_pass.setdefault(engine, {})
                is_first = not gradients
                gradients[index] = gradient
            if is_first and self.mode == "any":
                self.fn(gradient)
            elif is_first:
                engine.end_callbacks += (self.finish,)

        return collect_gradient

    def finish(self, engine: Engine) -> None:
        """Call the user's function at the end of a backward pass."""
        gradients = self.by_pass.pop(engine)
        self.fn([gradients.get(index) for index in range(self.count)])
