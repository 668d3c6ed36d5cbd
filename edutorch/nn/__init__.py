"""Neural networks: modules, parameters, layers and losses (see README.md)."""

from __future__ import annotations

# `quantized`, the older name of `ao.nn.quantized`, is in `compat/nn/`.
__path__.append(__path__[0].removesuffix("nn") + "compat/nn")

from typing import Any as _Any

from . import attention, common_types, functional, init, modules, parallel, parameter, utils
from .common_types import factory_kwargs
from .modules import *
from .parallel import DataParallel
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter, is_lazy

__all__ = [
    "Buffer",
    "DataParallel",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "factory_kwargs",
    "attention",
    "common_types",
    "functional",
    "init",
    "parallel",
    "parameter",
    "utils",
]
__all__ += modules.__all__


def __getattr__(name: str) -> _Any:
    """Import `quantized` when it is first asked for."""
    if name == "quantized":
        from importlib import import_module

        return import_module(".quantized", __name__)
    raise AttributeError(f"module 'edutorch.nn' has no attribute {name!r}", name=name)
