"""Networks: modules that hold parameters, layers, losses (see README.md)."""

from __future__ import annotations

from . import functional, init, modules, utils
from .modules import *
from .parameter import Buffer, Parameter

__all__ = ["Buffer", "Parameter", "functional", "init", "utils"]
__all__ += modules.__all__
