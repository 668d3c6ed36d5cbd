"""The functions in exported programs that are not ops: sizes, and writes as new values.

A program's file names functions; only these, the ops, the creation functions and Python's
arithmetic can be named.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import backends
from ..core.registry import REGISTRY
from ..core.tensor import Tensor, wrap
from ..errors import InvalidValueError
from ..fx import primitives
from ..fx.node import Node, map_aggregate
from ..ops.creation import CREATIONS
from ..ops.random import random_source

__all__ = ["FUNCTIONS", "function_named", "name_of_function", "replace_primitive"]

FUNCTIONS: dict[str, Callable[..., Any]] = {}
"""The functions of this file and of `control_flow.py`, by name."""

DRAWS = ("uniform", "normal", "integers", "permutation")
"""The methods of a random source that a program may call."""


def program_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let programs call a function."""
    FUNCTIONS[function.__name__] = function
    return function


@program_function
def sym_size(input: Tensor, dim: int) -> int:
    """Return the size of an axis.

    >>> edutorch.export.functions.sym_size(zeros(2, 3), 1)
    3
    """
    return input.shape[dim]


@program_function
def set_item(input: Tensor, index: Any, values: Any) -> Tensor:
    """Return a copy of `input` with `values` written at `index`.

    >>> edutorch.export.functions.set_item(zeros(3), 1, 5.0)
    tensor([0., 5., 0.])
    """
    copied = input.clone()
    copied[index] = values
    return copied


@program_function
def fill_like(input: Tensor, values: Any) -> Tensor:
    """Return `values` in the shape and dtype of `input`.

    >>> edutorch.export.functions.fill_like(zeros(3), 5)
    tensor([5., 5., 5.])
    """
    copied = input.clone()
    copied[...] = values
    return copied


@program_function
def accumulate_at(input: Tensor, index: Any, values: Tensor) -> Tensor:
    """Return a copy of `input` with `values` added at `index`; repeated indices accumulate.

    >>> edutorch.export.functions.accumulate_at(zeros(2), (tensor([1, 1]),), ones(2))
    tensor([0., 2.])
    """
    indices = index if isinstance(index, tuple) else (index,)
    return input.clone().index_put_(indices, values, accumulate=True)


@program_function
def draw(how: str, *args: Any) -> Tensor:
    """Return new random numbers: `how` is one of `DRAWS`.

    >>> edutorch.export.functions.draw("uniform", (2, 3), float32).shape
    torch.Size([2, 3])
    """
    if how not in DRAWS:
        raise InvalidValueError("draw", f"programs draw by {', '.join(DRAWS)}, not by {how!r}")
    source = random_source(None, backends.CPU)
    plain = [getattr(argument, "numpy", argument) for argument in args]
    return wrap(np.asarray(getattr(source, how)(*plain)))


@program_function
def read_region(
    input: Tensor, order: Sequence[int], offset: int, shape: Sequence[int], strides: Sequence[int]
) -> Tensor:
    """Return a strided view of the memory of `input`; offset and strides count elements.

    >>> edutorch.export.functions.read_region(arange(6), (0,), 1, (2,), (3,))
    tensor([1, 4])
    """
    flat: Any = input.permute(*order).contiguous().reshape(-1)
    return flat.as_strided(tuple(shape), tuple(strides), offset)


@program_function
def write_region(
    input: Tensor, values: Tensor, order: Sequence[int], offset: int, shape: Sequence[int],
    strides: Sequence[int],
) -> Tensor:  # fmt: skip
    """Return a copy of `input` with `values` written into a strided view of its memory.

    >>> edutorch.export.functions.write_region(zeros(4), ones(2), (0,), 1, (2,), (2,))
    tensor([0., 1., 0., 1.])
    """
    ordered: Any = input.permute(*order).contiguous()
    flat = ordered.reshape(-1)
    written = flat.as_strided_scatter(values, tuple(shape), tuple(strides), offset)
    return written.reshape(ordered.shape).permute(*np.argsort(order).tolist())


# From captures ------------------------------------------------------------------------------------


def in_elements(value: Any, itemsize: int) -> Any:
    """Convert bytes to elements, at any depth."""
    return map_aggregate(value, lambda number: number // itemsize)


def replace_primitive(node: Node) -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Return what a program calls in place of a primitive of captures, or None: nothing does.

    Primitives compute with arrays; what a program calls computes with tensors, and is
    differentiable.
    """
    target, args = node.target, node.args
    if target is primitives.take:
        return REGISTRY["getitem"].function, (args[0],), {"index": args[1]}
    if target is primitives.copy:
        return REGISTRY["clone"].function, (args[0],), {"memory_format": None}
    if target is primitives.set_item:
        return set_item, args, {}
    if target is primitives.fill_like:
        return fill_like, args, {}
    if target is primitives.scatter_add:
        return accumulate_at, args, {}
    if target is primitives.draw:
        return draw, args[1:], {}
    if target in (primitives.region, primitives.with_region):
        itemsize = node.meta["dtype"].itemsize
        count = 1 if target is primitives.region else 2
        order, offset, shape, strides = args[count : count + 4]
        region = (order, offset // itemsize, shape, in_elements(strides, itemsize))
        function = read_region if target is primitives.region else write_region
        return function, (*args[:count], *region), {}
    return None


# Names of functions in files ----------------------------------------------------------------------

ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "getitem")
"""Functions of Python's `operator` that programs call: on sizes, and to pick from a tuple."""


def name_of_function(function: Any) -> str | None:
    """Return the name of a function in files: "op:relu", "new:zeros"; None for others."""
    op = getattr(function, "op", None)
    if op is not None and REGISTRY.get(op.name) is op:
        return f"op:{op.name}"
    name = getattr(function, "__name__", "")
    for prefix, table in (("new", CREATIONS), ("program", FUNCTIONS)):
        if table.get(name) is function:
            return f"{prefix}:{name}"
    is_arithmetic = name in ARITHMETIC and getattr(operator, name) is function
    return f"python:{name}" if is_arithmetic else None


def function_named(name: str) -> Callable[..., Any] | None:
    """Return the function of a name in a program's file, or None if there is none."""
    prefix, _, rest = name.partition(":")
    if prefix == "op":
        return REGISTRY[rest].function if rest in REGISTRY else None
    if prefix == "python":
        return getattr(operator, rest) if rest in ARITHMETIC else None
    return {"new": CREATIONS, "program": FUNCTIONS}.get(prefix, {}).get(rest)
