"""Layers and checks as functions `torch.<name>`, with their argument lists there."""

from __future__ import annotations

from edutorch.core.composed import wrap_functions
from . import checks, layers, recurrent, private_names
from .checks import *
from .layers import *
from .recurrent import *
from .private_names import *

__all__: list[str] = []
__all__ += checks.__all__
__all__ += layers.__all__
__all__ += recurrent.__all__
__all__ += private_names.__all__

wrap_functions(globals())
