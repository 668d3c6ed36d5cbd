"""`torch.onnx.symbolic_helper`: decorators of functions that describe an export."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

__all__ = ["parse_args"]


def parse_args(*arg_descriptors: str) -> Callable[[F], F]:
    """Return a decorator that returns its function: nobody exports with it."""
    return lambda fn: fn
