"""Takes an op apart by running its own definition on symbols in place of arrays.

    def sigmoid(xp, input):  …  return xp.reciprocal(xp.exp(-input) + one)

Given a `Symbol`, NumPy's functions do not compute: NumPy hands the call over, and a `Value` is
noted for it. Sizes, types and settings are known, so that every `if` of a definition is decided;
only one that looks at the numbers themselves cannot be taken apart, and says so.
"""

from __future__ import annotations

from typing import Any

from .numpy_lowering import INSTEAD, average, reduced
from .symbols import NUMBERS, Kept, NotPlainError, Number, Symbol, view_of
from .values import Value

__all__ = [
    "INSTEAD", "MISTAKES", "NUMBERS", "NotPlainError", "Symbol", "average", "reduced",
    "taken_apart", "view_of",
]  # fmt: skip

MISTAKES = (TypeError, ValueError, AttributeError, LookupError, RuntimeError)
"""What a definition raises when it meets a symbol where only an array will do."""


def taken_apart(function: Any, args: Any, settings: dict[str, Any], keep: Kept) -> Any:
    """Run a definition, or a function of NumPy, on symbols.

    Returns: the value of its result, or a tuple of them.

    Raises: NotPlainError: it cannot be taken apart; the message says why.
    """
    given = [
        symbol(argument, keep) if isinstance(argument, Value) else argument for argument in args
    ]
    try:
        y = function(*given, **settings)
    except NotPlainError:
        raise
    except MISTAKES as error:
        raise NotPlainError(f"its definition cannot be taken apart ({error})") from None
    parts = y if isinstance(y, tuple) else (y,)
    if not all(isinstance(part, Symbol) for part in parts):
        raise NotPlainError("its result does not depend on numbers alone")
    values = tuple(part.value for part in parts)
    return values if isinstance(y, tuple) else values[0]


def symbol(value: Value, keep: Kept) -> Number:
    """Return what stands for a value in a definition."""
    return Number(value, keep) if value.dtype is None else Symbol(value, keep)
