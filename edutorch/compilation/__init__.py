"""`edutorch.compile`: a function is captured once, compiled, and replayed without Python per op.

`frontend.py` has the function `edutorch.compile`; the package has another name because a package
called `compile` would shadow it.
"""

from __future__ import annotations

from .compiled_function import Compiled
from .frontend import compile
from .compiled_module import OptimizedModule

__all__ = ["Compiled", "OptimizedModule", "compile"]
