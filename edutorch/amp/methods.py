"""Autocast for tensor methods that are composed functions with a policy, such as `x.addmm(a, b)`.

The functions are wrapped in `core/argument_checks.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..core.tensor import Tensor
from ..modes import current
from .lists import POLICIES


def under_autocast(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Wrap a method so that autocast converts its arguments as a whole."""

    @functools.wraps(method)
    def wrapped(*args: Any, **named: Any) -> Any:
        autocast = current().autocast
        if autocast is None:
            return method(*args, **named)
        return autocast.call(method, name, args, named)

    return wrapped


def wrap_methods() -> None:
    """Wrap the methods of all listed names that are not ops: an op calls autocast itself."""
    for name in sorted({name for policies in POLICIES.values() for name in policies}):
        method = vars(Tensor).get(name)
        if isinstance(method, FunctionType) and not hasattr(method, "op"):
            setattr(Tensor, name, under_autocast(method, name))
