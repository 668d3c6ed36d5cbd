"""The `out=` and in-place forms of functions composed of ops; an op has its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

from ..errors import ArgumentError
from ..modes import current, override_modes
from .argument_checks import call_as
from .tensor import Tensor
from .tensor_methods import alias_with_history, overwrite, refuse_leaf, write_out

CASTING = set(
    """arange linspace logspace clamp_max clamp_min max min addr diff ldexp float_power
    column_stack hstack vstack dstack row_stack kron inner nansum nanmean std var normal bernoulli
    hfft hfft2 hfftn irfft irfft2 irfftn polygamma multigammaln
    cholesky cholesky_inverse cholesky_solve geqrf lu normalize cond householder_product lstsq
    matrix_rank pinv tensorinv tensorsolve""".split()
)
"""The composed functions that cast their result to the dtype of `out`, as in PyTorch."""

F = TypeVar("F", bound=Callable[..., Any])


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
    last = parameters[-1].kind is inspect.Parameter.VAR_KEYWORD
    new = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters.insert(len(parameters) - last, new)
    wrapped.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def write_into(name: str, out: Any, result: Any) -> Any:
    """Write one result, or each of several, into the tensors of `out`."""
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
