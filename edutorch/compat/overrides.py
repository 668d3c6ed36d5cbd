"""`torch.overrides`: the protocol `__torch_function__`, by which classes override ops.

The method of a class is called in place of every op that gets one of its objects as argument. A
function of your own supports the protocol if it begins like this:

    def double(x):
        if overrides.has_torch_function((x,)):
            return overrides.handle_torch_function(double, (x,), x)
        return x * 2

Composite functions, such as `nn.functional.mse_loss`, do not use it themselves: their ops do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from edutorch.core.registry import REGISTRY
from edutorch.core.subclasses import DisableTorchFunctionSubclass, call_override, find_overrides
from edutorch.core.tensor import Tensor
from edutorch.modes import current, override_modes

__all__ = [
    "DisableTorchFunctionSubclass", "TorchFunctionMode", "get_default_nowrap_functions",
    "get_overridable_functions", "handle_torch_function", "has_torch_function", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip


class TorchFunctionMode:
    """A mode that every op goes through while it is open: `with Mode():`.

    A class that derives from it defines `__torch_function__`. Inside of that method the mode is not
    in force, so `func(*args, **kwargs)` computes. What a composite function does arrives here as
    its ops.

    >>> class Count(overrides.TorchFunctionMode):
    ...     names = []
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.names.append(func.__name__)
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as mode:
    ...     y = ones(2).exp() + 1
    >>> mode.names
    ['exp', 'add']
    """

    def __init__(self) -> None:
        self._contexts: list[override_modes] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Return the result of a call of `func`. Raises: NotImplementedError: not defined."""
        raise NotImplementedError(f"{type(self).__name__} does not define __torch_function__")

    def __enter__(self) -> Self:
        if not hasattr(self, "_contexts"):  # a class may have an __init__ that does not call ours
            self._contexts = []
        context = override_modes(function_modes=(*current().function_modes, self))
        context.__enter__()
        self._contexts.append(context)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._contexts.pop().__exit__(*exception)


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return True if one of the arguments overrides `__torch_function__`.

    >>> overrides.has_torch_function((ones(2), 3))
    False
    """
    return bool(find_overrides(relevant_args))


def has_torch_function_unary(tensor: object) -> bool:
    """Return True if the argument overrides `__torch_function__`."""
    return has_torch_function((tensor,))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Return True if one of the arguments overrides `__torch_function__`."""
    return has_torch_function(tensors)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return the result of the first class that implements `public_api`.

    Raises: TypeError: none of them implements it.

    >>> class Five:
    ...     def __torch_function__(self, func, types, args=(), kwargs=None): return 5
    >>> overrides.handle_torch_function(exp, (Five(),), Five())
    5
    """
    return call_override(public_api, find_overrides(relevant_args), args, kwargs)


def is_tensor_like(inp: object) -> bool:
    """Return True for a tensor, or an object with `__torch_function__`.

    >>> overrides.is_tensor_like(ones(2)), overrides.is_tensor_like(3)
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def wrap_torch_function(dispatcher: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """Return a decorator: the arguments that `dispatcher(*args)` returns may override the function.

    >>> @overrides.wrap_torch_function(lambda x: (x,))
    ... def double(x): return x * 2
    >>> double(ones(2))
    tensor([2., 2.])
    """

    def decorator(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorator


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions that can be overridden: all ops.

    >>> edutorch.exp in overrides.get_overridable_functions()[Tensor]
    True
    """
    return {Tensor: [op.function for op in REGISTRY.values()]}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return the functions whose results are not converted to the subclass: none here.

    >>> overrides.get_default_nowrap_functions()
    set()
    """
    return set()


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return True for a method of Tensor.

    >>> overrides.is_tensor_method_or_property(Tensor.exp)
    True
    """
    # By identity: a function of the user may have the name of a method.
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the public name of an op.

    >>> overrides.resolve_name(edutorch.exp)
    'torch.exp'
    """
    return f"torch.{f.__name__}" if hasattr(f, "op") else None
