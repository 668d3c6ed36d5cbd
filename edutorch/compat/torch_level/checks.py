"""Conditions that libraries state: `torch._assert`, `torch._check` and its kin.

PyTorch has them for code that is traced; here they are what they say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size",
    "_check_not_implemented", "_check_tensor_all", "_check_type", "_check_value", "_check_with",
]  # fmt: skip

Message = str | Callable[[], Any] | None


def _assert(condition: Any, message: str) -> None:
    """Raise AssertionError with the message unless the condition is true.

    >>> edutorch._assert(1 > 2, "too small")
    Traceback (most recent call last):
    AssertionError: too small
    """
    if not condition:
        raise AssertionError(message)


def _assert_async(condition: Any, message: str = "the assertion failed") -> None:
    """Raise RuntimeError unless the one element is true; a GPU is waited for."""
    _check_with(RuntimeError, bool(condition), message)


def _check_with(error_type: type[Exception], cond: bool, message: Message = None) -> None:
    """Raise an error of this type unless the condition is true.

    Args:
        message: a function that returns the text, so that it is formatted only when needed.

    >>> edutorch._check_with(ValueError, False, lambda: "no")
    Traceback (most recent call last):
    ValueError: no
    """
    if not cond:
        text = message() if callable(message) else message
        raise error_type("expected cond to be true" if text is None else str(text))


def _check(cond: bool, message: Message = None) -> None:
    """Raise RuntimeError unless the condition is true.

    >>> edutorch._check(False, lambda: "two sizes differ")
    Traceback (most recent call last):
    RuntimeError: two sizes differ
    """
    _check_with(RuntimeError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    """Raise ValueError unless the condition is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    """Raise TypeError unless the condition is true."""
    _check_with(TypeError, cond, message)


def _check_index(cond: bool, message: Message = None) -> None:
    """Raise IndexError unless the condition is true."""
    _check_with(IndexError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    """Raise NotImplementedError unless the condition is true."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless `i` is a size: 0 or more, and at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless all elements of a bool tensor are true."""
    _check_with(RuntimeError, bool(cond.all()), message)
