"""Decomposes an op by symbolic evaluation: its own definition runs on symbols instead of arrays.

    def sigmoid(xp, input):  …  return xp.reciprocal(xp.exp(-input) + one)

Given a `SymbolicArray`, NumPy's functions do not compute: NumPy dispatches the call to the symbol
(`__array_ufunc__`), which adds a `Value` to the program. Shapes, dtypes and settings are known, so
every `if` of a definition can be decided; only a definition that reads the elements themselves
cannot be decomposed, and raises.
"""

from __future__ import annotations

from typing import Any

from .numpy_lowering import REPLACEMENTS, lower_mean, lower_reduction
from .symbols import (
    KERNEL_DTYPES,
    SymbolicArray,
    SymbolicNumber,
    UnsupportedDefinitionError,
    ValueMaker,
    make_view,
)
from .values import Value

__all__ = [
    "REPLACEMENTS", "SYMBOLIC_ERRORS", "KERNEL_DTYPES", "UnsupportedDefinitionError",
    "SymbolicArray", "lower_mean", "lower_reduction", "evaluate_symbolically", "make_view",
]  # fmt: skip

SYMBOLIC_ERRORS = (TypeError, ValueError, AttributeError, LookupError, RuntimeError)
"""What a definition raises when it gets a symbol where it needs an array."""


def evaluate_symbolically(
    function: Any, args: Any, settings: dict[str, Any], make_value: ValueMaker
) -> Any:
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
    except SYMBOLIC_ERRORS as error:
        raise UnsupportedDefinitionError(f"its definition cannot be decomposed ({error})") from None
    parts = y if isinstance(y, tuple) else (y,)
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
