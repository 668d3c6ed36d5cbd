"""Layers as functions `torch.<name>`, with their argument lists there."""

from __future__ import annotations

from ...core.argument_checks import wrap_functions
from . import bends, layers, losses, recurrent, tables
from .bends import *
from .layers import *
from .losses import *
from .recurrent import *
from .tables import *

__all__: list[str] = []
__all__ += bends.__all__
__all__ += layers.__all__
__all__ += losses.__all__
__all__ += recurrent.__all__
__all__ += tables.__all__

wrap_functions(globals())
