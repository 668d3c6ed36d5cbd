"""Classes derived from Tensor: what is computed from them, and who may have a say in it.

    class Tagged(edutorch.Tensor):
        pass

    x = ones(2).as_subclass(Tagged)
    x + 1                           # a Tagged again

A class with a `__torch_function__` of its own is asked instead of the op, whether it
derives from Tensor or only behaves like one. `super().__torch_function__` then computes.
Ordinary tensors pay nothing for this: others never take an op's fast path.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from .tensor import PLAIN_TENSORS, Tensor, attach_view, fill

if TYPE_CHECKING:
    from .op import Op

_STATE = threading.local()


class DisableTorchFunctionSubclass:
    """While it is on, no `__torch_function__` is asked, and results are plain tensors.

    >>> class Tagged(Tensor): pass
    >>> x = ones(2).as_subclass(Tagged)
    >>> with overrides.DisableTorchFunctionSubclass():
    ...     type(x + 1).__name__
    'Tensor'
    """

    def __enter__(self) -> None:
        _STATE.depth = getattr(_STATE, "depth", 0) + 1

    def __exit__(self, *exception: object) -> None:
        _STATE.depth -= 1


def is_disabled() -> bool:
    """Say whether `DisableTorchFunctionSubclass` is on in this thread."""
    return getattr(_STATE, "depth", 0) > 0


# Who is asked ---------------------------------------------------------------------------


def has_override(kind: type) -> bool:
    """Say whether a class has a `__torch_function__` of its own."""
    method = getattr(kind, "__torch_function__", None)
    return method is not None and getattr(method, "__func__", None) is not DEFAULT


def find_overrides(values: Iterable[Any]) -> list[Any]:
    """Return those to ask, one of each class: derived classes before their bases."""
    found: list[Any] = []
    if is_disabled():
        return found
    for value in values:
        kind = type(value)
        if kind in PLAIN_TENSORS or not has_override(kind) or any(type(x) is kind for x in found):
            continue
        place = next((i for i, x in enumerate(found) if issubclass(kind, type(x))), len(found))
        found.insert(place, value)
    return found


def call_override(
    function: Callable[..., Any], asked: Sequence[Any], args: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """Return the answer of the first class that has one.

    Raises: TypeError: none of them knows the function.
    """
    types = tuple(type(each) for each in asked)
    for each in asked:
        result = type(each).__torch_function__(function, types, args, named)
        if result is not NotImplemented:
            return result
    names = ", ".join(sorted(kind.__name__ for kind in types))
    raise TypeError(
        f"no implementation found for '{function.__name__}' on types that implement "
        f"__torch_function__: [{names}]"
    )


def call_op_override(
    op: Op, asked: Sequence[Any], inputs: Any, settings: dict[str, Any], out: Any
) -> Any:
    """Ask about an op's call, written as a user would: without what is the default anyway."""
    parameters = op.signature.parameters
    args = list(inputs)
    while args and args[-1] is None:
        args.pop()
    named = {
        name: value for name, value in settings.items() if value is not parameters[name].default
    }
    if out is not None:
        named["out"] = out
    return call_override(op.function, asked, tuple(args), named)


# What comes out --------------------------------------------------------------------------


def result_class(tensors: Sequence[Tensor]) -> type[Tensor] | None:
    """Return the most derived class among tensors, None if they are plain ones."""
    if is_disabled():
        return None
    found: type[Tensor] | None = None
    for tensor in tensors:
        kind = type(tensor)
        if kind not in PLAIN_TENSORS and (found is None or issubclass(kind, found)):
            found = kind
    return found


def cast_to_class(cls: type, result: Any, given: Sequence[Any] = ()) -> Any:
    """Make a new tensor (or each in a tuple or list of them) one of the class `cls`."""
    if isinstance(result, Tensor):
        if cls in PLAIN_TENSORS or isinstance(result, cls) or any(result is x for x in given):
            return result
        result.__class__ = cls
        return result
    if isinstance(result, tuple | list):
        parts = [cast_to_class(cls, each, given) for each in result]
        kind: Any = type(result)
        return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
    return result


def default_torch_function(
    cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Compute `func`, and make what comes out one of this class."""
    if not all(issubclass(cls, type_) for type_ in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return cast_to_class(cls, result, args)


DEFAULT = default_torch_function
Tensor.__torch_function__ = classmethod(DEFAULT)  # type: ignore[attr-defined]


# Making one --------------------------------------------------------------------------------


def as_subclass(self: Tensor, cls: type) -> Any:
    """Return the same numbers with the same past as an object of a subclass of Tensor."""
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass: expected a subclass of Tensor, got {cls!r}")
    with DisableTorchFunctionSubclass():
        past: Any = self.view_as(self)  # type: ignore[attr-defined]
    made = fill(object.__new__(cls), past._array)
    made._node = past._node
    attach_view(made, past)
    return made


def make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """Return an object of a subclass of Tensor that shows the memory of `data`: a leaf."""
    source = data.detach()
    made = fill(object.__new__(cls), source._array)
    attach_view(made, source)
    made._base = None
    return made.requires_grad_() if require_grad else made


Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(make_subclass)  # type: ignore[attr-defined]
