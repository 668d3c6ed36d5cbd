"""Layers as functions `torch.<name>`, with their argument lists there."""

from __future__ import annotations

from edutorch.core.argument_checks import wrap_functions
from . import activations, embeddings, layers, losses, recurrent
from .activations import *
from .layers import *
from .losses import *
from .recurrent import *
from .embeddings import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += layers.__all__
__all__ += losses.__all__
__all__ += recurrent.__all__
__all__ += embeddings.__all__

wrap_functions(globals())
