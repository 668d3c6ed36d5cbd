"""Utilities around training: data loading, activation checkpointing (see README.md)."""

from __future__ import annotations

from typing import Any as _Any

# `collect_env`, which describes the machine, is in `compat/utils/`.
__path__.append(__path__[0].removesuffix("utils") + "compat/utils")

from . import checkpoint, data
from .sizes import small
from .tensor_swap import swap_tensors

__all__ = ["checkpoint", "data", "small", "swap_tensors"]


def __getattr__(name: str) -> _Any:
    """Import `benchmark` when it is first asked for."""
    if name == "benchmark":
        from importlib import import_module

        return import_module(".benchmark", __name__)
    raise AttributeError(f"module 'edutorch.utils' has no attribute {name!r}", name=name)
