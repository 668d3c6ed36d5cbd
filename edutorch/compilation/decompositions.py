"""Decomposes an op into values: by its own definition on symbols, or in a way for kernels.

Most definitions are suitable as they are (`evaluate_symbolically`). Those of a few ops are not:
`erf` is a long polynomial of NumPy functions, and one function in kernels; so are gelu and its
derivative, whose parts share an exponential. Classification losses select elements by index; in a
kernel, which processes the row anyway, a comparison selects them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..nn.functional.loss.definitions import resolve_classes
from ..ops.gather_scatter import is_below
from .symbols import (
    FLOAT_DTYPES,
    SymbolicArray,
    SymbolicNumber,
    UnsupportedDefinitionError,
    ValueMaker,
)
from .values import Operand, Value

__all__ = [
    "DECOMPOSITIONS", "SYMBOLIC_ERRORS", "count_valid_rows", "evaluate_symbolically",
]  # fmt: skip

SYMBOLIC_ERRORS = (TypeError, ValueError, AttributeError, LookupError, RuntimeError)
"""What a definition raises when it gets a symbol where it needs an array."""


def evaluate_symbolically(
    function: Callable[..., Any], args: Sequence[object], settings: dict[str, Any],
    make_value: ValueMaker,
) -> Any:  # fmt: skip
    """Run a definition, or a function of NumPy, on symbols.

    Returns: the value of its result, or a tuple of them.

    Raises: UnsupportedDefinitionError: it cannot be decomposed; the message says why.
    """
    arguments = [
        make_symbol(argument, make_value) if isinstance(argument, Value) else argument
        for argument in args
    ]
    try:
        y = function(*arguments, **settings)
    except UnsupportedDefinitionError:
        raise
    # A definition cannot know that it gets a symbol: any of its errors means "not suitable".
    except SYMBOLIC_ERRORS as error:
        raise UnsupportedDefinitionError(f"its definition cannot be decomposed ({error})") from None
    parts = y if isinstance(y, tuple) else (y,)
    # A definition may return a number, or an array that it made itself.
    if not all(isinstance(part, SymbolicArray) for part in parts):
        raise UnsupportedDefinitionError("its result is not an array")
    values = tuple(part.value for part in parts)
    return values if isinstance(y, tuple) else values[0]


def make_symbol(value: Value, make_value: ValueMaker) -> SymbolicNumber:
    """Return the symbol of a value."""
    return (
        SymbolicNumber(value, make_value)
        if value.dtype is None
        else SymbolicArray(value, make_value)
    )


Argument = Operand | None
"""An argument of an op: an array in the program, a number, or None where it is left out."""

# Decompositions for kernels ---------------------------------------------------------------------


def erf(make_value: ValueMaker, x: Argument) -> SymbolicArray:
    """Add erf."""
    return lower_function(make_value, "erf", x)


def gelu(make_value: ValueMaker, x: Argument, approximate: str) -> SymbolicArray:
    """Add gelu."""
    return lower_function(make_value, "gelu" if approximate == "none" else "gelu_tanh", x)


def gelu_gradient(
    make_value: ValueMaker, g: Argument, x: Argument, approximate: str
) -> SymbolicArray:
    """Add g times the derivative of gelu."""
    name = "gelu_slope" if approximate == "none" else "gelu_tanh_slope"
    return require_float(make_value, g) * lower_function(make_value, name, x)


def lower_function(make_value: ValueMaker, name: str, x: Argument) -> SymbolicArray:
    """Add an elementwise function that kernels know by name."""
    symbol = require_float(make_value, x)
    return symbol.element(name, symbol.shape, symbol.dtype)


def require_float(make_value: ValueMaker, x: Argument) -> SymbolicArray:
    if not isinstance(x, Value) or x.dtype not in FLOAT_DTYPES:
        raise UnsupportedDefinitionError(
            "dtypes other than float32 and float64 are left to the definition"
        )
    return SymbolicArray(x, make_value)


def nll_loss(
    make_value: ValueMaker, x: Argument, target: Argument, weight: Argument, ignore_index: int,
    reduction: str,
) -> Any:  # fmt: skip
    """Add the negative sum of the elements selected by comparison with the target class."""
    scores = require_float(make_value, x)
    hit, count = target_mask(make_value, target, weight, scores.shape, ignore_index)
    # All columns are compared, and one is added: the row is in the cache anyway.
    picked = np.where(hit, -scores, 0.0)
    if reduction == "none":
        return picked.sum(axis=1)
    total = picked.sum()
    return total if reduction == "sum" else total / count


def nll_grad(
    make_value: ValueMaker, g: Argument, target: Argument, weight: Argument, shape: tuple[int, ...],
    ignore_index: int, reduction: str,
) -> Any:  # fmt: skip
    """Add -g (divided by the number of samples for a mean) at the target class, 0 elsewhere."""
    gradient = require_float(make_value, g)
    hit, count = target_mask(make_value, target, weight, shape, ignore_index)
    share = -gradient / count if reduction == "mean" else -gradient
    if share.ndim == 1:  # reduction="none": a gradient for each row
        share = np.expand_dims(share, 1)
    return np.where(hit, share, 0.0)


def target_mask(
    make_value: ValueMaker, target: Argument, weight: Argument, shape: tuple[int, ...],
    ignore_index: int,
) -> tuple[Any, SymbolicNumber]:  # fmt: skip
    """Add the mask of each row's target class, and the number of rows that are not ignored."""
    if weight is not None or len(shape) != 2 or not isinstance(target, Value) or not shape[0]:
        raise UnsupportedDefinitionError(
            "classes with weights, or of more than rows, are left to NumPy"
        )
    if target.dtype != np.int64 or target.shape != shape[:1]:
        raise UnsupportedDefinitionError("these classes are left to the definition")
    count = make_value(  # a number: the kernel divides by an argument
        "number", count_valid_rows, (target, tuple(shape), ignore_index, {}), (), None
    )
    classes = make_value("constant", class_indices(shape[1]), (), (shape[1],), np.dtype("int64"))
    column = np.expand_dims(SymbolicArray(target, make_value), 1)
    hit = SymbolicArray(classes, make_value) == column
    if 0 <= ignore_index < shape[1]:  # -100, the usual one, matches no class anyway
        hit = hit & (column != ignore_index)
    return hit, SymbolicNumber(count, make_value)


@functools.cache
def class_indices(count: int) -> np.ndarray:
    """Return 0, 1, 2, …"""
    return np.arange(count)  # the same array each time, so that the program has one constant


def count_valid_rows(target: np.ndarray, shape: tuple[int, ...], ignore_index: int) -> float:
    """Return how many targets are not ignored; raise the definition's error for invalid ones."""
    if not 0 <= ignore_index < shape[1] and is_below(np.ascontiguousarray(target), shape[1]):
        return float(target.size)
    # It raises the error that the definition would.
    resolve_classes(np, shape, target, None, ignore_index)
    return float(np.count_nonzero(target != ignore_index))


DECOMPOSITIONS: dict[str, Callable[..., Any]] = {
    "erf": erf, "gelu": gelu, "gelu/input": gelu_gradient, "nll_loss": nll_loss,
    "nll_grad": nll_grad,
}  # fmt: skip
"""The decomposition by op (or "op/input": a rule); called with the op's arguments in order."""
