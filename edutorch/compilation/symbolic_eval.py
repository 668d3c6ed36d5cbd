"""Takes an op apart by running its own definition on symbols in place of arrays.

    def sigmoid(xp, input):  …  return xp.reciprocal(xp.exp(-input) + one)

Given a `Symbol`, NumPy's functions do not compute: NumPy hands the call over, and a `Value` is
noted for it. Sizes, types and settings are known, so that every `if` of a definition is decided;
only one that looks at the numbers themselves cannot be taken apart, and says so.
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
"""What a definition raises when it meets a symbol where only an array will do."""


def evaluate_symbolically(
    function: Any, args: Any, settings: dict[str, Any], make_value: ValueMaker
) -> Any:
    """Run a definition, or a function of NumPy, on symbols.

    Returns: the value of its result, or a tuple of them.

    Raises: NotPlainError: it cannot be taken apart; the message says why.
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
        raise UnsupportedDefinitionError(
            f"its definition cannot be taken apart ({error})"
        ) from None
    parts = y if isinstance(y, tuple) else (y,)
    if not all(isinstance(part, SymbolicArray) for part in parts):
        raise UnsupportedDefinitionError("its result does not depend on numbers alone")
    values = tuple(part.value for part in parts)
    return values if isinstance(y, tuple) else values[0]


def make_symbol(value: Value, make_value: ValueMaker) -> SymbolicNumber:
    """Return what stands for a value in a definition."""
    return (
        SymbolicNumber(value, make_value)
        if value.dtype is None
        else SymbolicArray(value, make_value)
    )
