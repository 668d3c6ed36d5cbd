"""Networks: modules that hold parameters, layers, losses (see README.md)."""

from __future__ import annotations

from . import functional, init, modules, utils
from .factories import factory_kwargs
from .modules import *
from .parameter import Buffer, Parameter
from .uninitialized import UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs",
    "functional", "init", "utils",
]  # fmt: skip
__all__ += modules.__all__
