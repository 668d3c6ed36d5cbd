"""Layers as functions `torch.<name>`, with their argument lists there."""

from __future__ import annotations

from edutorch.core.argument_checks import wrap_functions
from . import layers, recurrent
from .layers import *
from .recurrent import *

__all__: list[str] = []
__all__ += layers.__all__
__all__ += recurrent.__all__

wrap_functions(globals())
