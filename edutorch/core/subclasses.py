"""Subclasses of Tensor: the classes of results, and `__torch_function__`.

    class Tagged(edutorch.Tensor):
        pass

    x = ones(2).as_subclass(Tagged)
    x + 1                           # a Tagged again

A class with a `__torch_function__` of its own, whether it derives from Tensor or not, is called
instead of the op. `super().__torch_function__` then computes. Ordinary tensors pay nothing for
this: only others leave an op's fast path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..events import TensorAliased, emit
from ..modes import current, override_modes
from .tensor import PLAIN_TENSORS, Tensor, attach_view, fill, share_version, wrap

if TYPE_CHECKING:
    from .op import Op

_STATE = threading.local()


class DisableTorchFunctionSubclass:
    """While it is on, no `__torch_function__` is called, and results are plain tensors.

    >>> class Tagged(Tensor): pass
    >>> x = ones(2).as_subclass(Tagged)
    >>> with overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    def __enter__(self) -> None:
        # A count: blocks may nest, and each thread has its own.
        _STATE.depth = getattr(_STATE, "depth", 0) + 1

    def __exit__(self, *exception: object) -> None:
        _STATE.depth -= 1


class EnableTorchFunction:
    """Inside of it, each `__torch_function__` is called, whatever is on outside."""

    def __enter__(self) -> None:
        self.depth, _STATE.depth = getattr(_STATE, "depth", 0), 0

    def __exit__(self, *exception: object) -> None:
        _STATE.depth = self.depth


def is_disabled() -> bool:
    """Return True if `DisableTorchFunctionSubclass` is on in this thread."""
    return getattr(_STATE, "depth", 0) > 0


# Overrides ------------------------------------------------------------------------------


def has_override(cls: type) -> bool:
    """Return True if a class has a `__torch_function__` of its own."""
    method = getattr(cls, "__torch_function__", None)
    return method is not None and getattr(method, "__func__", None) is not DEFAULT


def find_overrides(values: Iterable[Any]) -> list[Any]:
    """Return the values with an override, one of each class, subclasses before their bases."""
    overrides: list[Any] = []
    if is_disabled():
        return overrides
    for value in values:
        cls = type(value)
        if cls in PLAIN_TENSORS or not has_override(cls) or any(type(x) is cls for x in overrides):
            continue
        position = next(
            # PyTorch's order: subclasses first, otherwise from left to right.
            (i for i, x in enumerate(overrides) if issubclass(cls, type(x))),
            len(overrides),
        )
        overrides.insert(position, value)
    return overrides


def call_override(
    function: Callable[..., Any],
    overrides: Sequence[Any],
    args: tuple[Any, ...],
    named: dict[str, Any],
) -> Any:
    """Return the result of the first override that does not return NotImplemented.

    Raises: TypeError: all of them do.
    """
    types = tuple(type(value) for value in overrides)
    for value in overrides:
        result = type(value).__torch_function__(function, types, args, named)
        if result is not NotImplemented:
            return result
    names = ", ".join(sorted(cls.__name__ for cls in types))
    raise TypeError(
        f"no implementation found for '{function.__name__}' on types that implement "
        f"__torch_function__: [{names}]"
    )


def call_op_override(
    op: Op,
    overrides: Sequence[Any],
    inputs: Sequence[Any],
    settings: dict[str, Any],
    out: Tensor | None,
) -> Any:
    """Call the overrides of an op's call."""
    args, named = call_as_written(op, inputs, settings, out)
    return call_override(op.function, overrides, args, named)


def call_function_mode(
    op: Op,
    function_modes: Sequence[Any],
    inputs: Sequence[Any],
    settings: dict[str, Any],
    out: Tensor | None,
) -> Any:
    """Hand an op's call to the innermost `TorchFunctionMode`; in it the outer ones are open."""
    args, named = call_as_written(op, inputs, settings, out)
    types = tuple({type(value) for value in args if has_override(type(value))})
    with override_modes(function_modes=tuple(function_modes[:-1])):
        return function_modes[-1].__torch_function__(op.function, types, args, named)


def call_as_written(
    op: Op, inputs: Sequence[Any], settings: dict[str, Any], out: Tensor | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of an op's call, without those that equal their defaults."""
    parameters = op.signature.parameters
    args = list(inputs)
    # PyTorch's overrides see the call as it was written, without the defaults.
    while args and args[-1] is None:
        args.pop()
    named = {
        name: value for name, value in settings.items() if value is not parameters[name].default
    }
    if out is not None:
        named["out"] = out
    return tuple(args), named


# Classes of results ---------------------------------------------------------------------


def result_class(tensors: Sequence[Tensor]) -> type[Tensor] | None:
    """Return the most derived class among tensors, None if all are plain."""
    if is_disabled():
        return None
    most_derived: type[Tensor] | None = None
    for tensor in tensors:
        cls = type(tensor)
        if cls not in PLAIN_TENSORS and (most_derived is None or issubclass(cls, most_derived)):
            most_derived = cls
    return most_derived


def cast_to_class(cls: type, result: Any, operands: Sequence[Any] = ()) -> Any:
    """Change the class of a new tensor (or of each in a tuple or list) to `cls`."""
    if isinstance(result, Tensor):
        if cls in PLAIN_TENSORS or isinstance(result, cls) or any(result is x for x in operands):
            return result
        # In place: a new object would need the node's weak references once more.
        result.__class__ = cls
        return result
    if isinstance(result, tuple | list):
        parts = [cast_to_class(cls, part, operands) for part in result]
        container: Any = type(result)
        # A named tuple takes its fields one by one.
        return container(*parts) if hasattr(container, "_fields") else container(parts)
    return result


def default_torch_function(
    cls: type,
    func: Callable[..., Any],
    types: Iterable[type],
    args: Sequence[Any] = (),
    kwargs: dict[str, Any] | None = None,
) -> Any:
    """Compute `func`, and cast its results to this class."""
    # Two unrelated subclasses: neither can answer for the other.
    if not all(issubclass(cls, type_) for type_ in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return cast_to_class(cls, result, args)


DEFAULT = default_torch_function
Tensor.__torch_function__ = classmethod(DEFAULT)  # type: ignore[attr-defined]


# Making tensors of a subclass -----------------------------------------------------------


def as_subclass(self: Tensor, cls: type) -> Any:
    """Return a view with the same history as an object of a subclass of Tensor."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
    with DisableTorchFunctionSubclass():
        history: Any = self.view_as(self)  # type: ignore[attr-defined]
    tensor = fill(object.__new__(cls), history._array)
    tensor._node = history._node
    attach_view(tensor, history)
    return tensor


def make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """Return a leaf of a subclass of Tensor that shares the memory of `data`."""
    source = data.detach()
    tensor = fill(object.__new__(cls), source._array)
    attach_view(tensor, source)
    # Another leaf over the same memory, and no view: writes into it are its own.
    tensor._base = None
    return tensor.requires_grad_() if require_grad else tensor


def detach_subclass(self: Tensor) -> Any:
    """Return what `__torch_function__` returns for `detach`; without one, the same class."""
    overrides = find_overrides((self,))
    if overrides:
        return call_override(Tensor.detach, overrides, (self,), {})
    output = wrap(self._array)
    share_version(output, self)
    if current().listeners:
        emit(TensorAliased(self, output, detached=True))
    return output if is_disabled() else cast_to_class(type(self), output)


Tensor._detach_subclass = detach_subclass  # type: ignore[attr-defined]
Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
