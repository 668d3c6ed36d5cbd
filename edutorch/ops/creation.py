"""Tensors out of nothing: from numbers, constants and ranges.

Each block computes an array with the device's `xp`; the decorator adds what all of
them share: `dtype`, `device`, `requires_grad`, and sizes one by one or as a tuple.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..backends.device import backend_for
from ..backends.numpy import Array
from ..core.allocation import check_room, is_too_large, no_room
from ..core.dispatch import InferenceVersionCounter
from ..core.memory_format import laid_out, strided
from ..core.out_variants import into
from ..core.tensor import Tensor, wrap
from ..errors import (
    ArgumentError,
    DTypeError,
    InvalidValueError,
    ShapeError,
    ShapeValueError,
    ValueRangeError,
    refuse_complex,
)  # fmt: skip
from ..events import TensorMade, emit
from ..modes import current

LARGE = 2**27
"""Numbers; below this nobody asks whether there is room for them."""

CREATIONS: dict[str, Callable[..., Tensor]] = {}
"""Every function made by `creation`, by name."""


def wrap_new(array: Array, requires_grad: bool = False) -> Tensor:
    """Wrap a new array; in inference mode it stays outside every graph."""
    output, modes = wrap(array), current()
    if modes.inference:
        output._writes = InferenceVersionCounter()
    if modes.listeners:
        emit(TensorMade(output))
    return output.requires_grad_() if requires_grad else output


def parse_size(op: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Read a shape given as numbers or as one sequence.

    Raises: ShapeError: a size is negative. TypeError: not an integer.
    """
    if len(size) == 1 and not isinstance(size[0], int):
        size = size[0] if isinstance(size[0], Sequence) else (size[0],)
    try:
        shape = tuple(operator.index(each) for each in size)
    except TypeError:
        kinds = ", ".join(type(each).__name__ for each in size)
        hint = "a / b gives a float: use a // b" if "float" in kinds else None
        raise ArgumentError(op, f"argument `size` must be ints, got {kinds}", hint=hint) from None
    if any(each < 0 for each in shape):
        raise ShapeError(op, "a size cannot be negative", {"size": shape})
    return shape


def require_strided(op: str, asked: Any) -> None:
    """Raise ValueError for a `layout` other than the one that tensors have here."""
    if asked is not None and asked is not strided:
        raise InvalidValueError(op, f"tensors here are strided ones, got layout={asked!r}")


OPTIONS = {
    "out": None, "dtype": None, "layout": None, "device": None, "requires_grad": False,
    "pin_memory": False,
}  # fmt: skip
"""What every creation function takes besides its own arguments."""


def creation(forward: Callable[..., Array]) -> Callable[..., Tensor]:
    """Make a public creation function from `forward(xp, …, dtype)`."""
    name = forward.__name__
    parameters = list(inspect.signature(forward).parameters.values())[1:]
    takes_sizes = parameters[0].kind is inspect.Parameter.VAR_POSITIONAL

    @functools.wraps(forward)
    def function(
        *args: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        out: Any = None, layout: Any = None, pin_memory: bool = False, **named: Any,
    ) -> Tensor:  # fmt: skip
        if takes_sizes:
            args = parse_size(name, (named.pop("size"),) if "size" in named else args)
        if layout is not None:
            require_strided(name, layout)
        if out is not None:
            dtype, device = out.dtype if dtype is None else dtype, out.device
        kind = None if dtype is None else dtypes.array_type(dtype)
        backend = backend_for(device)
        if takes_sizes and math.prod(args) > LARGE:
            check_room(name, args, kind or _dtype_or_default(None))
        try:
            made = backend.asarray(forward(backend.xp, *args, dtype=kind, **named))
        except (MemoryError, ValueError) as error:
            raise no_room(name, error) if is_too_large(error) else error from None
        return wrap_new(made, requires_grad) if out is None else into(name, out, wrap(made))

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra = [inspect.Parameter(each, keyword, default=value) for each, value in OPTIONS.items()]
    kept = [parameter for parameter in parameters if parameter.name != "dtype"]
    function.__signature__ = inspect.Signature([*kept, *extra])  # type: ignore[attr-defined]
    CREATIONS[name] = function
    return function


def scalar_of(op: str, value: Any) -> Any:
    """Return the number in a 0-d tensor; a number is returned as it is.

    Raises: ArgumentError: the tensor wants a gradient, which a number would cut off.
    """
    if not isinstance(value, Tensor):
        return value
    if value.requires_grad and current().grad:
        raise ArgumentError(
            op, "expected a number, not a tensor that requires grad: no gradient would reach it",
            {"value": tuple(value.shape)},
            "value.expand(size) keeps the graph; value.item() does not",
        )  # fmt: skip
    return value.item()


def _dtype_or_default(dtype: Any) -> Any:
    return dtypes.get_default_dtype().numpy if dtype is None else dtype


@creation
def zeros(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of zeros.

    >>> zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return xp.zeros(size, _dtype_or_default(dtype))


@creation
def ones(xp: Any, *size: int, dtype: Any = None) -> Array:
    """A tensor full of ones.

    >>> ones(3)
    tensor([1., 1., 1.])
    """
    return xp.ones(size, _dtype_or_default(dtype))


@creation
def empty(xp: Any, *size: int, dtype: Any = None, memory_format: Any = None) -> Array:
    """A tensor whose numbers are whatever was in memory: write before you read.

    >>> empty(2, 0).shape
    torch.Size([2, 0])
    """
    kind = _dtype_or_default(dtype)
    order = None if memory_format is None else memory_format.order_of("empty", len(size))
    return laid_out(lambda shape: xp.empty(shape, kind), size, order)


@creation
def full(xp: Any, size: Sequence[int], fill_value: Any, *, dtype: Any = None) -> Array:
    """A tensor full of one number, of that number's type.

    >>> full((2,), 7)
    tensor([7, 7])
    """
    fill_value = scalar_of("full", fill_value)
    kind = dtypes.scalar_type(fill_value).numpy if dtype is None else dtype
    shape = parse_size("full", (size,))
    check_room("full", shape, kind)
    return xp.full(shape, fill_value, kind)


@creation
def eye(xp: Any, n: int, m: int | None = None, *, dtype: Any = None) -> Array:
    """The identity matrix: ones on the diagonal.

    >>> eye(2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    parse_size("eye", (n, n if m is None else m))
    check_room("eye", (n, n if m is None else m), _dtype_or_default(dtype))
    return xp.eye(n, m, dtype=_dtype_or_default(dtype))


@creation
def arange(xp: Any, start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """The numbers start, start + step, … up to but without end.

    Raises: ShapeError: `end` cannot be reached in such steps.

    >>> arange(3), arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1.0000, 1.5000]))
    """
    refuse_complex("arange", dtype=dtype)
    start, end, step = parse_range("arange", start, end, step, dtype)
    if dtype is None:
        whole = all(isinstance(each, int) for each in (start, end, step))
        dtype = np.dtype(np.int64) if whole else _dtype_or_default(None)
    count = math.ceil((end - start) / step)
    check_room("arange", (count,), dtype)
    if is_integer_dtype(dtype):
        start, step = integer_steps("arange", start, step)
        return xp.arange(start, start + count * step, step).astype(dtype)
    return xp.arange(start, end, step).astype(dtype)


@creation
def range(xp: Any, start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Array:
    """The numbers start, start + step, … up to `end`, included. (`arange` is what you want.)

    >>> edutorch.range(1, 4)
    tensor([1., 2., 3., 4.])
    """
    refuse_complex("range", dtype=dtype)
    start, end, step = parse_range(
        "range", start, end, step, np.int64 if is_integer_dtype(dtype) else None
    )
    count = math.floor((end - start) / step) + 1
    check_room("range", (count,), _dtype_or_default(dtype))
    return (start + xp.arange(count) * step).astype(_dtype_or_default(dtype))


def parse_range(op: str, start: Any, end: Any, step: Any, dtype: Any) -> tuple[Any, Any, Any]:
    """Read the bounds of a range: a single one is where it ends."""
    start, end, step = (scalar_of(op, each) for each in (start, end, step))
    if any(isinstance(each, complex) for each in (start, end, step)):
        raise DTypeError(op, "complex numbers have no order")
    if end is None:
        start, end = 0, start
    if not math.isfinite(start) or not math.isfinite(end):
        raise ShapeError(op, f"the range from {start} to {end} is not finite")
    if dtype == np.int64:  # in PyTorch, too, the smaller types count before they cut off
        end = int(end)
        start, step = integer_steps(op, start, step)
    if step == 0 or (end - start) * step < 0:
        raise ShapeError(op, f"from {start} to {end} cannot be reached in steps of {step}")
    return start, end, step


def integer_steps(op: str, start: Any, step: Any) -> tuple[int, int]:
    """Cut the start and the step of a range of integers off to integers.

    Raises: ShapeError: nothing is left of the step. (PyTorch repeats the start for small types.)
    """
    if int(step) == 0:
        raise ShapeValueError(
            op, f"step must be nonzero, and as an integer {step} is 0",
            hint="leave the dtype out, and convert the result with .long()",
        )  # fmt: skip
    return int(start), int(step)


@creation
def linspace(xp: Any, start: Any, end: Any, steps: int, *, dtype: Any = None) -> Array:
    """`steps` numbers from start to end, both included, at equal distances.

    With an integer `dtype` start and end are cut off to integers first.

    >>> linspace(0, 1, 3)
    tensor([0.0000, 0.5000, 1.0000])
    """
    places, kind = evenly_spaced(xp, "linspace", start, end, steps, dtype)
    return places.astype(kind)


@creation
def logspace(
    xp: Any, start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: Any = None
) -> Array:
    """`steps` numbers from base^start to base^end, each the same factor larger than the last.

    With an integer `dtype` start and end are cut off to integers first, and base^x afterwards.

    >>> logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    places, kind = evenly_spaced(xp, "logspace", start, end, steps, dtype)
    return (base**places).astype(kind)


def is_integer_dtype(dtype: Any) -> bool:
    """Return True if the type is given, and one of integers."""
    return dtype is not None and dtype.kind in "iu"


def evenly_spaced(
    xp: Any, op: str, start: Any, end: Any, steps: int, dtype: Any
) -> tuple[Array, np.dtype]:
    """Numbers at equal distances in double precision, and the type they shall have."""
    start, end = scalar_of(op, start), scalar_of(op, end)
    if is_integer_dtype(dtype):
        start, end = (truncate_bound(op, bound, dtype) for bound in (start, end))
    if steps < 0:
        raise ShapeError(op, f"steps cannot be negative, got {steps}")
    check_room(op, (steps,), _dtype_or_default(dtype))
    kind = dtypes.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        return start + xp.linspace(0, 1, steps) * (end - start), dtype or kind.to_complex().numpy
    return xp.linspace(start, end, steps), kind.numpy if dtype is None else dtype


def truncate_bound(op: str, bound: Any, dtype: np.dtype) -> int:
    """Cut a bound off to an integer of this type.

    Raises: ValueRangeError: the type does not reach so far.
    """
    whole, limits = int(bound), np.iinfo(dtype)
    if not limits.min <= whole <= limits.max:
        raise ValueRangeError(
            op, f"value cannot be converted to type {dtype} without overflow", {"value": bound},
            f"{dtype} holds numbers from {limits.min} to {limits.max}",
        )  # fmt: skip
    return whole


def scalar_tensor(
    s: Any, *, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A 0-d tensor of one number, of the default type unless said otherwise.

    >>> scalar_tensor(3)
    tensor(3.)
    """
    require_strided("scalar_tensor", layout)
    kind = dtypes.get_default_dtype() if dtype is None else dtype
    if isinstance(s, complex) and not kind.is_complex:
        raise DTypeError("scalar_tensor", f"a complex number is no {kind}", hint="give a dtype")
    return full((), s, dtype=kind, device=device, requires_grad=requires_grad)


# Another order in memory ------------------------------------------------------------------------


def empty_strided(
    size: Sequence[int], stride: Sequence[int], *, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor with these steps in memory (in elements), its numbers not set.

    Raises: ShapeError: not one step per axis, or a negative one.

    >>> empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    require_strided("empty_strided", layout)
    if len(size) != len(stride) or any(each < 0 for each in (*size, *stride)):
        rows = {"size": tuple(size), "stride": tuple(stride)}
        raise ShapeError("empty_strided", "needs one step per axis, none negative", rows)
    backend = backend_for(device)
    kind = _dtype_or_default(None) if dtype is None else dtypes.array_type(dtype)
    reach = [(count - 1) * step for count, step in zip(size, stride, strict=True)]
    count = 0 if 0 in size else 1 + sum(reach)
    check_room("empty_strided", (count,), kind)
    memory = backend.xp.empty(count, kind)
    steps = [step * kind.itemsize for step in stride]
    return wrap_new(backend.as_strided(memory, tuple(size), steps, 0), requires_grad)


def empty_permuted(
    size: Sequence[int], physical_layout: Sequence[int], *, dtype: Any = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor whose axes lie in memory in this order, its numbers not set.

    Args:
        physical_layout: the axes, the one with the longest step first.

    >>> empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    require_strided("empty_permuted", layout)
    if sorted(physical_layout) != list(builtins.range(len(size))):
        rows = {"size": tuple(size), "physical_layout": tuple(physical_layout)}
        raise ShapeError("empty_permuted", "physical_layout must name each axis once", rows)
    xp = backend_for(device).xp
    kind = _dtype_or_default(None) if dtype is None else dtypes.array_type(dtype)
    check_room("empty_permuted", tuple(size), kind)
    made = laid_out(lambda shape: xp.empty(shape, kind), size, tuple(physical_layout))
    return wrap_new(made, requires_grad)
