"""Functions composed of ops: what an op has by itself, given to them by decorators.

as_method           the method of Tensor
ask_overrides       `__torch_function__` is asked about the method, not about the ops inside
takes_out           the out= form
with_twin           the in-place form
recorded_as         PyTorch's name of `grad_fn`, where one op there is several here
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from ..errors import ArgumentError
from ..modes import current, override_modes
from .argument_checks import ALIASES, call_as, with_argument_checks
from .autograd.multi_output import OutputNode
from .autograd.versions import clock
from .subclasses import call_override, find_overrides
from .tensor import LEAF, PLAIN_TENSORS, Tensor
from .tensor_methods import (
    VARARG_METHODS,
    accept_varargs,
    alias_with_history,
    overwrite,
    refuse_leaf,
    write_out,
)

F = TypeVar("F", bound=Callable[..., Any])


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function composed of ops a Tensor method too."""
    name = function.__name__
    function = with_aliases(function)
    method = with_argument_checks(function, autocasts=False)
    setattr(Tensor, name, accept_varargs(method) if name in VARARG_METHODS else method)
    return function


def ask_overrides(method: F, direct: Callable[[Tensor], Any] | None = None) -> F:
    """Make a method call `__torch_function__` with itself, as an op does.

    A class that knows only ops calls the method's attribute `composed` there.

    torchvision's images, masks and boxes keep their class in `Tensor.to`, and lose it in other ops.

    Args:
        direct: the method of ordinary tensors without further arguments.
    """

    @functools.wraps(method)
    def asking(self: Tensor, *args: Any, **named: Any) -> Any:
        if direct is not None and self.__class__ in PLAIN_TENSORS and not args and not named:
            return direct(self)
        for operand in (self, *args):
            if isinstance(operand, Tensor) and operand.__class__ not in PLAIN_TENSORS:
                if overrides := find_overrides((self, *args)):
                    return call_override(asking, overrides, (self, *args), named)
                break
        return method(self, *args, **named)

    asking.composed = method  # type: ignore[attr-defined]
    return asking  # type: ignore[return-value]


def with_aliases(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a composed function accept NumPy's names for `dim` and `keepdim`, as an op does."""
    parameters = inspect.signature(function).parameters
    added = {alias: name for alias, name in ALIASES.items() if name in parameters}
    if not added:
        return function

    @functools.wraps(function)
    def aliased(*args: Any, **named: Any) -> Any:
        if named:
            for alias, name in added.items():
                if alias in named:
                    named[name] = named.pop(alias)
        return function(*args, **named)

    return aliased


# The out= and the in-place form -------------------------------------------------------

CASTING = set(
    """arange linspace logspace clamp_max clamp_min max min addr diff ldexp float_power
    column_stack hstack vstack dstack row_stack kron inner nansum nanmean std var normal bernoulli
    hfft hfft2 hfftn irfft irfft2 irfftn polygamma multigammaln
    cholesky cholesky_inverse cholesky_solve geqrf lu normalize cond householder_product lstsq
    matrix_rank pinv tensorinv tensorsolve""".split()
)
"""The composed functions that cast their result to the dtype of `out`, as in PyTorch."""


def takes_out(function: F) -> F:
    """Add an `out=` argument to a function: a tensor, or a tuple of them for several results.

    Raises: GradientError, DTypeError, ShapeError: the result cannot be written there.
    """
    name = function.__name__

    @functools.wraps(function)
    def wrapped(*args: Any, out: Any = None, **named: Any) -> Any:
        result = function(*args, **named)
        return result if out is None else write_into(name, out, result)

    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    # `**named` has to stay behind `out`.
    last = parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    new = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters.insert(len(parameters) - last, new)
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def write_into(name: str, out: Any, result: Any) -> Any:
    """Write one result, or each of several, into the tensors of `out`."""
    # `write_out` reads three attributes of an op, which a composed function lacks.
    op: Any = SimpleNamespace(name=name, title=name, casts_out=name in CASTING)
    if not isinstance(result, tuple):
        return write_out(op, out, result)
    if not isinstance(out, tuple | list) or len(out) != len(result):
        raise ArgumentError(name, f"out must be a tuple of {len(result)} tensors")
    parts: list[Any] = [write_out(op, *pair) for pair in zip(out, result, strict=True)]
    cls: Any = type(result)
    return cls(*parts) if hasattr(cls, "_fields") else tuple(parts)


def with_twin(function: F) -> F:
    """Add the in-place form of a composed function to Tensor, as `x.ldexp_(other)`."""
    name = f"{function.__name__}_"

    def twin(self: Tensor, *args: Any, **named: Any) -> Tensor:
        if current().autocast is not None:  # the tensor that is written into has its dtype already
            with override_modes(autocast=None):
                return twin(self, *args, **named)
        refuse_leaf(self, name)
        # The function computes with the former value, while `self` is going to be the result.
        before = alias_with_history(self)
        if current().grad:  # the ops inside may have saved the elements as they were
            before._array, before._writes = self._array.copy(), None
        args = tuple(before if argument is self else argument for argument in args)
        overwrite(self, call_as(name, function, (before, *args), named), before, name)
        return self

    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = f"The in-place form of `{function.__name__}`."
    setattr(Tensor, name, twin)
    function.in_place = twin  # type: ignore[attr-defined]
    return function


# The name of the node -----------------------------------------------------------------


def recorded_as(name: str | Callable[..., str]) -> Callable[[F], F]:
    """Give PyTorch's name to the last node that a composed function records.

    Args:
        name: PyTorch's name for it, or a function of the call's arguments that returns it ("": keep
            its own).
    """

    def decorator(function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **settings: Any) -> Any:
            # A node that is younger was recorded by this call; an older one belongs to an argument.
            start = clock()
            result = function(*args, **settings)
            for tensor in (result,) if result.__class__ is Tensor else results_of(result):
                node = tensor._node
                if node is not None and node is not LEAF and node._order > start:
                    name_node(node, name if name.__class__ is str else name(*args, **settings))
            return result

        return recorded  # type: ignore[return-value]

    return decorator


def results_of(result: object) -> tuple[Tensor, ...]:
    """Return the tensors that a function has returned."""
    parts = result if isinstance(result, tuple) else (result,)
    return tuple(part for part in parts if isinstance(part, Tensor))


def name_node(node: Any, name: Any) -> None:
    """Name a node; an `OutputNode` keeps the name of its op."""
    # Of several outputs, the name is that of the node behind them.
    if name and node.__class__ is not OutputNode:
        node.__class__ = node.op.node_types.get(name) or node.op.node_type_named(name)
