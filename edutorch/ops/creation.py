"""Tensors out of nothing: from numbers, constants and ranges.

Each block computes an array with the device's `xp`; the decorator adds what all of
them share: `dtype`, `device`, `requires_grad`, and sizes one by one or as a tuple.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.numpy import Array
from ..core.apply import InferenceWrites
from ..core.tensor import Tensor, wrap
from ..device import backend_for
from ..errors import ShapeError
from ..modes import current

CREATIONS: dict[str, Callable[..., Tensor]] = {}
"""Every function made by `creation`, by name."""


def created(array: Array, requires_grad: bool = False) -> Tensor:
    """Wrap a new array; in inference mode it stays outside every graph."""
    output = wrap(array)
    if current().inference:
        output._writes = InferenceWrites()
    return output.requires_grad_() if requires_grad else output


def sizes(op: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Read a shape given as numbers or as one sequence.

    Raises: ShapeError: a size is negative. TypeError: not an integer.
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0] if isinstance(size[0], Sequence) else (size[0],)
    shape = tuple(operator.index(each) for each in size)
    if any(each < 0 for each in shape):
        raise ShapeError(op, "a size cannot be negative", {"size": shape})
    return shape


def creation(forward: Callable[..., Array]) -> Callable[..., Tensor]:
    """Make a public creation function from `forward(xp, …, dtype)`."""
    name = forward.__name__
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    takes_sizes = parameters[0].kind is inspect.Parameter.VAR_POSITIONAL

    @functools.wraps(forward)
    def function(
        *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **named: Any
    ) -> Tensor:
        if takes_sizes:
            args = sizes(name, (named.pop("size"),) if "size" in named else args)
        kind = None if dtype is None else dtypes.array_type(dtype)
        backend = backend_for(device)
        return created(
            backend.asarray(forward(backend.xp, *args, dtype=kind, **named)), requires_grad
        )

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(each, keyword, default=None) for each in ("dtype", "device")]
    extra.append(inspect.Parameter("requires_grad", keyword, default=False))
    kept = [each for each in parameters if each.name != "dtype"]
    function.__signature__ = inspect.Signature([*kept, *extra])  # type: ignore[attr-defined]
    CREATIONS[name] = function
    return function


def _float(dtype: Any) -> Any:
    return dtypes.get_default_dtype().numpy if dtype is None else dtype


@creation
def zeros(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return xp.zeros(size, _float(dtype))


@creation
def ones(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of ones.

    >>> ones(3)
    tensor([1., 1., 1.])
    """
    return xp.ones(size, _float(dtype))


@creation
def empty(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor whose numbers are whatever was in memory: write before you read.

    >>> empty(2, 0).shape
    torch.Size([2, 0])
    """
    return xp.empty(size, _float(dtype))


@creation
def full(xp: Any, size: Sequence[int], fill_value: Any, *, dtype: Any = None) -> Array:
    """A tensor full of one number, of that number's type.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    fill_value = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    kind = dtypes.scalar_type(fill_value).numpy if dtype is None else dtype
    return xp.full(sizes("full", (size,)), fill_value, kind)


@creation
def eye(xp: Any, n: int, m: int | None = None, *, dtype: Any = None) -> Array:
    """The identity matrix: ones on the diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    return xp.eye(n, m, dtype=_float(dtype))


@creation
def arange(xp: Any, start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """The numbers start, start + step, … up to but without end.

    >>> arange(3), arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    start, end, step = (
        each.item() if isinstance(each, Tensor) else each for each in (start, end, step)
    )
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) * step < 0:
        raise ShapeError("arange", f"from {start} to {end} cannot be reached in steps of {step}")
    if dtype is None:
        whole = all(isinstance(each, int) for each in (start, end, step))
        dtype = np.dtype(np.int64) if whole else _float(None)
    return xp.arange(start, end, step).astype(dtype)


@creation
def linspace(xp: Any, start: float, end: float, steps: int, *, dtype: Any = None) -> Array:
    """`steps` numbers from start to end, both included, at equal distances.

    >>> linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return xp.linspace(start, end, steps).astype(_float(dtype))


@creation
def logspace(
    xp: Any, start: float, end: float, steps: int, base: float = 10.0, *, dtype: Any = None
) -> Array:
    """`steps` numbers from base^start to base^end, each the same factor larger than the last.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    return (base ** xp.linspace(start, end, steps)).astype(_float(dtype))
