"""What XLA computes in another way than NumPy: functions in graphs that are no ops, convolutions.

Everything else is computed by the definitions themselves, on the arrays of `backends/xla_array.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..backends.xla import XlaBackend, import_jax, positions
from ..backends.xla_array import XlaArray, XlaError, XlaNumber, unwrap
from ..fx import primitives
from ..nn.functional.conv import resolve_window

__all__ = ["LOWERINGS", "function_for"]

# Functions in captured graphs that are no ops ----------------------------------------------------


def changed_copy(input: XlaArray, change: Callable[[XlaArray], Any]) -> XlaArray:
    """Return a copy of an array after a change of it."""
    y = input.copy()
    change(y)
    return y


def set_item(input: XlaArray, index: Any, values: Any) -> XlaArray:
    """Return a copy with values set at an index."""
    return changed_copy(input, lambda y: operator.setitem(y, index, values))


def scatter_add(input: XlaArray, index: Any, values: Any) -> XlaArray:
    """Return a copy with values added at an index, which may repeat."""
    return changed_copy(input, lambda y: y.backend.scatter_add(y, index, values))


def fill_like(input: XlaArray, values: Any) -> XlaArray:
    """Return values broadcast to the shape, and converted to the dtype, of an array."""
    return changed_copy(input, lambda y: operator.setitem(y, ..., values))


def apply_to_copy(
    function: Callable[..., Any], input: XlaArray, *args: Any, **settings: Any
) -> XlaArray:
    """Return a copy after a function of NumPy, such as `put`, has written into it."""
    write = getattr(input.backend.xp, function.__name__)
    return changed_copy(input, lambda y: write(y, *args, **settings))


def item(input: XlaArray) -> XlaNumber:
    """Return the only element as a number, as precise as Python's."""
    wide = {"b": "bool", "i": "int64", "u": "int64"}.get(input.dtype.kind, "float64")
    return XlaNumber(input.values.reshape(()).astype(wide))


def call_method(name: str, input: XlaArray, *args: Any, **settings: Any) -> Any:
    """Call a method of an array."""
    return getattr(input, name)(*args, **settings)


def memory_positions(
    input: XlaArray, dtype: np.dtype, offset: int, shape: Sequence[int], strides: Sequence[int]
) -> Any:
    """Return the positions of a view's elements in the memory of an array.

    Raises: XlaError: the view reads the bytes as another dtype.
    """
    size = input.itemsize
    if np.dtype(dtype).itemsize != size or offset % size or any(step % size for step in strides):
        raise XlaError("compile", "a view reads the bytes of an array as another dtype")
    return positions(shape, [step // size for step in strides], offset // size)


def region(
    input: XlaArray, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int], dtype: np.dtype,
) -> XlaArray:  # fmt: skip
    """Return a strided view of the memory of an array; offset and strides are in bytes."""
    where = memory_positions(input, dtype, offset, shape, strides)
    flat = input.values.transpose(tuple(order)).reshape(-1)
    return XlaArray(flat[where], input.backend).view(dtype)


def with_region(
    input: XlaArray, values: XlaArray, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int],
) -> XlaArray:  # fmt: skip
    """Return a copy with values written into a strided view of its memory."""
    where = memory_positions(input, values.dtype, offset, shape, strides)
    memory = input.values.transpose(tuple(order))
    written = memory.reshape(-1).at[where].set(values.view(input.dtype).values)
    return XlaArray(written.reshape(memory.shape).transpose(*np.argsort(order)), input.backend)


PRIMITIVES: dict[Any, Callable[..., Any]] = {
    primitives.set_item: set_item,
    primitives.scatter_add: scatter_add,
    primitives.fill_like: fill_like,
    primitives.apply_to_copy: apply_to_copy,
    primitives.item: item,
    primitives.call_method: call_method,
    primitives.region: region,
    primitives.with_region: with_region,
    primitives.take: lambda x, index: x[index],
    primitives.copy: lambda x: x.copy(),
    primitives.cast: lambda x, dtype: x.astype(dtype),
}
"""The functions of `fx/primitives.py` on arrays of a trace."""

MATH = {"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
"""Functions of Python's `math` with another name in NumPy."""


def function_for(target: Any, backend: XlaBackend) -> Callable[..., Any]:
    """Return what computes a function of a graph that is no op.

    Raises: XlaError: nothing does.
    """
    if target is primitives.as_array:
        return lambda number, dtype: backend.asarray(number).astype(dtype)
    own = PRIMITIVES.get(target)
    if own is not None:
        return own
    if hasattr(target, "rule"):  # a derivative rule: the definition, not our kernel
        return target.definition
    module, name = getattr(target, "__module__", None) or "", target.__name__
    if module in ("_operator", "operator"):
        return target
    if module == "math":
        function = getattr(import_jax().numpy, MATH.get(name, name), None)
        if function is not None:
            return lambda *values: XlaNumber(function(*unwrap(values)))
    owner = getattr(target, "__self__", None)
    if isinstance(owner, np.ufunc):  # a method such as `np.add.reduce`
        return getattr(getattr(backend.xp, owner.__name__), name)
    path = f"{module.removeprefix('numpy').lstrip('.')}.{name}".lstrip(".")
    for known in (path, name):
        try:
            return operator.attrgetter(known)(backend.xp)
        except AttributeError:
            continue
    raise XlaError("compile", f"{name} has no counterpart in JAX")


# Convolutions: XLA's own, instead of copied windows and a product --------------------------------


def convolve(
    x: Any, weight: Any, stride: Sequence[int], pads: Sequence[Any], dilation: Sequence[int],
    groups: int,
) -> Any:  # fmt: skip
    """Return the convolution of arrays of JAX, without a bias."""
    return import_jax().lax.conv_general_dilated(
        x, weight, tuple(stride), [tuple(pad) for pad in pads],
        rhs_dilation=tuple(dilation), feature_group_count=groups,
    )  # fmt: skip


def is_floating(array: XlaArray) -> bool:
    return array.dtype.kind not in "biuc"


def conv_forward(
    input: XlaArray, weight: XlaArray, bias: XlaArray | None = None, stride: Any = 1,
    padding: Any = 0, dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """`conv2d` and `conv_nd`."""
    if not is_floating(input):
        return None
    _, stride, pads, dilation = resolve_window(weight.shape, stride, padding, dilation)
    y = input.backend.wrap(convolve(input.values, weight.values, stride, pads, dilation, groups))
    return y if bias is None else y + bias.reshape(-1, *(1,) * (weight.ndim - 2))


def transposed(
    function: Callable[[Any], Any], shape: Sequence[int], dtype: np.dtype, g: XlaArray
) -> Any:
    """Return a linear function's transpose, applied to `g`; None: that has another shape."""
    jax = import_jax()
    example = jax.ShapeDtypeStruct(tuple(shape), dtype)
    if jax.eval_shape(function, example).shape != g.shape:
        return None
    return g.backend.wrap(jax.linear_transpose(function, example)(g.values)[0])


def conv_transpose(
    input: XlaArray, weight: XlaArray, size: Sequence[int], stride: Any, pads: Any, dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    """`conv_transpose_nd`: a convolution is linear in its input."""
    if not is_floating(input):
        return None
    shape = (input.shape[0], groups * weight.shape[1], *size)
    return transposed(
        lambda x: convolve(x, weight.values, stride, pads, dilation, groups),
        shape, input.dtype, input,
    )  # fmt: skip


def conv_weight_grad(
    input: XlaArray, response: XlaArray, kernel: Sequence[int], stride: Any, pads: Any,
    dilation: Any, groups: int,
) -> Any:  # fmt: skip
    """`conv_weight_grad`: a convolution is linear in its filters."""
    if not is_floating(input):
        return None
    shape = (response.shape[1], input.shape[1] // groups, *kernel)
    return transposed(
        lambda weight: convolve(input.values, weight, stride, pads, dilation, groups),
        shape, input.dtype, response,
    )  # fmt: skip


LOWERINGS: dict[str, Callable[..., Any]] = {
    "conv2d": conv_forward,
    "conv_nd": conv_forward,
    "conv_transpose_nd": conv_transpose,
    "conv_weight_grad": conv_weight_grad,
}
"""Ops that XLA has itself, by name; None: the definition computes this case."""
