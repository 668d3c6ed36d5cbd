"""Networks: modules that hold parameters, layers, losses (see README.md)."""

from __future__ import annotations

from . import attention, common_types, functional, init, modules, parallel, parameter, utils
from .factories import factory_kwargs
from .modules import *
from .parameter import Buffer, Parameter
from .uninitialized import (
    Uninitialized, UninitializedBuffer, UninitializedParameter, is_lazy,
)  # fmt: skip

# PyTorch keeps these in its `parameter.py`.
for _each in (UninitializedBuffer, UninitializedParameter, is_lazy):
    setattr(parameter, _each.__name__, _each)
parameter.__dict__["UninitializedTensorMixin"] = Uninitialized

__all__ = [
    "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "factory_kwargs",
    "attention", "common_types", "functional", "init", "parallel", "parameter", "utils",
]  # fmt: skip
__all__ += modules.__all__
